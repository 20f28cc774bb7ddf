//! `trace memory`, and the lines of `run --log steps`.

use crate::common::trace_text::TraceText;
use crate::common::*;

/// Five steps of an op that makes what lives for its step, and one that makes 1000 B for ever.
fn leaking() -> TraceText {
    let mut objects = "id,name,kind,bytes,persistent,freed_after\n".to_owned();
    let mut ops = "id,step,phase,name\n".to_owned();
    let mut uses = "op,object,mode\n".to_owned();
    for step in 0..5 {
        let (out, left) = (2 * step, 2 * step + 1);
        objects += &format!("{out},out{step},activation,512,false,\n");
        objects += &format!("{left},left{step},activation,1000,false,9\n");
        ops += &format!("{out},{step},forward,mm\n{left},{step},forward,clone\n");
        uses += &format!("{out},{out},w\n{left},{out},r\n{left},{left},w\n");
    }
    TraceText::of(&objects, &ops, &uses)
}

#[test]
fn a_planted_leak_is_named_and_can_be_denied() {
    let project = Project::empty();
    leaking().write(&project.path("leak"));
    project.edit("leak/trace.ron", "steps: 1", "steps: 5");
    let asked = ["trace", "memory", "leak", "--allocator", "pool"];
    let ran = project.run(&asked).ends_with(0);
    ran.shows(&["leak", "1000 B", "per step by clone since step 0: 4 objects", "first left0"]);
    project.run(&[&asked[..], &["--deny-leaks"]].concat()).ends_with(1).says(&["left0", "leaked"]);
    let found = project.run(&[&asked[..], &["--format", "json"]].concat()).ends_with(0).json();
    // Five blocks of 1024 B, and one of 512 B that comes and goes.
    assert_eq!(found["least_pool"]["bytes"], 5 * 1024 + 512);
    assert_eq!(found["least_pool"]["proof"], "floor");
    assert_eq!(found["leaks"][0]["bytes_per_step"], 1000);
}

#[test]
fn no_leak_is_reported_on_what_ships() {
    let project = Project::shipped();
    for trace in ["gpt2-infer-cpu", "gpt2-train-cpu", "gpt2-train-h200", "tiny-llama-cpu"] {
        let path = format!("traces/{trace}");
        let asked = ["trace", "memory", &path, "--deny-leaks", "--format", "json"];
        let found = project.run(&asked).ends_with(0).json();
        assert_eq!(found["leaks"].as_array().map(Vec::len), Some(0), "{trace}");
    }
}

#[test]
fn what_cannot_be_asked_of_an_allocator_is_refused() {
    let project = Project::empty();
    leaking().write(&project.path("leak"));
    project.edit("leak/trace.ron", "steps: 1", "steps: 5");
    let ask = |more: &[&str]| project.run(&[&["trace", "memory", "leak"][..], more].concat());
    ask(&["--allocator", "pools"]).ends_with(2).says(&["--allocator:1:1", "pools", "pool"]);
    ask(&["--allocator", "buddy(least: b(3))"])
        .ends_with(2)
        .says(&["a power of two", "--allocator"]);
    ask(&["--compact-by", "total"]).ends_with(2).says(&["cannot move its blocks", "pool"]);
    let small = ["--allocator", "pool", "--capacity", "2KiB"];
    ask(&small).ends_with(1).says(&["the least pool is 5.5 KiB"]);
}

#[test]
fn every_step_has_a_line() {
    let project = Project::shipped();
    let scenario = "scenarios/tiny-llama-lru.ron";
    let ran = project.run(&["run", scenario, "--log", "steps", "--out", "o"]).ends_with(0);
    let ran = ran.shows(&["steps of LRU 50 %, memory of hbm", "pressure", "fragmented", "stall"]);
    assert_eq!(ran.stdout.matches("steps of ").count(), 4, "one list for every case");
    let both = ["run", scenario, "--log", "steps", "--format", "json"];
    project.run(&both).ends_with(2).says(&["--log steps", "leave one of them out"]);
}
