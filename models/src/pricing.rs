//! What the ops of a workload take on a device.
//!
//! An op whose kernels are known takes what they take one after the other. How much of a step is
//! products decides how far the limit of power holds them back, so a step is priced as a whole.
//! Invariant: ops of the same step in the same order take the same time, whatever is around it.

use crate::collective::Collective;
use crate::hardware::{CollectiveLaws, Compute};
use crate::kernel::{Kernel, Work};
use crate::op_times::{PricedBy, Throttle};
use crate::units::Span;
use crate::workload::{Op, Unit};
use std::collections::BTreeMap;

/// Seconds of a device: of products at their full rate, and of all.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    products: f64,
    all: f64,
}

impl Compute {
    /// Time of every op, of all steps that these are; of what no device computes what it would
    /// take there.
    ///
    /// `None` of an op as for [`Compute::roofline`].
    pub fn times(&self, precision: &str, ops: &[Op]) -> Vec<Option<Span>> {
        let of = |throttle| move |op: &Op| self.time(precision, op, throttle);
        let mut times: Vec<Option<Span>> = ops.iter().map(of(Throttle::NONE)).collect();
        let Some(rate) = self.held_back(precision) else { return times };
        let mut steps: BTreeMap<u32, Busy> = BTreeMap::new();
        for (op, time) in ops.iter().zip(&times) {
            let (Unit::Device | Unit::Idle, Some(time)) = (op.unit, time) else { continue };
            let busy = steps.entry(op.step).or_default();
            busy.all += seconds(*time);
            if op.unit == Unit::Device {
                busy.products += multiplied(op.kernels.as_deref().unwrap_or_default()) / rate;
            }
        }
        for (op, time) in ops.iter().zip(&mut times) {
            let Busy { products, all } = steps.get(&op.step).copied().unwrap_or_default();
            let throttle = Throttle::of(products, all);
            let kernels = op.kernels.as_deref().unwrap_or_default();
            if throttle > Throttle::NONE && kernels.iter().any(is_product) {
                *time = of(throttle)(op);
            }
        }
        times
    }

    /// Time of kernels one after the other and again and again, with nothing between.
    ///
    /// `None` as for [`Compute::roofline`].
    pub fn kernels(&self, precision: &str, kernels: &[Kernel]) -> Option<Span> {
        let all = self.sum(precision, kernels, Throttle::NONE)?;
        let Some(rate) = self.held_back(precision) else { return Some(all) };
        let throttle = Throttle::of(multiplied(kernels) / rate, seconds(all));
        if throttle == Throttle::NONE {
            return Some(all);
        }
        self.sum(precision, kernels, throttle)
    }

    /// The rate of products if a long run of them has less.
    fn held_back(&self, precision: &str) -> Option<f64> {
        self.op_times.as_ref()?.held_back(precision)
    }

    /// Time of an op: of its kernels where they are known, of its FLOPs and bytes elsewhere.
    fn time(&self, precision: &str, op: &Op, throttle: Throttle) -> Option<Span> {
        match &op.kernels {
            Some(kernels) => self.sum(precision, kernels, throttle),
            None => self.roofline(precision, op.flops, op.bytes),
        }
    }

    fn sum(&self, precision: &str, kernels: &[Kernel], throttle: Throttle) -> Option<Span> {
        let mut sum = 0u64;
        for kernel in kernels {
            let (one, _) = self.kernel(precision, kernel, throttle)?;
            sum = sum.checked_add(one.ps().checked_mul(kernel.times)?)?;
        }
        Some(Span::from_ps(sum))
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
                let by = self.kernel(precision, kernel, Throttle::NONE).map(|(_, by)| by);
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

fn is_product(kernel: &Kernel) -> bool {
    matches!(kernel.work, Work::Product(_))
}

/// FLOPs of kernels that multiply matrices.
fn multiplied(kernels: &[Kernel]) -> f64 {
    let all = kernels.iter().filter(|kernel| !matches!(kernel.work, Work::Streaming(_)));
    all.map(|kernel| kernel.flops as f64 * kernel.times as f64).sum()
}

fn seconds(span: Span) -> f64 {
    span.ps() as f64 / 1e12
}
