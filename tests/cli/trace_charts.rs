//! `trace info --out`: charts of a trace and of requests, and nothing where nobody asks for them.

use crate::common::*;

fn charts(names: &[&str]) -> Vec<String> {
    let mut all: Vec<String> =
        names.iter().flat_map(|name| [format!("{name}.png"), format!("{name}.svg")]).collect();
    all.push("trace-info.json".to_owned());
    all.sort();
    all
}

#[test]
fn a_trace_has_charts_where_a_folder_is_named_for_them() {
    let project = Project::new();
    let plain = project.run(&["trace", "info", "traces/tiny"]).ends_with(0);
    assert!(!project.path("out").exists(), "nothing was asked for");
    let ran = project.run(&["trace", "info", "traces/tiny", "--out", "out/tiny"]).ends_with(0);
    let files = project.names("out/tiny");
    assert_eq!(files, charts(&["alive", "reuse-distances", "working-set"]));
    assert!(ran.stdout.starts_with(&plain.stdout), "{}", ran.stdout);
    ran.shows(&["written to out/tiny: trace-info.json, alive.svg, alive.png, working-set.svg"]);
    let json = project.run(&["trace", "info", "traces/tiny", "--format", "json", "--out", "b"]);
    let json = json.ends_with(0);
    assert_eq!(json.stdout, project.text("b/trace-info.json"));
    for file in files {
        let same = |folder: &str| fs::read(project.path(folder).join(&file)).unwrap();
        assert!(same("out/tiny") == same("b"), "{file} is the same again");
    }
    for (chart, texts) in [
        ("alive", &["tiny: bytes alive", "bytes of objects that are alive (", "weight"][..]),
        (
            "working-set",
            &["tiny: working set", "ops in a row", "most, wherever they begin", "mean"],
        ),
        ("reuse-distances", &["tiny: reuse distances", "bytes of other objects used in between ("]),
    ] {
        let svg = project.text(&format!("b/{chart}.svg"));
        for text in texts {
            assert!(svg.contains(text), "{chart}: {text}");
        }
    }
}

#[test]
fn copies_of_a_recording_have_a_chart_by_road() {
    let project = Project::new();
    let copy = |id: u64, name: &str, bytes: u64, us: u64| {
        let at = 1000 * id;
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"{name}","pid":0,"tid":7,"ts":{at},"dur":{us},"args":{{"correlation":{id},"stream":7,"device":0,"bytes":{bytes}}}}}"#
        )
    };
    let road = |first: u64, name: &str, rate: u64| {
        let one = |id: u64| copy(first + id, name, 1 << (16 + id), 5 + (1 << (16 + id)) / rate);
        (0..10).map(one).collect::<Vec<_>>()
    };
    let there = road(1, "Memcpy HtoD (Pinned -> Device)", 25_000);
    let back = road(20, "Memcpy DtoH (Device -> Pageable)", 5_000);
    let text = format!("{{\"traceEvents\": [{}]}}", [there, back].concat().join(","));
    project.write("copies.json", &text);
    project.run(&["trace", "info", "copies.json", "--out", "out"]).ends_with(0);
    assert_eq!(project.names("out"), charts(&["copies"]));
    let svg = project.text("out/copies.svg");
    for text in ["copies: copies", "host-&gt;device pinned", "device-&gt;host pageable", "GB/s"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn requests_have_charts_of_arrivals_and_lengths() {
    let project = Project::new();
    let row = |at: u64| {
        let (input, output) = (512 + at % 900, 1 + at % 70);
        let ids = if input > 512 { "1, 2" } else { "1" };
        let at = at * 137;
        format!(
            "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {output}, \
             \"hash_ids\": [{ids}]}}\n"
        )
    };
    project.write("calls.jsonl", (0..400).map(row).collect::<String>());
    project.run(&["trace", "info", "calls.jsonl"]).ends_with(0);
    assert!(!project.path("out").exists(), "nothing was asked for");
    let ran = project.run(&["trace", "info", "calls.jsonl", "--out", "out"]).ends_with(0);
    ran.shows(&["400 requests within", "written to out: trace-info.json, arrivals.svg"]);
    assert_eq!(project.names("out"), charts(&["arrivals", "lengths"]));
    let svg = project.text("out/arrivals.svg");
    assert!(svg.contains("requests of every 500 ms, per second"), "{svg}");
    assert!(project.text("out/lengths.svg").contains("prompts"));
}

#[test]
fn a_device_is_asked_of_recordings_that_have_several() {
    let project = Project::new();
    project
        .run(&["trace", "info", "traces/tiny", "--device", "1"])
        .ends_with(2)
        .says(&["--device 1: the folder of a trace is of one device; leave --device out"]);
    let entry = |action: &str, at: u64| {
        format!("{{\"action\": \"{action}\", \"addr\": {at}, \"size\": 512, \"time_us\": {at}}}")
    };
    let text = format!(
        "{{\"device_traces\": [[{}], [{}, {}]]}}",
        entry("alloc", 512),
        entry("alloc", 512),
        entry("free_completed", 4096)
    );
    project.write("a.json", &text);
    let longest = project.run(&["trace", "info", "a.json"]).ends_with(0);
    longest.shows(&["2 entries of device 1", "device 0 with 1 entries, left out: --device 0"]);
    let other = project.run(&["trace", "import", "a.json", "--device", "0", "--out", "made"]);
    other.ends_with(0).shows(&["1 entries of device 0"]);
    project.run(&["allocator", "a.json"]).ends_with(2).says(&["has a list \"segments\""]);
}
