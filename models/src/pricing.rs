//! What the ops of a workload take on a device.
//!
//! Invariant: an op whose kernels are known takes what they take one after the other.

use crate::collective::Collective;
use crate::hardware::{CollectiveLaws, Compute};
use crate::op_times::PricedBy;
use crate::units::Span;
use crate::workload::{Op, Unit};

impl Compute {
    /// Time of an op: of its kernels where they are known, of its FLOPs and bytes elsewhere.
    ///
    /// `None` as for [`Compute::roofline`].
    pub fn time(&self, precision: &str, op: &Op) -> Option<Span> {
        match &op.kernels {
            Some(kernels) => self.kernels(precision, kernels),
            None => self.roofline(precision, op.flops, op.bytes),
        }
    }

    /// The launches of a collective; what was measured within a server has them in it.
    pub fn collective_launch(&self, of: &Collective) -> Span {
        let times = self.op_times.as_ref().and_then(|times| times.collectives);
        match times.and_then(|times| of.measured(&times.numbers, true)) {
            Some(_) => Span::ZERO,
            None => Span::from_ps(self.launch.ps().saturating_mul(of.times.into())),
        }
    }

    /// Time of a collective over links that carry nothing else; `None` if it outlasts the clock.
    pub fn collective(&self, of: &Collective, laws: CollectiveLaws) -> Option<Span> {
        let sent = of.exchange(laws).span(laws.ways)?;
        self.collective_launch(of).ps().checked_add(sent.ps()).map(Span::from_ps)
    }

    /// How many kernels of these ops are priced by measurement, by inheritance and by the roofline.
    pub fn priced<'o>(&self, precision: &str, ops: impl Iterator<Item = &'o Op>) -> [u64; 3] {
        let mut counts = [0; 3];
        for op in ops.filter(|op| matches!(op.unit, Unit::Device | Unit::Idle)) {
            let Some(kernels) = &op.kernels else {
                counts[2] += 1;
                continue;
            };
            for kernel in kernels.iter() {
                let by = self.kernel(precision, kernel).map(|(_, by)| by);
                let at = match by.unwrap_or(PricedBy::Roofline) {
                    PricedBy::Measurement => 0,
                    PricedBy::Inheritance => 1,
                    PricedBy::Roofline => 2,
                };
                counts[at] += kernel.times;
            }
        }
        counts
    }
}
