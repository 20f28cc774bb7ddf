//! Runs whose results show every key and column that there is.

use super::root;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_models::results::RunRecord;
use tiersim_sim::run::{Options, run};
use tiersim_sim::sweep::run_sweep;

/// A run with a case that fits and one that does not, a sweep with a point that is skipped, and
/// requests that are served.
pub(crate) fn records() -> [RunRecord; 3] {
    let path = root().join("scenarios/gpt2-out-of-memory.ron");
    let buckets = "[(tier: \"hbm\", model: buckets())]";
    let pressure = ("policies.2.pressure".to_owned(), "(tier: \"hbm\")".to_owned());
    let hints = "Hints(file: \"hints/gpt2-adam-30.json\")";
    let hints = ("policies.1.policy".to_owned(), hints.to_owned());
    let overrides = [("allocators".to_owned(), buckets.to_owned()), pressure, hints];
    let scenario = read_scenario(&path, &overrides).expect("the scenario reads");
    let traces = read_traces([&scenario]).expect("the trace reads");
    let workload = traces.of(&scenario);
    let print = String::from("sha256:0");
    let once = run(&scenario, workload, print.clone(), Options::default(), || ());
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
    let swept = run_sweep(&sweep, &traces, print.clone(), Options::default(), || ());
    let path = root().join("scenarios/kv-tiering-requests.ron");
    let served = read_scenario(&path, &[set("workload.mode.first", "3")]).expect("it reads");
    let traces = read_traces([&served]).expect("the requests read");
    let served = run(&served, traces.of(&served), print, Options::default(), || ());
    let [once, swept, served] = [once, swept, served].map(|run| run.expect("it runs"));
    [once, swept, served]
}
