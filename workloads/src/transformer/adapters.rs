//! Adapters of low rank beside frozen matrices.
//!
//! LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1): a
//! matrix W of outputs x inputs stays as it is, and y = W x + B A x, where A is r x inputs and B is
//! outputs x r. Of a model only A and B are trained; their factor alpha / r is a part of the second
//! product and takes no memory. Where queries, keys and values are one matrix, A has r rows for
//! each of them that is adapted, and B the rows of those alone (`MergedLinear` of
//! github:microsoft/LoRA), so that parameters and FLOPs are those of separate matrices.
//!
//! Tensor parallelism splits B where W is split by outputs, and A where W is split by inputs; the
//! other one is on every rank of a tensor group, each of which has a part of its gradient.
//! The module `adapted` puts them into a block.

use super::card::Card;
use crate::limits::ShapeProblem;
use serde::Deserialize;

/// A matrix of a block that may have an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// What is behind attention.
    O,
    /// The gate of the feed-forward part, in a family that has one.
    Gate,
    /// The wide matrix of the feed-forward part.
    Up,
    /// The narrow one.
    Down,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 7] =
        [Target::Q, Target::K, Target::V, Target::O, Target::Gate, Target::Up, Target::Down];

    /// The word used in scenarios and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Target::Q => "q",
            Target::K => "k",
            Target::V => "v",
            Target::O => "o",
            Target::Gate => "gate",
            Target::Up => "up",
            Target::Down => "down",
        }
    }
}

/// Some of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Vec<Target>")]
pub struct Targets(u8);

impl Targets {
    /// Queries and values, as in the paper's experiments and in PEFT unless said otherwise.
    pub const QV: Targets = Targets(1 << Target::Q as u8 | 1 << Target::V as u8);

    /// Whether `target` is among them.
    pub const fn has(self, target: Target) -> bool {
        self.0 & (1 << target as u8) > 0
    }

    /// In the order of a block.
    pub fn iter(self) -> impl Iterator<Item = Target> {
        Target::ALL.into_iter().filter(move |&target| self.has(target))
    }
}

impl From<Vec<Target>> for Targets {
    fn from(all: Vec<Target>) -> Targets {
        Targets(all.into_iter().fold(0, |so_far, target| so_far | 1 << target as u8))
    }
}

impl Default for Targets {
    fn default() -> Targets {
        Targets::QV
    }
}

/// Adapters of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Rows of A and columns of B.
    pub rank: u32,
    /// The matrices that have them.
    ///
    /// Default: `[q, v]`.
    #[serde(default)]
    pub targets: Targets,
}

/// The largest rank.
const MOST: u32 = 1 << 14;

impl Lora {
    /// Parameters of the adapters of a whole model: all that is trained of it.
    pub fn parameters(&self, card: &Card) -> u128 {
        let rank = u128::from(self.rank);
        let each = self.targets.iter().map(|target| {
            let [outputs, inputs] = shape(card, target).map(u128::from);
            rank * (outputs + inputs)
        });
        each.sum::<u128>() * u128::from(card.layers)
    }

    /// Every rule that adapters of this model break; empty for those that make a step.
    pub fn problems(&self, card: &Card) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        let mut add =
            |field, rule: String, remedy| found.push(ShapeProblem { field, rule, remedy });
        if !(1..=MOST).contains(&self.rank) {
            let rule = format!("`rank` must lie between 1 and {MOST}, it is {}", self.rank);
            add("lora.rank", rule, "write 16");
        }
        if self.targets.0 == 0 {
            let rule = "no matrix has an adapter, so that nothing is trained".to_owned();
            add("lora.targets", rule, "write `[q, v]`");
        }
        if card.latent.is_some() {
            let rule = "adapters are not known beside compressed keys and values".to_owned();
            add("lora", rule, "train all weights, or choose another model");
        }
        let of_feed = [Target::Gate, Target::Up, Target::Down];
        if card.experts.is_some() && of_feed.into_iter().any(|target| self.targets.has(target)) {
            let rule = "experts have no adapters here".to_owned();
            add("lora.targets", rule, "choose from q, k, v and o");
        } else if self.targets.has(Target::Gate) && !card.family.is_gated() {
            let rule = format!("the feed-forward part of {} has no gate", card.family.word());
            add("lora.targets", rule, "leave `gate` out");
        }
        found
    }
}

/// Outputs and inputs of a target.
pub(crate) fn shape(card: &Card, target: Target) -> [u64; 2] {
    let [hidden, ffn] = [card.hidden, card.ffn].map(u64::from);
    match target {
        Target::Q => [card.q_width(), hidden],
        Target::K | Target::V => [card.kv_width(), hidden],
        Target::O => [hidden, card.q_width()],
        Target::Gate | Target::Up => [ffn, hidden],
        Target::Down => [hidden, ffn],
    }
}
