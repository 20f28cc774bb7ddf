//! The trace of what was grouped.
//!
//! Invariant: every op has a time, the file's or one by the rate that is assumed.

use super::{Groups, Held, PARTS, PS_PER_S, RATE};
use crate::import::accesses::Accesses;
use crate::import::accesses::said::Account;
use std::num::NonZeroU32;
use tiersim_models::ids::ObjectId;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Known, Mode, Object, ObjectKind, Op, PartialUse, Phase, Trace, TraceMeta, Use,
};

/// Bytes that disks write together at least.
const SECTOR: u64 = 512;

impl Groups {
    /// The trace.
    ///
    /// # Errors
    /// That it is too much.
    pub(in crate::import::accesses) fn finish(
        mut self,
        meta: TraceMeta,
    ) -> Result<(Trace, Account), String> {
        if self.open.accesses > 0 {
            self.close()?;
        }
        let timed = self.account.timeless == 0 && self.now > 0;
        let rate = self.grouping.rate.unwrap_or(RATE).max(1);
        let mut account = std::mem::take(&mut self.account);
        account.rate = (!timed).then_some(rate);
        account.objects = self.objects.len() as u64;
        account.ops = self.windows.len() as u64;
        account.bytes =
            self.objects.iter().map(|&(_, _, bytes)| bytes).fold(0, u64::saturating_add);
        account.window = self.window;
        // Time before the first access is the first op's.
        if let Some(first) = self.windows.first_mut() {
            first.at = 0;
        }
        let ends: Vec<u64> = self.windows.iter().skip(1).map(|window| window.at).collect();
        let (mut ops, mut from, mut at) = (Vec::with_capacity(self.windows.len()), 0, 0u64);
        for (index, window) in self.windows.iter().enumerate() {
            let span = if timed {
                at = window.at;
                ends.get(index).copied().unwrap_or(self.now).saturating_sub(at)
            } else {
                let span = u128::from(window.accesses) * u128::from(PS_PER_S) / u128::from(rate);
                u64::try_from(span).unwrap_or(u64::MAX)
            };
            ops.push(Op {
                duration: Some(Span::from_ps(span)),
                at: Some(Time::from_ps(at)),
                bytes: Bytes::new(window.bytes),
                ..Op::new(0, Phase::Other, "accesses", from..window.uses)
            });
            at = at.saturating_add(span);
            from = window.uses;
        }
        account.span = at;
        let names =
            Names { what: self.what, size: self.object_bytes, targets: account.targets(&self.ids) };
        // What maps addresses to objects ends here.
        drop(std::mem::take(&mut self.ids));
        let objects = std::mem::take(&mut self.objects);
        let objects = objects.into_iter().map(|(target, number, bytes)| Object {
            persistent: true,
            ..Object::new(names.of(target, number), ObjectKind::Buffer, Bytes::new(bytes))
        });
        let objects = objects.collect();
        let uses = std::mem::take(&mut self.uses);
        let uses = uses.into_iter().map(|held| self.use_of(held)).collect();
        Ok((Trace { meta, modules: Vec::new(), objects, ops, uses }, account))
    }

    /// What a window did to an object, as a use.
    fn use_of(&self, Held { id, touch }: Held) -> Use {
        // Parts of a block are whole sectors, and so is what is written to them.
        let whole = match self.what {
            Accesses::Requests(reader) if reader.is_addressed() => {
                touch.parts == u64::MAX && self.object_bytes / PARTS <= SECTOR
            }
            Accesses::Requests(_) => true,
            _ => false,
        };
        let mode = match (touch.reads, touch.writes) {
            (_, false) => Mode::Read,
            (false, true) if whole => Mode::Write,
            _ => Mode::ReadWrite,
        };
        let some = mode == Mode::Read && touch.parts != u64::MAX;
        let pieces = NonZeroU32::new(touch.parts.count_ones()).filter(|_| some);
        let piece = u32::try_from(self.object_bytes / PARTS).ok().and_then(NonZeroU32::new);
        let part = pieces.zip(piece).map(|(pieces, piece)| PartialUse { pieces, piece });
        let known = if touch.inferred { Known::Inferred } else { Known::Seen };
        Use { part, known, ..Use::whole(ObjectId(id), mode) }
    }
}

/// What objects are called.
struct Names {
    what: Accesses,
    size: u64,
    /// How many targets there are.
    targets: u64,
}

impl Names {
    fn of(&self, target: u64, number: u64) -> String {
        if self.what.names_objects() {
            return format!("object {number}");
        }
        let address = number * self.size;
        match self.targets {
            0 | 1 => format!("{address:#x}"),
            _ => format!("{target}:{address:#x}"),
        }
    }
}
