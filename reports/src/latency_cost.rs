//! Latency against what it takes: the price of the memory and the machine that a case uses, and the
//! energy of a step.
//!
//! The charts of a design review: which case is the quickest for its money, or for its energy. A
//! case is charged for what it uses, which is the device, the host, and of each tier the most bytes
//! that it ever holds: budgets that a policy leaves empty are no cost of that policy.
//! Energy and price are one device's. Against tokens, which are all devices' work, and among cases
//! of several numbers of devices they are those of all of a case's devices, and the axis says so.
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
use tiersim_models::results::economics::CaseEconomics;
use tiersim_models::results::uncertainty::{Band, DrawnCase};
use tiersim_models::results::{CaseRecord, Conditions, RunRecord};
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
        axis: "energy of a ",
        unit: "J",
        front: "front: none is both thriftier and quicker",
        of_step: true,
        of: CaseEconomics::joules,
        drawn: |of| of.joules,
    },
];

impl Figure {
    /// That of a case.
    fn of(&self, record: &RunRecord, measure: Measure, case: &CaseRecord) -> Option<f64> {
        let one = (self.of)(&case.economics)?;
        Some(self.scaled(record, measure, record.of(case), one))
    }

    /// What one device takes or costs, as the axis has it.
    fn scaled(&self, record: &RunRecord, measure: Measure, on: &Conditions, one: f64) -> f64 {
        let amount = if self.is_of_all(record, measure) { on.of_all(one) } else { one };
        if self.of_step { amount / measure.parts(on) as f64 } else { amount }
    }

    /// Whether it is one of all devices of a case.
    fn is_of_all(&self, record: &RunRecord, measure: Measure) -> bool {
        let per_token = self.of_step && measure == Measure::Token;
        per_token || record.common(|on| on.devices).is_none()
    }

    /// The name of the axis, which says of how many devices it is where there are several.
    fn axis(&self, record: &RunRecord, measure: Measure) -> String {
        let part = if self.of_step { measure.part() } else { "" };
        let whose = match record.common(|on| on.devices.max(1)) {
            Some(1) => String::new(),
            Some(all) if self.is_of_all(record, measure) => format!(", all {all} devices"),
            Some(all) => format!(", one device of {all}"),
            None => ", all devices of a case".to_owned(),
        };
        format!("{}{part}{whose}", self.axis)
    }
}

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
        let place = (figure.of(record, measure, case)?, point.step as f64 / ps);
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
            bars(&mut xy, (figure, record, measure), point, place, ps);
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
    xy.x = Axis::linear(&figure.axis(record, measure), figure.unit);
    xy.y = Axis { log, ..Axis::linear(measure.words(), unit) };
    Some(xy.styled(made.style))
}

/// Where a point is in draws: of its time, and of its figure where that differs.
fn bars(
    xy: &mut XyChart,
    (figure, record, measure): (&Figure, &RunRecord, Measure),
    point: &Point,
    at: (f64, f64),
    ps: f64,
) {
    let (Some(of), Some(reach)) = (&record.uncertainty, point.reach) else { return };
    let label = &xy.looks[point.series];
    let [low, high] = reach.step.map(|end| end as f64 / ps);
    let mut bars = vec![(label.clone(), [(at.0, low), (at.0, high)])];
    let on = record.of(&record.results[point.case]);
    let band =
        of.band(point.case, |of| Some(figure.scaled(record, measure, on, (figure.drawn)(of)?)));
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
    use tiersim_models::results::economics::{Contribution, Cost, Energy};
    use tiersim_models::results::metrics::{LIFETIME_S, metric};

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

    /// Energies, prices and devices of two cases that do the same for each token.
    fn of_devices(devices: [u64; 2], tokens: [u64; 2]) -> RunRecord {
        let mut record = common::training();
        record.results.truncate(2);
        let base = record.base().clone();
        for (at, (devices, tokens)) in devices.into_iter().zip(tokens).enumerate() {
            let on = Conditions { devices, tokens_per_step: tokens, ..base.clone() };
            let index = record.conditions.len();
            record.conditions.push(on);
            let case = &mut record.results[at];
            case.conditions = index;
            let amount = 3_000_000_000_000_000_000 + at as u128;
            let part = |amount| vec![Contribution { name: "x".to_owned().into(), amount }];
            let energy = Energy { parts: part(amount), steps: 1, ..Energy::default() };
            case.economics.energy = Some(energy);
            case.economics.cost = Cost { parts: part(amount), ..Cost::default() }.into();
            case.economics.used = Some(Cost { parts: part(amount), ..Cost::default() }.into());
        }
        record
    }

    #[test]
    fn against_tokens_and_among_numbers_of_devices_all_of_them_count() {
        let [cost, energy] = &FIGURES;
        let (step, token) = (Measure::Step, Measure::Token);
        let of = |figure: &Figure, record: &RunRecord, measure, case: usize| {
            figure.of(record, measure, &record.results[case]).expect("it has one")
        };
        let near =
            |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found}");
        // Four devices take four times the joules of one for the tokens of all four.
        let several = of_devices([1, 4], [8192, 32_768]);
        near(of(energy, &several, token, 0), 3.0 / 8192.0);
        near(of(energy, &several, token, 1), 4.0 * 3.0 / 32_768.0);
        near(of(cost, &several, token, 1), 4.0 * 3e9);
        near(of(energy, &several, step, 1), 12.0);
        let case = &several.results[1];
        let work = several.tokens_per_s(case).expect("it has tokens") * LIFETIME_S;
        near(metric(&several, case, "tokens_per_usd").expect("it is priced"), work / (4.0 * 3e9));
        assert_eq!(energy.axis(&several, token), "energy of a token, all devices of a case");
        // Of cases of as many devices one stands for all, but for a token.
        let alike = of_devices([4, 4], [8192, 32_768]);
        near(of(cost, &alike, token, 1), 3e9);
        near(of(energy, &alike, step, 1), 3.0);
        near(of(energy, &alike, token, 1), 4.0 * 3.0 / 32_768.0);
        assert_eq!(energy.axis(&alike, step), "energy of a step, one device of 4");
        assert_eq!(energy.axis(&alike, token), "energy of a token, all 4 devices");
        assert_eq!(energy.axis(&of_devices([1, 1], [1, 2]), token), "energy of a token");
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
