//! Explanations: the path of a step is the step, and what was planted is what is named first.
//!
//! Bottlenecks are planted as a user would have them: a scenario of the field on a machine with one
//! bad number. What is said first of each must be that.

use tiersim_models::results::explain::{Cause, Explanation};
use tiersim_models::results::{PathPart, Settled, Split};
use tiersim_reports::sentences;
use tiersim_sim::explain::{chosen, explained};
use tiersim_sim::run::RunError;
use tiersim_tests::files;
use tiersim_tests::prelude::*;

/// Explains a case of a scenario.
fn explain(scenario: &Scenario, case: Option<&str>) -> Result<Explanation, RunError> {
    let traces = files::traces(scenario);
    let case = chosen(scenario, case).map_err(RunError::Input)?;
    explained(scenario, traces.of(scenario), String::new(), case, Options::default())
}

/// The sums of a path are its segments, and both are the split of the steps that a run measured.
fn assert_is_the_step(of: &Explanation) {
    let (label, figures) = (&of.case().label, of.case().outcome.figures().expect("it ran"));
    let path = &of.path;
    let mut sums = Split::new(figures.split.parts());
    for sum in &path.sums {
        sums.spans_mut()[figures.split.parts().index(sum.part)] += sum.span;
    }
    assert_eq!(sums.total(), path.span, "{label}");
    let causes: Span = path.causes().iter().map(|found| found.span).sum();
    assert_eq!(causes, path.span, "{label}");
    let measured = figures.steps.len() as u64 / path.steps;
    // Replays that are alike to the picosecond are so many times this one.
    if figures.steady.settled == Settled::Same || measured == 1 {
        let times = |span: &Span| Span::from_ps(span.ps() * measured);
        let all: Vec<Span> = sums.spans().iter().map(times).collect();
        assert_eq!(all, figures.split.spans(), "{label}");
    }
    // The segments of the last step have no gap, and are that step.
    let last = path.segments.last().expect("a step has a path").step;
    let own: Vec<_> = path.segments.iter().filter(|segment| segment.step == last).collect();
    for pair in own.windows(2) {
        assert_eq!(pair[0].start + pair[0].span, pair[1].start, "{label}");
    }
    let span: Span = own.iter().map(|segment| segment.span).sum();
    let step = figures.steps.iter().last().expect("a step was measured");
    assert_eq!(span, step, "{label}");
    // The gap adds up, and what overlaps is busy.
    let bound = i128::from(of.gap.bound.ps());
    assert_eq!(of.gap.total(), i128::from(path.span.ps()) - bound, "{label}");
    let crosses = of.gap.by.starts_with("bytes");
    let copies = |part: &PathPart| matches!(part, PathPart::Copy(_));
    assert!(!of.gap.paying.is_empty() && of.gap.paying.iter().all(|p| copies(p) == crosses));
    for lane in &path.lanes {
        assert!(lane.overlapped <= lane.busy && lane.busy <= path.span, "{label}: {lane:?}");
    }
}

#[test]
fn the_path_of_shipped_scenarios_is_their_split() {
    for (name, case) in [
        ("gpt2-adam-tiering", "Adam 30 %"),
        ("gpt2-adam-tiering", "Adam 30/50/20 with NVMe"),
        ("gpt2-adam-tiering", "Adam 30/50/20, emulated"),
        ("gpt2-adam-tiering", "LRU 50 %"),
        ("activation-offload", ""),
        ("allocators-varying-sequence", "buckets, compacted"),
        ("gpt2-shared-pcie", ""),
        ("llama-2-7b-zero-2", "offloaded"),
        ("llama-3-70b-serve-8", "LRU to DRAM, 22 GiB"),
        ("mixtral-expert-offload", ""),
        ("numa-wrong-node", ""),
        ("opt-30b-t4", "the same, nothing ahead"),
        ("semiseparable-t4-few", ""),
    ] {
        let scenario = files::shipped_scenario(name, &[]);
        let case = Some(case).filter(|case| !case.is_empty());
        let of = explain(&scenario, case).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_is_the_step(&of);
        assert!(!sentences(&of).is_empty(), "{name}");
    }
}

#[test]
fn a_case_is_what_a_run_of_all_says_of_it() {
    let scenario = files::shipped_scenario("gpt2-adam-tiering", &[]);
    let of = explain(&scenario, Some("Adam 30 %")).expect("it runs");
    let all = files::record(&scenario, Options::default());
    let own = all.results.iter().find(|case| case.label == "Adam 30 %").expect("it is there");
    let (ours, theirs) = (of.case().outcome.figures(), own.outcome.figures());
    assert_eq!(ours.map(|f| (&f.steps, &f.split)), theirs.map(|f| (&f.steps, &f.split)));
    assert_eq!(of.case().bound_step, own.bound_step);
}

/// What was planted: a scenario that ships, values of it, a case; and the cause and the words that
/// must come first.
struct Planted {
    what: &'static str,
    scenario: &'static str,
    set: &'static [(&'static str, &'static str)],
    case: &'static str,
    cause: fn(&Cause, &Explanation) -> bool,
    words: &'static [&'static str],
}

/// Whether a cause is the channel of this name.
fn channel(cause: &Cause, of: &Explanation, name: &str) -> bool {
    matches!(cause, Cause::Channel(channel) if of.on().channels[*channel].ends == name)
}

const GPT2: &str = "gpt2-adam-tiering";
/// The scenario of a user: one module's weights in memory of the host, fetched when needed.
const HOT: &str = r#"Scenario(
    schema: 2,
    about: "what does it cost to keep the embedding in DRAM?",
    hardware: "h100-sxm-pcie5",
    workload: Trace(path: "traces/gpt2-train-cpu", time: roofline(precision: "tf32")),
    policies: [
        (
            name: "wte in DRAM",
            policy: Hints(file: "hot.json", access: migrate(prefetch_ops: 0)),
        ),
    ],
)
"#;
const SLOW_ALLOCATOR: &str = "[(tier: \"hbm\", model: caching(costs: (hit: us(500), \
    split: us(0), take: us(335), give: us(1389))))]";
const PLANTED: [Planted; 10] = [
    Planted {
        what: "a slow link",
        scenario: GPT2,
        set: &[("hardware.links.pcie.read", "gb_per_s(2)")],
        case: "LRU 70 %",
        cause: |cause, of| channel(cause, of, "dram->hbm"),
        words: &["Copies dram->hbm", "of the step"],
    },
    Planted {
        what: "a small buffer between two links",
        scenario: GPT2,
        set: &[("hardware.chunk", "kib(64)")],
        case: "Adam 30/50/20 with NVMe",
        cause: |cause, of| channel(cause, of, "nvme->dram"),
        words: &["Copies nvme->dram, most of it set-ups,"],
    },
    Planted {
        what: "one hot tensor",
        scenario: HOT,
        set: &[("hardware.links.pcie.read", "gb_per_s(20)")],
        case: "wte in DRAM",
        cause: |cause, of| channel(cause, of, "dram->hbm"),
        words: &["Copies dram->hbm", "the most by transformer.wte.weight"],
    },
    Planted {
        what: "slow processors of the host",
        scenario: "llama-2-13b-cpu-or-nvme",
        set: &[("hardware.cpu.memory", "gb_per_s(4)")],
        case: "CPU",
        cause: |cause, _| *cause == Cause::Cpu,
        words: &["Ops on the CPU"],
    },
    Planted {
        what: "a saturated drive",
        scenario: "llama-2-13b-cpu-or-nvme",
        set: &[("hardware.links.nvme-bus.read", "gb_per_s(1)")],
        case: "NVMe",
        cause: |cause, of| channel(cause, of, "nvme->dram"),
        words: &["Copies nvme->dram"],
    },
    Planted {
        what: "collectives one after the other over a slow fabric",
        scenario: "llama-2-7b-zero-2",
        set: &[
            ("hardware.links.nvlink.read", "gb_per_s(1)"),
            ("hardware.links.nvlink.write", "gb_per_s(1)"),
        ],
        case: "all in HBM",
        cause: |cause, _| *cause == Cause::Collective,
        words: &["Collectives"],
    },
    Planted {
        what: "nothing but computing",
        scenario: GPT2,
        set: &[("workload.time.precision", "fp32")],
        case: "all in HBM",
        cause: |cause, _| *cause == Cause::Compute,
        words: &["Computing is", "aten.mm.default"],
    },
    Planted {
        what: "set-ups of many small copies",
        scenario: GPT2,
        set: &[("hardware.links.pcie.setup", "ms(1)")],
        case: "LRU 50 %",
        cause: |cause, of| channel(cause, of, "hbm->dram") || channel(cause, of, "dram->hbm"),
        words: &["most of it set-ups,", "in line behind other copies"],
    },
    Planted {
        what: "an allocator that waits for the driver",
        scenario: "allocators-varying-sequence",
        set: &[("policies.PyTorch.allocators", SLOW_ALLOCATOR)],
        case: "PyTorch",
        cause: |cause, _| *cause == Cause::Allocator,
        words: &["Waiting for allocators"],
    },
    Planted {
        what: "a framework's thread",
        scenario: GPT2,
        set: &[(
            "policies.Adam 80 %.runtime",
            "(per_op: us(80), per_object: us(200), source: \"a slow framework\")",
        )],
        case: "Adam 80 %",
        cause: |cause, _| *cause == Cause::Framework,
        words: &["The framework's own work"],
    },
];

/// Where that scenario is.
fn hot() -> PathBuf {
    let project = files::own_project(env!("CARGO_TARGET_TMPDIR"), "explain-hot");
    let (file, hints) = (project.join("scenarios/hot.ron"), project.join("scenarios/hot.json"));
    fs::write(&file, HOT).expect("a scenario is written");
    fs::write(hints, "{\"transformer.wte\": \"CPU\"}\n").expect("hints are written");
    file
}

#[test]
fn what_is_planted_is_named_first_ten_times_of_ten() {
    let mut wrong = Vec::new();
    for planted in &PLANTED {
        let scenario = match planted.scenario {
            HOT => files::scenario(&hot(), planted.set),
            shipped => files::shipped_scenario(shipped, planted.set),
        };
        let of = explain(&scenario, Some(planted.case));
        let of = of.unwrap_or_else(|error| panic!("{}: {error}", planted.what));
        assert_is_the_step(&of);
        let first = sentences(&of).remove(0);
        let cause = of.path.causes().remove(0).cause;
        let said = planted.words.iter().all(|words| first.contains(words));
        if !said || !(planted.cause)(&cause, &of) {
            wrong.push(format!("{}: {cause:?}: {first}", planted.what));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_cannot_be_explained_says_why() {
    let scenario = files::shipped_scenario("gpt2-out-of-memory", &[]);
    let full = scenario.cases.iter().find_map(|case| {
        explain(&scenario, Some(&case.label)).err().map(|error| error.to_string())
    });
    let full = full.expect("a case runs out of memory");
    assert!(full.contains("ran out of memory") && full.contains("--case"), "{full}");
    let unknown = explain(&scenario, Some("nothing like it")).map(|_| ());
    let unknown = unknown.expect_err("there is none").to_string();
    assert!(unknown.contains("has no case \"nothing like it\"; choose from"), "{unknown}");
}
