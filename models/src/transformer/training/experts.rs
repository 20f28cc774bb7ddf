//! A block's experts: a router, copies of each token for the experts that it is given to, and their sum.
//!
//! With expert parallelism the ranks of the group exchange those copies before and after the experts
//! (all-to-all), and each rank runs its experts on what all of them send. Every rank of the group routes alike, so
//! this rank receives as much as its experts are given of all tokens. The router's probabilities are fp32.
//! Experts that no token goes to still have a gradient, of zeros.

use super::build::{Touch, change, read, write};
use super::forward;
use super::pass::Maker;
use super::state::{Block, Mlp};
use crate::ids::{ModuleId, ObjectId};
use crate::transformer::format::Format;
use crate::workload::CollectiveKind;

/// What the experts of a block keep.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    gates: ObjectId,
    /// Copies of tokens as this rank's experts get them.
    given: ObjectId,
    /// Tokens of each of this rank's experts.
    tokens: Vec<u128>,
    experts: Vec<Option<forward::Kept>>,
    shared: Vec<forward::Kept>,
    /// What comes back for this rank's tokens.
    back: ObjectId,
}

impl Maker<'_> {
    /// Tokens of each expert of this rank in block `layer`, of those of all ranks of the expert group.
    fn expert_tokens(&self, _layer: u32, here: usize) -> Vec<u128> {
        let Some(experts) = self.shape.card.experts else { return Vec::new() };
        let group = u128::from(self.shape.parallel.expert);
        let all = self.sizes.tokens * u128::from(experts.active);
        let count = u128::from(experts.count);
        // Of one rank's tokens, the first experts get one more where they do not divide.
        (0..here as u128).map(|e| (all / count + u128::from(e < all % count)) * group).collect()
    }

    /// All-to-all over the expert group of `x`, which becomes `numbers` here.
    fn exchange(
        &mut self,
        by: ModuleId,
        (x, what): (ObjectId, &str),
        numbers: u128,
        owner: Option<ModuleId>,
    ) -> ObjectId {
        if self.shape.parallel.expert == 1 {
            return x;
        }
        let y = match owner {
            Some(owner) => self.kept(by, what, numbers, owner),
            None => self.buffer(by, what, numbers),
        };
        let unit = self.groups.expert.does(CollectiveKind::AllToAll, self.build.size(x));
        let touches = [read(x), write(y)];
        self.build.op_on(unit, 0, CollectiveKind::AllToAll.word(), by, 0, &touches);
        y
    }

    /// The experts' part of a block's forward pass; gives the sum over the experts of each token.
    pub(super) fn mixture(
        &mut self,
        block: &Block,
        router: usize,
        [experts, shared]: [&[Mlp]; 2],
        input: ObjectId,
    ) -> (Kept, ObjectId) {
        let (by, sizes) = (self.module(router), self.sizes);
        let active = self.shape.card.experts.map_or(0, |experts| u128::from(experts.active));
        let four = u128::from(Format::Fp32.bytes());
        let choices = sizes.tokens * self.owned[router].outputs;
        let gates = self.activation(by, "gates", (choices * four, Format::Fp32), by);
        self.linear(router, sizes.tokens, read(input), write(gates));
        let copies = sizes.tokens * active * sizes.hidden;
        let tokens = self.expert_tokens(block.layer, experts.len());
        let given_numbers = tokens.iter().sum::<u128>() * sizes.hidden;
        // With one rank what is dispatched is what is given; otherwise it is only sent.
        let alone = self.shape.parallel.expert == 1;
        let sent = if alone {
            self.kept(by, "given", given_numbers, by)
        } else {
            self.buffer(by, "sent", copies)
        };
        self.build.op("dispatch", by, 0, &[read(input), read(gates), write(sent)]);
        let given = self.exchange(by, (sent, "given"), given_numbers, Some(by));
        let done = self.kept(by, "done", given_numbers, by);
        let mut kept = Vec::with_capacity(experts.len());
        let mut is_first = true;
        for (mlp, &count) in experts.iter().zip(&tokens) {
            let bytes = |object, maker: &Self| {
                maker.build.size(object) * count / tokens.iter().sum::<u128>().max(1)
            };
            if count == 0 {
                kept.push(None);
                continue;
            }
            let from = read(given).part(bytes(given, self));
            let to = if is_first { write(done) } else { change(done) }.part(bytes(done, self));
            is_first = false;
            kept.push(Some(self.feed_forward(mlp, count, from, to)));
        }
        let back = self.exchange(by, (done, "back"), copies, Some(by));
        let y = self.buffer(by, "part", sizes.tokens * sizes.hidden);
        self.build.op("combine", by, 0, &[read(back), read(gates), write(y)]);
        let shared = shared.iter();
        let shared = shared
            .map(|mlp| self.feed_forward(mlp, sizes.tokens, read(input), change(y)))
            .collect();
        (Kept { gates, given, tokens, experts: kept, shared, back }, y)
    }

    /// From the gradient of the sum to that of the block's normed middle.
    pub(super) fn mixture_backward(
        &mut self,
        router: usize,
        [experts, shared]: [&[Mlp]; 2],
        kept: &Kept,
        (input, dy, dx): (ObjectId, ObjectId, ObjectId),
    ) {
        let (by, sizes) = (self.module(router), self.sizes);
        let work = u128::from(sizes.work.bytes());
        let numbers = |maker: &Self, of| maker.build.size(of) / u128::from(sizes.kept.bytes());
        let [back_numbers, given_numbers] = [kept.back, kept.given].map(|of| numbers(self, of));
        let d_gates = self.buffer(by, "gates.grad", sizes.tokens * self.owned[router].outputs);
        let d_back = self.buffer(by, "back.grad", back_numbers);
        let touches = [read(dy), read(kept.back), read(kept.gates), write(d_back), write(d_gates)];
        self.build.op("combine_backward", by, 0, &touches);
        let d_done = self.exchange(by, (d_back, "done.grad"), given_numbers, None);
        let d_given = self.buffer(by, "given.grad", given_numbers);
        let mut is_first = true;
        let each = experts.iter().zip(&kept.experts).zip(&kept.tokens).rev();
        for ((mlp, kept_of), &tokens) in each {
            let Some(kept_of) = kept_of else {
                self.no_gradient(mlp);
                continue;
            };
            let part = tokens * sizes.hidden * work;
            let from =
                read(kept.given).part(tokens * sizes.hidden * u128::from(sizes.kept.bytes()));
            let mut to = |first: bool, last: bool| {
                let whole = first && is_first;
                is_first &= !last;
                if whole { write(d_given).part(part) } else { change(d_given).part(2 * part) }
            };
            self.feed_forward_backward(
                mlp,
                tokens,
                kept_of,
                [from, read(d_done).part(part)],
                &mut to,
            );
        }
        let d_sent = self.exchange(by, (d_given, "sent.grad"), back_numbers, None);
        self.build.op("dispatch_backward", by, 0, &[read(d_sent), write(dx)]);
        let touches = [read(input), read(d_gates), change(dx)];
        self.linear_backward(router, sizes.tokens, touches);
        for (mlp, kept_of) in shared.iter().zip(&kept.shared).rev() {
            let mut to = |_: bool, _: bool| change(dx);
            let touches = [read(input), read(dy)];
            self.feed_forward_backward(mlp, sizes.tokens, kept_of, touches, &mut to);
        }
    }

    /// Zeros for the gradients of an expert without tokens.
    fn no_gradient(&mut self, mlp: &Mlp) {
        for owned in mlp.wide.iter().copied().chain([mlp.narrow]) {
            if !self.owned[owned].written || self.is_reduced_each_pass(owned) {
                let touches: Vec<Touch> = self.gradient(owned);
                self.build.op("zero", self.module(owned), 0, &touches);
            }
            self.done(owned);
        }
    }
}
