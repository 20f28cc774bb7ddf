//! What `solve` is asked: conditions, and the paths with where to look.

use super::SolveArgs;
use crate::asking::each_is_asked;
use crate::output::Failure;
use crate::runs::{seeded, use_threads};
use tiersim_input::scenario::sweep::{read_run_with, written_at};
use tiersim_input::text::condition::Condition;
use tiersim_input::text::typed::WHOLE;
use tiersim_models::results::metrics::{METRICS, instead_of, unit_of};
use tiersim_models::results::solved::{Asked, Variable};
use tiersim_models::units::written::converted;
use tiersim_policies::scenario::Scenario;
use tiersim_policies::zoo::Registry;
use tiersim_sim::solve::Range;

/// Most paths at once.
const MOST_PATHS: usize = 8;

/// A question about a scenario that was read.
pub(super) struct Asking<'a> {
    pub(super) args: &'a SolveArgs,
    pub(super) registry: &'a Registry,
    pub(super) overrides: Vec<(String, String)>,
    pub(super) base: Scenario,
    pub(super) conditions: Vec<Condition>,
    /// What is looked at of each case.
    pub(super) metrics: Vec<String>,
}

/// What is looked for.
pub(super) struct Sought {
    /// The metric that is to be least or largest; none if it is the first path.
    pub(super) objective: Option<String>,
    pub(super) variables: Vec<Variable>,
    pub(super) ranges: Vec<Range>,
    pub(super) largest: bool,
}

/// A path that may vary, as typed.
#[derive(Clone, Debug)]
pub(super) struct Vary {
    path: String,
    unit: Option<String>,
    ends: Option<(f64, f64)>,
}

/// `PATH`, `PATH=FROM..TO` or `PATH=UNIT(FROM..TO)`.
pub(super) fn vary(text: &str) -> Result<Vary, String> {
    let Some((path, range)) = text.split_once('=') else {
        return Ok(Vary { path: text.trim().to_owned(), unit: None, ends: None });
    };
    let (unit, range) = match range.trim().strip_suffix(')').and_then(|all| all.split_once('(')) {
        Some((unit, range)) => (Some(unit.trim().to_owned()), range),
        None => (None, range),
    };
    Ok(Vary { path: path.trim().to_owned(), unit, ends: Some(ends(range)?) })
}

pub(super) fn ends(text: &str) -> Result<(f64, f64), String> {
    let read = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match text.split_once("..").map(|(from, to)| (read(from), read(to))) {
        Some((Some(from), Some(to))) if from < to => Ok((from, to)),
        Some((Some(_), Some(_))) => Err("the first number must be below the second".to_owned()),
        _ => Err("write two numbers, such as 16..141".to_owned()),
    }
}

impl<'a> Asking<'a> {
    pub(super) fn open(args: &'a SolveArgs, registry: &'a Registry) -> Result<Self, Failure> {
        use_threads(args.question.jobs)?;
        let overrides = seeded(&args.question.set, args.question.seed)?;
        let run = read_run_with(&args.question.scenario, &overrides, registry)?;
        each_is_asked()?;
        if !run.points.is_empty() {
            return Err(Failure::Input(format!(
                "{}: the scenario names several machines, and a value is looked for on one; choose \
                 one with --set hardware=NAME",
                args.question.scenario.display()
            )));
        }
        let conditions = conditions(args)?;
        if let Some((gone, instead)) = what(args).and_then(|name| Some((name, instead_of(name)?))) {
            return Err(Failure::Input(format!("there is no metric `{gone}`; {instead}")));
        }
        if let Some(case) = &args.case {
            let labels: Vec<&str> = run.base.cases.iter().map(|case| &*case.label).collect();
            known_case(case, &labels)?;
        }
        let mut metrics: Vec<String> = Vec::new();
        let named = conditions.iter().flat_map(Condition::names);
        let named = named.filter(|name| is_metric(name)).map(str::to_owned);
        let wanted = objective(args).map(str::to_owned);
        // What a change does to the step is wanted in any case.
        let besides = ["step", "tokens_per_s", "peak_gib"].map(str::to_owned);
        let besides = besides.into_iter().filter(|_| args.fit);
        for name in wanted.into_iter().chain(named).chain(besides) {
            if !metrics.contains(&name) {
                metrics.push(name);
            }
        }
        Ok(Asking { args, registry, overrides, base: run.base, conditions, metrics })
    }

    /// What the answer says of the question.
    pub(super) fn asked(&self, largest: bool) -> Asked {
        Asked {
            scenario: self.base.name.clone(),
            about: self.base.about.clone(),
            hardware: self.base.hardware.name.clone(),
            fingerprint: String::new(),
            seed: self.base.seed,
            largest,
            conditions: self.conditions.iter().map(Condition::to_string).collect(),
            metrics: self.metrics.clone(),
        }
    }

    pub(super) fn folder_name(&self) -> String {
        format!("{}-solve", self.base.name)
    }

    /// The metric that is to be least or largest, if it is one.
    pub(super) fn objective(&self) -> Option<&str> {
        objective(self.args)
    }

    /// What is to be least or largest, and the paths that may vary for it.
    pub(super) fn sought(&self) -> Result<Sought, Failure> {
        let args = self.args;
        let what = what(args).unwrap_or_default();
        let objective = objective(args).map(str::to_owned);
        let (unit, ends) = (args.unit.clone(), args.range);
        let own = Vary { path: what.to_owned(), unit, ends };
        let own = Some(own).filter(|_| objective.is_none());
        if objective.is_some() && args.vary.is_empty() {
            return Err(Failure::Input(format!(
                "{what} is a metric: say which paths may vary, with --vary PATH=FROM..TO"
            )));
        }
        if objective.is_some() && (args.range.is_some() || args.unit.is_some()) {
            let rule = "--range and --unit are of a path; write --vary 'PATH=UNIT(FROM..TO)'";
            return Err(Failure::Input(rule.to_owned()));
        }
        let (mut variables, mut ranges) = (Vec::<Variable>::new(), Vec::new());
        for vary in own.iter().chain(&args.vary) {
            let (variable, range) = self.variable(vary)?;
            if variables.iter().any(|known| known.path == variable.path) {
                let rule = format!("`{}` varies twice; name each path once", variable.path);
                return Err(Failure::Input(rule));
            }
            variables.push(variable);
            ranges.push(range);
        }
        if variables.len() > MOST_PATHS {
            let rule = format!("at most {MOST_PATHS} paths at once, not {}", variables.len());
            return Err(Failure::Input(rule));
        }
        Ok(Sought { objective, variables, ranges, largest: args.maximize.is_some() })
    }

    /// What is written at a path, without its source.
    pub(super) fn written_at(&self, path: &str) -> Result<Option<String>, Failure> {
        let scenario = &self.args.question.scenario;
        Ok(written_at(scenario, &self.overrides, self.registry, path)?)
    }

    /// Whether a file takes whole numbers only there: what it says of another one near `near`.
    fn takes_whole(&self, path: &str, unit: &str, near: f64) -> bool {
        let part = near.floor() + 0.5;
        let value = if unit.is_empty() { format!("{part}") } else { format!("{unit}({part})") };
        let own = (path.to_owned(), value);
        let overrides: Vec<_> = self.overrides.iter().cloned().chain([own]).collect();
        let read = read_run_with(&self.args.question.scenario, &overrides, self.registry);
        read.is_err_and(|problems| problems.0.iter().any(|problem| problem.rule.starts_with(WHOLE)))
    }

    fn variable(&self, vary: &Vary) -> Result<(Variable, Range), Failure> {
        let path = in_machine(&vary.path);
        let there = self.written_at(&path)?;
        let (written, now) = taken_apart(there.as_deref());
        let unit = vary.unit.as_ref().unwrap_or(&written).clone();
        let now = now.and_then(|now| match unit == written {
            true => Some(now),
            false => converted(now, &written, &unit),
        });
        let around = now.filter(|now| *now > 0.0).map(|now| (now / 8.0, now * 8.0));
        let Some((from, to)) = vary.ends.or(around) else {
            let rule = match there.filter(|_| vary.unit.is_some()) {
                Some(there) => format!("`{path}` is {there}, which is no number of `{unit}`"),
                None => format!("no number is written at `{path}` to look around"),
            };
            return Err(Failure::Input(format!(
                "{rule}; say where with --range FROM..TO, and with --unit in which unit"
            )));
        };
        let whole = self.args.whole || self.takes_whole(&path, &unit, (from + to) / 2.0);
        // An eighth of a small count is none.
        let (from, to) = match whole && from.ceil() < to.floor() {
            true => (from.ceil(), to.floor()),
            false => (from, to),
        };
        let range = Range { from, to, log: from > 0.0, whole, resolution: self.args.resolution };
        Ok((Variable { path, unit }, range))
    }
}

/// What is to be least or largest: a path or a metric.
fn what(args: &SolveArgs) -> Option<&str> {
    args.minimize.as_deref().or(args.maximize.as_deref())
}

/// The same if it is a metric.
fn objective(args: &SolveArgs) -> Option<&str> {
    what(args).filter(|name| is_metric(name))
}

fn is_metric(name: &str) -> bool {
    unit_of(name).is_some()
}

/// A path that begins with a section of hardware files leads into the machine.
pub(super) fn in_machine(path: &str) -> String {
    let first = path.split('.').next().unwrap_or_default();
    let within = ["tiers", "links", "compute", "cpu", "host", "server"].contains(&first);
    if within { format!("hardware.{path}") } else { path.to_owned() }
}

fn conditions(args: &SolveArgs) -> Result<Vec<Condition>, Failure> {
    let varied = args.minimize.iter().chain(&args.maximize);
    let varied: Vec<String> = varied
        .chain(args.vary.iter().map(|vary| &vary.path))
        .map(|path| in_machine(path))
        .collect();
    let read = |text: &String| {
        let condition = Condition::parse(text)
            .map_err(|rule| Failure::Input(format!("--such-that {text:?}: {rule}")))?;
        let known = |name: &&str| is_metric(name) || varied.contains(&in_machine(name));
        let unknown = condition.names().find(|name| !known(name)).map(str::to_owned);
        match unknown {
            Some(name) => {
                let known: Vec<&str> = METRICS.iter().map(|(known, ..)| *known).collect();
                let known = format!("known: {}", known.join(", "));
                let remedy = instead_of(&name).map_or(known, str::to_owned);
                Err(Failure::Input(format!(
                    "--such-that {text:?}: there is no metric `{name}`, and no path of this name varies; \
                     {remedy}"
                )))
            }
            None => Ok(condition),
        }
    };
    args.such_that.iter().map(read).collect()
}

fn known_case(case: &str, labels: &[&str]) -> Result<(), Failure> {
    if labels.contains(&case) {
        return Ok(());
    }
    let known: Vec<String> = labels.iter().map(|label| format!("{label:?}")).collect();
    let known = known.join(", ");
    Err(Failure::Input(format!("--case {case:?}: the scenario has no such case; known: {known}")))
}

/// The unit and the number of a value as written: `gib(80)`.
pub(super) fn taken_apart(text: Option<&str>) -> (String, Option<f64>) {
    let Some(text) = text else { return (String::new(), None) };
    let (unit, number) = match text.trim().split_once('(') {
        Some((unit, rest)) => (unit.trim(), rest.trim_end().trim_end_matches(')')),
        None => ("", text.trim()),
    };
    (unit.to_owned(), number.trim().replace('_', "").parse().ok())
}
