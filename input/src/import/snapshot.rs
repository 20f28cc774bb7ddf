//! CUDA memory snapshots: what `torch.cuda.memory._dump_snapshot` writes, as a pickle or as JSON.
//!
//! A snapshot lists the segments and blocks of PyTorch's caching allocator at one moment, and per
//! device the requests that led there. Fields as in `THCPModule_memorySnapshot` of
//! `torch/csrc/cuda/Module.cpp`; unknown fields are skipped, as each version adds some. Files are
//! plain, gzip or Zstandard, told apart by how they begin: people pack snapshots by hand, so
//! endings prove nothing.
//! Invariant: rows are bounded by the file's bytes, whatever it shares, and what is held in memory
//! by `LARGEST` and `RATIO`, whatever a packed file would unpack to.

mod json;
mod pickle;
pub mod replay;
mod rows;
mod settings;
mod sites;
mod tree;
mod truth;

pub use rows::{Action, Device, PoolId, Segment, Snapshot, What};
pub use sites::{Role, Site};
pub use tree::Problem;

use crate::packed::Packing;
use crate::trace::tables::open;
use std::io::Read;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Most bytes of a snapshot, unpacked: positions in it are 32-bit numbers.
const LARGEST: u64 = u32::MAX as u64;
/// A packed snapshot unpacks to so many times its length at most, and [`FREE`] more.
const RATIO: u64 = 200;
const FREE: u64 = 64 << 20;

/// Reads a snapshot, or says what is wrong with it.
///
/// # Errors
/// A file that is no regular file, is too large, is damaged, or holds no snapshot: the place as a
/// byte, a line or an entry, the rule, what was found, and what to do.
pub fn read_snapshot(path: &Path) -> Result<Snapshot, Diagnostics> {
    let (length, mut file) = open(path, LARGEST)?;
    let bad = |rule: &str, found: String, remedy: &str| {
        Err(Diagnostics::one(path, None, rule, found, remedy))
    };
    let magic = match file.fill_buf() {
        Ok(first) => first.get(..4).unwrap_or_default().to_vec(),
        Err(error) => return bad("a snapshot can be read", error.to_string(), "check the disk"),
    };
    if magic.is_empty() {
        let remedy = "write it again with torch.cuda.memory._dump_snapshot";
        return bad("a snapshot of memory is wanted here", "an empty file".to_owned(), remedy);
    }
    let (from, limit): (Box<dyn Read>, u64) = match Packing::of_head(&magic) {
        Some(packing) => {
            let most = length.saturating_mul(RATIO).saturating_add(FREE).min(LARGEST);
            (packing.unpacked(file), most)
        }
        None => (file, LARGEST),
    };
    let mut bytes = Vec::new();
    if let Err(error) = from.take(limit + 1).read_to_end(&mut bytes) {
        return bad("the packed data is whole", error.to_string(), "copy the file again");
    }
    if bytes.len() as u64 > limit {
        let rule = format!("a snapshot unpacks to {limit} bytes at most");
        return bad(&rule, "more".to_owned(), "unpack it, or record fewer entries (max_entries)");
    }
    let Problem { rule, found, remedy } = match parse(bytes) {
        Ok(snapshot) => return Ok(snapshot),
        Err(problem) => problem,
    };
    Err(Diagnostics::one(path, None, rule, found, remedy))
}

/// [`read_snapshot`] of bytes: JSON if they start with a brace or a bracket, else a pickle.
pub fn parse(bytes: Vec<u8>) -> Result<Snapshot, Problem> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let tree = match first {
        Some(b'{' | b'[') => json::read_json(bytes)?,
        _ => pickle::read_pickle(bytes)?,
    };
    rows::snapshot(&tree)
}
