//! A scenario that is read once and run many times with other numbers.
//!
//! Each run reads the scenario with the overrides, as the command does; the trace, which is the
//! large part, is kept. A case that the overrides leave as it was, on a machine and a workload that
//! they leave as they were, has the answer that it had.
//! Invariant: what is kept is only ever what the same question would give again.

use crate::{Answer, Bundle, CaseAnswer, Set, answer};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tiersim_input::held::{hold, noted};
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::read::read_scenario_with;
use tiersim_input::scenario::sweep::read_run_with;
use tiersim_input::shipped::EMBEDDED;
use tiersim_input::traces::read_traces;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;
use tiersim_models::lint::lint_hardware;
use tiersim_policies::scenario::sweep::Point;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, Scenario};
use tiersim_policies::zoo::Registry;
use tiersim_sim::feasible::problems;
use tiersim_sim::run::{CaseRunner, Options, RunError};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What is wrong with the files or with what is set. As text it is the first of them: the
    /// others mostly follow from it.
    #[error("{}", .0.0.first().map_or_else(String::new, ToString::to_string))]
    Problems(#[from] Diagnostics),
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It names several machines, and one is asked about.
    #[error(
        "{}: it names several machines, and a page asks what if of one; choose one with --set \
         hardware=NAME: {}", .0.display(), .1.join(", ")
    )]
    SeveralMachines(PathBuf, Vec<String>),
    /// Nobody waits for it any more.
    #[error("the question was given up")]
    GivenUp,
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> String {
        refusal.to_string()
    }
}

/// A scenario on one machine.
///
/// # Errors
/// Its problems, or that it names several machines.
pub(crate) fn read_sole(
    path: &Path,
    set: &[Set],
    registry: &Registry,
) -> Result<Scenario, Refusal> {
    let run = read_run_with(path, set, registry)?;
    let named = |point: &Point| point.params.iter().map(|(_, value)| value.to_string()).collect();
    match run.points.is_empty() {
        true => Ok(run.base),
        false => {
            let machines = run.points.iter().map(named).collect();
            Err(Refusal::SeveralMachines(path.to_owned(), machines))
        }
    }
}

/// A scenario that was read from a bundle or from a disk, with its trace.
#[derive(Debug)]
pub struct Ready {
    pub(crate) path: PathBuf,
    /// What a line for the command calls the scenario.
    name: String,
    /// What is set of it from the start.
    pub(crate) set: Vec<Set>,
    pub(crate) registry: Registry,
    pub(crate) scenario: Scenario,
    traces: Traces,
}

impl Ready {
    /// Reads a bundle. Its files are held by this thread from now on, and never given back: a page
    /// has one for as long as it is open.
    ///
    /// # Errors
    /// What is wrong with the scenario.
    pub fn load(bundle: &Bundle) -> Result<Ready, Refusal> {
        let leaked = |(name, held): (&String, &Vec<u8>)| (name.clone(), &*held.clone().leak());
        hold(bundle.files.iter().map(leaked).collect());
        let path = Path::new(EMBEDDED).join(&bundle.scenario);
        Ready::of(path, bundle.scenario.clone(), &bundle.set, &Registry::default())
    }

    /// Reads a scenario that lies on a disk or ships, and says which files that opened: as long as
    /// all of them are what they were, so are the answers.
    ///
    /// # Errors
    /// What is wrong with the scenario; the files are said all the same.
    pub fn read(
        path: &Path,
        set: &[Set],
        registry: &Registry,
    ) -> (Result<Ready, Refusal>, BTreeSet<PathBuf>) {
        let name = path.strip_prefix(EMBEDDED).unwrap_or(path).display().to_string();
        noted(|| {
            read_sole(path, set, registry)?;
            Ready::of(path.to_owned(), name, set, registry)
        })
    }

    fn of(path: PathBuf, name: String, set: &[Set], registry: &Registry) -> Result<Ready, Refusal> {
        let scenario = read_scenario_with(&path, set, registry)?;
        let traces = read_traces([&scenario])?;
        Ok(Ready { path, name, set: set.to_vec(), registry: registry.clone(), scenario, traces })
    }

    /// The scenario as it stands.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// One line that is another as soon as the scenario asks for anything else, its trace included.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.scenario, self.traces.hash(&self.scenario))
    }

    /// The scenario with more set.
    fn with(&self, more: &[Set]) -> Result<Scenario, Refusal> {
        let set: Vec<Set> = self.set.iter().chain(more).cloned().collect();
        Ok(read_scenario_with(&self.path, &set, &self.registry)?)
    }

    /// The line that asks the command the same.
    fn command(&self, more: &[Set]) -> String {
        let set = self.set.iter().chain(more);
        let set = set.map(|(path, value)| format!(" --set {}", quoted(&format!("{path}={value}"))));
        format!("tiersim run {}{}", quoted(&self.name), set.collect::<String>())
    }
}

/// Runs a scenario again and again.
pub struct Session<'r> {
    ready: &'r Ready,
    runner: CaseRunner<'r>,
    nominal: Vec<CaseAnswer>,
    /// The scenario that was run last, with its answers.
    last: Option<(Scenario, Vec<CaseAnswer>)>,
    part: Part,
}

/// Which of the cases a session runs: several that share the work have every so many each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first.
    pub first: usize,
    /// From one to the next, and so how many share the work.
    pub of: usize,
}

impl Part {
    /// Every case.
    pub const ALL: Part = Part { first: 0, of: 1 };

    fn cases(self, scenario: &Scenario) -> impl Iterator<Item = &Case> {
        scenario.cases.iter().skip(self.first).step_by(self.of.max(1))
    }
}

/// As the command runs: what is shown in a page has no use for a timeline.
fn options() -> Options {
    Options { audit: false, ..Options::default() }
}

impl<'r> Session<'r> {
    /// Runs the cases of a part as they stand in the scenario.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub fn new(ready: &'r Ready, part: Part) -> Result<Session<'r>, Refusal> {
        let scenario = &ready.scenario;
        let workload = ready.traces.of(scenario);
        problems(scenario, &workload.trace).into_result(())?;
        let runner = CaseRunner::new(scenario, workload, options())?;
        let run = |case: &Case| run(&runner, scenario, case);
        let nominal = part.cases(scenario).map(run).collect::<Result<_, _>>()?;
        Ok(Session { ready, runner, nominal, last: None, part })
    }

    /// What came of the scenario as it stands.
    pub fn nominal(&self) -> Answer {
        let (command, cases) = (self.ready.command(&[]), self.nominal.clone());
        Answer { command, cases, warnings: Vec::new() }
    }

    /// What comes of it with more set.
    ///
    /// # Errors
    /// What the command would refuse.
    pub fn run(&mut self, more: &[Set]) -> Result<Answer, Refusal> {
        self.run_unless(more, &|| false)
    }

    /// The same, unless it is given up before one of the cases is run.
    ///
    /// # Errors
    /// What the command would refuse, or that it was given up.
    pub fn run_unless(
        &mut self,
        more: &[Set],
        given_up: &dyn Fn() -> bool,
    ) -> Result<Answer, Refusal> {
        let run = |runner: &CaseRunner<'_>, scenario: &Scenario, case: &Case| match given_up() {
            true => Err(Refusal::GivenUp),
            false => run(runner, scenario, case),
        };
        let command = self.ready.command(more);
        let scenario = self.ready.with(more)?;
        let base = &self.ready.scenario;
        let cases = match same_conditions(base, &scenario) {
            true => {
                problems(&scenario, &self.ready.traces.of(base).trace).into_result(())?;
                let known = self.known(&scenario);
                // The runner's own scenario differs in its cases only.
                self.each(&scenario, &known, |case| run(&self.runner, base, case))?
            }
            false => self.elsewhere(&scenario, run)?,
        };
        let warnings = new_warnings(&base.hardware, &scenario.hardware);
        self.last = Some((scenario, cases.clone()));
        Ok(Answer { command, cases, warnings })
    }

    /// The cases of a scenario whose machine or workload is another than that of the runner.
    fn elsewhere(
        &self,
        scenario: &Scenario,
        run: impl Fn(&CaseRunner<'_>, &Scenario, &Case) -> Result<CaseAnswer, Refusal>,
    ) -> Result<Vec<CaseAnswer>, Refusal> {
        let other;
        let traces = match self.ready.traces.has(scenario) {
            true => &self.ready.traces,
            false => {
                other = read_traces([scenario])?;
                &other
            }
        };
        let workload = traces.of(scenario);
        problems(scenario, &workload.trace).into_result(())?;
        let known = self.known(scenario);
        if known.iter().all(Option::is_some) {
            return Ok(known.into_iter().flatten().collect());
        }
        let runner = CaseRunner::new(scenario, workload, options())?;
        self.each(scenario, &known, |case| run(&runner, scenario, case))
    }

    /// The answer of each case that was asked before.
    fn known(&self, scenario: &Scenario) -> Vec<Option<CaseAnswer>> {
        let nominal = Some((&self.ready.scenario, &self.nominal));
        let last = self.last.as_ref().map(|(scenario, answers)| (scenario, answers));
        let before: Vec<_> = [nominal, last].into_iter().flatten().collect();
        let of = |case: &Case| {
            before.iter().find_map(|(then, answers)| {
                let same = same_conditions(then, scenario);
                let at = self.part.cases(then).position(|known| same && known == case)?;
                answers.get(at).cloned()
            })
        };
        self.part.cases(scenario).map(of).collect()
    }

    /// Each case's answer: what is known, else what it runs to.
    fn each(
        &self,
        scenario: &Scenario,
        known: &[Option<CaseAnswer>],
        run: impl Fn(&Case) -> Result<CaseAnswer, Refusal>,
    ) -> Result<Vec<CaseAnswer>, Refusal> {
        let cases = self.part.cases(scenario).zip(known);
        cases.map(|(case, known)| known.clone().map_or_else(|| run(case), Ok)).collect()
    }
}

/// What the lint says of a machine that it does not say of the one that it was made of.
fn new_warnings(base: &Hardware, machine: &Hardware) -> Vec<String> {
    if base == machine {
        return Vec::new();
    }
    let known = lint_hardware(base);
    let found = lint_hardware(machine).into_iter().filter(|warning| !known.contains(warning));
    found.map(|warning| warning.to_string()).collect()
}

/// Whether all that a case's outcome rests on, beside the case itself, is the same.
fn same_conditions(a: &Scenario, b: &Scenario) -> bool {
    a.hardware == b.hardware && a.workload == b.workload && a.seed == b.seed
}

fn run(runner: &CaseRunner<'_>, scenario: &Scenario, case: &Case) -> Result<CaseAnswer, Refusal> {
    let (outcome, lookahead) = runner.outcome(case, options())?;
    Ok(answer::of(scenario, (case, lookahead), &outcome))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
