//! Which kernel followed which.
//!
//! A kernel is known by its name and its objects. A table says, for the last two kernels, which one
//! came next when they were met last; for a pair that was never met, what came next after the last
//! one alone.

use crate::state::remember;
use crate::view::View;
use std::collections::BTreeMap;
use tiersim_models::ids::ObjectId;

/// What has been learned of a run.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Kernels by what they are known by.
    kernels: BTreeMap<u64, u32>,
    /// The objects of each kernel.
    objects: Vec<Vec<ObjectId>>,
    /// After the last two, and after the last alone.
    after_two: BTreeMap<(u32, u32), u32>,
    after_one: Vec<Option<u32>>,
    /// The last two.
    met: (Option<u32>, Option<u32>),
}

remember! {
    // A kernel's objects are known by its number.
    Table { kernels, after_two, after_one, met } skip { objects };
}

impl Table {
    /// The kernel that is launched now.
    pub(super) fn meet(&mut self, view: &View<'_>) {
        let next = *self.kernels.entry(known_by(view)).or_insert_with(|| {
            self.objects.push(view.uses().iter().map(|touched| touched.object).collect());
            self.after_one.push(None);
            (self.objects.len() - 1) as u32
        });
        if let Some(last) = self.met.1 {
            self.after_one[last as usize] = Some(next);
            if let Some(before) = self.met.0 {
                self.after_two.insert((before, last), next);
            }
        }
        self.met = (self.met.1, Some(next));
    }

    /// The first `most` different objects of the kernels that should come next, in their order.
    pub(super) fn expected(&self, most: usize) -> Vec<ObjectId> {
        let mut found: Vec<ObjectId> = Vec::with_capacity(most);
        let (mut before, mut last) = self.met;
        // A chain may run in a circle.
        for _ in 0..most.saturating_mul(4) {
            let Some(kernel) = last else { break };
            let pair = before.and_then(|before| self.after_two.get(&(before, kernel)).copied());
            let next = pair.or(self.after_one[kernel as usize]);
            for &object in next.iter().flat_map(|&next| &self.objects[next as usize]) {
                if found.len() == most {
                    return found;
                }
                if !found.contains(&object) {
                    found.push(object);
                }
            }
            (before, last) = (last, next);
        }
        found
    }
}

/// What a driver knows a kernel by: its name and its arguments.
///
/// Source of the hash: Fowler, Noll, Vo, FNV-1a with 64 bits. Two kernels of the same hash would be
/// taken for one, and the table would be wrong for them, no more.
fn known_by(view: &View<'_>) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let name = view.op().name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let objects = view.uses().iter().flat_map(|touched| touched.object.0.to_le_bytes());
    objects.fold(name, mix)
}
