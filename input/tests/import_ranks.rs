//! Several ranks as one trace: real recordings against counts made in Python beforehand, and small
//! ones written here for single rules.
//!
//! `tests/count_ranks.py` counts the real ones again.

use crate::files::{folder, shared};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tiersim_input::import::any::{import_device, import_file};
use tiersim_input::import::profiler::{Gaps, import_joined, import_profiler};
use tiersim_input::import::ranks::{Imported, import_ranks};
use tiersim_models::workload::{Mode, Op, Trace, Unit};

const US: u64 = 1_000_000;

/// Unpacks the real recordings; the files of all ranks, and their execution traces.
fn real() -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let packed = shared("execution-trace/dlrm_kineto_and_et_ranks_0_to_3.tar.gz")?;
    let folder = folder("ranks");
    let tar = Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(&folder).status();
    if !tar.is_ok_and(|status| status.success()) {
        eprintln!("tar cannot unpack {}: nothing was compared with it", packed.display());
        return None;
    }
    let within = |name: &str| {
        let files = fs::read_dir(folder.join(name)).unwrap();
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    Some((within("dlrm_kineto"), within("dlrm_pytorch_et")))
}

/// When each op ends if it waits for nothing but its stream and its edges.
fn played(trace: &Trace) -> Vec<u64> {
    let mut streams = vec![0u64; 1 << 16];
    let mut ends: Vec<u64> = Vec::with_capacity(trace.ops.len());
    for op in &trace.ops {
        let after = op.after.iter().map(|id| ends[id.index()]);
        let start = after.chain([streams[usize::from(op.stream)]]).max().unwrap_or(0);
        let end = start + op.duration.map_or(0, |span| span.ps());
        streams[usize::from(op.stream)] = end;
        ends.push(end);
    }
    ends
}

fn works(op: &&Op) -> bool {
    op.unit != Unit::Idle
}

#[test]
fn real_ranks_are_as_counted() {
    let Some((files, executions)) = real() else { return };
    // Ranks, ops, time of collectives, time waited, and when ranks began.
    for (count, ops, took, waited, shift, apart) in [
        (2, 579, 5_754, 5_626, &[5_762, 0][..], 2),
        (4, 1_162, 3_452, 16_592, &[5_762, 0, 7_403, 1][..], 4),
    ] {
        for tensors in [&[][..], &executions[..count]] {
            // In any order.
            let (mut some, mut theirs) = (files[..count].to_vec(), tensors.to_vec());
            some.reverse();
            theirs.reverse();
            let Imported { trace, account } = import_ranks(&some, &theirs, Gaps::Keep).unwrap();
            assert_eq!(trace.ops.iter().filter(works).count(), ops);
            assert_eq!(account.waited, (waited * US, took * US));
            assert_eq!(account.group, (8, 1, true));
            let ends: Vec<u64> = account.ranks.iter().map(|rank| rank.1 / US).collect();
            assert_eq!(ends, shift);
            assert_eq!((account.apart, account.sizeless, account.alone), (apart * US, 0, (0, 0)));
            let bytes: Vec<(&str, u64)> = trace
                .ops
                .iter()
                .filter_map(|op| match op.unit {
                    Unit::Network(of) => Some((of.kind.word(), of.bytes.get())),
                    _ => None,
                })
                .collect();
            let all = [
                ("all-to-all", 24_576),
                ("all-to-all", 192),
                ("all-to-all", 1_536),
                ("all-to-all", 13_568),
                ("all-reduce", 1_576_964),
                ("all-to-all", 24_576),
                ("all-reduce", 448),
                ("all-reduce", 907_840),
            ];
            assert_eq!(bytes, all);
            alone(&trace, &files[..count], tensors);
            // All starts and ends when it did, but for what ends of collectives are apart.
            let last = |path: &PathBuf| {
                let trace = import_profiler(path, Gaps::Keep).unwrap().trace;
                played(&trace).into_iter().max().unwrap()
            };
            let ends =
                files[..count].iter().zip(&account.ranks).map(|(path, rank)| last(path) + rank.1);
            let (recorded, ours) = (ends.max().unwrap(), played(&trace).into_iter().max().unwrap());
            assert!(recorded.abs_diff(ours) <= 8 * account.apart, "{recorded} {ours}");
        }
    }
}

/// That each rank's ops, objects and uses are those of its own import.
fn alone(trace: &Trace, files: &[PathBuf], executions: &[PathBuf]) {
    for (rank, path) in files.iter().enumerate() {
        let own = match executions.get(rank) {
            Some(execution) => import_joined(path, execution, Gaps::Keep),
            None => import_profiler(path, Gaps::Keep),
        };
        let own = own.unwrap().trace;
        let prefix = format!("rank {rank}: ");
        let uses = |trace: &Trace, prefix: &str| -> Vec<(String, Mode)> {
            let name = |object: usize| trace.objects[object].name.strip_prefix(prefix);
            let uses = trace.uses.iter();
            uses.filter_map(|one| Some((name(one.object.index())?.to_owned(), one.mode))).collect()
        };
        assert_eq!(uses(trace, &prefix), uses(&own, ""));
        let bytes = |trace: &Trace, prefix: &str| -> u64 {
            let objects = trace.objects.iter().filter(|object| object.name.starts_with(prefix));
            objects.map(|object| object.bytes.get()).sum()
        };
        assert_eq!(bytes(trace, &prefix), bytes(&own, ""));
    }
}

/// A call, its launch and its kernel; without a call a kernel that is no collective.
fn kernel(id: u32, call: &str, at: f64, start: f64, span: f64) -> String {
    let name = if call.is_empty() { "k" } else { "ncclKernel_SendRecv" };
    let call = match call {
        "" => String::new(),
        _ => format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"nccl:{call}","pid":1,"tid":7,"ts":{at},"dur":3,"args":{{"Input Dims":[[256]],"Input type":["float"]}}}},"#
        ),
    };
    format!(
        r#"{call}
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":{at}.5,"dur":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":20,"ts":{start},"dur":{span},"args":{{"correlation":{id},"stream":20,"device":0}}}}"#
    )
}

fn rank(folder: &Path, number: u32, of: u32, events: &[String]) -> PathBuf {
    let path = folder.join(format!("rank{number}-{of}.json"));
    let text = format!(
        r#"{{"distributedInfo": {{"backend": "nccl", "rank": {number}, "world_size": {of}}},
"deviceProperties": [{{"id": 0, "name": "A", "totalGlobalMem": 1}}, {{"id": 1, "name": "A", "totalGlobalMem": 1}}],
"traceEvents": [{}]}}"#,
        events.join(",\n")
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_collective_waits_for_the_last_rank_and_all_wait_for_it() {
    let folder = folder("wait");
    let first = [
        kernel(1, "", 0.0, 100.0, 10.0),
        kernel(2, "all_gather", 10.0, 110.0, 40.0),
        kernel(3, "", 20.0, 150.0, 5.0),
    ];
    // Its clock is another, and it comes 30 us later to the collective.
    let second = [
        kernel(1, "", 5000.0, 5100.0, 40.0),
        kernel(2, "_all_gather_base", 5010.0, 5140.0, 10.0),
        kernel(3, "", 5020.0, 5150.0, 7.0),
    ];
    let files = [rank(&folder, 1, 4, &second), rank(&folder, 0, 4, &first)];
    let Imported { trace, account } = import_ranks(&files, &[], Gaps::Keep).unwrap();
    let ops: Vec<(u16, u64, Vec<u32>)> = trace
        .ops
        .iter()
        .map(|op| {
            let after = op.after.iter().map(|id| id.0).collect();
            (op.stream, op.duration.unwrap().ps() / US, after)
        })
        .collect();
    let wanted =
        [(0, 10, vec![]), (1, 40, vec![]), (0, 10, vec![1]), (0, 5, vec![]), (1, 7, vec![2])];
    assert_eq!(ops, wanted);
    let Unit::Network(of) = trace.ops[2].unit else { panic!("{:?}", trace.ops[2]) };
    // Each rank gives 1024 bytes; there are two devices in a server.
    assert_eq!((of.bytes.get(), of.within, of.servers), (4096, 2, 2));
    assert_eq!(account.waited, (30 * US, 10 * US));
    assert_eq!(account.ranks.iter().map(|rank| rank.1).collect::<Vec<u64>>(), [0, 0]);
    let words = account.to_string();
    for wanted in ["1 all-gather of 4096 bytes", "2 in each of 2 servers", "rank 1\nseen:"] {
        assert!(words.contains(wanted), "{words}\nwanted {wanted}");
    }
}

#[test]
fn a_rank_that_begins_later_starts_later() {
    let folder = folder("later");
    let first = [kernel(1, "", 0.0, 100.0, 10.0), kernel(2, "all_reduce", 10.0, 110.0, 40.0)];
    let second = [kernel(1, "", 0.0, 100.0, 5.0), kernel(2, "all_reduce", 10.0, 105.0, 20.0)];
    let files = [rank(&folder, 0, 2, &first), rank(&folder, 1, 2, &second)];
    for (gaps, shift, last) in [(Gaps::Keep, 25, 50), (Gaps::Drop, 25, 30)] {
        let Imported { trace, account } = import_ranks(&files, &[], gaps).unwrap();
        assert_eq!(account.ranks[1].1, shift * US);
        assert_eq!(played(&trace).into_iter().max(), Some(last * US));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_file() {
    let folder = folder("wrong");
    let one = |call: &str| [kernel(1, call, 10.0, 110.0, 10.0)];
    let reduces = rank(&folder, 0, 2, &one("all_reduce"));
    let again = rank(&folder, 0, 3, &one("all_reduce"));
    let gathers = rank(&folder, 1, 2, &one("all_gather"));
    let of_three = rank(&folder, 1, 3, &one("all_reduce"));
    let sends = rank(&folder, 2, 2, &one("send 0->1"));
    for (files, executions, wanted) in [
        ([&reduces, &again], 0, "rank0-3.json: several files are of several ranks"),
        ([&reduces, &of_three], 0, "rank1-3.json: ranks of one run say how many they are alike"),
        (
            [&reduces, &gathers],
            0,
            "rank1-2.json: ranks call the same collectives in the same order",
        ),
        ([&reduces, &sends], 0, "rank2-2.json: ranks of one run are tied together by collectives"),
        ([&reduces, &gathers], 1, "rank0-2.json: several ranks have an execution trace each"),
    ] {
        let executions = vec![reduces.clone(); executions];
        let files = files.map(Clone::clone);
        let error = import_ranks(&files, &executions, Gaps::Keep).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    }
}

/// A launch and a kernel of NCCL with what Kineto says of a collective of this group.
fn said(id: u32, name: &str, group: &str, ranks: &str, size: u32, start: u32, span: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":{id},"dur":0.5,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_Generic(x)","pid":0,"tid":20,"ts":{start},"dur":{span},"args":{{"correlation":{id},"stream":20,"device":0,"Collective name":"{name}","In msg nelems":1024,"Out msg nelems":1024,"Group size":{size},"dtype":"BFloat16","In split size":"[]","Out split size":"[]","Process Group Name":"{group}","Process Group Description":"d","Process Group Ranks":"{ranks}"}}}}"#
    )
}

#[test]
fn a_collective_is_among_the_ranks_that_it_names() {
    let folder = folder("groups");
    // Two pairs on two servers of two, one over the servers, and all four.
    let of = |number: u32| {
        let pair = 2 * (number / 2);
        let [near, far] = [[pair, pair + 1], [number % 2, number % 2 + 2]];
        let list = |ranks: [u32; 2]| format!("[{}, {}]", ranks[0], ranks[1]);
        let (tp, dp) = (format!("tp{pair}"), format!("dp{}", number % 2));
        // Rank 3 is late to what it does with rank 2, which the others know nothing of.
        let late = if number == 3 { 30 } else { 0 };
        [
            said(1, "allreduce", &tp, &list(near), 2, 100 + late, 40 - late),
            said(2, "_allgather_base", &dp, &list(far), 2, 150, 10),
            said(3, "allreduce", "0", "[0, 1, 2, 3]", 4, 160, 10),
        ]
    };
    let files = [0, 1, 2, 3].map(|number| rank(&folder, number, 4, &of(number)));
    let Imported { trace, account } = import_ranks(&files, &[], Gaps::Keep).unwrap();
    let network: Vec<(u32, u32, u64, u64)> = trace
        .ops
        .iter()
        .filter_map(|op| match op.unit {
            Unit::Network(one) => {
                let span = op.duration.unwrap().ps() / US;
                Some((one.within, one.servers, one.bytes.get(), span))
            }
            _ => None,
        })
        .collect();
    // What an all-gather makes is what both put in.
    let wanted =
        [(2, 1, 2048, 40), (2, 1, 2048, 10), (1, 2, 4096, 10), (1, 2, 4096, 10), (2, 2, 2048, 10)];
    assert_eq!(network, wanted);
    assert_eq!((account.alone, account.sizeless), ((0, 0), 0));
    assert_eq!(account.waited.0, 30 * US);
    let words = account.to_string();
    for wanted in [
        "group \"tp2\" of ranks 2, 3, 2 in each of 1 servers: 1",
        "group \"dp1\" of ranks 1, 3, 1 in each of 2 servers: 1",
        "group \"0\" of all ranks, 2 in each of 2 servers: 1",
    ] {
        assert!(words.contains(wanted), "{words}\nwanted {wanted}");
    }
    // Of two ranks of one pair: what they do with others is among these, and waits for nobody here.
    let Imported { trace, account } = import_ranks(&files[..2], &[], Gaps::Keep).unwrap();
    let within = |op: &Op| match op.unit {
        Unit::Network(one) => Some((one.within, one.servers)),
        _ => None,
    };
    let found: Vec<(u32, u32)> = trace.ops.iter().filter_map(within).collect();
    assert_eq!(found, [(2, 1), (1, 2), (1, 2), (2, 2)]);
    assert_eq!(account.alone, (0, 0));
    // And of two that share no group but all.
    let apart: Vec<PathBuf> =
        [1, 2].iter().map(|&number| rank(&folder, number, 5, &of(number)[..2])).collect();
    let error = import_ranks(&apart, &[], Gaps::Keep).unwrap_err().to_string();
    assert!(error.contains("none in which two of these ranks take part"), "{error}");
}

#[test]
fn ranks_of_a_long_group_come_from_the_head_of_the_file() {
    let folder = folder("listed");
    let all: Vec<String> = (0..40).map(|rank| (3 * rank).to_string()).collect();
    let listed = format!(
        r#""world_size": 120, "pg_config": [{{"pg_name": "5", "pg_desc": "d", "backend_config": "cuda:nccl", "pg_size": 40, "ranks": [{}]}}]"#,
        all.join(", ")
    );
    let short = format!("[{}, ..., 118]", all[..29].join(", "));
    let files: Vec<PathBuf> = [3, 6]
        .iter()
        .map(|&number| {
            let events = [said(1, "allreduce", "5", &short, 40, 100, 10)];
            let path = rank(&folder, number, 120, &events);
            let text = fs::read_to_string(&path).unwrap();
            // Not of NCCL, and no kernel by CUDA's word.
            let text = text.replace("ncclDevKernel_Generic(x)", "hccl::all_reduce");
            let text = text.replace(r#""cat":"kernel""#, r#""cat":"mtia_ccp_events""#);
            fs::write(&path, text.replace("\"world_size\": 120", &listed)).unwrap();
            path
        })
        .collect();
    let Imported { account, .. } = import_ranks(&files, &[], Gaps::Keep).unwrap();
    // The 40 are a third of each server of two: all meet where servers meet.
    assert_eq!(account.groups.len(), 1);
    let (name, ranks, within, servers, count) = &account.groups[0];
    assert_eq!((name.as_str(), ranks.len(), *count), ("5", 40, 1));
    assert_eq!((*within, *servers), (1, 40));
}

/// A file in which every device does what a rank would, with a gap in it.
fn of_devices(devices: &[u32]) -> String {
    let mut events = Vec::new();
    for &device in devices {
        // Each works for a module of its own.
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"half {device}","pid":1,"tid":{device},"ts":0,"dur":200}}"#
        ));
        let (id, late) = (10 * device, 5 * device.min(1));
        let mut ran = |id: u32, name: &str, start: u32, span: u32| {
            let launched = start - 50;
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{device},"ts":{launched},"dur":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"{name}","pid":{device},"tid":20,"ts":{start},"dur":{span},"args":{{"correlation":{id},"stream":20,"device":{device}}}}}"#
            ));
        };
        ran(id + 1, "k", 100, 10 + late);
        ran(id + 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 110 + late, 30 - late);
        ran(id + 3, "k", 140, 7);
    }
    format!(r#"{{"schemaVersion": 1, "traceEvents": [{}]}}"#, events.join(",\n"))
}

#[test]
fn devices_of_one_recording_that_meet_are_ranks() {
    let folder = folder("devices");
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let path = write("two.json", of_devices(&[0, 1]));
    let both = import_file(&path, Gaps::Keep).unwrap();
    // As two files of one rank each would be.
    let apart = [0, 1].map(|device| write(&format!("{device}.json"), of_devices(&[device])));
    let ranks = import_ranks(&apart, &[], Gaps::Keep).unwrap();
    assert_eq!((both.trace.ops.len(), &both.trace.ops), (5, &ranks.trace.ops));
    for wanted in [
        "of one recording devices 0, 1 call collectives, and each is a rank\n",
        "2 ranks as one trace, on 2 streams",
        "1 all-reduce of 0 bytes, each one op of all ranks in it",
        "ranks had waited for others for 0.005 ms",
    ] {
        assert!(both.account.contains(wanted), "{}\nwanted {wanted}", both.account);
    }
    assert_eq!(both.trace.modules, ["rank 0: half 0", "rank 1: half 1"]);
    assert!(!both.account.contains("left out"), "{}", both.account);
    // One of them, and one that is not there.
    let one = import_device(&path, Gaps::Keep, Some(1)).unwrap();
    let alone = import_profiler(&apart[1], Gaps::Keep).unwrap();
    assert_eq!(one.trace.ops, alone.trace.ops);
    let error = import_device(&path, Gaps::Keep, Some(7)).unwrap_err().to_string();
    let wanted = "something ran on device 7 (found something ran on devices 0, 1)";
    assert!(error.contains(wanted), "{error}");
    // Where the file says of which rank it is, it is of one; and no server has so many devices.
    let rank = of_devices(&[0, 1]).replace(
        r#""schemaVersion": 1"#,
        r#""distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}"#,
    );
    let many = of_devices(&(0..17).collect::<Vec<_>>());
    for path in [write("rank.json", rank), write("many.json", many)] {
        assert_eq!(import_file(&path, Gaps::Keep).unwrap().trace.ops.len(), 3);
    }
}

#[test]
fn an_execution_trace_says_whose_a_collective_is_where_the_profiler_does_not() {
    let folder = folder("lent");
    // Both calls of a rank are of groups that only its execution trace names: of all, and of a pair.
    let profile = |number: u32| {
        let ops =
            [(1, "aten::relu", 0), (2, "record_param_comms", 10), (4, "c10d::allreduce_", 20)];
        let ranges = ops.map(|(id, name, at)| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":7,"ts":{at},"dur":8,"args":{{"Record function id":{id}}}}}"#
            )
        });
        let nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";
        let kernels = [(1, "k", 1, 100), (2, nccl, 11, 120), (3, nccl, 21, 140)];
        let kernels = kernels.map(|(id, name, at, start)| {
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":7,"ts":{at},"dur":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":20,"ts":{start},"dur":10,"args":{{"correlation":{id},"stream":20,"device":0}}}}"#
            )
        });
        rank(&folder, number, 4, &[ranges, kernels].concat())
    };
    let execution = |number: u32| {
        let path = folder.join(format!("et{number}.json"));
        let pair = 2 * (number / 2);
        let said = |id: u32, parent: u32, group: &str, size: u32| {
            format!(
                r#"{{"id": {id}, "name": "record_param_comms", "ctrl_deps": {parent}, "inputs": {{"values": []}}, "outputs": {{"values": []}}, "attrs": [{{"name": "rf_id", "value": {id}}}, {{"name": "tid", "value": 1}}, {{"name": "collective_name", "value": "allreduce"}}, {{"name": "pg_name", "value": "{group}"}}, {{"name": "pg_size", "value": {size}}}, {{"name": "in_msg_nelems", "value": 512}}, {{"name": "dtype", "value": "BFloat16"}}]}}"#
            )
        };
        let init = format!(
            r###"{{"id": 9, "name": "## process_group:init ##", "ctrl_deps": 0, "inputs": {{"values": ["[{{\"pg_name\": \"tp\", \"ranks\": [{pair}, {}]}}, {{\"pg_name\": \"0\", \"ranks\": []}}]"]}}, "outputs": {{"values": []}}, "attrs": []}}"###,
            pair + 1
        );
        let relu = r#"{"id": 1, "name": "aten::relu", "ctrl_deps": 0, "inputs": {"values": [[1, 5, 0, 10, 4, "cuda:0"]]}, "outputs": {"values": [[2, 6, 0, 10, 4, "cuda:0"]]}, "attrs": [{"name": "rf_id", "value": 1}, {"name": "tid", "value": 1}, {"name": "op_schema", "value": "aten::relu(Tensor self) -> Tensor"}]}"#;
        let outer = r#"{"id": 4, "name": "c10d::allreduce_", "ctrl_deps": 0, "inputs": {"values": []}, "outputs": {"values": []}, "attrs": [{"name": "rf_id", "value": 4}, {"name": "tid", "value": 1}]}"#;
        let nodes =
            [init, relu.to_owned(), said(2, 0, "0", 4), outer.to_owned(), said(5, 4, "tp", 2)];
        let text = format!(r#"{{"schema": "1.1.0", "nodes": [{}]}}"#, nodes.join(",\n"));
        fs::write(&path, text).unwrap();
        path
    };
    let files = [0, 1, 2, 3].map(profile);
    let executions = [0, 1, 2, 3].map(execution);
    let Imported { trace, account } = import_ranks(&files, &executions, Gaps::Keep).unwrap();
    let groups: Vec<(u32, u64)> = trace
        .ops
        .iter()
        .filter_map(|op| match op.unit {
            Unit::Network(one) => Some((one.within * one.servers, one.bytes.get())),
            _ => None,
        })
        .collect();
    assert_eq!(groups, [(4, 1024), (2, 1024), (2, 1024)]);
    assert_eq!((account.lent, account.everybody, account.alone), (8, 0, (0, 0)));
    let words = account.to_string();
    for wanted in [
        "  of 8 calls the group is that of the execution trace\n",
        "group \"tp\" of ranks 0, 1, 2 in each of 1 servers: 1",
        "group \"tp\" of ranks 2, 3, 2 in each of 1 servers: 1",
    ] {
        assert!(words.contains(wanted), "{words}\nwanted {wanted}");
    }
    // Without it all take part in both, and no shape says how much goes in.
    let Imported { account, .. } = import_ranks(&files, &[], Gaps::Keep).unwrap();
    assert_eq!((account.lent, account.everybody, account.sizeless), (0, 2, 2));
}
