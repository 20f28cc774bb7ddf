//! A step in the making: sizes of a micro-batch, the objects of a pass, and the products that all
//! passes share.
//!
//! FLOPs are those of matrix products, 2 per multiply-add. Everything else is bound by memory and
//! counts the bytes that it reads and writes. Masks are 1 byte per number in every format.

use super::kv::Cache;
use super::network::Groups;
use super::sizes::Sizes;
use super::state::Owned;
use crate::build::{Builder, ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{Normed, Shared};
use crate::transformer::training::{Kernels, Training};
use std::collections::BTreeMap;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::kernel::{Product, Streaming, Work};
use tiersim_models::workload::{CollectiveKind, ObjectKind};

/// Gradients that wait to be reduced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reduction {
    /// Of all ranks' parameters, and of experts'.
    pub(crate) waiting: [Vec<usize>; 2],
    /// Whether this is the step's last pass over its modules.
    pub(crate) is_last: bool,
    /// The last reduction out of buffers.
    pub(crate) previous: Option<OpId>,
    /// Where the update is streamed, what that needs.
    pub(crate) streamed: Option<Streamed>,
}

/// An update inside the backward pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamed {
    /// Modules whose gradients are summed over the tensor group first.
    pub(crate) spread: Vec<usize>,
    /// The tied table, whose gradient is summed over the ends of a pipeline first.
    pub(crate) table: Option<usize>,
    /// Modules whose gradients are on their way to their shards.
    pub(crate) reduced: Vec<usize>,
    /// What the host's processors have updated: module, copy and bytes of its weights.
    pub(crate) copies: Vec<(usize, ObjectId, u128)>,
}

/// Activations that are kept in 8 bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compressed {
    /// Those of the block at work.
    pub(crate) fresh: Vec<ObjectId>,
    /// Bytes of each that is compressed, as ops have it.
    pub(crate) whole: BTreeMap<ObjectId, u128>,
}

/// A step in the making.
pub(crate) struct GraphBuilder<'a> {
    pub(crate) shape: &'a Training,
    pub(crate) build: Builder,
    pub(crate) owned: Vec<Owned>,
    pub(crate) sizes: Sizes,
    pub(crate) groups: Groups,
    /// The micro-batch that is at work.
    pub(crate) micro: u32,
    /// In front of the names of objects.
    pub(crate) prefix: String,
    pub(crate) reduction: Reduction,
    /// Keys and values of past tokens, where the model generates.
    pub(crate) cache: Option<Cache>,
    /// What A of an adapter gave, by micro-batch and adapted module.
    pub(crate) low_rank: BTreeMap<(u32, usize), ObjectId>,
    /// What is kept in 8 bits.
    pub(crate) compressed: Compressed,
    /// Whether weights have gradients.
    pub(crate) trains: bool,
    /// What eager kernels of all layers share.
    pub(crate) shared: Shared,
    /// Gradients of weights that are made while that of their input is summed.
    pub(crate) later: Vec<WeightGradient>,
}

/// A gradient of weights that is not made yet: of this product, from its input and the gradient of
/// its output.
#[derive(Clone, Debug)]
pub(crate) struct WeightGradient {
    pub(crate) owned: usize,
    pub(crate) by: ModuleId,
    pub(crate) of: Product,
    pub(crate) from: [ObjectAccess; 2],
    /// Whether it is all that this pass adds.
    pub(crate) is_all: bool,
}

/// The stream of what tensor ranks exchange beside the device's work.
pub(crate) const BESIDE: u16 = 3;

impl GraphBuilder<'_> {
    /// Gradients for a further step: those of the step before were given back after its update.
    pub(crate) fn new_gradients(&mut self) {
        for owned in &mut self.owned {
            for (_, gradient) in &mut owned.gradient {
                *gradient = self.build.another(*gradient);
            }
            owned.written = false;
        }
    }

    /// An output that the backward pass needs, `owner` of which keeps it.
    pub(crate) fn kept(
        &mut self,
        by: ModuleId,
        what: &str,
        numbers: u128,
        owner: ModuleId,
    ) -> ObjectId {
        let size = (self.sizes.of_kept(numbers), self.sizes.kept);
        let object = self.activation(by, what, size, owner);
        if self.trains && self.sizes.kept == Format::Int8 {
            self.compressed.fresh.push(object);
            let whole = numbers * u128::from(self.sizes.work.bytes());
            self.compressed.whole.insert(object, whole);
        }
        object
    }

    /// Whether the backward pass needs what these products are given: for the gradients of their
    /// weights, or of their adapters.
    pub(crate) fn keeps_input(&self, parts: &[usize]) -> bool {
        self.shape.lora.is_none() || parts.iter().any(|&part| self.owned[part].adapter.is_some())
    }

    /// An output that the backward pass needs or not.
    pub(crate) fn kept_if(
        &mut self,
        is_kept: bool,
        by: ModuleId,
        (what, numbers): (&str, u128),
        owner: ModuleId,
    ) -> ObjectId {
        if is_kept { self.kept(by, what, numbers, owner) } else { self.buffer(by, what, numbers) }
    }

    /// A mask of dropout: 1 byte per number.
    pub(crate) fn mask(&mut self, by: ModuleId, what: &str, numbers: u128) -> Option<ObjectId> {
        let size = (numbers, Format::Int8);
        self.shape.dropout.then(|| self.activation(by, what, size, by))
    }

    /// One that no backward pass needs.
    pub(crate) fn unkept_mask(&mut self, by: ModuleId, numbers: u128) -> ObjectId {
        let name = self.named(by, "mask");
        self.build.object(name, ObjectKind::Buffer, (numbers, Format::Int8), None)
    }

    pub(crate) fn activation(
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
    pub(crate) fn buffer(&mut self, by: ModuleId, what: &str, numbers: u128) -> ObjectId {
        let size = (numbers * u128::from(self.sizes.work.bytes()), self.sizes.work);
        let name = self.named(by, what);
        self.build.object(name, ObjectKind::Buffer, size, None)
    }

    pub(super) fn named(&self, by: ModuleId, what: &str) -> String {
        format!("{}{}.{what}", self.prefix, self.build.trace.modules[by.index()])
    }

    pub(crate) fn module(&self, owned: usize) -> ModuleId {
        self.owned[owned].module
    }

    /// The weight as ops read it.
    pub(crate) fn weight(&self, owned: usize) -> ObjectAccess {
        read(self.owned[owned].whole)
    }

    /// The weight as a product reads it: one that is packed as an op before it unpacks it, unless
    /// kernels do both in one.
    pub(crate) fn unpacked(&mut self, owned: usize) -> ObjectAccess {
        let row = &self.owned[owned];
        if !row.packed || self.shape.kernels == Kernels::Fused {
            return self.weight(owned);
        }
        let (by, size) = (row.module, (self.unpacked_bytes(owned), self.shape.formats.weights));
        let name = self.named(by, "weight.unpacked");
        let whole = self.build.object(name, ObjectKind::Buffer, size, None);
        let touches = [self.weight(owned), write(whole)];
        self.build.streaming("dequantize", by, Streaming::ElementWise, &touches);
        read(whole)
    }

    /// Bytes of a weight as a product reads it.
    pub(crate) fn unpacked_bytes(&self, owned: usize) -> u128 {
        let row = &self.owned[owned];
        match row.packed && self.shape.kernels != Kernels::Fused {
            true => row.products * u128::from(self.shape.formats.weights.bytes()),
            false => row.bytes,
        }
    }

    /// A module's product of `tokens` rows, as a kernel.
    pub(crate) fn product(&self, owned: usize, tokens: u128) -> Product {
        let Owned { products, outputs, .. } = self.owned[owned];
        product(tokens, outputs, products / outputs.max(1))
    }

    /// A product of `tokens` rows.
    pub(crate) fn linear(&mut self, owned: usize, tokens: u128, x: ObjectAccess, y: ObjectAccess) {
        let touches = [self.unpacked(owned), x, y];
        let flops = 2 * tokens * self.owned[owned].products;
        let work = Work::Product(self.product(owned, tokens));
        self.build.kernel("linear", self.module(owned), (work, flops), &touches);
        self.adapted(owned, tokens, x, y);
    }

    /// What the adapter of a product adds to its output.
    fn adapted(&mut self, owned: usize, tokens: u128, x: ObjectAccess, y: ObjectAccess) {
        let Some([a, b]) = self.owned[owned].adapter else { return };
        let numbers = tokens * self.owned[a].outputs;
        let low_rank = self.kept(self.module(a), "out", numbers, self.module(b));
        self.low_rank.insert((self.micro, owned), low_rank);
        self.linear(a, tokens, x, write(low_rank));
        self.linear(b, tokens, read(low_rank), y.added());
    }

    /// Products of the same rows with several matrices, of which `ys` are the outputs: one kernel
    /// each, or one for all of them.
    pub(crate) fn linears(
        &mut self,
        owned: &[usize],
        tokens: u128,
        x: ObjectAccess,
        ys: &[ObjectId],
    ) {
        if self.shape.kernels != Kernels::Fused {
            for (&owned, &y) in owned.iter().zip(ys) {
                self.linear(owned, tokens, x, write(y));
            }
            return;
        }
        let weights = owned.iter().map(|&owned| self.weight(owned));
        let mut touches: Vec<ObjectAccess> = weights.collect();
        touches.push(x);
        touches.extend(ys.iter().map(|&y| write(y)));
        let numbers: u128 = owned.iter().map(|&owned| self.owned[owned].products).sum();
        let outputs: u128 = owned.iter().map(|&owned| self.owned[owned].outputs).sum();
        let work = Work::Product(product(tokens, outputs, numbers / outputs.max(1)));
        let module = self.module(owned[0]);
        self.build.kernel("linear", module, (work, 2 * tokens * numbers), &touches);
        for (&owned, &y) in owned.iter().zip(ys) {
            self.adapted(owned, tokens, x, write(y));
        }
    }

    /// A norm of this rank's tokens, whose output the backward pass needs or not.
    pub(crate) fn norm(
        &mut self,
        owned: usize,
        x: ObjectId,
        (owner, is_kept): (ModuleId, bool),
    ) -> Normed {
        if self.is_eager() {
            let size = (self.sizes.own_tokens, self.sizes.stream());
            return self.eager_norm(owned, x, size, is_kept.then_some(owner));
        }
        let module = self.module(owned);
        let y = self.kept_if(is_kept, module, ("out", self.sizes.stream()), owner);
        self.build.streaming(
            "norm",
            module,
            Streaming::Norm,
            &[self.weight(owned), read(x), write(y)],
        );
        Normed { x, y, kept: None }
    }

    /// A collective of the tensor group. What comes next needs it, so it has no stream of its own.
    pub(crate) fn tensor(
        &mut self,
        kind: CollectiveKind,
        by: ModuleId,
        bytes: u128,
        touches: &[ObjectAccess],
    ) {
        self.tensor_on(0, kind, by, bytes, touches);
    }

    /// The same on a stream, no sooner than the device has got so far.
    fn tensor_on(
        &mut self,
        stream: u16,
        kind: CollectiveKind,
        by: ModuleId,
        bytes: u128,
        touches: &[ObjectAccess],
    ) {
        let unit = self.groups.tensor.does(kind, bytes);
        self.build.op_on(unit, stream, kind.word(), by, 0, touches);
        self.build.no_further_ahead();
    }

    fn is_split(&self) -> bool {
        self.shape.parallel.tensor > 1
    }

    /// What a product needs of all tokens, where this rank has some of them.
    pub(crate) fn all_tokens(&mut self, by: ModuleId, what: &str, x: ObjectId) -> ObjectId {
        self.all_tokens_on(0, by, what, x)
    }

    /// The same on a stream.
    pub(crate) fn all_tokens_on(
        &mut self,
        stream: u16,
        by: ModuleId,
        what: &str,
        x: ObjectId,
    ) -> ObjectId {
        if !self.scatters() {
            return x;
        }
        let whole = self.buffer(by, what, self.sizes.tokens * self.sizes.hidden);
        let bytes = self.build.size(whole);
        let touches = [read(x), write(whole)];
        self.tensor_on(stream, CollectiveKind::AllGather, by, bytes, &touches);
        whole
    }

    /// Whether tensor ranks exchange beside gradients of products ([`Parallel::overlap`]).
    ///
    /// [`Parallel::overlap`]: crate::transformer::training::Parallel::overlap
    pub(crate) fn overlaps(&self) -> bool {
        let Training { parallel, lora, .. } = self.shape;
        self.is_split() && parallel.overlap && lora.is_none() && !self.is_eager()
    }

    /// Whether sums over the tensor group leave each rank its own tokens.
    pub(crate) fn scatters(&self) -> bool {
        self.is_split() && self.shape.parallel.sequence
    }

    /// The sum over the tensor group of `part`: of all tokens, or of those of this rank.
    pub(crate) fn sum(&mut self, by: ModuleId, what: &str, part: ObjectId) -> ObjectId {
        self.sum_on(0, by, (what, None), part)
    }

    /// As [`GraphBuilder::sum`]; kept by `owner`, if it is not `part` itself.
    pub(crate) fn sum_for(
        &mut self,
        by: ModuleId,
        what: &str,
        part: ObjectId,
        owner: Option<ModuleId>,
    ) -> ObjectId {
        self.sum_on(0, by, (what, owner), part)
    }

    /// The same on a stream.
    pub(crate) fn sum_on(
        &mut self,
        stream: u16,
        by: ModuleId,
        (what, owner): (&str, Option<ModuleId>),
        part: ObjectId,
    ) -> ObjectId {
        if !self.is_split() {
            return part;
        }
        let bytes = self.build.size(part);
        if !self.shape.parallel.sequence {
            self.tensor_on(stream, CollectiveKind::AllReduce, by, bytes, &[change(part)]);
            return part;
        }
        let own = match owner {
            Some(owner) => self.kept(by, what, self.sizes.stream(), owner),
            None => self.buffer(by, what, self.sizes.stream()),
        };
        let touches = [read(part), write(own)];
        self.tensor_on(stream, CollectiveKind::ReduceScatter, by, bytes, &touches);
        own
    }
}

/// A product of so many rows, outputs and inputs; what does not fit 64 bits is cut.
pub(crate) fn product(rows: u128, outputs: u128, inputs: u128) -> Product {
    let [m, n, k] = [rows, outputs, inputs].map(|of| u64::try_from(of).unwrap_or(u64::MAX));
    Product::new(m, n, k)
}
