//! Reading and writing trace folders: what is written reads back, and every kind of damage is
//! reported with its file and line, never with a panic.

use crate::files::folder;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tiersim_input::trace::{Packing, info, read_trace, trace_hash, write_trace};
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, Phase, Recorded, Statistics, Trace, TraceMeta, Use,
};

/// Two ops: the first writes an activation from a weight, the second reads both.
fn small_trace() -> Trace {
    let object = |name: &str, kind, bytes, persistent| Object {
        dtype: "float32".into(),
        persistent,
        module: persistent.then_some(ModuleId(0)),
        statistics: Statistics { adam_m: persistent.then_some(0.25), ..Statistics::default() },
        freed_after: (!persistent).then_some(OpId(1)),
        ..Object::new(name, kind, Bytes::new(bytes))
    };
    let op = |phase, name: &str, duration: Option<u64>, flops, bytes, at, uses| Op {
        module: (flops > 0).then_some(ModuleId(0)),
        duration: duration.map(Span::from_ps),
        flops,
        bytes: Bytes::new(bytes),
        at: Some(Time::from_ps(at)),
        ..Op::new(0, phase, name, uses)
    };
    let row = |object, mode| Use::whole(ObjectId(object), mode);
    Trace {
        meta: TraceMeta {
            name: "small".into(),
            about: "two ops".into(),
            precision: "fp32".into(),
            batch: 1,
            sequence: 4,
            recorded: Recorded { how: "by hand".into(), ..Recorded::default() },
        },
        modules: vec!["m".into()],
        objects: vec![
            object("w", ObjectKind::Weight, 16, true),
            object("act", ObjectKind::Activation, 8, false),
        ],
        ops: vec![
            op(Phase::Forward, "mm", Some(1_500_250), 96, 80, 0, 0..2),
            op(Phase::Backward, "add", None, 0, 24, 1_500_000, 2..4),
        ],
        uses: vec![
            row(0, Mode::Read),
            row(1, Mode::Write),
            row(0, Mode::Read),
            row(1, Mode::ReadWrite),
        ],
    }
}

/// A folder with [`small_trace`] in it.
fn small_folder(name: &str) -> PathBuf {
    let folder = folder(name);
    write_trace(&small_trace(), &folder, Packing::Plain).unwrap();
    folder
}

fn edit(folder: &Path, file: &str, change: impl Fn(String) -> String) {
    let path = folder.join(file);
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
}

fn messages(folder: &Path, texts: &[&str]) {
    let text = read_trace(folder).unwrap_err().to_string();
    for expected in texts {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn what_is_written_reads_back_and_writes_the_same_bytes() {
    for packing in [Packing::Plain, Packing::Gzip, Packing::Smaller] {
        let first = folder(&format!("round-{packing:?}-1"));
        let second = folder(&format!("round-{packing:?}-2"));
        write_trace(&small_trace(), &first, packing).unwrap();
        let read = read_trace(&first).unwrap();
        assert_eq!(read, small_trace());
        write_trace(&read, &second, packing).unwrap();
        assert_eq!(files(&first), files(&second));
        assert_eq!(files(&first).len(), 4, "nothing but the four files is left");
    }
}

#[test]
fn writing_again_replaces_tables_packed_otherwise() {
    let folder = folder("replace");
    write_trace(&small_trace(), &folder, Packing::Gzip).unwrap();
    write_trace(&small_trace(), &folder, Packing::Plain).unwrap();
    assert_eq!(read_trace(&folder).unwrap(), small_trace());
}

/// The small trace with statistics of two steps for its first object.
fn followed() -> Trace {
    let mut trace = small_trace();
    let of = |norm| Statistics { adam_m: Some(0.5), adam_v: None, grad_norm: Some(norm) };
    trace.objects[0].history = Some([of(3.0), of(9.0)].into());
    trace
}

#[test]
fn statistics_of_every_step_read_back_and_are_gone_when_they_are_no_more() {
    let folder = folder("followed");
    write_trace(&followed(), &folder, Packing::Plain).unwrap();
    let text = fs::read_to_string(folder.join("statistics.csv")).unwrap();
    assert_eq!(text, "step,object,adam_m,adam_v,grad_norm\n0,0,0.5,,3.0\n1,0,0.5,,9.0\n");
    assert_eq!(read_trace(&folder).unwrap(), followed());
    assert_ne!(trace_hash(&followed()), trace_hash(&small_trace()));
    write_trace(&followed(), &folder, Packing::Gzip).unwrap();
    assert_eq!(files(&folder).len(), 5);
    assert_eq!(read_trace(&folder).unwrap(), followed());
    write_trace(&small_trace(), &folder, Packing::Gzip).unwrap();
    assert_eq!(files(&folder).len(), 4);
    assert_eq!(read_trace(&folder).unwrap(), small_trace());
}

#[test]
fn a_table_of_statistics_that_is_not_whole_is_refused() {
    let folder = folder("not-whole");
    let mut trace = followed();
    trace.objects[1].history = trace.objects[0].history.clone();
    write_trace(&trace, &folder, Packing::Plain).unwrap();
    let rows = |rows: &[&str]| {
        let text = format!("step,object,grad_norm\n{}\n", rows.join("\n"));
        fs::write(folder.join("statistics.csv"), text).unwrap();
    };
    rows(&["0,0,1", "0,1,1", "1,0,1", "1,1,2"]);
    assert_eq!(read_trace(&folder).unwrap().objects[1].history.as_ref().unwrap().len(), 2);
    for (bad, said) in [
        (["0,0,1", "0,1,1", "1,0,1", "2,1,2"], "statistics.csv:5: step 1 lists all objects"),
        (["0,0,1", "0,1,1", "2,0,1", "2,1,2"], "statistics.csv:4: step 1 comes next"),
        (["0,0,1", "0,1,1", "1,1,1", "1,0,2"], "statistics.csv:4: object 0 of step 0 comes next"),
        (["0,1,1", "0,0,1", "1,0,1", "1,1,2"], "statistics.csv:3: objects rise"),
        (["0,0,1", "0,7,1", "1,0,1", "1,7,2"], "statistics.csv:3: object is a row of objects.csv"),
        (["0,0,-1", "0,1,1", "1,0,1", "1,1,2"], "statistics.csv:2: grad_norm is not negative"),
        (["0,0,nan", "0,1,1", "1,0,1", "1,1,2"], "statistics.csv:2:"),
    ] {
        rows(&bad);
        messages(&folder, &[said]);
    }
    // Cut off, at the end of a step and within one.
    rows(&["0,0,1", "0,1,1"]);
    messages(&folder, &["2 rows where trace.ron says 4"]);
    edit(&folder, "trace.ron", |text| text.replace("statistics: 4", "statistics: 3"));
    rows(&["0,0,1", "0,1,1", "1,0,1"]);
    messages(&folder, &["step 1 does not list all objects of step 0"]);
    edit(&folder, "trace.ron", |text| text.replace("statistics: 3", "statistics: 0"));
    messages(&folder, &["statistics.csv: trace.ron counts no rows of this table"]);
    fs::remove_file(folder.join("statistics.csv")).unwrap();
    assert_eq!(read_trace(&folder).unwrap(), small_trace());
}

#[test]
fn a_broken_trace_is_not_written() {
    let folder = folder("broken");
    let mut trace = small_trace();
    trace.objects[0].bytes = Bytes::ZERO;
    let text = write_trace(&trace, &folder, Packing::Plain).unwrap_err().to_string();
    assert!(text.contains("objects.csv, row 0"), "{text}");
    assert_eq!(files(&folder), []);
}

#[test]
fn a_folder_that_cannot_be_written_is_left_without_partial_files() {
    let folder = folder("occupied");
    fs::create_dir_all(folder.join("uses.csv/inside")).unwrap();
    let text = write_trace(&small_trace(), &folder, Packing::Plain).unwrap_err().to_string();
    assert!(text.contains("cannot be read or written"), "{text}");
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["uses.csv"]);
}

#[test]
fn columns_come_in_any_order_and_optional_ones_may_be_missing() {
    let folder = small_folder("columns");
    let short = "bytes,name,id,persistent,kind\n16,w,0,true,weight\n8,\"a,\"\"b\"\"\",1,false,kv\n";
    fs::write(folder.join("objects.csv"), short).unwrap();
    let ops = "name,phase,step,id\r\nmm,forward,0,0\r\nadd,backward,0,1\r\n";
    fs::write(folder.join("ops.csv"), ops).unwrap();
    let trace = read_trace(&folder).unwrap();
    assert_eq!(trace.objects[1].name, "a,\"b\"");
    assert_eq!(trace.objects[1].kind, ObjectKind::Kv);
    assert_eq!(trace.ops[1].duration, None);
}

#[test]
fn a_zstd_table_is_read_and_a_damaged_one_refused() {
    let folder = small_folder("zstd");
    let text = fs::read(folder.join("uses.csv")).unwrap();
    fs::remove_file(folder.join("uses.csv")).unwrap();
    // A frame of one raw block, as any encoder may write it.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, text.len() as u8];
    frame.extend_from_slice(&(((text.len() as u32) << 3) | 1).to_le_bytes()[..3]);
    frame.extend_from_slice(&text);
    fs::write(folder.join("uses.csv.zst"), &frame).unwrap();
    assert_eq!(read_trace(&folder).unwrap(), small_trace());
    frame.truncate(frame.len() - 4);
    fs::write(folder.join("uses.csv.zst"), &frame).unwrap();
    messages(&folder, &["uses.csv.zst", "packed data"]);
    fs::write(folder.join("uses.csv.zst"), b"no frame at all").unwrap();
    messages(&folder, &["uses.csv.zst", "packed data is damaged"]);
}

#[test]
fn problems_of_all_files_are_reported_together_and_capped() {
    let folder = small_folder("together");
    edit(&folder, "objects.csv", |text| text.replace(",16,", ",x,"));
    edit(&folder, "ops.csv", |text| text.replace("forward", "forwards"));
    edit(&folder, "uses.csv", |text| text.replace("rw", "q"));
    messages(&folder, &["objects.csv:2:", "ops.csv:2:", "uses.csv:5:"]);
    edit(&folder, "trace.ron", |text| text.replace("uses: 4", "uses: 1000"));
    edit(&folder, "uses.csv", |_| format!("op,object,mode\n{}", "0,0,q\n".repeat(1000)));
    let problems = read_trace(&folder).unwrap_err();
    assert_eq!(problems.0.len(), 51);
    assert_eq!(problems.0[50].rule, "and 952 more problems");
}

#[test]
fn a_line_without_end_is_refused() {
    let folder = small_folder("text");
    fs::write(folder.join("uses.csv"), "x".repeat(3 << 20)).unwrap();
    messages(&folder, &["uses.csv:1: a line of more than 1 MiB"]);
}

#[test]
fn missing_ambiguous_and_linked_files_are_refused() {
    let folder = small_folder("missing");
    fs::rename(folder.join("uses.csv"), folder.join("other")).unwrap();
    messages(&folder, &["uses.csv: missing file"]);
    std::os::unix::fs::symlink(folder.join("other"), folder.join("uses.csv")).unwrap();
    messages(&folder, &["uses.csv: a symbolic link"]);
    fs::remove_file(folder.join("uses.csv")).unwrap();
    fs::create_dir(folder.join("uses.csv")).unwrap();
    messages(&folder, &["uses.csv: not a regular file"]);
    fs::remove_dir(folder.join("uses.csv")).unwrap();
    fs::copy(folder.join("other"), folder.join("uses.csv")).unwrap();
    fs::write(folder.join("uses.csv.gz"), gzip(b"op,object,mode\n")).unwrap();
    messages(&folder, &["uses.csv: the same table twice"]);
    fs::remove_file(folder.join("trace.ron")).unwrap();
    messages(&folder, &["trace.ron: missing file"]);
    fs::remove_dir_all(&folder).unwrap();
    let said = read_trace(&folder).unwrap_err();
    let rules: Vec<&str> = said.0.iter().map(|problem| &*problem.rule).collect();
    assert_eq!(rules, ["there is no such file or folder"]);
    assert!(read_trace(Path::new("/nowhere/at/all")).is_err());
}

#[test]
fn damaged_packed_tables_are_refused() {
    let folder = small_folder("gz");
    let text = fs::read(folder.join("uses.csv")).unwrap();
    fs::remove_file(folder.join("uses.csv")).unwrap();
    let path = folder.join("uses.csv.gz");
    fs::write(&path, b"not gzip at all").unwrap();
    messages(&folder, &["uses.csv.gz", "the packed data is damaged"]);
    fs::write(&path, gzip(&gzip(&text))).unwrap();
    messages(&folder, &["uses.csv.gz:1: what was unpacked is packed again; unpack it once"]);
    let packed = gzip(&text);
    fs::write(&path, &packed[..packed.len() - 6]).unwrap();
    messages(&folder, &["uses.csv.gz", "the packed data ends early"]);
    let mut garbage = packed.clone();
    let middle = packed.len() - 7;
    garbage[middle] ^= 0x55;
    fs::write(&path, &garbage).unwrap();
    messages(&folder, &["uses.csv.gz", "packed data"]);
    fs::write(&path, &packed).unwrap();
    assert_eq!(read_trace(&folder).unwrap(), small_trace());
}

#[test]
fn a_packed_bomb_is_stopped() {
    let folder = small_folder("bomb");
    fs::remove_file(folder.join("uses.csv")).unwrap();
    let mut text = b"op,object,mode\n".to_vec();
    text.extend(b"0,0,r\n".repeat((48 << 20) / 6));
    let packed = gzip(&text);
    fs::write(folder.join("uses.csv.gz"), packed).unwrap();
    // The number of rows alone stops it, unless the header lies as well.
    messages(&folder, &["uses.csv.gz:6: more than the 4 rows"]);
    edit(&folder, "trace.ron", |text| text.replace("uses: 4", "uses: 4000000000"));
    messages(&folder, &["uses.csv.gz:", "unpacks to more than is allowed"]);
}

#[test]
fn info_counts_what_is_there() {
    let info = info(&small_trace());
    assert_eq!((info.ops, info.objects, info.uses), (2, 2, 4));
    assert_eq!((info.peak.bytes, info.peak.op), (24, 0));
    assert_eq!(info.steps[0].touched_bytes, 24);
    assert_eq!(info.phases.len(), 2);
    let text = info.to_string();
    assert!(text.contains("peak: 0.0 MiB (24 bytes) alive at op 0"), "{text}");
    assert!(serde_json::to_string(&info).unwrap().contains("\"touched_bytes\":24"));
}
