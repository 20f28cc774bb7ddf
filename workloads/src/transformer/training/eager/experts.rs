//! The backward pass of experts as grouped products.

use crate::build::{change, read, write};
use crate::transformer::graph::eager::At;
use crate::transformer::graph::eager::experts::Matrix;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{KeptByGroups, SavedByExperts};
use crate::transformer::graph::state::MixtureState;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Work;

impl GraphBuilder<'_> {
    /// From the gradient of the sum to that of the block's normed middle: `[input, dy, dx]`.
    pub(in crate::transformer::training) fn eager_mixture_backward(
        &mut self,
        mixture: &MixtureState,
        (kept, groups): (&SavedByExperts, KeptByGroups),
        [input, dy, dx]: [ObjectId; 3],
    ) {
        let (sizes, by) = (self.sizes, self.module(mixture.router));
        let at = self.at(by);
        let copies = self.copies() / sizes.hidden.max(1);
        let rows = kept.tokens.iter().sum::<u128>().max(1);
        let numbers = rows * sizes.hidden;
        // Every copy of a token gets its gradient, and is sorted by expert.
        let each = self.made(at, "clone", &[read(dy)], numbers);
        let zeros = self.made(at, "new_zeros", &[], numbers);
        let d = self.made(at, "index_put", &[read(each), read(zeros)], numbers);
        let d_weights = self.made(at, "mul", &[read(kept.back), read(d)], numbers);
        let d_back = self.made(at, "mul", &[read(groups.weights), read(d)], numbers);
        let wide = at.wide();
        let d_weights = self.reduce_to(wide, "sum", (read(d_weights), numbers), copies);
        self.grouped_gradient(at, mixture, kept, Matrix::Narrow, [groups.active, d_back]);
        let width = mixture.experts.first().map_or(0, |mlp| mlp.width) * rows;
        let d_active = self.result(at, "_grouped_mm", width, false);
        let narrow = (Matrix::Narrow, true);
        self.grouped(at, mixture, &kept.tokens, narrow, [d_back, d_active]);
        let half = read(groups.gate_up).part(self.build.size(groups.gate_up) / 2);
        let from = [half, half, read(groups.silu), read(d_active)];
        let both = self.silu_backward(at, from, width);
        let d_inner = self.made(at, "cat", &both.map(read), 2 * width);
        self.grouped_gradient(at, mixture, kept, Matrix::Wide, [kept.given, d_inner]);
        let d_given = self.result(at, "_grouped_mm", numbers, false);
        self.grouped(at, mixture, &kept.tokens, (Matrix::Wide, true), [d_inner, d_given]);
        let d_logits = self.router_backward(wide, mixture, groups, d_weights);
        let zeros = self.made(at, "new_zeros", &[], sizes.tokens * sizes.hidden);
        let from = [read(d_given), read(zeros)];
        self.run_into(at, "index_put", (0, &from), &[write(dx)]);
        let touches = [read(input), read(d_logits), change(dx)];
        self.linear_backward(mixture.router, sizes.tokens, touches);
    }

    /// From the gradient of the chosen experts' weights to that of the router's logits.
    fn router_backward(
        &mut self,
        at: At,
        mixture: &MixtureState,
        groups: KeptByGroups,
        d_weights: ObjectId,
    ) -> ObjectId {
        let tokens = self.sizes.tokens;
        let copies = self.copies() / self.sizes.hidden.max(1);
        let zeros = self.made(at, "new_zeros", &[], copies);
        let d = self.made(at, "index_put", &[read(d_weights), read(zeros)], copies);
        let sums = read(groups.sums);
        let share = self.made(at, "div", &[read(groups.chosen), sums], copies);
        let share = self.made(at, "div", &[read(share), sums], copies);
        let negative = self.made(at, "neg", &[read(d)], copies);
        let d_sums = self.made(at, "mul", &[read(share), read(negative)], copies);
        let d = self.made(at, "div", &[read(d), sums], copies);
        let d_sums = self.reduce_to(at, "sum", (read(d_sums), copies), tokens);
        let d = self.made(at, "add", &[read(d), read(d_sums)], copies);
        let all = self.owned[mixture.router].outputs * tokens;
        let zeros = self.made(at, "new_zeros", &[], all);
        let d = self.made(at, "scatter", &[read(d), read(zeros)], all);
        let from = [read(d), read(groups.probabilities)];
        let narrow = At { format: self.sizes.work, ..at };
        self.made(narrow, "_softmax_backward_data", &from, all)
    }

    /// Gradients of all experts' matrices, of those without tokens zeros: one op each, so that each
    /// may be reduced as soon as it is there. The kernel that makes them is one.
    fn grouped_gradient(
        &mut self,
        at: At,
        mixture: &MixtureState,
        kept: &SavedByExperts,
        matrix: Matrix,
        [x, d]: [ObjectId; 2],
    ) {
        let rows = kept.tokens.iter().sum::<u128>().max(1);
        let of: Vec<usize> = mixture.experts.iter().map(|mlp| matrix.of(mlp)).collect();
        for (owned, &tokens) in of.into_iter().zip(&kept.tokens) {
            let mut target = self.target(owned);
            let product = self.of_weights(owned, tokens);
            let part = |object, maker: &Self| maker.build.size(object) * tokens / rows;
            let from = [read(x).part(part(x, self)), read(d).part(part(d, self))];
            let numbers = target.numbers;
            self.part_of_gradient(at, &mut target, numbers, |maker, to| {
                let touches = [&from, to].concat();
                let work = (Work::Product(product), product.flops());
                maker.build.kernel("_grouped_mm", at.by, work, &touches);
            });
            self.done(owned);
        }
    }
}
