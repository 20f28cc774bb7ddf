//! From a case to what is simulated (its memory, its own ops, what is watched), and to its record.

use super::kin::Owners;
use super::{BoundMethod, CaseInputs, CaseRunner, Options, RunError, Simulated, owners};
use crate::run::walked::Walk;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tiersim_models::compression::Storing;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::ModuleId;
use tiersim_models::results::economics::CaseEconomics;
use tiersim_models::results::explain::Gap;
use tiersim_models::results::uncertainty::DrawnCase;
use tiersim_models::results::{CaseRan, CaseRecord, Figures, Lookahead, Outcome, Placement};
use tiersim_models::units::Span;
use tiersim_policies::recipe::{Origin, PolicyConfig};
use tiersim_policies::scenario::Case;

impl CaseRunner<'_> {
    /// Mean step of a case over that of the baseline; `None` if it runs out of memory. Far cheaper
    /// than a whole record, which has a bound: for searches that run thousands of cases.
    pub fn slowdown(&self, case: &Case, options: Options) -> Result<Option<f64>, RunError> {
        let outcome = self.with_asked(case, |asked| self.simulate(&case.label, asked, options));
        let step = self.baseline.mean_step();
        Ok(outcome?.outcome.figures().map(|figures| figures.slowdown(step)))
    }

    /// What a case is compared by ([`Figures::judged`]); `None` if it runs out of memory.
    pub fn judged(&self, case: &Case, options: Options) -> Result<Option<Span>, RunError> {
        let outcome = self.with_asked(case, |asked| self.simulate(&case.label, asked, options));
        Ok(outcome?.outcome.figures().map(Figures::judged))
    }

    /// What a band is made of; `None` if the case runs out of memory.
    pub fn drawn(&self, case: &Case, options: Options) -> Result<Option<DrawnCase>, RunError> {
        self.with_asked(case, |asked| {
            let outcome = self.simulate(&case.label, asked, options)?.outcome;
            let figures = outcome.figures();
            let economics = CaseEconomics::of(self.hardware, asked.memory, figures);
            Ok(figures.map(|figures| DrawnCase::of(figures, &economics)))
        })
    }

    /// What comes of a case, as its record has it, without the bound and all else beside it; and
    /// how much of the trace its policy looked at.
    pub fn outcome(&self, case: &Case, options: Options) -> Result<(Outcome, Lookahead), RunError> {
        let simulated =
            self.with_asked(case, |asked| self.simulate(&case.label, asked, options))?;
        Ok((simulated.outcome, simulated.lookahead))
    }

    /// Runs one case and keeps the critical path of its last replay, with its gap to the bound;
    /// `None` of these if it runs out of memory.
    pub fn walk(&self, case: &Case, options: Options) -> Result<Walk, RunError> {
        let options = Options { walk: true, ..options };
        self.with_asked(case, |asked| self.record(case, asked, options))
    }

    /// Gives what a case asks for to `answer`.
    pub(super) fn with_asked<T>(
        &self,
        case: &Case,
        answer: impl FnOnce(&CaseInputs<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let memory = &self.memory_of(case)?;
        let own;
        let batches = self.micro_batches(case, memory)?;
        let planned = self.planned(case, batches.as_deref(), memory)?;
        self.repeats.fetch_or(planned.repeats, Ordering::Relaxed);
        let mut asked = self.plain(planned.policy.clone(), memory);
        asked.numa = case.numa.clone();
        asked.runtime = &case.runtime;
        (asked.workload, asked.durations) = self.of_case(planned.own.as_ref());
        if planned.own.is_some() && memory.stores().is_some() {
            // Its objects are others.
            own = memory.clone().storing(self.storing(case, asked.workload));
            asked.memory = &own;
        }
        asked.policy = self.searched(case, &asked)?;
        asked.watched = case.pressure.as_ref().map(|config| (config, batches.unwrap_or_default()));
        answer(&asked)
    }

    /// The policy that is run: the best of what it tries, if it is one that is found by trying.
    pub(super) fn searched(
        &self,
        case: &Case,
        asked: &CaseInputs<'_>,
    ) -> Result<PolicyConfig, RunError> {
        let mut failed = None;
        let setting = self.setting(asked.workload, asked.durations, asked.memory);
        let mut judge = |policy: &PolicyConfig| {
            let policy = policy.clone();
            let (numa, watched) = (asked.numa.clone(), None);
            let tried = CaseInputs { policy, numa, watched, ..*asked };
            let options = Options { audit: false, ..Options::default() };
            let outcome = self.simulate(&case.label, &tried, options).map(|run| run.outcome);
            outcome.map_err(|error| failed = Some(error)).ok()?.figures().map(Figures::mean_step)
        };
        let found = asked.policy.searched(&setting, &mut judge);
        match failed {
            Some(error) => Err(error),
            None => Ok(found.unwrap_or_else(|| asked.policy.clone())),
        }
    }

    /// Where the state of modules lives, if the policy of a case places them.
    fn placement(&self, case: &Case) -> Result<Option<Placement>, RunError> {
        let trace = &self.workload.trace;
        let tiers = case.policy.placement(trace, self.hardware).map_err(RunError::Input)?;
        let Some(tiers) = tiers else { return Ok(None) };
        // Every case names the same ones.
        let Owners { ids, names } = self.kind.owners.get_or_init(|| {
            let ids: Vec<ModuleId> = owners(trace).into_iter().collect();
            let names =
                ids.iter().map(|module| trace.modules[module.index()].to_string()).collect();
            Owners { ids, names }
        });
        let tier = |module: &ModuleId| {
            u16::try_from(tiers[module.index()].index()).expect("machines have few tiers")
        };
        Ok(Some(Placement { modules: names.clone(), tiers: ids.iter().map(tier).collect() }))
    }

    /// Runs what a case asks for.
    pub(super) fn record(
        &self,
        case: &Case,
        asked: &CaseInputs<'_>,
        options: Options,
    ) -> Result<Walk, RunError> {
        let memory = asked.memory;
        let bound = self.bound_of(asked.workload, asked.durations, memory);
        let Simulated { mut outcome, pressure, lookahead, left_out, unpaid, walked } =
            self.simulate(&case.label, asked, options)?;
        let bound = match self.method {
            BoundMethod::Quick => bound,
            #[cfg(feature = "lp")]
            BoundMethod::Lp => self.seeing_time(asked, &outcome, bound),
        };
        let long_run = self.long_run(&mut outcome, options);
        let path = walked.zip(outcome.figures()).map(|(walked, figures)| {
            let path = walked.told(figures, &asked.workload.trace);
            let all = Span::from_ps(bound.step.ps().saturating_mul(path.steps));
            let paying = bound.cause.paid_by(self.hardware);
            let worths = bound.worths.clone();
            let gap = Gap { worths, ..Gap::new(&path, all, bound.by.clone(), paying) };
            (path, gap)
        });
        let placement = self.placement(case)?;
        let figures = outcome.figures();
        let mut economics = CaseEconomics::of(self.hardware, memory, figures);
        economics.share(self.kind.economics.get_or_init(|| economics.clone()));
        let record = CaseRecord {
            label: case.label.clone(),
            details: self.details(case, &asked.policy, placement.as_ref()),
            params: case.params.clone(),
            conditions: 0,
            ran: Arc::new(CaseRan {
                policy: case.policy.name().to_owned(),
                emulated: unpaid || case.policy.is_emulated(),
                statistics: (case.policy.uses_statistics())
                    .then(|| self.spec.statistics_word().into()),
                lookahead,
                learned: case.policy.origin() == Origin::Learned,
                hbm_budget: memory.usable(HBM),
                baseline_step: self.baseline.mean_step(),
                baseline_peak: self.baseline.peak[HBM.index()],
                bound_step: bound.step,
                bound_by: bound.by,
                economics,
                outcome,
                placement,
                hidden: (memory.hidden().iter())
                    .map(|hidden| (hidden.tier.index(), hidden.what.word().into(), hidden.bytes))
                    .collect(),
                left_out,
                long_run: long_run.map(Box::new),
                pressure: pressure.map(Box::new),
                hints: case.policy.hint_matches(&self.workload.trace).map(Box::new),
                runtime: case.runtime.clone(),
                packed: memory.stores().map(Storing::packed).unwrap_or_default(),
            }),
        };
        Ok(Walk { record, path })
    }
}
