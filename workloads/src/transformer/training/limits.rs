//! Which trainings are refused, and why.
//!
//! Every number has a limit, so that sums in 128 bits cannot overflow; a trace has at
//! most [`MAX_OPS`] ops, and its bytes and FLOPs must fit 64 bits, which is found by making it.

use super::step::step;
use super::{
    Attention, Checkpointing, Kernels, Optimizer, OptimizerKernels, Parallel, Training, UpdateTime,
};
use crate::build::Builder;
use crate::limits::{MAX_OPS, Range, ShapeProblem, outside};
use crate::transformer::graph::network::Groups;
use crate::transformer::graph::ring::{MOST_TURNS, pieces, unknown};
use crate::transformer::packed::most_unpacked;

/// Largest exponent of the router, in hundredths.
const MAX_SKEW: u32 = 1000;

/// A number that must divide another: the field of the one, its value, the name of the other, its
/// value, and a remedy.
type Division = (&'static str, u64, &'static str, u64, &'static str);

impl Training {
    /// Every rule that this training breaks; empty for one that makes a trace.
    pub fn problems(&self) -> Vec<ShapeProblem> {
        let found = self.rules();
        if !found.is_empty() || self.is_small(1) {
            return found;
        }
        self.amounts().err().unwrap_or_default()
    }

    /// The step, or what is wrong with it.
    pub(super) fn made(&self) -> Result<Builder, Vec<ShapeProblem>> {
        let found = self.rules();
        if found.is_empty() { self.amounts() } else { Err(found) }
    }

    /// Every rule that its numbers break, before anything is summed up.
    fn rules(&self) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        self.ranges(&mut found);
        if found.is_empty() {
            self.divisions(&mut found);
            self.choices(&mut found);
            found.extend(self.lora.iter().flat_map(|lora| lora.problems(&self.card)));
            self.packing(&mut found);
        }
        if !found.is_empty() {
            return found;
        }
        let ops = self.most_ops();
        if ops > u128::from(MAX_OPS) {
            let rule =
                format!("a generated step has at most {MAX_OPS} ops, this one may have {ops}");
            let remedy = "accumulate fewer micro-batches, or take fewer layers";
            found.push(ShapeProblem { field: "batch", rule, remedy });
        }
        found
    }

    /// Whether so many steps without broken rules are far from 64 bits, so that none has to be made
    /// to know that they fit. Blocks and micro-batches are alike: no step amounts to more than a
    /// short one, of one block per virtual stage and one round of micro-batches, as many times as
    /// it has blocks and rounds. ZeRO adds at most three copies of what a visit needs. Which experts
    /// tokens choose differs from block to block, so such a step is made.
    pub(super) fn is_small(&self, steps: u128) -> bool {
        let Parallel { pipeline, interleave, .. } = self.parallel;
        let virtual_stages = pipeline * interleave;
        let round = if interleave > 1 { pipeline } else { 1 };
        let short = self.short(virtual_stages, round);
        let blocks = u128::from(self.card.layers.div_ceil(virtual_stages));
        let rounds = u128::from(self.micro_batches().div_ceil(round));
        let most = 8 * blocks * rounds * steps;
        self.card.experts.is_none()
            && short.is_some_and(|short| step(&short).problem_of(most).is_none())
    }

    fn values(&self) -> Vec<Range> {
        let Training { card, parallel, .. } = self;
        let mut values = vec![
            ("card.layers", card.layers.into(), 10_000),
            ("card.hidden", card.hidden.into(), 1 << 20),
            ("card.heads", card.heads.into(), 1 << 14),
            ("card.kv_heads", card.kv_heads.into(), 1 << 14),
            ("card.head_dim", card.head_dim.into(), 1 << 14),
            ("card.vocab", card.vocab.into(), 1 << 26),
            ("batch", self.batch.into(), 1 << 20),
            ("micro_batch", self.micro_batch.into(), 1 << 20),
            ("parallel.data", parallel.data.into(), 1 << 20),
            ("parallel.context", parallel.context.into(), 1 << 20),
            ("parallel.tensor", parallel.tensor.into(), 1 << 14),
            ("parallel.pipeline", parallel.pipeline.into(), 10_000),
            ("parallel.interleave", parallel.interleave.into(), 10_000),
            ("parallel.expert", parallel.expert.into(), 1 << 12),
            ("devices", self.devices.into(), 1 << 10),
        ];
        match card.experts {
            None => values.push(("card.ffn", card.ffn.into(), 1 << 22)),
            Some(experts) => values.extend([
                ("card.experts.count", experts.count.into(), 1 << 12),
                ("card.experts.active", experts.active.into(), 1 << 12),
                ("card.experts.ffn", experts.ffn.into(), 1 << 22),
            ]),
        }
        values.extend(card.window.map(|window| ("card.window", window.into(), u32::MAX.into())));
        let every = card.full_attention_every.map(u64::from);
        values.extend(every.map(|every| ("card.full_attention_every", every, 10_000)));
        if let Some(loader) = self.loader {
            values.extend([
                ("loader.workers", loader.workers.into(), 1 << 12),
                ("loader.prefetch", loader.prefetch.into(), 1 << 12),
            ]);
        }
        values.push(("sequence", self.sequence, u32::MAX.into()));
        values
    }

    fn ranges(&self, found: &mut Vec<ShapeProblem>) {
        found.extend(outside(self.values(), |field, most, value| {
            let name = field.rsplit('.').next().unwrap_or(field);
            format!("`{name}` must lie between 1 and {most}, it is {value}")
        }));
    }

    /// What must divide what.
    fn divisions(&self, found: &mut Vec<ShapeProblem>) {
        for (field, divisor, of, whole, remedy) in self.divisors() {
            if !whole.is_multiple_of(divisor) {
                let rule = format!("{divisor} must divide `{of}`, which is {whole}");
                found.push(ShapeProblem { field, rule, remedy });
            }
        }
    }

    fn divisors(&self) -> Vec<Division> {
        let Training { card, parallel, .. } = self;
        let micros = u64::from(self.batch / self.micro_batch);
        let [tensor, pipeline, interleave, expert, data] = [
            parallel.tensor,
            parallel.pipeline,
            parallel.interleave,
            parallel.expert,
            parallel.data,
        ]
        .map(u64::from);
        let split = "split over fewer ranks, or change the model";
        let [micro_batch, batch] = [self.micro_batch, self.batch].map(u64::from);
        let [heads, kv_heads, vocab, layers] =
            [card.heads, card.kv_heads, card.vocab, card.layers].map(u64::from);
        let shared = "as many query heads share every key and value head";
        let stages = "choose stages times virtual stages that divide the layers";
        let spread = "experts are spread over data-parallel ranks";
        let mut rules: Vec<Division> = vec![
            ("micro_batch", micro_batch, "batch", batch, "choose a divisor of `batch`"),
            ("card.kv_heads", kv_heads, "heads", heads, shared),
            ("parallel.tensor", tensor, "heads", heads, split),
            ("parallel.tensor", tensor, "kv_heads", kv_heads, split),
            ("parallel.tensor", tensor, "vocab", vocab, "pad the vocabulary"),
            ("parallel.expert", expert, "data", data, spread),
        ];
        match card.experts {
            None => rules.push(("parallel.tensor", tensor, "ffn", u64::from(card.ffn), split)),
            Some(experts) => rules.extend([
                ("parallel.tensor", tensor, "experts.ffn", u64::from(experts.ffn), split),
                ("parallel.expert", expert, "experts.count", u64::from(experts.count), split),
            ]),
        }
        if parallel.context > 1 {
            let pieces = pieces(parallel.context, card.family.is_causal());
            let remedy = "pad the sequence to equal chunks, two for each rank in a causal model";
            rules.push(("parallel.context", pieces, "sequence", self.sequence, remedy));
        }
        if parallel.sequence {
            let remedy = "pad the sequence";
            rules.push(("parallel.sequence", tensor, "sequence", self.sequence, remedy));
        }
        if interleave > 1 {
            rules.push(("parallel.pipeline", pipeline * interleave, "layers", layers, stages));
            let remedy = "interleaved stages take micro-batches in rounds of as many as stages";
            rules.push(("parallel.interleave", pipeline, "micro-batches", micros, remedy));
        }
        rules
    }

    fn packing(&self, found: &mut Vec<ShapeProblem>) {
        let Some(packed) = self.formats.packed else { return };
        found.extend(packed.problem());
        if packed.has_8_bits() {
            let rule = "matrices of 8 bits beside wider tables are served, not trained".to_owned();
            let remedy = "write one precision for all weights";
            found.push(ShapeProblem { field: "formats.weights", rule, remedy });
            return;
        }
        if self.lora.is_none() {
            let rule = "weights of 4 bits stay as they are, and nothing else is trained".to_owned();
            let remedy = "train adapters beside them: `lora: (rank: 16)`";
            found.push(ShapeProblem { field: "formats.weights", rule, remedy });
        }
    }

    fn choices(&self, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule: &str, remedy| {
            found.push(ShapeProblem { field, rule: rule.to_owned(), remedy });
        };
        let Training { card, parallel, zero, .. } = self;
        if zero.stage > 3 {
            add("zero.stage", "stages are 0 to 3", "write one of them");
        }
        if zero.host_update > 1000 {
            add("zero.host_update", "parts per thousand are 0 to 1000", "write 1000 for all");
        }
        let master = self.optimizer.has_master(self.formats.weights);
        if (1..1000).contains(&zero.host_update) && !master {
            let rule =
                "the host updates a share of a master copy of the weights, and there is none";
            let remedy = "write 1 for all, or choose 16-bit weights and an optimizer with a master";
            add("zero.host_update", rule, remedy);
        }
        if self.checkpointing == Checkpointing::Every(0) {
            add("checkpointing", "every 0 layers", "write 1 or more");
        }
        let blocks = card.layers.div_ceil(parallel.pipeline * parallel.interleave);
        if let Checkpointing::Layers(first) = self.checkpointing
            && !(1..=blocks).contains(&first)
        {
            let rule = format!("{first} layers of the {blocks} that a virtual stage has");
            add("checkpointing", &rule, "write 1 to as many, or `none`");
        }
        if parallel.pipeline > card.layers {
            let rule = format!("{} layers leave some of the stages without", card.layers);
            add("parallel.pipeline", &rule, "write no more stages than layers");
        }
        if parallel.interleave > 1 && parallel.pipeline == 1 {
            add("parallel.interleave", "one stage has nothing to interleave", "write 1");
        }
        if card.experts.is_some_and(|experts| experts.active > experts.count) {
            add("card.experts.active", "more than there are experts", "lower it");
        }
        if self.router.skew > MAX_SKEW {
            add("router.skew", "an exponent of 0 to 10", "choose a smaller one");
        }
        if parallel.context > 1 {
            for (rule, remedy) in unknown(self) {
                add("parallel.context", rule, remedy);
            }
        }
        if card.experts.is_some_and(|experts| experts.dense_first > 0) && parallel.pipeline > 1 {
            let rule = "stages are alike here, and blocks in front have no experts";
            let remedy =
                "write 1, or give all blocks experts: `experts: (dense_first: 0)` in a card";
            add("parallel.pipeline", rule, remedy);
        }
        if card.latent.is_some() && self.attention == Attention::Eager {
            let rule = "only attention in one kernel is known of compressed keys and values";
            add("attention", rule, "choose flash attention");
        }
        if card.experts.is_none() && parallel.expert > 1 {
            add("parallel.expert", "the model has no experts", "write 1");
        }
        let is_adam = matches!(self.optimizer, Optimizer::AdamW | Optimizer::AdamWithoutMaster);
        if self.optimizer_kernels == Some(OptimizerKernels::ForLoop) && !is_adam {
            let rule = "PyTorch's loop over parameters is known of AdamW";
            add("optimizer_kernels", rule, "choose `fused`, or `adam_w` or `adam_without_master`");
        }
        for problem in self.eager_problems().into_iter().chain(self.pass_problems()) {
            add(problem.field, &problem.rule, problem.remedy);
        }
        if !card.family.is_causal() {
            let rule = "encoders are not known to be split so, nor with adapters";
            if parallel.tensor > 1 {
                add("parallel.tensor", rule, "write 1, and split by `data` or `pipeline`");
            }
            if self.lora.is_some() {
                add("lora", rule, "leave it out");
            }
            if self.update == UpdateTime::InBackward {
                let rule = "gradients of encoders are not known to be updated in the backward pass";
                add("update", rule, "choose `after`");
            }
        }
        if card.positions > 0 && self.sequence > u64::from(card.positions) {
            let rule = format!("longer than the model's table of {} positions", card.positions);
            add("sequence", &rule, "shorten it, or spell out a card with more `positions`");
        }
        if self.divides_servers() {
            let rule =
                format!("a group of ranks fills servers of {} devices unequally", self.devices);
            add("devices", &rule, "choose groups that fill whole servers, or fit into one");
        }
    }

    /// What eager kernels are not known of.
    pub(in crate::transformer) fn eager_problems(&self) -> Vec<ShapeProblem> {
        let Training { card, parallel, .. } = self;
        let mut found = Vec::new();
        if self.kernels != Kernels::Eager {
            return found;
        }
        let mut add = |field, rule: &str, remedy| {
            found.push(ShapeProblem { field, rule: rule.to_owned(), remedy });
        };
        let remedy = "choose `compiled`";
        if !card.family.has_known_eager() {
            let rule = format!("eager kernels of {} are not known", card.family.word());
            add("kernels", &rule, remedy);
        }
        if card.experts.is_some_and(|experts| experts.shared > 0) {
            add("kernels", "eager kernels of shared experts are not known", remedy);
        }
        if parallel.expert > 1 {
            add("kernels", "eager kernels have all experts on one rank", remedy);
        }
        if card.experts.is_some() && self.update == UpdateTime::InBackward {
            let rule = "eager kernels make the gradients of all experts of a block at once";
            add("update", rule, "choose `after`");
        }
        let unpacks = self.formats.packed.is_some_and(|packed| !packed.has_8_bits());
        if self.lora.is_some() || unpacks {
            add("kernels", "eager kernels of adapters and packed weights are not known", remedy);
        }
        if self.formats.activations.bytes() == 1 {
            add("kernels", "eager kernels keep activations of 16 or 32 bits", remedy);
        }
        if self.checkpointing == Checkpointing::Selective && self.attention == Attention::Eager {
            let rule = "eager kernels compute whole blocks of this attention again";
            add("checkpointing", rule, "choose `full`, `none` or flash attention");
        }
        found
    }

    fn divides_servers(&self) -> bool {
        self.parallel.data.is_multiple_of(self.parallel.expert) && Groups::new(self).is_none()
    }

    /// No fewer than the ops of the step.
    pub(super) fn most_ops(&self) -> u128 {
        let Training { card, parallel, .. } = self;
        let [layers, pipeline, interleave] =
            [card.layers, parallel.pipeline, parallel.interleave].map(u128::from);
        let experts = card.experts.map_or(0, |experts| u128::from(experts.count / parallel.expert));
        // Ops of a forward and of a backward pass of a block, and modules that own parameters:
        // experts' only in the terms of their number.
        let [forward, backward, modules] =
            if card.experts.is_some() { [32, 37, 13] } else { [23, 29, 11] };
        let parts = if card.family.norms_parts() { 2 } else { 0 };
        // Two products more where tokens are compressed, and two norms.
        let parts = parts + if card.latent.is_some() { 4 } else { 0 };
        let [forward, backward, modules] =
            [forward, backward, modules].map(|number| number + parts);
        let [forward, backward, modules] =
            [forward + 3 * experts, backward + 3 * experts, modules + 2 * experts];
        // An adapter has two products forward and backward, and two modules.
        let adapters = 2 * self.lora.map_or(0, |lora| lora.targets.iter().count() as u128);
        let [forward, backward, modules] =
            [forward, backward, modules].map(|number| number + adapters);
        let unpacked = most_unpacked(self.formats.packed, card.experts.map(|_| experts));
        let [forward, backward] = [forward, backward].map(|number| number + unpacked);
        // Exchange, attention and sum of each turn of a ring; backward the gradients' exchange too.
        let turns = match parallel.context {
            0 | 1 => 0,
            ranks => 1 + u128::from(ranks - 1).min(u128::from(MOST_TURNS)),
        };
        let [forward, backward] = [forward + 3 * turns, backward + 4 * turns + turns.min(2)];
        // Of eager kernels no fewer, with sums of gradients that come from two sides.
        let is_eager = self.kernels == Kernels::Eager;
        let [forward, backward] =
            if is_eager { [forward + 80, backward + 140] } else { [forward, backward] };
        let has_many = self.loops_over_parameters() || self.has_passes();
        let update = if has_many { 10 * modules } else { 0 };
        // Two ops where one has both gradients: of queries, keys and values and of two wide matrices.
        let backward =
            if parallel.tensor > 1 && parallel.overlap { backward + 5 } else { backward };
        let [around, ends] = if is_eager { [140, 300] } else { [40, 50] };
        let again = matches!(self.checkpointing, Checkpointing::Full | Checkpointing::Every(_));
        // Up to three visits gather weights, of experts and of others.
        let block = (1 + u128::from(again)) * forward + backward + 6 + modules;
        let stage = layers.div_ceil(pipeline);
        let micros = u128::from(self.batch / self.micro_batch);
        let bubble = (pipeline - 1) * stage / interleave * block;
        // An update is one op of the host, one of the device, a copy and a collective; where it is
        // streamed, each module may have all of them by itself.
        let updates = stage * (6 * modules + update + 45);
        // The last stage's head stands beside each micro-batch.
        let heads = if pipeline > 1 { micros * around } else { 0 };
        micros * (stage * block + around * interleave) + heads + bubble + updates + ends
    }

    fn amounts(&self) -> Result<Builder, Vec<ShapeProblem>> {
        let made = step(self);
        debug_assert!(made.trace.ops.len() as u128 <= self.most_ops(), "{}", made.trace.ops.len());
        let Some(rule) = made.problem() else { return Ok(made) };
        let remedy = "choose a shorter sequence, a smaller batch or a smaller model";
        Err(vec![ShapeProblem { field: "sequence", rule: rule.to_owned(), remedy }])
    }
}
