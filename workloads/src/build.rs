//! Puts a trace together row by row, and adds up what it amounts to.
//!
//! Sizes come in 128 bits and are summed in 128 bits; a row that does not fit 64 bits is cut, and
//! the sums say so: [`Builder::problem`] names the first sum that does not fit.

use crate::transformer::format::Format;
use tiersim_models::collective::MAX_COLLECTIVE;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::kernel::{Kernel, Streaming, Work};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, Object, ObjectKind, Op, PartialUse, Phase, Trace, Unit, Use};

/// What an op does to an object, and how many bytes that touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectAccess {
    pub(crate) object: ObjectId,
    mode: Mode,
    /// Without it, the whole object, twice for a use that reads and writes.
    bytes: Option<u128>,
    /// How many rows of how many bytes these are, where they lie anywhere in the object.
    rows: Option<(u128, u128)>,
}

pub(crate) fn read(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::Read, bytes: None, rows: None }
}

pub(crate) fn write(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::Write, bytes: None, rows: None }
}

pub(crate) fn change(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::ReadWrite, bytes: None, rows: None }
}

impl ObjectAccess {
    /// Whether it is read and then written.
    pub(crate) fn is_change(&self) -> bool {
        self.mode == Mode::ReadWrite
    }

    /// Whether it needs nothing of the old contents.
    pub(crate) fn is_write(&self) -> bool {
        self.mode == Mode::Write
    }

    /// Only so many bytes of the object are touched.
    pub(crate) fn part(self, bytes: u128) -> ObjectAccess {
        ObjectAccess { bytes: Some(bytes), ..self }
    }

    /// What is written is added to what is there.
    pub(crate) fn added(self) -> ObjectAccess {
        let times = if self.is_write() { 2 } else { 1 };
        let bytes = self.bytes.map(|bytes| times * bytes);
        ObjectAccess { mode: Mode::ReadWrite, bytes, ..self }
    }

    /// Only so many rows of so many bytes are touched, anywhere in the object.
    pub(crate) fn rows(self, rows: u128, row: u128) -> ObjectAccess {
        ObjectAccess { rows: Some((rows, row)), ..self.part(rows * row) }
    }
}

/// A trace being made.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(crate) trace: Trace,
    /// Step and phase of the ops that come next.
    pub(crate) step: u32,
    pub(crate) phase: Phase,
    /// In front of the names of ops that run a second time.
    pub(crate) recompute: &'static str,
    /// The next op on the device's first stream waits for these on others.
    pub(crate) awaits: Vec<OpId>,
    objects: u128,
    bytes: u128,
    /// The most FLOPs of an op: sums of them go beyond 64 bits.
    largest: u128,
    /// The largest buffer of a collective.
    sent: u128,
}

impl Builder {
    pub(crate) fn new(meta: tiersim_models::workload::TraceMeta) -> Builder {
        let (modules, objects, ops, uses) = Default::default();
        let trace = Trace { meta, modules, objects, ops, uses };
        let (step, phase, recompute, awaits) = (0, Phase::Forward, "", Vec::new());
        let (objects, bytes, largest, sent) = Default::default();
        Builder { trace, step, phase, recompute, awaits, objects, bytes, largest, sent }
    }

    pub(crate) fn module(&mut self, name: &str) -> ModuleId {
        self.trace.modules.push(name.into());
        ModuleId::at(self.trace.modules.len() - 1)
    }

    /// An object that is not persistent.
    pub(crate) fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        (bytes, format): (u128, Format),
        module: Option<ModuleId>,
    ) -> ObjectId {
        self.objects += bytes;
        self.trace.objects.push(Object {
            dtype: format.dtype().to_owned(),
            module,
            ..Object::new(name, kind, Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
        });
        ObjectId::at(self.trace.objects.len() - 1)
    }

    /// One more object like this one, which is not persistent.
    pub(crate) fn another(&mut self, object: ObjectId) -> ObjectId {
        let row = Object { persistent: false, ..self.trace.objects[object.index()].clone() };
        self.objects += u128::from(row.bytes.get());
        self.trace.objects.push(row);
        ObjectId::at(self.trace.objects.len() - 1)
    }

    pub(crate) fn persist(&mut self, object: ObjectId) -> ObjectId {
        self.trace.objects[object.index()].persistent = true;
        object
    }

    pub(crate) fn size(&self, object: ObjectId) -> u128 {
        u128::from(self.trace.objects[object.index()].bytes.get())
    }

    pub(crate) fn name(&self, object: ObjectId) -> &str {
        &self.trace.objects[object.index()].name
    }

    /// An op of the device, on its first stream.
    pub(crate) fn op(
        &mut self,
        name: &str,
        module: ModuleId,
        flops: u128,
        touches: &[ObjectAccess],
    ) -> OpId {
        self.op_on(Unit::Device, 0, name, module, flops, touches)
    }

    /// An op of the device that is bound by memory.
    pub(crate) fn streaming(
        &mut self,
        name: &str,
        module: ModuleId,
        class: Streaming,
        touches: &[ObjectAccess],
    ) -> OpId {
        self.kernel(name, module, (Work::Streaming(class), 0), touches)
    }

    /// An op of the device that is one kernel.
    pub(crate) fn kernel(
        &mut self,
        name: &str,
        module: ModuleId,
        (work, flops): (Work, u128),
        touches: &[ObjectAccess],
    ) -> OpId {
        let kernel = Kernel::new(work, flops, self.touched(touches));
        self.kernels(name, module, vec![kernel], touches)
    }

    /// An op of the device that is several kernels, whose FLOPs and bytes are its own.
    pub(crate) fn kernels(
        &mut self,
        name: &str,
        module: ModuleId,
        kernels: Vec<Kernel>,
        touches: &[ObjectAccess],
    ) -> OpId {
        let sum = |of: &dyn Fn(&Kernel) -> u64| -> u128 {
            kernels.iter().map(|one| u128::from(of(one)) * u128::from(one.times)).sum()
        };
        let (flops, bytes) = (sum(&|one| one.flops), sum(&|one| one.bytes.get()));
        self.bytes += bytes - self.touched(touches).min(bytes);
        let op = self.op(name, module, flops, touches);
        let row = &mut self.trace.ops[op.index()];
        row.bytes = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        row.kernels = Some(kernels.into());
        op
    }

    /// Bytes that these accesses read and write.
    pub(crate) fn touched(&self, touches: &[ObjectAccess]) -> u128 {
        let of = |access: &ObjectAccess| {
            let times = if access.mode == Mode::ReadWrite { 2 } else { 1 };
            access.bytes.unwrap_or_else(|| self.size(access.object) * times)
        };
        touches.iter().map(of).sum()
    }

    /// An op of any unit and stream.
    pub(crate) fn op_on(
        &mut self,
        unit: Unit,
        stream: u16,
        name: &str,
        module: ModuleId,
        flops: u128,
        touches: &[ObjectAccess],
    ) -> OpId {
        let start = self.trace.uses.len() as u32;
        let bytes = self.touched(touches);
        for &ObjectAccess { object, mode, rows, .. } in touches {
            let whole = self.trace.objects[object.index()].bytes;
            let rows = rows.and_then(|(rows, row)| PartialUse::of(rows, row, whole));
            self.trace.uses.push(Use { part: rows, ..Use::whole(object, mode) });
        }
        self.bytes += bytes;
        self.largest = self.largest.max(flops);
        if let Unit::Network(collective) = unit {
            self.sent = self.sent.max(collective.bytes.get().into());
        }
        let name = format!("{}{name}", self.recompute);
        let after = self.awaited(stream);
        self.trace.ops.push(Op {
            module: Some(module),
            stream,
            unit,
            after,
            flops: u64::try_from(flops).unwrap_or(u64::MAX),
            bytes: Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)),
            ..Op::new(self.step, self.phase, name, start..self.trace.uses.len() as u32)
        });
        OpId::at(self.trace.ops.len() - 1)
    }

    /// The stream waits for as long as the device takes for `op`.
    pub(crate) fn idle(&mut self, stream: u16, name: &'static str, op: &Op) -> OpId {
        self.bytes += u128::from(op.bytes.get());
        let start = self.trace.uses.len() as u32;
        let after = self.awaited(stream);
        self.trace.ops.push(Op {
            stream,
            after,
            flops: op.flops,
            bytes: op.bytes,
            kernels: op.kernels.clone(),
            unit: Unit::Idle,
            ..Op::new(self.step, Phase::Other, name, start..start)
        });
        OpId::at(self.trace.ops.len() - 1)
    }

    /// What the next op of this stream waits for on others.
    fn awaited(&mut self, stream: u16) -> Vec<OpId> {
        if stream == 0 { std::mem::take(&mut self.awaits) } else { Vec::new() }
    }

    /// The last op waits for all that the device was given before it, unless it is of the same
    /// stream: nothing else would keep a stream of its own from running ahead.
    pub(crate) fn no_further_ahead(&mut self) {
        let Some((last, before)) = self.trace.ops.split_last_mut() else { return };
        if last.stream != 0 {
            let device = before.iter().rposition(|op| op.stream == 0);
            last.after.extend(device.map(OpId::at));
        }
    }

    /// The sum that does not fit 64 bits, if one does not.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        self.problem_of(1)
    }

    /// The same of so many traces like this one in a row.
    pub(crate) fn problem_of(&self, times: u128) -> Option<&'static str> {
        let sums = [
            (self.objects, "the bytes of all objects must stay below 2^64"),
            (self.bytes, "the bytes that all ops touch must stay below 2^64"),
        ];
        // A step of more blocks than this one may send larger buckets.
        if self.sent.saturating_mul(times) > u128::from(MAX_COLLECTIVE.get()) {
            return Some("the buffer of a collective must not exceed 2^60 bytes");
        }
        // An op's FLOPs are cut where they do not fit.
        if self.largest >= u128::from(u64::MAX) {
            return Some("the FLOPs of an op must stay below 2^64: split it over more ranks");
        }
        let most = u128::from(u64::MAX);
        let is_over = |&(sum, _): &(u128, _)| sum.saturating_mul(times) > most;
        sums.into_iter().find(is_over).map(|(_, rule)| rule)
    }
}
