//! Distributions: which share of steps, or of served requests, took at most so long.
//!
//! A mean hides what its users complain about. A curve is the empirical distribution itself, a
//! stair at each length that occurs; its markers are the median and the 95th percentile of
//! `summary.json`. Each case is a curve in its colour; of more than six each group has a panel.
//! Invariant: a chart is made only if lengths of some case differ; as upright lines they would say
//! no more than the mean.

use crate::multiples::grouped;
use crate::names::direct;
use crate::panels::{Layer, Panel, Panels, Shared};
use crate::render::{Chart, Charts};
use crate::series::looks_of_cases;
use crate::sheet::Made;
use tiersim_models::results::{Figures, RunRecord, Steps};
use tiersim_models::units::shown::of_times;

/// Curves in one panel.
const MOST_CURVES: usize = 6;
/// Cases of which curves are drawn: a sweep of more has its map.
const MOST_CASES: usize = 72;
/// Lengths that differ by less are drawn as one upright line.
const SAME: f64 = 1.001;
/// Corners of a curve: as many as a chart has columns.
const MOST_CORNERS: usize = 300;

/// What is distributed.
struct Quantity {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    share: &'static str,
    of: fn(&Figures) -> Option<Steps>,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        file: "step-cdf",
        title: "how long steps take",
        axis: "step time",
        share: "steps that take at most as long (%)",
        of: |figures| figures.serving.is_none().then(|| figures.steps.clone()),
    },
    Quantity {
        file: "ttft-cdf",
        title: "how long requests wait for their first token",
        axis: "time to first token, TTFT",
        share: "requests that wait at most as long (%)",
        of: |figures| {
            let requests = &figures.serving.as_ref()?.requests;
            Some(requests.iter().map(|request| request.first_token).collect())
        },
    },
    Quantity {
        file: "request-cdf",
        title: "how long requests take from end to end",
        axis: "time from arrival to the last token",
        share: "requests that take at most as long (%)",
        of: |figures| {
            let requests = &figures.serving.as_ref()?.requests;
            Some(requests.iter().map(|request| request.latency).collect())
        },
    },
];

/// One for each quantity that a record has.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    let of = |quantity: &Quantity| Some((quantity.file.to_owned(), chart(quantity, record, made)?));
    QUANTITIES.iter().filter_map(of).collect()
}

/// A case's curve: every length in picoseconds with the share that is at most as long, ascending.
fn distribution(steps: &Steps) -> Vec<(u64, f64)> {
    let mut counted: Vec<(u64, u64)> =
        steps.counted().map(|(span, count)| (span.ps(), count)).collect();
    counted.sort_unstable();
    let all: u64 = counted.iter().map(|(_, count)| count).sum();
    let mut sum = 0;
    let mut curve: Vec<(u64, f64)> = Vec::new();
    for (ps, count) in counted {
        sum += count;
        let share = sum as f64 / all as f64;
        match curve.last_mut() {
            Some(last) if last.0 == ps => last.1 = share,
            _ => curve.push((ps, share)),
        }
    }
    curve
}

/// Whether all of its lengths are one to the eye.
fn is_upright(curve: &[(u64, f64)]) -> bool {
    let ends = curve.first().zip(curve.last());
    ends.is_none_or(|(first, last)| last.0 as f64 <= first.0 as f64 * SAME)
}

/// The corners of its stairs in per cent and in the axis's unit; of many lengths those that are
/// most evenly apart in share.
pub(crate) fn stairs(curve: &[(u64, f64)], unit: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let mut below = 0.0;
    for (index, &(ps, share)) in curve.iter().enumerate() {
        let is_end = index == 0 || index + 1 == curve.len();
        if !is_end && share - below < 1.0 / MOST_CORNERS as f64 {
            continue;
        }
        let x = ps as f64 / unit;
        corners.extend([(x, below * 100.0), (x, share * 100.0)]);
        below = share;
    }
    corners
}

fn chart(quantity: &Quantity, record: &RunRecord, made: Made<'_>) -> Option<Chart> {
    let of = |case: usize| {
        let steps = (quantity.of)(record.results[case].outcome.figures()?)?;
        (!steps.is_empty()).then_some((case, steps))
    };
    let all: Vec<(usize, Steps)> = (0..record.results.len()).filter_map(of).collect();
    let curves: Vec<_> = all.iter().map(|(case, steps)| (*case, distribution(steps))).collect();
    if all.len() > MOST_CASES || curves.iter().all(|(_, curve)| is_upright(curve)) {
        return None;
    }
    let longest = curves.iter().filter_map(|(_, curve)| curve.last()).map(|last| last.0).max()?;
    let (unit, size) = of_times(longest as f64);
    let cases: Vec<usize> = all.iter().map(|(case, _)| *case).collect();
    let groups = match cases.len() {
        0..=MOST_CURVES => vec![(String::new(), cases.clone())],
        _ => grouped(record, &cases),
    };
    let looks = looks_of_cases(record);
    let mut left_out = Vec::new();
    let mut panels = Vec::new();
    for (name, cases) in groups {
        for (part, cases) in cases.chunks(MOST_CURVES).enumerate() {
            let labels = direct(record, cases);
            left_out.extend(labels.left_out.filter(|_| name.is_empty()));
            let layer = |(&case, label): (&usize, &String)| {
                let at = all.iter().position(|(own, _)| *own == case).expect("it is listed");
                let percentile = |percent: usize| {
                    (all[at].1.ms_percentile(percent) * 1e9 / size, percent as f64)
                };
                Layer {
                    label: label.clone(),
                    look: looks[case],
                    case: Some(case),
                    unbroken: true,
                    line: stairs(&curves[at].1, size),
                    marks: vec![percentile(50), percentile(95)],
                    ..Layer::default()
                }
            };
            let layers = cases.iter().zip(&labels.names).map(layer).collect();
            let name = if part == 0 { name.clone() } else { format!("{name} ({})", part + 1) };
            panels.push(Panel { name, layers, ..Panel::default() });
        }
    }
    let mut notes = vec!["Markers: the median and the 95th percentile.".to_owned()];
    notes.extend(left_out);
    let failed = record.results.iter().filter(|case| case.outcome.figures().is_none()).count();
    notes.extend((failed > 0).then(|| format!("{failed} out of memory and not shown.")));
    let share = Shared { range: Some((0.0, 100.0)), ..Shared::of(quantity.share) };
    let panels = Panels {
        record,
        title: format!("{}: {}", record.scenario, quantity.title),
        about: record.about.clone(),
        x: Shared { ratio: 20.0, ..Shared::of(format!("{} ({unit})", quantity.axis)) },
        y: share,
        panels,
        notes,
        keys: Vec::new(),
        level: String::new(),
    };
    Some(panels.chart(made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::units::Span;

    fn steps(lengths: &[u64]) -> Steps {
        lengths.iter().map(|&ps| Span::from_ps(ps)).collect()
    }

    #[test]
    fn a_distribution_is_that_of_the_sorted_lengths() {
        let lengths = [70, 10, 30, 10, 50, 30, 10, 90];
        let curve = distribution(&steps(&lengths));
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        // The definition, one length after the other.
        for (ps, share) in &curve {
            let at_most = sorted.iter().filter(|length| *length <= ps).count();
            assert_eq!(*share, at_most as f64 / 8.0, "{ps}");
        }
        sorted.dedup();
        assert_eq!(curve.iter().map(|(ps, _)| *ps).collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn stairs_begin_at_nothing_and_end_at_all_and_never_fall() {
        let many: Vec<u64> = (0..5000).map(|i| (i * 7919 % 5003) + 1).collect();
        for lengths in [&[5][..], &[5, 7], &many] {
            let corners = stairs(&distribution(&steps(lengths)), 10.0);
            assert_eq!(corners[0].1, 0.0);
            assert_eq!(corners.last().expect("corners").1, 100.0);
            assert!(corners.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            assert!(corners.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            assert!(corners.len() <= 2 * MOST_CORNERS + 4, "{}", corners.len());
        }
        assert_eq!(
            stairs(&distribution(&steps(&[20, 10])), 10.0),
            [(1.0, 0.0), (1.0, 50.0), (2.0, 50.0), (2.0, 100.0)]
        );
    }

    #[test]
    fn equal_steps_are_no_distribution() {
        let names = |record: &RunRecord| -> Vec<String> {
            charts(record, "0".into()).into_iter().map(|(name, _)| name).collect()
        };
        let mut record = common::training();
        assert_eq!(names(&record), ["step-cdf"]);
        for case in &mut record.results {
            if let Some(figures) = case.outcome.figures_mut() {
                figures.steps = steps(&[7, 7, 7]);
            }
        }
        assert!(names(&record).is_empty());
    }
}
