//! Traces of the PyTorch profiler: real files against counts made in Python beforehand, and small
//! ones written here for single rules.
//!
//! The real files lie in `../shared/data` beside the checkout; where they are not there, the test
//! says so and has passed. `tests/count_profiler_trace.py` counts them again.

use crate::round_trips::is_what_is_read_back;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::import::profiler::{Account, Gaps, Imported, import_joined, import_profiler};
use tiersim_input::trace::info;
use tiersim_models::workload::{Known, Mode, ObjectKind, Phase, Trace, Unit};

/// A real file, if it is there.
pub(crate) fn real(name: &str) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");
    let path = Path::new(root).join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("{} is not there: nothing is tested", path.display());
    None
}

fn imported(path: &Path, gaps: Gaps) -> Imported {
    let imported = import_profiler(path, gaps).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.problems(), []);
    imported
}

/// When each op ends if it waits for nothing but its stream and its edges, and the last of them.
fn played(trace: &Trace) -> (Vec<u64>, u64) {
    let mut streams = vec![0u64; 1 << 16];
    let mut ends = Vec::with_capacity(trace.ops.len());
    for op in &trace.ops {
        let after = op.after.iter().map(|id| ends[id.index()]);
        let start = after.chain([streams[usize::from(op.stream)]]).max().unwrap_or(0);
        if op.unit == Unit::Device {
            assert_eq!(Some(start), op.at.map(|at| at.ps()), "{}", op.name);
        }
        let end = start + op.duration.map_or(0, |span| span.ps());
        streams[usize::from(op.stream)] = end;
        ends.push(end);
    }
    let last = ends.iter().copied().max().unwrap_or(0);
    (ends, last)
}

fn kernels(account: &Account) -> (u64, u64) {
    (account.kernels.0, account.kernels.1)
}

/// How many, and of how many bytes, by a part of the name.
fn copies(account: &Account, part: &str) -> (u64, u64) {
    let of = account.copies.iter().filter(|(name, _)| name.contains(part));
    of.fold((0, 0), |sum, (_, (count, bytes, _))| (sum.0 + count, sum.1 + bytes))
}

const US: u64 = 1_000_000;

#[test]
fn a_real_training_with_memory_events_is_as_counted() {
    let Some(path) = real("kineto/hta_df_index_resolver.json.gz") else { return };
    let dropped = imported(&path, Gaps::Drop);
    let account = &dropped.account;
    assert_eq!(account.events, 216_092);
    assert_eq!(kernels(account), (19_370, 977_859 * US));
    assert_eq!(copies(account, "Memcpy").0, 2_040);
    assert_eq!(copies(account, "Memset").0, 880);
    assert_eq!(account.objects, (13_385, 52_469_120_000));
    assert_eq!((account.lost, account.elsewhere, account.sum_gaps, account.between), (0, 0, 0, 0));
    assert_eq!(account.steps, 5);
    assert_eq!(account.parameters, (404, 1_093_771_264));
    assert_eq!(account.gradients, 1_093_771_264);
    assert_eq!(account.unknown, 4_096_614_400 - 2 * 1_093_771_264);
    assert_eq!(account.busy, 1_000_613 * US);
    let device = |trace: &Trace| trace.ops.iter().filter(|op| op.unit == Unit::Device).count();
    assert_eq!(device(&dropped.trace), 22_290);
    // 200.123 ms a step, and 346.593 ms with the gaps.
    assert_eq!(played(&dropped.trace).1, 1_000_613 * US);
    let kept = imported(&path, Gaps::Keep);
    assert_eq!(played(&kept.trace).1, 1_732_965 * US);
    assert_eq!(kept.account.gaps, (1_732_965 - 1_000_613) * US);
    for trace in [&dropped.trace, &kept.trace] {
        assert_eq!(info(trace).peak.bytes, 6_629_508_096);
    }
    // Every step reads the first parameter forward and backward, and updates it.
    let trace = &kept.trace;
    let first = trace.objects.iter().position(|object| object.kind == ObjectKind::Weight).unwrap();
    let mut steps = [[0; 3]; 5];
    for op in &trace.ops {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let phase = match op.phase {
            Phase::Forward => 0,
            Phase::Backward => 1,
            _ => 2,
        };
        let used = uses.iter().any(|one| one.object.index() == first);
        steps[op.step as usize - 2][phase] += u32::from(used);
    }
    assert!(steps.iter().flatten().all(|&uses| uses > 0), "{steps:?}");
}

#[test]
fn real_traces_without_memory_events_are_as_counted() {
    let cases = [
        (
            "kineto/hta_critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
            (79, 10_692 * US),
            ("HtoD", (16, 244_403_360)),
        ),
        (
            "kineto/hta_amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
            (14, 110_881_000),
            ("HtoD", (2, 5_120)),
        ),
        ("execution-trace/linear_kineto.json.gz", (8_716, 369_343 * US), ("HtoD", (0, 0))),
        (
            "execution-trace/resnet_kineto.json.gz",
            (9_628, 4_103_141 * US),
            ("HtoD", (61, 2_312_140_804)),
        ),
    ];
    for (name, wanted, (part, copied)) in cases {
        let Some(path) = real(name) else { continue };
        for gaps in [Gaps::Keep, Gaps::Drop] {
            let Imported { trace, account } = imported(&path, gaps);
            assert_eq!(kernels(&account), wanted, "{name}");
            assert_eq!(copies(&account, part), copied, "{name}");
            let whole = account.busy + if gaps == Gaps::Keep { account.gaps } else { 0 };
            assert_eq!(played(&trace).1, whole, "{name}");
        }
    }
    let Some(path) = real("execution-trace/resnet_kineto.json.gz") else { return };
    let account = imported(&path, Gaps::Keep).account;
    assert_eq!(copies(&account, "DtoD"), (62, 46_758_048));
    assert_eq!(account.steps, 30);
}

#[test]
fn a_real_training_on_a_cpu_is_as_counted() {
    let Some(path) = real("gpt2-train-cpu/kineto.pt.trace.json.gz") else { return };
    let Imported { trace, account } = imported(&path, Gaps::Keep);
    assert_eq!(account.events, 32_335);
    assert_eq!(account.objects, (5_334, 8_114_335_966));
    assert_eq!(account.peak, 943_733_032);
    assert_eq!(account.steps, 2);
    // What the allocator gave is what lives in the trace beside the state, which was there before.
    let state = trace.objects.iter().filter(|object| object.persistent);
    let state: u64 = state.map(|object| object.bytes.get()).sum();
    assert_eq!(info(&trace).peak.bytes - state, 943_733_032);
}

#[test]
fn an_imported_trace_is_written_and_read_back_equal() {
    let Some(path) = real("kineto/hta_df_index_resolver.json.gz") else { return };
    is_what_is_read_back("a real trace", &imported(&path, Gaps::Drop).trace);
}

/// Imports a text.
pub(crate) fn of_text(name: &str, text: &str) -> Result<Imported, String> {
    let folder = std::env::temp_dir().join(format!("tiersim-profiler-text-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, text).unwrap();
    let result = import_profiler(&path, Gaps::Keep);
    fs::remove_file(&path).unwrap();
    let shown = folder.display().to_string() + "/";
    result.map_err(|error| error.to_string().replace(&shown, ""))
}

/// A launch and its kernel.
pub(crate) fn kernel(
    id: u32,
    thread: u32,
    launched: f64,
    stream: u32,
    start: f64,
    span: f64,
) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{thread},"ts":{launched},"dur":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"k{id}","pid":0,"tid":{stream},"ts":{start},"dur":{span},"args":{{"correlation":{id},"stream":{stream},"device":0}}}}"#
    )
}

fn memory(index: u32, thread: u32, at: f64, address: u64, bytes: i64, total: i64) -> String {
    format!(
        r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":{thread},"ts":{at},"args":{{"Ev Idx":{index},"Device Type":1,"Device Id":0,"Addr":{address},"Bytes":{bytes},"Total Allocated":{total}}}}}"#
    )
}

pub(crate) fn document(events: &[String]) -> String {
    format!("{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n]}}", events.join(",\n"))
}

#[test]
fn memory_lives_from_the_next_launch_to_the_last_before_it_is_given_back() {
    let events = [
        kernel(1, 7, 10.0, 20, 100.0, 10.0),
        // Out of order in the file, and two at the same time that only `Ev Idx` orders.
        memory(3, 7, 15.0, 0xA0, -512, 1024),
        memory(2, 7, 15.0, 0xB0, 1024, 1536),
        memory(1, 7, 5.0, 0xA0, 512, 512),
        kernel(2, 8, 16.0, 20, 120.0, 10.0),
        kernel(3, 7, 20.0, 20, 140.0, 10.0),
        memory(4, 7, 30.0, 0xB0, -1024, 0),
    ];
    let Imported { trace, account } = of_text("lives", &document(&events)).unwrap();
    assert_eq!(account.objects, (2, 1536));
    assert_eq!(account.peak, 1536);
    let ops: Vec<&str> = trace.ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(ops, ["k1", "gap", "k2", "gap", "k3"]);
    let births: Vec<(u32, Mode, usize)> = trace
        .ops
        .iter()
        .enumerate()
        .flat_map(|(row, op)| {
            let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
            uses.iter().map(move |one| (one.object.0, one.mode, row))
        })
        .collect();
    // The first is made and read by `k1`; the second is made by its own thread's next kernel.
    assert_eq!(births, [(0, Mode::Write, 0), (1, Mode::Write, 4)]);
    assert!(trace.uses.iter().all(|one| one.known == Known::Inferred));
    assert_eq!(trace.objects[0].freed_after.map(|op| op.0), Some(0));
}

#[test]
fn streams_wait_for_what_had_ended_and_gaps_are_idle_ops() {
    let events = [
        kernel(1, 7, 0.0, 20, 100.0, 10.0),
        kernel(2, 7, 1.0, 21, 115.0, 10.0),
        kernel(3, 7, 2.0, 20, 130.5, 10.0),
    ];
    let Imported { trace, account } = of_text("streams", &document(&events)).unwrap();
    assert_eq!((account.lanes, account.edges), ((2, 0), (2, "times")));
    assert_eq!((account.busy, account.gaps), (30 * US, 10_500_000));
    let ops: Vec<(&str, u16, u64, Vec<u32>)> = trace
        .ops
        .iter()
        .map(|op| {
            let after = op.after.iter().map(|id| id.0).collect();
            (op.name.as_str(), op.stream, op.duration.unwrap().ps(), after)
        })
        .collect();
    assert_eq!(
        ops,
        [
            ("k1", 0, 10 * US, vec![]),
            ("gap", 1, 5 * US, vec![0]),
            ("k2", 1, 10 * US, vec![]),
            ("gap", 0, 5_500_000, vec![2]),
            ("k3", 0, 10 * US, vec![]),
        ]
    );
    assert_eq!(played(&trace).1, 40_500_000);
}

#[test]
fn cuda_sync_events_say_what_waits_for_what() {
    let call = |id: u32, at: f64, name: &str| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":7,"ts":{at},"dur":0.1,"args":{{"correlation":{id}}}}}"#
        )
    };
    let wait = r#"{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":21,"ts":3,"dur":0,"args":{"stream":21,"correlation":11,"wait_on_stream":20,"wait_on_cuda_event_record_corr_id":10,"device":0}}"#;
    let events = [
        kernel(1, 7, 0.0, 20, 100.0, 10.0),
        call(10, 1.5, "cudaEventRecord"),
        // Behind the record: nothing waits for it.
        kernel(2, 7, 2.0, 20, 110.0, 10.0),
        call(11, 3.0, "cudaStreamWaitEvent"),
        kernel(3, 7, 4.0, 21, 125.0, 10.0),
        wait.to_owned(),
    ];
    let Imported { trace, account } = of_text("sync", &document(&events)).unwrap();
    assert_eq!(account.edges, (1, "cuda_sync events"));
    let gap = trace.ops.iter().find(|op| op.name == "gap").unwrap();
    assert_eq!(gap.after.iter().map(|id| id.0).collect::<Vec<u32>>(), [0]);
    assert_eq!(gap.duration.unwrap().ps(), 15 * US);
    assert_eq!(played(&trace).1, 35 * US);
}

#[test]
fn a_kernel_without_a_launch_is_counted_and_kept() {
    let lost = r#"{"ph":"X","cat":"kernel","name":"lost","pid":0,"tid":20,"ts":115,"dur":2,"args":{"correlation":99,"stream":20,"device":0}}"#;
    let events =
        [kernel(1, 7, 0.0, 20, 100.0, 10.0), lost.to_owned(), kernel(2, 7, 1.0, 20, 120.0, 1.0)];
    let Imported { trace, account } = of_text("lost", &document(&events)).unwrap();
    assert_eq!(account.lost, 1);
    let ops = trace.ops.iter().filter(|op| op.unit == Unit::Device);
    assert_eq!(ops.map(|op| op.name.as_str()).collect::<Vec<&str>>(), ["k1", "lost", "k2"]);
}

#[test]
fn modules_come_from_recorded_calls() {
    let module = |name: &str, from: f64, span: f64| {
        format!(
            r#"{{"ph":"X","cat":"python_function","name":"nn.Module: {name}","pid":1,"tid":7,"ts":{from},"dur":{span},"args":{{"Python id":1}}}}"#
        )
    };
    let events = [
        module("Net_0", 0.0, 50.0),
        module("Linear_0", 5.0, 10.0),
        module("Linear_1", 20.0, 10.0),
        kernel(1, 7, 6.0, 20, 100.0, 10.0),
        kernel(2, 7, 21.0, 20, 120.0, 10.0),
        kernel(3, 7, 40.0, 20, 140.0, 10.0),
    ];
    let Imported { trace, account } = of_text("modules", &document(&events)).unwrap();
    assert_eq!(account.modules, "by recorded calls of nn.Module");
    let of = trace.ops.iter().filter(|op| op.unit == Unit::Device).map(|op| op.module);
    let of: Vec<&str> =
        of.map(|id| id.map_or("", |id| trace.modules[id.index()].as_str())).collect();
    assert_eq!(of, ["Net_0.Linear_0", "Net_0.Linear_1", "Net_0"]);
}

#[test]
fn ranges_that_only_hold_others_are_no_modules() {
    let range = |name: &str, from: f64, span: f64| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":7,"ts":{from},"dur":{span}}}"#
        )
    };
    let events = [
        range("outer", 0.0, 50.0),
        range("held", 2.0, 40.0),
        range("second", 20.0, 10.0),
        range("first", 5.0, 10.0),
        range("nothing", 45.0, 1.0),
        kernel(1, 7, 6.0, 20, 100.0, 10.0),
        kernel(2, 7, 21.0, 20, 120.0, 10.0),
    ];
    let trace = of_text("ranges", &document(&events)).unwrap().trace;
    assert_eq!(trace.modules, ["outer.held.first", "outer.held.second"]);
    is_what_is_read_back("ranges", &trace);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let sound = document(&[kernel(1, 7, 0.0, 20, 100.0, 10.0)]);
    let cut = &sound[..sound.len() - 40];
    for (name, text, wanted) in [
        ("cut", cut, "cut.json:3:83: the file ends too early (found behind event 1)"),
        ("empty", "", "the file ends too early (found behind event 0)"),
        ("word", "{\"traceEvents\": [{\"ph\": x}]}", "word.json:1:25: expected value (found"),
        ("none", "{\"traceEvents\": []}", "none.json: a trace of the PyTorch profiler holds"),
        ("other", "{\"a\": 1}", "other.json: a trace of the PyTorch profiler has a list"),
        ("behind", "{\"traceEvents\": []} x", "behind.json:1:21: trailing characters"),
    ] {
        let error = of_text(name, text).expect_err(name);
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    }
}

#[test]
fn numbers_and_names_that_are_no_json_are_mended() {
    let events = [
        r#"{"ph":"X","cat":"kernel","name":"C:\Kernel","pid":0,"tid":20,"ts":1,"dur":2,"args":{"stream":"20","device":0,"blocks per SM":inf,"occupancy":NaN}}"#.to_owned(),
    ];
    let Imported { trace, account } = of_text("mended", &document(&events)).unwrap();
    assert_eq!(account.mended, 3);
    assert_eq!(trace.ops[0].name, "C:\\Kernel");
}

#[test]
fn names_of_devices_and_files_drive_no_terminal() {
    let events = [kernel(1, 7, 10.0, 20, 100.0, 10.0)];
    let device = r#"{"id": 0, "name": "A\u001b[31m\nGPU\u202e 3000", "totalGlobalMem": 1}"#;
    let text = document(&events)
        .replace("\"traceEvents\"", &format!("\"deviceProperties\": [{device}], \"traceEvents\""));
    let Imported { trace, account } = of_text("a\u{1b}b", &text).unwrap();
    assert_eq!(trace.meta.recorded.on, "device 0 (A [31m GPU  3000)");
    assert_eq!(trace.meta.name, "a\u{fffd}b");
    let said = account.to_string();
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
    // What a trace says of itself may be anything.
    let mut odd = trace;
    odd.meta.about = "two\nlines \u{1b}[2J".to_owned();
    odd.meta.precision = "\u{9b}31m".to_owned();
    let shown = info(&odd).to_string();
    assert!(shown.starts_with("a\u{fffd}b: two lines \u{fffd}[2J\nrecorded: "), "{shown}");
    assert!(shown.contains("\u{fffd}31m, batch 1 x 1 tokens"), "{shown}");
}

#[test]
fn a_real_pair_is_joined_with_its_execution_trace() {
    let (Some(profile), Some(execution)) = (
        real("gpt2-train-cpu/kineto.pt.trace.json.gz"),
        real("gpt2-train-cpu/execution_trace.json.gz"),
    ) else {
        return;
    };
    let Imported { trace, account } = import_joined(&profile, &execution, Gaps::Keep).unwrap();
    assert_eq!(trace.problems(), []);
    // All but the rows of the process and its thread.
    assert_eq!(account.joined, Some((19_924, 19_926, "Record function id")));
    assert!(trace.uses.iter().all(|one| one.known == Known::Seen));
    assert!(account.uses[0] > 10_000, "{:?}", account.uses);
}

/// Packed by `tar`, as the pairs of the project `param` are.
fn unpacked(archive: &Path, folder: &Path) -> bool {
    let mut tar = std::process::Command::new("tar");
    tar.arg("xzf").arg(archive).arg("-C").arg(folder);
    tar.status().is_ok_and(|status| status.success())
}

#[test]
fn real_pairs_of_an_old_schema_are_joined_by_order_and_name() {
    let Some(archive) = real("execution-trace/dlrm_kineto_and_et_ranks_0_to_3.tar.gz") else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("tiersim-pairs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    if !unpacked(&archive, &folder) {
        eprintln!("there is no tar: nothing is tested");
        return;
    }
    let mut profiles: Vec<PathBuf> = fs::read_dir(folder.join("dlrm_kineto"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    profiles.sort();
    assert_eq!(profiles.len(), 4);
    for (rank, profile) in profiles.iter().enumerate() {
        let execution = folder.join(format!("dlrm_pytorch_et/dlrm_eg_{rank}.json"));
        let Imported { trace, account } = import_joined(profile, &execution, Gaps::Keep).unwrap();
        assert_eq!(trace.problems(), []);
        let (found, all, by) = account.joined.unwrap();
        assert_eq!(by, "order and name");
        assert!(found * 1000 >= all * 990, "{found} of {all}");
        assert_eq!(played(&trace).1, account.busy + account.gaps);
        assert!(trace.uses.iter().all(|one| one.known == Known::Seen));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_says_no_usable_time_or_size_is_left_out_and_counted() {
    let copy = |id: u32, said: &str| {
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":20,"ts":{id}00,"dur":5,"args":{{"stream":20,"device":0,"correlation":{id}{said}}}}}"#
        )
    };
    let events = [
        kernel(1, 7, 10.0, 20, 100.0, 10.0),
        kernel(2, 7, 20.0, 20, 120.0, -10.0),
        copy(3, r#","bytes":4096"#),
        copy(4, r#","bytes":-4096"#),
        copy(5, r#","bytes":5.7"#),
        copy(6, r#","bytes":9223372036854775808"#),
        copy(7, r#","bytes":"a few""#),
        // It does not say any.
        copy(8, ""),
    ];
    let Imported { trace, account } = of_text("left-out", &document(&events)).unwrap();
    assert_eq!((account.timeless, account.sizeless), (1, 4));
    assert_eq!((account.kernels.0, copies(&account, "HtoD")), (1, (2, 4096)));
    let said = account.to_string();
    assert!(said.contains("  1 events without a usable time, left out"), "{said}");
    assert!(said.contains("  4 copies and fills whose bytes cannot be read, left out"), "{said}");
    assert_eq!(trace.ops.iter().filter(|op| op.unit == Unit::Device).count(), 3);
}
