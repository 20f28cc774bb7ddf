//! `explain`: its files add up, its answers are those of separate runs, and what cannot be
//! explained says so.

use crate::common::trace_text::TraceText;
use crate::common::*;

const FILES: [&str; 8] = [
    "critical-path.csv",
    "elasticities.png",
    "elasticities.svg",
    "explain.json",
    "split-by-phase.png",
    "split-by-phase.svg",
    "step-gantt.png",
    "step-gantt.svg",
];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

#[test]
fn files_add_up_and_say_the_same_as_stdout() {
    let project = Project::new();
    let ran = project.run(&["explain", "scenarios/case.ron", "--case", "lru", "--format", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(project.names("out/case-explain"), FILES);
    assert_eq!(ran.stdout, project.text("out/case-explain/explain.json"));
    let all = project.json("out/case-explain/explain.json");
    let parts = all["parts_ps"].as_object().expect("parts").values().map(number).sum::<u64>();
    assert_eq!(parts, number(&all["total_ps"]));
    let path = project.text("out/case-explain/critical-path.csv");
    let spans = path.lines().skip(1).map(|row| {
        row.split(',').nth(3).and_then(|span| span.parse::<u64>().ok()).expect("a span")
    });
    assert_eq!(spans.sum::<u64>(), parts, "one step a replay, and all of its segments");
    let gap = &all["gap"];
    let others = gap["others_ms"].as_object().expect("others").values();
    let others: f64 = others.filter_map(Value::as_f64).sum();
    let beyond = gap["beyond_bound_ms"].as_f64().expect("a number");
    let total = gap["gap_ms"].as_f64().expect("a number");
    assert!((others + beyond - total).abs() < 1e-9, "{gap}");
    let findings = all["findings"].as_array().expect("findings").len();
    assert!(findings >= 3, "{all}");
}

#[test]
fn elasticities_are_differences_of_separate_runs() {
    are_differences(&[]);
    // Of another trace than the scenario's, too.
    are_differences(&["--trace", "traces/other"]);
}

#[track_caller]
fn are_differences(instead: &[&str]) {
    let project = Project::new();
    TraceText::tiny()
        .edited(
            "ops",
            "mm,b,0,0,200000,2000000,9437184,400000",
            "mm,b,0,0,250000,2000000,9437184,400000",
        )
        .write(&project.path("traces/other"));
    let ran = project.run(&[&["explain", CASE, "--case", "lru", "-q"], instead].concat());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    let all = project.json("out/case-explain/explain.json");
    let step = |set: Option<String>| -> f64 {
        let set = set.map(|set| vec!["--set".to_owned(), set]).unwrap_or_default();
        let mut args = [&["run", CASE, "-q"], instead].concat();
        args.extend(set.iter().map(String::as_str));
        let ran = project.run(&args);
        // Expectations are of the machine as it is.
        assert!(ran.code.is_some_and(|code| code < 2), "{}", ran.stderr);
        let summary = project.json("out/case/summary.json");
        let results = summary["results"].as_array().expect("results");
        let own = results.iter().find(|case| case["policy"] == "lru").expect("the case");
        own["step_ms"]["mean"].as_f64().expect("a number")
    };
    let now = step(None);
    let answers = all["elasticities"].as_array().expect("elasticities");
    let value = |answer: &Value| answer["elasticity"].as_f64().expect("a number");
    assert!(value(&answers[0]).abs() > 0.01, "something matters: {}", answers[0]);
    for answer in answers.iter().take(4).chain(answers.last()) {
        let tried = |side: usize| {
            let text = answer["tried"][side].as_str().expect("a value");
            step(Some(format!("{}={text}", answer["path"].as_str().expect("a path"))))
        };
        let (below, above) = (tried(0), tried(1));
        let change = answer["change"].as_f64().expect("a number");
        let difference = (above - below) / now / change;
        assert!((difference - value(answer)).abs() < 1e-9, "{answer}: {difference}");
        let steps: Vec<f64> =
            answer["step_ms"].as_array().expect("two").iter().filter_map(Value::as_f64).collect();
        assert_eq!(steps, [below, above], "{answer}");
    }
    for tried in all["tries"].as_array().expect("tries").iter().take(2) {
        let text = |key: &str| tried[key].as_str().expect("a text");
        let own = step(Some(format!("{}={}", text("path"), text("tried"))));
        assert_eq!(tried["step_ms"].as_f64(), Some(own), "{tried}");
    }
}

#[test]
fn names_that_are_formulas_do_not_reach_a_spreadsheet() {
    let project = Project::new();
    let mut trace = crate::common::trace_text::TraceText::tiny();
    trace.objects =
        trace.objects.replace("b.weight", "=cmd|' /C calc'!A0").replace("c.weight", "@x");
    trace.ops = trace.ops.replace("backward,mm,", "backward,+mm,");
    trace.write(&project.path("traces/tiny"));
    let ran = project.run(&["explain", CASE, "--case", "lru", "--change", "0"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let path = project.text("out/case-explain/critical-path.csv");
    for cell in path.lines().flat_map(|row| row.split(',')) {
        let cell = cell.trim_start_matches('"');
        assert!(!cell.starts_with(['=', '+', '-', '@']), "{cell}");
    }
    assert!(path.contains("'+mm"), "{path}");
    // Without re-runs there is no tornado.
    assert_eq!(project.names("out/case-explain").len(), FILES.len() - 2);
}

#[test]
fn what_cannot_be_explained_is_bad_input() {
    let project = Project::new();
    let ran = project.run(&["explain", CASE, "--case", "nobody"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("has no case \"nobody\"; choose from \"all\", \"adam\", \"lru\""));
    project.edit_scenario("share_of_peak(0.75)", "mib(4)");
    let ran = project.run(&["explain", CASE, "--case", "lru"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("ran out of memory"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no steps to explain"), "{}", ran.stderr);
    assert!(!project.path("out").exists(), "nothing is written");
}

/// GPT-2 on eight devices, with nothing turned on.
const PLAIN: &str = r#"Scenario(
    schema: 2,
    about: "GPT-2 with nothing turned on",
    hardware: "dgx-a100-80g",
    workload: Model(
        model: "gpt2",
        precision: bf16,
        mode: train(batch: 4, sequence: 512, attention: eager, parallel: (data: 8)),
        time: roofline(precision: "bf16"),
        repeat: 1,
        warmup: 0,
    ),
    policies: [(name: "plain", policy: AllHbm), (name: "lru", policy: Lru(spill: ["dram"]), hbm: gib(8))],
)"#;

#[test]
fn switches_save_what_formulas_say_and_are_runs_with_their_keys() {
    let project = Project::shipped();
    project.write("plain.ron", PLAIN);
    let ran = project.run(&["explain", "plain.ron", "--switches", "--case", "plain", "-q"]);
    ran.ends_with(0);
    let all = project.json("out/plain-switches/switches.json");
    let rows = all["switches"].as_array().expect("switches");
    let row = |name: &str| {
        rows.iter().find(|row| row["switch"] == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let saved = |name: &str| row(name)["alone"]["saved_bytes"].as_i64().expect("it fits");
    let (l, s, b, a, p) = (12, 512, 4, 12, 124_439_808_i64);
    // Scores of 16 bits go, four bytes per token and head come.
    assert_eq!(saved("flash attention"), l * (2 * a * s * s * b - 4 * a * s * b));
    // Of eight ranks each keeps an eighth of K = 12 bytes per parameter.
    assert_eq!(saved("ZeRO stage 1"), 12 * p * 7 / 8);
    // Moments and master copies leave HBM but for what an update has there.
    assert!(saved("optimizer state in DRAM") >= 12 * p, "{}", row("optimizer state in DRAM"));
    // Half of the blocks save half.
    assert_eq!(2 * saved("half of the blocks computed again"), saved("all blocks computed again"));
    assert!(rows.len() == 15, "{}", rows.len());
    // A run with the same keys has the same step.
    for side in [&all["as_written"], &row("ZeRO stage 2")["alone"], &rows[14]["in_turn"]] {
        let set: Vec<&str> =
            side["set"].as_array().expect("keys").iter().filter_map(Value::as_str).collect();
        let mut args = vec!["run", "plain.ron", "-q"];
        set.iter().for_each(|set| args.extend(["--set", set]));
        project.run(&args).ends_with(0);
        let summary = project.json("out/plain/summary.json");
        let own = &summary["results"][0];
        assert_eq!(own["label"], "plain");
        assert_eq!(own["step_ms"]["mean"], side["step_ms"], "{set:?}");
    }
    let csv = project.text("out/plain-switches/switches.csv");
    assert_eq!(csv.lines().count(), 2 + 2 * rows.len());
    // Each key stands on the page.
    let page = fs::read_to_string(shipped("docs/howto/explain.md")).expect("it is there");
    let alone = &rows[0]["alone"];
    for key in [&all, &rows[0], alone].into_iter().flat_map(|map| map.as_object().unwrap().keys()) {
        assert!(page.contains(&format!("`{key}`")), "docs/howto/explain.md lacks `{key}`");
    }
}

#[test]
fn a_window_takes_pairs_off_attention_and_nothing_off_memory() {
    let project = Project::shipped();
    let card = "card: (family: llama, layers: 2, hidden: 1024, ffn: 2816, heads: 8, vocab: 1000)";
    let scenario = PLAIN.replace("model: \"gpt2\"", card).replace(
        "batch: 4, sequence: 512, attention: eager, parallel: (data: 8)",
        "batch: 1, sequence: 16384",
    );
    project.write("plain.ron", scenario);
    let ran = project.run(&["explain", "plain.ron", "--switches", "--case", "plain", "-q"]);
    ran.ends_with(0);
    let all = project.json("out/plain-switches/switches.json");
    let rows = all["switches"].as_array().expect("switches");
    let name = "a window of a quarter of the sequence";
    let row = rows.iter().find(|row| row["switch"] == name).expect("its card is written");
    assert_eq!(row["alone"]["set"][0], "workload.card.window=4096");
    assert_eq!(row["alone"]["saved_bytes"], 0, "flash attention keeps no scores");
    // 4,096 x 16,384 pairs but for the first triangle, of 16,384^2 / 2: products of 12 a pair, and
    // the scores once more.
    let ms = |side: &Value| side["step_ms"].as_f64().expect("it fits");
    let less = ms(&all["as_written"]) - ms(&row["alone"]);
    let (s, w) = (16_384.0_f64, 4_096.0);
    let pairs = s * (s + 1.0) / 2.0 - (w * (w + 1.0) / 2.0 + (s - w) * w);
    let flops = 2.0 * 14.0 * pairs * 1024.0;
    let rate = flops / (less / 1e3);
    // Kernels of attention reach between a third and all of the device's peak.
    assert!((1e14..312e12).contains(&rate), "{rate:e}");
}

#[test]
fn what_trains_nothing_has_no_switches() {
    let project = Project::new();
    let ran = project.run(&["explain", CASE, "--switches"]);
    let ran = ran.ends_with(2);
    assert!(ran.stderr.contains("--switches turns optimisations of training"), "{}", ran.stderr);
}
