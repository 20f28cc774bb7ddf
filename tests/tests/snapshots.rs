//! CUDA memory snapshots: a second implementation of the allocator wrote them, and the model of the
//! caching allocator must go through them without any deviation.
//!
//! `tests/data/make_snapshots.py` is that implementation, written from PyTorch's source.

use flate2::read::GzDecoder;
use std::io::Read;
use tiersim_input::import::snapshot::replay::replay;
use tiersim_input::import::snapshot::{Snapshot, parse, read_snapshot};
use tiersim_tests::prelude::*;

const NAMES: [&str; 13] = [
    "train",
    "random-short",
    "random-expandable",
    "random-max-split",
    "random-divisions",
    "random-captures",
    "retry-synchronized",
    "emptied-max-split",
    "captures-unnamed",
    "late-start",
    "tiny",
    "ring-buffer",
    "ring-buffer-expandable",
];

fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/snapshots");
    let file =
        fs::File::open(folder.join(format!("{name}.pickle.gz"))).expect("the fixture is there");
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("the fixture is gzip");
    bytes
}

fn snapshot(name: &str) -> Snapshot {
    parse(bytes(name)).unwrap_or_else(|problem| panic!("{name}: {problem:?}"))
}

#[test]
fn the_model_does_what_a_second_implementation_does() {
    for name in NAMES {
        let snapshot = snapshot(name);
        let device = &snapshot.devices[0];
        let found = replay(device, &snapshot.settings, None, 0.0).expect("it can be replayed");
        assert_eq!(found.segments, found.same_segments, "{name}");
        if name.starts_with("ring-buffer") || name == "late-start" {
            // Blocks from before the first entry have sizes that the file does not tell for sure.
            assert!(found.worst() <= 0.01, "{name}: {}", found.worst());
            continue;
        }
        assert_eq!(found.worst(), 0.0, "{name}");
        assert_eq!(found.unexplained, 0, "{name}");
        assert_eq!(found.refused, 0, "{name}");
        assert_eq!(found.same_address, found.allocations, "{name}");
        assert_eq!(
            (found.same_segments, found.model_segments),
            (found.segments, found.segments),
            "{name}"
        );
    }
}

/// A segment of 20 MiB in which a block of 5 MiB kept 512 KiB that were too little to split off
/// when its neighbour was in use. The history begins after that neighbour was freed: the entries
/// tell 5 MiB only.
fn slack_before_the_first_entry(first: &str) -> Snapshot {
    const AT: u64 = 0x7000_0000_0000;
    let (second, rest) = (AT + (11 << 19), AT + (17 << 19));
    let (slack, size) = (11_u64 << 19, 20_u64 << 20);
    let entry = |action: &str, at: u64, bytes: u64| {
        format!(r#"{{"action": "{action}", "addr": {at}, "size": {bytes}, "stream": 0}}"#)
    };
    let block = |at: u64, bytes: u64, state: &str| {
        format!(
            r#"{{"address": {at}, "size": {bytes}, "requested_size": {bytes}, "state": "{state}"}}"#
        )
    };
    let entries = [
        entry("alloc", second, 3 << 20),
        entry("free_requested", AT, 5 << 20),
        entry("free_completed", AT, 5 << 20),
        first.to_owned(),
    ];
    let entries: Vec<&str> =
        entries.iter().map(String::as_str).filter(|entry| !entry.is_empty()).collect();
    let blocks = [
        block(AT, slack, "inactive"),
        block(second, 3 << 20, "active_allocated"),
        block(rest, AT + size - rest, "inactive"),
    ];
    let text = format!(
        r#"{{"segments": [{{"device": 0, "address": {AT}, "total_size": {size}, "stream": 0,
            "segment_type": "large", "allocated_size": {}, "active_size": {}, "blocks": [{}]}}],
            "device_traces": [[{}]]}}"#,
        3 << 20,
        3 << 20,
        blocks.join(", "),
        entries.join(", "),
    );
    parse(text.into_bytes()).unwrap_or_else(|problem| panic!("{problem:?}"))
}

#[test]
fn what_begins_within_a_free_piece_shows_how_large_the_block_before_it_is() {
    let snapshot = slack_before_the_first_entry("");
    let found = replay(&snapshot.devices[0], &snapshot.settings, None, 0.0).expect("it replays");
    assert_eq!((found.worst(), found.unexplained), (0.0, 0), "{found:?}");
    assert_eq!((found.same_address, found.first_elsewhere), (1, None), "{found:?}");
    // 5.5 MiB before the first entry, and 3 MiB more after it.
    assert_eq!((found.active.peak, found.active.model_peak), (17 << 19, 17 << 19));
    assert_eq!(found.reserved.peak, 20 << 20);
}

#[test]
fn the_first_allocation_that_is_placed_elsewhere_is_named() {
    // Best fit would take the piece of 5.5 MiB, which is smaller than what is left behind.
    let at = 0x7000_0000_0000_u64 + (17 << 19);
    let odd = format!(r#"{{"action": "alloc", "addr": {at}, "size": 2097152, "stream": 0}}"#);
    let snapshot = slack_before_the_first_entry(&odd);
    let found = replay(&snapshot.devices[0], &snapshot.settings, None, 0.0).expect("it replays");
    let first = found.first_elsewhere.expect("one is elsewhere");
    assert_eq!((first.entry, first.bytes, first.at), (3, 2 << 20, at));
    assert_eq!(first.model_at, 0x7000_0000_0000);
}

#[test]
fn damaged_pickles_are_refused_or_read_and_never_panic() {
    let whole = bytes("ring-buffer");
    for cut in (0..whole.len()).step_by(211) {
        assert!(parse(whole[..cut].to_vec()).is_err(), "cut at {cut}");
    }
    for place in (0..whole.len()).step_by(307) {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x41;
        if let Ok(snapshot) = parse(flipped) {
            for device in &snapshot.devices {
                // A contradiction may be told as an error.
                let _ = replay(device, &snapshot.settings, None, 0.01);
            }
        }
    }
}

#[test]
fn a_pickle_that_ends_early_is_refused_wherever_it_ends() {
    let whole = bytes("tiny");
    for cut in 0..whole.len() {
        assert!(parse(whole[..cut].to_vec()).is_err(), "cut at {cut} of {}", whole.len());
    }
    assert!(parse(whole).is_ok());
}

#[test]
fn a_pickle_and_the_same_as_json_are_read_alike() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/snapshots");
    let json = read_snapshot(&folder.join("tiny.json")).expect("JSON");
    let packed = read_snapshot(&folder.join("tiny.pickle.gz")).expect("a packed pickle");
    assert_eq!(json, packed);
    assert_eq!(json, snapshot("tiny"));
    assert_eq!(json.devices[0].actions.len(), 18);
}

/// A pickle of protocol 4 of these opcodes.
fn pickle(ops: &[u8]) -> Vec<u8> {
    [b"\x80\x04", ops, b"."].concat()
}

#[test]
fn lists_that_hold_each_other_many_times_over_take_no_more_than_their_file() {
    // Each list holds the one before it ten times: 10^40 rows, were they counted one by one.
    let mut ops = b"]\x94".to_vec();
    for level in 0..40_u8 {
        ops.extend_from_slice(b"](");
        ops.extend((0..10).flat_map(|_| [b'h', level]));
        ops.extend_from_slice(b"e\x94");
    }
    assert!(parse(pickle(&ops)).is_err(), "it is no snapshot");
    // As the segments of a snapshot, a shared row counts as often as it is there.
    let mut ops = b"}(\x8c\x08segments](".to_vec();
    ops.extend_from_slice(b"}\x94");
    ops.extend((0..5000).flat_map(|_| [b'h', 0]));
    ops.extend_from_slice(b"e\x8c\x0ddevice_traces]u");
    let refused = parse(pickle(&ops)).expect_err("rows are empty");
    assert!(refused.rule.contains("segments[0]"), "{refused:?}");
}

#[test]
fn nesting_has_no_limit_and_overflows_no_stack() {
    let deep = [b"]".repeat(200_000), b"a".repeat(199_999)].concat();
    assert!(parse(pickle(&deep)).is_err(), "it is no snapshot");
    let marks = pickle(&b"(".repeat(200_000));
    assert!(parse(marks).is_err());
    let json = b"{\"a\":".repeat(100_000);
    let refused = parse(json).expect_err("too deep");
    assert!(refused.rule.starts_with("line 1: "), "{refused:?}");
}

#[test]
fn a_length_that_the_file_does_not_have_is_refused_before_it_is_used() {
    let long: [&[u8]; 6] = [
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
        b"X\xff\xff\xff\xff",
        b"B\xff\xff\xff\x7f",
        b"\x8b\xff\xff\xff\x7f",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    ];
    for ops in long {
        let refused = parse(pickle(ops)).expect_err("it ends first");
        assert!(refused.rule.starts_with("byte 2: "), "{refused:?}");
    }
}

#[test]
fn every_opcode_that_runs_or_names_code_is_refused() {
    let code: [(&[u8], &str); 9] = [
        (b"cos\nsystem\n", "import"),
        (b"\x8c\x02os\x8c\x06system\x93", "import"),
        (b"(ios\nsystem\n", "import"),
        (b"N)R", "call"),
        (b"N)\x81", "call"),
        (b"N}b", "call"),
        (b"(No", "call"),
        (b"NQ", "outside"),
        (b"\x82\x01", "outside"),
    ];
    for (ops, what) in code {
        let refused = parse(pickle(ops)).expect_err("it runs code");
        assert!(refused.found.contains(what), "{ops:?}: {refused:?}");
    }
}

#[test]
fn code_in_a_pickle_is_refused() {
    let refused = parse(b"\x80\x02cos\nsystem\n(S'true'\ntR.".to_vec()).expect_err("it runs code");
    assert!(refused.rule.starts_with("byte 2: "), "{refused:?}");
    assert!(refused.found.contains("import"), "{refused:?}");
}
