//! Footprints: what an allocator gave and took back, without what ran meanwhile.
//!
//! CUDA memory snapshots (`snapshot`) and memory timelines of the PyTorch profiler (`timeline`) say
//! how many bytes were there when, and something of what they held. Each event of the host is an op
//! of the trace (`build`): one that gives memory writes the object that begins with it, one that
//! takes it back reads the object for the last time. What kernels do in between is in neither file.
//! Invariant: at every op as many bytes are alive as the file says, so the peak is the file's.

mod build;
mod snapshot;
mod timeline;

pub use snapshot::import_snapshot;
pub use timeline::import_timeline;

use std::fmt;
use tiersim_models::workload::ObjectKind;

/// A native trace, and what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Counts of the file and of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Rows of a timeline, or entries of a snapshot's history.
    pub rows: u64,
    /// What they are called.
    pub rows_are: &'static str,
    /// Whose memory it is.
    pub device: String,
    /// Devices of the file that are left out, and how many entries each has.
    pub others: Vec<(u64, u64)>,
    /// Whether the file says what is there at its end.
    pub has_segments: bool,
    /// Objects that were there before the first event, and their bytes.
    pub before: (u64, u64),
    /// Of these, such that are known only because they are taken back.
    pub only_taken_back: u64,
    /// Objects that were made by events, and their bytes.
    pub made: (u64, u64),
    /// Objects that are there at the end, and their bytes.
    pub left: (u64, u64),
    /// Changes of what an object holds.
    pub changes: u64,
    /// The most bytes that are there at once.
    pub peak: u64,
    /// From the first event to the last, in ps.
    pub span: u64,
    /// Events without a time.
    pub timeless: u64,
    /// Events before the one that is listed before them.
    pub backwards: u64,
    /// Events of no bytes, left out.
    pub empty: u64,
    /// Memory that is taken back twice, or given where some is.
    pub contradictions: u64,
    /// Objects and bytes by kind.
    pub kinds: Vec<(ObjectKind, u64, u64)>,
    /// How kinds were told, in words.
    pub kinds_by: &'static str,
    /// How it was told which object is taken back, in words.
    pub pairs_by: &'static str,
}

/// Devices that are listed; the rest is counted.
const LISTED: usize = 16;

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { rows, rows_are, device, before, made, left, .. } = self;
        writeln!(f, "seen: {rows} {rows_are} of {device}, {:.3} ms", self.span as f64 / 1e9)?;
        writeln!(f, "  {} objects of {} bytes that were there before", before.0, before.1)?;
        if self.only_taken_back > 0 {
            let only = self.only_taken_back;
            writeln!(f, "    {only} of them only because they are taken back, and never given")?;
        }
        writeln!(f, "  {} objects of {} bytes that were made", made.0, made.1)?;
        writeln!(f, "  {} objects of {} bytes are left at the end", left.0, left.1)?;
        writeln!(f, "  at most {} bytes at once", self.peak)?;
        if self.changes > 0 {
            writeln!(f, "  {} changes of what an object holds", self.changes)?;
        }
        writeln!(f, "inferred:\n  kinds of objects: {}", self.kinds_by)?;
        for (kind, objects, bytes) in &self.kinds {
            writeln!(f, "    {}: {objects} objects of {bytes} bytes", kind.word())?;
        }
        writeln!(f, "  which object is taken back: {}", self.pairs_by)?;
        writeln!(f, "  an object is written where it begins and read where it ends")?;
        writeln!(f, "not known:\n  what reads and writes objects in between, and for how long:")?;
        writeln!(f, "    ops are events of the host, and times are the host's")?;
        for (count, what) in [
            (self.timeless, "events without a time: use `time: roofline(...)`"),
            (self.backwards, "events that are earlier than the one before them"),
            (self.contradictions, "events that contradict the ones before them"),
            (self.empty, "events of 0 bytes, left out"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        if !self.has_segments {
            writeln!(f, "  what was there before and stays: the file lists no segments")?;
        }
        for (device, entries) in self.others.iter().take(LISTED) {
            writeln!(f, "  device {device} with {entries} entries, left out: --device {device}")?;
        }
        if self.others.len() > LISTED {
            writeln!(f, "  {} devices more, left out", self.others.len() - LISTED)?;
        }
        write!(f, "  batch and sequence: both are taken as 1, so throughput counts steps")
    }
}
