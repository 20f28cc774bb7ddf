//! What every optimisation of a training scenario saves and costs, by runs of it.

use crate::units::{Bytes, Span};

/// A scenario with some of its keys changed.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRun {
    /// Paths and the values they had, as `--set` takes them.
    pub changes: Vec<(String, String)>,
    /// What came of it, or why the scenario refuses the change.
    pub found: Result<SwitchFound, String>,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchFound {
    /// Most bytes that the workload holds where HBM has no limit.
    pub needs: Bytes,
    /// A mean step there.
    pub unlimited: Span,
    /// A mean step of the case, or why it does not fit.
    pub step: Result<Span, String>,
    /// Most bytes that it holds in each tier; none if it does not fit.
    pub held: Vec<Bytes>,
}

impl SwitchRun {
    /// The mean step of the case, if it ran and fits.
    pub fn step(&self) -> Option<Span> {
        self.found.as_ref().ok()?.step.as_ref().ok().copied()
    }
}

/// A switch alone, and behind all before it.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchPair {
    /// What it is, in words.
    pub name: &'static str,
    /// The scenario with this one alone.
    pub alone: SwitchRun,
    /// The scenario with this one and all before it.
    pub in_turn: SwitchRun,
}

/// All switches of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRuns {
    /// The scenario's name.
    pub scenario: String,
    /// What it asks.
    pub about: String,
    /// The machine's name.
    pub hardware: String,
    /// Of the scenario as it is.
    pub fingerprint: String,
    /// Its seed.
    pub seed: u64,
    /// The case that ran.
    pub case: String,
    /// Names of the machine's tiers, HBM first.
    pub tiers: Vec<String>,
    /// The scenario as it is.
    pub base: SwitchRun,
    /// The switches, in the order in which they are turned.
    pub rows: Vec<SwitchPair>,
}

impl SwitchRuns {
    /// What steps are held against: that of the scenario as it is, where HBM has no limit.
    pub fn plain(&self) -> Option<&SwitchFound> {
        self.base.found.as_ref().ok()
    }

    /// Bytes of HBM that a run takes less than the scenario as it is: what the workload needs, or
    /// what a policy that was changed with it holds there; `None` where that does not fit.
    pub fn saved(&self, run: &SwitchRun) -> Option<i128> {
        let found = run.found.as_ref().ok()?;
        let places = run.changes.iter().any(|(path, _)| path.starts_with("policies."));
        let takes = if places { *found.held.first()? } else { found.needs };
        Some(i128::from(self.plain()?.needs.get()) - i128::from(takes.get()))
    }

    /// A step over that of the scenario as it is where HBM has no limit.
    pub fn slowdown(&self, run: &SwitchRun) -> Option<f64> {
        let plain = self.plain()?.unlimited.ps();
        Some(run.step()?.ps() as f64 / plain as f64).filter(|ratio| ratio.is_finite())
    }
}
