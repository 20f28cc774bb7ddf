//! What an import of accesses saw, how it grouped them, and what it assumed.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of the file and of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Where the file comes from.
    pub what: &'static str,
    /// Loads, or requests that read.
    pub reads: u64,
    /// Stores, or requests that write.
    pub writes: u64,
    /// Modifications, or requests that do both.
    pub both: u64,
    /// Instructions, left out.
    pub instructions: u64,
    /// Samples without an address, left out.
    pub placeless: u64,
    /// Requests that neither read nor write, such as to forget what is there, left out.
    pub left_out: u64,
    /// Accesses of which nobody says whether they read or write.
    pub modeless: u64,
    /// Regions, of all intervals.
    pub regions: u64,
    /// Intervals.
    pub intervals: u64,
    /// Objects of the trace.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of each, where they are parts of an address space.
    pub object_bytes: Option<u64>,
    /// Accesses of an op.
    pub window: u64,
    /// Ops of the trace.
    pub ops: u64,
    /// From the start of the first op to the end of the last, in ps.
    pub span: u64,
    /// Accesses per second that are assumed, where the file does not say when.
    pub rate: Option<u64>,
    /// Accesses without a time.
    pub timeless: u64,
    /// Accesses before the one that is listed before them.
    pub backwards: u64,
    /// Requests with another size than the object had.
    pub resized: u64,
}

impl Account {
    /// How many targets there are.
    pub(super) fn targets(&self, ids: &BTreeMap<(u64, u64), u32>) -> u64 {
        let (mut count, mut last) = (0, None);
        for (target, _) in ids.keys() {
            count += u64::from(last.replace(*target) != Some(*target));
        }
        count
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { what, reads, writes, both, objects, bytes, ops, .. } = self;
        let damon = self.intervals > 0;
        match damon {
            true => {
                let Account { regions, intervals, .. } = self;
                writeln!(f, "seen: {regions} regions in {intervals} intervals ({what})")?;
            }
            false => {
                writeln!(f, "seen: {reads} loads, {writes} stores, {both} that do both ({what})")?
            }
        }
        for (count, left_out) in [
            (self.instructions, "instructions, left out"),
            (self.placeless, "samples without an address, left out"),
            (self.left_out, "requests that neither read nor write, left out"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {left_out}")?;
            }
        }
        match self.object_bytes {
            Some(size) => {
                writeln!(f, "grouped: {objects} objects of {size} bytes, {bytes} in all")?
            }
            None => writeln!(f, "grouped: {objects} objects of the file, {bytes} bytes in all")?,
        }
        let window = self.window;
        writeln!(f, "  {ops} ops of {window} accesses, the last of those that are left")?;
        let ms = self.span as f64 / 1e9;
        match self.rate {
            Some(rate) => writeln!(
                f,
                "assumed: {rate} accesses per second, for no times are known: {ms:.3} ms"
            )?,
            None => writeln!(f, "  times are the file's: {ms:.3} ms")?,
        }
        if damon {
            writeln!(
                f,
                "inferred: all of a region is read in an interval in which any of it was in use"
            )?;
        }
        if self.modeless > 0 {
            writeln!(
                f,
                "assumed: {} accesses read, for nobody says that they write",
                self.modeless
            )?;
        }
        for (count, what) in [
            (self.backwards, "are earlier than the one before them, and taken to be at its time"),
            (self.resized, "have another size than the object had: the largest counts"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} accesses {what}")?;
            }
        }
        writeln!(
            f,
            "not known: when memory is given and taken back (all of it is there throughout),"
        )?;
        write!(
            f,
            "  what computes between accesses, which of them caches answer, and where steps end"
        )
    }
}
