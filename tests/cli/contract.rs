//! What the command promises to people and to programs: exit codes, what is on which stream, which
//! files there are, and every key of `summary.json`.

use crate::common::*;
use crate::{answers, goldens};
use std::io::Read;

/// Keys of the contract: of the summary, and of each of its results.
const TOP: [&str; 9] = [
    "schema",
    "tiersim",
    "scenario",
    "fingerprint",
    "hardware",
    "workload",
    "seed",
    "assumed_numbers",
    "results",
];
const RESULT: [&str; 16] = [
    "policy",
    "params",
    "step_ms",
    "throughput",
    "baseline_step_ms",
    "slowdown",
    "bound_step_ms",
    "peak_bytes",
    "moved_bytes",
    "stall_ms",
    "busy_fraction",
    "hit_ratio",
    "oom",
    "energy_j",
    "cost_usd",
    "events",
];

/// The summary that a run prints.
#[track_caller]
fn summary(project: &Project, more: &[&str]) -> Value {
    let mut args = vec!["run", CASE, "--out", "json", "--format", "json"];
    args.extend(more);
    project.run(&args).ends_with(0).json()
}

/// The mean step of a case in milliseconds.
fn mean_step(summary: &Value, case: usize) -> f64 {
    summary["results"][case]["step_ms"]["mean"].as_f64().unwrap()
}

/// What is on stderr besides what the lint has to say.
fn unasked(stderr: &str) -> Vec<&str> {
    let lint = |line: &&str| line.starts_with("warning: ") || line.starts_with("note: ");
    stderr.lines().filter(|line| !lint(line)).collect()
}

/// Fails unless nothing but plain text was printed and nothing that only a terminal wants.
#[track_caller]
fn plain(ran: &Ran) {
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\r'), "{:?}", ran.stdout);
    let unasked = unasked(&ran.stderr);
    assert!(unasked.is_empty(), "a progress bar, or something else: {unasked:?}");
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\r'), "{:?}", ran.stderr);
}

#[test]
fn the_shipped_scenarios_run_and_write_their_files() {
    let project = Project::shipped();
    let scenarios = project.files("scenarios");
    assert!(!scenarios.is_empty());
    // Weights lie beside the scenarios that name them.
    let run = |name: &&String| name.ends_with(".ron") && !name.starts_with("learned/");
    let mut moved = Vec::new();
    for scenario in scenarios.keys().filter(run) {
        let path = format!("scenarios/{scenario}");
        let ran = project.run(&["run", &path, "--report"]).ends_with(0);
        plain(&ran);
        let name = scenario.trim_end_matches(".ron").rsplit('/').next().unwrap();
        let folder = format!("out/{name}");
        let files = project.files(&folder);
        let named = ran.stdout.trim_end().rsplit(": ").next().unwrap();
        let named: Vec<&str> = named.split([',', '\n', ' ']).filter(|s| !s.is_empty()).collect();
        for name in named.iter().chain(&["summary.json", "results.csv"]) {
            assert!(files.get(*name).is_some_and(|bytes| !bytes.is_empty()), "{folder}/{name}");
        }
        // Also of a run of one step; several machines have no timeline in common.
        let machines = project.text(&path).contains("hardware: [");
        let timeline = files.get("timeline.json").map(|bytes| String::from_utf8_lossy(bytes));
        let happens = |timeline: &str| timeline.contains("\"ph\":\"X\"");
        assert_eq!(timeline.is_some_and(|of| happens(&of)), !machines, "{folder}/timeline.json");
        assert_eq!(files.len(), named.len(), "nothing is left over in {folder}: {named:?}");
        for chart in ["latency-vs-memory.svg", "latency-vs-memory.png"] {
            assert!(files.contains_key(chart), "{folder}/{chart}");
        }
        let page = files["report.html"].len();
        assert!(page < 2_000_000, "{folder}/report.html has {page} bytes");
        moved.extend(goldens::differences("run", scenario, &files["summary.json"]));
        moved.extend(answers::differences("run", scenario, &files));
    }
    assert!(moved.is_empty(), "{}", moved.join("\n"));
}

#[test]
fn an_expectation_that_fails_ends_with_1_and_says_which() {
    let project = Project::new();
    let wrong = "expect=[faster(case: \"lru\", than: \"all\")]";
    let ran = project.run(&["run", CASE, "--set", wrong]).ends_with(1);
    let pieces = ["1 expectation(s) do not hold", "case: \"lru\" takes", "not less than \"all\""];
    ran.says(&pieces);
    // The figures are what somebody needs now, so they are there.
    assert!(project.path("out/case/summary.json").is_file());
    let missed = "expect=[out_of_memory(\"all\"), slowdown(case: \"lru\", at_most: 1.0)]";
    let ran = project.run(&["run", CASE, "--set", missed, "-q"]).ends_with(1);
    let ran = ran.says(&["2 expectation(s)", "was to run out of memory", "slowdown is", "above 1"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn running_out_of_memory_unexpectedly_ends_with_1_and_the_reason() {
    let project = Project::new();
    let small = "policies.0.hbm=mib(40)";
    project.edit_scenario("policy: AllHbm)", "policy: AllHbm, hbm: mib(48))");
    project.edit_scenario("fits(\"all\"), faster(case: \"all\", than: \"lru\")", "");
    let ran = project.run(&["run", CASE, "--set", small, "--out", "o"]).ends_with(1);
    ran.says(&[
        "\"all\" ran out of memory in hbm",
        "4.0 MiB needed for c.grad",
        "2.0 MiB free of 40.0 MiB",
        "step 0, op",
        "tiersim memory --fit",
    ]);
    let json = project.json("o/summary.json");
    let result = &json["results"][0];
    assert_eq!(result["oom"], Value::Bool(true));
    assert!(result["step_ms"].is_null() && result["slowdown"].is_null(), "never a made-up 0");
    for key in ["tier", "capacity_bytes", "need_bytes", "free_bytes", "object", "at"] {
        assert!(!result["oom_reason"][key].is_null(), "{key}");
    }
    // The same outcome is fine where it is expected.
    let expected = "expect=[out_of_memory(\"all\")]";
    project.run(&["run", CASE, "--set", small, "--set", expected]).ends_with(0);
}

#[test]
fn several_summaries_on_stdout_are_one_document_in_the_order_of_the_files() {
    let project = Project::new();
    project.write("scenarios/other.ron", crate::common::SCENARIO.replace("seed: 1", "seed: 2"));
    let args = ["run", CASE, "scenarios/other.ron", "--out", "o", "--format", "json"];
    let all = project.run(&args).ends_with(0).json();
    let files = ["o/case/summary.json", "o/other/summary.json"].map(|file| project.json(file));
    assert_eq!(all, Value::from(files.to_vec()));
    let quiet = project.run(&[&args[..], &["-q"]].concat()).ends_with(0);
    assert_eq!(quiet.stdout, "");
}

#[test]
fn a_table_fits_a_terminal_and_says_the_answer_first() {
    let project = Project::new();
    let ran = project.run(&["run", CASE]).ends_with(0);
    let long = ran.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "case: a tiny trace on a small machine");
    assert!(lines[1].starts_with("  best    all: "), "{}", ran.stdout);
    assert!(lines[1].ends_with(" per step, as with unlimited HBM (the baseline)"), "{}", lines[1]);
    let rows: Vec<&str> = lines.iter().filter(|l| l.starts_with("all ")).copied().collect();
    assert_eq!(rows.len(), 1, "one block: {}", ran.stdout);
    assert!(!ran.stdout.contains("p50"), "{}", ran.stdout);

    // All of it on request; percentiles that are the mean to the last digit are not said again.
    let wide = project.run(&["run", CASE, "--wide"]).ends_with(0).stdout;
    for column in ["moved", "stall", "bound"] {
        assert!(wide.contains(column), "{column}: {wide}");
    }
    assert!(!wide.contains("p95"), "{wide}");
}

#[test]
fn what_is_left_out_of_a_run_changes_nothing_else() {
    let project = Project::new();
    project.run(&["run", CASE, "--out", "all"]).ends_with(0);
    project.run(&["run", CASE, "--no-png", "--jobs", "1", "--out", "svg"]).ends_with(0);
    let (all, svg) = (project.files("all"), project.files("svg"));
    let names: Vec<&String> = all.keys().filter(|name| !name.ends_with(".png")).collect();
    assert!(names.len() < all.len());
    assert_eq!(svg.keys().collect::<Vec<_>>(), names);
    assert!(svg.iter().all(|(name, bytes)| bytes == &all[name]));
    // Without the curve charts have the level of what needs nothing outside HBM, figures are the
    // same; and pictures of a run before go.
    project.run(&["run", CASE, "--no-png", "--no-bound-curve", "--out", "all"]).ends_with(0);
    let level = project.files("all");
    assert_eq!(level.keys().collect::<Vec<_>>(), names);
    let charts: Vec<&str> = level
        .iter()
        .filter(|(name, bytes)| *bytes != &all[*name])
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(charts, ["latency-vs-memory.svg"]);
}

#[test]
fn the_summary_on_stdout_is_the_file_and_holds_every_key() {
    let project = Project::new();
    let ran = project.run(&["run", CASE, "--out", "o", "--format", "json"]).ends_with(0);
    plain(&ran);
    assert_eq!(ran.stdout.as_bytes(), &project.files("o")["summary.json"][..]);
    let json = ran.json();
    for key in TOP {
        assert!(!json[key].is_null(), "summary.json has no {key}");
    }
    assert_eq!(json["schema"], 1);
    assert_eq!(json["tiersim"], env!("CARGO_PKG_VERSION"));
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for (result, policy) in results.iter().zip(["all-hbm", "adam-state", "lru"]) {
        let keys = result.as_object().unwrap();
        for key in RESULT {
            assert!(keys.contains_key(key), "{policy} has no {key}");
        }
        assert_eq!(result["policy"], policy);
        for key in ["mean", "p50", "p95", "p99"] {
            assert!(result["step_ms"][key].as_f64().unwrap() > 0.0, "{policy}: {key}");
        }
        assert_eq!(result["throughput"]["unit"], "tokens/s");
        let tiers: Vec<&String> = result["peak_bytes"].as_object().unwrap().keys().collect();
        assert_eq!(tiers, ["hbm", "dram", "nvme"]);
        let step = result["step_ms"]["mean"].as_f64().unwrap();
        let slowdown = result["slowdown"].as_f64().unwrap();
        let baseline = result["baseline_step_ms"].as_f64().unwrap();
        assert!((step / baseline - slowdown).abs() < 1e-9, "slowdown is step over baseline");
        assert!(result["bound_step_ms"].as_f64().unwrap() <= step);
    }
}

#[test]
fn streams_hold_what_belongs_on_them() {
    let project = Project::new();
    let ran = project.run(&["run", CASE, "-q"]).ends_with(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    assert!(project.path("out/case/summary.json").is_file(), "quiet, but not idle");
    plain(&project.run(&["run", CASE]).ends_with(0));
    plain(&project.run(&["check", CASE]).ends_with(0));
    plain(&project.run(&["hints", CASE]).ends_with(0));
    plain(&project.run(&["trace", "info", "traces/tiny"]).ends_with(0));
    for args in [&["--version"] as &[&str], &["--help"], &["run", "--help"], &["trace", "--help"]] {
        let ran = project.run(args).ends_with(0);
        assert!(ran.stdout.contains("tiersim"), "{args:?}");
        plain(&ran);
    }
    let version = project.run(&["--version"]).stdout;
    assert_eq!(version.trim(), format!("tiersim {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let project = Project::new();
    for args in [&["run", CASE] as &[&str], &["check", CASE], &["trace", "info", "traces/tiny"]] {
        let mut child = limited(&project.root, args).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let unasked = unasked(&stderr);
        assert_eq!((child.wait().unwrap().code(), unasked), (Some(0), vec![]), "{args:?}");
    }
}

#[test]
fn the_seed_is_part_of_the_run_and_matters_with_jitter() {
    let project = Project::new();
    let jitter = ["--set", "workload.jitter=0.1"];
    let with = |seed: &str| summary(&project, &[&jitter[..], &["--seed", seed]].concat());
    let [one, again, two] = ["1", "1", "2"].map(with);
    assert_eq!(one, again);
    assert_eq!(two["seed"], 2);
    assert_ne!(one["fingerprint"], two["fingerprint"]);
    assert_ne!(mean_step(&one, 0), mean_step(&two, 0));
    let [steady, other] = ["1", "2"].map(|seed| summary(&project, &["--seed", seed]));
    assert_ne!(steady["fingerprint"], other["fingerprint"]);
    assert_eq!(mean_step(&steady, 0), mean_step(&other, 0), "without jitter nothing is drawn");
}

#[test]
fn a_value_that_is_set_is_as_if_the_file_said_so() {
    let project = Project::new();
    let sets = [
        ("share_of_peak(0.75)", "share_of_peak(0.5)", "policies.2.hbm=share_of_peak(0.5)"),
        ("hbm: 0.3", "hbm: 0.6", "policies.1.policy.cut.hbm=0.6"),
        ("policy: AllHbm", "policy: Lru()", "policies.0.policy=Lru()"),
        ("seed: 1", "seed: 9", "seed=9"),
        ("repeat: 3", "repeat: 5", "workload.repeat=5"),
    ];
    // Which case is faster is not what this is about.
    project.edit_scenario(
        "expect: [fits(\"all\"), faster(case: \"all\", than: \"lru\")]",
        "expect: []",
    );
    let original = summary(&project, &[]);
    for (from, to, set) in sets {
        let typed = summary(&project, &["--set", set]);
        assert_ne!(typed["fingerprint"], original["fingerprint"], "{set}");
        project.edit_scenario(from, to);
        assert_eq!(summary(&project, &[]), typed, "{set}");
        project.edit_scenario(to, from);
    }
}

#[test]
fn check_passes_what_ships_and_lists_every_problem_of_the_rest() {
    let project = Project::shipped();
    let mut all = vec!["check".to_owned()];
    for folder in ["scenarios", "hardware-specs"] {
        all.extend(project.files(folder).keys().map(|name| format!("{folder}/{name}")));
    }
    all.retain(|path| path == "check" || path.ends_with(".ron"));
    let traces = project.files("traces");
    let headers = traces.keys().filter_map(|name| name.strip_suffix("/trace.ron"));
    all.extend(headers.map(|trace| format!("traces/{trace}")));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert!(all.len() > 6, "{all:?}");
    let ran = project.run(&all).ends_with(0);
    assert_eq!(ran.stdout.lines().count(), all.len() - 1);
    assert!(ran.stdout.lines().all(|line| line.ends_with("no problems")), "{}", ran.stdout);
    assert!(ran.stdout.contains("parts/h100-sxm.ron: part of a machine, "), "{}", ran.stdout);

    let project = Project::new();
    project.write(
        "scenarios/bad.ron",
        crate::common::SCENARIO.replace("seed: 1", "sede: 1").replace("mib(128)", "128"),
    );
    project.edit("hardware-specs/small.ron", "ns(100)", "ns(-100)");
    project.write("hardware-specs/empty.ron", "");
    let ran = project.run(&[
        "check",
        "traces/tiny",
        "scenarios/bad.ron",
        "hardware-specs/small.ron",
        "hardware-specs/empty.ron",
    ]);
    let ran = ran.ends_with(2).says(&[
        "error: scenarios/bad.ron:5:24: a size needs its unit",
        "error: scenarios/bad.ron:12:",
        "`Scenario` has no field `sede`",
        "error: hardware-specs/small.ron:7:",
        "error: hardware-specs/empty.ron:1:1: the file is empty",
    ]);
    assert_eq!(ran.stdout, "traces/tiny: trace, no problems\n");
}

#[test]
fn a_trace_tells_what_is_in_it() {
    let project = Project::new();
    let ran = project.run(&["trace", "info", "traces/tiny"]).ends_with(0);
    ran.shows(&["tiny: written by hand", "8 ops, 11 objects, 23 uses, 1 steps", "optimizer"]);
    let json = project.run(&["trace", "info", "traces/tiny", "--format", "json"]);
    let json = json.ends_with(0).json();
    assert_eq!(json["name"], "tiny");
    assert_eq!(json["ops"], 8);
    assert_eq!(json["objects"], 11);
    assert_eq!(json["uses"], 23);
}

#[test]
fn the_shipped_trace_is_what_its_recording_imports_to() {
    let project = Project::empty();
    let folder = shipped("traces/gpt2-train-cpu");
    let recording = folder.join("recording");
    let recording = recording.to_str().unwrap();
    let ran = project.run(&["trace", "import", "recording", recording, "--out", "made"]);
    plain(&ran.ends_with(0));
    let made = project.files("made");
    let names = ["objects.csv.gz", "ops.csv.gz", "statistics.csv.gz", "trace.ron", "uses.csv.gz"];
    assert_eq!(project.names("made"), names);
    for (name, bytes) in &made {
        let ships = std::fs::read(Path::new(&folder).join(name)).unwrap();
        assert!(*bytes == ships, "{name} differs from the one that ships");
    }
}

#[test]
fn several_scenarios_are_written_to_folders_of_their_own() {
    let project = Project::new();
    project.write("scenarios/other.ron", crate::common::SCENARIO);
    project.run(&["run", CASE, "scenarios/other.ron", "--out", "o"]).ends_with(0);
    let [first, second] = ["o/case", "o/other"].map(|folder| project.files(folder));
    assert_eq!(first["results.csv"], second["results.csv"]);
    assert_eq!(first.len(), second.len());
}

#[test]
fn hints_are_written_to_the_output_folder_and_printed() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    let printed = project.run(&["hints", scenario]).ends_with(0).stdout;
    let folder = "out/gpt2-adam-tiering";
    assert_eq!(project.text(&format!("{folder}/tier_hints.json")), printed);
    project.run(&["hints", scenario, "--out", "elsewhere"]).ends_with(0);
    assert_eq!(project.text("elsewhere/tier_hints.json"), printed);
    let hints = project.json("elsewhere/tier_hints.json");
    let of = hints["tiersim:fingerprint"].as_str().unwrap();
    assert_eq!(hints.as_object().unwrap().len(), 1 + 75, "one hint for each module with weights");
    project.run(&["run", scenario]).ends_with(0);
    assert_eq!(project.json(&format!("{folder}/summary.json"))["fingerprint"], of);
    assert_eq!(project.text(&format!("{folder}/tier_hints.json")), printed);
}

#[test]
fn a_sweep_has_a_fingerprint_of_its_own() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-lru-budgets.ron";
    let text = project.text(scenario);
    let print = |from: &str, command: &str| {
        let axes = format!(
            "sweep: (axes: [(name: \"repeat\", path: \"workload.repeat\", \
             values: range(from: {from}, to: 3.0, step: 1.0))]),\n    seed: 1,"
        );
        project.write("scenarios/swept.ron", text.replace("seed: 1,", &axes));
        let ran = project.run(&[command, "scenarios/swept.ron", "--format", "json"]).ends_with(0);
        ran.json()["fingerprint"].as_str().unwrap().to_owned()
    };
    let (long, short, alone) = (print("2.0", "sweep"), print("3.0", "sweep"), print("2.0", "run"));
    assert!(long != short && long != alone && short != alone);
}

#[test]
fn machines_of_different_shape_stand_side_by_side() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-lru-budgets.ron";
    let text = project.text(scenario).replace("Lru(spill: [\"dram\"])", "Lru()");
    let end = text.find("    expect: [").unwrap();
    let named = "hardware: \"h100-sxm-pcie5\"";
    let with = |machines: &str| format!("{})\n", text[..end].replace(named, machines));
    let two = "hardware: [\"h100-sxm-pcie5\", \"seed-tiers\"]";
    project.write("scenarios/two.ron", with(two));
    let own = "--set=workload.time=roofline(device: \"h100-sxm-pcie5\", precision: \"tf32\")";
    project.run(&["run", "scenarios/two.ron", own, "--out", "o"]).ends_with(0);
    let summary: Value = serde_json::from_str(&project.text("o/summary.json")).expect("JSON");
    let tiers = |case: &Value| -> Vec<String> {
        let mut tiers: Vec<String> =
            case["peak_bytes"].as_object().expect("it ran").keys().cloned().collect();
        tiers.sort();
        tiers
    };
    for case in summary["results"].as_array().expect("a list") {
        // What a machine does not have is not there, which is not 0.
        let known: &[&str] = match case["hardware"].as_str().unwrap() {
            "seed-tiers" => &["cpu", "cxl", "hbm", "ssd"],
            _ => &["dram", "hbm", "nvme"],
        };
        assert_eq!(tiers(case), known);
    }
    let table = project.text("o/results.csv");
    assert!(table.contains("peak_bytes.dram") && table.contains("peak_bytes.cpu"));
    // What is called alike must be alike.
    let other = "(machine: \"h100-sxm-pcie5\", name: \"other\", set: [\
                 (path: \"tiers.dram.kind\", value: cxl)])";
    project.write("scenarios/two.ron", with(&format!("hardware: [\"h100-sxm-pcie5\", {other}]")));
    let ran = project.run(&["run", "scenarios/two.ron", "--out", "p"]).ends_with(2);
    ran.says(&["tier `dram` is of kind dram", "and of kind cxl on other"]);
    assert!(!project.path("p").exists());
}

#[test]
fn a_share_of_the_peak_beyond_the_hardware_is_bad_input() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-lru-budgets.ron";
    let small = ["--set", "capacity={\"hbm\": mib(100)}", "--out", "o"];
    let ran = project.run(&[&["run", scenario], &small[..]].concat()).ends_with(2);
    ran.says(&["share_of_peak(0.25)"]);
    assert!(!project.path("o").exists());
}
