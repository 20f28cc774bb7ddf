//! How a step answers to single numbers of the machine: central finite differences from exact
//! re-runs a little below and above, and runs with much better numbers.
//!
//! Numbers are texts, as `--set` takes them and files write them: `gb_per_s(64)`, `us(10)`, `4`. A
//! number that is a count goes one down and one up. The caller runs the case with what is asked.
//! Invariant: an elasticity is the difference of two mean steps over the step and over the change
//! of the number that was really made; nothing is modelled.

use rayon::prelude::*;
use tiersim_models::hardware::Hardware;
use tiersim_models::results::explain::{Elasticity, Explanation, Try};
use tiersim_models::units::Span;

/// Numbers that are tried with much better values: those that matter most.
const MOST_TRIED: usize = 3;
/// How much better, as factors of what shortens a step and of what lengthens it.
const TRIED: [[f64; 2]; 3] = [[1.1, 0.9], [1.25, 0.8], [2.0, 0.5]];
/// A number that a step answers to less than this is not worth a try: per cent per per cent.
const LEAST: f64 = 0.02;

/// A number of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its path, as `--set` takes it.
    pub path: String,
    /// Its value as written.
    pub value: String,
}

/// Every number of a machine, with its path behind `hardware`, and the size of chunks.
pub fn numbers(hardware: &Hardware) -> Vec<Number> {
    let number = |path: &str, value: String| Number { path: format!("hardware.{path}"), value };
    let mut hidden = 0..;
    let facts = hardware.facts.iter().map(|fact| {
        // What stands in a list without names is reached by its place.
        let path = match fact.path.starts_with("hidden.") {
            true => format!("hidden.{}.bytes", hidden.next().unwrap_or(0)),
            false => fact.path.clone(),
        };
        number(&path, fact.value.clone())
    });
    let facts: Vec<Number> = facts.collect();
    let chunk = number("chunk", format!("b({})", hardware.chunk.get()));
    facts.into_iter().chain([chunk]).collect()
}

/// `value` times `factor`, as written: `gb_per_s(64)` times 1.01 is `gb_per_s(64.64)`; a count goes
/// to the next whole number in that direction. With it the factor that it really is. `None` for
/// what holds no number, or none above zero.
pub fn scaled(value: &str, factor: f64) -> Option<(String, f64)> {
    // A unit and a number in its brackets, or a number alone.
    let (unit, rest) = match value.split_once('(') {
        Some((unit, rest)) => (unit, rest.strip_suffix(')')?),
        None => ("", value),
    };
    let digits = rest.trim().replace('_', "");
    let number: f64 = digits.parse().ok().filter(|number| *number > 0.0)?;
    let whole = digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_count = whole && ["", "b", "ps", "copies"].contains(&unit);
    let new = match is_count {
        false => number * factor,
        true if factor > 1.0 => (number * factor).ceil(),
        true => (number * factor).floor(),
    };
    if new <= 0.0 {
        return None;
    }
    let text = match is_count {
        true => format!("{new:.0}"),
        false => shortest(new),
    };
    let new: f64 = text.parse().ok()?;
    let written = if unit.is_empty() { text } else { format!("{unit}({text})") };
    Some((written, new / number))
}

/// A number with at most twelve digits, without noise of the last bit.
fn shortest(value: f64) -> String {
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    format!("{rounded}")
}

/// Adds to an explanation how its step, or the latency of requests, answers to each number, changed by the share `change` down
/// and up, and what better values of the most important ones bring. `step_of` runs the case with a
/// number set to a value; it errs in words where that cannot be.
pub fn answer(
    explanation: &mut Explanation,
    numbers: &[Number],
    change: f64,
    step_of: impl Fn(&str, &str) -> Result<Option<Span>, String> + Sync,
) {
    let tried = numbers.par_iter().map(|number| (number, elasticity(number, change, &step_of)));
    for (number, tried) in tried.collect::<Vec<_>>() {
        match tried {
            Ok(found) => explanation.elasticities.push(found),
            Err(why) => explanation.unchanged.push((number.path.clone(), why)),
        }
    }
    explanation.change = change;
    let step = explanation.judged();
    // Of equals the first of the machine.
    explanation.elasticities.sort_by(|a, b| b.of(step).abs().total_cmp(&a.of(step).abs()));
    let worth = explanation.elasticities.iter().filter(|found| found.of(step).abs() > LEAST);
    let asked: Vec<(&Elasticity, f64)> = worth
        .take(MOST_TRIED)
        .flat_map(|found| TRIED.map(|factors| (found, better(found.of(step), factors))))
        .collect();
    let runs = asked.into_par_iter().filter_map(|(found, factor)| {
        let (tried, factor) = scaled(&found.value, factor)?;
        let step = step_of(&found.path, &tried).ok()??;
        let (path, value) = (found.path.clone(), found.value.clone());
        Some(Try { path, value, tried, factor, step })
    });
    explanation.tries = runs.collect();
}

/// More of what shortens a step, and less of what lengthens it.
fn better(elasticity: f64, [more, less]: [f64; 2]) -> f64 {
    if elasticity < 0.0 { more } else { less }
}

fn elasticity(
    number: &Number,
    change: f64,
    step_of: &(impl Fn(&str, &str) -> Result<Option<Span>, String> + Sync),
) -> Result<Elasticity, String> {
    let of = |(text, factor): (String, f64)| {
        let step = step_of(&number.path, &text)?.ok_or("the case runs out of memory")?;
        Ok::<_, String>((text, factor, step))
    };
    let above = scaled(&number.value, 1.0 + change).ok_or("it cannot be scaled")?;
    // Below a count of one there is nothing.
    let below = scaled(&number.value, 1.0 - change).unwrap_or((number.value.clone(), 1.0));
    let (below, above) = (of(below)?, of(above)?);
    Ok(Elasticity {
        path: number.path.clone(),
        value: number.value.clone(),
        tried: [below.0, above.0],
        change: above.1 - below.1,
        steps: [below.2, above.2],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_as_they_are_written() {
        for (value, factor, text, really) in [
            ("gb_per_s(64)", 1.01, "gb_per_s(64.64)", 1.01),
            ("us(0.3)", 1.1, "us(0.33)", 1.1),
            ("4", 1.01, "5", 1.25),
            ("4", 0.99, "3", 0.75),
            ("b(4096)", 1.01, "b(4137)", 4137.0 / 4096.0),
            ("2.5", 2.0, "5", 2.0),
        ] {
            let (found, factor) = scaled(value, factor).expect("it holds a number");
            assert_eq!(found, text);
            assert!((factor / really - 1.0).abs() < 1e-9, "{value}: {factor}");
        }
        assert_eq!(scaled("unlimited", 1.01), None);
        assert_eq!(scaled("ns(0)", 1.01), None);
        assert_eq!(scaled("[(kib(4), gb_per_s(2))]", 1.01), None, "it is a table");
        assert_eq!(scaled("1", 0.99), None, "there is nothing below one");
    }
}
