//! What a model holds: its modules with their state, made once and used by every pass.

use super::build::{GraphBuilder, Owned};
use super::parts::{self, Block, EmbeddingAndHead, Module};
use super::{Layered, Mode};
use crate::build::{change, read, write};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::ObjectKind;

/// The parameters of one block, and its cache of keys and values, which decoding keeps.
pub(super) struct BlockParameters {
    pub(super) of: Block<Owned, ModuleId>,
    pub(super) kv: Option<ObjectId>,
}

/// All parameters.
pub(super) struct ModelParameters {
    pub(super) tokens: Owned,
    pub(super) positions: Option<Owned>,
    pub(super) blocks: Vec<BlockParameters>,
    pub(super) norm: Owned,
    pub(super) head: ModuleId,
    /// `None` if it is tied.
    pub(super) own_head: Option<Owned>,
}

impl ModelParameters {
    /// Every module that owns parameters, in forward order.
    fn all(&mut self) -> impl Iterator<Item = &mut Owned> {
        let blocks = self.blocks.iter_mut().flat_map(|block| block.of.modules_mut());
        let before = [&mut self.tokens].into_iter().chain(&mut self.positions);
        before.chain(blocks).chain([&mut self.norm]).chain(&mut self.own_head)
    }
}

impl GraphBuilder<'_> {
    pub(super) fn model(&mut self) -> ModelParameters {
        let around = EmbeddingAndHead::new(self.shape);
        let per_block = parts::layer(self.shape, 0).modules().count();
        // Tables come behind all others, see `GraphBuilder::owned`.
        let mut tables = self.shape.layers as usize * per_block + 1..;
        let mut others = 0..;
        let mut owned = |maker: &mut GraphBuilder<'_>, part: &Module, table: bool| {
            let rank = if table { tables.next() } else { others.next() };
            maker.owned(part, rank.expect("there are fewer modules than integers"))
        };
        let tokens = owned(self, &around.tokens, true);
        let positions = around.positions.as_ref().map(|part| owned(self, part, true));
        let mut blocks = Vec::with_capacity(self.shape.layers as usize);
        for layer in 0..self.shape.layers {
            let parts = parts::layer(self.shape, layer);
            let [norm_1, qkv, out, norm_2] = [&parts.norm_1, &parts.qkv, &parts.out, &parts.norm_2]
                .map(|part| owned(self, part, false));
            let up_proj = parts.up_proj.iter().map(|part| owned(self, part, false)).collect();
            let down_proj = owned(self, &parts.down_proj, false);
            let [attention, activation] =
                [&parts.attention, &parts.activation].map(|name| self.build.module(name));
            let kv = self.kv_object(&parts.attention, &qkv);
            let of = Block { norm_1, qkv, out, norm_2, up_proj, down_proj, attention, activation };
            blocks.push(BlockParameters { of, kv });
        }
        let norm = owned(self, &around.norm, false);
        let own_head = (!self.shape.tied).then(|| owned(self, &around.head, true));
        let head = own_head.as_ref().map(|head| head.module);
        let head = head.unwrap_or_else(|| self.build.module(&around.head.name));
        ModelParameters { tokens, positions, blocks, norm, head, own_head }
    }

    /// New gradients for a step: those of the step before were given back after its optimizer.
    pub(super) fn new_gradients(&mut self, model: &mut ModelParameters, prefix: &str) {
        for owned in model.all() {
            let name = format!("{prefix}{}.grad", self.build.name(owned.weight));
            let bytes = self.build.size(owned.weight);
            let gradient = self.object(name, ObjectKind::Gradient, bytes, Some(owned.module));
            owned.gradient = Some(gradient);
        }
    }

    /// Adam, module by module: 28 bytes per parameter in every precision.
    pub(super) fn adam(&mut self, model: &mut ModelParameters) {
        for owned in model.all() {
            let gradient = owned.gradient.expect("a model in training has gradients");
            let mut touches = vec![read(gradient)];
            touches.extend(owned.state.iter().map(|&state| change(state)));
            // With a master copy the weights are only its rounding.
            let has_master = owned.state.len() > 2;
            touches.push(if has_master { write(owned.weight) } else { change(owned.weight) });
            self.build.op("adam", owned.module, 0, &touches);
        }
    }

    /// The cache of a block's keys and values, which decoding keeps.
    fn kv_object(&mut self, attention: &str, qkv: &Owned) -> Option<ObjectId> {
        let Mode::Decode { context, .. } = self.shape.mode else { return None };
        let [batch, context] = [self.shape.batch, context].map(u128::from);
        let bytes = self.shape.kv_bytes() * context * batch;
        let id = self.object(format!("{attention}.kv"), ObjectKind::Kv, bytes, Some(qkv.module));
        Some(self.build.persist(id))
    }
}

impl Layered {
    /// Bytes of the keys and values of one position of one sequence in a block.
    pub(super) fn kv_bytes(&self) -> u128 {
        2 * u128::from(self.kv_width() * self.precision.bytes())
    }
}
