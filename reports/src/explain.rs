//! `tiersim explain`: where a step's time went, as sentences, tables, files and charts.
//!
//! Every grouping is a sum of the record's path, so that a sentence, a table and a file cannot
//! disagree; means are per step of the explained replay.
//! Invariant: no sentence without the number or the run that shows it, and all times of a table
//! that says so add up to the step.

mod csv;
mod findings;
mod gantt;
mod json;
mod looks;
mod phases;
mod switches;
mod text;
mod tornado;

use crate::measure::Measure;
use crate::sheet::Made;
use crate::{Artefact, ChartError};
use tiersim_models::results::explain::Explanation;

pub use findings::sentences;
pub use json::{EXPLAIN_SCHEMA, explain_json};
pub use switches::{switches_artefacts, switches_json, switches_text};
pub use text::explain_text;

/// Every file of an output folder: the explanation, the path, and the charts.
///
/// # Errors
/// A number that JSON cannot hold, or a chart that cannot be drawn.
pub fn explain_artefacts<'a>(
    of: &Explanation,
    made: impl Into<Made<'a>>,
) -> Result<Vec<Artefact>, ChartError> {
    let made = made.into();
    let mut files = vec![
        Artefact::new("explain.json", explain_json(of, made.version)?),
        Artefact::new("critical-path.csv", csv::critical_path(of)?),
    ];
    if !of.elasticities.is_empty() {
        files.extend(tornado::tornado(of, made).artefacts("elasticities")?);
    }
    files.extend(gantt::gantt(of, made).artefacts("step-gantt")?);
    files.extend(phases::phases(of, made).artefacts("split-by-phase")?);
    Ok(files)
}

/// What answers to numbers of the machine: what cases are ranked by where requests are served, else
/// `step`, as the sentence has it.
fn judged(of: &Explanation, step: &'static str) -> &'static str {
    match Measure::ranking(&of.record) {
        latency @ Measure::Latency => latency.words(),
        _ => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::results::PathPart;
    use tiersim_models::results::explain::{
        Elasticity, Gap, Lane, MemoryTry, PathObject, PathOp, PathSegment, PathSum, Spender, Try,
        WalkedPath,
    };
    use tiersim_models::units::{Bytes, Span, Time};
    use tiersim_models::workload::{ObjectKind, Phase};

    const HOSTILE: &str =
        "=cmd|' /C calc'!A0\u{1b}[31m\u{202e} of a rather long module and its name";

    /// A path with a segment of every part of the machine, each in another phase than the one
    /// before, and everything that can be said of it.
    fn explanation() -> Explanation {
        let record = common::single();
        let on = record.base();
        let (channels, tiers) = (on.channels.len(), on.tiers.len());
        let name = || HOSTILE.to_owned();
        let ops = vec![PathOp { name: name(), module: name(), stream: 0 }];
        let objects = vec![PathObject { name: name(), kind: ObjectKind::Kv, module: name() }];
        let mut path = WalkedPath { steps: 1, ops, objects, ..WalkedPath::default() };
        let mut at = Time::ZERO;
        for (index, part) in PathPart::all(channels, tiers).enumerate() {
            let (phase, span) = (Phase::ALL[index % 3], Span::from_us(7 * index as u64 % 40 + 1));
            let setup = Span::from_ps(span.ps() / 3);
            let moves = matches!(part, PathPart::Copy(_) | PathPart::Queue(_));
            let by = if moves { Spender::Object(0) } else { Spender::Op(0) };
            let (op, object, behind) = (Some(0), moves.then_some(0), moves.then_some(0));
            let bytes = Bytes::mib(3);
            let (step, start) = (0, at);
            path.segments.push(PathSegment {
                step,
                start,
                span,
                setup,
                part,
                phase,
                op,
                object,
                bytes,
                behind,
            });
            path.sums.push(PathSum { part, phase, by, span, setup, bytes: 1 << 60, count: 2 });
            path.span += span;
            at = at + span;
        }
        let (channel, phase, half) = (0, Phase::Forward, Span::from_ps(path.span.ps() / 2));
        let (busy, exposed, queued, overlapped) = (half, half, Span::ZERO, half);
        path.lanes = vec![Lane { channel, phase, busy, exposed, queued, overlapped }];
        let gap = Gap::new(&path, half, name(), vec![PathPart::Copy(0)]);
        let step = record.results[0].outcome.figures().expect("it ran").mean_step();
        let near = |by: i64| Span::from_ps(step.ps().saturating_add_signed(by * 1_000_000_000));
        let answer = |number: i64| Elasticity {
            path: format!("hardware.links.a-link-of-a-rather-long-name-{number}.write.sizes"),
            value: "gb_per_s(1234.56789012)".to_owned(),
            tried: ["1".to_owned(), "2".to_owned()],
            change: 0.02,
            steps: [near(40 - number), near(number - 39)],
        };
        let elasticities: Vec<Elasticity> = (0..20).map(answer).collect();
        let tried = Try {
            path: elasticities[0].path.clone(),
            value: name(),
            tried: name(),
            factor: 2.0,
            step: near(-9),
        };
        let more = |gib: u64, by| MemoryTry { hbm: Bytes::gib(gib), step: Some(near(by)) };
        let memory = vec![more(900, -20), more(1000, -30), more(2000, -30)];
        let unchanged = vec![("hardware.hidden.0.bytes".to_owned(), name())];
        let (change, tries) = (0.01, vec![tried]);
        Explanation { record, path, gap, elasticities, change, unchanged, tries, memory }
    }

    #[test]
    fn charts_are_legible_whatever_they_show() {
        let mut of = explanation();
        for _ in 0..2 {
            for chart in [tornado::tornado, gantt::gantt, phases::phases] {
                chart(&of, "0".into()).assert_legible(0.0);
            }
            // One kind of time, one phase, one number.
            of.path.segments.truncate(1);
            of.path.sums.truncate(1);
            of.elasticities.truncate(1);
        }
    }

    #[test]
    fn kinds_of_time_differ_in_grey_or_in_pattern() {
        for (index, one) in looks::LOOKS.iter().enumerate() {
            for other in &looks::LOOKS[index + 1..] {
                let grey = (one.grey() - other.grey()).abs();
                assert!(grey > 0.03 || one.pattern() != other.pattern(), "{one:?} {other:?}");
            }
        }
    }

    /// What is said of 1 % more is what 1 % more does.
    #[test]
    fn a_number_that_is_answered_to_on_one_side_has_both_sides_said() {
        let mut of = explanation();
        let step = of.judged().ps() as f64;
        let longer =
            |per_cent: f64| Span::from_ps((step * (1.0 + per_cent / 100.0)).round() as u64);
        let mut said = |value: &str, tried: [&str; 2], change, [less, more]: [f64; 2]| {
            of.elasticities = vec![Elasticity {
                path: "hardware.chunk".to_owned(),
                value: value.to_owned(),
                tried: tried.map(str::to_owned),
                change,
                steps: [longer(less), longer(more)],
            }];
            of.tries.clear();
            let all = sentences(&of);
            let found = all.into_iter().find(|sentence| sentence.contains("hardware.chunk"));
            found.expect("it is answered to")
        };
        let tried = ["b(99)", "b(101)"];
        let even = said("b(100)", tried, 0.02, [0.5, -0.48]);
        assert_eq!(even, "1 % more of hardware.chunk (b(100)) shortens the step by 0.49 %.");
        let uneven = said("b(100)", tried, 0.02, [0.63, 0.08]);
        let both = "With b(101) instead of b(100) as hardware.chunk the step is 0.08 % longer, with \
                    b(99) 0.63 % longer.";
        assert_eq!(uneven, both);
        let count = said("4", ["3", "5"], 0.5, [9.0, -6.0]);
        let both = "With 5 instead of 4 as hardware.chunk the step is 6.00 % shorter, with 3 9.00 % \
                    longer.";
        assert_eq!(count, both);
        let one = said("1", ["1", "2"], 1.0, [0.0, -20.0]);
        assert_eq!(one, "With 2 instead of 1 as hardware.chunk the step is 20.00 % shorter.");
    }

    #[test]
    fn every_sentence_has_a_number_and_names_are_cleaned() {
        let of = explanation();
        let all = sentences(&of);
        assert!(all.len() >= 10, "{all:?}");
        for sentence in &all {
            assert!(sentence.chars().any(|c| c.is_ascii_digit()), "{sentence}");
            assert!(!sentence.contains(['\u{1b}', '\u{202e}']), "{sentence:?}");
        }
        let text = explain_text(&of, "0");
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
        let long = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None);
        let enough = "1000.000 GiB of HBM for objects instead of";
        let more = "more than that buys nothing, up to 1.953 TiB";
        assert!(all.iter().any(|said| said.contains(enough) && said.contains(more)), "{all:#?}");
    }

    #[test]
    fn a_number_that_lengthens_a_step_either_way_is_given_both() {
        let mut of = explanation();
        let step = of.judged().ps() as f64;
        let longer = |share: f64| Span::from_ps((step * (1.0 + share)) as u64);
        of.elasticities.truncate(1);
        of.elasticities[0].steps = [longer(0.0031), longer(0.0069)];
        of.tries.clear();
        let both = "with 1 it is 0.31 % longer, with 2 0.69 % longer.";
        assert!(sentences(&of).iter().any(|said| said.ends_with(both)), "{:#?}", sentences(&of));
        of.elasticities[0].steps = [longer(-0.0049), longer(0.0051)];
        assert!(sentences(&of).iter().any(|said| said.contains("lengthens the step by 0.50 %")));
        // Half of what lies between is what neither of them does.
        of.elasticities[0].steps = [longer(-0.0031), longer(0.0069)];
        let both = "the step is 0.69 % longer, with 1 0.31 % shorter.";
        assert!(sentences(&of).iter().any(|said| said.ends_with(both)), "{:#?}", sentences(&of));
    }

    #[test]
    fn the_gap_and_the_causes_add_up() {
        let of = explanation();
        let causes: Span = of.path.causes().iter().map(|found| found.span).sum();
        assert_eq!(causes, of.path.span);
        let gap = i128::from(of.path.span.ps()) - i128::from(of.gap.bound.ps());
        assert_eq!(of.gap.total(), gap);
        assert!(of.gap.beyond < 0, "the bound is more than its parts take");
    }
}
