//! What the score of a module is made of.
//!
//! All of it is known before the run: sizes, the order of uses, estimates of times. Nothing says
//! which model it is, or how large: that is what lets a rule be used where it was not learned.

use crate::access::Access;
use crate::recipe::Setting;
use crate::residents::Residents;
use crate::visits::Visits;
use crate::zoo::scored::features::log;
use std::collections::BTreeMap;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{ObjectKind, Trace};

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// One property of a module's objects, as a number from 0 to about 1.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        /// How the features are spelled, in their order.
        pub const NAMES: &[&str] = &[$($word,)*];
    };
}

features! {
    /// Their bytes: log2 / 32.
    Bytes = "bytes";
    /// The op of the first use, as a share of the replay.
    First = "first";
    /// The share of gradients in their bytes.
    Gradients = "gradients";
    /// The share of the time of copies to HBM that passes in the ops between the first one at which
    /// they may be fetched ahead and their use; 0 on demand and in place.
    Hidden = "hidden";
    /// Ops in which a byte of them lies idle: log2 / 16.
    Idle = "idle";
    /// The op of the last use, as a share of the replay.
    Last = "last";
    /// The share of optimizer state and master copies in their bytes.
    Optimizer = "optimizer";
    /// Bytes that a replay moves if they only visit HBM: log2 / 32.
    Saved = "saved";
    /// Uses in a replay: log2 / 8.
    Uses = "uses";
    /// The share of weights in their bytes.
    WeightBytes = "weight_bytes";
    /// The share of uses that write.
    Written = "written";
}

/// Objects that have one tier: those of a module, and each that has none.
pub(super) fn units(trace: &Trace, objects: &[ObjectId]) -> Vec<Vec<ObjectId>> {
    let (mut modules, mut alone) = (BTreeMap::<_, Vec<ObjectId>>::new(), Vec::new());
    for &object in objects {
        match trace.objects[object.index()].module {
            Some(module) => modules.entry(module).or_default().push(object),
            None => alone.push(vec![object]),
        }
    }
    modules.into_values().chain(alone).collect()
}

/// What features are worked out from.
pub(super) struct Seen<'s> {
    trace: &'s Trace,
    visits: Visits,
    access: Access,
    /// By op: what the ops before it take.
    before: Vec<u64>,
    /// How long a copy to HBM takes.
    copy: Box<dyn Fn(Bytes) -> Span + 's>,
}

impl<'s> Seen<'s> {
    pub(super) fn of(
        setting: &Setting<'s>,
        residents: &Residents<'_>,
        access: Access,
        spill: &[TierId],
    ) -> Seen<'s> {
        let from = spill.iter().copied().find(|&tier| tier != HBM).unwrap_or(HBM);
        let copies = setting.copies;
        Seen {
            trace: &setting.workload.trace,
            visits: residents.visits.clone(),
            access,
            before: summed(setting.spans),
            copy: Box::new(move |bytes| match from {
                HBM => Span::ZERO,
                from => copies.span(from, HBM, bytes),
            }),
        }
    }

    /// The features of a unit, by [`NAMES`].
    pub(super) fn features(&self, unit: &[ObjectId]) -> [f64; NAMES.len()] {
        let ops = f64::from(self.visits.ops().max(1));
        let (mut bytes, mut saved, mut held) = (0u64, 0u64, 0u128);
        let (mut uses, mut writes, mut first, mut last) = (0u64, 0u64, u32::MAX, 0u32);
        let mut kinds = [0u64; 3];
        for &id in unit {
            let object = &self.trace.objects[id.index()];
            let own = object.bytes.get();
            bytes = bytes.saturating_add(own);
            saved = saved.saturating_add(self.visits.saved(id, object.bytes, self.access));
            held += u128::from(own) * u128::from(self.visits.idle(id));
            let of = self.visits.uses(id);
            uses += of.len() as u64;
            writes += of.iter().filter(|(_, writes)| *writes).count() as u64;
            first = first.min(of.first().map_or(u32::MAX, |&(op, _)| op));
            last = last.max(of.last().map_or(0, |&(op, _)| op));
            match object.kind {
                ObjectKind::Gradient => kinds[0] += own,
                ObjectKind::Optimizer | ObjectKind::Master => kinds[1] += own,
                ObjectKind::Weight => kinds[2] += own,
                _ => {}
            }
        }
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let first = if first == u32::MAX { 0 } else { first };
        let idle = held.checked_div(u128::from(bytes)).unwrap_or(0);
        let mut found = [0.0; NAMES.len()];
        let mut set = |feature: Feature, value: f64| found[feature as usize] = value;
        set(Feature::Bytes, log(bytes) / 32.0);
        set(Feature::First, f64::from(first) / ops);
        set(Feature::Gradients, share(kinds[0], bytes));
        set(Feature::Hidden, self.hidden(unit));
        set(Feature::Idle, log(u64::try_from(idle).unwrap_or(u64::MAX)) / 16.0);
        set(Feature::Last, f64::from(last) / ops);
        set(Feature::Optimizer, share(kinds[1], bytes));
        set(Feature::Saved, log(saved) / 32.0);
        set(Feature::Uses, log(uses) / 8.0);
        set(Feature::WeightBytes, share(kinds[2], bytes));
        set(Feature::Written, share(writes, uses));
        found
    }

    /// What of the copies to HBM fits under the ops of the lookahead.
    fn hidden(&self, unit: &[ObjectId]) -> f64 {
        let Access::Migrate { prefetch_ops } = self.access else { return 0.0 };
        let (mut all, mut hidden) = (0u128, 0u128);
        for &object in unit {
            let copy = (self.copy)(self.trace.objects[object.index()].bytes).ps();
            for &(op, _) in self.visits.uses(object) {
                let from = op.saturating_sub(prefetch_ops) as usize;
                let under = self.before[op as usize] - self.before[from];
                all += u128::from(copy);
                hidden += u128::from(copy.min(under));
            }
        }
        if all == 0 { 0.0 } else { hidden as f64 / all as f64 }
    }
}

/// By op: the sum of the spans before it.
fn summed(spans: &[Span]) -> Vec<u64> {
    let sums = spans.iter().scan(0u64, |sum, span| {
        let before = *sum;
        *sum = before.saturating_add(span.ps());
        Some(before)
    });
    sums.collect()
}

/// The features that can tell two units of a workload apart. A weight of any other changes nothing.
pub(super) fn telling(workload: &Workload, kinds: &[ObjectKind], access: Access) -> Vec<usize> {
    let trace = &workload.trace;
    let visits = Visits::new(workload);
    let objects: Vec<ObjectId> = (0..trace.objects.len())
        .map(ObjectId::at)
        .filter(|&object| {
            kinds.contains(&trace.objects[object.index()].kind) && !visits.life(object).is_empty()
        })
        .collect();
    let before = vec![0; trace.ops.len()];
    let seen = Seen { trace, visits, access, before, copy: Box::new(|_| Span::ZERO) };
    let found: Vec<_> = units(trace, &objects).iter().map(|unit| seen.features(unit)).collect();
    let tells = |&feature: &usize| match access {
        // It depends on times, which are not known here.
        Access::Migrate { prefetch_ops: 1.. } if feature == Feature::Hidden as usize => true,
        _ => found.windows(2).any(|pair| pair[0][feature] != pair[1][feature]),
    };
    (0..NAMES.len()).filter(tells).collect()
}
