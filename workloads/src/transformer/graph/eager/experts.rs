//! A block's experts as grouped products: tokens sorted by expert, all wide matrices of a layer in
//! one kernel, and all narrow ones.
//!
//! The sort, its inverse and the counts of tokens are left out: some bytes per token.

use super::super::pass::GraphBuilder;
use super::super::state::{MixtureState, Mlp};
use super::At;
use crate::build::{ObjectAccess, read, write};
use crate::transformer::graph::saved::{KeptByGroups, SavedByExperts};
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::{Kernel, Product, Work};

/// Which of an expert's matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matrix {
    Wide,
    Narrow,
}

impl Matrix {
    pub(crate) fn of(self, mlp: &Mlp) -> usize {
        match self {
            Matrix::Wide => mlp.up_proj[0],
            Matrix::Narrow => mlp.down_proj,
        }
    }
}

impl GraphBuilder<'_> {
    /// Products of each expert's tokens with its matrix, or, `turned`, with its transpose.
    pub(crate) fn grouped(
        &mut self,
        at: At,
        mixture: &MixtureState,
        tokens: &[u128],
        (matrix, turned): (Matrix, bool),
        [x, y]: [ObjectId; 2],
    ) {
        let busy = mixture.experts.iter().zip(tokens).filter(|(_, tokens)| **tokens > 0);
        let busy: Vec<(usize, u128)> =
            busy.map(|(mlp, &tokens)| (matrix.of(mlp), tokens)).collect();
        let rows = busy.iter().map(|&(_, tokens)| tokens).sum::<u128>().max(1);
        let per_row = (self.build.size(x) + self.build.size(y)) / rows;
        let kernels = busy.iter().map(|&(owned, tokens)| {
            let of = self.product(owned, tokens);
            let of = if turned { of.gradient_of_input() } else { of };
            let bytes = self.build.touched(&[self.weight(owned)]) + tokens * per_row;
            Kernel::new(Work::Product(of), of.flops(), bytes)
        });
        let kernels: Vec<Kernel> = kernels.collect();
        let mut touches: Vec<ObjectAccess> =
            busy.iter().map(|&(owned, _)| self.weight(owned)).collect();
        touches.extend([read(x), write(y)]);
        if kernels.is_empty() {
            self.run_into(at, "zero", (0, &[]), &[write(y)]);
            return;
        }
        self.build.kernels("_grouped_mm", at.by, kernels, &touches);
    }

    /// The experts' part of a block's forward pass, each with so many tokens; gives their sum.
    pub(crate) fn eager_mixture(
        &mut self,
        mixture: &MixtureState,
        tokens: Vec<u128>,
        input: ObjectId,
    ) -> (SavedByExperts, ObjectId) {
        let (by, sizes) = (self.module(mixture.router), self.sizes);
        let at = self.at(by);
        let wide = at.wide();
        let all = self.owned[mixture.router].outputs * sizes.tokens;
        let logits = self.result(at, "logits", all, false);
        self.linear(mixture.router, sizes.tokens, read(input), write(logits));
        let probabilities = self.keep(wide, "_softmax", &[read(logits)], all);
        let copies = self.copies() / sizes.hidden.max(1);
        let best = self.made(wide, "topk", &[read(probabilities)], copies);
        let sums = self.result(wide, "sum", sizes.tokens, true);
        self.run_into(wide, "sum", (copies, &[read(best)]), &[write(sums)]);
        let chosen = self.keep(wide, "clone", &[read(best)], copies);
        let shares = self.made(wide, "div_", &[read(chosen), read(sums)], copies);
        let weights = self.keep(wide, "index", &[read(shares)], copies);
        let here = tokens.iter().sum::<u128>().max(1);
        let given = self.kept(by, "given", here * sizes.hidden, by);
        self.run_into(at, "index", (0, &[read(input)]), &[write(given)]);
        let width = mixture.experts.first().map_or(0, |mlp| mlp.width);
        let inner = self.result(at, "gate_up", 2 * here * width, true);
        self.grouped(at, mixture, &tokens, (Matrix::Wide, false), [given, inner]);
        let half = read(inner).part(self.build.size(inner) / 2);
        let [silu, active] = self.eager_silu(at, [half, half], here * width);
        let back = self.result(at, "back", here * sizes.hidden, true);
        self.grouped(at, mixture, &tokens, (Matrix::Narrow, false), [active, back]);
        let from = [read(back), read(weights)];
        let weighed = self.made(at, "mul", &from, here * sizes.hidden);
        let sorted = self.made(at, "index", &[read(weighed)], here * sizes.hidden);
        let stream = sizes.tokens * sizes.hidden;
        let y = self.reduce_to(at, "sum", (read(sorted), here * sizes.hidden), stream);
        let groups =
            KeptByGroups { probabilities, chosen, sums, weights, gate_up: inner, silu, active };
        let kept = SavedByExperts {
            gates: probabilities,
            given,
            tokens,
            experts: Vec::new(),
            back,
            shared: None,
            groups: Some(groups),
        };
        (kept, y)
    }

    /// The product of which a weight's gradient is one.
    pub(crate) fn of_weights(&self, owned: usize, tokens: u128) -> Product {
        self.product(owned, tokens).gradient_of_weight()
    }
}
