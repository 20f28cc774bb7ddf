//! Exports of Nsight Systems: what a script makes of traces of the PyTorch profiler
//! (`tests/nsight_tables.py`, which shares no line with either reader) is read as those traces are;
//! what is left out, odd or made to harm is said, or refused.

use crate::files::{folder, shared};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::any::import_file;
use tiersim_input::import::profiler::{Gaps, Imported, import_profiler};
use tiersim_models::units::Span;
use tiersim_models::workload::{Phase, Unit};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(name)
}

fn seed() -> PathBuf {
    here("data/fuzz/nsight/seed~export.sqlite")
}

fn imported(path: &Path) -> Imported {
    let imported = import_profiler(path, Gaps::Keep).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.problems(), []);
    imported
}

/// The export of a profiler's trace, changed by statements; none where there is no Python.
fn export(of: &Path, statements: &[&str]) -> Option<PathBuf> {
    let out = folder("nsight").join("export.sqlite");
    let mut script = Command::new("python3");
    let Ok(ran) = script.arg(here("nsight_tables.py")).args([of, &out]).args(statements).output()
    else {
        eprintln!("there is no python3: nothing was compared");
        return None;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(out)
}

fn profiled() -> PathBuf {
    here("data/fuzz/profiler/seed~trace.json")
}

/// Name, step, phase, stream, duration, start and bytes of all that ran.
fn ran(of: &Imported) -> Vec<(String, u32, Phase, u16, Option<Span>, u64)> {
    let device = of.trace.ops.iter().filter(|op| op.unit == Unit::Device);
    let one = |op: &tiersim_models::workload::Op| {
        (op.name.to_string(), op.step, op.phase, op.stream, op.duration, op.bytes.get())
    };
    device.map(one).collect()
}

/// That both readers see the same run.
fn same(profiler: &Imported, nsight: &Imported) {
    assert_eq!(ran(profiler), ran(nsight));
    let (one, other) = (&profiler.account, &nsight.account);
    assert_eq!((one.kernels, &one.copies), (other.kernels, &other.copies));
    assert_eq!((one.busy, one.gaps), (other.busy, other.gaps));
    assert_eq!(
        (one.lanes, one.edges.0, one.idle_ops),
        (other.lanes, other.edges.0, other.idle_ops)
    );
    assert_eq!((one.steps, one.lost, one.timeless), (other.steps, other.lost, other.timeless));
    assert_eq!(one.objects, other.objects);
    assert_eq!(one.device, other.device);
    let at = |of: &Imported| of.trace.ops.iter().map(|op| op.at).collect::<Vec<_>>();
    assert_eq!(at(profiler), at(nsight), "every op starts when it did");
    assert_eq!(profiler.trace.meta.recorded.when, nsight.trace.meta.recorded.when);
}

/// A file packed by gzip.
fn packed(bytes: &[u8]) -> PathBuf {
    let path = folder("nsight").join("export.sqlite.gz");
    let mut packer = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap();
    path
}

#[test]
fn a_packed_export_is_read_like_the_database_and_nothing_is_left_beside_it() {
    let plain = fs::read(seed()).unwrap();
    let mut logged = plain.clone();
    // A database that had a log beside it.
    logged[18..20].fill(2);
    for bytes in [&plain, &logged] {
        let path = packed(bytes);
        assert_eq!(FileKind::of(&path), Some(FileKind::Sqlite));
        same(&imported(&seed()), &imported(&path));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
    let error = |bytes: &[u8]| import_profiler(&packed(bytes), Gaps::Keep).unwrap_err().to_string();
    assert!(error(&plain[..plain.len() / 2]).contains("damaged"));
    let mut large = plain;
    large.resize(32 << 20, 0);
    assert!(error(&large).contains("unpacks to 200 times its size"), "{}", error(&large));
}

#[test]
fn an_export_beside_which_a_log_has_rows_is_refused() {
    let path = folder("nsight").join("export.sqlite");
    fs::copy(seed(), &path).unwrap();
    let log = path.with_file_name("export.sqlite-wal");
    fs::write(&log, "").unwrap();
    same(&imported(&seed()), &imported(&path));
    // A log as SQLite leaves it while somebody writes.
    let other = folder("nsight").join("written.sqlite");
    let database = rusqlite::Connection::open(&other).unwrap();
    let write = "PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1);";
    database.execute_batch(write).unwrap();
    let written = fs::read(other.with_file_name("written.sqlite-wal")).unwrap();
    fs::write(&log, &written).unwrap();
    let error = import_profiler(&path, Gaps::Keep).unwrap_err().to_string();
    for part in ["write-ahead log", "bytes in", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fs::read(&log).unwrap(), written, "it is left alone");
    // Its head alone has no rows, and what was not finished is none.
    fs::write(&log, &written[..32 + 24]).unwrap();
    same(&imported(&seed()), &imported(&path));
}

#[test]
fn a_made_up_run_is_the_same_to_both_readers() {
    let (one, other) = (imported(&profiled()), imported(&seed()));
    same(&one, &other);
    assert_eq!(other.account.steps, 2);
    assert_eq!(other.trace.meta.recorded.how, "Nsight Systems");
    let said = other.account.to_string();
    for part in ["24 kernels", "steps by the program's ranges", "CUPTI_ACTIVITY_KIND_MEMCPY"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn real_runs_are_the_same_to_both_readers() {
    for name in [
        "kineto/hta_critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
        "execution-trace/linear_kineto.json.gz",
    ] {
        let Some(path) = shared(name) else { continue };
        let Some(out) = export(&path, &[]) else { return };
        same(&imported(&path), &imported(&out));
    }
}

#[test]
fn a_whole_graph_and_a_copy_have_names_of_their_own() {
    let Some(out) = export(
        &profiled(),
        &[
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, \"end\", deviceId, streamId, graphId)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (2000000, 2001000, 0, 7, 3)",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, \"END\", deviceId, streamId, bytes, copyKind, \
             srcKind, dstKind)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3000000, 3001000, 0, 7, 4096, 2, 2, 1)",
        ],
    ) else {
        return;
    };
    let of = imported(&out);
    let names: Vec<&str> = of.trace.ops.iter().map(|op| op.name.as_str()).collect();
    assert!(names.contains(&"CUDA graph 3"), "{names:?}");
    let copied = of.account.copies.get("Memcpy DtoH (Device -> Pinned)");
    assert_eq!(copied, Some(&(1, 4096, 1_000_000)));
    assert_eq!(of.account.lost, 2);
}

/// What a program marks in words of its own, and a thread that has no ranges.
#[test]
fn steps_and_passes_come_from_ranges_of_nvtx() {
    let thread = 0x0100_0000_2A00_0001u64;
    let range = |start: u64, end: u64, text: &str| {
        format!(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES ({start}, {end}, 59, \
             '{text}', {thread})"
        )
    };
    let statements = [
        "DELETE FROM NVTX_EVENTS".to_owned(),
        range(0, 600_000, "step 7"),
        range(1, 200_000, "forward"),
        range(200_000, 500_000, "backward"),
        range(650_000, 2_000_000, "iteration_8"),
        // A mark, a range that never ends, one that ends before it starts, two that cross.
        "INSERT INTO NVTX_EVENTS (start, eventType, text) VALUES (5, 34, 'mark')".to_owned(),
        "INSERT INTO NVTX_EVENTS (start, eventType, text) VALUES (6, 59, 'open')".to_owned(),
        range(900, 800, "backwards in time"),
        range(700_000, 800_000, "one"),
        range(750_000, 850_000, "other"),
    ];
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let Some(out) = export(&profiled(), &statements) else { return };
    let of = imported(&out);
    let steps: Vec<u32> = of.trace.ops.iter().map(|op| op.step).collect();
    assert_eq!((steps.first(), steps.last(), of.account.steps), (Some(&7), Some(&8), 2));
    let passes = |phase| of.trace.ops.iter().filter(|op| op.phase == phase && op.step == 7).count();
    assert!(passes(Phase::Forward) > 0);
    // They were launched by another thread.
    assert!(passes(Phase::Backward) > 0);
    assert_eq!(of.account.timeless, 2, "the open one, and the one that ends before it starts");
}

#[test]
fn the_busiest_process_counts() {
    let other = 0x0100_0000_2B00_0000u64;
    let copied = format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end, deviceId, contextId, streamId, \
         correlationId, {other}, demangledName, shortName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 5"
    );
    let Some(out) = export(&profiled(), &[&copied]) else { return };
    let of = imported(&out);
    assert_eq!((of.account.kernels.0, of.account.processes), (24, 5));
    assert!(of.account.to_string().contains("5 activities of other processes, left out"));
}

#[test]
fn processes_that_meet_in_collectives_are_ranks() {
    let other = 0x0100_0000_2B00_0000u64;
    let kernels = "CUPTI_ACTIVITY_KIND_KERNEL";
    let called =
        "INSERT INTO StringIds VALUES (9000, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)')";
    let renamed =
        format!("UPDATE {kernels} SET demangledName = 9000, shortName = 9000 WHERE rowid = 24");
    let copied = format!(
        "INSERT INTO {kernels} SELECT start, end, 1, contextId, streamId, correlationId, {other}, \
         demangledName, shortName FROM {kernels} WHERE rowid > 14"
    );
    let Some(out) = export(&profiled(), &[called, &renamed, &copied]) else { return };
    // The process that did the most has 24 kernels, the other ten.
    assert_eq!(imported(&out).account.kernels.0, 24);
    let of = import_file(&out, Gaps::Keep).unwrap();
    for wanted in [
        "of one recording 2 processes call collectives, and each is a rank\n2 ranks as one trace",
        "rank 0\nseen:",
        "24 kernels of",
        "10 kernels of",
    ] {
        assert!(of.account.contains(wanted), "{}\nwanted {wanted}", of.account);
    }
    let ran = of.trace.ops.iter().filter(|op| op.unit != Unit::Idle).count();
    assert_eq!(ran, 24 + 10 - 3, "the other process calls three, and the first of each are one");
}

#[test]
fn what_is_absent_is_said_and_what_is_odd_is_left_out() {
    let table = "CUPTI_ACTIVITY_KIND_RUNTIME";
    let view = format!("ALTER TABLE {table} RENAME TO hidden");
    let of_it = format!("CREATE VIEW {table} AS SELECT * FROM hidden");
    let Some(out) = export(&profiled(), &[&view, &of_it]) else { return };
    let of = imported(&out);
    assert_eq!(of.account.lost, 24, "a view is no table");
    assert!(of.account.missing.contains(&table));

    let Some(out) = export(
        &profiled(),
        &[
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET \"end\" = start - 5 WHERE rowid = 1",
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon', deviceId = x'00ff' WHERE rowid = 2",
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775807 WHERE rowid = 3",
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = -1, shortName = 'c''est'",
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, \"end\" AS (start + 1), bytes)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 2)",
            "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
        ],
    ) else {
        return;
    };
    let of = imported(&out);
    assert_eq!((of.account.kernels.0, of.account.timeless), (21, 4));
    assert!(of.trace.ops.iter().all(|op| op.name == "c'est" || op.unit != Unit::Device));
}

#[test]
fn nothing_is_written_beside_the_file_and_its_name_may_be_any() {
    let folder = folder("nsight-odd");
    let path = folder.join("a b%20?mode=rwc#x.sqlite");
    fs::copy(seed(), &path).unwrap();
    // A log of writes that nobody finished is none of its own.
    fs::write(folder.join("a b%20?mode=rwc#x.sqlite-wal"), [0; 64]).unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(imported(&path).account.kernels.0, 24);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

/// Pages of the list of tables that lead to each other, 60 at a time and ten deep.
#[test]
fn a_walk_without_end_is_given_up() {
    let path = here("data/fuzz/nsight/schema-without-end~export.sqlite");
    let said = import_file(&path, Gaps::Keep).expect_err("it has 60^10 rows").to_string();
    assert!(said.contains("interrupted"), "{said}");
}

#[test]
fn a_damaged_or_empty_database_is_refused() {
    let whole = fs::read(seed()).unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = folder("nsight-damaged").join(name);
        fs::write(&path, bytes).unwrap();
        assert_eq!(FileKind::of(&path), Some(FileKind::Sqlite));
        import_file(&path, Gaps::Keep).expect_err(name).to_string()
    };
    // Cut off within a page it has no tables, cut off between two it lacks some.
    let said = refused("cut.sqlite", &whole[..1500]);
    assert!(said.contains("the database cannot be read: it is damaged, or none"), "{said}");
    assert!(refused("head.sqlite", b"SQLite format 3\0").contains("damaged"), "no page");
    for pages in 1..whole.len() / 1024 {
        let path = folder("nsight-pages").join("cut.sqlite");
        fs::write(&path, &whole[..pages * 1024]).unwrap();
        if let Ok(of) = import_file(&path, Gaps::Keep) {
            assert_eq!(of.trace.problems(), []);
        }
    }
    let nothing = "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL";
    let Some(out) = export(&profiled(), &[nothing]) else { return };
    let said = import_file(&out, Gaps::Keep).expect_err("nothing ran").to_string();
    assert!(said.contains("an export of Nsight Systems holds kernels"), "{said}");
    assert!(said.contains("nsys export --type sqlite"), "{said}");
}

/// An export says by tables of its own what its numbers stand for; unified memory has numbers beyond
/// CUPTI's.
#[test]
fn numbers_are_what_the_export_says_they_are() {
    let copies = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, \"end\", deviceId, streamId, bytes, \
                  copyKind, srcKind, dstKind)";
    let copy = |at: u32, kind: u32| {
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({at}000, {at}500, 0, 7, 64, {kind}, 2, 1)"
        )
    };
    let (one, other) = (copy(3000, 12), copy(4000, 40));
    let labels = [
        "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)",
        "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (12, 'CUDA_MEMCPY_KIND_UVM_DTOH', 'Unified \
         Device-to-Host'), (40, 'X', 'Peer-to-Peer')",
        "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)",
        "INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1, 'M', 'Managed'), (9, 'Y', NULL)",
    ];
    let names = |statements: &[&str]| {
        let all = [&[copies, &one, &other][..], statements].concat();
        let out = export(&profiled(), &all)?;
        Some(imported(&out).account.copies.into_keys().collect::<Vec<String>>())
    };
    let Some(plain) = names(&[]) else { return };
    assert_eq!(plain, ["Memcpy DtoH (Device -> Pinned)", "Memcpy Unknown (Device -> Pinned)"]);
    let said = names(&labels).unwrap();
    assert_eq!(said, ["Memcpy DtoH (Device -> Managed)", "Memcpy PtoP (Device -> Managed)"]);
}

/// Exports of other versions lack columns that this one has, and have others.
#[test]
fn columns_that_a_version_lacks_are_no_error() {
    for table in [
        "CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\", shortName, name)",
        "CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\", deviceId, streamId, demangledName, globalPid, \
         graphNodeId, launchType, localMemoryPerThread)",
    ] {
        let Some(out) = export(
            &profiled(),
            &[
                "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
                &format!("CREATE TABLE {table}"),
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\") VALUES (1000, 2000), (3000, 5000)",
                "DROP TABLE TARGET_INFO_GPU",
            ],
        ) else {
            return;
        };
        let of = imported(&out);
        assert_eq!((of.account.kernels, of.account.lost), ((2, 3_000_000), 2), "{table}");
    }
}
