//! A block's experts: a router, copies of each token for the experts that it is given to, and their
//! sum.
//!
//! With expert parallelism the ranks of the group exchange those copies before and after the
//! experts (all-to-all), and each rank runs its experts on what all of them send. Every rank of the
//! group routes alike, so this rank receives as much as its experts are given of all tokens. The
//! router's probabilities are fp32. A rank of a tensor group has its part of each expert and copies
//! of all the group's tokens, with sequence parallelism too. Experts that no token goes to still
//! have a gradient, of zeros.

use super::pass::GraphBuilder;
use super::state::{MixtureState, Mlp};
use crate::build::{change, read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{SavedByExperts, SavedByShared, SavedFeedForward};
use crate::transformer::routing;
use crate::transformer::training::{Kernels, Router};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Experts, Streaming, Work};
use tiersim_models::workload::CollectiveKind;

impl GraphBuilder<'_> {
    /// Tokens of each expert of this rank in block `layer`, of those of all ranks of the expert
    /// group.
    fn expert_tokens(&self, layer: u32, here: usize) -> Vec<u128> {
        let Some(experts) = &self.shape.card.experts else { return Vec::new() };
        let Router { seed, skew } = self.shape.router;
        let place = (u64::from(layer), u64::from(self.micro));
        let group = u128::from(self.shape.parallel.expert);
        let tokens = u64::try_from(self.sizes.tokens).unwrap_or(u64::MAX / 4096);
        let all = routing::tokens(experts, tokens, (seed, skew), place);
        all.into_iter().take(here).map(|tokens| u128::from(tokens) * group).collect()
    }

    /// Copies of this rank's tokens for experts.
    pub(crate) fn copies(&self) -> u128 {
        let active = self.shape.card.experts.map_or(0, |experts| u128::from(experts.active));
        self.sizes.tokens * active * self.sizes.hidden
    }

    /// All-to-all over the expert group: `x` goes, `y` comes. It counts as the larger of the two.
    pub(crate) fn exchange(&mut self, by: ModuleId, x: ObjectId, y: ObjectId) {
        let bytes = self.build.size(x).max(self.build.size(y));
        let unit = self.groups.expert.does(CollectiveKind::AllToAll, bytes);
        let touches = [read(x), write(y)];
        self.build.op_on(unit, 0, CollectiveKind::AllToAll.word(), by, 0, &touches);
    }

    /// The experts' part of a block's forward pass; gives the sum over the experts of each token.
    pub(crate) fn mixture(
        &mut self,
        layer: u32,
        mixture: &MixtureState,
        input: ObjectId,
    ) -> (SavedByExperts, ObjectId) {
        let (by, sizes) = (self.module(mixture.router), self.sizes);
        if self.is_eager() {
            let tokens = self.expert_tokens(layer, mixture.experts.len());
            return self.eager_mixture(mixture, tokens, input);
        }
        let is_alone = self.shape.parallel.expert == 1;
        let four = u128::from(Format::Fp32.bytes());
        let choices = sizes.tokens * self.owned[mixture.router].outputs;
        let gates = self.activation(by, "gates", (choices * four, Format::Fp32), by);
        self.linear(mixture.router, sizes.tokens, read(input), write(gates));
        let tokens = self.expert_tokens(layer, mixture.experts.len());
        if self.cache.is_some() && self.shape.kernels == Kernels::Fused {
            let y = self.buffer(by, "part", sizes.tokens * sizes.hidden);
            self.in_one_kernel(mixture, &tokens, [input, gates, y]);
            let shared = mixture.shared.as_ref().map(|shared| self.shared(shared, input, y));
            let (given, back, experts) = (y, y, Vec::new());
            let groups = None;
            let kept = SavedByExperts { gates, given, tokens, experts, back, shared, groups };
            return (kept, y);
        }
        let here = tokens.iter().sum::<u128>().max(1) * sizes.hidden;
        let copies = self.copies();
        let given = self.kept_if(self.keeps_input(&[]), by, ("given", here), by);
        let sent = if is_alone { given } else { self.buffer(by, "sent", copies) };
        self.build.streaming(
            "dispatch",
            by,
            Streaming::ElementWise,
            &[read(input), read(gates), write(sent)],
        );
        if !is_alone {
            self.exchange(by, sent, given);
        }
        let back = self.kept(by, "back", copies, by);
        let done = if is_alone { back } else { self.buffer(by, "done", here) };
        let experts = self.experts(mixture, &tokens, given, done);
        if !is_alone {
            self.exchange(by, done, back);
        }
        let y = self.buffer(by, "part", sizes.tokens * sizes.hidden);
        self.build.streaming(
            "combine",
            by,
            Streaming::ElementWise,
            &[read(back), read(gates), write(y)],
        );
        let shared = mixture.shared.as_ref().map(|shared| self.shared(shared, input, y));
        let groups = None;
        (SavedByExperts { gates, given, tokens, experts, back, shared, groups }, y)
    }

    /// All experts that have tokens, as serving engines run them: `[input, gates, y]`.
    fn in_one_kernel(
        &mut self,
        mixture: &MixtureState,
        tokens: &[u128],
        [input, gates, y]: [ObjectId; 3],
    ) {
        let Some(card) = self.shape.card.experts else { return };
        let (sizes, by) = (self.sizes, self.module(mixture.router));
        let busy: Vec<(&Mlp, u128)> =
            mixture.experts.iter().zip(tokens.iter().copied()).filter(|one| one.1 > 0).collect();
        let all: u128 = busy.iter().map(|&(_, tokens)| tokens).sum();
        let width = mixture.experts.first().map_or(0, |mlp| mlp.width);
        let inner = self.buffer(by, "inner", all * width);
        let mut touches = vec![read(input), read(gates), write(inner), write(y)];
        let mut flops = 0;
        for &(mlp, tokens) in &busy {
            for owned in mlp.up_proj.iter().copied().chain([mlp.down_proj]) {
                touches.push(self.weight(owned));
                flops += 2 * tokens * self.owned[owned].products;
            }
        }
        let cut = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let work = Experts {
            tokens: cut(sizes.tokens),
            hidden: cut(sizes.hidden),
            ffn: cut(width),
            top_k: card.active,
            experts: mixture.experts.len() as u32,
            given: cut(all),
            busy: busy.len() as u32,
            most: cut(busy.iter().map(|&(_, tokens)| tokens).max().unwrap_or(0)),
        };
        self.build.kernel("experts", by, (Work::Experts(work), flops), &touches);
    }

    /// Every expert's part of `given`, to its part of `done`.
    fn experts(
        &mut self,
        mixture: &MixtureState,
        tokens: &[u128],
        given: ObjectId,
        done: ObjectId,
    ) -> Vec<Option<SavedFeedForward>> {
        let all = tokens.iter().sum::<u128>().max(1);
        let mut is_first = true;
        let each = mixture.experts.iter().zip(tokens).map(|(mlp, &count)| {
            let part = |object, maker: &Self| maker.build.size(object) * count / all;
            (count > 0).then(|| {
                let from = read(given).part(part(given, self));
                let to = if is_first { write(done) } else { change(done) };
                is_first = false;
                let to = to.part(part(done, self));
                self.feed_forward(mlp, count, from, to)
            })
        });
        let experts: Vec<Option<SavedFeedForward>> = each.collect();
        if is_first {
            // No token came here: the other ranks get nothing of what they wait for.
            self.build.streaming(
                "zero",
                self.module(mixture.router),
                Streaming::ElementWise,
                &[write(done)],
            );
        }
        experts
    }

    /// What every token goes through, weighed if it is, and added to `y`.
    fn shared(
        &mut self,
        (mlp, gate): &(Mlp, Option<usize>),
        input: ObjectId,
        y: ObjectId,
    ) -> SavedByShared {
        let sizes = self.sizes;
        let Some(gate) = *gate else {
            // The narrow matrix adds to what is there.
            let kept = self.feed_forward(mlp, sizes.tokens, read(input), change(y));
            return SavedByShared { kept, weighed: None };
        };
        let by = self.module(gate);
        let weight = self.kept(by, "out", sizes.tokens, by);
        self.linear(gate, sizes.tokens, read(input), write(weight));
        let out = self.kept(by, "weighed", sizes.tokens * sizes.hidden, by);
        let kept = self.feed_forward(mlp, sizes.tokens, read(input), write(out));
        self.build.streaming(
            "combine",
            by,
            Streaming::ElementWise,
            &[read(out), read(weight), change(y)],
        );
        SavedByShared { kept, weighed: Some([out, weight]) }
    }
}
