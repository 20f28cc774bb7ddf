//! When each object is used next, for every use of a trace that is replayed without end.
//!
//! Uses by ops on the CPU are not uses in HBM: they count only where they end what an
//! op of the device has written.
//! Invariant: distances are in ops and hold in every replay; an object that does not persist has no
//! next use beyond its last.

use super::cut::shrunk;
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::Unit;

/// What comes after each use.
#[derive(Debug)]
pub(crate) struct Future {
    /// By row of the trace's uses: ops to the next use of the object by the device; 0 for none.
    next: Vec<u64>,
    /// By row: bytes of the object that this use takes if it is in place, and that the next one
    /// does.
    bytes: Vec<[u64; 2]>,
    /// The same as `next`, for a use that writes: ops to the use that writes next, or else to the
    /// last use of the object's life.
    version: Vec<u64>,
    /// By object: its first use, as a row, and whether it exists before the trace.
    pub(crate) first: Vec<Option<u32>>,
    /// By row: its op.
    pub(crate) op_of: Vec<u32>,
    /// By object: how many times fewer bytes of it count than it has; empty if all count.
    ratios: Vec<u64>,
}

impl Future {
    /// Of a workload, with so many times fewer bytes of each object if that is given, in parts of
    /// `RATIO_UNIT`.
    pub(crate) fn new(workload: &Workload, ratios: Option<Vec<u64>>) -> Future {
        let trace = &workload.trace;
        let (ops, uses) = (trace.ops.len() as u64, trace.uses.len());
        let mut future = Future {
            next: vec![0; uses],
            bytes: vec![[0; 2]; uses],
            version: vec![0; uses],
            first: vec![None; trace.objects.len()],
            op_of: vec![0; uses],
            ratios: ratios.unwrap_or_default(),
        };
        for op in 0..trace.ops.len() {
            let rows = trace.ops[op].uses.clone();
            future.op_of[rows.start as usize..rows.end as usize].fill(op as u32);
        }
        for (row, touched) in trace.uses.iter().enumerate() {
            future.first[touched.object.index()].get_or_insert(row as u32);
        }
        // Backwards; what persists is used again one replay later.
        let mut use_at: Vec<Option<(u64, u64)>> = vec![None; trace.objects.len()];
        let mut write_at: Vec<Option<u64>> = vec![None; trace.objects.len()];
        let mut last_at: Vec<Option<u64>> = vec![None; trace.objects.len()];
        for (row, touched) in trace.uses.iter().enumerate() {
            let (object, op) = (touched.object.index(), u64::from(future.op_of[row]));
            if trace.objects[object].persistent {
                if on_device(workload, op) {
                    let bytes = touched.charged(trace.objects[object].bytes).get();
                    let bytes = future.counted(object, bytes);
                    use_at[object].get_or_insert((ops + op, bytes));
                }
                if touched.mode.writes() {
                    write_at[object].get_or_insert(ops + op);
                }
            } else {
                last_at[object] = Some(op);
            }
        }
        for (row, touched) in trace.uses.iter().enumerate().rev() {
            let (object, op) = (touched.object.index(), u64::from(future.op_of[row]));
            let bytes = touched.charged(trace.objects[object].bytes).get();
            let bytes = future.counted(object, bytes);
            future.next[row] = use_at[object].map_or(0, |(at, _)| at - op);
            future.bytes[row] = [bytes, use_at[object].map_or(0, |(_, bytes)| bytes)];
            if on_device(workload, op) {
                use_at[object] = Some((op, bytes));
            }
            if touched.mode.writes() {
                let end = write_at[object].or(last_at[object]);
                future.version[row] = end.map_or(0, |at| at.saturating_sub(op));
                write_at[object] = Some(op);
            }
        }
        future
    }

    /// The op of the run at which the object of a use at `at` is used next, and bytes that this
    /// takes.
    pub(crate) fn next(&self, row: usize, at: u64) -> Option<(u64, u64)> {
        (self.next[row] > 0).then(|| (at + self.next[row], self.bytes[row][1]))
    }

    /// Bytes of an object that count of so many.
    pub(crate) fn counted(&self, object: usize, bytes: u64) -> u64 {
        self.ratios.get(object).map_or(bytes, |&ratio| shrunk(bytes, ratio))
    }

    /// Bytes that a use takes.
    pub(crate) fn bytes(&self, row: usize) -> u64 {
        self.bytes[row][0]
    }

    /// The op of the run up to which what a use writes at `at` is what the object holds.
    pub(crate) fn version(&self, row: usize, at: u64) -> Option<u64> {
        (self.version[row] > 0).then(|| at + self.version[row])
    }

    /// Calls `each` with every object that exists before op `at` of the run and is used later, and
    /// when it is used next and how many bytes that takes. O(uses).
    pub(crate) fn alive(
        &self,
        workload: &Workload,
        at: u64,
        mut each: impl FnMut(usize, (u64, u64)),
    ) {
        let trace = &workload.trace;
        let ops = trace.ops.len() as u64;
        let (replay, op) = (at / ops, at % ops);
        let start = trace.ops[op as usize].uses.start as usize;
        let mut seen = vec![false; trace.objects.len()];
        let later = trace.uses.iter().enumerate().skip(start).map(|row| (row, replay));
        let wrapped = trace.uses.iter().enumerate().take(start).map(|row| (row, replay + 1));
        for ((row, touched), replay) in later.chain(wrapped) {
            let object = touched.object.index();
            // What the host creates is not there before; what it only uses may be.
            let own = on_device(workload, u64::from(self.op_of[row]));
            if seen[object] {
                continue;
            }
            seen[object] = own || workload.births(OpId(self.op_of[row])).contains(&touched.object);
            if !own {
                continue;
            }
            let born = workload.births(OpId(self.op_of[row])).contains(&touched.object);
            if !born {
                let at = replay * ops + u64::from(self.op_of[row]);
                each(object, (at, self.bytes(row)));
            }
        }
    }
}

/// Whether an op of the trace uses its objects in HBM.
pub(crate) fn on_device(workload: &Workload, op: u64) -> bool {
    workload.trace.ops[op as usize].unit != Unit::Cpu
}
