//! Latency against what it takes: the price of the memory and the machine that a case uses, and the
//! energy of a step.
//!
//! The charts of a design review: which case is the quickest for its money, or for its energy. A
//! case is charged for what it uses, which is the device, the host, and of each tier the most bytes
//! that it ever holds: budgets that a policy leaves empty are no cost of that policy.
//! Cases that ran out of memory have no step and are counted in a note; emulated cases are
//! series of their own and never on the front.
//! Invariant: a chart is made only if every case that ran has its figure, and figures differ: half
//! a chart would look like a whole one, and one column of points shows nothing.

use crate::against::{HeldAgainst, apart, bound, own_bound};
use crate::economics_summary::economics_lines;
use crate::measure::Measure;
use crate::names::{each, statistics_note};
use crate::points::{Point, Points};
use crate::render::{Chart, Charts};
use crate::sheet::Made;
use crate::style::MOST_JOINED;
use crate::words::{clean, count, short_fingerprint};
use crate::xy::{Axis, Marks, Reference, ReferenceKind, Series, XyChart};
use std::collections::BTreeMap;
use tiersim_models::results::RunRecord;
use tiersim_models::results::economics::CaseEconomics;
use tiersim_models::results::uncertainty::{Band, DrawnCase};
use tiersim_models::units::shown::of_times;

/// Steps that differ by more are drawn on a logarithmic axis.
const MOST_LINEAR: f64 = 20.0;

/// What the horizontal axis shows.
pub(crate) struct Figure {
    title: &'static str,
    /// The line of the header that says what it rests on; a word of the chart's file.
    pub(crate) line: &'static str,
    axis: &'static str,
    unit: &'static str,
    front: &'static str,
    /// Whether it is one of a step, and where steps differ in their work one of a token.
    of_step: bool,
    of: fn(&CaseEconomics) -> Option<f64>,
    drawn: fn(&DrawnCase) -> Option<f64>,
}

/// The price of what a case uses, and the energy of a step.
pub(crate) const FIGURES: [Figure; 2] = [
    Figure {
        title: "the price of what a case uses",
        line: "cost",
        axis: "price of device, host and, of each tier, the case's peak bytes",
        unit: "USD",
        front: "front: none is both cheaper and quicker",
        of_step: false,
        of: CaseEconomics::dollars_used,
        drawn: |of| of.dollars,
    },
    Figure {
        title: "energy",
        line: "energy",
        axis: "energy of a",
        unit: "J",
        front: "front: none is both thriftier and quicker",
        of_step: true,
        of: CaseEconomics::joules,
        drawn: |of| of.joules,
    },
];

/// Every measure against each of them.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    let of = |&measure: &Measure| {
        let chart = move |figure: &Figure| {
            let name = format!("{}-vs-{}", measure.file(), figure.line);
            Some((name, against(figure, record, measure, made)?))
        };
        FIGURES.iter().filter_map(chart).collect::<Charts>()
    };
    Measure::of(record).iter().flat_map(of).collect()
}

/// A measure against one of them; `version` is tiersim's own.
pub(crate) fn against<'a>(
    figure: &Figure,
    record: &RunRecord,
    measure: Measure,
    made: impl Into<Made<'a>>,
) -> Option<Chart> {
    let made = made.into();
    let points = Points::of(record, measure);
    let (unit, ps) = of_times(points.done.iter().map(|p| p.step).max().unwrap_or(0) as f64);
    let mut xy = XyChart { looks: points.series.clone(), ..XyChart::default() };
    let (mut paying, mut bounds, mut places) = (Vec::new(), Vec::new(), BTreeMap::new());
    for point in &points.done {
        let case = &record.results[point.case];
        let steps = if figure.of_step { measure.parts(record.of(case)) } else { 1 } as f64;
        let place = ((figure.of)(&case.economics)? / steps, point.step as f64 / ps);
        if !point.emulated {
            paying.push(place);
            bounds.push((place.0, own_bound(record, measure, point) as f64 / ps));
        }
        let at = *places.entry(point.series).or_insert(xy.series.len());
        if at == xy.series.len() {
            let label = points.series[point.series].clone();
            xy.series.push(Series { label, marks: Marks::Points, points: Vec::new() });
        }
        xy.series[at].points.push(place);
        if points.done.len() <= MOST_JOINED {
            bars(&mut xy, (figure, record, point), place, (steps, ps));
        }
    }
    let first = xy.series.first()?.points[0].0;
    if xy.series.iter().flat_map(|series| &series.points).all(|place| place.0 == first) {
        return None;
    }
    let mut refer = |kind, label: &str, points: Vec<(f64, f64)>| {
        xy.references.push(Reference { label: label.to_owned(), kind, points });
    };
    let front = front(paying);
    if front.len() > 1 {
        refer(ReferenceKind::Front, figure.front, front);
    }
    // A curve by memory has no place here.
    let (held, what) = bound(record, measure);
    let label = format!("{what}: no policy is faster");
    match held {
        HeldAgainst::Same(bound) => {
            let label = label + apart(record);
            refer(ReferenceKind::Limit, &label, vec![(first, bound as f64 / ps)]);
        }
        HeldAgainst::Own => refer(ReferenceKind::Limits, &label, bounds),
        HeldAgainst::Nowhere => {}
    }
    let held = xy.references.iter().flat_map(|reference| &reference.points);
    let shown = xy.series.iter().flat_map(|series| &series.points).chain(held);
    let steps: Vec<f64> = shown.map(|place| place.1).filter(|time| *time > 0.0).collect();
    let least = steps.iter().copied().fold(f64::INFINITY, f64::min);
    let log = steps.iter().copied().fold(0.0, f64::max) > MOST_LINEAR * least;
    xy.title = format!("{}: {} against {}", clean(&record.scenario), measure.title(), figure.title);
    xy.notes = notes(record, made.version, figure, points.oom.len());
    let axis = match figure.of_step {
        true => format!("{} {}", figure.axis, measure.part()),
        false => figure.axis.to_owned(),
    };
    xy.x = Axis::linear(&axis, figure.unit);
    xy.y = Axis { log, ..Axis::linear(measure.words(), unit) };
    Some(xy.styled(made.style))
}

/// Where a point is in draws: of its time, and of its figure where that differs.
fn bars(
    xy: &mut XyChart,
    (figure, record, point): (&Figure, &RunRecord, &Point),
    at: (f64, f64),
    (steps, ps): (f64, f64),
) {
    let (Some(of), Some(reach)) = (&record.uncertainty, point.reach) else { return };
    let label = &xy.looks[point.series];
    let [low, high] = reach.step.map(|end| end as f64 / ps);
    let mut bars = vec![(label.clone(), [(at.0, low), (at.0, high)])];
    let band = of.band(point.case, |of| Some((figure.drawn)(of)? / steps));
    if let Some(Band { p5, p95, .. }) = band.filter(|band| band.p95 > band.p5) {
        bars.push((label.clone(), [(p5, at.1), (p95, at.1)]));
    }
    xy.bars.extend(bars);
    xy.bars_are = "5th to 95th percentile of draws".to_owned();
}

/// Points that no other beats on both axes, from left to right.
pub(crate) fn front(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if front.last().is_none_or(|last| point.1 < last.1) {
            front.push(point);
        }
    }
    front
}

fn notes(record: &RunRecord, version: &str, figure: &Figure, oom: usize) -> Vec<String> {
    let lines = economics_lines(record);
    let basis = lines.iter().find(|(name, _)| *name == figure.line);
    let basis = basis.map_or_else(String::new, |(name, text)| format!("{name} {text}"));
    let mut whence =
        format!("hardware {} · {basis}", clean(&each(record, |on| on.hardware.to_string())));
    if oom > 0 {
        let cases = count(oom, "case", "cases");
        whence = format!("{cases} not shown: out of memory · {whence}");
    }
    let print = short_fingerprint(&record.fingerprint);
    let note = statistics_note(record).map_or(String::new(), |note| format!("{note} · "));
    let run = format!(
        "{note}workload {} · {print} · tiersim {version} · seed {}",
        clean(&each(record, |on| on.workload.to_string())),
        each(record, |on| on.seed.to_string())
    );
    vec![clean(&record.about), whence, run]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::results::economics::{Contribution, Cost};

    fn priced() -> RunRecord {
        let mut record = common::training();
        for (index, case) in record.results.iter_mut().enumerate() {
            let parts = vec![Contribution {
                name: "compute.price".to_owned().into(),
                amount: index as u128 * 10,
            }];
            case.economics.used = Some(Cost { parts, ..Cost::default() }.into());
        }
        record
    }

    #[test]
    fn the_front_falls_from_left_to_right_and_nothing_beats_it() {
        let points = vec![(3.0, 1.0), (1.0, 5.0), (2.0, 5.0), (2.0, 3.0), (4.0, 1.0), (5.0, 0.5)];
        assert_eq!(front(points), [(1.0, 5.0), (2.0, 3.0), (3.0, 1.0), (5.0, 0.5)]);
        assert_eq!(front(Vec::new()), []);
    }

    #[test]
    fn half_a_chart_is_no_chart() {
        let cost = |record: &RunRecord| against(&FIGURES[0], record, Measure::Step, "0");
        let energy = |record: &RunRecord| against(&FIGURES[1], record, Measure::Step, "0");
        assert!(cost(&priced()).is_some());
        assert!(energy(&priced()).is_none(), "no energies");
        let mut one_missing = priced();
        let used = one_missing.results[3].economics.used.as_mut();
        used.expect("it is priced").basis.missing.push("host.price".into());
        assert!(cost(&one_missing).is_none());
        let mut equal = priced();
        let used = equal.results.iter_mut().filter_map(|case| case.economics.used.as_mut());
        used.for_each(|cost| cost.parts[0].amount = 7);
        assert!(cost(&equal).is_none());
    }
}
