//! `calibrate --from-trace`: the law that a recording was made with is found again, real recordings
//! give what is counted here without tiersim, and a machine of a trace's own is not warned of.

use crate::common::*;
use flate2::read::GzDecoder;
use serde_json::json;
use std::io::Read;

/// One copy of the device: name, bytes, nanoseconds.
type Copy = (&'static str, u64, u64);

const PINNED: &str = "Memcpy HtoD (Pinned -> Device)";
const BACK: &str = "Memcpy DtoH (Device -> Pinned)";
const WITHIN: &str = "Memcpy DtoD (Device -> Device)";

/// A profiler's file: copies one after the other, then kernels of 2 us and more, 1.2 us apart, all
/// of which the host had asked for before the first began, then products with their kernels.
fn kineto(copies: &[Copy], kernels: u64, products: &[([u64; 3], f64)]) -> String {
    let (mut events, mut at, mut correlation) = (Vec::new(), 10_000.0, 0);
    let mut launch = |events: &mut Vec<Value>, ts: f64| {
        correlation += 1;
        events.push(json!({ "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
            "pid": 1, "tid": 1, "ts": ts, "dur": 0.001, "args": { "correlation": correlation } }));
        correlation
    };
    let device = |events: &mut Vec<Value>, cat: &str, name: &str, of: (u64, f64, f64, u64)| {
        let (correlation, ts, dur, bytes) = of;
        events.push(json!({ "ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts,
            "dur": dur, "args": { "correlation": correlation, "device": 0, "stream": 7,
            "bytes": bytes } }));
    };
    for &(name, bytes, ns) in copies {
        let of = launch(&mut events, at - 2.0);
        device(&mut events, "gpu_memcpy", name, (of, at, ns as f64 / 1e3, bytes));
        at += ns as f64 / 1e3 + 10.0;
    }
    let first = at;
    for index in 0..kernels {
        let of = launch(&mut events, first - 5.0 + index as f64 * 0.002);
        let span = 2.0 + (index % 10) as f64;
        device(&mut events, "kernel", "k", (of, at, span, 0));
        at += span + 1.2;
    }
    for &([m, n, k], us) in products {
        let (ts, shapes) = (at + 10.0, json!([[m, k], [k, n]]));
        events.push(json!({ "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
            "ts": ts, "dur": 4.0, "args": { "Input Dims": shapes,
            "Input type": ["c10::BFloat16", "c10::BFloat16"] } }));
        let of = launch(&mut events, ts + 1.0);
        device(&mut events, "kernel", "gemm", (of, ts + 8.0, us, 0));
        at = ts + 8.0 + us;
    }
    json!({ "schemaVersion": 1, "traceEvents": events,
        "deviceProperties": [{ "id": 0, "name": NAME, "totalGlobalMem": 34_089_730_048u64 }] })
    .to_string()
}

const NAME: &str = "Tesla V100-SXM2-32GB";

/// Copies of a law in microseconds and GB/s, off by up to a share either way, from a fixed seed.
fn law(name: &'static str, (us, gb_per_s): (f64, f64), share: f64) -> Vec<Copy> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut all = Vec::new();
    for power in 14..28 {
        for size in [1u64 << power, 3 << (power - 1)] {
            for _ in 0..5 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let unit = state as f64 / u64::MAX as f64 * 2.0 - 1.0;
                let ns = (us * 1e3 + size as f64 / gb_per_s) * (1.0 + share * unit);
                all.push((name, size, ns.round() as u64));
            }
        }
    }
    all
}

/// The number of a machine, as its spec has it.
fn number(project: &Project, spec: &str, path: &str) -> (String, String) {
    let shown = project.run(&["hardware", "show", spec, "--format", "json", "--out", "shown"]);
    let shown = shown.ends_with(0).json();
    let numbers = shown["numbers"].as_array().unwrap();
    let of = numbers.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path}"));
    let text = |key: &str| of[key].as_str().unwrap().to_owned();
    (text("value"), text("source"))
}

/// A number in GB/s or us.
fn amount(value: &str) -> f64 {
    let (unit, number) = value.trim_end_matches(')').split_once('(').unwrap();
    let number: f64 = number.parse().unwrap();
    match unit {
        "gb_per_s" | "us" => number,
        "ns" | "mb_per_s" => number / 1e3,
        other => panic!("{other} of {value}"),
    }
}

fn recorded() -> String {
    let copies = [
        law(PINNED, (6.0, 11.0), 0.05),
        law(BACK, (9.0, 13.0), 0.05),
        law(WITHIN, (3.0, 390.0), 0.05),
    ];
    kineto(&copies.concat(), 400, &[])
}

const SPEC: &str = "hardware-specs/measured/mine.ron";

#[test]
fn the_law_that_a_recording_was_made_with_is_found_again() {
    let project = Project::shipped();
    project.write("t.json", recorded());
    let ran = project.run(&["calibrate", "--from-trace", "t.json", "--name", "mine"]).ends_with(0);
    ran.shows(&["on top of v100-32g-dgx2", "links.pcie.read", "one standard error", "kept: "]);
    // Of noise of 5 % either way: rates to 2 %, set-ups to 10 %.
    for (path, truth, within) in [
        ("links.pcie.read", 11.0, 0.02),
        ("links.pcie.setup", 6.0, 0.1),
        ("links.pcie.write", 13.0, 0.02),
        ("links.pcie.write_setup", 9.0, 0.1),
        ("compute.memory", 780.0, 0.02),
        ("compute.launch", 3.2, 0.001),
    ] {
        let (value, source) = number(&project, SPEC, path);
        let found = amount(&value);
        assert!((found / truth - 1.0).abs() <= within, "{path}: {found} for {truth}");
        assert!(source.starts_with("fitted from t.json: "), "{source}");
    }
    let (value, source) = number(&project, SPEC, "tiers.hbm.capacity");
    assert_eq!((value.as_str(), source.contains("totalGlobalMem")), ("kib(33290752)", true));
    let (_, kept) = number(&project, SPEC, "compute.flops.fp16");
    assert!(kept.starts_with("kept from v100-32g-dgx2: "), "{kept}");
    // Nothing is neither: each number is the recording's, follows from it, or is kept.
    let text = project.text(SPEC);
    let sources = ["measured(\"", "assumed(\"", "datasheet(\"", "announced(\""];
    let words = sources.iter().flat_map(|word| text.split(word).skip(1));
    let known = ["fitted from t.json: ", "kept from v100-32g-dgx2: ", "no more than the link"];
    for words in words {
        assert!(known.iter().any(|begin| words.starts_with(begin)), "{}", &words[..60]);
    }
    project.run(&["check", SPEC, "--deny", "warnings"]).ends_with(0);
    // The spec as a base gives the same numbers again.
    let again = ["calibrate", "--from-trace", "t.json", "--base", "measured/mine", "--name", "two"];
    project.run(&again).ends_with(0);
    for path in ["links.pcie.read", "links.pcie.setup", "compute.memory", "compute.launch"] {
        let two = number(&project, "hardware-specs/measured/two.ron", path);
        assert_eq!(two, number(&project, SPEC, path));
    }
}

const RUN: &str = r#"Scenario(
    schema: 2, about: "a recording on a machine", hardware: "MACHINE",
    workload: Trace(path: "t.json", time: recorded(), repeat: 1, warmup: 0),
    policies: [(name: "all", policy: AllHbm)], seed: 1,
)"#;

#[test]
fn a_machine_that_is_not_the_recordings_is_warned_of_and_its_own_is_not() {
    let project = Project::shipped();
    project.write("t.json", recorded());
    project.run(&["calibrate", "--from-trace", "t.json", "--name", "mine", "-q"]).ends_with(0);
    let text = project.text(SPEC);
    let (value, _) = number(&project, SPEC, "links.pcie.read");
    let (at, double) = (format!("read: ({value}"), 2.0 * amount(&value));
    assert_eq!(text.matches(&at).count(), 1);
    let twice = text.replace(&at, &format!("read: (gb_per_s({double})"));
    project.write("hardware-specs/measured/twice.ron", twice);
    for (machine, warned) in [("mine", false), ("twice", true)] {
        project.write("s.ron", RUN.replace("MACHINE", &format!("measured/{machine}")));
        let ran = project.run(&["run", "s.ron", "--no-png", "--out", machine]).ends_with(0);
        assert_eq!(ran.stderr.contains("unlike-recording"), warned, "{}", ran.stderr);
        let summary = project.json(&format!("{machine}/summary.json"));
        let rules = summary["warnings"].as_array().cloned().unwrap_or_default();
        let told: Vec<&Value> =
            rules.iter().filter(|one| one["rule"] == "unlike-recording").collect();
        assert_eq!(told.len(), usize::from(warned), "{rules:?}");
        if warned {
            let place = told[0]["place"].as_str();
            assert_eq!(place, Some("links.pcie.read"));
            let remedy = "`tiersim calibrate --from-trace";
            assert!(told[0]["remedy"].as_str().unwrap().starts_with(remedy), "{:?}", told[0]);
            let denied = ["run", "s.ron", "--deny", "warnings", "--out", "denied"];
            project.run(&denied).ends_with(2);
            assert!(!project.path("denied").exists());
        }
    }
    // The folder that it becomes shows the same copies.
    project.run(&["trace", "import", "t.json", "--out", "T"]).ends_with(0);
    let of = |trace: &str| {
        let info = project.run(&["trace", "info", trace, "--format", "json"]).ends_with(0).json();
        info["copies"].clone()
    };
    assert_eq!(of("t.json"), of("T"));
    let instead = ["run", "s.ron", "--trace", "T", "--no-png", "--out", "folder"];
    let ran = project.run(&instead).ends_with(0);
    assert!(ran.stderr.contains("unlike-recording"), "{}", ran.stderr);
}

#[test]
fn what_shows_no_machine_is_refused_with_why_and_nothing_is_written() {
    let project = Project::shipped();
    let few: Vec<Copy> = law(PINNED, (6.0, 11.0), 0.0).into_iter().take(7).collect();
    project.write("few.json", kineto(&few, 99, &[]));
    let host = json!({ "traceEvents": [{ "ph": "X", "cat": "cpu_op", "name": "aten::add",
        "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0, "args": {} }] });
    project.write("host.json", host.to_string());
    project.write("other.json", kineto(&few, 200, &[]).replace(NAME, "Unheard-Of 9"));
    let before = project.files("");
    for (args, says) in [
        (
            &["--from-trace", "few.json"][..],
            &[
                "few.json: a machine is made of the copies and kernels of a device",
                "7 copies say their bytes and last 8.000 ns or longer, and 8 are needed",
                "and 100 are needed",
                "record steps that copy",
            ][..],
        ),
        (
            &["--from-trace", "host.json", "--base", "t4"],
            &["copies: the trace has none", "launch: 0 kernels", "or measure the machine"],
        ),
        (
            &["--from-trace", "other.json"],
            &["no machine that can be named has the recording's device", "Unheard-Of 9", "--base"],
        ),
        (&["--from-trace", "host.json"], &["a recording without a device", "--base NAME"]),
        (&["--from-trace", "none.json", "--base", "t4"], &["none.json"]),
        (&["--from-trace", "few.json", "--base", "no-such"], &["no machine of this name"]),
        (&["--from-trace", "few.json", "--machine", "host"], &["cannot be used with"]),
        (&["--machine", "host", "--base", "t4"], &["cannot be used with"]),
        (&["--base", "t4"], &["--from-trace <FILE>"]),
        (&[], &["--machine <MACHINE>"]),
    ] {
        project.run(&[&["calibrate"], args].concat()).ends_with(2).says(says);
        assert_eq!(project.files(""), before, "{args:?}");
    }
}

#[test]
fn products_with_shapes_fit_the_op_times_of_the_base() {
    let project = Project::shipped();
    let mut shapes = Vec::new();
    for m in [64, 256, 1024, 4096, 8192] {
        for (n, k) in
            [(4096, 4096), (11008, 4096), (4096, 11008), (6144, 4096), (28672, 8192), (8192, 28672)]
        {
            shapes.extend([[m, n, k], [m, n / 2, k]]);
        }
    }
    // What the base says of each, a quarter longer.
    let rows: String = shapes.iter().map(|[m, n, k]| format!("bf16,{m},{n},{k},1\n")).collect();
    project.write("p.csv", format!("dtype,m,n,k,us\n{rows}"));
    project.run(&["ops", "p.csv", "--hardware", "h100-sxm-pcie5", "--out", "o", "-q"]).ends_with(0);
    let table = project.text("o/ops.csv");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column =
        head.iter().position(|name| *name == "predicted_us").unwrap_or_else(|| panic!("{head:?}"));
    let times = lines.map(|row| 1.25 * row[column].parse::<f64>().unwrap());
    let products: Vec<([u64; 3], f64)> = shapes.iter().copied().zip(times).collect();
    assert_eq!(products.len(), 60);
    project.write("p.json", kineto(&[], 0, &products));
    let args =
        ["calibrate", "--from-trace", "p.json", "--base", "h100-sxm-pcie5", "--name", "mine"];
    let ran = project.run(&args).ends_with(0);
    let errors = |words: &str| -> f64 {
        let row = ran
            .stdout
            .lines()
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("{ran:?}"));
        row.split_whitespace().rev().nth(2).unwrap().parse().unwrap()
    };
    assert!((19.0..21.0).contains(&errors("products  before")), "a quarter: {}", ran.stdout);
    assert!(errors("all, fitted") < 3.0, "{}", ran.stdout);
    assert!(errors("held out") < 6.0, "{}", ran.stdout);
    assert!(project.text(SPEC).contains("op_times: (of: \"mine-op-times\")"));
    project.run(&["check", SPEC, "hardware-specs/measured/mine-op-times.ron"]).ends_with(0);
    let graded = ["ops", "p.csv", "--hardware", SPEC, "--out", "after", "--format", "json"];
    let by = &project.run(&graded).ends_with(0).json()["priced_by"];
    assert_eq!(by["roofline"], 0, "{by}");
}

/// Copies of a real file by a part of their name, counted without tiersim: bytes and microseconds.
fn counted(path: &Path, part: &str) -> Vec<(u64, f64)> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let copies = events.iter().filter(|event| {
        event["cat"] == "gpu_memcpy"
            && event["name"].as_str().is_some_and(|name| name.contains(part))
    });
    copies
        .map(|one| (one["args"]["bytes"].as_u64().unwrap(), one["dur"].as_f64().unwrap()))
        .collect()
}

#[test]
fn real_recordings_give_what_is_counted_without_tiersim() {
    // Counted in Python as well: tests/count_profiler_trace.py.
    for (file, base, road, part, count, bytes) in [
        (
            "execution-trace/resnet_kineto.json.gz",
            "rtx-3090",
            "host->device pageable",
            "HtoD",
            61,
            2_312_140_804,
        ),
        (
            "execution-trace/resnet_kineto.json.gz",
            "rtx-3090",
            "within the device",
            "DtoD",
            62,
            46_758_048,
        ),
        (
            "kineto/hta_critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
            "a100-40g-pcie4",
            "host->device pageable",
            "HtoD",
            16,
            244_403_360,
        ),
        (
            "kineto/hta_df_index_resolver.json.gz",
            "v100-32g-pcie3",
            "within the device",
            "DtoD",
            2040,
            5_892_787_600,
        ),
    ] {
        let Some(path) = beside(file) else { continue };
        let project = Project::shipped();
        let copies = counted(&path, part);
        assert_eq!((copies.len(), copies.iter().map(|copy| copy.0).sum::<u64>()), (count, bytes));
        let path = path.to_str().unwrap();
        let info = project.run(&["trace", "info", path, "--format", "json"]).ends_with(0).json();
        let shown = info["copies"].as_array().unwrap().iter().find(|one| one["road"] == road);
        let shown = shown.unwrap_or_else(|| panic!("{}", info["copies"]));
        assert_eq!(
            (shown["copies"].as_u64(), shown["bytes"].as_u64()),
            (Some(count as u64), Some(bytes))
        );
        // Both say the same of the same copies.
        let args =
            ["calibrate", "--from-trace", path, "--base", base, "--name", "mine", "--out", "c"];
        project.run(&args).ends_with(0);
        let json = project.json("c/calibration.json");
        let law = json["laws"].as_array().unwrap().iter().find(|law| law["probe"] == road).unwrap();
        assert_eq!(law["rate"], shown["bytes_per_s"]);
        assert_eq!(law["error"]["median"], shown["error"]["median"]);
        assert_eq!(law["error"]["p95"], shown["error"]["p95"]);
        project.run(&["check", "c/mine.ron"]).ends_with(0);
        if !shown["setup_us"].is_null() {
            continue;
        }
        // Only the rate is told: that at which half the bytes of the largest copies went.
        let most = copies.iter().map(|copy| copy.0).max().unwrap();
        let long: Vec<_> = copies.iter().filter(|copy| copy.1 >= 8.0).collect();
        let half: Vec<_> = long.iter().filter(|copy| 2 * copy.0 >= most).collect();
        if half.len() >= 8 && half.iter().all(|copy| copy.0 == most) {
            let mut rates: Vec<f64> =
                half.iter().map(|copy| copy.0 as f64 / copy.1 * 1e6).collect();
            rates.sort_by(f64::total_cmp);
            let median = rates[(rates.len() - 1) / 2];
            let found = shown["bytes_per_s"].as_f64().unwrap();
            assert!((found / median - 1.0).abs() < 1e-12, "{found} for {median}");
            let (value, _) = number(&project, "c/mine.ron", "links.pcie.pageable.read");
            assert!((amount(&value) * 1e9 / median - 1.0).abs() < 1e-3, "{value}");
        }
    }
}

#[test]
fn a_real_recording_runs_on_the_machine_that_it_makes() {
    let Some(path) = beside("execution-trace/resnet_kineto.json.gz") else { return };
    let project = Project::shipped();
    fs::copy(path, project.path("t.json.gz")).unwrap();
    let args = ["calibrate", "--from-trace", "t.json.gz", "--base", "rtx-3090", "--name", "mine"];
    project.run(&args).ends_with(0);
    let text = RUN.replace("t.json", "t.json.gz");
    project.write("s.ron", text.replace("MACHINE", "measured/mine"));
    project.write("base.ron", text.replace("MACHINE", "rtx-3090"));
    let ran = project.run(&["run", "s.ron", "--no-png", "--out", "own"]).ends_with(0);
    assert!(!ran.stderr.contains("unlike-recording"), "{}", ran.stderr);
    // 14522.911 ms from the first start to the last end, in 30 steps; counted in Python.
    let summary = project.json("own/summary.json");
    let step = summary["results"][0]["step_ms"]["mean"].as_f64().unwrap();
    assert!((step - 14_522.911 / 30.0).abs() < 0.001, "{step}");
    let ran = project.run(&["run", "base.ron", "--no-png", "--out", "base"]).ends_with(0);
    assert!(ran.stderr.contains("from host to device (pageable memory)"), "{}", ran.stderr);
}

/// On machines with a set of drives: a recording of a slower link makes a machine that is nowhere
/// faster than its base, and of which no lint has a word to say.
#[test]
fn a_slower_link_makes_no_tier_and_no_memory_faster() {
    let project = Project::shipped();
    let copies = [law(PINNED, (5.0, 5.0), 0.0), law(BACK, (5.0, 4.0), 0.0)].concat();
    project.write("t.json", kineto(&copies, 0, &[]));
    for base in ["dgx-h100", "dgx-a100-80g", "nvme-4x-gen5-bounce"] {
        let made = ["calibrate", "--from-trace", "t.json", "--base", base, "--name", base, "-q"];
        project.run(&made).ends_with(0);
        let spec = format!("hardware-specs/measured/{base}.ron");
        let of = |spec: &str| {
            let shown = ["hardware", "show", spec, "--format", "json", "--out", "shown"];
            project.run(&shown).ends_with(0).json()
        };
        let (before, after) = (of(base), of(&spec));
        let tiers = |machine: &Value| machine["tiers"].as_array().cloned().unwrap();
        for (old, new) in tiers(&before).iter().zip(&tiers(&after)).skip(1) {
            let rate = |tier: &Value| tier["access"]["bytes_per_s"].as_u64().unwrap();
            assert!(rate(new) <= rate(old).min(5_100_000_000), "{base}: {old} -> {new}");
        }
        for way in ["read", "write"] {
            let of = |path: String| amount(&number(&project, &spec, &path).0);
            let link = format!("links.{}", after["links"][0]["name"].as_str().unwrap());
            assert!(of(format!("{link}.pageable.{way}")) <= of(format!("{link}.{way}")), "{base}");
        }
        project.run(&["check", &spec, "--deny", "warnings"]).ends_with(0);
    }
}
