//! The least changes with which a scenario fits, each found by exact runs.
//!
//! Each number that memory hangs on is turned by itself as far as it must be: a tier or a budget
//! larger, a batch or a sequence shorter. Each choice is tried in the order in which it saves more.
//! Only where no change is enough by itself are two choices taken together.
//! Invariant: a change that is called enough was run, and so was the value before it, if there is
//! one.

use super::question::{Asking, taken_apart};
use super::trials::Trials;
use crate::output::Failure;
use tiersim_models::hardware::Capacity;
use tiersim_models::results::AxisValue;
use tiersim_models::results::solved::{Change, LeastChanges, Solved, Variable};
use tiersim_policies::scenario::sweep::AxisPoint;
use tiersim_sim::solve::Range;
use tiersim_sim::solve::one::solve as along_one;
use tiersim_sim::solve::several::Measured;

/// How many times as large a tier or a budget may become.
const MOST_TIMES: f64 = 64.0;

/// Counts of a workload that memory grows with; where nothing is written they are not turned.
const COUNTS: [&str; 7] = [
    "workload.mode.micro_batch",
    "workload.mode.batch",
    "workload.mode.sequence",
    "workload.mode.prompt",
    "workload.mode.kv_blocks",
    "workload.mode.max_batch",
    "workload.mode.max_tokens_per_step",
];

/// Choices of a workload, each with what it may become, from little to much.
const CHOICES: [(&str, &[&str]); 7] = [
    ("workload.mode.attention", &["flash"]),
    ("workload.mode.loss", &["fused"]),
    ("workload.mode.checkpointing", &["selective", "full"]),
    ("workload.mode.optimizer", &["adam_8bit"]),
    ("workload.mode.zero.stage", &["1", "2", "3"]),
    ("workload.formats", &["(weights: fp8)", "(weights: int8)", "(weights: nf4())"]),
    ("workload.formats.kv", &["fp8", "int8"]),
];

/// Placements of a case that make room, the quick ones first.
const PLACEMENTS: [&str; 3] =
    ["ActivationOffload()", "Lru(spill: [\"far\"])", "Lru(spill: [\"far\", \"drive\"])"];

/// A choice with one value.
type Chosen = (String, String);

/// Tries every change by itself.
pub(super) fn least(asking: &Asking<'_>, trials: &mut Trials<'_>) -> Result<LeastChanges, Failure> {
    // The seed as it is changes nothing: the scenario as it stands.
    let seed = asking.base.seed.to_string();
    let now = run(trials, &[("seed".to_owned(), seed)])?;
    let mut found =
        LeastChanges { asked: asking.asked(false), now: now.tried.outcome, changes: Vec::new() };
    if found.now.is_err() {
        for (path, largest) in numbers(asking) {
            found.changes.extend(turned(asking, trials, &path, largest)?);
        }
        let mut choices: Vec<(String, Vec<String>)> = Vec::new();
        for (path, all) in choices_of(asking) {
            if let Some(change) = chosen(asking, trials, &path, &all)? {
                found.changes.push(change);
                choices.push((path, all));
            }
        }
        if found.changes.iter().all(|change| change.least.is_none()) {
            found.changes.extend(two(trials, &choices)?);
        }
        let none = |change: &Change| change.least.is_none();
        found.changes.sort_by_key(none);
    }
    found.asked.fingerprint = trials.fingerprint();
    Ok(found)
}

/// The paths of numbers, and whether the largest value that is enough is wanted.
fn numbers(asking: &Asking<'_>) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for tier in &asking.base.hardware.tiers {
        if matches!(tier.capacity, Capacity::Limited(_)) {
            // What the scenario says of a capacity goes before what the machine says.
            let own = format!("capacity.{}", tier.name);
            let stands = matches!(asking.written_at(&own), Ok(Some(_)));
            let of_machine = format!("hardware.tiers.{}.capacity", tier.name);
            all.push((if stands { own } else { of_machine }, false));
        }
    }
    for (index, case) in asking.base.cases.iter().enumerate() {
        if asking.args.case.as_ref().is_none_or(|name| *name == case.label) {
            all.push((format!("policies.{index}.hbm"), false));
        }
    }
    all.extend(COUNTS.map(|path| (path.to_owned(), true)));
    all
}

fn choices_of(asking: &Asking<'_>) -> Vec<(String, Vec<String>)> {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let mut all: Vec<(String, Vec<String>)> =
        CHOICES.iter().map(|(path, values)| ((*path).to_owned(), texts(values))).collect();
    let wanted = |name: &String| asking.base.cases.iter().position(|case| case.label == *name);
    let case = asking.args.case.as_ref().and_then(wanted).unwrap_or(0);
    all.push((format!("policies.{case}.policy"), texts(&PLACEMENTS)));
    all
}

/// The least change of a number; none where no number is written, and where no room is enough.
fn turned(
    asking: &Asking<'_>,
    trials: &mut Trials<'_>,
    path: &str,
    largest: bool,
) -> Result<Option<Change>, Failure> {
    let Ok(Some(text)) = asking.written_at(path) else { return Ok(None) };
    let (unit, Some(now)) = taken_apart(Some(&text)) else { return Ok(None) };
    let smallest = if largest { 1.0 } else { 0.0 };
    if now <= smallest {
        return Ok(None);
    }
    let (from, to) = if largest { (1.0, now) } else { (now, now * MOST_TIMES) };
    let range = Range { from, to, log: true, whole: largest, resolution: asking.args.resolution };
    let variable = Variable { path: path.to_owned(), unit };
    let variables = [variable.clone()];
    if !largest && !trials.numbers(&variables, &[vec![to]])?.iter().any(|most| most.tried.holds()) {
        // More room is never too much: none between is enough either.
        return Ok(None);
    }
    let question = Solved { asked: asking.asked(largest), variable, tried: Vec::new() };
    let solved = along_one(question, range, |values| {
        let points: Vec<Vec<f64>> = values.iter().map(|&value| vec![value]).collect();
        let all = trials.numbers(&variables, &points)?;
        Ok::<_, Failure>(all.into_iter().map(|measured| measured.tried).collect())
    })?;
    let written = |value: f64| variables[0].written(value);
    let answer = solved.answer();
    let short = solved
        .beyond()
        .and_then(|tried| Some((written(tried.value()), tried.outcome.as_ref().err()?.clone())));
    Ok(Some(Change {
        path: path.to_owned(),
        now: Some(text),
        least: answer.map(|tried| written(tried.value())),
        short,
        ratio: answer.map(|tried| tried.value() / now),
        case: answer.and_then(|tried| tried.outcome.clone().ok()),
        metrics: answer.map_or_else(|| vec![None; asking.metrics.len()], |t| t.metrics.clone()),
        tried: solved.tried.len(),
    }))
}

/// The first value of a choice that is enough; none where the scenario has no such choice.
fn chosen(
    asking: &Asking<'_>,
    trials: &mut Trials<'_>,
    path: &str,
    values: &[String],
) -> Result<Option<Change>, Failure> {
    let Ok(now) = asking.written_at(path) else { return Ok(None) };
    let new = values.iter().filter(|value| now.as_ref() != Some(value));
    let (mut tried, mut short, mut ran) = (0, None, false);
    let none = || vec![None; asking.metrics.len()];
    for value in new {
        let measured = run(trials, &[(path.to_owned(), value.clone())])?;
        tried += 1;
        ran |= measured.ran;
        let measured = measured.tried;
        match measured.outcome {
            Ok(case) => {
                let (case, metrics) = (Some(case), measured.metrics);
                let least = Some(value.clone());
                let path = path.to_owned();
                return Ok(Some(Change {
                    path,
                    now,
                    least,
                    short,
                    ratio: None,
                    case,
                    metrics,
                    tried,
                }));
            }
            Err(why) => short = Some((value.clone(), why)),
        }
    }
    let change = Change {
        path: path.to_owned(),
        now,
        least: None,
        short,
        ratio: None,
        case: None,
        metrics: none(),
        tried,
    };
    Ok(ran.then_some(change))
}

/// Two choices together, the first pair of each two paths that is enough.
fn two(trials: &mut Trials<'_>, choices: &[(String, Vec<String>)]) -> Result<Vec<Change>, Failure> {
    let mut all = Vec::new();
    for (index, (first, values)) in choices.iter().enumerate() {
        for (second, others) in &choices[..index] {
            let pairs = values.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
            for (tried, (a, b)) in pairs.enumerate() {
                let both = [(second.clone(), b.clone()), (first.clone(), a.clone())];
                let measured = run(trials, &both)?.tried;
                if let Ok(case) = measured.outcome {
                    all.push(Change {
                        path: format!("{second}, {first}"),
                        now: None,
                        least: Some(format!("{b}, {a}")),
                        short: None,
                        ratio: None,
                        case: Some(case),
                        metrics: measured.metrics,
                        tried: tried + 1,
                    });
                    break;
                }
            }
        }
    }
    Ok(all)
}

/// Runs the scenario with these choices.
fn run(trials: &mut Trials<'_>, chosen: &[Chosen]) -> Result<Measured, Failure> {
    let paths: Vec<String> = chosen.iter().map(|(path, _)| path.clone()).collect();
    let point =
        |(_, text): &Chosen| AxisPoint { text: text.clone(), value: AxisValue::Text(text.clone()) };
    let mut all = trials.points(&paths, &[chosen.iter().map(point).collect()])?;
    all.pop().ok_or_else(|| Failure::Internal("a point came to nothing".to_owned()))
}
