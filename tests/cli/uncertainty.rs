//! Draws of numbers that are not known exactly, against what the formulas of a step say.
//!
//! Ops of the tiny trace are bound by memory, so with everything in HBM a step is the sum of
//! `launch + ceil(bytes * 10^12 / rate)` over its ops: what a draw must give follows from the rate
//! that it drew, to the picosecond.

use crate::common::*;
use statrs::distribution::{ContinuousCDF, Normal};

/// Bytes of the ops of the tiny trace.
const BYTES: [u64; 8] =
    [5_242_880, 6_291_456, 9_437_184, 9_437_184, 9_437_184, 16_777_216, 16_777_216, 16_777_216];
const LAUNCH: u64 = 1_000_000;

/// A machine whose device's memory has this rate, with the part that all of them share.
fn machine(rate: &str) -> String {
    format!(
        r#"Hardware(
    schema: 2,
    about: "a device that is bound by its memory",
    parts: [(file: "parts/near")],
    compute: (
        name: "device",
        flops: [(precision: "fp32", rate: (pflops(1000), assumed("more than is needed")))],
        memory: {rate},
        launch: (us(1), assumed("test")),
    ),
)
"#
    )
}

const NEAR: &str = r#"Part(
    schema: 2,
    about: "memory of a device",
    tiers: [(
        name: "hbm", kind: hbm, capacity: (mib(64), assumed("test")), setup: (ns(100), assumed("test")),
        bandwidth: (gb_per_s(1000), measured("test"), spread(gb_per_s(20))),
    )],
)
"#;

const SCENARIO: &str = r#"Scenario(
    schema: 2,
    about: "which of two machines is quicker",
    hardware: [(machine: "a", name: "A"), (machine: "b", name: "B")],
    workload: Trace(path: "traces/tiny", time: roofline(precision: "fp32"), repeat: 3, warmup: 1),
    policies: [(name: "all", policy: AllHbm)],
)
"#;

/// Machines A, of which this is said, and B, whose memory reaches 100 GB/s.
fn project(a: &str) -> Project {
    let project = Project::new();
    project.write("hardware-specs/parts/near.ron", NEAR);
    project.write("hardware-specs/a.ron", machine(a));
    project.write("hardware-specs/b.ron", machine(r#"(gb_per_s(100), datasheet("test"))"#));
    project.write(CASE, SCENARIO);
    project
}

const UNIFORM: &str = r#"(gb_per_s(120), assumed("test"), range(gb_per_s(50), gb_per_s(150)))"#;

/// Picoseconds of a step at this rate in GB/s.
fn step(rate: f64) -> u64 {
    let rate = u128::from((rate * 1e9).round() as u64);
    let op = |bytes: u64| (u128::from(bytes) * 1_000_000_000_000).div_ceil(rate) as u64;
    BYTES.into_iter().map(|bytes| LAUNCH + op(bytes)).sum()
}

/// The columns of `draws.csv` by name.
fn draws(csv: &str) -> BTreeMap<String, Vec<f64>> {
    let mut lines = csv.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().expect("a header").collect();
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in lines {
        for (name, cell) in names.iter().zip(line) {
            let value = cell.parse().expect("a number");
            columns.entry((*name).to_owned()).or_default().push(value);
        }
    }
    columns
}

/// Type 8 of Hyndman and Fan, written down once more.
fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 + 1.0 / 3.0) * share + 1.0 / 3.0;
    let below = place.floor() as usize;
    values[below - 1] + (values[below] - values[below - 1]) * place.fract()
}

/// Each of as many strata as there are values holds one.
fn one_in_each_stratum(shares: impl Iterator<Item = f64>) {
    let shares: Vec<f64> = shares.collect();
    let strata: BTreeSet<usize> =
        shares.iter().map(|share| (share * shares.len() as f64).floor() as usize).collect();
    assert_eq!(strata, (0..shares.len()).collect());
}

const RUN: [&str; 6] = ["run", CASE, "--uncertainty", "100", "--out", "o"];

#[test]
fn draws_are_strata_of_the_law_and_steps_are_the_formulas() {
    let project = project(UNIFORM);
    project.run(&RUN).ends_with(0);
    let columns = draws(&project.text("o/draws.csv"));
    let rates = &columns["compute.memory (gb_per_s)"];
    one_in_each_stratum(rates.iter().map(|rate| (rate - 50.0) / 100.0));
    // The part that both machines share is one unknown with one column.
    let shared = &columns["tiers.hbm.bandwidth (gb_per_s)"];
    let law = Normal::new(1000.0, 20.0).unwrap();
    one_in_each_stratum(shared.iter().map(|rate| law.cdf(*rate)));
    assert_eq!(columns.len(), 5);
    for (rate, ms) in rates.iter().zip(&columns["step_ms all on A"]) {
        assert_eq!((ms * 1e9).round() as u64, step(*rate), "{rate} GB/s");
    }
    assert!(columns["step_ms all on B"].iter().all(|ms| (ms * 1e9).round() as u64 == step(100.0)));
    let summary = project.json("o/summary.json");
    let own = &summary["uncertainty"]["cases"][0];
    assert_eq!((&own["label"], &own["fits"]), (&"all on A".into(), &100.into()));
    for (name, share) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
        let formula =
            percentile(rates.iter().map(|rate| step(*rate) as f64 / 1e9).collect(), share);
        let found = own["bands"]["step_ms"][name].as_f64().unwrap();
        assert!((found / formula - 1.0).abs() < 1e-12, "{name}: {found}, by formula {formula}");
    }
    let csv = project.text("o/results.csv");
    assert!(csv.contains("draws_step_ms_p5") && csv.contains("draws_fit"), "{csv}");
}

#[test]
fn ranges_by_ratio_have_equal_strata_by_ratio() {
    let project =
        project(r#"(gb_per_s(120), assumed("t"), log_range(gb_per_s(20), gb_per_s(320)))"#);
    project.run(&RUN).ends_with(0);
    let columns = draws(&project.text("o/draws.csv"));
    let rates = columns["compute.memory (gb_per_s)"].iter();
    one_in_each_stratum(rates.map(|rate| (rate / 20.0).ln() / 16.0_f64.ln()));
}

#[test]
fn a_planted_flip_is_counted_and_the_number_behind_it_is_named() {
    let project = project(UNIFORM);
    let ran = project.run(&[&RUN[..], &["--report"]].concat()).ends_with(0);
    // As written A is quicker; it is whenever its memory is above B's 100 GB/s, which is where the
    // 50th stratum ends.
    let said: Vec<&str> = ran.stdout.split_whitespace().collect();
    let said = said.join(" ");
    let sentence = "flips all on A beats all on B in 50 of 100 draws and loses in 50: the verdict \
                    flips within the band; it hangs on compute.memory (rank correlation -1.00)";
    assert!(said.contains(sentence), "{said}");
    let summary = project.json("o/summary.json");
    let contests = summary["uncertainty"]["contests"].as_array().unwrap();
    assert_eq!(contests.len(), 2, "two cases, and two machines");
    for contest in contests {
        let count = |key: &str| contest[key].as_u64().unwrap();
        assert_eq!((count("wins"), count("losses"), count("ties")), (50, 50, 0));
        assert_eq!(
            (&contest["flips"], &contest["decides"]),
            (&true.into(), &"compute.memory".into())
        );
        assert!((contest["rank_correlation"].as_f64().unwrap() + 1.0).abs() < 1e-12);
    }
    let page = project.text("o/report.html");
    for piece in ["Uncertainty", "compute.memory", "tiers.hbm.bandwidth", "flips"] {
        assert!(page.contains(piece), "no {piece} on the page");
    }
}

#[test]
fn what_is_drawn_on_one_machine_and_not_on_another_is_told_with_the_machine() {
    let project = project(UNIFORM);
    project.write("hardware-specs/b.ron", machine(r#"(gb_per_s(100), assumed("test"))"#));
    project.run(&RUN).ends_with(0);
    let summary = project.json("o/summary.json");
    let still = summary["uncertainty"]["assumed_without_range"].as_array().unwrap();
    assert!(still.contains(&"compute.memory on B".into()), "{still:?}");
    assert!(!still.contains(&"compute.memory".into()), "{still:?}");
}

#[test]
fn results_are_those_of_a_run_without_draws_and_the_same_for_all_threads() {
    let project = project(UNIFORM);
    project.run(&["run", CASE, "--out", "plain"]).ends_with(0);
    let (plain, mut files) = (project.json("plain/summary.json"), Vec::new());
    for jobs in ["1", "8"] {
        let ran = project.run(&[&RUN[..], &["--jobs", jobs]].concat()).ends_with(0);
        files.push((project.files("o"), ran.stdout));
    }
    assert!(files[0] == files[1], "threads change results");
    let mut drawn = project.json("o/summary.json");
    assert!(drawn["uncertainty"].is_object() && plain["uncertainty"].is_null());
    drawn["uncertainty"] = Value::Null;
    drawn["verdict"] = plain["verdict"].clone();
    let mut plain = plain;
    plain["uncertainty"] = Value::Null;
    assert_eq!(drawn, plain);
    // Another seed is another hypercube.
    project.run(&[&RUN[..], &["--seed", "2"]].concat()).ends_with(0);
    assert_ne!(project.files("o")["draws.csv"], files[0].0["draws.csv"]);
}

#[test]
fn a_number_that_is_set_has_no_range_and_sweeps_have_bands_too() {
    let project = project(UNIFORM);
    let set = ["--set", "hardware.0.compute.memory=gb_per_s(110)"];
    project.run(&[&RUN[..], &set].concat()).ends_with(0);
    let columns = draws(&project.text("o/draws.csv"));
    assert!(!columns.contains_key("compute.memory (gb_per_s)"), "{:?}", columns.keys());
    assert!(columns["step_ms all on A"].iter().all(|ms| (ms * 1e9).round() as u64 == step(110.0)));
    project.edit_scenario(
        "policies: [",
        "sweep: (axes: [(name: \"launch\", path: \"hardware.compute.launch\", values: choices([\
         (\"1 us\", \"us(1)\"), (\"2 us\", \"us(2)\")]))]),\n    policies: [",
    );
    project.run(&["sweep", CASE, "--uncertainty", "20", "--out", "s"]).ends_with(0);
    let summary = project.json("s/summary.json");
    let cases = summary["uncertainty"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    let median = |case: usize| cases[case]["bands"]["step_ms"]["p50"].as_f64().unwrap();
    // The second launch is a microsecond longer for each of the eight ops, in every draw alike.
    assert!((median(1) - median(0) - 8e-3).abs() < 1e-9, "{} {}", median(0), median(1));
}

#[test]
fn what_cannot_be_drawn_is_refused_before_anything_is_written() {
    let project = project(UNIFORM);
    for draws in ["0", "9", "10001", "1e9", "-1", "many"] {
        let refused = project.run(&["run", CASE, &format!("--uncertainty={draws}"), "--out", "o"]);
        refused.ends_with(2).says(&["from 10 to 10000"]);
    }
    let fixed = Project::new();
    let refused = fixed.run(&["run", CASE, "--uncertainty", "20", "--out", "o"]);
    refused.ends_with(2).says(&["none has", "assumed", "range(gb_per_s(20), gb_per_s(45))"]);
    // What a draw makes of the machine must be one that a file could say.
    let watts = r#"idle: (watts(50), assumed("t"), range(watts(40), watts(100))), active: (watts(60), assumed("t")),"#;
    project.edit("hardware-specs/a.ron", "launch:", &format!("{watts}\n        launch:"));
    let refused = project.run(&RUN).ends_with(2);
    let refused =
        refused.says(&["draw ", "of 100 cannot be run", "draws no less than an idle one"]);
    assert!(refused.stderr.contains("narrow the range"), "{}", refused.stderr);
    assert!(!project.path("o").exists() && !fixed.path("o").exists());
}
