//! Single ops as tables of measurements have them, and what a machine takes for each.
//!
//! Invariant: an op is priced by the formulas that price the ops of a run; only experts are told
//! more exactly, by how tokens spread over them.

use crate::collective::Collective;
use crate::hardware::Hardware;
use crate::kernel::{Kernel, Product, Work};
use crate::op_times::experts::{Deal, Layer, Load, Spread, loads};
use crate::op_times::{Around, OpTimes, PricedBy};

/// What one row of a table is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A kernel with a shape.
    Kernel(Kernel),
    /// The experts of a layer, and how tokens spread over them.
    Experts(Layer, Spread),
    /// A collective, and whether its numbers can be added in a switch.
    Collective(Collective, bool),
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredOp {
    /// The line of the file.
    pub line: u64,
    /// The precision of its products, such as `bf16`.
    pub precision: &'static str,
    /// What it is.
    pub what: What,
    /// Seconds that it took, if somebody ran it.
    pub seconds: Option<f64>,
}

impl MeasuredOp {
    /// A product whose inputs have so many bytes a number, and whose result has two.
    pub fn product(
        line: u64,
        (precision, bytes): (&'static str, u64),
        shape: Product,
        seconds: Option<f64>,
    ) -> MeasuredOp {
        let Product { m, n, k, .. } = shape;
        let [a, b, c] = [(m, k), (k, n), (m, n)].map(|(x, y)| u128::from(x) * u128::from(y));
        let bytes = u128::from(bytes) * (a + b) + 2 * c;
        let what = What::Kernel(Kernel::new(Work::Product(shape), shape.flops(), bytes));
        MeasuredOp { line, precision, what, seconds }
    }

    /// Which kind it is, in words.
    pub fn kind(&self) -> &'static str {
        match self.what {
            What::Kernel(Kernel { work: Work::Product(_), .. }) => "product",
            What::Kernel(Kernel { work: Work::Attention(of), .. }) if of.new == 1 => "decode",
            What::Kernel(Kernel { work: Work::Attention(_), .. }) => "prefill",
            What::Kernel(Kernel { work: Work::Streaming(class), .. }) => class.word(),
            What::Kernel(_) => "kernel",
            What::Experts(..) => "experts",
            What::Collective(of, _) => of.kind.word(),
        }
    }

    /// Loads of the experts of the busiest device, dealt as in other tables of the device; empty for
    /// what are no experts.
    pub fn loads(&self, times: &OpTimes) -> Vec<Load> {
        match &self.what {
            What::Experts(layer, spread) => {
                let of = times.experts_of(self.precision == "fp8", layer.top_k);
                loads(layer, *spread, of.map_or(Deal::Level, |of| of.numbers.deal()))
            }
            _ => Vec::new(),
        }
    }

    /// Which section of a file of op times prices it; `None` without a formula.
    pub fn section(&self, times: &OpTimes) -> Option<&'static str> {
        let fp8 = self.precision == "fp8";
        let wide = matches!(self.precision, "bf16" | "fp16");
        match &self.what {
            What::Kernel(Kernel { work: Work::Product(_), .. }) if wide => Some("products"),
            What::Kernel(Kernel { work: Work::Product(_), .. }) if fp8 => Some("fp8"),
            What::Kernel(Kernel { work: Work::Attention(_), .. }) if wide || fp8 => {
                Some("attention")
            }
            What::Experts(layer, _) if wide || fp8 => {
                let few = if fp8 { times.experts_few_fp8 } else { times.experts_few };
                Some(match (few.is_some() && layer.top_k <= 2, fp8) {
                    (true, true) => "experts_few_fp8",
                    (true, false) => "experts_few",
                    (false, true) => "experts_fp8",
                    (false, false) => "experts",
                })
            }
            What::Kernel(Kernel { work: Work::Streaming(class), .. }) => {
                let own = times.unfused.is_some_and(|of| of.numbers.has(*class));
                Some(if own { "unfused" } else { "streaming" })
            }
            What::Collective(..) => Some("collectives"),
            _ => None,
        }
    }

    /// Seconds by formula, with the op's own [`MeasuredOp::loads`]; `None` without a formula or
    /// its numbers.
    pub fn by_formula(&self, times: &OpTimes, loads: &[Load]) -> Option<(f64, PricedBy)> {
        match &self.what {
            What::Kernel(kernel) => times.seconds(self.precision, kernel, Around::Itself),
            What::Experts(layer, _) => {
                // Of other precisions nothing is known.
                self.section(times)?;
                let of = times.experts_of(self.precision == "fp8", layer.top_k)?;
                Some((of.numbers.of_loads(times.on(), layer, loads), of.by()))
            }
            What::Collective(collective, adds) => {
                let of = times.collectives?;
                Some((collective.measured(&of.numbers, *adds)?, of.by()))
            }
        }
    }

    /// Seconds on a machine, and how they are known; `None` without a device, or a peak of its
    /// precision, or so many devices and a way to them.
    pub fn on(&self, hardware: &Hardware) -> Option<(f64, PricedBy)> {
        let compute = hardware.compute.as_ref()?;
        let times = compute.op_times.as_deref();
        // Of a machine that says how many devices a server has, more are not within one.
        let meets = hardware.server.within.is_some();
        if let What::Collective(of, _) = &self.what
            && meets
            && of.ranks() > u64::from(hardware.server.devices)
        {
            return None;
        }
        let measured = times.and_then(|times| match &self.what {
            What::Kernel(kernel) => {
                times.seconds_on(compute.attention, self.precision, kernel, Around::Itself)
            }
            _ => self.by_formula(times, &self.loads(times)),
        });
        let span = || match &self.what {
            What::Kernel(of) => compute.roofline(self.precision, of.flops, of.bytes),
            What::Experts(layer, _) => {
                let of = experts(layer, self.precision);
                compute.roofline(self.precision, of.flops, of.bytes)
            }
            What::Collective(..) if !meets => None,
            What::Collective(of, _) => {
                let laws = hardware.collective_laws(u32::try_from(of.ranks()).ok()?);
                of.exchange(laws).span(laws.ways)
            }
        };
        measured.or_else(|| Some((span()?.ps() as f64 * 1e-12, PricedBy::Roofline)))
    }
}

/// All experts of a layer on one device as one product, for the roofline.
fn experts(layer: &Layer, precision: &str) -> Kernel {
    let Layer { tokens, hidden, ffn, top_k, experts, expert_parallel, gated } = *layer;
    let up = if gated { 3 } else { 2 };
    let pairs = (tokens * top_k).div_ceil(expert_parallel.max(1));
    let shape = Product::new(pairs, up * ffn, hidden);
    let number = if precision == "fp8" { 1u128 } else { 2 };
    let weights = u128::from((experts / expert_parallel.max(1)).min(pairs))
        * u128::from(up * ffn)
        * u128::from(hidden);
    let activations = 2 * u128::from(pairs) * u128::from(hidden);
    Kernel::new(Work::Product(shape), shape.flops(), number * weights + 2 * activations)
}
