//! The trait that every placement and offload policy implements.
//!
//! A policy is asked before each op, in trace order, and takes actions ([`Step`]). It has no clock:
//! it sees what is where and how much is free, and as much of the future as its [`Lookahead`].

pub use crate::action::{Action, Found, Refusal};
use crate::state::State;
use crate::step::Step;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
pub use tiersim_models::results::Lookahead;

/// Decides where each object lives and when it moves.
pub trait Policy: Send {
    /// Its name in tables and charts, such as `lru`.
    fn name(&self) -> &'static str;

    /// How far it looks ahead: not at all, unless it says so.
    fn lookahead(&self) -> Lookahead {
        Lookahead::Past
    }

    /// Where an object that exists before the first op starts out. Asked once per object, in the
    /// order of the trace's table; `view` shows what has been placed so far.
    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId;

    /// Where an object that the next op creates gets its room: in HBM, unless it says otherwise.
    fn allocate_in(&mut self, _object: ObjectId, _view: &View<'_>) -> TierId {
        HBM
    }

    /// Asked before each op: takes the actions for it, in the order in which they take effect.
    fn plan_op(&mut self, step: &mut Step<'_>);

    /// Where an object belongs that has to leave a tier because that is full; `None` to leave it to
    /// whoever asks.
    fn spill_tier(&mut self, _object: ObjectId, _view: &View<'_>) -> Option<TierId> {
        None
    }

    /// Asked when what the op needs does not fit into a tier though the policy counted on it: bytes
    /// are free, but no piece is large enough. Names something that leaves the tier (an evict or a
    /// drop of an object that the op does not use there); asked again until it fits. `None` when
    /// there is nothing: the run is out of memory. Never asked for tiers that are exact.
    fn make_room(&mut self, _view: &View<'_>, _tier: TierId) -> Option<Action> {
        None
    }

    /// The only tiers outside HBM that its objects go to, beside memory of the host for ops there;
    /// `None` for any.
    fn keeps_to(&self) -> Option<&[TierId]> {
        None
    }

    /// The tiers in which ops on the CPU use their objects; none for a policy that
    /// knows nothing of such ops. Asked once; [`crate::cpu_ops`] answers for every policy.
    fn host(&self) -> &[TierId] {
        &[]
    }

    /// Writes everything that the next decisions depend on beside `view`, and says whether it
    /// could.
    ///
    /// Asked between two replays. A run that is in the same state twice repeats itself, and what it
    /// repeats need not be simulated again; a policy that cannot say, or whose state is never the
    /// same again, is simulated op by op. Ops of the run are written relative to the one that comes
    /// next. A policy that knows more of the end of the run than its [`Lookahead`] shows must say
    /// how far it looks ([`State::looks_ahead`]); one that sees all of it always must.
    fn state(&self, _view: &View<'_>, _out: &mut State) -> bool {
        false
    }

    /// So many replays are left out of those that are still to come.
    fn leave_out(&mut self, _replays: u64) {}

    /// The same policy as it was before its first op, if it takes long to build and can be had for
    /// less: a run that is begun again takes it, for the same setting.
    fn anew(&self) -> Option<Box<dyn Policy>> {
        None
    }
}
