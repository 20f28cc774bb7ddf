//! When each object is used next, for every use of a trace that is replayed without end.
//!
//! Uses by ops on the CPU are not uses in HBM: they count only where they end what an
//! op of the device has written.
//! Invariant: rows and distances hold in every replay; an object that does not persist has no
//! next use beyond its last.

use super::cut::shrunk;
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{Mode, Trace, Unit};

/// What comes after each use, and what each op takes.
#[derive(Debug)]
pub(crate) struct Future {
    /// By row of the trace's uses.
    pub(crate) rows: Vec<Row>,
    /// By op.
    pub(crate) ops: Vec<Own>,
}

/// An interval that begins with a use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// The row that ends it, of this replay or the next.
    pub(crate) row: u32,
    /// Ops from the use to that.
    pub(crate) ops: u64,
    /// Bytes of the object that it is about.
    pub(crate) bytes: u64,
}

/// A use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) object: u32,
    pub(crate) op: u32,
    /// Whether the object's life begins with it.
    born: bool,
    /// Whether the op runs on the device.
    on_device: bool,
    /// Whether it is the first by the device of an object that the host made.
    from_host: bool,
    /// Bytes of the object that it takes if it is in place.
    bytes: u64,
    /// The next use by the device; the bytes are those that it takes.
    pub(crate) next: Option<Until>,
    /// What the use writes, up to the use that writes next, or else the last of the object's life.
    pub(crate) version: Option<Until>,
    /// What an op of the device wrote before and is what the object holds beyond this use: ops
    /// since, and those of its bytes that this use takes.
    pub(crate) passing: Option<(u64, u64)>,
}

/// What an op takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) on_device: bool,
    /// Bytes of its uses.
    pub(crate) bytes: u128,
    /// Of those, of objects that it does not make, what it writes without reading.
    pub(crate) unread: u128,
}

/// Something that is used later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alive {
    /// The row of its next use by the device.
    pub(crate) row: usize,
    pub(crate) bytes: u64,
    /// Whether the host made it and the device has not used it yet.
    pub(crate) from_host: bool,
}

impl Future {
    /// Of a workload, with so many times fewer bytes of each object if that is given, in parts of
    /// `RATIO_UNIT`.
    pub(crate) fn new(workload: &Workload, ratios: Option<&[u64]>) -> Future {
        let trace = &workload.trace;
        let ops = Vec::with_capacity(trace.ops.len());
        let mut future = Future { rows: plain(workload, ratios), ops };
        for op in &trace.ops {
            let (first, last) = (op.uses.start, op.uses.end);
            let uses = &future.rows[first as usize..last as usize];
            let bytes = uses.iter().map(|row| u128::from(row.bytes)).sum();
            let touched = &trace.uses[first as usize..last as usize];
            let modes = uses.iter().zip(touched);
            let unread = modes.filter(|(row, touched)| !row.born && touched.mode == Mode::Write);
            let unread = unread.map(|(row, _)| u128::from(row.bytes)).sum();
            let on_device = op.unit != Unit::Cpu;
            future.ops.push(Own { first, last, on_device, bytes, unread });
        }
        future.look_ahead(trace, ratios);
        future.look_back(trace);
        future
    }

    /// From the last use to the first; what persists is used again one replay later.
    fn look_ahead(&mut self, trace: &Trace, ratios: Option<&[u64]>) {
        let ops = trace.ops.len() as u64;
        // By object: row, op and bytes.
        let mut use_at: Vec<Option<Until>> = vec![None; trace.objects.len()];
        let mut write_at: Vec<Option<Until>> = vec![None; trace.objects.len()];
        let mut last_at: Vec<Option<Until>> = vec![None; trace.objects.len()];
        for (index, (row, touched)) in self.rows.iter().zip(&trace.uses).enumerate() {
            let (object, op) = (row.object as usize, u64::from(row.op));
            let at = |op| Until { row: index as u32, ops: op, bytes: row.bytes };
            if trace.objects[object].persistent {
                if row.on_device {
                    use_at[object].get_or_insert(at(ops + op));
                }
                if touched.mode.writes() {
                    write_at[object].get_or_insert(at(ops + op));
                }
            } else {
                last_at[object] = Some(at(op));
            }
        }
        for (index, (row, touched)) in self.rows.iter_mut().zip(&trace.uses).enumerate().rev() {
            let (object, op) = (row.object as usize, u64::from(row.op));
            let here = Until { row: index as u32, ops: op, bytes: row.bytes };
            let since = |at: Until| (at.ops > op).then(|| Until { ops: at.ops - op, ..at });
            row.next = use_at[object].and_then(since);
            if row.on_device {
                use_at[object] = Some(here);
            }
            if touched.mode.writes() {
                let end = write_at[object].or(last_at[object]).and_then(since);
                let bytes = touched.written(trace.objects[object].bytes).get();
                let bytes = counted(ratios, object, bytes);
                row.version = end.map(|end| Until { bytes, ..end });
                write_at[object] = Some(here);
            }
        }
    }

    /// Through two replays: what was written in the first may be what the second begins with.
    fn look_back(&mut self, trace: &Trace) {
        let ops = trace.ops.len() as u64;
        // By object: when it was written, up to when, and bytes.
        let mut written: Vec<Option<(u64, u64, u64)>> = vec![None; trace.objects.len()];
        for replay in 0..2 {
            for row in &mut self.rows {
                let at = replay * ops + u64::from(row.op);
                let open = &mut written[row.object as usize];
                *open = open.filter(|&(_, end, _)| end > at);
                row.passing = open.map(|(from, _, bytes)| (at - from, bytes.min(row.bytes)));
                if let Some(version) = row.version.filter(|_| row.on_device) {
                    *open = Some((at, at + version.ops, version.bytes));
                }
            }
        }
    }

    /// What exists before op `at` of the run and is used later, in no order. O(uses).
    pub(crate) fn alive(&self, objects: usize, at: u64) -> Vec<Alive> {
        let op = (at % self.ops.len() as u64) as usize;
        let start = self.ops[op].first as usize;
        let mut seen = vec![false; objects];
        let mut found = Vec::new();
        for index in (start..self.rows.len()).chain(0..start) {
            let row = &self.rows[index];
            let object = row.object as usize;
            if seen[object] {
                continue;
            }
            // What the host creates is not there before; what it only uses may be.
            seen[object] = row.on_device || row.born;
            if row.on_device && !row.born {
                found.push(Alive { row: index, bytes: row.bytes, from_host: row.from_host });
            }
        }
        found
    }
}

/// Bytes of an object that count of so many.
fn counted(ratios: Option<&[u64]>, object: usize, bytes: u64) -> u64 {
    ratios.map_or(bytes, |ratios| shrunk(bytes, ratios[object]))
}

/// Rows that know nothing of others.
fn plain(workload: &Workload, ratios: Option<&[u64]>) -> Vec<Row> {
    let trace = &workload.trace;
    let mut rows = Vec::with_capacity(trace.uses.len());
    let mut made_by_host = vec![false; trace.objects.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        let births = workload.births(OpId::at(index));
        for touched in trace.uses_of(OpId::at(index)) {
            let object = touched.object.index();
            let bytes = touched.charged(trace.objects[object].bytes).get();
            let bytes = counted(ratios, object, bytes);
            let (born, on_device) = (births.contains(&touched.object), op.unit != Unit::Cpu);
            let made = made_by_host[object];
            made_by_host[object] = !on_device && (born || made);
            rows.push(Row {
                object: object as u32,
                op: index as u32,
                born,
                on_device,
                from_host: made && on_device,
                bytes,
                next: None,
                version: None,
                passing: None,
            });
        }
    }
    rows
}
