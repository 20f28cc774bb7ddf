//! Generated workloads in scenarios: what they mean, and when two of them are the same.

use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_policies::scenario::TraceSource;
use tiersim_tests::files;
use tiersim_tests::prelude::*;
use tiersim_workloads::layered::{Family, Layered, Mode, Precision};

/// A project of this test's own with one machine, and a scenario of the workload.
fn file(test: &str, workload: &str) -> PathBuf {
    let root = files::own_project(concat!(env!("CARGO_TARGET_TMPDIR"), "/layered"), test);
    let text = format!(
        "Scenario(schema: 2, about: \"a shape\", hardware: \"host-layered\", workload: {workload}, \
         policies: [(name: \"all\", policy: AllHbm)], sweep: (axes: [\
         (name: \"layers\", path: \"workload.layers\", values: list([1, 2])), \
         (name: \"sequence\", path: \"workload.mode.sequence\", values: range(from: 8, to: 24, step: 8)), \
         ]))"
    );
    fs::write(root.join("case.ron"), text).expect("it can be written");
    root.join("case.ron")
}

const GPT2: &str = "Layered(family: gpt2, layers: 2, hidden: 64, ffn: 256, heads: 4, vocab: 100, \
    precision: bf16, batch: 2, mode: train(sequence: 16), time: roofline(precision: \"bf16\"))";

fn print(scenario: &Scenario) -> String {
    fingerprint(scenario, files::traces(scenario).hash(scenario))
}

#[test]
fn defaults_are_those_of_the_family() {
    let scenario = files::scenario(&file("defaults", GPT2), &[]);
    let gpt2 = Layered {
        family: Family::Gpt2,
        layers: 2,
        hidden: 64,
        ffn: 256,
        heads: 4,
        kv_heads: 4,
        vocab: 100,
        positions: 1024,
        tied: true,
        precision: Precision::Bf16,
        batch: 2,
        mode: Mode::Train { sequence: 16 },
    };
    assert_eq!(scenario.workload.trace, TraceSource::Layered(gpt2));
    let llama = GPT2.replace("gpt2", "llama");
    let scenario = files::scenario(&file("defaults-llama", &llama), &[]);
    let llama = Layered { family: Family::Llama, positions: 0, tied: false, ..gpt2 };
    assert_eq!(scenario.workload.trace, TraceSource::Layered(llama));
    assert_eq!((scenario.workload.repeat, scenario.workload.warmup), (3, 1));
}

#[test]
fn fingerprints_are_equal_if_and_only_if_shapes_are() {
    let path = file("fingerprints", GPT2);
    let first = print(&files::scenario(&path, &[]));
    let written_out = "tied: true, positions: 1024, kv_heads: 4, batch: 2,";
    let same = file("fingerprints-same", &GPT2.replace("batch: 2,", written_out));
    assert_eq!(print(&files::scenario(&same, &[])), first);
    let mut seen = BTreeSet::from([first]);
    for (at, value) in [
        ("workload.family", "llama"),
        ("workload.layers", "3"),
        ("workload.hidden", "128"),
        ("workload.ffn", "128"),
        ("workload.heads", "2"),
        ("workload.kv_heads", "2"),
        ("workload.vocab", "101"),
        ("workload.positions", "16"),
        ("workload.tied", "false"),
        ("workload.precision", "fp32"),
        ("workload.precision", "fp16"),
        ("workload.batch", "3"),
        ("workload.mode.sequence", "15"),
        ("workload.mode", "decode(context: 16, tokens: 1)"),
        ("workload.mode", "decode(context: 16, tokens: 2)"),
        ("workload.mode", "decode(context: 15, tokens: 1)"),
    ] {
        let scenario = files::scenario(&path, &[(at, value)]);
        assert!(seen.insert(print(&scenario)), "{at}={value} makes no difference");
    }
}

#[test]
fn a_sweep_turns_over_shapes() {
    let sweep = read_sweep(&file("sweep", GPT2), &[]).unwrap_or_else(|found| panic!("{found}"));
    let shapes: Vec<(u32, Mode)> = sweep
        .points
        .iter()
        .map(|point| match point.scenario.workload.trace {
            TraceSource::Layered(shape) => (shape.layers, shape.mode),
            _ => panic!("the workload is one generated step"),
        })
        .collect();
    let train = |sequence| Mode::Train { sequence };
    let of = |layers| [8, 16, 24].map(|sequence| (layers, train(sequence)));
    assert_eq!(shapes, [of(1), of(2)].concat());
    let points = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(points).expect("they are made");
    let ops = |index: usize| traces.of(&sweep.points[index].scenario).trace.ops.len();
    // Eight ops forward, eight backward and six of Adam per layer.
    assert_eq!(ops(3) - ops(0), 22);
}
