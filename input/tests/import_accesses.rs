//! Block and page traces as traces for tiers: real files against counts made in Python beforehand,
//! small ones for single rules.
//!
//! `tests/count_accesses.py` counts the real files again.

use crate::files::folder;
use crate::import_profiler::real;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::accesses::{Accesses, Grouping, Imported, import_accesses};
use tiersim_input::import::requests::Reader;
use tiersim_models::workload::{Known, Mode, PartialUse, Trace};

const NS: u64 = 1000;
const US: u64 = 1_000_000;
const ORACLE: Accesses = Accesses::Requests(Reader::OracleGeneral);

/// The trace of a file, which is found out to be of the kind that is read.
fn imported(path: &Path, what: Accesses, grouping: Grouping) -> Imported {
    assert_eq!(FileKind::of(path).and_then(FileKind::accesses), Some(what));
    let imported = import_accesses(path, what, &grouping);
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.trace.problems(), []);
    assert!(imported.trace.objects.iter().all(|object| object.persistent));
    imported
}

fn written(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder(name).join("file");
    fs::write(&path, text).unwrap();
    path
}

fn refused(name: &str, what: Accesses, text: impl AsRef<[u8]>) -> String {
    let error = import_accesses(&written(name, text), what, &Grouping::default());
    let said = error.err().map(|error| error.to_string()).unwrap_or_default();
    said.split_once("file").map(|(_, said)| said.to_owned()).unwrap_or(said)
}

/// An op: its start and duration in ps, and what it uses.
type Told<'a> = (u64, u64, Vec<(&'a str, Mode)>);

/// The ops of a trace.
fn told(trace: &Trace) -> Vec<Told<'_>> {
    let ops = trace.ops.iter();
    let told = ops.map(|op| {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let named = |one: &tiersim_models::workload::Use| {
            (trace.objects[one.object.index()].name.as_str(), one.mode)
        };
        let (at, span) = (op.at.unwrap().ps(), op.duration.unwrap().ps());
        (at, span, uses.iter().map(named).collect())
    });
    told.collect()
}

#[test]
fn a_real_lackey_trace_is_as_counted() {
    let Some(path) = real("lackey/matmul48.lackey.gz") else { return };
    let thousand = Grouping { window: Some(1000), ..Grouping::default() };
    let Imported { trace, account } = imported(&path, Accesses::Lackey, thousand);
    assert_eq!((account.reads, account.writes, account.both), (248_835, 40_391, 1_464));
    assert_eq!((account.objects, account.object_bytes), (84, Some(4096)));
    assert_eq!((account.ops, trace.uses.len()), (291, 1_949));
    // 10 ns an access.
    assert_eq!((account.rate, account.span), (Some(100_000_000), 290_690 * 10 * NS));
    // As few accesses in an op as leave at most 65,536; put together they are what a stated window is.
    let found = imported(&path, Accesses::Lackey, Grouping::default());
    let eight = Grouping { window: Some(8), ..Grouping::default() };
    assert_eq!((found.account.window, found.account.ops), (8, 290_690u64.div_ceil(8)));
    assert_eq!(found, imported(&path, Accesses::Lackey, eight));
    let lines = Grouping { object_bytes: Some(64), window: Some(50), rate: Some(1_000_000) };
    let Imported { trace, account } = imported(&path, Accesses::Lackey, lines);
    assert_eq!((account.objects, account.bytes), (1_770, 1_770 * 64));
    assert_eq!((account.ops, account.span), (290_690u64.div_ceil(50), 290_690 * US));
    assert_eq!(trace.ops.iter().map(|op| op.bytes.get()).sum::<u64>(), bytes_of(&path));
}

/// Bytes that a lackey trace reads and writes, a modification twice.
fn bytes_of(path: &Path) -> u64 {
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    let size = |line: &str| {
        let bytes: u64 = line.rsplit_once(',').unwrap().1.parse().unwrap();
        bytes * if line.starts_with(" M") { 2 } else { 1 }
    };
    text.lines().map(size).sum()
}

#[test]
fn raw_lines_of_lackey_have_a_banner_and_instructions() {
    let Some(path) = real("lackey/matmul48.head.txt") else { return };
    let account = imported(&path, Accesses::Lackey, Grouping::default()).account;
    assert_eq!((account.reads, account.writes, account.both), (293, 170, 20));
    assert_eq!((account.objects, account.ops), (6, 483));
    assert_eq!(account.instructions, 2000 - 293 - 170 - 20 - 5);
}

#[test]
fn real_records_of_block_traces_are_as_counted() {
    for (name, requests, objects, seconds, uses) in
        [("fwdbwd96x100", 19_200, 96, 191, 1_920), ("zipf08_200k", 200_000, 9_983, 1_999, 144_641)]
    {
        let file = format!("cache-oracle/{name}.oracleGeneral.bin.gz");
        let Some(path) = real(&file) else { return };
        let thousand = Grouping { window: Some(1000), ..Grouping::default() };
        let Imported { trace, account } = imported(&path, ORACLE, thousand);
        assert_eq!((account.reads, account.modeless), (requests, requests));
        assert_eq!((account.objects, account.bytes), (objects, objects));
        assert_eq!((account.rate, account.span), (None, seconds * 1_000_000 * US));
        assert_eq!(trace.uses.len(), uses);
        // The same without the ending that says how it is packed, or unpacked.
        let bytes = fs::read(&path).unwrap();
        assert_eq!(imported(&written(name, &bytes), ORACLE, thousand).trace.uses.len(), uses);
    }
}

#[test]
fn loads_and_stores_are_grouped_into_pages_and_windows() {
    // 8 bytes over the border of two lines, a page read in two parts, and one that is stored to.
    let text = "==1== Lackey, an example Valgrind tool\n\nI  0400,3\n L 1ffc,8\n L 1000,64\n S 3000,4\n M 1000,1\n \
                L ffffffffffffff00,8\n";
    let path = written("lackey-small", text.replace("\n \n", "\n"));
    let grouping = Grouping { window: Some(3), ..Grouping::default() };
    let Imported { trace, account } = imported(&path, Accesses::Lackey, grouping);
    assert_eq!((account.reads, account.writes, account.both, account.instructions), (3, 1, 1, 1));
    use Mode::{Read, ReadWrite};
    assert_eq!(
        told(&trace),
        [
            (0, 30 * NS, vec![("0x1000", Read), ("0x2000", Read), ("0x3000", ReadWrite)]),
            (30 * NS, 20 * NS, vec![("0x1000", ReadWrite), ("0xfffffffffffff000", Read)]),
        ]
    );
    // Lines 0 and 63 of the first page, line 0 of the second.
    let lines = |one: usize| trace.uses[one].part;
    assert_eq!(lines(0), PartialUse::of(2, 64, trace.objects[0].bytes));
    assert_eq!(lines(1), PartialUse::of(1, 64, trace.objects[0].bytes));
    assert_eq!(lines(2), None);
    assert_eq!([trace.ops[0].bytes.get(), trace.ops[1].bytes.get()], [8 + 64 + 4, 2 + 8]);
}

#[test]
fn samples_of_perf_script_say_when_and_by_event_or_source_how() {
    let text = "# comment\n  app 4242 [001] 2000.000001: 1 cpu/mem-loads,ldlat=30/P: 7f0000001008 5c \
                |OP LOAD|LVL L1 hit|\n\n2000.000003: cpu/mem-stores/P: ffffffff81000000\n2000.000002500:      \
                10c0\n2000.000010: cpu/mem-loads/P:   0\n2000.000011: mem:  10ff |OP STORE|LVL N/A|\n";
    let grouping = Grouping { window: Some(2), ..Grouping::default() };
    let Imported { trace, account } =
        imported(&written("perf-small", text), Accesses::Perf, grouping);
    assert_eq!((account.reads, account.writes, account.placeless), (2, 2, 1));
    assert_eq!((account.modeless, account.backwards, account.rate), (1, 1, None));
    use Mode::{Read, ReadWrite};
    assert_eq!(
        told(&trace),
        [
            (0, 2 * US, vec![("0x7f0000001000", Read), ("0xffffffff81000000", ReadWrite)]),
            (2 * US, 8 * US, vec![("0x1000", ReadWrite)]),
        ]
    );
}

#[test]
fn regions_of_damon_are_read_in_the_intervals_in_which_they_were_in_use() {
    let line = |at: &str, target: u64, all: u64, region: &str, accesses: u64| {
        format!(
            "    kdamond.0 46568 [027] {at}: damon:damon_aggregated: target_id={target} nr_regions={all} \
             {region}: {accesses} 864\n"
        )
    };
    let mib = 1 << 20;
    let text = [
        line("100.100000", 0, 2, &format!("0-{}", 4 * mib), 3),
        line("100.100001", 0, 2, &format!("{}-{}", 4 * mib, 7 * mib), 0),
        line("100.100002", 1, 1, &format!("0-{}", 2 * mib), 1),
        line("100.200000", 0, 1, &format!("0-{}", 7 * mib), 0),
        line("100.200001", 1, 1, &format!("{}-{}", 2 * mib, 4 * mib), 1),
    ];
    let path = written("damon-tracepoint", text.concat());
    let Imported { trace, account } =
        imported(&path, Accesses::DamonTracepoint, Grouping::default());
    assert_eq!((account.regions, account.intervals, account.objects), (5, 2, 6));
    use Mode::Read;
    let ms = US * 1000;
    // The first interval is taken to be as long as the second; pages of one take turns.
    let third = 33_333_333_333;
    assert_eq!(
        told(&trace),
        [
            (0, third, vec![("0:0x0", Read)]),
            (third, third, vec![("0:0x200000", Read)]),
            (2 * third, 100 * ms - 2 * third, vec![("1:0x0", Read)]),
            (100 * ms, 100 * ms, vec![("1:0x200000", Read)]),
        ]
    );
    assert!(trace.uses.iter().all(|one| one.known == Known::Inferred));
    let head = "base_time_absolute: 8 m 59.809 s\ndata source: unknown\n\n";
    let first = "monitoring_start:                0 ns\nmonitoring_end:            104.599 ms\n\
                 monitoring_duration:       104.599 ms\ntarget_id: 18446623438842320000\nnr_regions: 2\n\
                 563ebaa00000-563ebac00000(   2.000 MiB):\t1\n7f938d600000-7f938d900000(   3.000 MiB):\t0\n\n";
    let second = "monitoring_start:          104.599 ms\nmonitoring_end:          208,590,000\n\
                  monitoring_duration:       103.991 ms\ntarget_id: 18446623438842320000\nnr_regions: 1\n\
                  # start_addr     end_addr        length  nr_accesses   age\n\
                  7f938d600000-7f938d900000 (     3145728)           2     7\n";
    let path = written("damon-report", [head, first, second].concat());
    let Imported { trace, .. } = imported(&path, Accesses::DamonReport, Grouping::default());
    let (end, half) = (104_599 * US, 103_991 * US / 2);
    assert_eq!(
        told(&trace),
        [
            (0, end, vec![("0x563ebaa00000", Read)]),
            (end, half, vec![("0x7f938d600000", Read)]),
            (end + half, half, vec![("0x7f938d800000", Read)]),
        ]
    );
}

#[test]
fn a_table_of_requests_keeps_times_sizes_and_modes() {
    let text =
        "at_ns,object,bytes,mode\n100,17,4096,r\n120.5,18,8192,w\n300,17,4096,rw\n320,18,9000,r\n";
    let path = written("table-small", text);
    let grouping = Grouping { window: Some(2), ..Grouping::default() };
    let what = Accesses::Requests(Reader::Table);
    let Imported { trace, account } = imported(&path, what, grouping);
    use Mode::{Read, ReadWrite, Write};
    assert_eq!(
        told(&trace),
        [
            (0, 200 * NS, vec![("object 17", Read), ("object 18", Write)]),
            (200 * NS, 20 * NS, vec![("object 17", ReadWrite), ("object 18", Read)]),
        ]
    );
    let sizes: Vec<u64> = trace.objects.iter().map(|object| object.bytes.get()).collect();
    assert_eq!((sizes, account.resized), (vec![4096, 9000], 1));
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_its_number() {
    use Accesses::{DamonReport, DamonTracepoint, Lackey, Perf};
    for (name, what, text, wanted) in [
        (
            "cut",
            Lackey,
            " L 10,8\n L 1",
            ":2: the last line has no line break; copy the file again",
        ),
        ("size", Lackey, " L 10,8\n L 10,0\n", ":2: a size is from 1 to 4096 bytes (found 0)"),
        ("wide", Lackey, " L 10,4097\n", ":1: a size is from 1 to 4096 bytes (found 4097)"),
        (
            "negative",
            Lackey,
            " L 10,-8\n",
            ":1: a line is such as ` L 1fff000688,8` (found \" L 10,-8\")",
        ),
        (
            "end",
            Lackey,
            " S ffffffffffffffff,2\n",
            ":1: an access ends below 2^64 (found ffffffffffffffff,2)",
        ),
        ("digits", Lackey, " L 11112222333344445,8\n", ":1: a line is such as"),
        ("binary", Lackey, " L 10,8\n\u{1}\u{2}\n", ":2: a line is such as"),
        (
            "none",
            Lackey,
            "==1== Lackey\n",
            ": a file of valgrind's lackey holds accesses (found none)",
        ),
        ("time", Perf, "1.5: 10\nx: 10\n", ":2: a sample has a time and behind it an address"),
        ("address", Perf, "1.5: cpu/mem-loads/P:\n", ":1: a sample has a time and behind it"),
        ("days", Perf, "1.5: 10\n99999999.5: 10\n", ":2: all accesses lie within 213 days"),
        (
            "region",
            DamonTracepoint,
            "k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=1 9-5: 0 1\n",
            ":1: a region ends behind its start (found 9-5)",
        ),
        (
            "few",
            DamonTracepoint,
            "k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=2 1-5: 0 1\n",
            ":1: an interval has as many regions as its nr_regions says (found 1 too few)",
        ),
        (
            "one",
            DamonTracepoint,
            "k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=1 1-5: 0 1\n",
            ":1: a record has two intervals or more",
        ),
        (
            "huge",
            DamonTracepoint,
            "k 1 [0] 1.5: damon:damon_aggregated: target_id=0 nr_regions=1 0-18446744073709551615: 0 1\n",
            ":1: a trace made of accesses has at most 262144 objects",
        ),
        (
            "targets",
            DamonReport,
            "monitoring_start: 0 ns\nmonitoring_end: 5 ns\ntarget_id: 1\nnr_regions: 1\n1-5(4 B): 1\n\
             target_id: 2\n",
            ":6: all intervals are of one target (found 2)",
        ),
        ("unit", DamonReport, "monitoring_start: 5 weeks\n", ":1: a time is such as `104.599 ms`"),
        ("lone", DamonReport, "1-5(4 B): 1\n", ":1: regions stand behind monitoring_start"),
    ] {
        let said = refused(&format!("wrong-{name}"), what, text);
        assert!(said.starts_with(wanted), "{name}: {said}");
    }
    let endless = " ".repeat(70_000);
    let said = refused("wrong-endless", Lackey, endless);
    assert!(said.starts_with(":1: a line of more than 64 KiB"), "{said}");
    let said = refused("wrong-letters", Lackey, b" L 10,8\n\xff\xfe\n");
    assert!(said.starts_with(":2: a line is text (found a byte 0xff)"), "{said}");
}

#[test]
fn what_is_stated_of_groups_is_checked() {
    let lackey = written("stated", " L 10,8\n");
    for (grouping, what, wanted) in [
        (
            Grouping { object_bytes: Some(100), ..Grouping::default() },
            Accesses::Lackey,
            "objects have a power of two of bytes, from 64 B to 1 GiB (found 100)",
        ),
        (
            Grouping { object_bytes: Some(32), ..Grouping::default() },
            Accesses::Lackey,
            "objects have a power of two",
        ),
        (
            Grouping::default(),
            Accesses::Requests(Reader::Mooncake),
            "requests without sizes; say what each has with --object-bytes",
        ),
    ] {
        let said = import_accesses(&lackey, what, &grouping).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
}

/// What `valgrind -v` says of itself, and what `perf record -g` lists below a sample.
#[test]
fn lines_that_are_no_access_are_left_alone() {
    let text = "==12== Lackey, an example Valgrind tool\n--12-- Valgrind options:\n\
                --12--    --tool=lackey\nI  04001e30,3\n S 1ffefffb98,8\n**12** said by the program\n M \
                0421c7cc,4\n==12== \n";
    let of = imported(&written("verbose", text), Accesses::Lackey, Grouping::default());
    assert_eq!((of.account.instructions, of.trace.objects.len()), (1, 2));
    let wrong = refused("dashes", Accesses::Lackey, "I  04001e30,3\n-- S 1ffefffb98,8\n");
    assert!(wrong.contains(":2: a line is such as"), "{wrong}");

    let sample = |at: &str, event: &str, address: &str| {
        format!(
            "app  4242 [003] {at}:   1   {event}:  {address}  10668100842 |OP LOAD|LVL L3 hit| 45\n"
        )
    };
    let callers =
        "\t    55d4c0a31234 main+0x24 (/home/u/app)\n\t    7f22 [unknown] (/usr/lib/a.so)\n\n";
    let text = sample("12345.678901", "cpu/mem-loads,ldlat=30/P", "7f5e5c0a3010")
        + callers
        + &sample("12345.678951", "ibs_op//", "7f5e5d0a3010")
        + callers;
    let of = imported(&written("callers", text), Accesses::Perf, Grouping::default());
    assert_eq!((of.trace.objects.len(), of.account.modeless), (2, 0));
    let wrong = refused("no-time", Accesses::Perf, sample("1.5", "a", "7f") + "7f22 main\n");
    assert!(wrong.contains(":2: a sample has a time"), "{wrong}");
}
