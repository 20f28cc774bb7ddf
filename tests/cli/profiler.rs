//! Traces of other programs: found out, imported, and run by every policy.

use crate::common::*;
use std::process::Command;

const SMALL: &str = "tests/data/fuzz/profiler/seed~trace.json";

/// Every policy that needs neither recorded statistics nor modules with names; state of which
/// nothing is known may move.
const ZOO: &str = r#"
Scenario(
    schema: 2,
    about: "every policy on a recorded GPU",
    hardware: "h100-sxm-pcie5",
    workload: Trace(path: "TRACE", time: recorded(), gaps: GAPS, repeat: 1),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "density", policy: AccessDensity(spill: ["dram"], kinds: [weight, gradient, state]), HBM),
        (name: "knapsack", policy: Knapsack(spill: ["dram"]), HBM),
        (name: "size", policy: SizeGreedy(spill: ["dram"]), HBM),
        (name: "activations", policy: ActivationOffload(choice: offload, spill: ["dram"]), HBM),
        (name: "arc", policy: Arc(spill: ["dram"]), HBM),
        (name: "belady", policy: Belady(spill: ["dram"]), HBM),
        (name: "clock", policy: Clock(spill: ["dram"]), HBM),
        (name: "fifo", policy: Fifo(spill: ["dram"]), HBM),
        (name: "lfu", policy: Lfu(spill: ["dram"]), HBM),
        (name: "lirs", policy: Lirs(spill: ["dram"]), HBM),
        (name: "lru", policy: Lru(spill: ["dram"]), HBM),
        (name: "s3-fifo", policy: S3Fifo(spill: ["dram"]), HBM),
        (name: "sieve", policy: Sieve(spill: ["dram"]), HBM),
        (name: "slru", policy: Slru(spill: ["dram"]), HBM),
        (name: "two-q", policy: TwoQ(spill: ["dram"]), HBM),
        (name: "scored", policy: Scored(spill: ["dram"]), HBM),
        (name: "hot-cold", policy: HotCold(spill: ["dram"]), HBM),
        (name: "unified", policy: UnifiedMemory(), HBM),
        (name: "correlation", policy: CorrelationPrefetch(), HBM),
        (name: "hooks", policy: LayerHooks(spill: ["dram"]), HBM),
        (name: "double", policy: DoubleBuffering(spill: ["dram"]), HBM),
        (name: "look-ahead", policy: LookAhead(spill: ["dram"]), HBM),
        (name: "planned", policy: PlannedMigration(spill: ["dram"]), HBM),
        (name: "clairvoyant", policy: ClairvoyantOffload(spill: ["dram"]), HBM),
        (name: "map", policy: DeviceMap(), HBM),
        (name: "percentages", policy: Percentages(weights_cpu: 50), HBM),
        (name: "zero", policy: ZeroOffload(parameters: "dram", spill: ["dram"]), HBM),
    ],
    seed: 1,
)
"#;

pub(crate) fn zoo(project: &Project, trace: &str, gaps: &str) {
    let text = ZOO.replace("TRACE", trace).replace("GAPS", gaps);
    project.write("scenarios/zoo.ron", text.replace("HBM),", "hbm: share_of_peak(0.7)),"));
}

#[test]
fn a_file_is_found_out_imported_and_run() {
    let project = Project::shipped();
    project.write("trace.json", fs::read(shipped(SMALL)).unwrap());
    let imported = project.run(&["trace", "import", "trace.json", "--out", "T"]).ends_with(0);
    imported.shows(&[
        "24 kernels of 0.",
        "2 steps (steps by ProfilerStep",
        "8 objects of 6291456 bytes, at most 8497152 bytes given",
        "2 parameters of 2097152 bytes, from gradients that were added or kept",
        "gradients that stay: 2097152 bytes",
        "what 2205696 bytes from before the file hold",
        "modules by recorded calls of nn.Module",
        "written to T",
    ]);
    let info = project.run(&["trace", "info", "T"]).ends_with(0);
    info.shows(&["weight", "gradient", "state", "of the uses 44 are inferred and 0 unknown"]);
    zoo(&project, "trace.json", "keep");
    project.run(&["run", "scenarios/zoo.ron", "--audit", "--out", "A"]).ends_with(0);
    // The same by the option, and of the folder.
    let instead = ["run", "scenarios/zoo.ron", "--trace", "T", "--out", "B"];
    project.run(&instead).ends_with(0);
    assert_eq!(
        project.json("A/summary.json")["results"],
        project.json("B/summary.json")["results"]
    );
}

/// The same run, as Nsight Systems would have exported it (`tests/nsight_tables.py`).
#[cfg(feature = "nsight")]
#[test]
fn an_export_of_nsight_systems_is_run_like_the_trace() {
    let project = Project::shipped();
    let export = fs::read(shipped("tests/data/fuzz/nsight/seed~export.sqlite")).unwrap();
    project.write("export.sqlite", export);
    project.write("trace.json", fs::read(shipped(SMALL)).unwrap());
    let imported = project.run(&["trace", "import", "export.sqlite", "--out", "T"]).ends_with(0);
    imported.shows(&[
        "24 kernels of 0.",
        "2 steps (steps by the program's ranges",
        "8 objects of 6291456 bytes",
        "what tables would say that the export has not:",
        "CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET",
        "written to T",
    ]);
    project
        .run(&["trace", "info", "export.sqlite"])
        .ends_with(0)
        .shows(&["recorded: Nsight Systems"]);
    let step = |trace: &str, out: &str| {
        let case = format!(
            "Scenario(schema: 2, about: \"a\", hardware: \"h100-sxm-pcie5\", seed: 1, workload: Trace(path: \
             \"{trace}\", time: recorded(), repeat: 1), policies: [(name: \"all\", policy: AllHbm)])"
        );
        project.write("case.ron", case);
        project.run(&["run", "case.ron", "--out", out]).ends_with(0);
        project.json(&format!("{out}/summary.json"))["results"][0]["step_ms"].clone()
    };
    assert_eq!(step("export.sqlite", "A"), step("trace.json", "B"));
}

#[test]
fn what_is_no_recording_is_named() {
    let project = Project::shipped();
    let scenario = fs::read(shipped("scenarios/gpt2-adam-tiering.ron")).unwrap();
    project.write("scenario.ron.gz", gzip(&scenario, Compression::default()));
    project.write("noise.gz", gzip(b"no trace at all", Compression::default()));
    for (file, kind) in [
        ("scenarios/gpt2-adam-tiering.ron", "this is a scenario"),
        ("traces/gpt2-train-cpu", "this is the folder of a trace"),
        ("scenario.ron.gz", "this is packed by gzip or zstd"),
        ("noise.gz", "this is packed by gzip or zstd"),
    ] {
        let ran = project.run(&["trace", "import", file, "--out", "T"]).ends_with(2);
        ran.says(&["a recording is wanted here", kind]);
        assert!(!project.path("T").exists());
    }
}

#[test]
fn a_real_training_is_run_by_every_policy() {
    let Some(real) = beside("kineto/hta_df_index_resolver.json.gz") else { return };
    let project = Project::shipped();
    fs::copy(real, project.path("real.json.gz")).unwrap();
    for (gaps, step_ms) in [("drop", 200.1226), ("keep", 346.593)] {
        zoo(&project, "real.json.gz", gaps);
        let ran = ["run", "scenarios/zoo.ron", "--audit", "--out", gaps];
        project.run(&ran).ends_with(0);
        let summary = project.json(&format!("{gaps}/summary.json"));
        for case in summary["results"].as_array().unwrap() {
            let baseline = case["baseline_step_ms"].as_f64().unwrap();
            assert!((baseline - step_ms).abs() < 0.001, "{gaps}: {baseline}");
            assert!(!case["oom"].as_bool().unwrap(), "{}", case["policy"]);
        }
        let all = &summary["results"][0];
        assert_eq!(all["peak_bytes"]["hbm"].as_u64(), Some(6_629_508_096), "{gaps}");
    }
}

#[test]
fn a_real_chakra_trace_is_run_by_every_policy() {
    let Some(real) = beside("chakra/feeder_tests_trace.tar.gz") else { return };
    let project = Project::shipped();
    fs::copy(real, project.path("chakra.et.tar.gz")).unwrap();
    let imported = ["trace", "import", "chakra.et.tar.gz", "--out", "T"];
    project.run(&imported).ends_with(0).shows(&[
        "3664 nodes (schema 1.0.1), 2448 of them on the host",
        "381795 us in all, of\n  3507 nodes; 181878 data and 3664 control dependencies",
        "assumed: 7 ops on the network take the time that the file says",
    ]);
    for gaps in ["drop", "keep"] {
        zoo(&project, "chakra.et.tar.gz", gaps);
        let ran = ["run", "scenarios/zoo.ron", "--audit", "--out", gaps];
        project.run(&ran).ends_with(0);
        let summary = project.json(&format!("{gaps}/summary.json"));
        let results = summary["results"].as_array().unwrap();
        assert_eq!(results.len(), 28);
        for case in results {
            let baseline = case["baseline_step_ms"].as_f64().unwrap();
            // Not longer than all after one another, and not shorter than the device's own work
            // on its busier stream.
            assert!((200.0..381.8).contains(&baseline), "{baseline}");
        }
    }
}

#[test]
fn real_ranks_are_one_trace_that_every_policy_runs() {
    let Some(real) = beside("execution-trace/dlrm_kineto_and_et_ranks_0_to_3.tar.gz") else {
        return;
    };
    let project = Project::shipped();
    let tar = Command::new("tar").arg("xzf").arg(&real).arg("-C").arg(project.path("")).status();
    if !tar.is_ok_and(|status| status.success()) {
        eprintln!("NOT COMPARED: tar cannot unpack {}", real.display());
        return;
    }
    let kineto =
        |rank: u32, at: u64| format!("dlrm_kineto/worker{rank}_step_12.{at}.pt.trace.json");
    let (first, second) = (kineto(0, 1694128201545), kineto(1, 1694128201556));
    let tensors = |rank: u32| format!("dlrm_pytorch_et/dlrm_eg_{rank}.json");
    let (its, theirs) = (tensors(0), tensors(1));
    let both = ["trace", "import", &first, &second, "--execution-trace", &its];
    let both = [&both[..], &["--execution-trace", &theirs, "--out", "T"]].concat();
    project.run(&both).ends_with(0).shows(&[
        "2 ranks as one trace",
        "3 all-reduce of 2485252 bytes, each one op of all ranks",
        "5 all-to-all of 64448 bytes, each one op of all ranks",
        "they took 5.754 ms once all ranks had called them",
        "ranks had waited for others for 5.626 ms",
        "8 in each of 1 servers (the files say how many ranks there are)",
        "rank 0 began 5.762 ms after the first",
        "1668 of 1675 rows of the execution trace",
    ]);
    // The archive itself is all four of its ranks, in a scenario and for every command.
    fs::copy(&real, project.path("all.tar.gz")).unwrap();
    project.run(&["trace", "info", "all.tar.gz"]).ends_with(0).shows(&["4 ranks as one trace"]);
    let inner = format!("all.tar.gz/{first}");
    project.run(&["trace", "info", &inner]).ends_with(0).shows(&["Rank 0 of 8"]);
    zoo(&project, "all.tar.gz", "keep");
    let text = fs::read_to_string(project.path("scenarios/zoo.ron")).unwrap();
    project.write("scenarios/all.ron", text.replace("h100-sxm-pcie5", "dgx-h100"));
    project.run(&["check", "scenarios/all.ron"]).ends_with(0);
    zoo(&project, "T", "keep");
    let text = fs::read_to_string(project.path("scenarios/zoo.ron")).unwrap();
    let text = text.replace("gaps: keep, ", "");
    project.write("scenarios/zoo.ron", &text);
    // A card alone has nobody to meet.
    let ran = ["run", "scenarios/zoo.ron", "--out", "A"];
    project.run(&ran).ends_with(2).says(&["write `within` into `server` of the hardware"]);
    let text = fs::read_to_string(project.path("scenarios/zoo.ron")).unwrap();
    project.write("scenarios/zoo.ron", text.replace("h100-sxm-pcie5", "dgx-h100"));
    project.run(&["run", "scenarios/zoo.ron", "--audit", "--out", "A"]).ends_with(0);
    let summary = project.json("A/summary.json");
    let results = summary["results"].as_array().unwrap();
    assert_eq!(results.len(), 28);
    for case in results {
        assert!(!case["oom"].as_bool().unwrap(), "{}", case["policy"]);
    }
    // The second rank took 18.749 ms, with 5.754 ms of collectives that this server's links shorten.
    let baseline = results[0]["baseline_step_ms"].as_f64().unwrap();
    assert!((18.749 - 5.754..18.749).contains(&baseline), "{baseline}");
}

/// What says how a file of accesses is read is refused where nothing would heed it.
#[test]
fn options_of_files_of_accesses_are_refused_beside_recordings_that_are_put_together() {
    let project = Project::shipped();
    for (option, value) in
        [("--reader", "table"), ("--object-bytes", "4KiB"), ("--window", "8"), ("--rate", "9")]
    {
        for more in [vec![SMALL], vec!["--execution-trace", SMALL]] {
            let both = [&["trace", "import", SMALL][..], &more, &[option, value]].concat();
            let says = format!("{option} says how one file of accesses is read");
            project.run(&[&both[..], &["--out", "T"]].concat()).ends_with(2).says(&[&says]);
            assert!(!project.path("T").exists(), "nothing is written");
        }
    }
}

#[test]
fn requests_are_counted_and_files_of_no_kind_are_said_to_be_none() {
    let project = Project::shipped();
    let week = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n";
    project.write("week.csv", week);
    project.run(&["trace", "info", "week.csv"]).ends_with(0).shows(&["1 requests within 0.000 s"]);
    let json = ["trace", "info", "week.csv", "--format", "json"];
    project.run(&json).ends_with(0).shows(&["\"requests\": 1"]);
    project.write("notes.txt", "nothing that is known");
    let ran = project.run(&["trace", "info", "notes.txt"]).ends_with(2);
    ran.says(&["a recording is wanted here, and what this is cannot be told"]);
}

/// Names in a recording that would drive a terminal, and turn text around.
#[test]
fn what_a_recording_says_drives_no_terminal_and_breaks_no_table() {
    let project = Project::shipped();
    let text = fs::read_to_string(shipped(SMALL)).unwrap();
    let head = "\"traceEvents\"";
    let device = r#""deviceProperties": [{"id": 0, "name": "GPU\u001b[2J\u202e\n3000"}], "#;
    assert_eq!(text.matches(head).count(), 1);
    project.write("a\u{1b}[31m\nb.json", text.replace(head, &format!("{device}{head}")));
    let odd = "a\u{1b}[31m\nb.json";
    for args in [
        &["trace", "import", odd, "--out", "T"][..],
        &["trace", "info", odd],
        &["trace", "info", "T"],
        &["trace", "diff", odd, "T"],
        &["trace", "info", odd, "--out", "out\u{1b}[31m"],
    ] {
        let ran = project.run(args).ends_with(0);
        let hidden = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!ran.stdout.contains(hidden), "{args:?}: {:?}", ran.stdout);
    }
    // A trace may be called anything.
    let header = project.text("T/trace.ron");
    let (start, rest) = header.split_once("name: \"").unwrap();
    let (_, rest) = rest.split_once('"').unwrap();
    let named = format!("{start}name: \"x\\u{{1b}}[31m\\ny\\u{{202e}}\"{rest}");
    project.write("T/trace.ron", named);
    let shown = project.run(&["trace", "info", "T"]).ends_with(0).stdout;
    assert!(shown.starts_with("x�[31m�y�: Imported from"), "{shown:?}");
    let case = r#"Scenario(schema: 2, about: "a", hardware: "h100-sxm-pcie5", seed: 1,
        workload: Trace(path: "T", time: recorded(), repeat: 1),
        policies: [(name: "all", policy: AllHbm), (name: "unified", policy: UnifiedMemory())])"#;
    project.write("case.ron", case);
    project.run(&["run", "case.ron", "--no-png", "--out", "o"]).ends_with(0);
    let table = project.text("o/results.csv");
    assert!(table.contains("x�[31m�y�"), "the workload is named in it");
    assert!(!table.contains(['\u{1b}', '\u{202e}']));
    assert_eq!(table.lines().count(), 3, "a line for each case");
}
