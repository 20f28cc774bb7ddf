//! Memory of hostile files: whatever a file of 1 kB to 10 MB holds, reading it takes at most 64 MiB
//! and 8 bytes for each byte that it unpacks to.
//!
//! The limit is set on the process (`ulimit -d`: heap, stacks of threads, all that is private and
//! can be written), so a reader that takes more is stopped by the system and its test fails. Every
//! file repeats the shortest thing that makes its reader keep a value.
//! Invariant: what a file unpacks to is counted here, not asked of the reader.

use crate::common::{Project, gzip, run_with};
use std::fmt::Write as _;

/// Bytes of the files, unpacked: one small, one larger than any buffer, and the largest.
const SIZES: [usize; 3] = [1 << 10, 300_000, 10_000_000];
/// What any file may take, and how many times its bytes more.
const FREE: usize = 64 << 20;
const TIMES: usize = 8;

/// Runs the command on files of a project: it must end by itself, within the limit.
#[track_caller]
fn bounded(what: &str, files: &[(&str, Vec<u8>)], args: &[&str]) {
    let project = Project::empty();
    let mut unpacked = 0;
    for (name, bytes) in files {
        unpacked += bytes.len();
        if name.ends_with(".gz") {
            project.write(name, gzip(bytes, crate::common::Compression::fast()));
        } else {
            project.write(name, bytes);
        }
    }
    let limit = (FREE + TIMES * unpacked) / 1024;
    let ran = run_with(&project.root, args, &format!("ulimit -d {limit}"));
    let ended = matches!(ran.code, Some(0..=2)) && !ran.stderr.contains("panicked");
    let told: String = ran.stderr.chars().take(400).collect();
    assert!(ended, "{what}: {unpacked} bytes unpacked, limit {limit} KiB: {:?} {told}", ran.code);
}

/// `piece` repeated between `head` and `tail`, to about `size` bytes.
fn repeated(head: &str, piece: &str, tail: &str, size: usize) -> Vec<u8> {
    let count = size.saturating_sub(head.len() + tail.len()) / piece.len();
    format!("{head}{}{tail}", piece.repeat(count)).into_bytes()
}

/// The same with numbered pieces.
fn counted(head: &str, tail: &str, size: usize, piece: impl Fn(usize) -> String) -> Vec<u8> {
    let mut text = head.to_owned();
    for number in 0.. {
        let piece = piece(number);
        if number > 0 && text.len() + piece.len() + tail.len() > size {
            break;
        }
        text.push_str(&piece);
    }
    text.push_str(tail);
    text.into_bytes()
}

fn joined(pieces: &[&[u8]]) -> Vec<u8> {
    pieces.concat()
}

const SNAPSHOT: &[&str] = &["allocator", "a.pickle", "--out", "made"];
const PACKED: &[&str] = &["allocator", "a.pickle.gz", "--out", "made"];

#[test]
fn pickles_are_bounded() {
    for size in SIZES {
        let opcodes: [(&str, [&[u8]; 3]); 10] = [
            ("empty lists", [b"\x80\x02(", b"]", b"l."]),
            ("empty dicts", [b"\x80\x02(", b"}", b"l."]),
            ("empty tuples", [b"\x80\x02(", b")", b"t."]),
            ("lists of one item", [b"\x80\x02(", b"]Na", b"l."]),
            ("dicts of one pair", [b"\x80\x02(", b"}NNs", b"l."]),
            ("lists in lists", [b"\x80\x02N", b"\x85", b"."]),
            ("marks", [b"\x80\x02", b"(", b"."]),
            ("notes", [b"\x80\x04N", b"\x94", b"."]),
            ("empty texts", [b"\x80\x04(", b"\x8c\x00", b"l."]),
            ("floats", [b"\x80\x04(", b"G\0\0\0\0\0\0\0\0", b"l."]),
        ];
        for (what, [head, piece, tail]) in opcodes {
            let pickle = joined(&[head, &piece.repeat(size / piece.len()), tail]);
            bounded(what, &[("a.pickle", pickle.clone())], SNAPSHOT);
            bounded(what, &[("a.pickle.gz", pickle)], PACKED);
        }
        let mut apart = b"\x80\x04N".to_vec();
        (0..size as u32 / 5).for_each(|key| {
            apart.push(b'r');
            apart.extend((key * 2 + 5).to_le_bytes());
        });
        bounded("notes with holes", &[("a.pickle", joined(&[&apart, b"."]))], SNAPSHOT);
    }
}

#[test]
fn rows_of_snapshots_that_are_shared_are_bounded() {
    let head: &[u8] = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces(";
    let mark: &[u8] = b"(}(\x8c\x06action\x8c\x08snapshotu\x94";
    let taken: &[u8] = b"(}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x00\x8c\x04sizeK\x05u\x94";
    for size in SIZES {
        let devices = joined(&[head, &b"]".repeat(size), b"lu."]);
        bounded("devices", &[("a.pickle", devices)], SNAPSHOT);
        for (what, row) in [("marks", mark), ("allocations", taken)] {
            let shared = joined(&[head, row, &b"h\x00".repeat(size / 2), b"llu."]);
            bounded(what, &[("a.pickle", shared)], SNAPSHOT);
        }
        let actions = counted("{\"segments\":[],\"device_traces\":[[", "{}]]}", size, |number| {
            format!("{{\"action\":\"alloc\",\"addr\":{number}000,\"size\":1}},")
        });
        bounded("JSON actions", &[("a.pickle", actions)], SNAPSHOT);
        let lists = repeated("{\"a\":[", "[],", "[]]}", size);
        bounded("JSON lists", &[("a.pickle", lists)], SNAPSHOT);
        let texts = counted("{\"a\":[", "0]}", size, |number| format!("\"{number:x}\","));
        bounded("JSON texts", &[("a.pickle", texts)], SNAPSHOT);
    }
}

#[test]
fn scenarios_and_specs_are_bounded() {
    // One byte less than the limit on such files.
    for size in [1 << 10, 300_000, (1 << 20) - 1] {
        for (what, head, piece, tail) in [
            ("depth", "Scenario(", "(", ""),
            ("lists", "Scenario(schema:1,policies:[", "[],", "])"),
            ("numbers", "Scenario(schema:1,policies:[", "1,", "])"),
            ("policies", "Scenario(schema:1,policies:[", "(name:\"a\",policy:AllHbm),", "])"),
            ("quotes", "Scenario(about:\"", "\\\"", "\")"),
            ("machines", "Hardware(schema:1,tiers:[", "(name:\"a\",kind:hbm),", "])"),
            ("tiers", "Hardware(schema:1,about:\"\",tiers:[", "(),", "])"),
        ] {
            let text = repeated(head, piece, tail, size);
            bounded(what, &[("a.ron", text)], &["check", "a.ron"]);
        }
        let fields = counted("Scenario(", ")", size, |number| format!("a{number}:1,"));
        bounded("fields", &[("a.ron", fields)], &["check", "a.ron"]);
    }
}

#[test]
fn models_and_weights_are_bounded() {
    let card: &[&str] = &["memory", "--model", "a.json"];
    let weights = |file| ["memory", "--model", "llama-2-7b", "--weights", file];
    for size in SIZES {
        for (what, head, piece, tail) in [
            ("lists", "{\"a\":[", "[],", "0]}"),
            ("depth", "{\"a\":", "[", ""),
            ("quantised", "{\"model_type\":\"llama\",\"quantization_config\":[", "[],", "0]}"),
        ] {
            let text = repeated(head, piece, tail, size.min(1_000_000));
            bounded(what, &[("a.json", text)], card);
        }
        let tensor = |number: usize| {
            let end = number + 1;
            let place = format!("\"data_offsets\":[{number},{end}]");
            format!("\"{number:x}\":{{\"dtype\":\"I8\",\"shape\":[],{place}}},")
        };
        let tensors = counted("{", "\"__metadata__\":{}}", size, tensor);
        let notes = counted("{\"__metadata__\":{", "\"\":\"\"}}", size, |number| {
            format!("\"{number:x}\":\"\",")
        });
        let start = "{\"a\":{\"dtype\":\"I8\",\"data_offsets\":[0,1],\"shape\":[";
        let shape = repeated(start, "1,", "1]}}", size);
        for (what, header) in [("tensors", tensors), ("notes", notes), ("shape", shape)] {
            let length = (header.len() as u64).to_le_bytes();
            let file = joined(&[&length, &header]);
            bounded(what, &[("a.safetensors", file)], &weights("a.safetensors"));
        }
        let index = "model.safetensors.index.json";
        let head = "{\"metadata\":{\"total_size\":1},\"weight_map\":{";
        let map = counted(head, "\"a\":\"\"}}", size, |number| format!("\"{number:x}\":\"\","));
        bounded("index", &[(index, map)], &weights(index));
    }
}

const OBJECTS: &str = "id,name,kind,bytes,dtype,persistent,module\n";
const OPS: &str = "id,step,phase,name\n";
const USES: &str = "op,object,mode\n";

#[test]
fn trace_folders_are_bounded() {
    let object = |number: usize| format!("{number},{number},kv,1,,true,\n");
    let module = |number: usize| format!("{number},{number},kv,1,,true,{number}\n");
    let op = |number: usize| format!("{number},0,other,a\n");
    let using = |number: usize| format!("{number},0,r\n");
    for size in SIZES {
        let one = (counted(OBJECTS, "", 0, object), counted(OPS, "", 0, op));
        let many = size / 24;
        let ops = counted(OPS, "", size / 2, op);
        let rows = ops.split(|&byte| byte == b'\n').count() - 2;
        for (what, objects, ops, uses) in [
            ("objects", counted(OBJECTS, "", size, object), one.1.clone(), USES.into()),
            ("modules", counted(OBJECTS, "", size, module), one.1.clone(), USES.into()),
            ("ops", one.0.clone(), counted(OPS, "", size, op), USES.into()),
            ("uses", one.0.clone(), ops, counted(USES, "", rows.min(many) * 8, using)),
            ("lines", repeated(OBJECTS, "\n", "", size), one.1.clone(), USES.into()),
        ] {
            let rows = |table: &[u8]| table.iter().filter(|&&byte| byte == b'\n').count() - 1;
            let header = format!(
                "(schema:1,name:\"t\",about:\"a\",precision:\"bf16\",batch:1,sequence:1,steps:1,\
                 recorded:(how:\"a\",when:\"b\",on:\"c\"),rows:(objects:{},ops:{},uses:{}))",
                rows(&objects),
                rows(&ops),
                rows(&uses)
            );
            let files = [
                ("t/trace.ron", header.into_bytes()),
                ("t/objects.csv.gz", objects),
                ("t/ops.csv.gz", ops),
                ("t/uses.csv", uses),
            ];
            bounded(what, &files, &["trace", "info", "t"]);
        }
    }
}

/// An op of a recording.
fn recorded(number: usize, phase: &str, reads: &str, writes: &str) -> String {
    format!(
        "{{\"i\":{number},\"step\":0,\"ph\":\"{phase}\",\"op\":\"a\",\"t\":0,\"c\":0,\"view\":0,\
         \"r\":[{reads}],\"w\":[{writes}]}}\n"
    )
}

#[test]
fn recordings_are_bounded() {
    let head = "id,bytes,kind,name,dtype,shape,death_op\n";
    let plain = |number: usize| format!("{number},8,tmp,,bool,,\n");
    let owned = |number: usize| format!("{number},8,grad,a,bool,,\n");
    let params = format!("param,module\na,{}\n", "m".repeat(250));
    let run = r#"{"batch":1,"seq":1,"dtype":"float32"}"#;
    for size in SIZES {
        let one = counted(head, "", 0, plain);
        let first = recorded(0, "fwd", "0", "0").into_bytes();
        // Each object is named by one op, as all of them would else be dropped.
        let used = |objects: &[u8]| {
            let count = objects.iter().filter(|&&byte| byte == b'\n').count() - 1;
            let mut text = String::new();
            for (op, start) in (0..count).step_by(1000).enumerate() {
                let ids: Vec<String> =
                    (start..count.min(start + 1000)).map(|id| id.to_string()).collect();
                text.push_str(&recorded(op, "fwd", "", &ids.join(",")));
            }
            text.into_bytes()
        };
        let objects = counted(head, "", size / 2, plain);
        let of_one = counted(head, "", size / 2, owned);
        let many = repeated("", "0,", "0", size / 2);
        let many = recorded(0, "fwd", &String::from_utf8(many).unwrap(), "").into_bytes();
        let long = recorded(0, "fwd", "0", "");
        let long =
            long.replacen("\"op\"", &format!("\"mod\":\"N.{}\",\"op\"", "m".repeat(size / 4)), 1);
        let mut backward = long;
        for number in 1..size / 200 {
            let _ = write!(backward, "{}", recorded(number, "bwd", "0", ""));
        }
        for (what, objects, ops, params) in [
            ("objects", objects.clone(), used(&objects), "param,module\n".to_owned()),
            ("owners", of_one.clone(), used(&of_one), params.clone()),
            (
                "ops",
                one.clone(),
                counted("", "", size, |i| recorded(i, "fwd", "0", "")),
                "param,module\n".into(),
            ),
            ("reads", one.clone(), many, "param,module\n".into()),
            ("modules", one.clone(), backward.into_bytes(), "param,module\n".into()),
            (
                "parameters",
                one.clone(),
                first.clone(),
                String::from_utf8(counted("param,module\n", "", size, |i| format!("{i},\n")))
                    .unwrap(),
            ),
        ] {
            let files = [
                ("r/objects.csv", objects),
                ("r/ops.jsonl.gz", ops),
                ("r/params.csv", params.into_bytes()),
                ("r/run.json", run.into()),
            ];
            bounded(what, &files, &["trace", "import", "recording", "r", "--out", "made"]);
        }
    }
}

#[test]
fn tables_of_kernels_are_bounded() {
    let kernel = |number: usize| format!("{number},a,1,0,\n");
    let tensor = |number: usize| format!("{number},1,1\n");
    let (kernels, tensors) = ("kernel,name,cycles,reads,writes\n", "tensor,bytes,global\n");
    let args =
        ["trace", "import", "tables", "--kernels", "k.csv", "--tensors", "t.csv", "--out", "made"];
    for size in SIZES {
        let ids: Vec<String> = (0..9).map(|id| id.to_string()).collect();
        let ids = ids.join(";");
        for (what, kernels, tensors) in [
            ("kernels", counted(kernels, "", size, kernel), counted(tensors, "", 0, tensor)),
            ("tensors", counted(kernels, "", 0, kernel), counted(tensors, "", size, tensor)),
            (
                "names of tensors",
                counted(kernels, "", size, |number| format!("{number},a,1,{ids},\n")),
                counted(tensors, "", 100, tensor),
            ),
        ] {
            bounded(what, &[("k.csv", kernels), ("t.csv", tensors)], &args);
        }
    }
}

#[test]
fn requests_are_bounded() {
    let policies =
        ["arc", "belady", "clock", "fifo", "lfu", "lirs", "lru", "s3-fifo", "sieve", "two-q"];
    for size in SIZES {
        let table = counted("object\n", "", size, |number| format!("{number}\n"));
        let ids = vec!["1"; size / 4].join(",");
        let ids = &ids[..ids.len().min(800_001)];
        let line = format!(
            "{{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[{ids}]}}\n"
        );
        let mooncake = line.repeat((size / line.len()).max(1)).into_bytes();
        let mut records = Vec::new();
        for object in 0..(size as u64 / 24).max(1) {
            records.extend(0u32.to_le_bytes());
            records.extend(object.to_le_bytes());
            records.extend(1u32.to_le_bytes());
            records.extend((-1i64).to_le_bytes());
        }
        let cache = |file, policy| {
            ["cache", file, "--policy", policy, "--capacity", "1000", "--unit", "--out", "made"]
        };
        for policy in policies {
            bounded(policy, &[("a.csv.gz", table.clone())], &cache("a.csv.gz", policy));
        }
        bounded("Mooncake", &[("a.jsonl", mooncake)], &cache("a.jsonl", "lru"));
        bounded("records", &[("a.bin", records)], &cache("a.bin", "lru"));
    }
}

#[test]
fn requests_that_become_traces_are_bounded() {
    for size in SIZES {
        let mut records = Vec::new();
        // As many objects as a trace may have, and then the same again.
        for record in 0..(size as u64 / 24).max(1) {
            records.extend(0u32.to_le_bytes());
            records.extend((record % 262_000).to_le_bytes());
            records.extend(1u32.to_le_bytes());
            records.extend((-1i64).to_le_bytes());
        }
        let table = counted("object,bytes\n", "", size, |number| format!("{number},1\n"));
        bounded("records", &[("a.bin", records)], &["trace", "info", "a.bin"]);
        bounded("objects", &[("a.csv.gz", table)], &["trace", "info", "a.csv.gz"]);
    }
}

#[test]
fn traces_of_chakra_are_bounded() {
    // A node with nothing but its number, one that waits, and one with a name of its own.
    let varint = |mut number: usize| {
        let mut bytes = Vec::new();
        while number > 127 {
            bytes.push((number & 127) as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let field = |field: u8, number: usize| [&[field][..], &varint(number)].concat();
    for size in SIZES {
        for what in ["numbers", "waits", "names"] {
            let mut file = b"\x07\x0a\x050.0.4".to_vec();
            for id in 1..=size / 8 {
                let mut node = [field(0x08, id), field(0x18, 4)].concat();
                match what {
                    "waits" => {
                        let before = varint(id - 1);
                        node.extend([&[0x2A, before.len() as u8][..], &before].concat());
                    }
                    "names" => node.extend(format!("\x12\x08{id:08}").bytes()),
                    _ => {}
                }
                if file.len() + node.len() >= size {
                    break;
                }
                file.extend([&varint(node.len())[..], &node].concat());
            }
            bounded(what, &[("a.et", file)], &["trace", "info", "a.et"]);
        }
    }
}

#[test]
fn tables_of_ops_are_bounded() {
    let ops = |file| ["ops", file, "--hardware", "dgx-h100", "--out", "made"];
    let log = "#       size         count      type     time   busbw\n# nThread 1 all_reduce_perf\n\
               #  Rank  0 on a device 0\n#  Rank  1 on a device 1\n";
    for size in SIZES {
        for (what, head, row) in [
            ("products", "dtype,m,n,k\n", "bf16,1,1,1\n"),
            ("measured products", "dtype,m,n,k,us\n", "bf16,1,1,1,1\n"),
            (
                "decode",
                "dtype,kv_dtype,batch,kv_length,heads,kv_heads,head_dim,us\n",
                "fp8,fp8,1,1,1,1,1,1\n",
            ),
            ("experts", "dtype,tokens,hidden,intermediate,top_k,experts,us\n", "fp8,1,1,1,1,1,1\n"),
            ("streaming", "kernel,dtype,bytes,us\n", "copy,fp8,1,1\n"),
            ("collectives", "collective,dtype,gpus,elements,us\n", "all_reduce,fp8,2,1,1\n"),
            ("a log", log, "8 2 float 1 1\n"),
        ] {
            bounded(what, &[("a.csv", repeated(head, row, "", size))], &ops("a.csv"));
        }
        let fit = [&ops("a.csv.gz")[..], &["--fit"]].concat();
        let table = repeated("dtype,m,n,k,us\n", "bf16,1,1,1,1\n", "", size);
        bounded("fitted", &[("a.csv.gz", table)], &fit);
    }
}
