//! A block's experts: a router, copies of each token for the experts that it is given to, and their
//! sum.
//!
//! With expert parallelism the ranks of the group exchange those copies before and after the
//! experts (all-to-all), and each rank runs its experts on what all of them send. Every rank of the
//! group routes alike, so this rank receives as much as its experts are given of all tokens. The
//! router's probabilities are fp32. A rank of a tensor group has its part of each expert and copies
//! of all the group's tokens, with sequence parallelism too. Experts that no token goes to still
//! have a gradient, of zeros.

use super::Router;
use super::forward::{SavedByExperts, SavedByShared, SavedFeedForward};
use super::pass::GraphBuilder;
use super::state::{MixtureState, Mlp};
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::routing;
use tiersim_models::ids::{ModuleId, ObjectId};
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
    fn copies(&self) -> u128 {
        let active = self.shape.card.experts.map_or(0, |experts| u128::from(experts.active));
        self.sizes.tokens * active * self.sizes.hidden
    }

    /// All-to-all over the expert group: `x` goes, `y` comes. It counts as the larger of the two.
    fn exchange(&mut self, by: ModuleId, x: ObjectId, y: ObjectId) {
        let bytes = self.build.size(x).max(self.build.size(y));
        let unit = self.groups.expert.does(CollectiveKind::AllToAll, bytes);
        let touches = [read(x), write(y)];
        self.build.op_on(unit, 0, CollectiveKind::AllToAll.word(), by, 0, &touches);
    }

    /// The experts' part of a block's forward pass; gives the sum over the experts of each token.
    pub(super) fn mixture(
        &mut self,
        layer: u32,
        mixture: &MixtureState,
        input: ObjectId,
    ) -> (SavedByExperts, ObjectId) {
        let (by, sizes) = (self.module(mixture.router), self.sizes);
        let is_alone = self.shape.parallel.expert == 1;
        let four = u128::from(Format::Fp32.bytes());
        let choices = sizes.tokens * self.owned[mixture.router].outputs;
        let gates = self.activation(by, "gates", (choices * four, Format::Fp32), by);
        self.linear(mixture.router, sizes.tokens, read(input), write(gates));
        let tokens = self.expert_tokens(layer, mixture.experts.len());
        let here = tokens.iter().sum::<u128>().max(1) * sizes.hidden;
        let copies = self.copies();
        let given = self.kept(by, "given", here, by);
        let sent = if is_alone { given } else { self.buffer(by, "sent", copies) };
        self.build.op("dispatch", by, 0, &[read(input), read(gates), write(sent)]);
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
        self.build.op("combine", by, 0, &[read(back), read(gates), write(y)]);
        let shared = mixture.shared.as_ref();
        let shared = shared.map(|(mlp, gate)| self.shared(mlp, *gate, input, y));
        (SavedByExperts { gates, given, tokens, experts, back, shared }, y)
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
            self.build.op("zero", self.module(mixture.router), 0, &[write(done)]);
        }
        experts
    }

    /// What every token goes through, weighed and added to `y`.
    fn shared(&mut self, mlp: &Mlp, gate: usize, input: ObjectId, y: ObjectId) -> SavedByShared {
        let sizes = self.sizes;
        let by = self.module(gate);
        let weight = self.kept(by, "out", sizes.tokens, by);
        self.linear(gate, sizes.tokens, read(input), write(weight));
        let out = self.kept(by, "weighed", sizes.tokens * sizes.hidden, by);
        let kept = self.feed_forward(mlp, sizes.tokens, read(input), write(out));
        self.build.op("combine", by, 0, &[read(out), read(weight), change(y)]);
        SavedByShared { kept, out, weight }
    }

    /// From the gradient of the sum to that of the block's normed middle: `[input, dy, dx]`.
    pub(super) fn mixture_backward(
        &mut self,
        mixture: &MixtureState,
        kept: &SavedByExperts,
        [input, dy, dx]: [ObjectId; 3],
    ) {
        let (by, sizes) = (self.module(mixture.router), self.sizes);
        let is_alone = self.shape.parallel.expert == 1;
        let here = kept.tokens.iter().sum::<u128>().max(1) * sizes.hidden;
        let copies = self.copies();
        let choices = sizes.tokens * self.owned[mixture.router].outputs;
        let d_gates = self.buffer(by, "gates.grad", choices);
        let d_back = self.buffer(by, "back.grad", copies);
        let touches = [read(dy), read(kept.back), read(kept.gates), write(d_back), write(d_gates)];
        self.build.op("combine_backward", by, 0, &touches);
        let d_done = if is_alone { d_back } else { self.buffer(by, "done.grad", here) };
        if !is_alone {
            self.exchange(by, d_back, d_done);
        }
        let d_given = self.buffer(by, "given.grad", here);
        self.experts_backward(mixture, kept, d_done, d_given);
        let d_sent = if is_alone { d_given } else { self.buffer(by, "sent.grad", copies) };
        if !is_alone {
            self.exchange(by, d_given, d_sent);
        }
        self.build.op("dispatch_backward", by, 0, &[read(d_sent), write(dx)]);
        let touches = [read(input), read(d_gates), change(dx)];
        self.linear_backward(mixture.router, sizes.tokens, touches);
        if let (Some((mlp, gate)), Some(shared)) = (&mixture.shared, &kept.shared) {
            self.shared_backward(mlp, *gate, shared, [input, dy, dx]);
        }
    }

    fn experts_backward(
        &mut self,
        mixture: &MixtureState,
        kept: &SavedByExperts,
        d_done: ObjectId,
        d_given: ObjectId,
    ) {
        let all = kept.tokens.iter().sum::<u128>().max(1);
        let mut is_first = true;
        let each = mixture.experts.iter().zip(&kept.experts).zip(&kept.tokens).rev();
        for ((mlp, kept_of), &tokens) in each {
            let Some(kept_of) = kept_of else {
                self.no_gradient(mlp);
                continue;
            };
            let part = |object, maker: &Self| maker.build.size(object) * tokens / all;
            let from = read(kept.given).part(part(kept.given, self));
            let dy = read(d_done).part(part(d_done, self));
            let bytes = part(d_given, self);
            let mut to = |first: bool, last: bool| {
                let is_whole = first && is_first;
                is_first &= !last;
                match (is_whole, first) {
                    (true, _) => write(d_given).part(bytes),
                    // The others' parts are there already, and its own is overwritten.
                    (false, true) => change(d_given).part(bytes),
                    (false, false) => change(d_given).part(2 * bytes),
                }
            };
            self.feed_forward_backward(mlp, tokens, kept_of, [from, dy], &mut to);
        }
        if is_first {
            self.build.op("zero", self.module(mixture.router), 0, &[write(d_given)]);
        }
    }

    fn shared_backward(
        &mut self,
        mlp: &Mlp,
        gate: usize,
        kept: &SavedByShared,
        [input, dy, dx]: [ObjectId; 3],
    ) {
        let (by, sizes) = (self.module(gate), self.sizes);
        let d_out = self.buffer(by, "weighed.grad", sizes.tokens * sizes.hidden);
        let d_weight = self.buffer(by, "out.grad", sizes.tokens);
        let touches = [read(dy), read(kept.out), read(kept.weight), write(d_out), write(d_weight)];
        self.build.op("combine_backward", by, 0, &touches);
        let mut to = |_: bool, _: bool| change(dx);
        let touches = [read(input), read(d_out)];
        self.feed_forward_backward(mlp, sizes.tokens, &kept.kept, touches, &mut to);
        let touches = [read(input), read(d_weight), change(dx)];
        self.linear_backward(gate, sizes.tokens, touches);
    }

    /// Zeros for the gradients of an expert without tokens.
    fn no_gradient(&mut self, mlp: &Mlp) {
        for owned in mlp.up_proj.iter().copied().chain([mlp.down_proj]) {
            if !self.owned[owned].written || self.is_reduced_each_pass(owned) {
                let touches: Vec<ObjectAccess> = self.gradient(owned);
                self.build.op("zero", self.module(owned), 0, &touches);
            }
            self.done(owned);
        }
    }
}
