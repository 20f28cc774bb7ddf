//! A cache that is split over ranks: context parallelism where a model generates.
//!
//! Each of N ranks has 1 / N of the positions of every sequence. A prompt goes around a ring as in
//! training, and each rank stores the keys and values of the tokens that it has. In a decode step
//! all ranks work on the same token, with weights, queries and the residual stream of their own,
//! and attend to the positions that they have. What each gives is put together as vLLM does where
//! heads are not split as well (`cp_lse_ag_out_ar` of `vllm/v1/attention/ops/common.py`): the
//! logarithms of the softmax's sums are gathered, every rank weighs its output by them, and the
//! outputs are summed. Positions behind the prompt go to the ranks in turn.
//! Invariant: the rank here is the first, which has no fewer positions than another: ceil(s / N).

use super::network::Groups;
use super::pass::GraphBuilder;
use super::ring::unknown;
use super::state::BlockState;
use crate::build::{ObjectAccess, change, read, write};
use crate::limits::{ShapeProblem, outside};
use crate::transformer::format::Format;
use crate::transformer::training::{Parallel, Training};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Streaming, Work};
use tiersim_models::workload::{CollectiveKind, ObjectKind};

/// Most ranks that a sequence is split over.
const MOST_RANKS: u64 = 1 << 20;
/// Bytes of the number of a token.
const TOKEN: u128 = 8;

impl GraphBuilder<'_> {
    /// Attention to the cache of a layer, of which this rank has a part.
    pub(super) fn sharded(&mut self, block: &BlockState, qkv: &[ObjectId], mixed: ObjectId) {
        let (by, attention) = (block.attention, self.sizes.attention);
        let sums = self.softmax_sums(by);
        let stored = self.stored(block);
        if attention.new > 1 {
            self.ring_forward(block, qkv, [mixed, sums], &stored);
            return;
        }
        let mut touches: Vec<ObjectAccess> = qkv.iter().map(|&y| read(y)).collect();
        touches.extend([write(mixed), write(sums)]);
        touches.extend(stored);
        let work = (Work::Attention(attention), attention.flops());
        self.build.kernel("attention", by, work, &touches);
        self.combined(block, [mixed, sums]);
    }

    /// What every rank's attention to its part gives, put together on all of them.
    pub(crate) fn combined(&mut self, block: &BlockState, [mixed, sums]: [ObjectId; 2]) {
        let by = block.attention;
        let context = self.groups.context;
        let ranks = u128::from(self.shape.parallel.context);
        let (name, bytes) = (self.named(by, "sums.all"), ranks * self.build.size(sums));
        let all = self.build.object(name, ObjectKind::Buffer, (bytes, Format::Fp32), None);
        let gather = CollectiveKind::AllGather;
        let touches = [read(sums), write(all)];
        self.build.op_on(context.does(gather, bytes), 0, gather.word(), by, 0, &touches);
        let touches = [read(all), change(mixed)];
        self.build.streaming("attention_combine", by, Streaming::ElementWise, &touches);
        let (sum, bytes) = (CollectiveKind::AllReduce, self.build.size(mixed));
        self.build.op_on(context.does(sum, bytes), 0, sum.word(), by, 0, &[change(mixed)]);
    }

    /// The first tokens, which the rank that has the ends of the prompts draws, go to all others.
    pub(crate) fn tell_tokens(&mut self, head: ModuleId, logits: ObjectId, sequences: u64) {
        let (kind, bytes) = (CollectiveKind::Broadcast, u128::from(sequences) * TOKEN);
        let touches = [read(logits).part(bytes)];
        let unit = self.groups.context.does(kind, bytes);
        self.build.op_on(unit, 0, kind.word(), head, 0, &touches);
    }
}

/// Why work cannot be split over so many ranks, whose tensor group is known to be good.
pub(crate) fn context_problems(shape: &Training) -> Vec<ShapeProblem> {
    let Parallel { context, tensor, .. } = shape.parallel;
    if context == 1 {
        return Vec::new();
    }
    let range = vec![("context", context.into(), MOST_RANKS)];
    let rule =
        |_: &str, most, value| format!("`context` must lie between 1 and {most}, not {value}");
    let mut found: Vec<ShapeProblem> = outside(range, rule).collect();
    let unknown = unknown(shape).into_iter();
    found.extend(unknown.map(|(rule, remedy)| ShapeProblem {
        field: "context",
        rule: rule.to_owned(),
        remedy,
    }));
    if found.is_empty() && Groups::new(shape).is_none() {
        let devices = shape.devices;
        let rule = format!(
            "{context} groups of {tensor} ranks fill servers of {devices} devices unequally"
        );
        let remedy = "choose groups that fill whole servers, or fit into one";
        found.push(ShapeProblem { field: "devices", rule, remedy });
    }
    found
}
