//! A chart of somebody else's: what a step takes against the bytes that it moves. It touches this
//! file and the line that names it, as `examples/newest-out` does for a policy.

use tiersim_reports::{Axis, Chart, Marks, Series, XyChart};
use tiersim_tests::files::{record, shipped_scenario};
use tiersim_tests::prelude::*;

/// One point for each case that fits, one series for each policy.
fn step_against_moved(record: &RunRecord) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for case in &record.results {
        let Some(figures) = case.outcome.figures() else { continue };
        let moved: u64 = figures.moved.iter().map(|bytes| bytes.get()).sum();
        let gib = moved as f64 / figures.steps.len() as f64 / f64::from(1u32 << 30);
        let point = (gib, figures.mean_step().as_ms());
        match series.iter_mut().find(|one| one.label == case.policy) {
            Some(own) => own.points.push(point),
            None => series.push(Series {
                label: case.policy.clone(),
                marks: Marks::Points,
                points: vec![point],
            }),
        }
    }
    let axis = Axis::linear;
    let chart = XyChart {
        title: format!("{}: time against traffic", record.scenario),
        notes: vec![record.about.clone()],
        x: axis("moved per step", "GiB"),
        y: axis("mean step time", "ms"),
        series,
        ..XyChart::default()
    };
    chart.chart()
}

#[test]
fn a_chart_of_a_run_is_one_function_of_its_record() {
    let record = record(&shipped_scenario("gpt2-lru-budgets", &[]), Options::default());
    let chart = step_against_moved(&record);
    let svg = chart.svg().expect("it is drawn");
    for shown in
        ["time against traffic", "moved per step (GiB)", "mean step time (ms)", "gpt2-lru-budgets"]
    {
        assert!(svg.contains(shown), "{shown}: {svg}");
    }
    assert!(chart.png().expect("it is drawn").starts_with(b"\x89PNG"));
    let (own, _) = include_str!("own_chart.rs").split_once("#[test]").expect("a test");
    assert!(own.lines().count() <= 60, "a chart of 60 lines");
}
