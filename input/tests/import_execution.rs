//! Execution traces of PyTorch: real files against counts made in Python beforehand, and small ones
//! written here for single rules.

use crate::import_profiler::real;
use std::fs;
use tiersim_input::import::execution::{Imported, import_execution};
use tiersim_models::workload::{Known, Mode, ObjectKind, Phase, Unit};

fn of_text(name: &str, text: &str) -> Result<Imported, String> {
    let folder = std::env::temp_dir().join(format!("tiersim-execution-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, text).unwrap();
    let result = import_execution(&path);
    fs::remove_file(&path).unwrap();
    let shown = folder.display().to_string() + "/";
    result.map_err(|error| error.to_string().replace(&shown, ""))
}

#[test]
fn real_traces_are_as_counted() {
    for (name, nodes, storages, steps) in [
        ("execution-trace/linear_et.json.gz", 931, 116, 1),
        ("execution-trace/resnet_1gpu_et.json.tar.gz", 14_392, 1_314, 3),
        ("gpt2-train-cpu/execution_trace.json.gz", 19_926, 0, 2),
    ] {
        let Some(path) = real(name) else { continue };
        let Imported { trace, account } = import_execution(&path).unwrap();
        assert_eq!(trace.problems(), []);
        assert_eq!(account.nodes, nodes, "{name}");
        if storages > 0 {
            assert_eq!(account.storages, storages, "{name}");
        }
        assert_eq!(account.steps, steps, "{name}");
        assert!(trace.uses.iter().all(|one| one.known == Known::Seen));
        let kinds = |kind| trace.objects.iter().filter(|object| object.kind == kind).count();
        // The linear model has 21 layers, each with a matrix and a bias.
        if name.contains("linear") {
            assert_eq!((kinds(ObjectKind::Weight), kinds(ObjectKind::Gradient)), (42, 42));
        }
    }
}

fn node(id: u32, parent: u32, name: &str, schema: &str, inputs: &str, outputs: &str) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "ctrl_deps": {parent}, "inputs": {{"values": [{inputs}], "shapes": [], "types": []}}, "outputs": {{"values": [{outputs}], "shapes": [], "types": []}}, "attrs": [{{"name": "rf_id", "type": "uint64", "value": 1}}, {{"name": "op_schema", "type": "string", "value": "{schema}"}}]}}"#
    )
}

fn document(nodes: &[String]) -> String {
    format!(r#"{{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}}"#, nodes.join(",\n"))
}

#[test]
fn an_address_that_is_allocated_again_is_another_object() {
    let (weight, out) = (r#"[1, 10, 0, 6, 4, "cuda:0"]"#, r#"[2, 20, 0, 4, 4, "cuda:0"]"#);
    let mm = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
    let empty = "aten::empty.memory_format(SymInt[] size) -> Tensor";
    let relu = "aten::relu(Tensor self) -> Tensor";
    let add = "aten::add_(Tensor(a!) self) -> Tensor(a!)";
    let host = r#"[3, 30, 0, 4, 4, "cpu"]"#;
    let nodes = [
        node(5, 2, "aten::mm", mm, &format!("{weight}, {weight}"), out),
        // The allocation within an op is its own.
        node(6, 5, "aten::empty", empty, "", out),
        node(11, 2, "aten::relu", relu, out, ""),
        node(17, 2, "aten::empty", empty, "", out),
        node(18, 2, "aten::add_", add, weight, weight),
        node(19, 2, "aten::mm", mm, &format!("[{weight}, {weight}]"), out),
        // On the host: left out.
        node(20, 2, "aten::relu", relu, host, ""),
    ];
    let Imported { trace, account } = of_text("again", &document(&nodes)).unwrap();
    assert_eq!(account.objects, (3, 24 + 16 + 16));
    assert_eq!(account.persistent, (1, 24));
    assert_eq!(account.elsewhere, 1);
    let uses: Vec<(u32, Mode)> = trace.uses.iter().map(|one| (one.object.0, one.mode)).collect();
    let wanted = [
        (0, Mode::Read),
        (1, Mode::Write),
        (1, Mode::Read),
        (0, Mode::ReadWrite),
        (0, Mode::Read),
        (2, Mode::Write),
    ];
    assert_eq!(uses, wanted);
    assert!(trace.ops.iter().all(|op| op.phase == Phase::Forward));
    // 6 x 6 x 4 numbers: m k n is 12.
    assert_eq!(trace.ops[0].flops, 24);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let sound = document(&[node(1, 0, "aten::t", "aten::t(Tensor self) -> Tensor", "", "")]);
    for (name, text, wanted) in [
        ("cut", &sound[..sound.len() - 1], "the file ends too early (found behind node 1)"),
        ("none", sound.as_str(), "none.json: an execution trace of PyTorch holds ops on tensors"),
        ("other", "{}", "other.json: an execution trace of PyTorch has a list `nodes`"),
    ] {
        let error = of_text(name, text).expect_err(name);
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    }
}

/// A node of `record_param_comms` with what PyTorch says of a collective since 2.4.
fn comms(id: u32, parent: u32, name: &str, size: u32) -> String {
    format!(
        r#"{{"id": {id}, "name": "record_param_comms", "ctrl_deps": {parent}, "inputs": {{"values": [], "shapes": [], "types": []}}, "outputs": {{"values": [], "shapes": [], "types": []}}, "attrs": [{{"name": "rf_id", "type": "uint64", "value": 1}}, {{"name": "op_schema", "type": "string", "value": ""}}, {{"name": "collective_name", "type": "string", "value": "{name}"}}, {{"name": "dtype", "type": "string", "value": "Float"}}, {{"name": "in_msg_nelems", "type": "uint64", "value": 100}}, {{"name": "out_msg_nelems", "type": "uint64", "value": 100}}, {{"name": "pg_name", "type": "string", "value": "3"}}, {{"name": "pg_desc", "type": "string", "value": "tp"}}, {{"name": "pg_size", "type": "uint64", "value": {size}}}]}}"#
    )
}

#[test]
fn a_collective_is_among_as_many_ranks_as_its_group_has() {
    let weight = r#"[1, 10, 0, 100, 4, "cuda:0"]"#;
    let reduce = "c10d::allreduce_(Tensor[] tensors, __torch__ process_group) -> (Tensor[], Work)";
    let relu = "aten::relu_(Tensor(a!) self) -> Tensor(a!)";
    let init = r###"{"id": 3, "name": "## process_group:init ##", "ctrl_deps": 2, "inputs": {"values": ["[{\"pg_name\": \"3\", \"pg_desc\": \"tp\", \"backend_config\": \"cuda:nccl\", \"ranks\": [4, 5], \"group_size\": 2}]"], "shapes": [[]], "types": ["String"]}, "outputs": {"values": [], "shapes": [], "types": []}, "attrs": []}"###;
    for (name, size, wanted) in [
        ("allreduce", 2, Some(("all-reduce", 400, 2))),
        ("_allgather_base", 4, Some(("all-gather", 1600, 4))),
        ("allreduce", 1, None),
        ("wait", 2, None),
    ] {
        let nodes = [
            init.to_owned(),
            node(10, 1, "aten::relu_", relu, weight, weight),
            node(11, 1, "c10d::allreduce_", reduce, &format!("[{weight}]"), ""),
            comms(12, 11, name, size),
        ];
        let Imported { trace, account } = of_text("group", &document(&nodes)).unwrap();
        let units: Vec<_> = trace.ops.iter().map(|op| op.unit).collect();
        let found = match units[..] {
            [Unit::Device, Unit::Network(one)] => {
                Some((one.kind.word(), one.bytes.get(), one.within))
            }
            _ => None,
        };
        assert_eq!(found, wanted, "{units:?}");
        assert_eq!(account.collectives, u64::from(wanted.is_some()));
    }
}
