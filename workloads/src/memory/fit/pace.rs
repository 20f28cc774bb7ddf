//! How quick a job is on what it is to run on: estimates of steps, and what a setting comes to.

use super::super::Overflow;
use super::cost::cost;
use crate::memory::account::{Step, Training};
use tiersim_models::hardware::Compute;
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_fit::{Cost, Fit, Rates};

/// How quick what a job is to fit into is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace<'a> {
    /// Its rates.
    pub rates: Rates,
    /// The device, if it is known, and the precision of products.
    pub device: Option<(&'a Compute, &'a str)>,
}

/// Estimates of steps; what ops take is worked out once per step, whatever is done with state.
pub(super) struct Estimates<'a> {
    pace: Pace<'a>,
    computing: Vec<(Step, Option<f64>)>,
}

impl Estimates<'_> {
    pub(super) fn new<'a>(pace: &Pace<'a>) -> Estimates<'a> {
        Estimates { pace: *pace, computing: Vec::new() }
    }

    /// Seconds of a step.
    pub(super) fn seconds(&mut self, job: &Training, cost: &Cost) -> Option<f64> {
        let step = job.step.as_ref()?;
        // Ops of a step compress what they keep; beside FLOPs it is counted.
        let by_flops = || {
            let rate = self.pace.rates.flops.filter(|_| cost.flops > 0)?;
            let compressed = match cost.compressed {
                0 => 0.0,
                bytes => bytes as f64 / self.pace.rates.memory?,
            };
            Some(cost.flops as f64 / rate + compressed)
        };
        let by_flops = by_flops();
        Some(self.by_ops(job, step).or(by_flops)? + cost.seconds_away(&self.pace.rates)?)
    }

    /// Seconds of the device's ops.
    fn by_ops(&mut self, job: &Training, step: &Step) -> Option<f64> {
        let (compute, precision) = self.pace.device?;
        if let Some((_, found)) = self.computing.iter().find(|(known, _)| known == step) {
            return *found;
        }
        let of = |job: &Training| job.generated()?.computing(compute, precision);
        let seconds = of(job).map(|ps| ps as f64 / 1e12);
        self.computing.push((step.clone(), seconds));
        seconds
    }

    /// What stands for seconds where no rate is known: FLOPs, of a step that only computes.
    pub(super) fn weight(&self, cost: &Cost) -> Option<f64> {
        let only = self.pace.rates.flops.is_none() && cost.computes_only() && cost.flops > 0;
        only.then_some(cost.flops as f64)
    }
}

/// What a job comes to, beside a step that takes `best`; its changes and the host's lack of memory
/// are left to who asks.
pub(super) fn outcome(
    job: &Training,
    account: &Account,
    estimates: &mut Estimates<'_>,
    best: Option<f64>,
) -> Result<Fit, Overflow> {
    let cost = cost(job)?;
    let seconds = estimates.seconds(job, &cost);
    let time = seconds.or_else(|| estimates.weight(&cost));
    let tokens =
        job.step.as_ref().map(|step| (step.batch * job.data()) as f64 * step.sequence as f64);
    Ok(Fit {
        changes: Vec::new(),
        bytes: [account.gpu, account.cpu_per_node, account.nvme_per_node],
        more_cpu: 0,
        seconds,
        tokens_per_s: seconds.zip(tokens).map(|(seconds, tokens)| tokens / seconds),
        slowdown: time.zip(best).map(|(time, best)| time / best),
        cost,
    })
}
