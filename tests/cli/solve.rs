//! `solve` finds what a fine grid of single runs finds, and says what it could not.

use crate::common::*;

/// A scenario of one or two cases that runs in a moment, `lru` before others.
fn scenario(workload: &str, policies: &str) -> String {
    format!(
        "Scenario(schema: 2, about: \"how much of everything does it need?\", \
         hardware: \"h100-sxm-pcie5\", workload: {workload}, policies: [{policies}],\n)\n"
    )
}

const RECORDED: &str = "Trace(path: \"traces/tiny-llama-cpu\", \
    time: roofline(precision: \"tf32\"), repeat: 2, warmup: 1)";
const PAGED: &str = "(name: \"lru\", policy: Lru(spill: [\"far\"]), hbm: share_of_peak(0.6)), \
    (name: \"ahead\", policy: LookAhead(layers: 2, spill: [\"far\"]), hbm: share_of_peak(0.8))";
const SMALL: &str = "card: (family: llama, layers: 4, hidden: 512, ffn: 1408, heads: 8, \
    vocab: 4000), precision: bf16, time: roofline(precision: \"bf16\"), repeat: 2, warmup: 1";

struct Question {
    workload: String,
    policies: &'static str,
    path: &'static str,
    unit: &'static str,
    range: (f64, f64),
    largest: bool,
    condition: &'static str,
    metric: &'static str,
    limit: f64,
}

/// MiB that the driver of the machine hides.
const HIDDEN: f64 = 861.0;

/// Five questions, each about another scenario and another kind of number.
fn questions() -> [Question; 5] {
    let paged = Question {
        workload: RECORDED.to_owned(),
        policies: PAGED,
        path: "policies.*.hbm",
        unit: "share_of_peak",
        range: (0.4, 1.2),
        largest: false,
        condition: "slowdown <= 2",
        metric: "slowdown",
        limit: 2.0,
    };
    let offloaded = Question {
        workload: format!(
            "Model({SMALL}, mode: train(batch: 2, sequence: 256, \
             zero: (stage: 0, host_update: 1.0)))"
        ),
        policies: "(name: \"lru\", policy: ZeroOffload(optimizer: \"dram\"))",
        path: "hardware.cpu.memory",
        unit: "gb_per_s",
        range: (10.0, 400.0),
        largest: false,
        condition: "step <= 5",
        metric: "step_ms.mean",
        limit: 5.0,
    };
    let decoding = Question {
        workload: format!("Model({SMALL}, mode: generate(batch: 4, prompt: 128, tokens: 4))"),
        policies: "(name: \"lru\", policy: Lru(spill: [\"far\"]), hbm: share_of_peak(0.5))",
        path: "hardware.links.pcie.setup",
        unit: "us",
        range: (1.0, 100.0),
        largest: true,
        condition: "slowdown <= 10",
        metric: "slowdown",
        limit: 10.0,
    };
    let serving = Question {
        workload: "Model(model: \"llama-3-8b\", precision: bf16, mode: serve(requests: \
                   \"traces/requests-conversation/requests.jsonl\", first: 4, block_tokens: 512, \
                   kv_blocks: 256, max_batch: 4), time: roofline(precision: \"bf16\"))"
            .to_owned(),
        policies: "(name: \"lru\", policy: Lru(spill: [\"far\"]), hbm: gib(18))",
        path: "hardware.links.pcie.read",
        unit: "gb_per_s",
        range: (4.0, 100.0),
        largest: false,
        condition: "ttft <= 400",
        metric: "serving.ttft_ms.mean",
        limit: 400.0,
    };
    let launched = Question {
        workload: "Trace(path: \"traces/gpt2-train-cpu\", time: roofline(precision: \"tf32\"), \
                   repeat: 2, warmup: 1)"
            .to_owned(),
        policies: "(name: \"lru\", policy: AllHbm)",
        path: "hardware.compute.launch",
        unit: "us",
        range: (0.5, 40.0),
        largest: true,
        condition: "step <= 60",
        metric: "step_ms.mean",
        limit: 60.0,
    };
    [paged, offloaded, decoding, serving, launched]
}

fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found.as_f64().unwrap_or(f64::INFINITY)
}

#[test]
fn solve_equals_a_fine_grid() {
    let project = Project::shipped();
    for question in &questions() {
        let text = scenario(&question.workload, question.policies);
        project.write("scenarios/small.ron", &text);
        let Question { path, unit, range: (from, to), largest, .. } = *question;
        let verb = if largest { "--maximize" } else { "--minimize" };
        let range = format!("{from}..{to}");
        let ran = project.run(&[
            "solve",
            "scenarios/small.ron",
            verb,
            path,
            "--unit",
            unit,
            "--range",
            &range,
            "--such-that",
            question.condition,
            "--case",
            "lru",
            "--format",
            "json",
            "--out",
            "s",
        ]);
        let solved: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
        let answer = number(&solved, "answer.value");
        let step = (to - from) / 100.0;
        let axis = format!(
            "sweep: (axes: [(name: \"x\", path: \"{path}\", unit: \"{unit}\", \
             values: range(from: {from}, to: {to}, step: {step}))]),\n)\n"
        );
        let swept = format!("{}{axis}", &text[..text.rfind(')').expect("an end")]);
        project.write("scenarios/swept.ron", swept);
        project.run(&["sweep", "scenarios/swept.ron", "--out", "g", "-q"]).ends_with(0);
        let summary: Value =
            serde_json::from_str(&project.text("g/summary.json")).expect("a summary");
        let results = summary["results"].as_array().expect("a list");
        let own = results.iter().filter(|case| case["label"].as_str().unwrap().starts_with("lru"));
        let held: Vec<f64> = own
            .filter(|case| number(case, question.metric) <= question.limit)
            .map(|case| number(case, "params.x"))
            .collect();
        let grid = if largest {
            held.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        } else {
            held.iter().copied().fold(f64::INFINITY, f64::min)
        };
        assert!(grid > from && grid < to, "{path}: the grid's answer {grid} is an end");
        // Between the last point of the grid that does not hold and the first that does.
        let between = if largest { grid..=grid + step } else { grid - step..=grid };
        let near = between.contains(&answer);
        assert!(near, "{path}: solve has {answer}, the grid {grid} in steps of {step}");
        assert!(solved["monotone"].as_bool().unwrap(), "{path}");
        let beyond = number(&solved, "beyond.value");
        assert!((beyond - answer).abs() <= 0.001 * beyond.max(answer), "{path}: {beyond}");
    }
}

#[test]
fn counts_are_whole_without_being_told() {
    let project = Project::shipped();
    let workload = format!("Model({SMALL}, mode: train(batch: 3, sequence: 256))");
    project.write("small.ron", scenario(&workload, "(name: \"all\", policy: AllHbm)"));
    let limit = 4e8 / f64::from(1 << 30);
    let limit = format!("peak_gib <= {limit}");
    let ask = ["solve", "small.ron", "--maximize", "workload.mode.batch", "--such-that", &limit];
    let ask = [&ask[..], &["--format", "json", "--out", "s"]].concat();
    let ran = project.run(&ask).ends_with(0);
    let solved: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let answer = number(&solved, "answer.value");
    let fits = |batch: f64| {
        let set = format!("workload.mode.batch={batch}");
        project.run(&["run", "small.ron", "--set", &set, "--out", "r", "-q"]).ends_with(0);
        let peak = number(&project.json("r/summary.json")["results"][0], "peak_bytes.hbm");
        peak <= 4e8
    };
    assert!(fits(answer) && !fits(answer + 1.0), "{answer}");
    assert!(solved["monotone"].as_bool().unwrap(), "{}", ran.stdout);
    assert_eq!(project.run(&[&ask[..], &["--whole"]].concat()).stdout, ran.stdout);
}

#[test]
fn the_gap_is_that_of_the_results() {
    let project = Project::shipped();
    project.write("scenarios/small.ron", scenario(RECORDED, PAGED));
    let ask = ["solve", "scenarios/small.ron", "--minimize", "gap_to_bound", "--case", "lru"];
    let ask = [&ask[..], &["--vary", "links.pcie.read=40..60", "--format", "json"]].concat();
    let solved = project.run(&ask).ends_with(0).json();
    let answer = &solved["answer"];
    let read = answer["values"]["hardware.links.pcie.read"].as_f64().expect("a number");
    let set = format!("hardware.links.pcie.read=gb_per_s({read})");
    let run = ["run", "scenarios/small.ron", "--set", &set, "--format", "json"];
    let summary = project.run(&run).ends_with(0).json();
    let own = number(&summary["results"][0], "gap_to_bound");
    assert!(own > 0.0 && number(answer, "metrics.gap_to_bound") == own, "{answer}: {own}");
    // An emulated case is below any bound, and has none.
    let emulated = "(name: \"lru\", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5), \
                    access: in_place(charge: module_output)))";
    project.write("scenarios/small.ron", scenario(RECORDED, emulated));
    let ran = project.run(&ask).ends_with(1);
    assert!(ran.stdout.contains("it is emulated"), "{}", ran.stdout);
}

#[test]
fn a_question_that_means_nothing_is_refused() {
    let project = Project::shipped();
    project.write("scenarios/small.ron", scenario(RECORDED, PAGED));
    let solve = |more: &[&str]| {
        let mut all = vec!["solve", "scenarios/small.ron", "--out", "s"];
        all.extend(more);
        project.run(&all)
    };
    let hbm = ["--minimize", "policies.*.hbm", "--range", "900..1000", "--unit", "mib"];
    let with = |more: &[&'static str]| solve(&[&hbm[..], more].concat());
    with(&["--such-that", "slow <= 2"]).ends_with(2).says(&["no metric `slow`", "slowdown"]);
    // What has another name and other numbers by now is no other metric.
    let ran = with(&["--such-that", "gap <= 1.2"]).ends_with(2);
    ran.says(&["no metric `gap`", "write `gap_to_bound <= 0.2`"]);
    let ran = solve(&["--minimize", "gap", "--vary", "links.pcie.read=40..60"]).ends_with(2);
    ran.says(&["no metric `gap`", "write `gap_to_bound <= 0.2`"]);
    with(&["--such-that", "slowdown"]).ends_with(2).says(&["compares two sides"]);
    with(&["--case", "none"]).ends_with(2).says(&["no such case", "\"lru\""]);
    let ran = solve(&["--minimize", "policies.lru.policy", "--such-that", "slowdown <= 2"]);
    ran.ends_with(2).says(&["say where with --range"]);
    // Nothing was swept, so nothing is said of axes.
    for (unit, why) in [
        ("tb", "a policy cannot use more HBM than the hardware has"),
        ("us", "`us` is not a unit of an HBM budget"),
    ] {
        let range = ["--minimize", "policies.lru.hbm", "--range", "1..2", "--unit", unit];
        let ran = solve(&range).ends_with(1);
        assert!(ran.stdout.contains(why), "{}", ran.stdout);
        assert!(!ran.stdout.contains("sweep") && !ran.stdout.contains("axis"), "{}", ran.stdout);
    }
    // A share of a peak is not known in MiB before anything has run.
    let unit = ["--minimize", "policies.lru.hbm", "--unit"];
    let ran = solve(&[&unit[..], &["mib"]].concat()).ends_with(2);
    ran.says(&["is share_of_peak(0.6), which is no number of `mib`", "--range"]);
    let ran = solve(&["--minimize", "tiers.hbm.capacity", "--unit", "us"]).ends_with(2);
    ran.says(&["which is no number of `us`", "--range"]);
    let ran = solve(&["--minimize", "links.none.read", "--range", "1..2"]);
    ran.ends_with(2).says(&["there is no `links.none.read`"]);
    // What is missing for a metric is named, and no answer is a failure.
    let ran = with(&["--such-that", "cost_usd <= 1"]).ends_with(1);
    ran.says(&["no value of policies.*.hbm"]);
    let ran = with(&["--such-that", "ttft <= 1"]).ends_with(1);
    assert!(ran.stdout.contains("serves no requests"), "{}", ran.stdout);
    // So it is for an objective: points that have none are no answers.
    for wanted in ["--minimize", "--maximize"] {
        let ran = solve(&[wanted, "ttft", "--vary", "links.pcie.read=40..60"]);
        let ran = ran.ends_with(1).says(&["points has ttft and meets all conditions"]);
        assert!(ran.stdout.contains("has ttft with the scenario fits"), "{}", ran.stdout);
        assert!(ran.stdout.contains("lru: it serves no requests"), "{}", ran.stdout);
        assert!(!ran.stdout.contains(" yes "), "{}", ran.stdout);
    }
}

#[test]
fn another_unit_looks_around_the_same_value() {
    let project = Project::shipped();
    let only = "(name: \"all\", policy: AllHbm)";
    project.write("scenarios/small.ron", scenario(RECORDED, only));
    let ends = |unit: &[&str]| {
        let ask = ["solve", "scenarios/small.ron", "--minimize", "tiers.hbm.capacity"];
        let ran = project.run(&[&ask[..], unit, &["--format", "json", "--out", "s"]].concat());
        let solved: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
        let tried = solved["tried"].as_array().expect("a list");
        let bytes = match solved["unit"].as_str().expect("a unit") {
            "mb" => 1e6,
            "gb" => 1e9,
            "mib" => f64::from(1 << 20),
            "gib" => f64::from(1 << 30),
            other => panic!("{other}"),
        };
        [tried.first(), tried.last()].map(|end| bytes * number(end.expect("a point"), "value"))
    };
    let own = ends(&[]);
    for unit in ["mb", "gb", "mib", "gib"] {
        let found = ends(&["--unit", unit]);
        let near = found.iter().zip(own).all(|(end, own)| (end / own - 1.0).abs() < 1e-6);
        assert!(near, "{unit}: {found:?} and not {own:?}");
    }
}

/// The best point of a grid, by the scenario's own sweep: its value.
fn best_of_grid(
    project: &Project,
    text: &str,
    metric: &str,
    holds: impl Fn(f64, f64) -> bool,
) -> f64 {
    let axis = |name: &str, path: &str, to: f64| {
        format!(
            "(name: \"{name}\", path: \"{path}\", unit: \"gb_per_s\", \
             values: range(from: 10, to: {to}, step: 2))"
        )
    };
    let axes =
        [axis("x", "hardware.links.pcie.read", 60.0), axis("y", "hardware.links.pcie.write", 60.0)];
    let sweep = format!("sweep: (axes: [{}, {}]),\n)\n", axes[0], axes[1]);
    project.write("scenarios/swept.ron", format!("{}{sweep}", &text[..text.rfind(')').unwrap()]));
    project.run(&["sweep", "scenarios/swept.ron", "--out", "g", "-q"]).ends_with(0);
    let summary: Value = serde_json::from_str(&project.text("g/summary.json")).expect("a summary");
    let results = summary["results"].as_array().expect("a list");
    let own = results.iter().filter(|case| {
        let lru = case["label"].as_str().unwrap().starts_with("lru");
        lru && holds(number(case, "params.x"), number(case, "params.y"))
    });
    own.map(|case| number(case, metric)).fold(f64::INFINITY, f64::min)
}

#[test]
fn several_paths_reach_what_a_fine_grid_reaches() {
    let project = Project::shipped();
    let only = PAGED.split_once(", (name").unwrap().0;
    let text = scenario(RECORDED, only);
    project.write("scenarios/small.ron", &text);
    // A link of so much in both directions together: where should it be put?
    let found = project.run(&[
        "solve",
        "scenarios/small.ron",
        "--minimize",
        "step",
        "--vary",
        "links.pcie.read=gb_per_s(10..60)",
        "--vary",
        "links.pcie.write=10..60",
        "--such-that",
        "links.pcie.read + links.pcie.write <= 70",
        "--format",
        "json",
        "--out",
        "s",
    ]);
    let found: Value = serde_json::from_str(&found.ends_with(0).stdout).expect("JSON");
    let grid = best_of_grid(&project, &text, "step_ms.mean", |x, y| x + y <= 70.0);
    let best = number(&found, "answer.objective");
    // Steps under paging change by jumps, so that each has points that the other has not.
    let near = (0.98..1.005).contains(&(best / grid));
    assert!(near, "solve has {best}, the best of the grid {grid}");
    let values = &found["answer"]["values"];
    let [read, write] = ["hardware.links.pcie.read", "hardware.links.pcie.write"]
        .map(|path| values[path].as_f64().expect("a number"));
    assert!(read + write <= 70.0 + 1e-6, "{read} and {write}");
    assert!(number(&found, "settled") <= 1e-3);
    // All of the link is given away, or the rest would make a direction quicker.
    assert!(read + write >= 70.0 - 1e-3, "{read} and {write}");
    // The answer is a run: the same by hand.
    let set = [
        format!("hardware.links.pcie.read=gb_per_s({read})"),
        format!("hardware.links.pcie.write=gb_per_s({write})"),
    ];
    let ran = project.run(&[
        "run",
        "scenarios/small.ron",
        "--set",
        &set[0],
        "--set",
        &set[1],
        "--format",
        "json",
        "--out",
        "r",
    ]);
    let ran: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
    assert_eq!(number(&ran["results"][0], "step_ms.mean"), best);
    let again = project.text("s/solve.csv");
    assert_eq!(again.lines().count(), 1 + found["tried"].as_array().unwrap().len());
}

#[test]
fn the_least_change_that_fits_is_found_by_runs() {
    let project = Project::shipped();
    let text = scenario(
        &format!("Model({SMALL}, mode: train(batch: 8, micro_batch: 8, sequence: 512))"),
        "(name: \"all\", policy: AllHbm)",
    );
    let peak = {
        project.write("scenarios/small.ron", &text);
        let ran = project.run(&["run", "scenarios/small.ron", "--format", "json", "--out", "r"]);
        let ran: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
        number(&ran["results"][0], "peak_bytes.hbm")
    };
    // Nine tenths of what it needs: no case fits, and each change by itself may be enough.
    let mib = (0.9 * peak / f64::from(1 << 20)).floor() + HIDDEN;
    let room = format!("capacity: {{\"hbm\": mib({mib})}}, policies");
    project.write("scenarios/full.ron", text.replace("policies", &room));
    let ran =
        project.run(&["solve", "scenarios/full.ron", "--fit", "--format", "json", "--out", "s"]);
    let found: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
    assert!(found["why_not"].as_str().unwrap().contains("out of memory"), "{}", found["why_not"]);
    let changes = found["changes"].as_array().expect("a list");
    let of = |path: &str| {
        let one = changes.iter().find(|change| change["path"] == path);
        one.unwrap_or_else(|| panic!("{path}: {found}"))["least"]
            .as_str()
            .expect("enough")
            .to_owned()
    };
    let capacity = of("capacity.hbm");
    let enough: f64 = capacity["mib(".len()..capacity.len() - 1].parse().expect("a number");
    assert!(enough > mib && enough < 1.2 * mib, "{capacity} against {mib}");
    // What is enough fits by hand, and one less does not.
    let fits = |set: &[String], code: i32| {
        let mut args = vec![
            "run",
            "scenarios/full.ron",
            "--out",
            "r",
            "-q",
            "--set",
            "expect=[fits(\"all\")]",
        ];
        args.extend(set.iter().flat_map(|set| ["--set", set.as_str()]));
        project.run(&args).ends_with(code);
    };
    fits(&[format!("capacity.hbm={capacity}")], 0);
    fits(&[format!("capacity.hbm=mib({})", 0.99 * enough)], 1);
    let micro: u32 = of("workload.mode.micro_batch").parse().expect("a whole number");
    assert!([1, 2, 4].contains(&micro), "{micro}");
    fits(&[format!("workload.mode.micro_batch={micro}")], 0);
    fits(&[format!("workload.mode.micro_batch={}", 2 * micro)], 1);
    fits(&[format!("workload.mode.checkpointing={}", of("workload.mode.checkpointing"))], 0);
    // A scenario that fits needs no change.
    let ran = project.run(&["solve", "scenarios/small.ron", "--fit", "--out", "s"]);
    ran.ends_with(0).shows(&["nothing need change"]);
}
