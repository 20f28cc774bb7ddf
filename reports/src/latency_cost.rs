//! Latency against what it takes: the machine's price, and the energy of a step.
//!
//! The charts of a design review: which case is the quickest for its money, or for its energy.
//! Cases that ran out of memory have no step and are counted in a note; emulated cases are
//! series of their own and never on the front.
//! Invariant: a chart is made only if every case that ran has its figure, and figures differ: half
//! a chart would look like a whole one, and one column of points shows nothing.

use crate::economics_summary::economics_lines;
use crate::points::Points;
use crate::render::Chart;
use crate::words::{clean, count, short_fingerprint};
use crate::xy::{Axis, Marks, Series, XyChart};
use tiersim_sim::energy::CaseEconomics;
use tiersim_sim::record::RunRecord;

/// Steps that differ by more are drawn on a logarithmic axis.
const MOST_LINEAR: f64 = 20.0;

/// What the horizontal axis shows.
struct Figure {
    title: &'static str,
    /// The line of the header that says what it rests on.
    line: &'static str,
    axis: &'static str,
    unit: &'static str,
    front: &'static str,
    of: fn(&CaseEconomics) -> Option<f64>,
}

/// Mean step against the price of the machine; `version` is tiersim's own.
pub fn latency_vs_cost(record: &RunRecord, version: &str) -> Option<Chart> {
    let figure = Figure {
        title: "latency against the price of the machine",
        line: "cost",
        axis: "price of the machine as the case has it",
        unit: "USD",
        front: "front: none is both cheaper and quicker",
        of: CaseEconomics::dollars,
    };
    chart(record, version, &figure)
}

/// Mean step against its energy; `version` is tiersim's own.
pub fn latency_vs_energy(record: &RunRecord, version: &str) -> Option<Chart> {
    let figure = Figure {
        title: "latency against energy",
        line: "energy",
        axis: "energy of a step",
        unit: "J",
        front: "front: none is both thriftier and quicker",
        of: CaseEconomics::joules,
    };
    chart(record, version, &figure)
}

fn chart(record: &RunRecord, version: &str, figure: &Figure) -> Option<Chart> {
    let points = Points::of(record);
    let mut series: Vec<Series> = Vec::new();
    let mut paying = Vec::new();
    for point in &points.done {
        let place = ((figure.of)(&record.results[point.case].economics)?, point.step as f64 / 1e9);
        let name = &points.series[point.series];
        let emulated = point.emulated && !name.contains("emulated");
        let label = if emulated { format!("{name} (emulated)") } else { name.clone() };
        if !point.emulated {
            paying.push(place);
        }
        match series.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.push(place),
            None => series.push(Series { label, marks: Marks::Points, points: vec![place] }),
        }
    }
    let all = || series.iter().flat_map(|series| &series.points);
    let first = all().next()?.0;
    if all().all(|place| place.0 == first) {
        return None;
    }
    let front = front(paying);
    if front.len() > 1 {
        let label = figure.front.to_owned();
        series.insert(0, Series { label, marks: Marks::Line, points: front });
    }
    let places = || series.iter().flat_map(|series| &series.points);
    let [left, right] = [f64::min, f64::max].map(|most| places().map(|p| p.0).fold(first, most));
    // No memory makes a case quicker than this, so it holds for all of them, whatever they cost.
    let bound = record.bound.as_ms();
    if bound > 0.0 {
        let (label, points) = ("bound: no policy is faster".to_owned(), [left, right]);
        let points = points.map(|x| (x, bound)).to_vec();
        series.insert(0, Series { label, marks: Marks::Line, points });
    }
    let steps = || series.iter().flat_map(|series| &series.points).map(|place| place.1);
    let log = steps().fold(0.0, f64::max) > MOST_LINEAR * steps().fold(f64::INFINITY, f64::min);
    let axis = |label: &str, unit: &str, log| Axis { label: label.into(), unit: unit.into(), log };
    let xy = XyChart {
        title: format!("{}: {}", clean(&record.scenario), figure.title),
        notes: notes(record, version, figure, points.oom.len()),
        x: axis(figure.axis, figure.unit, false),
        y: axis("mean step", "ms", log),
        series,
        bands: Vec::new(),
        diagonal: false,
    };
    Some(xy.chart())
}

/// Points that no other beats on both axes, from left to right.
fn front(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
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
    let mut whence = format!("hardware {} · {basis}", clean(&record.hardware));
    if oom > 0 {
        let cases = count(oom, "case", "cases");
        whence = format!("{cases} not shown: out of memory · {whence}");
    }
    let print = short_fingerprint(&record.fingerprint);
    let run = format!(
        "workload {} · {print} · tiersim {version} · seed {}",
        clean(&record.workload),
        record.seed
    );
    vec![clean(&record.about), whence, run]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_sim::energy::{Cost, Part};

    fn priced() -> RunRecord {
        let mut record = common::training();
        for (index, case) in record.results.iter_mut().enumerate() {
            let parts = vec![Part { name: "compute.price".into(), amount: index as u128 * 10 }];
            case.economics.cost = Cost { parts, ..Cost::default() };
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
        assert!(latency_vs_cost(&priced(), "0").is_some());
        assert!(latency_vs_energy(&priced(), "0").is_none(), "no energies");
        let mut one_missing = priced();
        one_missing.results[3].economics.cost.basis.missing.push("host.price".into());
        assert!(latency_vs_cost(&one_missing, "0").is_none());
        let mut equal = priced();
        equal.results.iter_mut().for_each(|case| case.economics.cost.parts[0].amount = 7);
        assert!(latency_vs_cost(&equal, "0").is_none());
    }
}
