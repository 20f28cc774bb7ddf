//! The answer before the table: which case is best, by how much over which baseline, what the next
//! one saves, and what does not fit.
//!
//! A case that sees the whole trace is marked, as in the table, and beside it stands one that does
//! not: nobody can build an oracle.
//! Invariant: the best is the first of the table's order, so that verdict and table cannot
//! disagree; emulated cases, which do not pay for every access, are never it.

use crate::contest::{marks, order};
use crate::measure::Measure;
use crate::series::machine_of;
use crate::units::{three_digits, time};
use crate::words::{count, finite, shortened};
use crate::{replications, uncertainty};
use tiersim_models::hardware::HBM;
use tiersim_models::results::served::ServingFigures;
use tiersim_models::results::{CaseRecord, Figures, Lookahead, Outcome, RunRecord};
use tiersim_models::units::Time;
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
        if requests_differ(record) {
            let words = "cases serve different requests: a case is before others that answers sooner, \
                         and the lightest load is answered soonest";
            lines.push(("work", words.to_owned()));
        }
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
        let takes = takes(record, case, own);
        let against = against(record, (case, own), (best, figures));
        lines.push(format!("{}: {takes}{against}", marked(case)));
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
    let (measure, on) = (Measure::ranking(record), record.of(case));
    let rate = || three_digits(figures.tokens_per_s(on.tokens_per_step));
    let Some(serving) = figures.serving.as_deref() else {
        let step = time(figures.mean_step().ps() as f64);
        return match measure {
            Measure::Token => {
                format!("{step} per step of {}, {} tokens/s", tokens(on.tokens_per_step), rate())
            }
            _ => format!("{step} per step"),
        };
    };
    let [first, per] = [serving.first_token_ms().mean, serving.per_token_ms().mean];
    // Where every answer is one token, there is none behind the first.
    let per = finite(per).map_or(String::new(), |ms| format!(", {} per token", time(ms * 1e9)));
    let all = finite(serving.latency_ms().mean)
        .map_or(String::new(), |ms| format!("a request takes {}, ", time(ms * 1e9)));
    format!("{all}first token after {}{per} (means), {} tokens/s", time(first * 1e9), rate())
}

fn tokens(tokens: u64) -> String {
    count(usize::try_from(tokens).unwrap_or(usize::MAX), "token", "tokens")
}

/// How much longer one takes than another by what they are ranked by, as the end of a sentence.
fn against(
    record: &RunRecord,
    one: (&CaseRecord, &Figures),
    other: (&CaseRecord, &Figures),
) -> String {
    let measure = Measure::ranking(record);
    let ps = |(case, figures): (&CaseRecord, &Figures)| measure.ps(figures, record.of(case));
    let Some((own, first)) = ps(one).zip(ps(other)).filter(|(_, first)| *first > 0) else {
        return String::new();
    };
    let compared = compared(own as f64 / first as f64);
    match measure {
        Measure::Latency => format!("; requests take {compared} the best's"),
        Measure::Token => format!(", {compared} the best's per token"),
        _ => format!(", {compared} the best's"),
    }
}

/// What the best takes, beside the baseline and the bound.
fn stands(record: &RunRecord, case: &CaseRecord, figures: &Figures) -> String {
    let (measure, on) = (Measure::ranking(record), record.of(case));
    let [own, base] = [measure.ps(figures, on).unwrap_or(0), measure.baseline(on)];
    let gap = case.gap_to_bound().filter(|gap| *gap >= 0.0005).map(change);
    let text = takes(record, case, figures);
    let ratio = (own > 0 && base > 0).then(|| own as f64 / base as f64);
    let beside = match (measure, ratio) {
        (_, None) => String::new(),
        (Measure::Latency, Some(ratio)) if equal(ratio) => {
            "; requests take as long as with unlimited HBM (the baseline)".to_owned()
        }
        (_, Some(ratio)) if equal(ratio) => ", as with unlimited HBM (the baseline)".to_owned(),
        (Measure::Latency, Some(ratio)) => {
            let base = time(base as f64);
            format!("; requests take {} the baseline's {base} with unlimited HBM", compared(ratio))
        }
        (_, Some(ratio)) => {
            let base = time(on.baseline.mean_step().ps() as f64);
            format!(", {} the baseline's {base} with unlimited HBM", compared(ratio))
        }
    };
    let gap = gap.map_or(String::new(), |gap| match measure {
        // There is no bound of requests.
        Measure::Latency => format!("; a step takes {gap} more than its bound"),
        _ => format!("; {gap} over the bound"),
    });
    text + &beside + &gap
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
    let mut text = format!("{}: {}", marked(case), takes(record, case, own));
    // Points of a sweep may stand beside different baselines, and times of different work.
    let measure = Measure::ranking(record);
    let [own_base, base] = [case, best].map(|case| measure.baseline(record.of(case)));
    if measure == Measure::Token || own_base == base {
        text += &against(record, (case, own), (best, figures));
    }
    if less {
        let (unit, size) = of_sizes(peak(figures) as f64);
        let [own, most] = [peak(own), peak(figures)].map(|peak| three_digits(peak as f64 / size));
        text += &format!(", with a peak of {own} {unit} of HBM instead of {most}");
    }
    Some(text)
}

/// Whether cases that ran serve requests that arrive at other times or ask for other answers.
fn requests_differ(record: &RunRecord) -> bool {
    let served = record.results.iter().filter_map(|case| runs(case)?.serving.as_deref());
    let work = |of: &ServingFigures| -> Vec<(Time, u32)> {
        of.requests.iter().map(|request| (request.arrival, request.output)).collect()
    };
    let mut all = served.map(|of| (of.prompt_tokens, work(of)));
    all.next().is_some_and(|first| all.any(|other| other != first))
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
    use tiersim_models::results::served::RequestFigures;
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

    /// A record of one case, with the same requests at unlimited HBM.
    fn served(output: u32) -> RunRecord {
        let mut record = common::single();
        let request = |ms: u64| RequestFigures {
            arrival: Time::ZERO,
            output,
            queued: Span::ZERO,
            first_token: Span::from_ps(ms * 200_000_000),
            latency: Span::from_ps(ms * 1_000_000_000),
        };
        let figures = |ms: u64| Figures {
            serving: Some(Box::new(ServingFigures {
                requests: vec![request(ms)],
                end: Time::ZERO + request(ms).latency,
                ..ServingFigures::default()
            })),
            ..common::figures(500.0, 40.0)
        };
        record.results[0].outcome = figures(3000).into();
        record.conditions[0].baseline = figures(2000).into();
        record
    }

    /// There is no bound of TTFT, and a server's step is as long as its batch is large.
    #[test]
    fn requests_are_held_against_requests_and_a_bound_names_the_step() {
        let mut record = common::single();
        record.results[0].bound_step = Span::from_ps(250_000_000_000);
        assert!(said(&record, "result")[0].ends_with("; 100 % over the bound"));
        let mut record = served(10);
        record.results[0].bound_step = Span::from_ps(250_000_000_000);
        let text = &said(&record, "result")[0];
        let expected = "a request takes 3.00 s, first token after 600 ms, 267 ms per token (means), 3.33 \
                        tokens/s; requests take 50.0 % more than the baseline's 2.00 s with unlimited \
                        HBM; a step takes 100 % more than its bound";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn of_served_requests_the_best_is_who_answers_soonest_and_other_loads_are_told() {
        let mut record = served(10);
        let mut other = record.results[0].clone();
        other.label = "quicker".to_owned();
        other.outcome = Outcome::Done(
            Figures {
                serving: record.conditions[0].baseline.serving.clone(),
                // Longer steps, of larger batches.
                ..common::figures(900.0, 40.0)
            }
            .into(),
        );
        record.results.push(other);
        assert!(said(&record, "best")[0].starts_with("quicker: "));
        assert_eq!(said(&record, "work"), [""; 0]);
        let Outcome::Done(figures) = &mut record.results[1].outcome else { panic!("it ran") };
        figures.serving.as_mut().expect("it serves").requests[0].output = 5;
        assert_eq!(said(&record, "work").len(), 1);
    }

    #[test]
    fn of_steps_that_differ_in_their_work_the_best_does_the_most() {
        let mut record = common::single();
        let mut larger = record.results[0].clone();
        larger.label = "larger batch".to_owned();
        larger.conditions = 1;
        larger.outcome = common::figures(900.0, 40.0).into();
        let mut on = record.conditions[0].clone();
        on.tokens_per_step *= 2;
        record.conditions.push(on);
        record.results.push(larger);
        record.results[0].outcome = common::figures(500.0, 40.0).into();
        let best = &said(&record, "best")[0];
        assert!(best.starts_with("larger batch: 900 ms per step of "), "{best}");
        let then = &said(&record, "then")[0];
        assert!(then.ends_with(", 11.1 % more than the best's per token"), "{then}");
        record.conditions[1].tokens_per_step /= 2;
        assert!(!said(&record, "best")[0].starts_with("larger batch: "));
    }
}
