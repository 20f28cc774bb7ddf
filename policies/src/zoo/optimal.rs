//! The best plan that can be found: an oracle that tries plans on the simulator.
//!
//! There are plans of two kinds. One says for every inactive interval of every object whether it is
//! spent outside HBM, where, when the object leaves and when it comes back, or that it is used
//! where it is; what it cannot provide for is done on demand. The other leaves copies to
//! [`super::clairvoyant_offload`], which decides op by op, and orders which objects it uses where
//! they are and which contents it does not copy out early. The first plans are G10's
//! ([`super::planned_migration`]), that policy as it is, and those of the linear program that
//! bounds the step ([`crate::bound::advice`]), with its shares rounded to whole objects. The
//! quickest of them is then changed piece by piece, and a change stays if the simulated step is no
//! longer for it, until so many runs are spent.
//! Invariant: the same setting and number of runs give the same plan.

mod classes;
#[cfg(feature = "lp")]
mod online;
mod orders;
#[cfg(feature = "lp")]
mod search;

use crate::entry::{Entry, Kind, Parameter};
use crate::policy::Policy;
#[cfg(feature = "lp")]
use crate::recipe::Judge;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::zoo::clairvoyant_offload::{ClairvoyantOffload, ClairvoyantOffloadConfig, Uses};
use crate::zoo::planned_migration::PlannedMigration;
use crate::zoo::planned_migration::intervals::Gaps;
use crate::zoo::planned_migration::schedule::Schedule;
use classes::Found;
use orders::{Orders, Steps};
use std::sync::{Arc, Mutex};
use tiersim_models::ids::TierId;

/// Runs that are spent if a scenario does not say how many.
const RUNS: u32 = 600;

/// Parameters of `optimal`.
#[derive(Clone, Debug)]
pub struct OptimalConfig {
    /// Where objects may be outside HBM.
    pub spill: Vec<TierId>,
    /// Runs of the simulator that are spent at most.
    pub runs: u32,
    /// What has been found; without it everything is done on demand.
    found: Option<Best>,
}

/// What is carried out.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "lp"), expect(dead_code, reason = "only a search finds it"))]
enum Best {
    /// These decisions.
    Plan(Arc<Found>),
    /// What another policy decides op by op under these orders; it notes early copies that were of
    /// no use.
    Online(Arc<(Steps, Orders)>, Option<Arc<Mutex<Uses>>>),
}

impl OptimalConfig {
    /// Nothing is found yet.
    pub fn new(spill: Vec<TierId>, runs: u32) -> OptimalConfig {
        OptimalConfig { spill, runs, found: None }
    }
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Optimal",
    about: "the best plan found by linear program and search, each tried on the simulator",
    parameters: &[
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("runs", Kind::Count { least: 1, most: 100_000 }),
    ],
    make: |params| {
        let runs = params.count("runs").map(|runs| u32::try_from(runs).expect("in range"));
        let spill = params.tiers("spill");
        Ok(OptimalConfig::new(spill, runs.unwrap_or(RUNS)).into())
    },
};

impl Recipe for OptimalConfig {
    fn name(&self) -> &'static str {
        "optimal"
    }

    fn details(&self) -> String {
        format!("best of {} runs", self.runs)
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        if cfg!(not(feature = "lp")) {
            return Err(
                "Optimal needs a solver of linear programs, which this build lacks: build \
                        it with feature `lp`"
                    .to_owned(),
            );
        }
        let gaps = Gaps::with_held(setting);
        let stays = match &self.found {
            Some(Best::Online(ordered, wasted)) => {
                let told = ordered.0.told(setting.workload, &ordered.1, wasted.clone());
                let config = ClairvoyantOffloadConfig {
                    spill: self.spill.clone(),
                    window: None,
                    remembers: false,
                    in_place: false,
                };
                return Ok(Box::new(ClairvoyantOffload::with(&config, told, setting)?));
            }
            Some(Best::Plan(found)) => found.stays(&gaps),
            None => vec![None; gaps.all.len()],
        };
        let schedule = Schedule::new(&gaps, &stays, &self.spill);
        let policy = PlannedMigration::following(schedule, &gaps, &self.spill, setting);
        Ok(Box::new(policy.called(self.name())))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(OptimalConfig { spill, ..self.clone() }.into())
    }

    #[cfg(feature = "lp")]
    fn searched(&self, setting: &Setting<'_>, judge: Judge<'_>) -> Option<PolicyConfig> {
        // What was found is not looked for again.
        if self.found.is_some() { None } else { search::searched(self, setting, judge) }
    }
}
