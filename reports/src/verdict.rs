//! The answer before the table: which case is best, by how much over which baseline, what the next
//! one saves, and what does not fit.
//!
//! Invariant: the best is the first of the table's order, so that verdict and table cannot
//! disagree; emulated cases, which do not pay for every access, are never it.

use crate::contest::{gap, order};
use crate::series::machine_of;
use crate::units::{three_digits, time};
use crate::words::{count, finite, shortened};
use crate::{replications, uncertainty};
use tiersim_models::hardware::HBM;
use tiersim_models::results::{CaseRecord, Figures, Outcome, RunRecord};
use tiersim_models::units::shown::of_sizes;

/// Most characters of a case's name in a sentence.
const MOST_NAME: usize = 60;
/// Most machines beside the best one's.
const MOST_MACHINES: usize = 4;
/// Most cases that are named as not fitting.
const MOST_NAMED: usize = 3;

/// Lines with the word that each opens with.
pub(crate) fn verdict(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut ranked: Vec<usize> = (0..record.results.len()).collect();
    ranked.retain(|&case| runs(&record.results[case]).is_some());
    order(record, &mut ranked);
    let ranked: Vec<&CaseRecord> = ranked.iter().map(|&case| &record.results[case]).collect();
    let mut lines = Vec::new();
    if let Some((best, figures)) = ranked.first().and_then(|best| Some((*best, runs(best)?))) {
        let word = if ranked.len() > 1 { "best" } else { "result" };
        lines.push((word, format!("{}: {}", name(best), stands(record, best, figures))));
        let others = machines(record, &ranked, best, figures);
        lines.extend(others.into_iter().map(|text| ("machine", text)));
        lines.extend(next(record, &ranked[1..], best, figures).map(|text| ("then", text)));
    } else if !record.results.is_empty() {
        lines.push(("result", "no case that pays for every access ran to its end".to_owned()));
    }
    lines.extend(misfits(record).map(|text| ("no fit", text)));
    lines.extend(uncertainty::verdict(record));
    lines.extend(replications::verdict(record));
    lines
}

/// The best of every other machine, beside the best of all.
fn machines(
    record: &RunRecord,
    ranked: &[&CaseRecord],
    best: &CaseRecord,
    figures: &Figures,
) -> Vec<String> {
    let mut seen = vec![machine_of(best)];
    let mut lines = Vec::new();
    for case in ranked {
        let (Some(own), machine) = (runs(case), machine_of(case)) else { continue };
        if seen.contains(&machine) {
            continue;
        }
        seen.push(machine);
        let ratio = own.mean_step().ps() as f64 / (figures.mean_step().ps() as f64).max(1.0);
        let what = if own.serving.is_some() { "; a step takes" } else { "," };
        let takes = takes(record, case, own);
        lines.push(format!("{}: {takes}{what} {} the best's", name(case), compared(ratio)));
    }
    lines.truncate(MOST_MACHINES);
    lines
}

/// The figures of a case that has a place among the others.
fn runs(case: &CaseRecord) -> Option<&Figures> {
    case.outcome.figures().filter(|_| !case.emulated)
}

fn name(case: &CaseRecord) -> String {
    shortened(&case.label, MOST_NAME)
}

fn peak(figures: &Figures) -> u64 {
    figures.peak.get(HBM.index()).map_or(0, |bytes| bytes.get())
}

/// What a case takes: a step, or what people wait for who ask a served model.
fn takes(record: &RunRecord, case: &CaseRecord, figures: &Figures) -> String {
    let Some(serving) = figures.serving.as_deref() else {
        return format!("{} per step", time(figures.mean_step().ps() as f64));
    };
    let [first, per] = [serving.first_token_ms().mean, serving.per_token_ms().mean];
    // Where every answer is one token, there is none behind the first.
    let per = finite(per).map_or(String::new(), |ms| format!(", {} per token", time(ms * 1e9)));
    let rate = three_digits(figures.tokens_per_s(record.of(case).tokens_per_step));
    format!("first token after {}{per} (means), {rate} tokens/s", time(first * 1e9))
}

/// What the best takes, beside the baseline and the bound.
fn stands(record: &RunRecord, case: &CaseRecord, figures: &Figures) -> String {
    let step = figures.mean_step().ps() as f64;
    let base = case.baseline_step.ps() as f64;
    let mut text = takes(record, case, figures);
    if base > 0.0 {
        let ratio = step / base;
        text += &match equal(ratio) {
            true => ", as with unlimited HBM (the baseline)".to_owned(),
            false => {
                format!(", {} the baseline's {} with unlimited HBM", compared(ratio), time(base))
            }
        };
    }
    if let Some(gap) = gap(case).filter(|gap| *gap >= 0.0005) {
        text += &format!("; {} over the bound", change(gap));
    }
    text
}

/// The quickest of the others that needs less HBM, or else the next.
fn next(
    record: &RunRecord,
    others: &[&CaseRecord],
    best: &CaseRecord,
    figures: &Figures,
) -> Option<String> {
    let less = |case: &&&CaseRecord| {
        runs(case).is_some_and(|own| (peak(own) as f64) < 0.99 * peak(figures) as f64)
    };
    let case = others.iter().find(less).or_else(|| others.first())?;
    let own = runs(case)?;
    let (step, first) = (own.mean_step().ps() as f64, figures.mean_step().ps() as f64);
    let mut text = format!("{}: {}", name(case), takes(record, case, own));
    // Points of a sweep may stand beside different baselines, and times of different work.
    if first > 0.0 && case.baseline_step == best.baseline_step {
        let what = if own.serving.is_some() { "; a step takes" } else { "," };
        text += &format!("{what} {} the best's", compared(step / first));
    }
    if less(&case) {
        let (unit, size) = of_sizes(peak(figures) as f64);
        let [own, most] = [peak(own), peak(figures)].map(|peak| three_digits(peak as f64 / size));
        text += &format!(", with a peak of {own} {unit} of HBM instead of {most}");
    }
    Some(text)
}

fn equal(ratio: f64) -> bool {
    (ratio - 1.0).abs() < 0.0005
}

/// `as long as`, `12.3 % more than`, `3.68 times`.
fn compared(ratio: f64) -> String {
    match ratio {
        r if equal(r) => "as long as".to_owned(),
        r if r >= 2.0 => format!("{} times", three_digits(r)),
        r if r > 1.0 => format!("{} more than", change(r - 1.0)),
        r => format!("{} less than", change(1.0 - r)),
    }
}

fn change(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// What ran out of memory, by name; the reasons stand below the table.
fn misfits(record: &RunRecord) -> Option<String> {
    let failed =
        record.results.iter().filter(|case| matches!(case.outcome, Outcome::OutOfMemory(_)));
    let failed: Vec<String> = failed.map(name).collect();
    if failed.is_empty() {
        return None;
    }
    let all = count(record.results.len(), "case", "cases");
    let named = failed.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = match failed.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("{} of {all} out of memory: {named}{more}", failed.len()))
}
