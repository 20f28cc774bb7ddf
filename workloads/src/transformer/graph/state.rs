//! What one rank holds of the model between steps: weights, optimizer state, and the gradients of a
//! step.
//!
//! ZeRO cuts each object into as many shards as ranks have the same one, each of
//! `ceil(bytes / ranks)`: optimizer state from stage 1 on, gradients from stage 2, weights from
//! stage 3 (Rajbhandari et al., "ZeRO", 2020, section 5). Where part of the update runs on the
//! host, what that part touches is an object of its own. Invariant: the parts of an object sum to
//! it.

use crate::build::Builder;
use crate::memory::zero::shard;
use crate::transformer::adapted::adapt;
use crate::transformer::format::Format;
use crate::transformer::modules::around::EmbeddingAndHead;
use crate::transformer::modules::{
    Block, Compression, Feed, FeedForward, Mixture, Module, Split, Tensor, block,
};
use crate::transformer::training::Training;
use std::ops::Range;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{ObjectKind, Statistics};

/// Whose part of a gradient an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Of this rank's shard, what the host's processors update.
    Host,
    /// Of this rank's shard, what the device updates.
    Device,
    /// What other ranks update.
    Others,
}

/// What one update of a module touches.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) side: Side,
    pub(crate) state: Vec<ObjectId>,
    pub(crate) has_master: bool,
    /// Bytes of the weights that it changes.
    pub(crate) weights: u128,
}

/// A module's parameters and what is kept beside them.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) module: ModuleId,
    /// Parameters that tokens are multiplied with.
    pub(crate) products: u128,
    /// Numbers per token that its products give.
    pub(crate) outputs: u128,
    /// Ranks that have the same parameters.
    pub(crate) replicas: u64,
    /// Whether all of a tensor group have all of it, and tokens are not multiplied with it, but for
    /// an adapter's matrix.
    pub(crate) is_whole: bool,
    /// Whether the step changes it.
    pub(crate) trains: bool,
    /// Whether it is stored in 4 bits, which products unpack.
    pub(crate) packed: bool,
    /// A and B beside it.
    pub(crate) adapter: Option<[usize; 2]>,
    /// Whether it belongs to an expert: those are spread over other ranks.
    pub(crate) expert: bool,
    /// All of it on this rank, in bytes.
    pub(crate) bytes: u128,
    pub(crate) gradient_bytes: u128,
    /// What persists of it.
    pub(crate) weight: ObjectId,
    /// What ops use now: the weight, or what was gathered.
    pub(crate) whole: ObjectId,
    /// What was gathered of it and is not given back yet, where gathered weights stay.
    pub(crate) held: Option<ObjectId>,
    pub(crate) gradient: Vec<(Side, ObjectId)>,
    /// Whether the step has written the gradient.
    pub(crate) written: bool,
    /// The gradient of one pass before it is reduced.
    pub(crate) full: Option<ObjectId>,
    pub(crate) updates: Vec<Update>,
}

/// Parts of a block, of each module that owns parameters the index of its [`Owned`].
pub(crate) type Mlp = FeedForward<usize, ModuleId>;
pub(crate) type MixtureState = Mixture<usize, ModuleId>;
pub(crate) type BlockState = Block<usize, ModuleId>;

/// What this rank has of the model.
#[derive(Clone, Debug)]
pub(crate) struct ModelState {
    pub(crate) tokens: usize,
    pub(crate) positions: Option<usize>,
    pub(crate) types: Option<usize>,
    pub(crate) norm_0: Option<usize>,
    pub(crate) blocks: Vec<BlockState>,
    /// Final norm and head, where this rank has the last stage too.
    pub(crate) end: Option<End>,
}

/// Final norm and head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) norm: usize,
    pub(crate) head: ModuleId,
    /// The matrix: the table of tokens if it is tied.
    pub(crate) matrix: usize,
    /// The matrix before the norm, and the bias of the logits, in a family that has them.
    pub(crate) transform: Option<[usize; 2]>,
}

impl ModelState {
    /// Tables, and a norm behind them.
    pub(crate) fn embedding(&self) -> impl Iterator<Item = usize> + use<> {
        let others = [self.types, self.positions, self.norm_0];
        [self.tokens].into_iter().chain(others.into_iter().flatten())
    }
}

impl End {
    /// What it uses, in the order in which it runs.
    pub(crate) fn modules(self) -> impl Iterator<Item = usize> {
        let [dense, bias] = self.transform.map_or([None; 2], |both| both.map(Some));
        dense.into_iter().chain([self.norm, self.matrix]).chain(bias)
    }
}

/// Makes what persists.
pub(crate) struct State<'a> {
    shape: &'a Training,
    build: &'a mut Builder,
    owned: Vec<Owned>,
    /// Ranks of modules in the order of their made-up statistics.
    rank: u64,
    /// Whether weights have gradients and optimizer state beside them.
    trains: bool,
}

/// The layers of each virtual stage of the first stage: with m virtual stages, every m-th of all.
/// Where plain stages do not divide the layers, the first ones have one more than the others.
pub(crate) fn virtual_stages(shape: &Training) -> impl Iterator<Item = Range<u32>> {
    let stages = shape.parallel.pipeline;
    let each = shape.card.layers.div_ceil(stages * shape.parallel.interleave);
    (0..shape.parallel.interleave).map(move |index| {
        let from = index * stages * each;
        from..from + each
    })
}

impl<'a> State<'a> {
    /// The model, and where it is trained what that keeps of it.
    pub(crate) fn model(
        shape: &'a Training,
        build: &'a mut Builder,
        trains: bool,
    ) -> (ModelState, Vec<Owned>) {
        let around = EmbeddingAndHead::new(&shape.card);
        let mut state = State { shape, build, owned: Vec::new(), rank: 0, trains };
        // Tables come behind all others: most of their rows change rarely.
        let tables = 1u64 << 40;
        let tokens = state.owned(&around.tokens, Some(tables), false);
        let positions = around.positions.as_ref();
        let positions = positions.map(|part| state.owned(part, Some(tables + 1), false));
        let types = around.types.as_ref().map(|part| state.owned(part, None, false));
        let norm_0 = around.norm_0.as_ref().map(|part| state.owned(part, None, false));
        let layers = virtual_stages(shape).flatten();
        let expert = shape.parallel.expert;
        let blocks = layers.map(|layer| {
            let mut parts = block(&shape.card, layer, expert);
            if let Some(lora) = shape.lora {
                adapt(&mut parts, &shape.card, lora);
            }
            state.block(&parts)
        });
        let blocks = blocks.collect();
        let end = (shape.parallel.pipeline == 1).then(|| {
            let transform = around.transform.as_ref();
            let transform =
                transform.map(|both| both.each_ref().map(|part| state.owned(part, None, false)));
            let norm = state.owned(&around.norm, None, false);
            let own = around.head.as_ref().map(|part| state.owned(part, Some(tables + 2), false));
            let head = match own {
                Some(own) => state.owned[own].module,
                None => state.build.module(&around.head_name),
            };
            End { norm, head, matrix: own.unwrap_or(tokens), transform }
        });
        if trains {
            state.statistics(tables);
        }
        let owned = std::mem::take(&mut state.owned);
        (ModelState { tokens, positions, types, norm_0, blocks, end }, owned)
    }

    fn block(&mut self, parts: &Block) -> BlockState {
        let norm_1 = parts.norm_1.as_ref().map(|part| self.owned(part, None, false));
        let mut all = |parts: &[Module]| -> Vec<usize> {
            parts.iter().map(|part| self.owned(part, None, false)).collect()
        };
        let (qkv, head_norms) = (all(&parts.qkv), all(&parts.head_norms));
        let compression = parts.compression.as_ref().map(|of| {
            let mut each = |part: &Module| self.owned(part, None, false);
            let queries = of.queries.as_ref().map(|both| both.each_ref().map(&mut each));
            let rows = of.rows.each_ref().map(&mut each);
            Compression { queries, rows, expand: each(&of.expand) }
        });
        let attention = self.build.module(&parts.attention);
        let out = self.owned(&parts.out, None, false);
        let norm_2 = parts.norm_2.as_ref().map(|part| self.owned(part, None, false));
        let part_norms = parts.part_norms.iter().map(|part| self.owned(part, None, false));
        let part_norms = part_norms.collect();
        let feed = match &parts.feed {
            Feed::Dense(feed) => Feed::Dense(self.mlp(feed, false)),
            Feed::Mixture(mixture) => {
                let router = self.owned(&mixture.router, None, false);
                let experts = mixture.experts.iter().map(|feed| self.mlp(feed, true)).collect();
                let shared = mixture.shared.as_ref();
                let shared = shared.map(|(feed, gate)| {
                    let feed = self.mlp(feed, false);
                    (feed, gate.as_ref().map(|gate| self.owned(gate, None, false)))
                });
                Feed::Mixture(Mixture { router, experts, shared })
            }
        };
        let layer = parts.layer;
        Block {
            layer,
            norm_1,
            qkv,
            compression,
            head_norms,
            out,
            norm_2,
            part_norms,
            feed,
            attention,
        }
    }

    fn mlp(&mut self, feed: &FeedForward, expert: bool) -> Mlp {
        FeedForward {
            up_proj: feed.up_proj.iter().map(|part| self.owned(part, None, expert)).collect(),
            activation: self.build.module(&feed.activation),
            down_proj: self.owned(&feed.down_proj, None, expert),
            width: feed.width / u128::from(self.shape.parallel.tensor),
        }
    }

    /// What this rank keeps of `bytes` that ZeRO partitions from `stage` on.
    fn shard(&self, bytes: u128, stage: u8, replicas: u64) -> u128 {
        shard(bytes, stage, self.shape.zero.stage, replicas.into())
    }

    /// The parts of a shard that the host and the device update, of a module with so many
    /// parameters per shard: whole parameters.
    fn sides(&self, shard: u128, parameters: u128) -> [(Side, u128); 2] {
        let host = parameters * u128::from(self.shape.zero.host_update) / 1000;
        let host = shard * host / parameters.max(1);
        [(Side::Host, host), (Side::Device, shard - host)]
    }

    /// A module, and its adapter: then nothing else is trained.
    fn owned(&mut self, part: &Module, rank: Option<u64>, expert: bool) -> usize {
        let trains = self.trains && self.shape.lora.is_none();
        let owned = self.put(part, rank, expert, trains);
        let adapter = part.adapter.as_ref();
        let adapter = adapter
            .map(|parts| parts.each_ref().map(|part| self.put(part, None, expert, self.trains)));
        self.owned[owned].adapter = adapter;
        owned
    }

    fn put(&mut self, part: &Module, rank: Option<u64>, expert: bool, trains: bool) -> usize {
        let Training { parallel, formats, .. } = self.shape;
        let module = self.build.module(&part.name);
        let ranks = u64::from(parallel.tensor);
        let replicas =
            u64::from(if expert { parallel.data / parallel.expert } else { parallel.replicas() });
        let parameters = part.parameters(ranks);
        let bytes = part.bytes(ranks, formats);
        let packed = formats.packed.filter(|_| part.packs);
        let gradient_bytes = parameters * u128::from(formats.gradients.bytes());
        let format =
            packed.map_or(formats.weights, |it| Format::read_as(it).unwrap_or(Format::Int8));
        let size = (self.shard(bytes, 3, replicas), format);
        let name = format!("{}.weight", part.name);
        let weight = self.build.object(name, ObjectKind::Weight, size, Some(module));
        self.build.persist(weight);
        let rank = rank.unwrap_or_else(|| {
            self.rank += 1;
            self.rank - 1
        });
        if self.trains {
            self.build.trace.objects[weight.index()].statistics.adam_m = Some(rank as f64);
        }
        let local: Vec<Tensor> = part.tensors.iter().map(|tensor| tensor.local(ranks)).collect();
        let products = local.iter().filter(|tensor| tensor.product);
        let adapts = trains && self.shape.lora.is_some();
        let owned = Owned {
            module,
            products: part.products(ranks),
            outputs: products.map(|tensor| u128::from(tensor.rows)).sum(),
            replicas,
            is_whole: local.iter().all(|t| t.split == Split::Whole && (adapts || !t.product)),
            trains,
            packed: packed.is_some_and(|packed| !packed.has_8_bits()),
            adapter: None,
            expert,
            bytes,
            gradient_bytes,
            weight,
            whole: weight,
            held: None,
            gradient: if trains {
                self.gradient(&part.name, module, parameters, replicas)
            } else {
                Vec::new()
            },
            written: false,
            full: None,
            updates: if trains {
                self.updates(&part.name, module, &local, replicas)
            } else {
                Vec::new()
            },
        };
        self.owned.push(owned);
        self.owned.len() - 1
    }

    fn gradient(
        &mut self,
        name: &str,
        module: ModuleId,
        parameters: u128,
        replicas: u64,
    ) -> Vec<(Side, ObjectId)> {
        let bytes = parameters * u128::from(self.shape.formats.gradients.bytes());
        let own = self.shard(bytes, 1, replicas);
        let total = self.shard(bytes, 2, replicas);
        let [host, device] = self.sides(own, self.shard(parameters, 1, replicas));
        let pieces = if host.1 == 0 {
            vec![(Side::Device, total)]
        } else {
            vec![host, device, (Side::Others, total - own)]
        };
        let format = self.shape.formats.gradients;
        let pieces = pieces.into_iter().filter(|(_, bytes)| *bytes > 0);
        let pieces = pieces.map(|(side, bytes)| {
            let name = format!("{name}.weight.grad{}", side.suffix());
            (side, self.build.object(name, ObjectKind::Gradient, (bytes, format), Some(module)))
        });
        pieces.collect()
    }

    fn updates(
        &mut self,
        name: &str,
        module: ModuleId,
        tensors: &[Tensor],
        replicas: u64,
    ) -> Vec<Update> {
        let weights = self.shape.formats.weights;
        let parameters: u128 = tensors.iter().map(|tensor| tensor.parameters()).sum();
        let bytes = self.shard(parameters * u128::from(weights.bytes()), 1, replicas);
        let shard = self.shard(parameters, 1, replicas);
        let has_master = self.shape.optimizer.has_master(weights);
        let mut updates = self.sides(bytes, shard).map(|(side, weights)| Update {
            side,
            state: Vec::new(),
            has_master,
            weights,
        });
        for state in self.shape.optimizer.state(tensors, weights) {
            let sides = self.sides(self.shard(state.bytes, 1, replicas), shard);
            for (update, (side, bytes)) in updates.iter_mut().zip(sides) {
                if bytes > 0 {
                    let name = format!("{name}.weight.{}{}", state.name, side.suffix());
                    let size = (bytes, state.format);
                    let object = self.build.object(name, state.kind, size, Some(module));
                    update.state.push(self.build.persist(object));
                }
            }
        }
        updates.into_iter().filter(|update| update.weights > 0).collect()
    }

    /// The statistics are made up: the module of rank d, counted from 0, has
    /// adam_m = 0.001 / (1 + d) and adam_v = 0.01 / (1 + d), tables and head last.
    fn statistics(&mut self, tables: u64) {
        for owned in &self.owned {
            let statistics = &mut self.build.trace.objects[owned.weight.index()].statistics;
            let rank = statistics.adam_m.unwrap_or(0.0);
            let rank =
                if rank >= tables as f64 { rank - tables as f64 + self.rank as f64 } else { rank };
            let scale = 1.0 / (1.0 + rank);
            *statistics = Statistics {
                adam_m: Some(0.001 * scale),
                adam_v: Some(0.01 * scale),
                grad_norm: None,
            };
        }
    }
}

impl Side {
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Side::Host => ".host",
            Side::Device => "",
            Side::Others => ".others",
        }
    }
}
