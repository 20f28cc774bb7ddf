//! What visits memory of the host from tiers beyond it, such as optimizer state on NVMe.
//!
//! It comes ahead of its op, if the policy sees that far and there is room for it, and goes home
//! when none of the next two ops on the CPU uses it: one is used while another comes and a third
//! leaves.
//! Invariant: nothing leaves or waits for a guest that comes ahead.

use super::make_room::{Usage, prefetch};
use crate::state::remember;
use crate::step::Step;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Unit, Use};

/// How far ahead ops on the CPU are looked for, and how many of them count.
const OPS_AHEAD: u64 = 16;
const HOST_OPS: usize = 2;

/// Objects from beyond that were brought to the host.
#[derive(Debug, Default)]
pub(super) struct Guests {
    objects: Vec<ObjectId>,
}

remember! { Guests { objects }; }

/// What the next ops on the CPU use, as far as the policy sees.
pub(super) fn soon(view: &View<'_>) -> Vec<Use> {
    let ops = &view.workload.trace.ops;
    let on_host = |ahead: &u64| {
        let at = (view.occurrence + ahead) % ops.len() as u64;
        ops[at as usize].unit == Unit::Cpu
    };
    let seen = (1..=OPS_AHEAD).map_while(|ahead| view.ahead(ahead).map(|uses| (ahead, uses)));
    let next = seen.filter(|(ahead, _)| on_host(ahead)).take(HOST_OPS);
    next.flat_map(|(_, uses)| uses.iter().copied()).collect()
}

impl Guests {
    /// An object was brought from beyond.
    pub(super) fn note(&mut self, object: ObjectId) {
        if !self.objects.contains(&object) {
            self.objects.push(object);
        }
    }

    /// Those that neither this op nor the next ones use go home.
    pub(super) fn leave(&mut self, usage: &Usage, soon: &[Use], step: &mut Step<'_>) {
        self.objects.retain(|&object| {
            let Some(host) = usage.in_host(object, step) else { return false };
            if step.is_used(object) || soon.iter().any(|touched| touched.object == object) {
                return true;
            }
            let home = usage.outer.iter().find(|&&tier| step.is_allocated(object, tier));
            if let Some(&home) = home {
                step.evict(object, host, home);
            }
            false
        });
    }

    /// What the next ops need comes, while there is room.
    pub(super) fn come(&mut self, usage: &Usage, soon: &[Use], step: &mut Step<'_>) {
        for object in soon.iter().filter(|used| used.mode.reads()).map(|used| used.object) {
            let there = step.nearest(object);
            let here =
                there.is_none_or(|tier| tier == HBM) || usage.in_host(object, step).is_some();
            // What the op creates is not there yet, and what it uses may change.
            if here || !step.view().exists(object) || step.is_used(object) {
                continue;
            }
            let roomy = |&&tier: &&TierId| step.fits(tier, step.room_of(object, tier));
            let Some(&to) = usage.host.iter().find(roomy) else { break };
            prefetch(object, to, Bytes::ZERO, step);
            self.note(object);
        }
    }
}
