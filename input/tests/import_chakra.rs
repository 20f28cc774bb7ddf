//! Chakra traces: the real one against counts made in Python beforehand
//! (`tests/count_chakra_trace.py`), and small ones written here, byte by byte, for single rules.

use crate::files::folder;
use crate::import_profiler::real;
use std::fs;
use std::path::PathBuf;
use tiersim_input::import::any::import_file;
use tiersim_input::import::chakra::{Imported, import_chakra};
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::ids::OpId;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Gaps, Known, Mode, Phase, Unit};

const US: u64 = 1_000_000;

/// A number of seven bits a byte.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u8, number: u64) -> Vec<u8> {
    [vec![field << 3], varint(number)].concat()
}

fn held(field: u32, bytes: &[u8]) -> Vec<u8> {
    let tag = varint(u64::from(field << 3 | 2));
    [tag, varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn attribute(name: &str, value: u64) -> Vec<u8> {
    // `uint64_val` is field 13.
    held(10, &[held(1, name.as_bytes()), number(13, value)].concat())
}

fn on_host() -> Vec<u8> {
    // `bool_val` is field 27.
    held(10, &[held(1, b"is_cpu_op"), vec![0xD8, 1, 1]].concat())
}

/// A node of a kind, with its duration in us, data dependencies, and what else it says.
fn node(id: u64, kind: u64, us: u64, data: &[u64], more: &[Vec<u8>]) -> Vec<u8> {
    let data: Vec<u8> = data.iter().flat_map(|&id| varint(id)).collect();
    let name = format!("node {id}");
    let fields = [number(1, id), held(2, name.as_bytes()), number(3, kind), number(7, us)];
    [fields.concat(), held(5, &data), more.concat()].concat()
}

fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    let head = held(1, b"0.0.4");
    let all = std::iter::once(&head).chain(nodes);
    all.flat_map(|message| [varint(message.len() as u64), message.clone()].concat()).collect()
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder(&format!("chakra-{name}")).join("trace.et");
    fs::write(&path, bytes).unwrap();
    path
}

fn of(name: &str, nodes: &[Vec<u8>]) -> Imported {
    let imported = import_chakra(&written(name, &file(nodes)), Gaps::Keep);
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.problems(), []);
    imported
}

#[test]
fn the_real_trace_is_as_counted() {
    let Some(path) = real("chakra/feeder_tests_trace.tar.gz") else { return };
    let Imported { trace, account } = import_chakra(&path, Gaps::Keep).unwrap();
    assert_eq!(trace.problems(), []);
    assert_eq!((account.nodes, account.data, account.control), (3_664, 181_878, 3_664));
    assert_eq!((account.micros, account.timed), (381_795, 3_507));
    assert_eq!((account.host, account.network, account.memory), (2_448, 7, 0));
    assert_eq!(account.schema, "1.0.1");
    assert_eq!(trace.meta.recorded.when, "2023-12-14 11:55:01");
    let spans = |of: &dyn Fn(Unit) -> bool| -> u64 {
        let ops = trace.ops.iter().filter(|op| of(op.unit));
        ops.map(|op| op.duration.unwrap().ps()).sum()
    };
    assert_eq!(trace.ops.len(), 3_664);
    assert_eq!(spans(&|_| true), 381_795 * US);
    assert_eq!(spans(&|unit| unit == Unit::Device), 329_543 * US);
    // Two threads of the host, one stream that computes and one for the network.
    assert_eq!(trace.ops.iter().map(|op| op.stream).max(), Some(3));
    assert!(trace.ops.iter().any(|op| op.phase == Phase::Backward));
    assert_eq!(account.unread, 0);
    let dropped = import_chakra(&path, Gaps::Drop).unwrap().trace;
    let all: u64 = dropped.ops.iter().map(|op| op.duration.unwrap().ps()).sum();
    assert_eq!(all, 329_543 * US);
    // The same file, whatever it is called and however it is named.
    assert_eq!(import_file(&path, Gaps::Keep).unwrap().trace, trace);
}

#[test]
fn an_op_waits_for_its_data_and_for_who_started_it() {
    let Imported { trace, account } = of(
        "order",
        &[
            // Listed and numbered before what it waits for.
            node(1, 4, 5, &[7], &[attribute("num_ops", 600), attribute("tensor_size", 64)]),
            node(7, 4, 3, &[], &[on_host(), held(4, &varint(1))]),
            node(8, 4, 2, &[99], &[held(4, &varint(7))]),
        ],
    );
    let names: Vec<&str> = trace.ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(names, ["node 7", "node 1", "node 8"]);
    assert_eq!(trace.ops[1].after, [OpId(0)]);
    assert_eq!(trace.ops[2].after, [OpId(0)]);
    assert_eq!((account.missing, account.contradicted), (1, 1));
    assert_eq!(trace.ops[0].unit, Unit::Idle);
    assert_eq!(trace.ops[0].duration, Some(Span::from_ps(3 * US)));
    assert_eq!((trace.ops[1].flops, trace.ops[1].bytes.get()), (600, 64));
}

#[test]
fn sizes_that_are_none_are_left_out_and_counted() {
    // -1 as `sint64_val`, which is field 17: zigzag has it as 1.
    let negative = held(10, &[held(1, b"tensor_size"), vec![0x88, 1, 1]].concat());
    let Imported { trace, account } =
        of("sizes", &[node(1, 4, 5, &[], &[negative]), node(2, 4, 5, &[1], &[])]);
    assert_eq!((account.sizeless, trace.ops.len()), (1, 2));
    assert_eq!(trace.ops[0].bytes, Bytes::ZERO);
    assert!(account.to_string().contains("left out: 1 sizes that are no number of bytes"));
}

#[test]
fn what_goes_over_the_network_and_to_memory_is_that() {
    let size = |bytes| attribute("comm_size", bytes);
    let Imported { trace, account } = of(
        "kinds",
        &[
            node(0, 2, 9, &[], &[attribute("tensor_size", 4_096)]),
            node(1, 4, 5, &[0], &[]),
            node(
                2,
                7,
                6,
                &[1],
                &[size(512), attribute("comm_type", 0), attribute("group_size", 8)],
            ),
            node(3, 7, 6, &[1], &[size(512), attribute("comm_type", 2)]),
            node(4, 7, 0, &[1], &[size(512), attribute("comm_type", 7)]),
            node(5, 5, 0, &[2], &[size(256)]),
            node(6, 3, 4, &[5], &[attribute("tensor_size", 1_024)]),
            // What one of 8 ranks brings to what all of them have then.
            node(
                7,
                7,
                6,
                &[6],
                &[size(512), attribute("comm_type", 2), attribute("group_size", 8)],
            ),
        ],
    );
    let network =
        |kind, bytes, ranks| Unit::Network(Collective::within(kind, Bytes::new(bytes), ranks));
    let units: Vec<Unit> = trace.ops.iter().map(|op| op.unit).collect();
    let wanted = [
        Unit::Device,
        Unit::Device,
        network(CollectiveKind::AllReduce, 512, 8),
        // How many ranks is not said, how long it took is.
        Unit::Device,
        network(CollectiveKind::ReduceScatter, 512, 2),
        network(CollectiveKind::SendRecv, 256, 2),
        Unit::Device,
        network(CollectiveKind::AllGather, 4_096, 8),
    ];
    assert_eq!(units, wanted);
    assert_eq!((account.network, account.collectives, account.assumed), (5, 4, 1));
    let uses: Vec<_> = trace.uses.iter().map(|one| (one.object.0, one.mode, one.known)).collect();
    let wanted = [
        (0, Mode::Read, Known::Seen),
        (0, Mode::Read, Known::Inferred),
        (1, Mode::Write, Known::Seen),
    ];
    assert_eq!(uses, wanted);
    assert_eq!(account.persistent, (2, 5_120));
    assert_eq!(trace.objects[0].name, "load of node 0");
}

/// Kinds of 2025 and later: storage, batches, checkpoints.
#[test]
fn what_waits_for_files_waits() {
    let storage = held(11, &number(1, 1));
    let nodes =
        [node(1, 8, 9, &[], &[storage]), node(2, 10, 7, &[1], &[]), node(3, 4, 5, &[2], &[])];
    let Imported { trace, account } = of("files", &nodes);
    let units: Vec<Unit> = trace.ops.iter().map(|op| op.unit).collect();
    assert_eq!(units, [Unit::Idle, Unit::Idle, Unit::Device]);
    assert_eq!((account.host, account.micros), (2, 21));
    assert_eq!(trace.ops[2].after, [OpId(1)]);
}

#[test]
fn tensors_become_objects() {
    let values = |field, text: &str| held(field, &held(1, text.as_bytes()));
    let Imported { trace, account } = of(
        "tensors",
        &[
            node(
                1,
                4,
                5,
                &[],
                &[
                    values(8, "[[1, 10, 0, 6, 4, 'cuda:0'], True, None]"),
                    values(9, "[[2, 20, 0, 4, 4, 'cuda:0']]"),
                ],
            ),
            node(2, 4, 5, &[1], &[values(8, "[[2, 20, 0, 4, 4, 'cuda:0'], ")]),
            node(3, 4, 5, &[1], &[values(8, "[([2, 20, 0, 4, 4, 'cuda:0'], 7)]")]),
        ],
    );
    assert_eq!((account.objects, account.persistent), ((2, 40), (1, 24)));
    assert_eq!((account.device.as_str(), account.unread), ("cuda:0", 1));
    let uses: Vec<(u32, Mode)> = trace.uses.iter().map(|one| (one.object.0, one.mode)).collect();
    assert_eq!(uses, [(0, Mode::Read), (1, Mode::Write), (1, Mode::Read)]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let sound = file(&[node(1, 4, 5, &[], &[])]);
    let huge = [file(&[]), varint(1 << 34)].concat();
    let endless = [file(&[]), vec![255; 12]].concat();
    for (name, bytes, wanted) in [
        ("cut", &sound[..sound.len() - 1], "the file ends within a message (found byte 8"),
        ("huge", &huge[..], "a message has at most 1 MiB (found byte 8"),
        ("endless", &endless[..], "the length of a message has at most five bytes"),
        ("none", &file(&[])[..], "a Chakra trace has nodes"),
        ("empty", b"", "begins with a description of itself"),
        (
            "kind",
            &file(&[node(1, 11, 5, &[], &[])])[..],
            "the kind of a node is 0 to 10; node 1 says 11 (found byte 8, message 2)",
        ),
        (
            "twice",
            &file(&[node(1, 4, 5, &[], &[]), node(1, 4, 5, &[], &[])])[..],
            "a node has a number of its own (found node 1 twice)",
        ),
        (
            "circle",
            &file(&[node(1, 4, 5, &[2], &[]), node(2, 4, 5, &[1], &[])])[..],
            "no node waits for itself by its data dependencies (found 2 nodes, node 1",
        ),
        ("long", &file(&[node(1, 4, 1 << 60, &[], &[])])[..], "a node takes at most 2^44 us"),
        // More than 2^64 picoseconds.
        ("clock", &file(&[node(1, 4, 1 << 45, &[], &[])])[..], "a node takes at most 2^44 us"),
        (
            "field",
            &[file(&[]), varint(2), vec![0x0A, 0x05]].concat()[..],
            "a message is not as et_def.proto has it",
        ),
    ] {
        let error = import_chakra(&written(name, bytes), Gaps::Keep).expect_err(name).to_string();
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    }
}

/// The list that Chakra's feeder reads as JSON, against the same nodes as protobuf.
#[test]
fn a_list_of_nodes_as_json_is_the_same_work() {
    let wait = [attribute("comm_size", 4096), attribute("comm_type", 0)];
    let nodes = [
        node(0, 4, 0, &[], &[on_host(), attribute("runtime", 5)]),
        node(1, 4, 0, &[0], &[attribute("runtime", 70)]),
        node(2, 7, 0, &[1], &[&wait[..], &[attribute("runtime", 9)]].concat()),
    ];
    let protobuf = of("graph", &nodes);
    let json = r#"{"workload_graph": [
        {"Id": 0, "Name": "node 0", "NodeType": 4, "is_cpu_op": true, "runtime": 5, "data_deps": []},
        {"Id": 1, "Name": "node 1", "NodeType": 4, "is_cpu_op": false, "runtime": 70, "data_deps": [0]},
        {"Id": 2, "Name": "node 2", "NodeType": 7, "is_cpu_op": false, "runtime": 9, "data_deps": [1],
         "tensor_size": 0, "comm_type": 0, "comm_priority": 0, "comm_size": 4096}]}"#;
    let path = folder("chakra-graph").join("trace.json");
    fs::write(&path, json).unwrap();
    let imported = import_chakra(&path, Gaps::Keep).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.ops, protobuf.trace.ops);
    assert_eq!((imported.account.nodes, imported.account.micros), (3, 84));
    assert_eq!(imported.account.schema, "workload_graph");
    assert_eq!(import_file(&path, Gaps::Keep).unwrap().trace, imported.trace);
}
