//! The optimizer: one op per module for what the device updates, and one for what the host does.
//!
//! An op reads its part of the gradient, changes its state and writes its part of the weights: with
//! AdamW and 16-bit weights and gradients 28 bytes per parameter (2 of gradient, 8 of moments and 4
//! of master read and written, 2 of weights). The host's processors leave the weights in a copy,
//! which is then copied to the device. All of the CPU ops are issued first, so that host and
//! device work side by side. Without a master copy they change the weights themselves, in memory of
//! the host, as where FSDP2 keeps parameters there.
//!
//! Megatron-LM's optimizer of mixed precision makes passes instead (`MixedPrecisionOptimizer` in
//! `megatron/core/optimizer/optimizer.py` of github:NVIDIA/Megatron-LM@960c06b): with fp16 weights and
//! gradients 60 bytes per parameter: 6 for a copy of the gradient in 32 bits, 8 to take the scale of
//! the loss out and look for what is not finite, 4 for the norm, 8 to clip, 28 for Adam without the
//! weights, 6 to copy these. Every step is taken to clip. Here they follow one another module by
//! module, so that one copy is alive at a time; there each is over all modules, and all copies are
//! alive while weights are updated.
//!
//! Streamed, the update of a module is issued inside the last backward pass, as soon as its
//! gradient is complete (Lv et al., "Full Parameter Fine-tuning for Large Language Models with
//! Limited Resources", LOMO, 2023; PyTorch's optimizer step in backward). With replicas, those of a
//! bucket follow when the next bucket is sent, which its own has been meanwhile; without overlap,
//! at once. Copies from the host and gathers of updated weights come at the end, as otherwise.

use super::{Training, UpdateTime};
use crate::build::{ObjectAccess, change, read, write};
use crate::limits::ShapeProblem;
use crate::transformer::format::Format;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::state::{Side, Update};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::kernel::Streaming;
use tiersim_models::workload::{ObjectKind, Phase, Unit};

impl Training {
    /// What passes of mixed precision are not for.
    pub(super) fn pass_problems(&self) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        if !self.has_passes() {
            return found;
        }
        let mut add = |rule: &str, remedy| {
            let rule = rule.to_owned();
            found.push(ShapeProblem { field: "optimizer_kernels", rule, remedy });
        };
        if !self.optimizer.has_master(self.formats.weights) {
            let remedy = "choose 16-bit weights and an optimizer with a master, or `fused`";
            add("passes of mixed precision end in a master copy, and there is none", remedy);
        }
        if self.update == UpdateTime::InBackward {
            let remedy = "choose `fused`, or `update: after`";
            add("the norm of all gradients is known behind the backward pass", remedy);
        }
        found
    }
}

impl GraphBuilder<'_> {
    /// The update of all modules.
    pub(super) fn update(&mut self) {
        let all: Vec<usize> = (0..self.owned.len()).collect();
        let copies = self.host_updates(&all);
        self.device_updates(&all);
        self.weights_from_host(copies);
        self.gather_updated();
        self.give_back_others(&all);
    }

    /// The gradients of these modules are what the replicas have of them, and are added to no
    /// more: where the update is streamed, they are updated now.
    pub(super) fn complete(&mut self, all: &[usize]) {
        let Some(streamed) = &self.reduction.streamed else { return };
        let among = |of: &[usize]| -> Vec<usize> {
            all.iter().copied().filter(|owned| of.contains(owned)).collect()
        };
        let (spread, table) = (among(&streamed.spread), among(streamed.table.as_slice()));
        self.sum_gradients(&spread, self.groups.tensor);
        self.sum_gradients(&table, self.groups.ends);
        let phase = std::mem::replace(&mut self.build.phase, Phase::Optimizer);
        let copies = self.host_updates(all);
        self.device_updates(all);
        self.give_back_others(all);
        if let Some(streamed) = &mut self.reduction.streamed {
            streamed.copies.extend(copies);
        }
        self.build.phase = phase;
    }

    /// The update of what is on its way at the end, and what follows the whole backward pass.
    pub(super) fn end_streamed_update(&mut self) {
        let Some(streamed) = &mut self.reduction.streamed else { return };
        let last = std::mem::take(&mut streamed.reduced);
        self.build.phase = Phase::Backward;
        self.complete(&last);
        self.build.phase = Phase::Optimizer;
        let streamed = self.reduction.streamed.take();
        self.weights_from_host(streamed.map_or(Vec::new(), |streamed| streamed.copies));
        self.gather_updated();
    }

    /// Modules, copies of their weights and bytes of those, as the host leaves them.
    fn host_updates(&mut self, all: &[usize]) -> Vec<(usize, ObjectId, u128)> {
        let mut copies = Vec::new();
        for &owned in all {
            for update in self.owned[owned].updates.clone() {
                if update.side == Side::Host {
                    let copy = self.host_update(owned, &update);
                    copies.extend(copy.map(|copy| (owned, copy, update.weights)));
                }
            }
        }
        copies
    }

    fn device_updates(&mut self, all: &[usize]) {
        for &owned in all {
            for update in self.owned[owned].updates.clone() {
                if update.side == Side::Device {
                    self.device_update(owned, &update);
                }
            }
        }
    }

    fn weights_from_host(&mut self, copies: Vec<(usize, ObjectId, u128)>) {
        for (owned, copy, bytes) in copies {
            let weight = self.weights_of(owned, bytes, true);
            self.build.streaming(
                "weights_from_host",
                self.module(owned),
                Streaming::Copy,
                &[read(copy), weight],
            );
        }
    }

    /// What other ranks update of a gradient is given back with the rest.
    fn give_back_others(&mut self, all: &[usize]) {
        let last = OpId::at(self.build.trace.ops.len() - 1);
        for &owned in all {
            for &(side, object) in &self.owned[owned].gradient {
                if side == Side::Others {
                    self.build.trace.objects[object.index()].freed_after = Some(last);
                }
            }
        }
    }

    /// How `bytes` of the weights change: overwritten, or worked out from what they were.
    pub(super) fn weights_of(
        &self,
        owned: usize,
        bytes: u128,
        is_overwritten: bool,
    ) -> ObjectAccess {
        let weight = self.owned[owned].weight;
        match (self.build.size(weight) == bytes, is_overwritten) {
            (true, true) => write(weight),
            (true, false) => change(weight),
            (false, true) => change(weight).part(bytes),
            (false, false) => change(weight).part(2 * bytes),
        }
    }

    fn gradient_of(&self, owned: usize, side: Side) -> Option<ObjectAccess> {
        let row = &self.owned[owned];
        let &(_, object) = row.gradient.iter().find(|&&(of, _)| of == side)?;
        // Without a part for the host, a gradient is one object, of which this rank needs its
        // shard.
        let is_whole = side == Side::Device && self.shape.zero.host_update == 0;
        let shard = row.gradient_bytes.div_ceil(u128::from(row.replicas));
        let is_sharded = is_whole && self.shape.zero.stage == 1;
        Some(if is_sharded { read(object).part(shard) } else { read(object) })
    }

    /// Gives the copy that the weights are left in, where there is a master.
    fn host_update(&mut self, owned: usize, update: &Update) -> Option<ObjectId> {
        let name = format!("{}.host", self.build.name(self.owned[owned].weight));
        let size = (update.weights, self.shape.formats.weights);
        let copy =
            update.has_master.then(|| self.build.object(name, ObjectKind::Buffer, size, None));
        let mut touches: Vec<ObjectAccess> =
            self.gradient_of(owned, Side::Host).into_iter().collect();
        touches.extend(update.state.iter().map(|&state| change(state)));
        touches.push(match copy {
            Some(copy) => write(copy),
            None => self.weights_of(owned, update.weights, false),
        });
        let (name, stream) = (self.shape.optimizer.op(), self.sibling(2));
        self.build.op_on(Unit::Cpu, stream, name, self.module(owned), 0, &touches);
        copy
    }

    fn device_update(&mut self, owned: usize, update: &Update) {
        let gradient = self.gradient_of(owned, Side::Device);
        if self.shape.loops_over_parameters() {
            self.eager_update(owned, update, gradient);
            return;
        }
        if let Some(gradient) = gradient.filter(|_| self.shape.has_passes()) {
            self.update_in_passes(owned, update, gradient);
            return;
        }
        let mut touches: Vec<ObjectAccess> = gradient.into_iter().collect();
        touches.extend(update.state.iter().map(|&state| change(state)));
        touches.push(self.weights_of(owned, update.weights, update.has_master));
        self.build.streaming(
            self.shape.optimizer.op(),
            self.module(owned),
            Streaming::Optimizer,
            &touches,
        );
    }

    /// The same in the passes of mixed precision, which end in a master copy.
    fn update_in_passes(&mut self, owned: usize, update: &Update, gradient: ObjectAccess) {
        let (by, formats) = (self.module(owned), self.shape.formats);
        let Some(&master) = update.state.last() else { return };
        // A share of a shard may end within a number.
        let numbers = update.weights.div_ceil(u128::from(formats.weights.bytes()));
        let bytes = numbers * u128::from(Format::Fp32.bytes());
        let wide = if formats.gradients == Format::Fp32 {
            gradient.object
        } else {
            let name = format!("{}.grad.fp32", self.build.name(self.owned[owned].weight));
            let wide = self.build.object(name, ObjectKind::Buffer, (bytes, Format::Fp32), None);
            let touches = [gradient, write(wide)];
            self.build.streaming("gradient_to_fp32", by, Streaming::Copy, &touches);
            wide
        };
        let (from, changed) = (read(wide).part(bytes), change(wide).part(2 * bytes));
        if formats.weights == Format::Fp16 {
            self.build.streaming("unscale", by, Streaming::ElementWise, &[changed]);
        }
        self.build.streaming("gradient_norm", by, Streaming::ElementWise, &[from]);
        self.build.streaming("clip", by, Streaming::ElementWise, &[changed]);
        let mut touches = vec![from];
        touches.extend(update.state.iter().map(|&state| change(state)));
        self.build.streaming(self.shape.optimizer.op(), by, Streaming::Optimizer, &touches);
        let weights = self.weights_of(owned, update.weights, true);
        let touches = [read(master), weights];
        self.build.streaming("weights_from_master", by, Streaming::Copy, &touches);
    }
}
