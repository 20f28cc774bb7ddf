//! How long every op of a run takes, worked out before the run.
//!
//! Drawn in trace order from the scenario's seed, so that every case of a scenario sees the same
//! draws: cases differ by policy, not by luck.

use crate::scenario::{OpTime, WorkloadSpec};
use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use rand_distr::{Distribution, LogNormal};
use tiersim_models::units::Span;
use tiersim_models::workload::Trace;

/// The duration of every op, replay by replay.
///
/// Errors in words if the trace lacks what the scenario asks for.
pub fn durations(trace: &Trace, spec: &WorkloadSpec, seed: u64) -> Result<Vec<Span>, String> {
    let once: Vec<Span> = match &spec.time {
        OpTime::Roofline { compute, precision } => {
            let time =
                |op: &tiersim_models::workload::Op| compute.roofline(precision, op.flops, op.bytes);
            let spans: Option<Vec<Span>> = trace.ops.iter().map(time).collect();
            spans.ok_or_else(|| format!("{} has no peak for {precision}", compute.name))?
        }
        OpTime::Recorded { scale } => {
            let time = |(row, op): (usize, &tiersim_models::workload::Op)| {
                let span = op.duration.ok_or(row)?;
                Ok(span.scaled(*scale))
            };
            let spans: Result<Vec<Span>, usize> = trace.ops.iter().enumerate().map(time).collect();
            spans.map_err(|row| format!("op {row} of the trace has no recorded duration"))?
        }
    };
    let mut all = Vec::with_capacity(once.len() * spec.repeat as usize);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let jitter = (spec.jitter > 0.0).then(|| mean_one(spec.jitter));
    for _ in 0..spec.repeat {
        all.extend(once.iter().map(|span| match &jitter {
            Some(factor) => span.scaled(factor.sample(&mut rng)),
            None => *span,
        }));
    }
    Ok(all)
}

/// The log-normal distribution of mean 1 and standard deviation `deviation`:
/// sigma^2 = ln(1 + deviation^2), mu = -sigma^2 / 2.
fn mean_one(deviation: f64) -> LogNormal<f64> {
    let variance = (deviation * deviation).ln_1p();
    LogNormal::new(-variance / 2.0, variance.sqrt()).expect("the deviation is finite")
}
