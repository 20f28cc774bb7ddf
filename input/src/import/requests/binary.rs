//! `oracleGeneral`: records of 24 bytes, little-endian, as libCacheSim writes and reads them.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | time in seconds, `u32`; caches do not use it |
//! | 4 to 11 | object, `u64` |
//! | 12 to 15 | size in bytes, `u32` |
//! | 16 to 23 | the request with which the object comes next, counted from 0, `i64`; -1 for never |
//!
//! (`traceReader/customizedReader/oracle/oracleGeneralBin.h` of libCacheSim.) There is no header,
//! so a file of something else is noticed by its length and by sizes of 0 only.
//! Invariant: one block of the file is in memory at a time.

use super::Seen;
use crate::packed::Packing;
use crate::trace::tables::{Findings, Limits, describe, open, unpacked, unpacked_by_magic};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use tiersim_models::block_trace::{BATCH, NEVER, Request};
use tiersim_models::diagnostic::Diagnostics;

const RECORD: usize = 24;
const PS_PER_S: u128 = 1_000_000_000_000;
/// Problems of a file after which it is not read on.
const ENOUGH: u64 = 50;

/// The records of a file.
pub(super) struct Records {
    path: PathBuf,
    from: Box<dyn Read>,
    /// Bytes that may still come.
    left: u64,
    block: Vec<u8>,
    /// Records before the block.
    index: u64,
    findings: Findings,
}

impl Records {
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Records, Diagnostics> {
        let (from, left) = match Packing::of_name(path) {
            None if is_packed(path, limits)? => unpacked_by_magic(path, limits)?,
            _ => unpacked(path, limits)?,
        };
        let block = vec![0; BATCH * RECORD];
        let findings = Findings::default();
        Ok(Records { path: path.to_owned(), from, left, block, index: 0, findings })
    }

    pub(super) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        // A block of which every record is bad hands out nothing, and is not the end.
        while batch.is_empty() {
            let bytes = self.fill()?;
            let whole = bytes / RECORD;
            if bytes % RECORD > 0 {
                let remedy = "copy the file again, it was cut off; or it holds something else than \
                              oracleGeneral records";
                let rule = format!("record {}: a record has 24 bytes", self.index + whole as u64);
                let found = (bytes % RECORD).to_string();
                self.findings.push(&self.path, None, rule, found, remedy);
            }
            for (at, record) in self.block[..whole * RECORD].chunks_exact(RECORD).enumerate() {
                let request = read(record);
                if request.bytes == 0 {
                    let rule =
                        format!("record {}: a size of 1 byte or more", self.index + at as u64);
                    let remedy = "remove the record, or write the size of the object";
                    self.findings.push(&self.path, None, rule, "0", remedy);
                } else if self.findings.is_empty() {
                    // After a bad record, others would be handed out under a wrong number.
                    batch.push(request);
                    if let Some(seen) = &mut seen {
                        let at_ps = u128::from(seconds(record)) * PS_PER_S;
                        seen.push(Seen { at_ps: Some(at_ps), mode: None });
                    }
                }
            }
            self.index += whole as u64;
            let ended = bytes < self.block.len();
            if (ended && !self.findings.is_empty()) || self.findings.count() >= ENOUGH {
                return Err(std::mem::take(&mut self.findings).finish());
            }
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// Reads a block, which is short only at the end of the file.
    fn fill(&mut self) -> Result<usize, Diagnostics> {
        let mut filled = 0;
        while filled < self.block.len() {
            match self.from.read(&mut self.block[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(describe(&self.path, &error)),
            }
        }
        match self.left.checked_sub(filled as u64) {
            Some(left) => self.left = left,
            None => {
                let rule = "the file unpacks to more than is allowed";
                let remedy = "unpack it and check what it is";
                return Err(Diagnostics::one(&self.path, None, rule, "", remedy));
            }
        }
        Ok(filled)
    }
}

/// Whether a file is packed though its name does not say so, and not records that begin alike.
fn is_packed(path: &Path, limits: Limits) -> Result<bool, Diagnostics> {
    let (length, mut file) = open(path, limits.expanded)?;
    let head = file.fill_buf().map_err(|error| describe(path, &error))?;
    Ok(Packing::of_head(head).is_some() && !is_records(head, length))
}

/// Whether the beginning of a file of so many bytes is records: each has a size, none is earlier
/// than the one before, and each names a later request or none. Of a file of another kind hardly
/// ever the first is.
pub(crate) fn is_records(head: &[u8], size: u64) -> bool {
    let whole = size == u64::MAX || size.is_multiple_of(RECORD as u64);
    if !whole || head.len() < 2 * RECORD {
        return false;
    }
    let mut before = 0;
    head.chunks_exact(RECORD).enumerate().all(|(index, record)| {
        let (Request { bytes, next, .. }, at) = (read(record), seconds(record));
        let later = next == NEVER || (next > index as u64 && next < 1 << 40);
        let sound = bytes > 0 && later && at >= before;
        before = at;
        sound
    })
}

fn seconds(record: &[u8]) -> u32 {
    u32::from_le_bytes(record[..4].try_into().expect("a record has 24 bytes"))
}

fn read(record: &[u8]) -> Request {
    let word = |at: usize| {
        let bytes = record[at..at + 8].try_into().expect("a record has 24 bytes");
        u64::from_le_bytes(bytes)
    };
    let size = u32::from_le_bytes(record[12..16].try_into().expect("a record has 24 bytes"));
    // Never is -1, and the largest number in files of some programs.
    let next = word(16);
    let next = if next >= i64::MAX as u64 { NEVER } else { next };
    Request { object: word(4), bytes: u64::from(size), next }
}
