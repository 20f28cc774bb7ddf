//! The answer before the table: which case is best, by how much over which baseline, what the next
//! one saves, and what does not fit.
//!
//! A case that sees the whole trace is marked, as in the table, and beside it stands one that does
//! not: nobody can build an oracle.
//! Invariant: the best is the first of the table's order, so that verdict and table cannot
//! disagree; emulated cases, which do not pay for every access, are never it.

use crate::contest::{gap, marks, order};
use crate::series::machine_of;
use crate::units::{three_digits, time};
use crate::words::{count, finite, shortened};
use crate::{replications, uncertainty};
use tiersim_models::hardware::HBM;
use tiersim_models::results::{CaseRecord, Figures, Lookahead, Outcome, RunRecord};
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
        lines.push((word, format!("{}: {}", marked(best), stands(record, best, figures))));
        let others = machines(record, &ranked, best, figures);
        lines.extend(others.into_iter().map(|text| ("machine", text)));
        let others = next(record, &ranked[1..], best, figures);
        lines.extend(others.into_iter().map(|text| ("then", text)));
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
        lines.push(format!("{}: {takes}{what} {} the best's", marked(case), compared(ratio)));
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

/// The name, with what a reader must know before comparing it.
fn marked(case: &CaseRecord) -> String {
    match marks(case).join(", ") {
        none if none.is_empty() => name(case),
        marks => format!("{} ({marks})", name(case)),
    }
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
    let gap = gap(case).filter(|gap| *gap >= 0.0005).map(change);
    let mut text = takes(record, case, figures);
    let ratio = (base > 0.0).then_some(step / base);
    let of_baseline = ratio.map(|ratio| match equal(ratio) {
        true => "as long as with unlimited HBM".to_owned(),
        false => format!("{} the baseline's {} with unlimited HBM", compared(ratio), time(base)),
    });
    if figures.serving.is_some() {
        // Baseline and bound are of a step, which has not been named yet.
        let bound = gap.map(|gap| format!("{gap} more than its bound"));
        let words: Vec<String> = of_baseline.into_iter().chain(bound).collect();
        if !words.is_empty() {
            text += &format!("; a step takes {}", words.join(", "));
        }
        return text;
    }
    text += &match (of_baseline, ratio.is_some_and(equal)) {
        (None, _) => String::new(),
        (Some(_), true) => ", as with unlimited HBM (the baseline)".to_owned(),
        (Some(words), false) => format!(", {words}"),
    };
    text + &gap.map_or(String::new(), |gap| format!("; {gap} over the bound"))
}

/// The quickest of the others that needs less HBM, or else the next; behind one that sees the whole
/// trace that of those which do not.
fn next(
    record: &RunRecord,
    others: &[&CaseRecord],
    best: &CaseRecord,
    figures: &Figures,
) -> Vec<String> {
    let less = |case: &CaseRecord| {
        runs(case).is_some_and(|own| (peak(own) as f64) < 0.99 * peak(figures) as f64)
    };
    let oracle = |case: &CaseRecord| case.lookahead == Lookahead::Oracle;
    let next = |oracles: bool| {
        let mut of = others.iter().copied().filter(|case| oracles || !oracle(case));
        of.clone().find(|case| less(case)).or_else(|| of.next())
    };
    let first = next(true);
    let beside = first.filter(|case| oracle(case)).and_then(|_| next(false));
    let said = |case| then(record, case, (best, figures), less(case));
    first.into_iter().chain(beside).filter_map(said).collect()
}

/// One of the others beside the best; whether it needs `less` HBM.
fn then(
    record: &RunRecord,
    case: &CaseRecord,
    (best, figures): (&CaseRecord, &Figures),
    less: bool,
) -> Option<String> {
    let own = runs(case)?;
    let (step, first) = (own.mean_step().ps() as f64, figures.mean_step().ps() as f64);
    let mut text = format!("{}: {}", marked(case), takes(record, case, own));
    // Points of a sweep may stand beside different baselines, and times of different work.
    if first > 0.0 && case.baseline_step == best.baseline_step {
        let what = if own.serving.is_some() { "; a step takes" } else { "," };
        text += &format!("{what} {} the best's", compared(step / first));
    }
    if less {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::units::Span;

    fn said(record: &RunRecord, word: &str) -> Vec<String> {
        let lines = verdict(record).into_iter().filter(|(own, _)| *own == word);
        lines.map(|(_, text)| text).collect()
    }

    #[test]
    fn an_oracle_is_marked_and_beside_it_stands_a_case_that_is_none() {
        let mut record = common::training();
        let [best, next] = ["Adam 70/30 migrate", "Adam 70/30 in place"];
        assert!(said(&record, "best")[0].starts_with(&format!("{best}: ")));
        assert!(said(&record, "then")[0].starts_with(&format!("{next}: ")));
        let own = |label: &str| record.results.iter().position(|case| case.label == label);
        let (best, next) = (own(best).unwrap(), own(next).unwrap());
        record.results[next].lookahead = Lookahead::Oracle;
        record.results[best].learned = true;
        assert!(said(&record, "best")[0].starts_with("Adam 70/30 migrate (learned): "));
        let then = said(&record, "then");
        assert_eq!(then.len(), 2, "{then:?}");
        assert!(then[0].starts_with("Adam 70/30 in place (oracle): "), "{then:?}");
        assert!(then[1].starts_with("Adam 50/50 migrate: "), "{then:?}");
    }

    /// There is no bound of TTFT.
    #[test]
    fn what_is_said_of_a_bound_of_served_requests_names_the_step() {
        let mut record = common::single();
        let case = &mut record.results[0];
        case.bound_step = Span::from_ps(250_000_000_000);
        assert!(said(&record, "result")[0].ends_with("; 100 % over the bound"));
        let mut figures = common::figures(500.0, 40.0);
        figures.serving = Some(Box::default());
        record.results[0].outcome = figures.into();
        let text = &said(&record, "result")[0];
        assert!(text.ends_with(" with unlimited HBM, 100 % more than its bound"), "{text}");
        assert!(text.contains("; a step takes 24.2 % more than the baseline's"), "{text}");
    }
}
