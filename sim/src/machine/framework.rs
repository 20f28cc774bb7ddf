//! What a framework adds ([`Runtime`]): the host's time for ops and objects, copies that its thread
//! waits for, and passes over device memory.
//!
//! Each device has one thread. It sees to one fetched object after the other, in the order in which
//! their edges are satisfied, and only then their copies may enter their channels. Where copies are
//! blocking, what the plan has behind one of a device, ops and fetches, has one edge more: to the
//! last of them. A thread that runs ahead has a clock of its own, which ops and objects advance by
//! what they take of it and by nothing else, but for what it waits for: blocking copies, ops of the
//! CPU, and the device itself before each step. The passes over what has come are made on the device,
//! one object after the other, beside its ops and other copies; until they are over the copy has not
//! ended.
//! Invariant: without a runtime nothing in here does anything.

use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Bandwidth, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{Remembered, State};

/// A framework on every device.
#[derive(Debug)]
pub(super) struct Framework {
    pub(super) runtime: Runtime,
    /// Of device memory.
    pub(super) rate: Bandwidth,
    /// By rank.
    pub(super) threads: Vec<Thread>,
}

/// The framework's thread of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// When it has seen to all objects so far, and to all ops if it runs ahead.
    pub(super) free: Time,
    /// When the device has gone over all objects so far.
    pub(super) passed: Time,
    /// What was submitted last of what it waits for.
    pub(super) waits_for: Option<Ticket>,
}

impl Framework {
    /// Writes what may come of the past.
    pub(super) fn write(&self, is_under_way: impl Fn(Ticket) -> bool, out: &mut State) {
        let Framework { runtime, rate: _, threads } = self;
        out.list(threads, |out, thread| {
            let Thread { free, passed, waits_for } = thread;
            let now = out.now();
            // How far it is ahead matters; how long it has had nothing to do does not.
            let free = if runtime.ahead { *free } else { (*free).max(now) };
            (free, (*passed).max(now)).state(out);
            waits_for.filter(|&ticket| is_under_way(ticket)).state(out);
        });
    }
}
