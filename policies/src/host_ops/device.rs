//! The ops of the device alone, for a policy that knows no others.

use crate::policy::Sight;
use crate::view::View;
use tiersim_models::lifetime::Workload;

/// The device's ops.
pub(super) struct DeviceOps {
    pub(super) workload: Workload,
    /// By op of the whole trace: how many of the device's come before it.
    pub(super) before: Vec<u64>,
}

impl DeviceOps {
    /// What is where, for a policy that knows these ops only.
    pub(super) fn view<'v>(&'v self, view: &View<'v>, sight: Sight) -> View<'v> {
        let DeviceOps { workload, before } = self;
        let (all, own) = (before.len() as u64, workload.trace.ops.len() as u64);
        let at = view.occurrence;
        let occurrence = at / all * own + before[(at % all) as usize];
        let total = view.total / all * own;
        View { workload, ledger: view.ledger, occurrence, total, sight }
    }

    /// In so many of these ops come at most so many of the whole trace.
    pub(super) fn ops_of_all(&self, own: u64) -> u64 {
        let replays = own / self.workload.trace.ops.len() as u64 + 1;
        replays.saturating_mul(self.before.len() as u64)
    }
}
