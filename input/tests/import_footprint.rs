//! Memory snapshots and memory timelines as traces: real and generated files against sums that are
//! made here or in Python, and small ones for single rules.

use crate::files::folder;
use crate::import_profiler::real;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::import::any::{import_device, import_file};
use tiersim_input::import::footprint::{Imported, import_snapshot, import_timeline};
use tiersim_input::import::profiler::Gaps;
use tiersim_input::trace::info;
use tiersim_models::ids::OpId;
use tiersim_models::workload::{Known, Mode, ObjectKind, Phase};

const NS: u64 = 1000;

fn sound(imported: Imported) -> Imported {
    assert_eq!(imported.trace.problems(), []);
    // What is alive at most is what the events sum to.
    assert_eq!(info(&imported.trace).peak.bytes, imported.account.peak);
    imported
}

fn timeline(name: &str, text: &str) -> PathBuf {
    let path = folder(name).join("t.raw.json");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_real_timeline_is_as_counted() {
    let Some(path) = real("kineto/hta_memory_analysis_memory_timeline.raw.gz") else { return };
    let Imported { trace, account } = sound(import_timeline(&path).unwrap());
    assert_eq!(account.rows, 16_845);
    assert_eq!((account.before.0, account.made.0), (645, 3_345));
    assert_eq!(account.before.1, 332_060_904);
    assert_eq!((account.changes, account.peak), (4_755, 3_082_832_104));
    assert_eq!((account.left, account.empty), ((645, 332_060_904), 0));
    assert_eq!(trace.objects.len(), 645 + 3_345);
    // One op for each event, and one for each object from before that is taken back.
    let gone = trace.objects[..645].iter().filter(|object| !object.persistent).count();
    assert_eq!(trace.ops.len(), gone + 3_345 + 4_755 + 3_345);
    let span: u64 = trace.ops.iter().filter_map(|op| op.duration).map(|span| span.ps()).sum();
    assert_eq!(span, (1_696_966_048_083_248_105 - 1_696_966_047_096_061_874) * NS);
    assert_eq!(trace.meta.recorded.when, "2023-10-10");
}

#[test]
fn a_small_timeline_becomes_the_trace_that_it_describes() {
    let text = "[[-1, 1, 1000, 7], [-1, 1, 300, 0], [100, 2, 50, 7], [110, 3, -50, 7], [110, 3, 50, 4],\n\
                [120, 2, 50, 4], [150, 4, -50, 4], [170, 4, -1000, 7], [170, 2, 0, 3]]";
    let imported = import_timeline(&timeline("timeline-small", text)).unwrap();
    let Imported { trace, account } = sound(imported);
    let names: Vec<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["unknown 0", "parameter 1", "unknown 2", "activation 3"]);
    let kinds: Vec<ObjectKind> = trace.objects.iter().map(|object| object.kind).collect();
    use ObjectKind::{Activation, State, Weight};
    assert_eq!(kinds, [State, Weight, Activation, Activation]);
    let persistent: Vec<bool> = trace.objects.iter().map(|object| object.persistent).collect();
    assert_eq!(persistent, [false, true, false, false]);
    // Of two of 50 bytes and one category the younger is taken back, behind op 4.
    let freed: Vec<_> = trace.objects.iter().map(|object| object.freed_after).collect();
    assert_eq!(freed, [Some(OpId(5)), None, Some(OpId(5)), Some(OpId(4))]);
    let ops: Vec<(&str, u64)> =
        trace.ops.iter().map(|op| (op.name.as_str(), op.duration.unwrap().ps() / NS)).collect();
    assert_eq!(
        ops,
        [
            ("before the file begins", 0),
            ("new unknown", 10),
            ("change activation", 10),
            ("new activation", 30),
            ("free activation", 20),
            ("free unknown", 0),
        ]
    );
    let modes: Vec<(u32, Mode)> = trace.uses.iter().map(|one| (one.object.0, one.mode)).collect();
    use Mode::{Read, ReadWrite, Write};
    assert_eq!(modes, [(0, Write), (2, Write), (2, ReadWrite), (3, Write), (3, Read), (0, Read)]);
    assert_eq!(trace.uses[0].known, Known::Unknown);
    assert_eq!((account.peak, account.empty), (1_400, 1));
    assert_eq!(account.left, (2, 350));
}

fn snapshot(name: &str, text: &str) -> PathBuf {
    let path = folder(name).join("s.json");
    fs::write(&path, text).unwrap();
    path
}

/// A frame of each part of PyTorch.
fn frame(file: &str, function: &str) -> String {
    format!(r#"{{"filename": "{file}", "name": "{function}", "line": 7}}"#)
}

/// An entry of the history.
fn entry(action: &str, at: u64, size: u64, time: u64, frames: &[String]) -> String {
    let frames = frames.join(", ");
    format!(
        r#"{{"action": "{action}", "addr": {at}, "size": {size}, "stream": 0, "time_us": {time}, "frames": [{frames}]}}"#
    )
}

#[test]
fn a_small_snapshot_becomes_the_trace_that_it_describes() {
    let own = frame("/home/me/model.py", "forward");
    let forward = [own, frame("/x/torch/nn/modules/module.py", "_call_impl")];
    let backward = [frame("/x/torch/autograd/graph.py", "_engine_run_backward")];
    let optimizer = [frame("/x/torch/optim/adamw.py", "_init_group")];
    let moved = [frame("/x/torch/nn/modules/module.py", "_apply")];
    let entries = [
        entry("alloc", 4096, 700, 1_000_000, &moved),
        entry("alloc", 8192, 100, 1_000_010, &forward),
        entry("free_requested", 8192, 100, 1_000_030, &backward),
        entry("alloc", 16_384, 40, 1_000_040, &backward),
        entry("free_completed", 8192, 100, 1_000_041, &backward),
        entry("alloc", 8192, 30, 1_000_050, &optimizer),
        // Its allocation is older than the history.
        entry("free_requested", 65_536, 2000, 1_000_060, &[]),
        entry("free_completed", 65_536, 2000, 1_000_060, &[]),
    ];
    let block = |at: u64, size: u64| {
        format!(
            r#"{{"address": {at}, "size": 1024, "requested_size": {size}, "state": "active_allocated"}}"#
        )
    };
    let blocks = [block(4096, 700), block(8192, 30), block(16_384, 40), block(32_768, 900)];
    let text = format!(
        r#"{{"segments": [{{"device": 0, "address": 4096, "total_size": 131072, "blocks": [{}]}}], "device_traces": [[{}]]}}"#,
        blocks.join(", "),
        entries.join(", ")
    );
    let Imported { trace, account } =
        sound(import_snapshot(&snapshot("snapshot-small", &text), None).unwrap());
    let objects: Vec<(&str, u64, ObjectKind)> = trace
        .objects
        .iter()
        .map(|object| (object.name.as_str(), object.bytes.get(), object.kind))
        .collect();
    use ObjectKind::{Activation, Gradient, Optimizer, State, Weight};
    assert_eq!(
        objects,
        [
            ("memory 0", 900, State),
            ("memory 1", 2000, State),
            ("_apply (module.py:7) 2", 700, Weight),
            ("forward (model.py:7) 3", 100, Activation),
            ("_engine_run_backward (graph.py:7) 4", 40, Gradient),
            ("_init_group (adamw.py:7) 5", 30, Optimizer),
        ]
    );
    // The op at 40 us runs while the memory of the one before is still in use.
    assert_eq!(account.peak, 2900 + 700 + 100 + 40);
    assert_eq!(trace.objects[3].freed_after, Some(OpId(4)));
    assert_eq!((account.before, account.left), ((2, 2900), (4, 1670)));
    assert_eq!((account.contradictions, account.timeless), (0, 0));
    let phases: Vec<Phase> = trace.ops.iter().map(|op| op.phase).collect();
    use Phase::{Backward, Forward, Other};
    assert_eq!(phases, [Other, Other, Forward, Backward, Backward, Phase::Optimizer, Other]);
    let times: Vec<u64> = trace.ops.iter().map(|op| op.at.unwrap().ps() / 1_000_000).collect();
    assert_eq!(times, [0, 0, 10, 30, 40, 50, 60]);
}

/// Two devices, of which the file has the history alone.
fn history_of_two() -> String {
    let first = [
        // Neither was given here; of the second only that it is asked to be taken back.
        entry("free_requested", 65_536, 2000, 10, &[]),
        entry("free_completed", 65_536, 2000, 10, &[]),
        entry("alloc", 4096, 700, 20, &[]),
        entry("free_requested", 8192, 300, 30, &[]),
        entry("alloc", 65_536, 50, 40, &[]),
    ];
    let second = [entry("alloc", 4096, 9, 10, &[]), entry("free_requested", 4096, 9, 20, &[])];
    format!(r#"{{"device_traces": [[], [{}], [{}]]}}"#, first.join(", "), second.join(", "))
}

#[test]
fn a_history_alone_becomes_a_trace_and_says_what_it_cannot_know() {
    let path = snapshot("history-alone", &history_of_two());
    let Imported { trace, account } = sound(import_snapshot(&path, None).unwrap());
    assert_eq!((account.before, account.only_taken_back), ((2, 2300), 2));
    assert_eq!((account.made, account.contradictions), ((2, 750), 0));
    // The stream that still works on the 300 bytes holds them to the end.
    assert_eq!((account.left, account.peak), ((3, 1050), 2300));
    assert_eq!((account.has_segments, &account.others), (false, &vec![(2, 2)]));
    assert_eq!(trace.meta.recorded.on, "device 1");
    let words = account.to_string();
    for wanted in [
        "seen: 5 entries of device 1",
        "    2 of them only because they are taken back, and never given\n",
        "  what was there before and stays: the file lists no segments\n",
        "  device 2 with 2 entries, left out: --device 2\n",
    ] {
        assert!(words.contains(wanted), "{words}\nwanted {wanted}");
    }
    let second = sound(import_snapshot(&path, Some(2)).unwrap()).account;
    assert_eq!((second.before, second.made, second.others), ((0, 0), (1, 9), vec![(1, 5)]));
    let error = import_snapshot(&path, Some(0)).unwrap_err().to_string();
    let wanted = "device 0 has a history (found none in device_traces; devices 1, 2 have)";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn what_is_no_recording_of_several_devices_takes_none() {
    let rows = timeline("timeline-device", "[[-1, 1, 1000, 7]]");
    let error = import_device(&rows, Gaps::Keep, Some(1)).unwrap_err().to_string();
    assert!(
        error.contains("a recording of several devices is") && error.contains("leave --device")
    );
    let trace = import_device(&snapshot("devices", &history_of_two()), Gaps::Keep, Some(2));
    assert_eq!(trace.unwrap().trace.meta.recorded.on, "device 2");
}

/// `tests/count_memory.py` counts the same of each.
#[test]
fn snapshots_of_the_second_implementation_have_the_bytes_that_their_entries_sum_to() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/snapshots");
    for (name, before, made, peak) in [
        ("train.pickle.gz", (24, 125_861_888), (488, 1_351_429_728), 268_566_564),
        ("tiny.pickle.gz", (0, 0), (6, 39_341_903), 39_325_983),
        ("tiny.json", (0, 0), (6, 39_341_903), 39_325_983),
        ("ring-buffer.pickle.gz", (103, 453_520_797), (192, 1_098_116_483), 467_786_226),
    ] {
        let account = sound(import_snapshot(&folder.join(name), None).unwrap()).account;
        assert_eq!((account.before, account.made, account.peak), (before, made, peak), "{name}");
    }
}

/// What other calls of PyTorch write, which does not say which memory is whose.
#[test]
fn other_forms_are_refused_with_the_call_that_writes_this_one() {
    let write = |name: &str, text: &str| {
        let path = folder("footprint-forms").join(name);
        fs::write(&path, text).unwrap();
        import_file(&path, Gaps::Keep).unwrap_err().to_string()
    };
    let raw = "export_memory_timeline(\"NAME.raw.json.gz\")";
    let sums = write("sums.json", "[[1, 2, 3], [[0, 0], [1, 1], [2, 2]]]");
    assert!(
        sums.contains("a raw memory timeline is a list of rows") && sums.contains(raw),
        "{sums}"
    );
    let page = write("page.html", "<html><head><title>Memory</title></head></html>");
    assert!(page.contains("this is a page") && page.contains(raw), "{page}");
    let segments = r#"[{"device": 0, "address": 1, "total_size": 2, "segment_type": "small"}]"#;
    let list = write("segments.json", segments);
    assert!(list.contains("_dump_snapshot(path)"), "{list}");
}
