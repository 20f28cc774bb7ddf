//! What the tables mean, on tables written here.

use crate::files::folder;
use std::fs;
use tiersim_input::import::tables::{Imported, Tables, import_tables};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;
use tiersim_models::workload::{ObjectKind, Phase, Trace, Use};

const KERNELS: &str = "kernel,name,op,cycles,ns,reads,writes\n";
const TENSORS: &str = "tensor,bytes,global\n";

/// Imports both tables from a folder of their own.
fn import(kernels: &str, tensors: &str) -> Result<Imported, Diagnostics> {
    let folder = folder("tables");
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).expect("the table is written");
        path
    };
    let kernels = file("net_b4.kernels.csv", format!("{KERNELS}{kernels}"));
    let tensors = file("net_b4.tensors.csv", format!("{TENSORS}{tensors}"));
    import_tables(&Tables { kernels, tensors, batch: 4 })
}

/// What each kernel does, such as `t0 r, t1 w`.
fn uses(trace: &Trace) -> Vec<String> {
    let one =
        |used: &Use| format!("{} {}", trace.objects[used.object.index()].name, used.mode.word());
    let ids = (0..trace.ops.len()).map(OpId::at);
    ids.map(|op| trace.uses_of(op).iter().map(one).collect::<Vec<_>>().join(", ")).collect()
}

#[test]
fn kernels_become_ops_and_tensors_objects() {
    let kernels = "0,Conv2d_Forward,Convolution,12,10,7,3\n\
                   1,Conv2d_Backward_Weight,Convolution,7,6,3;7;3,9;3\n\
                   2,Conv2d_Apply_Grad,Add,1,1,9,7\n";
    let Imported { trace, counts } =
        import(kernels, "7,64,1\n3,32,0\n9,16,0\n").expect("the tables are sound");
    assert_eq!(uses(&trace), ["t7 r, t3 w", "t3 rw, t7 r, t9 w", "t9 r, t7 w"]);
    let objects: Vec<_> =
        trace.objects.iter().map(|o| (o.kind, o.persistent, o.bytes.get())).collect();
    let (buffer, activation) = (ObjectKind::Buffer, ObjectKind::Activation);
    assert_eq!(objects, [(buffer, true, 64), (activation, false, 32), (activation, false, 16)]);
    let phases: Vec<Phase> = trace.ops.iter().map(|op| op.phase).collect();
    assert_eq!(phases, [Phase::Forward, Phase::Backward, Phase::Optimizer]);
    assert_eq!(trace.ops[1].bytes.get(), 32 + 32 + 64 + 16);
    assert_eq!((trace.meta.name.as_str(), trace.meta.batch), ("net_b4", 4));
    assert_eq!((counts.kernels, counts.tensors, counts.kept, counts.read_first), (3, 3, 3, 0));
}

#[test]
fn a_cycle_of_1200_mhz_takes_five_sixths_of_a_nanosecond() {
    let of = |cycles: u64| {
        let imported = import(&format!("0,k,k,{cycles},,,1\n"), "1,8,0\n").expect("sound");
        imported.trace.ops[0].duration.expect("a duration").ps()
    };
    assert_eq!([0, 1, 2, 3, 6].map(of), [0, 833, 1667, 2500, 5000]);
    assert_eq!(of(1_200_000_000), 1_000_000_000_000);
}

#[test]
fn a_tensor_that_is_read_before_it_is_written_is_born_there() {
    let kernels = "0,k,k,1,,5,6\n1,k,k,1,,5;6,5\n2,k,k,1,,6,\n";
    let Imported { trace, counts } = import(kernels, "5,8,0\n6,8,0\n").expect("sound");
    assert_eq!(uses(&trace), ["t5 w, t6 w", "t5 rw, t6 r", "t6 r"]);
    assert_eq!(counts.read_first, 1);
    let global = import(kernels, "5,8,1\n6,8,0\n").expect("sound");
    assert_eq!(uses(&global.trace)[0], "t5 r, t6 w");
    assert_eq!(global.counts.read_first, 0);
}

#[test]
fn what_takes_no_memory_while_a_kernel_runs_is_left_out_and_counted() {
    // 1 is of no bytes, 2 is used by nobody, 3 is used by nobody and lives all the same.
    let Imported { trace, counts } =
        import("0,k,k,1,,,1\n1,k,k,1,,,4\n", "1,0,0\n2,8,0\n3,8,1\n4,8,0\n").expect("sound");
    assert_eq!(uses(&trace), ["", "t4 w"]);
    let kept: Vec<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(kept, ["t3", "t4"]);
    assert_eq!((counts.empty, counts.unused, counts.without_tensors), (1, 1, 1));
    assert_eq!(
        counts.to_string(),
        "2 kernels (1 without tensors); 2 of 4 tensors kept (dropped: 1 of 0 bytes, 1 unused); \
         0 born at a kernel that reads them"
    );
}
