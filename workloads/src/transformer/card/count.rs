//! How many parameters a model has, in all and per token.
//!
//! Sums over one block of each sort times the number of blocks, in 128 bits: no card overflows them.

use super::{Card, CardTensor, TensorKind};

impl Card {
    /// Every parameter; a tied head counts once.
    ///
    /// # Panics
    /// If the card has [`Card::problems`] and more parameters than 64 bits count.
    pub fn parameters(&self) -> u64 {
        fits(self.count(|part| part.numel()))
    }

    /// Parameters that one token goes through: of the routed experts only the active ones. Tables
    /// count in full, as published figures have it.
    ///
    /// # Panics
    /// As [`Card::parameters`].
    pub fn active_parameters(&self) -> u64 {
        fits(self.count(|part| self.active(part)))
    }

    /// Parameters that one token is multiplied with: of matrices, active ones, the head's (tied or
    /// not) among them, tables of embeddings not. A forward pass takes twice as many FLOPs per
    /// token, and attention on top.
    ///
    /// # Panics
    /// As [`Card::parameters`].
    pub fn matrix_parameters(&self) -> u64 {
        let head = if self.tied { u128::from(self.vocab) * u128::from(self.hidden) } else { 0 };
        let matrix = |part: &CardTensor| {
            // Biases of experts are a row for each of them.
            let other = matches!(part.kind, TensorKind::Embedding | TensorKind::Norm)
                || part.name.ends_with("bias");
            let product = part.shape.len() > 1 && !other;
            if product { self.active(part) } else { 0 }
        };
        fits(head + self.count(matrix))
    }

    /// Parameters of the last block, which most or all others are like.
    ///
    /// # Panics
    /// As [`Card::parameters`].
    pub fn block_parameters(&self) -> u64 {
        let last = self.layers.saturating_sub(1);
        fits(self.block(last).iter().map(CardTensor::numel).sum())
    }

    /// Parameters in front of the blocks: the tables of tokens and positions, and norms of what
    /// they give.
    ///
    /// # Panics
    /// As [`Card::parameters`].
    pub fn embedding_parameters(&self) -> u64 {
        let (before, behind) = self.around();
        let all = before.iter().chain(&behind).filter(|part| part.kind != TensorKind::Head);
        fits(all.map(CardTensor::numel).sum::<u128>() - u128::from(self.norm_parameters()))
    }

    /// Parameters of the norm behind the blocks, and of each that a block has of the residual
    /// stream.
    pub fn norm_parameters(&self) -> u64 {
        u64::from(self.hidden) * if self.family.norm_has_bias() { 2 } else { 1 }
    }

    /// A sum over all tensors.
    pub(super) fn count(&self, of: impl Fn(&CardTensor) -> u128) -> u128 {
        let (before, behind) = self.around();
        let around: u128 = before.iter().chain(&behind).map(&of).sum();
        let blocks = self.sorts(self.layers).map(|(layer, count)| {
            u128::from(count) * self.block(layer).iter().map(&of).sum::<u128>()
        });
        blocks.sum::<u128>() + around
    }

    /// Numbers of a tensor that one token goes through.
    fn active(&self, part: &CardTensor) -> u128 {
        match (&self.experts, part.kind) {
            // The experts of a block are one tensor.
            (Some(experts), TensorKind::Expert) => {
                part.numel() / u128::from(experts.count.max(1)) * u128::from(experts.active)
            }
            _ => part.numel(),
        }
    }
}

fn fits(count: u128) -> u64 {
    u64::try_from(count).expect("a card without problems has fewer parameters")
}
