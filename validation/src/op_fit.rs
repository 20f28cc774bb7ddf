//! Numbers of the formulas of [`tiersim_models::op_times`], fitted to a table of measured ops.
//!
//! The logarithms of all numbers that measurements can tell and that lie above zero are moved until
//! the logarithms of predicted / measured are least, from the numbers that the machine has. Codes
//! and stated rates stay, and so do zeros, numbers without end, and what the ops do not depend on.
//! First every second family of shapes is held out, and graded by numbers that have not seen it;
//! then all ops are fitted.
//! Invariant: the same ops and numbers give the same fit, on any number of cores.

mod least_squares;

use least_squares::least;
use std::collections::BTreeSet;
use tiersim_models::kernel::{Kernel, Work};
use tiersim_models::measured_op::{MeasuredOp, What};
use tiersim_models::op_times::OpTimes;
use tiersim_models::op_times::experts::Load;
use tiersim_models::results::op_fit::{FittedNumber, FittedSection, OpFit};
use tiersim_models::results::op_grades::Errors;

/// Fewest ops of a section.
pub const FEWEST: usize = 50;
/// Fewest prompts or single tokens of a section that has both.
const FEWEST_OF_A_PART: usize = 20;
/// Most ops that a fit looks at; of more it takes as many, evenly.
const MOST: usize = 4000;

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// Nothing was measured.
    #[error("a fit needs measured times; add a column us with microseconds")]
    NoTimes,
    /// Of no section there are enough ops.
    #[error(
        "a fit needs at least {FEWEST} measured ops of one kind (found {most} of {section}); measure \
         more shapes"
    )]
    TooFew {
        /// The section that has most.
        section: &'static str,
        /// How many those are.
        most: usize,
    },
    /// There is nothing to start from.
    #[error(
        "the machine's op times have no numbers of {section} to start from; name in \
         `compute.op_times` a file that has them, such as op-times/h100"
    )]
    NoNumbers {
        /// The section that has most ops.
        section: &'static str,
    },
}

/// A measured op of the section.
struct Row<'o> {
    op: &'o MeasuredOp,
    loads: Vec<Load>,
    measured: f64,
}

/// Fits all sections that the ops are of.
///
/// # Errors
/// Too few ops, or no numbers to start from.
pub fn fit_ops(ops: &[MeasuredOp], start: &OpTimes) -> Result<OpFit, NoFit> {
    let mut fit = OpFit { sections: Vec::new(), left_out: Vec::new(), times: start.clone() };
    let measured = ops.iter().filter(|op| op.seconds.is_some());
    if measured.clone().next().is_none() {
        return Err(NoFit::NoTimes);
    }
    // Those of 8 bits use numbers of 16 bits, which come first.
    for name in OpTimes::SECTIONS {
        let own = measured.clone().filter(|op| op.section(start) == Some(name));
        let rows: Vec<Row<'_>> = own
            .filter_map(|op| Some(Row { op, loads: op.loads(start), measured: op.seconds? }))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let known = rows.iter().all(|row| row.op.by_formula(start, &row.loads).is_some());
        match rows.len() >= FEWEST && known && fit.times.section(name).is_some() {
            true => fit.sections.push(section(name, &rows, &mut fit.times)),
            false => fit.left_out.push((name, rows.len())),
        }
    }
    if !fit.sections.is_empty() {
        return Ok(fit);
    }
    let most = fit.left_out.iter().max_by_key(|(_, count)| *count);
    let &(section, most) = most.unwrap_or(&("a kind with a formula", 0));
    Err(match most >= FEWEST {
        true => NoFit::NoNumbers { section },
        false => NoFit::TooFew { section, most },
    })
}

/// What tells shapes of one family from those of another, and how that is called.
fn family(op: &MeasuredOp) -> ([u64; 3], &'static str) {
    match &op.what {
        What::Kernel(Kernel { work: Work::Product(of), .. }) => {
            ([of.n, of.k, 0], "pair of n and k")
        }
        What::Kernel(Kernel { work: Work::Attention(of), .. }) => {
            ([of.heads.into(), of.kv_heads.into(), 0], "pair of heads")
        }
        What::Kernel(of) => ([of.bytes.get(), 0, 0], "size"),
        What::Experts(of, _) => ([of.hidden, of.experts, of.top_k], "model"),
        What::Collective(of, _) => ([of.bytes.get(), 0, 0], "size"),
    }
}

/// Fits one section of `times` in its place.
fn section(name: &'static str, rows: &[Row<'_>], times: &mut OpTimes) -> FittedSection {
    let all: Vec<&Row<'_>> = rows.iter().collect();
    let before = errors(times, &all);
    let families: Vec<[u64; 3]> =
        rows.iter().map(|row| family(row.op).0).collect::<BTreeSet<_>>().into_iter().collect();
    let is_held =
        |row: &Row<'_>| families.binary_search(&family(row.op).0).is_ok_and(|at| at % 2 == 1);
    let (held, seen): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rows.iter().partition(|row| is_held(row));
    let held_out = (!held.is_empty()).then(|| {
        let mut half = times.clone();
        fit(name, &seen, &mut half);
        errors(&half, &held)
    });
    let mut was = Vec::new();
    each(times, name, &mut |_, _, number| was.push(*number));
    let told = fit(name, &all, times);
    let mut numbers = Vec::new();
    each(times, name, &mut |name, dimension, number| {
        let (before, told) = (was[numbers.len()], told[numbers.len()]);
        numbers.push(FittedNumber { name, dimension, before, after: *number, told });
    });
    if let Some((_, inherited)) = times.section(name) {
        *inherited = false;
    }
    let after = errors(times, &all);
    FittedSection { name, numbers, before, held_out, family: family(rows[0].op).1, after }
}

type See<'s> = &'s mut dyn FnMut(&'static str, tiersim_models::op_times::Dimension, &mut f64);

/// Shows the numbers of a section.
fn each(times: &mut OpTimes, section: &str, see: See<'_>) {
    if let Some((numbers, _)) = times.section(section) {
        numbers.each(see);
    }
}

fn predicted(times: &OpTimes, row: &Row<'_>) -> f64 {
    row.op.by_formula(times, &row.loads).map_or(f64::NAN, |(seconds, _)| seconds)
}

fn errors(times: &OpTimes, rows: &[&Row<'_>]) -> Errors {
    Errors::of(rows.iter().map(|row| (predicted(times, row), row.measured)))
}

/// Moves the numbers of a section to where the rows have the least errors; says which the rows
/// told.
///
/// Prompts tell the rates that single tokens share with them, so these move only what is theirs
/// alone: else a table of the one would spoil the other.
fn fit(name: &str, rows: &[&Row<'_>], times: &mut OpTimes) -> Vec<bool> {
    let (steps, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
        rows.iter().partition(|row| row.op.kind() == "decode");
    let is_of_steps = |number: &str| name == "attention" && number.starts_with("decode_");
    let mut told = fit_some(name, &others, times, &|number| !is_of_steps(number));
    let also = fit_some(name, &steps, times, &is_of_steps);
    told.iter_mut().zip(also).for_each(|(told, also)| *told |= also);
    told
}

/// The same of the numbers whose names are wanted, in four digits.
fn fit_some(
    name: &str,
    rows: &[&Row<'_>],
    times: &mut OpTimes,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Vec<bool> {
    let count = if rows.len() < FEWEST_OF_A_PART { 0 } else { rows.len().min(MOST) };
    let rows: Vec<&Row<'_>> = (0..count).map(|at| rows[at * rows.len() / count]).collect();
    // Of every number: its place among the unknowns, if it is one.
    let (mut start, mut bounds, mut places) = (Vec::new(), Vec::new(), Vec::new());
    each(times, name, &mut |known, dimension, number| {
        let is_told = dimension.is_measured() && is_wanted(known) && !rows.is_empty();
        let is_unknown = is_told && *number > 0.0 && number.is_finite();
        places.push(is_unknown.then_some(start.len()));
        if is_unknown {
            let (least, most) = dimension.range();
            start.push(number.ln());
            bounds.push((least.ln(), most.ln()));
        }
    });
    let mut trial = times.clone();
    let found = least(start, &bounds, &mut |at| {
        let mut places = places.iter();
        each(&mut trial, name, &mut |_, _, number| {
            if let Some(Some(place)) = places.next() {
                *number = at[*place].exp();
            }
        });
        rows.iter().map(|row| (predicted(&trial, row) / row.measured).ln()).collect()
    });
    let told: Vec<bool> =
        places.iter().map(|place| place.is_some_and(|at| found.told[at])).collect();
    let mut index = 0;
    each(times, name, &mut |_, dimension, number| {
        if told[index] {
            let (least, most) = dimension.range();
            let at = found.at[places[index].unwrap_or_default()];
            *number = four_digits(at.exp()).clamp(least, most);
        }
        index += 1;
    });
    told
}

/// As many digits as a file has of a fitted number.
fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
