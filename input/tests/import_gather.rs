//! Archives and folders of recordings: which files are taken, and that they are read as if they lay
//! there unpacked.

use crate::files::{folder, shared};
use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::accesses::Grouping;
use tiersim_input::import::any::{Imported, import_file, import_recordings};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Gaps, Unit};

type Files = Vec<(String, Vec<u8>)>;

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in files {
        let mut header = vec![0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        out.extend(header);
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.extend([0; 1024]);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A ZIP; every second file is deflated.
fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut rows) = (Vec::new(), Vec::new());
    for (index, (name, bytes)) in files.iter().enumerate() {
        let (method, packed) = match index % 2 {
            0 => (0u16, bytes.clone()),
            _ => {
                let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
                packed.write_all(bytes).unwrap();
                (8, packed.finish().unwrap())
            }
        };
        let mut sum = Crc::new();
        sum.update(bytes);
        let mut middle = Vec::new();
        for two in [20u16, 0, method, 0, 0] {
            middle.extend(two.to_le_bytes());
        }
        for four in [sum.sum(), packed.len() as u32, bytes.len() as u32] {
            middle.extend(four.to_le_bytes());
        }
        middle.extend((name.len() as u16).to_le_bytes());
        middle.extend([0, 0]);
        rows.extend(b"PK\x01\x02\x14\0");
        rows.extend(&middle);
        rows.extend([0; 10]);
        rows.extend((out.len() as u32).to_le_bytes());
        rows.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&middle);
        out.extend(name.as_bytes());
        out.extend(&packed);
    }
    let at = out.len() as u32;
    out.extend(&rows);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([files.len() as u16; 2].map(u16::to_le_bytes).concat());
    out.extend((rows.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

/// The same files as a tar, a packed tar, a ZIP and a folder.
fn forms(folder: &Path, files: &[(String, Vec<u8>)]) -> [PathBuf; 4] {
    fs::create_dir_all(folder).unwrap();
    let paths = ["a.tar", "b.tar.gz", "c.zip", "d"].map(|name| folder.join(name));
    fs::write(&paths[0], tar(files)).unwrap();
    fs::write(&paths[1], gzip(&tar(files))).unwrap();
    fs::write(&paths[2], zip(files)).unwrap();
    for (name, bytes) in files {
        let path = paths[3].join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    paths
}

/// A trace of the profiler of a rank, with one collective and a kernel whose time is the rank's.
fn rank(number: u64, of: u64) -> Vec<u8> {
    let end = number + 3;
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {number}, "world_size": {of}}},
"traceEvents": [
{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":20,"ts":0,"dur":{end},"args":{{"correlation":1,"stream":20,"device":0}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)","pid":0,"tid":20,"ts":{end},"dur":5,"args":{{"correlation":2,"stream":20,"device":0,"In msg nelems": 256, "dtype": "Float", "Collective name": "allreduce", "Group size": {of}, "Process Group Name": "0"}}}}]}}"#
    )
    .into_bytes()
}

/// An execution trace with one op that names its rank by a size.
fn execution(number: u64) -> Vec<u8> {
    let numbers = number + 10;
    format!(
        r#"{{"schema": "1.0.1", "nodes": [{{"name": "aten::relu", "id": 2, "parent": 1, "op_schema": "aten::relu(Tensor self) -> Tensor", "inputs": [[1, 5, 0, {numbers}, 4, "cuda:0"]], "outputs": [[2, 6, 0, {numbers}, 4, "cuda:0"]]}}]}}"#
    )
    .into_bytes()
}

fn import(path: &Path) -> Result<Imported, Diagnostics> {
    import_file(path, Gaps::Keep)
}

#[test]
fn ranks_are_read_out_of_archives_and_folders() {
    let folder = folder("ranks");
    // Ranks say who they are; their names say otherwise.
    let files: Files = vec![
        ("README.md".to_owned(), b"# how this was recorded".to_vec()),
        ("k/w10.json".to_owned(), rank(0, 3)),
        ("k/w9.json.gz".to_owned(), gzip(&rank(1, 3))),
        ("k/w8.json".to_owned(), rank(2, 3)),
    ];
    let forms = forms(&folder, &files);
    let trace = import(&forms[0]).unwrap().trace;
    let network = trace.ops.iter().filter(|op| matches!(op.unit, Unit::Network(_)));
    assert_eq!(network.count(), 1);
    for path in &forms {
        assert_eq!(FileKind::of(path), Some(FileKind::Recordings), "{}", path.display());
        let Imported { trace: same, account } = import(path).unwrap();
        assert_eq!(same.ops, trace.ops, "{}", path.display());
        for wanted in [
            "of 4 files in",
            "  k/w10.json\n  k/w9.json.gz\n  k/w8.json\n  1 others are left out\n\n3 ranks as one",
            "1 all-reduce of 1024 bytes, each one op of all ranks in it",
        ] {
            assert!(account.contains(wanted), "{account}\nwanted {wanted}");
        }
        // One of them alone, by its name in the archive.
        let one = path.join("k/w9.json.gz");
        assert_eq!(FileKind::of(&one), Some(FileKind::ProfilerTrace));
        assert_eq!(import(&one).unwrap().trace.ops.len(), 2);
    }
    // Beside a file that is named itself.
    let other = folder.join("three.json");
    fs::write(&other, rank(3, 4)).unwrap();
    let two = folder.join("e.tar");
    fs::write(&two, tar(&[("a".to_owned(), rank(0, 4)), ("b".to_owned(), rank(1, 4))])).unwrap();
    let all = import_recordings(&[two, other], &[], Gaps::Keep, (None, &Grouping::default()), None);
    assert!(all.unwrap().account.contains("3 ranks as one trace"));
}

#[test]
fn execution_traces_are_those_of_the_ranks_in_the_order_of_their_names() {
    let folder = folder("pairs");
    let files: Files = (0..12)
        .flat_map(|number| {
            let kineto = (format!("kineto/step_{number}.json"), rank(number, 12));
            [kineto, (format!("et/eg_{number}.json"), execution(number))]
        })
        .collect();
    for path in forms(&folder, &files) {
        let account = import(&path).unwrap().account;
        for number in [0, 2, 10] {
            let wanted = format!("kineto/step_{number}.json with et/eg_{number}.json\n");
            assert!(account.contains(&wanted), "{account}");
        }
    }
    // As many, or none.
    let some = forms(&folder.join("some"), &files[..5]);
    let error = import(&some[0]).unwrap_err().to_string();
    assert!(error.contains("ranks have an execution trace each, or none has one (found 3 and 2)"));
}

#[test]
fn one_recording_among_others_is_taken_and_several_are_asked_for() {
    let folder = folder("one");
    let note = ("LICENSE".to_owned(), b"MIT".to_vec());
    let lackey = b" L 1fff000688,8\n S 1fff000690,8\n".to_vec();
    let one = vec![note.clone(), ("a.lackey".to_owned(), lackey.clone())];
    for path in forms(&folder, &one) {
        let account = import(&path).unwrap().account;
        assert!(account.contains("of 2 files: "), "{account}");
    }
    let two = vec![("x/a.json".to_owned(), execution(0)), ("x/b.lackey".to_owned(), lackey)];
    for path in &forms(&folder.join("two"), &two) {
        let error = import(path).unwrap_err().to_string();
        let name = path.join("x/a.json");
        let wanted = format!("name what is meant, such as {}", name.display());
        assert!(error.contains("2 recordings") && error.contains(&wanted), "{error}");
        assert!(import(&name).is_ok());
        let missing = import(&path.join("x/c.json")).unwrap_err().to_string();
        assert!(missing.contains("x/c.json"), "{missing}");
    }
}

#[test]
fn what_holds_no_recording_is_said_and_checkpoints_are_left_alone() {
    let folder = folder("none");
    let notes: Files = vec![("a.md".to_owned(), b"# a".to_vec()), ("b".to_owned(), b"b".to_vec())];
    for path in forms(&folder, &notes) {
        assert!(FileKind::of(&path).is_none_or(|kind| !kind.becomes_trace()), "{}", path.display());
        assert!(import(&path).is_err());
    }
    let pickle = b"\x80\x02}q\x00.".to_vec();
    let checkpoint =
        vec![("model/data.pkl".to_owned(), pickle), ("model/version".to_owned(), b"3".to_vec())];
    let path = folder.join("model.pt");
    fs::write(&path, zip(&checkpoint)).unwrap();
    let error = import(&path).unwrap_err().to_string();
    assert!(error.contains("this is a ZIP archive, such as a checkpoint of PyTorch"), "{error}");
}

#[test]
fn damaged_archives_are_refused() {
    let folder = folder("damaged");
    let files: Files = (0..4).map(|number| (format!("{number}.json"), rank(number, 4))).collect();
    let whole = zip(&files);
    let refused = |name: &str, bytes: &[u8], wanted: &str| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        let error = import(&path).map(|one| one.account).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    };
    // Contents that are not those that the directory has the sum of.
    let mut changed = whole.clone();
    let at = changed.windows(4).position(|four| four == b"\"dur").unwrap();
    changed[at + 1] = b'D';
    refused("sum.zip", &changed, "the checksum does not match");
    refused("cut.zip", &whole[..whole.len() - 30], "cut off");
    let tar = tar(&files);
    refused("cut.tar", &tar[..tar.len() - 2000], "ends early");
    // A packed tar that unpacks to far more than it is.
    let bomb = gzip(&self::tar(&[
        ("0.json".to_owned(), rank(0, 2)),
        ("zeros".to_owned(), vec![0; 40 << 20]),
        ("1.json".to_owned(), rank(1, 2)),
    ]));
    assert!(bomb.len() < 100_000);
    refused("bomb.tar.gz", &bomb, "more than 200 times");
}

#[test]
fn real_ranks_are_the_same_packed_and_unpacked() {
    let Some(path) = shared("execution-trace/dlrm_kineto_and_et_ranks_0_to_3.tar.gz") else {
        return;
    };
    let Imported { trace, account } = import(&path).unwrap();
    // As counted by `tests/count_ranks.py`: 1,162 activities, of which 8 are collectives of all four.
    assert_eq!(trace.ops.iter().filter(|op| op.unit != Unit::Idle).count(), 1_162);
    assert_eq!(trace.ops.iter().filter(|op| matches!(op.unit, Unit::Network(_))).count(), 8);
    assert!(account.contains("4 ranks as one trace") && account.contains("with dlrm_pytorch_et/"));
}
