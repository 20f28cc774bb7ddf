//! Recordings that are damaged or odd: each is refused with file and line, or imported as stated.

use crate::files::folder;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::import::recording::{Imported, import_recording};
use tiersim_models::ids::OpId;
use tiersim_models::workload::{Mode, ObjectKind, Phase};

const OBJECTS: &str = "id,bytes,kind,name,dtype,shape,birth_op,last_use_op,death_op
0,24,param,fc.weight,float32,2x3,0,5,
1,4,optstate,fc.weight.step,float32,,0,4,
2,32,input,x,float32,4x2,0,3,
3,48,tmp,,float32,4x3,0,2,4
4,24,grad,fc.weight,float32,2x3,3,5,6
";

const OPS: [&str; 6] = [
    r#"{"i":0,"step":7,"ph":"fwd","op":"aten.mm.default","mod":"Net.fc","t":1000,"d":5,"c":4,"view":0,"r":[2,0],"w":[3]}"#,
    r#"{"i":1,"step":7,"ph":"fwd","op":"aten.view.default","mod":"Net","t":1010,"d":5,"c":4,"view":1,"r":[3],"w":[]}"#,
    r#"{"i":2,"step":7,"ph":"fwd","op":"aten.relu_.default","mod":"Net","t":1020,"d":5,"c":4,"view":0,"r":[3],"w":[3]}"#,
    r#"{"i":3,"step":7,"ph":"bwd","op":"aten.mm.default","mod":"Net","t":1030,"d":5,"c":4,"view":0,"r":[2,3],"w":[4]}"#,
    r#"{"i":4,"step":7,"ph":"opt","op":"aten.add_.Tensor","mod":"","t":1040,"d":5,"c":4,"view":0,"r":[1],"w":[1]}"#,
    r#"{"i":5,"step":7,"ph":"opt","op":"aten.add_.Tensor","mod":"","t":1050,"d":5,"c":4,"view":0,"r":[0,4],"w":[0]}"#,
];

fn recording(name: &str) -> PathBuf {
    let folder = folder(name);
    fs::write(folder.join("objects.csv"), OBJECTS).unwrap();
    fs::write(folder.join("ops.jsonl"), OPS.join("\n") + "\n").unwrap();
    fs::write(folder.join("params.csv"), "param,module\nfc.weight,fc\n").unwrap();
    fs::write(folder.join("run.json"), r#"{"batch":1,"seq":4,"dtype":"bfloat16"}"#).unwrap();
    folder
}

fn changed(name: &str, file: &str, from: &str, to: &str) -> Imported {
    let folder = recording(name);
    let old = fs::read_to_string(folder.join(file)).unwrap();
    fs::write(folder.join(file), old.replacen(from, to, 1)).unwrap();
    import_recording(&folder).unwrap()
}

#[test]
fn a_small_recording_becomes_the_trace_that_it_describes() {
    let Imported { trace, counts } = import_recording(&recording("small")).unwrap();
    assert_eq!((counts.kept_ops, counts.views, counts.step_counter_ops), (4, 1, 1));
    assert_eq!((counts.kept_objects, counts.step_counters), (4, 1));
    assert_eq!(trace.meta.precision, "bf16");
    assert_eq!(trace.meta.name, "small");
    let names: Vec<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["fc.weight", "x", "mm.3", "fc.weight.grad.step7"]);
    let kinds: Vec<ObjectKind> = trace.objects.iter().map(|object| object.kind).collect();
    use ObjectKind::{Activation, Buffer, Gradient, Weight};
    assert_eq!(kinds, [Weight, Buffer, Activation, Gradient]);
    assert_eq!(trace.modules, ["fc"]);
    // Freed before the dropped op 4, so after op 3, which is row 2; the gradient after the last.
    assert_eq!(trace.objects[2].freed_after, Some(OpId(2)));
    assert_eq!(trace.objects[3].freed_after, Some(OpId(3)));
    // 4 x 2 by 2 x 3; the in-place op reads and writes; times start at the first op.
    assert_eq!(trace.ops[0].flops, 48);
    assert_eq!(trace.ops[0].bytes.get(), 32 + 24 + 48);
    assert_eq!(trace.uses_of(OpId(1))[0].mode, Mode::ReadWrite);
    assert_eq!(trace.ops[1].bytes.get(), 96);
    assert_eq!(trace.ops[1].at.map(|at| at.ps()), Some(20_000));
    assert_eq!(trace.ops[3].phase, Phase::Optimizer);
}

#[test]
fn an_object_read_before_any_write_is_made_persistent_and_counted() {
    let imported = changed("unborn", "ops.jsonl", r#""r":[2,0],"w":[3]"#, r#""r":[3,0],"w":[2]"#);
    assert_eq!(imported.counts.made_persistent, 1);
    assert!(imported.trace.objects[2].persistent);
}

#[test]
fn an_object_that_is_never_freed_lives_until_the_last_op() {
    let imported = changed("unfreed", "objects.csv", "0,2,4\n", "0,2,\n");
    assert_eq!(imported.counts.never_freed, 1);
    assert_eq!(imported.trace.objects[2].freed_after, Some(OpId(3)));
}

#[test]
fn a_deep_row_is_refused() {
    let folder = recording("deep");
    let deep = OPS.join("\n").replace(r#""w":[4]"#, &format!(r#""w":{}"#, "[".repeat(100_000)));
    fs::write(folder.join("ops.jsonl"), deep + "\n").unwrap();
    let message = import_recording(&folder).unwrap_err().to_string();
    assert!(message.contains("ops.jsonl:4:"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    for file in ["ops.jsonl", "objects.csv"] {
        let folder = recording("missing");
        fs::remove_file(folder.join(file)).unwrap();
        let message = import_recording(&folder).unwrap_err().to_string();
        assert!(message.contains(&format!("{file}: missing file")), "{message}");
    }
    assert!(import_recording(Path::new("/nowhere/at/all")).is_err());
}
