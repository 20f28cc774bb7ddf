//! Traces that go out as files of other programs and come back, and traces side by side.

use crate::common::*;

#[test]
fn an_exported_trace_is_the_trace_again() {
    let project = Project::shipped();
    let export = ["trace", "export", "traces/tiny-train", "--out", "made/tiny.0.et"];
    project.run(&export).ends_with(0).shows(&[
        "0 collectives, 0 sends",
        "0 loads of 0 bytes, 0 stores of 0 bytes",
        "written to made/tiny.0.et",
    ]);
    let bytes = project.files("made");
    project.run(&export).ends_with(0);
    assert_eq!(project.files("made"), bytes);
    project.run(&["trace", "import", "made/tiny.0.et", "--out", "T"]).ends_with(0).shows(&[
        "nodes that tiersim wrote",
        "kept: every op, object and use as it was, and nothing is inferred",
    ]);
    for other in ["made/tiny.0.et", "T"] {
        let ran = project.run(&["trace", "diff", "traces/tiny-train", other]).ends_with(0);
        assert!(ran.stdout.contains("the same: "), "{}", ran.stdout);
        assert!(!ran.stdout.contains("of themselves"), "{}", ran.stdout);
    }
    // Tables are the same text by either way.
    project.run(&["trace", "info", "made/tiny.0.et", "--tables", "A"]).ends_with(0);
    project.run(&["trace", "info", "traces/tiny-train", "--tables", "B"]).ends_with(0);
    assert_eq!(project.files("A"), project.files("B"));
    project.run(&["trace", "diff", "A", "traces/tiny-train"]).ends_with(0);
}

#[test]
fn a_run_of_an_exported_trace_has_the_results_of_the_trace() {
    let project = Project::new();
    project.run(&["trace", "export", "traces/tiny", "--out", "tiny.et"]).ends_with(0);
    project.run(&["run", CASE, "--out", "A"]).ends_with(0);
    project.run(&["run", CASE, "--trace", "tiny.et", "--out", "B"]).ends_with(0);
    let [a, b] = ["A", "B"].map(|out| project.json(&format!("{out}/summary.json")));
    assert_eq!(a["results"], b["results"]);
}

#[test]
fn a_generated_step_with_offload_comes_back() {
    let project = Project::empty();
    let generate = "trace generate --model gpt2 --train --sequence 256 --data 8 --stage 3 --host-update 1000 --out T";
    project.run(&generate.split(' ').collect::<Vec<&str>>()).ends_with(0);
    let ran = project.run(&["trace", "export", "T", "--out", "zero.0.et"]).ends_with(0);
    let ran = ran.shows(&["pg_name \"0\": 8x1 ranks (in a server x servers)"]);
    assert!(
        !ran.stdout.contains(" 0 loads") && !ran.stdout.contains(" 0 stores"),
        "{}",
        ran.stdout
    );
    project.run(&["trace", "diff", "T", "zero.0.et"]).ends_with(0);
    // Without what Chakra has no word for it is another trace, and still one.
    project.run(&["trace", "export", "T", "--plain", "--out", "plain.0.et"]).ends_with(0);
    project.run(&["trace", "info", "plain.0.et"]).ends_with(0).shows(&["all-gather", "8x1"]);
    let ran = project.run(&["trace", "diff", "T", "plain.0.et", "--top", "2"]).ends_with(1);
    ran.shows(&["they differ in ", "(--top)"]).says(&["they differ in "]);
}

#[test]
fn differences_are_told_to_programs_too() {
    let project = Project::shipped();
    let diff = ["trace", "diff", "traces/gpt2-train-cpu", "traces/gpt2-infer-cpu", "--top", "3"];
    let text = project.run(&diff).ends_with(1);
    assert!(text.stdout.lines().count() < 90, "{}", text.stdout);
    let json = project.run(&[&diff[..], &["--format", "json"]].concat()).ends_with(1).json();
    assert_eq!((&json["schema"], &json["equal"]), (&1.into(), &false.into()));
    assert_eq!((&json["a"], &json["b"]), (&diff[2].into(), &diff[3].into()));
    assert!(text.stdout.contains(json["verdict"].as_str().unwrap()));
    for list in ["ops", "objects", "steps"] {
        assert_eq!(json[list]["rows"].as_array().unwrap().len(), 3, "{list}");
        assert!(json[list]["left_out"].as_u64().unwrap() > 0, "{list}");
    }
    // Ops are in one of them or in both: counts add up to those of `trace info`.
    let info =
        |trace| project.run(&["trace", "info", trace, "--format", "json"]).ends_with(0).json();
    for (trace, side, only) in [(diff[2], "a", "only_a"), (diff[3], "b", "only_b")] {
        let ops = info(trace)["ops"].as_u64().unwrap();
        let figures = json["figures"].as_array().unwrap();
        let of = figures.iter().find(|one| one["of"] == "" && one["what"] == "ops").unwrap();
        assert_eq!(of[side].as_u64(), Some(ops));
        assert!(json["ops"][only].as_u64().unwrap() <= ops);
    }
}

#[test]
fn what_cannot_be_written_or_read_is_said_and_nothing_is_left() {
    let project = Project::new();
    project.write("no.et", b"\x00\x02\x08");
    let before = project.files("");
    let into = ["trace", "export", "traces/tiny", "--out", "traces"];
    project.run(&into).ends_with(2).says(&["traces: cannot write"]);
    for args in [
        &["trace", "export", CASE, "--out", "x.et"][..],
        &["trace", "export", "no.et", "--out", "x.et"],
        &["trace", "diff", "traces/tiny", CASE],
        &["trace", "diff", "nothing", "traces/tiny"],
        &["trace", "diff", "traces/tiny"],
        &["trace", "export", "traces/tiny"],
    ] {
        project.run(args).ends_with(2);
    }
    assert_eq!(project.files(""), before);
}
