//! `solve`: the least or the largest value of a path for which conditions hold.

use crate::VERSION;
use crate::args::{Format, Question};
use crate::folder::Folder;
use crate::output::{Failure, print, written};
use crate::progress;
use crate::runs::{seeded, use_threads};
use clap::Args as ClapArgs;
use tiersim_input::scenario::fingerprint::sweep_fingerprint;
use tiersim_input::scenario::sweep::{read_along_with, read_run_with, written_at};
use tiersim_input::text::condition::Condition;
use tiersim_input::traces::read_traces;
use tiersim_models::results::metrics::{METRICS, metric, unit_of};
use tiersim_models::results::solved::{Solved, Tried};
use tiersim_models::results::{AxisValue, CaseRecord, RunRecord};
use tiersim_policies::scenario::sweep::{Axis, AxisPoint};
use tiersim_policies::zoo::Registry;
use tiersim_reports::words::wrapped;
use tiersim_reports::{solved_artefacts, solved_json, solved_text};
use tiersim_sim::run::Options;
use tiersim_sim::solve::{Range, solve as search};
use tiersim_sim::sweep::run_sweep;

/// The axis of the value that is looked for.
const AXIS: &str = "value";

#[derive(Debug, ClapArgs)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    question: Question,
    /// The path whose least value is looked for, such as tiers.hbm.capacity or policies.*.hbm.
    #[arg(long, value_name = "PATH", required_unless_present = "maximize")]
    minimize: Option<String>,
    /// The path whose largest value is looked for.
    #[arg(long, value_name = "PATH", conflicts_with = "minimize")]
    maximize: Option<String>,
    /// A condition, such as 'slowdown <= 1.05'; all must hold for one and the same case, which must
    /// fit. Names: slowdown, step, step_p95, gap, tokens_per_s, ttft, ttft_p95, tpot, tpot_p95,
    /// energy_j, cost_usd, tokens_per_usd, peak_gib.
    #[arg(long = "such-that", value_name = "CONDITION")]
    such_that: Vec<String>,
    /// The case that must meet them [default: any].
    #[arg(long, value_name = "LABEL")]
    case: Option<String>,
    /// Where to look, in the unit that the value is written in [default: from an eighth to eight
    /// times of what is there].
    #[arg(long, value_name = "FROM..TO", value_parser = ends)]
    range: Option<(f64, f64)>,
    /// The unit of values, such as gib, where nothing is written at the path.
    #[arg(long, value_name = "WORD")]
    unit: Option<String>,
    /// Whole numbers only.
    #[arg(long)]
    whole: bool,
    /// How near a value for which conditions do not hold must be, as a share of the answer.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    resolution: f64,
}

fn ends(text: &str) -> Result<(f64, f64), String> {
    let read = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match text.split_once("..").map(|(from, to)| (read(from), read(to))) {
        Some((Some(from), Some(to))) if from < to => Ok((from, to)),
        Some((Some(_), Some(_))) => Err("the first number must be below the second".to_owned()),
        _ => Err("write two numbers, such as 16..141".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|share| (1e-7..=0.5).contains(share));
    read.ok_or_else(|| "a share between 1e-7 and 0.5".to_owned())
}

/// Looks for the value, and writes what was found.
pub(crate) fn solve(args: &SolveArgs, registry: &Registry) -> Result<(), Failure> {
    use_threads(args.question.jobs)?;
    let overrides = seeded(&args.question.set, args.question.seed)?;
    let run = read_run_with(&args.question.scenario, &overrides, registry)?;
    if !run.points.is_empty() {
        return Err(Failure::Input(format!(
            "{}: the scenario names several machines, and a value is looked for on one; choose one \
             with --set hardware=NAME",
            args.question.scenario.display()
        )));
    }
    let conditions = conditions(args)?;
    if let Some(case) = &args.case {
        known_case(case, &run.base.cases.iter().map(|case| &*case.label).collect::<Vec<_>>())?;
    }
    let asked = args.minimize.as_ref().or(args.maximize.as_ref());
    let path = in_machine(asked.map_or("", String::as_str));
    let there = written_at(&args.question.scenario, &overrides, registry, &path)?;
    let (unit, now) = taken_apart(there.as_deref());
    let unit = args.unit.clone().unwrap_or(unit);
    let range = range(args, &path, &unit, now)?;
    let folder = Folder::open(args.question.out.clone(), &format!("{}-solve", run.base.name))?;
    let bar = progress::spinner("values tried", args.question.quiet);
    let mut metrics: Vec<String> = Vec::new();
    for name in conditions.iter().flat_map(Condition::names) {
        if !metrics.iter().any(|known| known == name) {
            metrics.push(name.to_owned());
        }
    }
    let question = Solved {
        scenario: run.base.name.clone(),
        about: run.base.about.clone(),
        hardware: run.base.hardware.name.clone(),
        seed: run.base.seed,
        path: path.clone(),
        unit: unit.clone(),
        largest: args.maximize.is_some(),
        conditions: conditions.iter().map(Condition::to_string).collect(),
        metrics: metrics.clone(),
        ..Solved::default()
    };
    let mut stamps = Vec::new();
    let mut solved = search(question, range, |values| {
        bar.inc(values.len() as u64);
        let mut all = Vec::new();
        for (values, run) in runs(args, &overrides, registry, (&path, &unit), values)? {
            match run {
                Ok((record, stamp)) => {
                    stamps.push(stamp);
                    let (record, conditions) = (&record, &conditions[..]);
                    let judge = Judge { record, args, conditions, metrics: &metrics };
                    all.extend(values.iter().map(|&value| judge.tried(value)));
                }
                Err(why) => all.extend(values.iter().map(|&value| Tried {
                    value,
                    outcome: Err(why.clone()),
                    metrics: vec![None; metrics.len()],
                })),
            }
        }
        Ok::<_, Failure>(all)
    })?;
    bar.finish_and_clear();
    solved.fingerprint = stamps.first().cloned().unwrap_or_default();
    let files = solved_artefacts(&solved, args.question.style.made())?;
    let out = folder.shown().to_owned();
    folder.replace(&files)?;
    match (args.question.quiet, args.question.format) {
        (true, _) => Ok(()),
        (false, Format::Json) => print(&solved_json(&solved, VERSION)?),
        (false, Format::Text) => {
            let written = wrapped(&written(&out, &files), 80).join("\n");
            print(&format!("{}\n{written}\n", solved_text(&solved, VERSION)))
        }
    }?;
    match solved.answer() {
        Some(_) => Ok(()),
        None => Err(Failure::Expectation(vec![format!(
            "{}: no value of {path} between {} and {} meets all conditions",
            solved.scenario, range.from, range.to
        )])),
    }
}

/// A path that begins with a section of hardware files leads into the machine.
fn in_machine(path: &str) -> String {
    let first = path.split('.').next().unwrap_or_default();
    let within = ["tiers", "links", "compute", "cpu", "host", "server"].contains(&first);
    if within { format!("hardware.{path}") } else { path.to_owned() }
}

fn conditions(args: &SolveArgs) -> Result<Vec<Condition>, Failure> {
    let read = |text: &String| {
        let condition = Condition::parse(text)
            .map_err(|rule| Failure::Input(format!("--such-that {text:?}: {rule}")))?;
        let unknown = condition.names().find(|name| unit_of(name).is_none()).map(str::to_owned);
        match unknown {
            Some(name) => {
                let known: Vec<&str> = METRICS.iter().map(|(known, ..)| *known).collect();
                Err(Failure::Input(format!(
                    "--such-that {text:?}: there is no metric `{name}`; known: {}",
                    known.join(", ")
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
fn taken_apart(text: Option<&str>) -> (String, Option<f64>) {
    let Some(text) = text else { return (String::new(), None) };
    let (unit, number) = match text.trim().split_once('(') {
        Some((unit, rest)) => (unit.trim(), rest.trim_end().trim_end_matches(')')),
        None => ("", text.trim()),
    };
    (unit.to_owned(), number.trim().replace('_', "").parse().ok())
}

fn range(args: &SolveArgs, path: &str, unit: &str, now: Option<f64>) -> Result<Range, Failure> {
    let around = now.filter(|now| *now > 0.0).map(|now| (now / 8.0, now * 8.0));
    let Some((from, to)) = args.range.or(around) else {
        return Err(Failure::Input(format!(
            "no number is written at `{path}` to look around; say where with --range FROM..TO, and \
             with --unit in which unit"
        )));
    };
    let whole = args.whole || ["copies", "requests", "drives"].contains(&unit);
    Ok(Range { from, to, log: from > 0.0, whole, resolution: args.resolution })
}

/// What a value's case came to, or why the machine refuses the value.
type Evaluated = Result<(RunRecord, String), String>;

/// Runs the scenario at these values, together as long as the machine takes all of them; a value
/// that it refuses (less memory than is hidden, say) stands alone with the reason.
fn runs(
    args: &SolveArgs,
    overrides: &[(String, String)],
    registry: &Registry,
    place: (&str, &str),
    values: &[f64],
) -> Result<Vec<(Vec<f64>, Evaluated)>, Failure> {
    match (evaluate(args, overrides, registry, place, values), values) {
        (Ok(run), _) => Ok(vec![(values.to_vec(), Ok(run))]),
        (Err(Failure::Input(why)), [_]) => Ok(vec![(values.to_vec(), Err(why))]),
        (Err(Failure::Input(_)), _) => {
            let (low, high) = values.split_at(values.len() / 2);
            let mut all = runs(args, overrides, registry, place, low)?;
            all.extend(runs(args, overrides, registry, place, high)?);
            Ok(all)
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Runs the scenario at these values.
fn evaluate(
    args: &SolveArgs,
    overrides: &[(String, String)],
    registry: &Registry,
    (path, unit): (&str, &str),
    values: &[f64],
) -> Result<(RunRecord, String), Failure> {
    let point = |&value: &f64| AxisPoint {
        text: if unit.is_empty() { value.to_string() } else { format!("{unit}({value})") },
        value: AxisValue::Number(value),
    };
    let values = values.iter().map(point).collect();
    let axis = Axis { name: AXIS.to_owned(), path: path.to_owned(), values };
    let sweep = read_along_with(&args.question.scenario, overrides, registry, axis)?;
    let points = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(points.chain([&sweep.base]))?;
    let stamp = sweep_fingerprint(&sweep, |scenario| traces.hash(scenario));
    let options = Options { audit: false, ..Options::default() };
    let record = run_sweep(&sweep, &traces, stamp.clone(), options, || {})?;
    Ok((record, stamp))
}

/// Holds cases against conditions.
struct Judge<'j> {
    record: &'j RunRecord,
    args: &'j SolveArgs,
    conditions: &'j [Condition],
    metrics: &'j [String],
}

impl Judge<'_> {
    fn tried(&self, value: f64) -> Tried {
        let is_here = |params: &[(String, AxisValue)]| {
            let at = params.iter().find(|(axis, _)| axis == AXIS);
            // A case that the value does not touch ran once for all.
            at.is_none_or(|(_, at)| *at == AxisValue::Number(value))
        };
        let skipped = self.record.skipped.iter().find(|(params, _)| is_here(params));
        let metrics = vec![None; self.metrics.len()];
        if let Some((_, why)) = skipped {
            return Tried { value, outcome: Err(why.clone()), metrics };
        }
        let wanted = |case: &&CaseRecord| {
            let name = self.args.case.as_deref();
            name.is_none_or(|name| self.name(case) == name) && is_here(&case.params)
        };
        let mut why = "no case ran".to_owned();
        let mut shown: Option<Vec<Option<f64>>> = None;
        for (index, case) in self.record.results.iter().filter(wanted).enumerate() {
            let of = |name: &String| metric(self.record, case, name).ok();
            let own: Vec<Option<f64>> = self.metrics.iter().map(of).collect();
            match self.broken(case) {
                None => return Tried { value, outcome: Ok(self.name(case)), metrics: own },
                Some(rule) if index == 0 => why = format!("{}: {rule}", self.name(case)),
                Some(_) => {}
            }
            if own.iter().any(Option::is_some) {
                shown.get_or_insert(own);
            }
        }
        Tried { value, outcome: Err(why), metrics: shown.unwrap_or(metrics) }
    }

    /// The case's name in the file.
    fn name(&self, case: &CaseRecord) -> String {
        let end = case.label.rfind(" [").filter(|_| !case.params.is_empty());
        case.label[..end.unwrap_or(case.label.len())].to_owned()
    }

    /// The first condition that a case does not meet, and what it has instead.
    fn broken(&self, case: &CaseRecord) -> Option<String> {
        if case.outcome.figures().is_none() {
            return Some("it runs out of memory".to_owned());
        }
        for condition in self.conditions {
            let found = |name: &str| metric(self.record, case, name).ok();
            if condition.holds(found) == Some(true) {
                continue;
            }
            let lacks = condition.names().find_map(|name| metric(self.record, case, name).err());
            let figures: Vec<String> = condition
                .names()
                .filter_map(|name| Some(format!("{name} {:.4}", found(name)?)))
                .collect();
            return Some(lacks.unwrap_or_else(|| format!("{condition}: {}", figures.join(", "))));
        }
        None
    }
}
