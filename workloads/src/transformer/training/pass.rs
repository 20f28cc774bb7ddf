//! A step in the making: sizes of a micro-batch, the objects of a pass, and the products that all
//! passes share.
//!
//! FLOPs are those of matrix products, 2 per multiply-add. Everything else is bound by memory and
//! counts the bytes that it reads and writes. Masks are 1 byte per number in every format.

use super::network::Groups;
use super::state::Owned;
use super::{Attention, Training};
use crate::build::{Builder, ObjectAccess, change, read, write};
use crate::memory::activations::{own_tokens, stored};
use crate::transformer::format::Format;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::workload::{CollectiveKind, ObjectKind};

/// What a micro-batch amounts to on this rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Tokens of a micro-batch.
    pub(super) tokens: u128,
    /// Of those, the ones whose norms and dropout this rank computes.
    pub(super) own_tokens: u128,
    /// Numbers per token of the residual stream.
    pub(super) hidden: u128,
    /// Query heads of this rank.
    pub(super) heads: u128,
    /// Numbers per token of its queries, and of its keys.
    pub(super) queries: u128,
    pub(super) keys: u128,
    /// Pairs of tokens that attention multiplies, over the micro-batch, of one head.
    pub(super) pairs: u128,
    /// Numbers of the table of scores, all heads of this rank.
    pub(super) scores: u128,
    /// Rows of the embedding of this rank.
    pub(super) vocab: u128,
    /// The format of activations that are kept, and of everything that is not.
    pub(super) kept: Format,
    pub(super) work: Format,
}

impl Sizes {
    pub(super) fn new(shape: &Training) -> Sizes {
        let Training { card, parallel, formats, .. } = shape;
        let [micro, tensor, head] =
            [shape.micro_batch, parallel.tensor, card.head_dim].map(u128::from);
        let sequence = u128::from(shape.sequence);
        let tokens = micro * sequence;
        let heads = u128::from(card.heads) / tensor;
        let seen = card.window.map_or(sequence, |window| u128::from(window).min(sequence));
        // Causal: token i attends to itself and to the i before it, or as many as the window has.
        let causal = seen * (seen + 1) / 2 + (sequence - seen) * seen;
        let square = sequence * sequence;
        let pairs = if shape.attention == Attention::Flash { causal } else { square };
        let up_proj = |format: Format| format.bytes() > 1;
        let candidates = [formats.activations, formats.weights, Format::Bf16];
        Sizes {
            tokens,
            own_tokens: own_tokens(tokens, tensor, parallel.sequence),
            hidden: u128::from(card.hidden),
            heads,
            queries: heads * head,
            keys: u128::from(card.kv_heads) / tensor * head,
            pairs: micro * pairs,
            scores: micro * heads * square,
            vocab: u128::from(card.vocab) / tensor,
            kept: formats.activations,
            work: candidates.into_iter().find(|&format| up_proj(format)).unwrap_or(Format::Bf16),
        }
    }

    /// Bytes of so many numbers that are kept: compressed to 8 bits, a minimum and a range per
    /// group more.
    pub(super) fn of_kept(&self, numbers: u128) -> u128 {
        stored(numbers, self.kept).expect("a shape without problems has sums below 2^128")
    }

    /// Numbers of the residual stream that this rank has between tensor-parallel parts.
    pub(super) fn stream(&self) -> u128 {
        self.own_tokens * self.hidden
    }
}

/// Gradients that wait to be reduced.
#[derive(Clone, Debug, Default)]
pub(super) struct Reduction {
    /// Of all ranks' parameters, and of experts'.
    pub(super) waiting: [Vec<usize>; 2],
    /// Whether this is the step's last pass over its modules.
    pub(super) is_last: bool,
    /// A matrix that another module of this pass uses too.
    pub(super) held: Option<usize>,
    /// The last reduction out of buffers.
    pub(super) previous: Option<OpId>,
}

/// A step in the making.
pub(super) struct GraphBuilder<'a> {
    pub(super) shape: &'a Training,
    pub(super) build: Builder,
    pub(super) owned: Vec<Owned>,
    pub(super) sizes: Sizes,
    pub(super) groups: Groups,
    /// The micro-batch that is at work.
    pub(super) micro: u32,
    /// In front of the names of objects.
    pub(super) prefix: String,
    pub(super) reduction: Reduction,
}

impl GraphBuilder<'_> {
    /// An output that the backward pass needs, `owner` of which keeps it.
    pub(super) fn kept(
        &mut self,
        by: ModuleId,
        what: &str,
        numbers: u128,
        owner: ModuleId,
    ) -> ObjectId {
        let size = (self.sizes.of_kept(numbers), self.sizes.kept);
        self.activation(by, what, size, owner)
    }

    /// A mask of dropout: 1 byte per number.
    pub(super) fn mask(&mut self, by: ModuleId, what: &str, numbers: u128) -> Option<ObjectId> {
        let size = (numbers, Format::Int8);
        self.shape.dropout.then(|| self.activation(by, what, size, by))
    }

    pub(super) fn activation(
        &mut self,
        by: ModuleId,
        what: &str,
        size: (u128, Format),
        owner: ModuleId,
    ) -> ObjectId {
        let name = self.named(by, what);
        self.build.object(name, ObjectKind::Activation, size, Some(owner))
    }

    /// Something that no later pass needs.
    pub(super) fn buffer(&mut self, by: ModuleId, what: &str, numbers: u128) -> ObjectId {
        let size = (numbers * u128::from(self.sizes.work.bytes()), self.sizes.work);
        let name = self.named(by, what);
        self.build.object(name, ObjectKind::Buffer, size, None)
    }

    fn named(&self, by: ModuleId, what: &str) -> String {
        format!("{}{}.{what}", self.prefix, self.build.trace.modules[by.index()])
    }

    pub(super) fn module(&self, owned: usize) -> ModuleId {
        self.owned[owned].module
    }

    /// The weight as ops read it.
    pub(super) fn weight(&self, owned: usize) -> ObjectAccess {
        read(self.owned[owned].whole)
    }

    /// A product of `tokens` rows.
    pub(super) fn linear(&mut self, owned: usize, tokens: u128, x: ObjectAccess, y: ObjectAccess) {
        let flops = 2 * tokens * self.owned[owned].products;
        let touches = [self.weight(owned), x, y];
        self.build.op("linear", self.module(owned), flops, &touches);
    }

    /// Both gradients of a product: of its input by `to`, and of its weights.
    pub(super) fn linear_backward(
        &mut self,
        owned: usize,
        tokens: u128,
        [x, dy, to]: [ObjectAccess; 3],
    ) {
        let flops = 4 * tokens * self.owned[owned].products;
        let mut touches = vec![self.weight(owned), x, dy, to];
        touches.extend(self.gradient(owned));
        self.build.op("linear_backward", self.module(owned), flops, &touches);
        self.done(owned);
    }

    /// A norm of this rank's tokens.
    pub(super) fn norm(&mut self, owned: usize, x: ObjectId, owner: ModuleId) -> ObjectId {
        let module = self.module(owned);
        let y = self.kept(module, "out", self.sizes.stream(), owner);
        self.build.op("norm", module, 0, &[self.weight(owned), read(x), write(y)]);
        y
    }

    /// The gradient of a norm's input, to which `beside` is added.
    pub(super) fn norm_backward(
        &mut self,
        owned: usize,
        x: ObjectId,
        dy: ObjectId,
        beside: Option<ObjectId>,
    ) -> ObjectId {
        let module = self.module(owned);
        let dx = self.buffer(module, "in.grad", self.sizes.stream());
        let mut touches = vec![self.weight(owned), read(x), read(dy), write(dx)];
        touches.extend(beside.map(read));
        touches.extend(self.gradient(owned));
        self.build.op("norm_backward", module, 0, &touches);
        self.done(owned);
        dx
    }

    /// A collective of the tensor group. What comes next needs it, so it has no stream of its own.
    pub(super) fn tensor(
        &mut self,
        kind: CollectiveKind,
        by: ModuleId,
        bytes: u128,
        touches: &[ObjectAccess],
    ) {
        let unit = self.groups.tensor.does(kind, bytes);
        self.build.op_on(unit, 0, kind.word(), by, 0, touches);
    }

    fn is_split(&self) -> bool {
        self.shape.parallel.tensor > 1
    }

    /// What a product needs of all tokens, where this rank has some of them.
    pub(super) fn all_tokens(&mut self, by: ModuleId, what: &str, x: ObjectId) -> ObjectId {
        if !(self.is_split() && self.shape.parallel.sequence) {
            return x;
        }
        let whole = self.buffer(by, what, self.sizes.tokens * self.sizes.hidden);
        let bytes = self.build.size(whole);
        self.tensor(CollectiveKind::AllGather, by, bytes, &[read(x), write(whole)]);
        whole
    }

    /// The sum over the tensor group of `part`: of all tokens, or of those of this rank.
    pub(super) fn sum(&mut self, by: ModuleId, what: &str, part: ObjectId) -> ObjectId {
        if !self.is_split() {
            return part;
        }
        let bytes = self.build.size(part);
        if !self.shape.parallel.sequence {
            self.tensor(CollectiveKind::AllReduce, by, bytes, &[change(part)]);
            return part;
        }
        let own = self.buffer(by, what, self.sizes.stream());
        self.tensor(CollectiveKind::ReduceScatter, by, bytes, &[read(part), write(own)]);
        own
    }
}
