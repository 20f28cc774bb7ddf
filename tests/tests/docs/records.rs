//! Runs whose results show every key and column that there is.

use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_models::hardware::Source;
use tiersim_models::results::replications::Replications;
use tiersim_models::results::uncertainty::{DrawnCase, DrawnNumber, Seen, UncertaintyRecord};
use tiersim_models::results::{CaseRecord, MachineFacts};
use tiersim_sim::sweep::run_sweep;
use tiersim_tests::files::{record, root, shipped_scenario};
use tiersim_tests::prelude::*;

/// A run with a case that fits and one that does not, a sweep with a point that is skipped, and
/// requests that are served; and objects that are stored packed.
pub(crate) fn records() -> [RunRecord; 4] {
    let overrides = [
        ("allocators", "[(tier: \"hbm\", model: buckets())]"),
        ("policies.2.pressure", "(tier: \"hbm\")"),
        ("policies.1.policy", "Hints(file: \"hints/gpt2-adam-30.json\")"),
        ("workload.horizon", "1000"),
    ];
    let once = shipped_scenario("gpt2-out-of-memory", &overrides);
    let mut once = record(&once, Options::default());
    once.uncertainty = Some(drawn(&once));
    once.machines = vec![machine(&once); 2];
    let steps = once.results.iter().map(|case| {
        let step = case.outcome.figures().map(|figures| figures.mean_step());
        vec![step; 3]
    });
    let steps = steps.collect();
    once.replications = Some(Replications { share: 0.01, most: 9, count: 3, steps });
    let set = |path: &str, value: &str| (path.to_owned(), value.to_owned());
    let overrides = [
        set("sweep.axes.0.values", "list([0.3, 0.9])"),
        set("sweep.axes.1.values", "list([0.5])"),
        set("sweep.axes.2.values", "choices([(\"in place\", \"in_place(charge: every_use)\")])"),
    ];
    let path = root().join("scenarios/gpt2-threshold-sweep.ron");
    let sweep = read_sweep(&path, &overrides).expect("the sweep reads");
    let points = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(points.chain([&sweep.base])).expect("the trace reads");
    let swept = run_sweep(&sweep, &traces, String::new(), Options::default(), &());
    let served = shipped_scenario("kv-tiering-requests", &[("workload.mode.first", "3")]);
    let packed = shipped_scenario("compressed-training", &[]);
    let [served, packed] = [served, packed].map(|one| record(&one, Options::default()));
    [once, swept.expect("it runs"), served, packed]
}

/// The machine of a record as one of several.
fn machine(record: &RunRecord) -> MachineFacts {
    MachineFacts {
        machine: "m".to_owned(),
        hardware: "m".to_owned(),
        power_and_price: record.power_and_price.clone(),
        assumed: record.assumed.clone(),
        assumed_numbers: record.assumed.len(),
    }
}

/// Draws of a record that are all as the record is.
fn drawn(record: &RunRecord) -> UncertaintyRecord {
    let number = DrawnNumber {
        name: "links.pcie.read".to_owned(),
        seen: vec![Seen { machine: "m".to_owned(), path: "links.pcie.read".to_owned() }],
        written: "gb_per_s(50)".to_owned(),
        law: "uniform from 40 to 60 gb_per_s".to_owned(),
        unit: "gb_per_s".to_owned(),
        source: Source::Assumed("a guess".to_owned()),
        values: vec![45.0, 55.0],
    };
    let case = |case: &CaseRecord| {
        let of = case.outcome.figures().map(|figures| DrawnCase::of(figures, &case.economics));
        vec![of; 2]
    };
    UncertaintyRecord {
        draws: 2,
        seed: 1,
        numbers: vec![number],
        blind: Vec::new(),
        cases: record.results.iter().map(case).collect(),
    }
}
