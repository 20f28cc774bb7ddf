//! A file of another kind: the message says what was found, and what to do.

use crate::common::*;
use std::process::Command;

/// What a command says that refuses its input: one line for each problem, and exit code 2.
fn refused(project: &Project, args: &[&str]) -> String {
    let ran = project.run(args).ends_with(2);
    assert!(ran.stdout.is_empty(), "{args:?}");
    ran.stderr
}

/// That a command refuses its input in one line, which says these.
#[track_caller]
fn says(project: &Project, args: &[&str], is: &str, remedy: &str) {
    let said = refused(project, args);
    assert!(said.contains(is) && said.contains(remedy), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

#[test]
fn a_file_of_another_kind_is_named_as_what_it_is_with_what_it_is_good_for() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    project.run(&["run", scenario, "--out", "o", "-q"]).ends_with(0);
    project.write("m.safetensors", POINTER);
    project.write("lfs.bin", POINTER);
    project.write("empty.csv", "");
    project.write("a.json", "{\"some\": [1, 2]}\n");
    project.write("a.gz", gzip(b"nobody knows this\n", Compression::default()));
    project.write("a.parquet", "PAR1\u{15}\r\n");
    project.write("requests.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n");
    assert!(Command::new("mkfifo").arg(project.path("pipe")).status().unwrap().success());
    let machine = "hardware-specs/h100-pcie.ron";
    let (trace, table) = ("traces/tiny-train/trace.ron", "traces/tiny-train/ops.csv");
    for (args, is, remedy) in [
        (
            &["run", machine][..],
            "this is a machine",
            "`hardware: \"hardware-specs/h100-pcie.ron\"`",
        ),
        (&["sweep", machine], "this is a machine", "in a scenario"),
        (&["check", "o/tier_hints.json"], "placement hints", "`policy: Hints(file: "),
        (&["check", "o/summary.json"], "a file of results", "what a command wrote"),
        (&["check", table], "one table of a trace", "`tiersim check traces/tiny-train`"),
        (&["run", trace], "the description of a trace", "Trace(path: \"traces/tiny-train\""),
        (
            &["run", "traces/tiny-train"],
            "the folder of a trace",
            "Trace(path: \"traces/tiny-train\"",
        ),
        (&["trace", "info", scenario], "this is a scenario", "`tiersim run scenarios/"),
        (&["trace", "info", machine], "this is a machine", "in a scenario"),
        (&["check", "m.safetensors"], "a pointer of Git LFS", "`git lfs pull`"),
        (&["memory", "--model", "llama-2-7b", "--weights", "m.safetensors"], "Git LFS", "lfs pull"),
        (&["memory", "--model", "m.safetensors"], "a pointer of Git LFS", "`git lfs pull`"),
        (&["trace", "info", "empty.csv"], "this file is empty", "PyTorch's profiler"),
        (&["trace", "info", "pipe"], "not a regular file", "name a file or a folder"),
        (&["trace", "info", "a.json"], "this is JSON without events", "PyTorch's profiler"),
        (&["trace", "info", "a.gz"], "what it holds cannot be told", "PyTorch's profiler"),
        (&["trace", "info", "requests.csv", "--device", "1"], "of no device", "leave --device out"),
        (
            &["ops", "a.parquet", "--hardware", "h100-sxm-pcie5"],
            "a Parquet file",
            "write it as CSV",
        ),
        (&["ops", "a.json", "--hardware", "h100-sxm-pcie5"], "these are of no kind", "dtype m n k"),
        (&["ops", "m.safetensors", "--hardware", "h100-sxm-pcie5"], "Git LFS", "lfs pull"),
        (
            &["cache", "lfs.bin", "--policy", "LRU", "--capacity", "1"],
            "a pointer of Git LFS",
            "`git lfs pull`",
        ),
    ] {
        says(&project, args, is, remedy);
    }
}

#[test]
fn recordings_that_are_none_are_named_as_what_they_are() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    project.write("a.json", "{\"some\": [1, 2]}\n");
    project.write("events.json", "[{\"ph\": \"X\", \"ts\": 1}]\n");
    project.write("lackey.txt", "==1== Lackey, an example Valgrind tool\n L 1fff000688,8\n");
    project.write("perf.txt", "app 1 [000] 12.500000: cpu/mem-loads/P: 7f00\n");
    project.write("profile.json", "{\"schemaVersion\": 1, \"traceEvents\": []}\n");
    project.write("a.xz", b"\xFD7zXZ\0 and more");
    project.write("a.tar.bz2", b"BZh91AY&SY and more");
    project.write("a.lz4", b"\x04\x22\x4D\x18 and more");
    project.write(
        "behind.json.gz",
        [&gzip(b"{\"traceEvents\": [", Compression::default())[..], b"garbage"].concat(),
    );
    project.write("vllm.jsonl", "{\"prompt\": \"x x x\", \"output_tokens\": 58}\n".repeat(4000));
    let list = vec!["{\"timestamp\": 624, \"input_length\": 3883, \"output_length\": 58}"; 2000];
    project.write("list.json", format!("[{}]", list.join(", ")));
    fs::create_dir(project.path("nothing")).expect("a folder");
    assert!(Command::new("mkfifo").arg(project.path("pipe")).status().unwrap().success());
    for (args, is, remedy) in [
        (
            &["trace", "import", "pipe", "--out", "T"][..],
            "not a regular file",
            "name a file or a folder",
        ),
        (
            &["trace", "import", "a.json", "--execution-trace", "pipe", "--out", "T"],
            "not a regular file",
            "name a file or a folder",
        ),
        (&["run", scenario, "--trace", "pipe"], "not a regular file", "name a file or a folder"),
        (
            &["explain", scenario, "--trace", "pipe"],
            "not a regular file",
            "name a file or a folder",
        ),
        (&["trace", "memory", "pipe"], "not a regular file", "name a file or a folder"),
        (&["trace", "memory", "events.json"], "and this is a file", "`tiersim trace import"),
        (&["trace", "memory", "profile.json"], "a trace of the PyTorch profiler", "trace import"),
        (&["trace", "info", "nothing"], "there is none in this folder", "PyTorch's profiler"),
        (
            &["trace", "import", "nothing", "--out", "T"],
            "there is none in this folder",
            "PyTorch's profiler",
        ),
        (&["trace", "info", "a.xz"], "packed by xz", "repack it by gzip or zstd"),
        (&["trace", "info", "a.tar.bz2"], "packed by bzip2", "repack it by gzip or zstd"),
        (&["trace", "info", "a.lz4"], "packed by lz4", "repack it by gzip or zstd"),
        (&["trace", "info", "behind.json.gz"], "lies what is no gzip: \"garbage\"", "again"),
        (&["trace", "info", "vllm.jsonl"], "this is JSON without events", "PyTorch's profiler"),
        (&["trace", "info", "list.json"], "this is JSON without events", "PyTorch's profiler"),
        (
            &["cache", "lackey.txt", "--policy", "LRU", "--capacity", "1"],
            "a trace of valgrind's lackey",
            "`tiersim trace import",
        ),
        (
            &["cache", "perf.txt", "--policy", "LRU", "--capacity", "1"],
            "samples of perf script",
            "`tiersim trace import",
        ),
        (
            &["cache", "profile.json", "--policy", "LRU", "--capacity", "1"],
            "a trace of the PyTorch profiler",
            "`tiersim trace import",
        ),
    ] {
        says(&project, args, is, remedy);
    }
}

#[test]
fn requests_of_several_makers_are_counted() {
    let project = Project::empty();
    project
        .write("vidur.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n2,1,5\n");
    let line = "{\"chat_id\": 1, \"timestamp\": 3.5, \"input_length\": 40, \"output_length\": 9, \
                \"hash_ids\": [1, 2, 3]}\n";
    project.write("qwen.jsonl", line.repeat(2).replacen("3.5", "0.5", 1));
    let shows = |file: &str, said: &[&str]| {
        project.run(&["trace", "info", file]).ends_with(0).shows(said);
    };
    shows("vidur.csv", &["2 requests within 2.000 s", "prompts          375"]);
    // Seconds, and blocks of 16 tokens.
    shows("qwen.jsonl", &["2 requests within 3.000 s", "6 blocks of 16 tokens", "3 different"]);
    let out = ["trace", "import", "qwen.jsonl", "--reader", "mooncake", "--object-bytes", "1MiB"];
    let out = [&out[..], &["--out", "t"]].concat();
    project.run(&out).ends_with(0).shows(&["times are the file's: 3000.000 ms"]);
}

#[test]
fn a_capacity_of_a_cache_is_a_size_as_everywhere() {
    let project = Project::shipped();
    project.write("r.csv", "object,bytes\n7,1000\n8,1000\n7,1000\n");
    let replay = |capacity: &str| {
        let args =
            ["cache", "r.csv", "--policy", "LRU", "--capacity", capacity, "--format", "json"];
        project.run(&args)
    };
    let same =
        ["1500", "1.5kB", "1500B", "kb(1.5)"].map(|capacity| replay(capacity).ends_with(0).stdout);
    assert!(same.iter().all(|one| *one == same[0]));
    replay("1.5XB").ends_with(2).says(&["GB, TB, KiB"]);
}
