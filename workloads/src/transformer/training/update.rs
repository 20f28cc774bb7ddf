//! The optimizer: one op per module for what the device updates, and one for what the host does.
//!
//! An op reads its part of the gradient, changes its state and writes its part of the weights: with
//! AdamW and 16-bit weights and gradients 28 bytes per parameter (2 of gradient, 8 of moments and 4
//! of master read and written, 2 of weights). The host's processors leave the weights in a copy,
//! which is then copied to the device. All of the CPU ops are issued first, so that host and
//! device work side by side.

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::state::{Side, Update};
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Streaming;
use tiersim_models::workload::{ObjectKind, Unit};

impl GraphBuilder<'_> {
    /// The update of all modules.
    pub(super) fn update(&mut self) {
        let mut copies = Vec::new();
        for owned in 0..self.owned.len() {
            for update in self.owned[owned].updates.clone() {
                if update.side == Side::Host {
                    let copy = self.host_update(owned, &update);
                    copies.push((owned, copy, update.weights));
                }
            }
        }
        for owned in 0..self.owned.len() {
            for update in self.owned[owned].updates.clone() {
                if update.side == Side::Device {
                    self.device_update(owned, &update);
                }
            }
        }
        for (owned, copy, bytes) in copies {
            let weight = self.weights_of(owned, bytes, true);
            self.build.streaming(
                "weights_from_host",
                self.module(owned),
                Streaming::Copy,
                &[read(copy), weight],
            );
        }
        self.gather_updated();
        // What other ranks update of a gradient is given back with the rest.
        let last = tiersim_models::ids::OpId::at(self.build.trace.ops.len() - 1);
        for owned in &self.owned {
            for &(side, object) in &owned.gradient {
                if side == Side::Others {
                    self.build.trace.objects[object.index()].freed_after = Some(last);
                }
            }
        }
    }

    /// How `bytes` of the weights change: overwritten, or worked out from what they were.
    fn weights_of(&self, owned: usize, bytes: u128, is_overwritten: bool) -> ObjectAccess {
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

    fn host_update(&mut self, owned: usize, update: &Update) -> ObjectId {
        let name = format!("{}.host", self.build.name(self.owned[owned].weight));
        let size = (update.weights, self.shape.formats.weights);
        let copy = self.build.object(name, ObjectKind::Buffer, size, None);
        let mut touches: Vec<ObjectAccess> =
            self.gradient_of(owned, Side::Host).into_iter().collect();
        touches.extend(update.state.iter().map(|&state| change(state)));
        touches.push(write(copy));
        let (name, stream) = (self.shape.optimizer.op(), self.sibling(2));
        self.build.op_on(Unit::Cpu, stream, name, self.module(owned), 0, &touches);
        copy
    }

    fn device_update(&mut self, owned: usize, update: &Update) {
        let mut touches: Vec<ObjectAccess> =
            self.gradient_of(owned, Side::Device).into_iter().collect();
        touches.extend(update.state.iter().map(|&state| change(state)));
        touches.push(self.weights_of(owned, update.weights, update.has_master));
        self.build.streaming(
            self.shape.optimizer.op(),
            self.module(owned),
            Streaming::Optimizer,
            &touches,
        );
    }
}
