//! Snapshots, timelines, block and page traces: found out by what they hold, packed or not, made
//! traces of, looked at, and run by every policy.

use crate::common::*;
use crate::profiler::zoo;

/// Files that ship or lie in the corpus of the readers, with a piece of what is said of each.
const FILES: [(&str, &str); 9] = [
    ("tests/data/snapshots/train.pickle.gz", "1462 entries of device 0"),
    ("tests/data/snapshots/tiny.json", "6 objects of 39341903 bytes that were made"),
    ("tests/data/fuzz/timeline/seed~t.raw.json", "8 rows of a device that the file does not name"),
    ("tests/data/fuzz/lackey/seed~a.lackey", "3 loads, 1 stores, 1 that do both"),
    ("tests/data/fuzz/perf/seed~a.txt", "2 loads, 1 stores, 0 that do both"),
    ("tests/data/fuzz/damon/seed~a.txt", "4 regions in 3 intervals"),
    ("tests/data/fuzz/damon/report~b.txt", "3 regions in 2 intervals"),
    ("tests/data/fuzz/block/records~b.bin", "4 loads, 0 stores, 0 that do both"),
    ("tests/data/fuzz/block/msr~a.csv", "grouped: 4 objects of 4096 bytes, 16384 in all"),
];

#[test]
fn each_kind_is_found_out_packed_or_not_and_run_by_every_policy() {
    let project = Project::shipped();
    for (index, (file, said)) in FILES.iter().enumerate() {
        let mut bytes = fs::read(shipped(file)).unwrap();
        if bytes.starts_with(b"\x1f\x8b") {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut plain)
                .unwrap();
            bytes = plain;
        }
        // No name says what it is.
        let (plain, packed) = (format!("plain-{index}"), format!("packed-{index}"));
        project.write(&plain, &bytes);
        project.write(&packed, gzip(&bytes, Compression::default()));
        let outs = [&plain, &packed].map(|name| {
            let out = format!("T/{name}");
            project.run(&["trace", "import", name, "--out", &out]).ends_with(0).shows(&[said]);
            let mut files = project.files(&out);
            let header = files.remove("trace.ron").unwrap();
            (String::from_utf8(header).unwrap().replace(name.as_str(), "NAME"), files)
        });
        assert_eq!(outs[0], outs[1], "{file}");
        let info = ["trace", "info", &packed, "--format", "json"];
        let info = project.run(&info).ends_with(0).json();
        assert!(info["reuse"]["again"].as_u64().is_some(), "{file}");
        if file.contains("tiny") {
            // One object of it is nearly all that there is: nothing to page.
            continue;
        }
        zoo(&project, &packed, "keep");
        let out = format!("out-{index}");
        project.run(&["run", "scenarios/zoo.ron", "--audit", "--out", &out]).ends_with(0);
        let instead = ["run", "scenarios/zoo.ron", "--trace", &plain, "--out", "again"];
        project.run(&instead).ends_with(0);
        let results = |out: &str| {
            let results = project.json(&format!("{out}/summary.json"))["results"].to_string();
            results.replace(&plain, "NAME").replace(&packed, "NAME")
        };
        assert!(results(&out) == results("again"), "{file}");
    }
}

#[test]
fn a_footprint_takes_in_unlimited_memory_what_the_file_sums_to() {
    let project = Project::shipped();
    let pickle = fs::read(shipped("tests/data/snapshots/train.pickle.gz")).unwrap();
    project.write("s.pickle.gz", pickle);
    let mut files = vec![("s.pickle.gz", 268_566_564, 10.213)];
    if let Some(real) = beside("kineto/hta_memory_analysis_memory_timeline.raw.gz") {
        fs::copy(real, project.path("t.raw.gz")).unwrap();
        files.push(("t.raw.gz", 3_082_832_104, 987.186));
    }
    for (file, peak, step_ms) in files {
        zoo(&project, file, "keep");
        project.run(&["run", "scenarios/zoo.ron", "--audit", "--out", "A"]).ends_with(0);
        let summary = project.json("A/summary.json");
        let all = &summary["results"][0];
        assert_eq!(all["peak_bytes"]["hbm"].as_u64(), Some(peak), "{file}");
        let baseline = all["baseline_step_ms"].as_f64().unwrap();
        assert!((baseline - step_ms).abs() < 0.001, "{file}: {baseline}");
    }
}

#[test]
fn real_page_and_block_traces_are_run_by_every_policy() {
    let project = Project::shipped();
    for (index, (file, objects)) in [
        ("lackey/matmul48.lackey.gz", "84 objects of 4096 bytes"),
        ("cache-oracle/fwdbwd96x100.oracleGeneral.bin.gz", "96 objects of the file, 96 bytes"),
    ]
    .into_iter()
    .enumerate()
    {
        let Some(real) = beside(file) else { return };
        let name = format!("real-{index}.gz");
        fs::copy(real, project.path(&name)).unwrap();
        project.run(&["trace", "info", &name]).ends_with(0).shows(&[objects, "used again: "]);
        zoo(&project, &name, "keep");
        project.run(&["run", "scenarios/zoo.ron", "--audit", "--out", "A"]).ends_with(0);
    }
}

#[test]
fn grouping_is_stated_and_for_accesses_only() {
    let project = Project::shipped();
    project.write("a.lackey", " L 0,8\n S 40,8\n L 1000,8\n");
    let options = ["--object-bytes", "64B", "--window", "2", "--rate", "1000"];
    let args = [&["trace", "import", "a.lackey", "--out", "T"][..], &options].concat();
    project.run(&args).ends_with(0).shows(&[
        "3 objects of 64 bytes, 192 in all",
        "2 ops of 2 accesses, the last of those that are left",
        "assumed: 1000 accesses per second",
        "2 ops, 3 objects, 3 uses",
    ]);
    project.write("s.json", fs::read(shipped("tests/data/snapshots/tiny.json")).unwrap());
    let ran =
        project.run(&["trace", "import", "s.json", "--out", "S", "--window", "2"]).ends_with(2);
    ran.says(&["only files of accesses are grouped"]);
    // Blocks of requests to a served model, whose size is the model's.
    let line =
        "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 50, \"hash_ids\": [0, 1]}\n";
    project.write("m.jsonl", line);
    let args = ["trace", "import", "m.jsonl", "--reader", "mooncake", "--out", "M"];
    project.run(&args).ends_with(2).says(&["requests without sizes", "--object-bytes"]);
    let args = [&args[..], &["--object-bytes", "16MiB"]].concat();
    project.run(&args).ends_with(0).shows(&["2 objects of the file, 33554432 bytes in all"]);
}

/// A trace of ten million accesses is streamed: the test's limit of memory holds for it.
#[test]
fn memory_does_not_grow_with_the_number_of_accesses() {
    let project = Project::empty();
    let mut text = Vec::new();
    for access in 0..2_000_000u32 {
        let page = access.wrapping_mul(2_654_435_761) >> 22;
        text.extend_from_slice(format!(" L {:x},8\n", page * 4096).as_bytes());
    }
    let all: Vec<u8> = text.repeat(5);
    project.write("large.gz", gzip(&all, Compression::fast()));
    drop(all);
    project.run(&["trace", "import", "large.gz", "--out", "T"]).ends_with(0).shows(&[
        "10000000 loads",
        "1024 objects of 4096 bytes",
        "ops of 8192 accesses",
    ]);
}
