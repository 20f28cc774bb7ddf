//! `--half-width`: a run with jitter again with other seeds, until its means are known well enough.

use crate::args::Common;
use crate::draws::Drawn;
use crate::output::Failure;
use crate::progress;
use clap::Args as ClapArgs;
use rayon::prelude::*;
use tiersim_models::results::RunRecord;
use tiersim_models::results::replications::Replications;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_sim::draws::{Places, drawn, has_jitter};
use tiersim_sim::run::{Kin, Options};

/// Replications that run side by side before it is looked whether they are enough. How many threads
/// there are must not matter.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct ReplicationArgs {
    /// Where ops or copies have jitter, run again with seeds SEED, SEED + 1, ... until the 95 %
    /// confidence interval of every mean step is within this share of it, such as 0.01.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) half_width: Option<f64>,
    /// Most replications; the result says if they were not enough.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "half_width",
          value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub(crate) most_replications: u32,
}

fn share(text: &str) -> Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|share| (1e-6..=0.5).contains(share));
    read.ok_or_else(|| "a share of the mean from 1e-6 to 0.5, such as 0.01 for 1 %".to_owned())
}

impl ReplicationArgs {
    /// Adds replications to the record of `run`, if they were asked for.
    pub(crate) fn replicate(
        self,
        common: &Common,
        run: &Sweep,
        traces: &Traces,
        record: &mut RunRecord,
    ) -> Result<(), Failure> {
        let Some(share) = self.half_width else { return Ok(()) };
        let most = self.most_replications as usize;
        let places = Places::of(record, run);
        let options = Options { audit: common.audit, ..Options::default() };
        let steps = vec![Vec::new(); record.results.len()];
        let mut all = Replications { share, most, count: 0, steps };
        let most = if has_jitter(run) { most } else { 1 };
        let kin = Kin::default();
        let bar = progress::bar(most, common.quiet);
        bar.set_message("replications at most");
        while all.count < most && all.enough().is_none() {
            let next: Vec<u64> =
                (all.count..most.min(all.count + AT_ONCE)).map(|n| n as u64).collect();
            let ran = next.par_iter().map(|&replication| {
                let again = seeded(run, replication);
                let ran = drawn(&places, &again, traces, options, &kin);
                bar.inc(1);
                ran
            });
            let ran: Vec<Result<Drawn, _>> = ran.collect();
            for cases in ran {
                all.count += 1;
                for (steps, case) in all.steps.iter_mut().zip(cases?) {
                    steps.push(case.map(|case| case.step));
                }
            }
        }
        bar.finish_and_clear();
        if let Some(enough) = all.enough() {
            all.cut(enough);
        }
        record.replications = Some(all);
        Ok(())
    }
}

/// The run with another seed.
fn seeded(run: &Sweep, replication: u64) -> Sweep {
    let mut again = run.clone();
    let scenarios = again.points.iter_mut().map(|point| &mut point.scenario);
    for scenario in scenarios.chain([&mut again.base]) {
        scenario.seed = scenario.seed.wrapping_add(replication);
    }
    again
}
