//! Statistics of generated traces: made up unless somebody states them, and then said wherever
//! results are.

use crate::common::*;

const FILE: &str = "scenarios/shape.ron";
const SHAPE: &str = r#"Scenario(
    schema: 2,
    about: "modules ranked by statistics, on a small shape",
    hardware: "h100-sxm-pcie5",
    workload: Model(
        card: (family: gpt2, layers: 2, hidden: 64, ffn: 256, heads: 4, vocab: 512, positions: 64),
        precision: bf16,
        mode: train(batch: 1, sequence: 64),
        time: roofline(precision: "bf16"),
    ),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5))),
    ],
    seed: 1,
)
"#;

fn project(statistics: &str) -> Project {
    let project = Project::shipped();
    let from = "time: roofline(precision: \"bf16\"),";
    project.write(FILE, SHAPE.replace(from, &format!("{from} {statistics}")));
    project
}

/// What a run prints, warns of and says of each case.
fn said(project: &Project) -> (String, String, Vec<Value>, String) {
    let ran = project.run(&["run", FILE, "--out", "out"]).ends_with(0);
    let summary = project.json("out/summary.json");
    let results = summary["results"].as_array().expect("a list");
    let words = results.iter().map(|case| case["statistics"].clone()).collect();
    (ran.stdout, ran.stderr, words, project.text("out/latency-vs-memory.svg"))
}

#[test]
fn what_nobody_stated_is_said_in_table_chart_files_and_warnings() {
    let (table, warnings, words, svg) = said(&project(""));
    assert!(table.contains("made up") && svg.contains("made up"), "{table}");
    assert!(warnings.contains("made-up-statistics: workload.statistics"), "{warnings}");
    assert!(warnings.contains("\"adam\"") && !warnings.contains("\"all\""), "{warnings}");
    assert_eq!(words, [Value::Null, Value::from("made up")]);
}

#[test]
fn a_run_whose_policies_use_none_says_nothing() {
    let project = project("");
    let adam = "(name: \"adam\", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5))),";
    project.edit(FILE, adam, "");
    let (table, warnings, words, svg) = said(&project);
    assert!(!table.contains("made up") && !svg.contains("made up"), "{table}");
    assert!(!warnings.contains("made-up-statistics"), "{warnings}");
    assert_eq!(words, [Value::Null]);
}

#[test]
fn a_file_gives_them_and_they_count() {
    let project = project("statistics: csv(\"statistics.csv\"),");
    let file = "scenarios/statistics.csv";
    let homes = |rows: &str| -> String {
        project.write(file, format!("module,adam_m,adam_v\n{rows}*,0.1,0.1\n"));
        let (table, warnings, words, _) = said(&project);
        assert!(!table.contains("made up") && !warnings.contains("made-up"), "{warnings}");
        assert_eq!(words[1], "given");
        project.text("out/tier_hints.json")
    };
    let (head, first) = (homes("lm_head,9,9\n*.wte,9,9\n"), homes("*.h.0.*,9,9\n"));
    let is_home = "\"transformer.h.0.mlp.c_fc\": \"HBM\"";
    assert!(first.contains(is_home), "{first}");
    assert!(!head.contains(is_home) || head != first, "{head}");
    project.write(file, "module,adam_m,adam_v\n*.h.*,9,9\n");
    project.run(&["run", FILE]).ends_with(2).says(&["has no row for a module", "add a row"]);
    project.write(file, "module,adam_m,adam_v\n*,-1,x\n");
    project.run(&["run", FILE]).ends_with(2).says(&["adam_m", "adam_v is a finite number"]);
}

#[test]
fn drawn_ones_follow_their_seed_and_say_so() {
    let hints = |statistics: &str| {
        let project = project(statistics);
        let (table, warnings, words, svg) = said(&project);
        assert!(table.contains("drawn from a seed") && svg.contains("synthetic"), "{table}");
        assert!(!warnings.contains("made-up"), "{warnings}");
        assert_eq!(words[1], "synthetic");
        project.text("out/tier_hints.json")
    };
    let one = hints("statistics: synthetic(1),");
    assert_eq!(one, hints("statistics: synthetic(1),"));
    assert_ne!(one, hints("statistics: synthetic(2),"));
}

#[test]
fn without_any_such_a_policy_is_refused_with_the_remedy() {
    let project = project("statistics: none,");
    let ran = project.run(&["run", FILE, "--out", "out"]).ends_with(2);
    ran.says(&["shape.ron:13:", "\"adam\" ranks by statistics", "csv(", "synthetic(seed)"]);
    assert!(project.files("out").is_empty());
}
