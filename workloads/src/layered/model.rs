//! What a model holds: its modules with their state, made once and used by every pass.

use super::build::{Builder, GraphBuilder, Owned, change, read, write};
use super::parts::{self, EmbeddingAndHead, Module};
use super::{Layered, Mode};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::ObjectKind;

/// The parameters of one block, and the modules that have none.
pub(super) struct BlockParameters {
    pub(super) norm_1: Owned,
    pub(super) qkv: Owned,
    pub(super) out: Owned,
    pub(super) norm_2: Owned,
    pub(super) up_proj: Vec<Owned>,
    pub(super) down_proj: Owned,
    pub(super) attention: ModuleId,
    pub(super) activation: ModuleId,
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

impl GraphBuilder<'_> {
    pub(super) fn model(&mut self) -> ModelParameters {
        let around = EmbeddingAndHead::new(self.shape);
        let per_block = parts::layer(self.shape, 0).modules().count();
        // Tables come behind all others, see `Builder::owned`.
        let mut tables = self.shape.layers as usize * per_block + 1..;
        let mut others = 0..;
        let mut owned = |build: &mut Builder, part: &Module, table: bool| {
            let rank = if table { tables.next() } else { others.next() };
            build.owned(part, rank.expect("there are fewer modules than integers"))
        };
        let build = &mut self.build;
        let tokens = owned(build, &around.tokens, true);
        let positions = around.positions.as_ref().map(|part| owned(build, part, true));
        let mut blocks = Vec::with_capacity(self.shape.layers as usize);
        for layer in 0..self.shape.layers {
            let parts = parts::layer(self.shape, layer);
            let [norm_1, qkv, out, norm_2] = [&parts.norm_1, &parts.qkv, &parts.out, &parts.norm_2]
                .map(|part| owned(build, part, false));
            let up_proj = parts.up_proj.iter().map(|part| owned(build, part, false)).collect();
            let down_proj = owned(build, &parts.down_proj, false);
            let attention = build.module(&parts.attention);
            let activation = build.module(&parts.activation);
            let kv = self.shape.kv_object(&parts.attention, &qkv, build);
            blocks.push(BlockParameters {
                norm_1,
                qkv,
                out,
                norm_2,
                up_proj,
                down_proj,
                attention,
                activation,
                kv,
            });
        }
        let norm = owned(build, &around.norm, false);
        let own_head = (!self.shape.tied).then(|| owned(build, &around.head, true));
        let head = own_head.as_ref().map(|head| head.module);
        let head = head.unwrap_or_else(|| build.module(&around.head.name));
        ModelParameters { tokens, positions, blocks, norm, head, own_head }
    }

    /// New gradients for a step: those of the step before were given back after its optimizer.
    pub(super) fn new_gradients(&mut self, model: &mut ModelParameters, prefix: &str) {
        let blocks = model.blocks.iter_mut().flat_map(|block| {
            let BlockParameters { norm_1, qkv, out, norm_2, up_proj, down_proj, .. } = block;
            [norm_1, qkv, out, norm_2].into_iter().chain(up_proj).chain([down_proj])
        });
        let all = [&mut model.tokens].into_iter().chain(&mut model.positions).chain(blocks);
        for owned in all.chain([&mut model.norm]).chain(&mut model.own_head) {
            let old = owned.gradient.expect("a model in training has gradients");
            let mut row = self.build.trace.objects[old.index()].clone();
            let weight = &self.build.trace.objects[owned.weight.index()].name;
            row.name = format!("{prefix}{weight}.grad");
            self.build.trace.objects.push(row);
            owned.gradient = Some(ObjectId::at(self.build.trace.objects.len() - 1));
        }
    }

    /// Adam, module by module: 28 bytes per parameter in every precision.
    pub(super) fn adam(&mut self, model: &ModelParameters) {
        let blocks = model.blocks.iter().flat_map(|block| {
            let BlockParameters { norm_1, qkv, out, norm_2, up_proj, down_proj, .. } = block;
            [norm_1, qkv, out, norm_2].into_iter().chain(up_proj).chain([down_proj])
        });
        let all = [&model.tokens].into_iter().chain(&model.positions).chain(blocks);
        for owned in all.chain([&model.norm]).chain(&model.own_head) {
            let gradient = owned.gradient.expect("a model in training has gradients");
            let mut touches = vec![read(gradient)];
            touches.extend(owned.state.iter().map(|&state| change(state)));
            // With a master copy the weights are only its rounding.
            let has_master = owned.state.len() > 2;
            touches.push(if has_master { write(owned.weight) } else { change(owned.weight) });
            self.build.op("adam", owned.module, 0, &touches);
        }
    }
}

impl Layered {
    /// The cache of a block's keys and values, which decoding keeps.
    fn kv_object(&self, attention: &str, qkv: &Owned, build: &mut Builder) -> Option<ObjectId> {
        let Mode::Decode { context, .. } = self.mode else { return None };
        let [batch, context] = [self.batch, context].map(u64::from);
        let bytes = 2 * self.kv_width() * context * batch * self.precision.bytes();
        let name = format!("{attention}.kv");
        let id = build.object(name, ObjectKind::Kv, bytes, Some(qkv.module));
        build.trace.objects[id.index()].persistent = true;
        Some(id)
    }
}
