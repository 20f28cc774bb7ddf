//! CUDA memory snapshots: a second implementation of the allocator wrote them, and the model of the
//! caching allocator must go through them without any deviation.
//!
//! `tests/data/make_snapshots.py` is that implementation, written from PyTorch's source.

use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use tiersim_sim::import::snapshot::replay::replay;
use tiersim_sim::import::snapshot::{Snapshot, parse};

const NAMES: [&str; 8] = [
    "train",
    "random-short",
    "random-expandable",
    "random-max-split",
    "random-divisions",
    "random-captures",
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
        if name.starts_with("ring-buffer") {
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
fn code_in_a_pickle_is_refused() {
    let refused = parse(b"\x80\x02cos\nsystem\n(S'true'\ntR.".to_vec()).expect_err("it runs code");
    assert!(refused.rule.starts_with("byte 2: "), "{refused:?}");
    assert!(refused.found.contains("import"), "{refused:?}");
}
