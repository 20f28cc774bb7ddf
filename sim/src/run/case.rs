//! From a case to what is simulated: its memory, its own ops and what is watched.

use super::{Asked, Bench, Options, RunError};
use crate::scenario::Case;
use tiersim_policies::ledger::Memory;

impl Bench<'_> {
    /// Mean step of a case over that of the baseline; `None` if it runs out of memory. Far cheaper than a
    /// whole record, which has a bound: for searches that run thousands of cases.
    pub fn slowdown(&self, case: &Case, options: Options) -> Result<Option<f64>, RunError> {
        let outcome = self.with_asked(case, |asked| self.simulate(&case.label, asked, options));
        let step = self.baseline.mean_step();
        Ok(outcome?.outcome.figures().map(|figures| figures.slowdown(step)))
    }

    /// Gives what a case asks for to `answer`.
    pub(super) fn with_asked<T>(
        &self,
        case: &Case,
        answer: impl FnOnce(&Asked<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let capacities = self.capacities_of(case)?;
        let hidden = self.hidden_of(case)?;
        let allocators = case.allocators.as_slice();
        let memory = Memory { capacities: &capacities, hidden: &hidden, allocators };
        let batches = self.micro_batches(case, memory)?;
        let own = self.own(batches.as_deref(), case.chunk)?;
        let mut asked = self.plain(case.policy.clone(), memory);
        asked.numa = case.numa.clone();
        if let Some(own) = &own {
            (asked.workload, asked.durations) = (&own.workload, &own.durations);
        }
        asked.watched = case.pressure.as_ref().map(|config| (config, batches.unwrap_or_default()));
        answer(&asked)
    }
}
