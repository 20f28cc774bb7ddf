//! How long a run warms up: until its measured steps are those of its steady state.
//!
//! A step ends with its last op, and copies may go on: write-backs of what it computed, and what
//! the next one uses. In the steady state a step leaves to the next what it got from the one
//! before. So a run is tried with the warm-up that its scenario states, and if its measured replays
//! do not agree, again with 1, 3, 7, ... replays more that do not count. They agree if the second
//! half of them takes as long as the first (a single one as long as the one before it), and if what
//! they copy is what was copied in their time, on every channel; both within [`TOLERANCE`] of the
//! measured time, which is no less than the ops of any stream take in it. Replays that come in
//! turns, one long and one short, agree if their mean is that of the try before. The run is the
//! beginning of a longer one, whose policy does not see an end. A trace that runs once has no
//! steady state: its last step ends when nothing is under way any more.
//!
//! Where one replay of one stream is measured, the longer run is not begun anew but goes on from
//! there (`stopwatch/later.rs`).
//!
//! Where something is drawn no replay is like another, so the warm-up is that of the same run
//! without draws.
//! Invariant: the number of replays depends on the case alone, not on how the run is carried out.

use tiersim_models::hardware::{Channel, Hardware};
use tiersim_models::results::{Settled, Steadiness, Steps};
use tiersim_models::service::Discipline;
use tiersim_models::units::{PS_PER_S, Span};
use tiersim_policies::drive::WINDOW;

/// Halves that differ by less than this share of the measured time agree.
pub const TOLERANCE: f64 = 0.001;
/// Replays that are added to the warm-up at most.
pub const MOST_ADDED: u32 = 15;
/// A longer run is not tried again: what comes before its steady state makes no difference to its
/// mean.
pub(super) const LONG: u32 = 1 << 16;
/// Replays behind the measured ones that the policy expects, beside those that it may look into.
const BEHIND: u64 = 3;

/// How many replays a run of `repeat` has for its policy, whatever is added to the warm-up.
pub(super) fn told(repeat: u32, ops: usize) -> u32 {
    if repeat == 1 {
        return 1;
    }
    let behind = BEHIND + 2 * WINDOW / ops.max(1) as u64;
    let told = u64::from(repeat) + u64::from(MOST_ADDED) + behind;
    u32::try_from(told).unwrap_or(u32::MAX)
}

/// What tells whether the measured replays of a run are its steady state.
pub(super) struct Evidence {
    /// Replays that do not count.
    pub(super) warmup: u64,
    /// Measured replays.
    pub(super) measured: u64,
    /// How long the last of those took that do not count.
    pub(super) before: Span,
    /// Picoseconds that a replay takes at least.
    pub(super) least: u128,
    /// By channel: bytes that the measured replays copy, without those that were copied in their
    /// time.
    pub(super) unpaid: Vec<i128>,
}

impl Evidence {
    /// Whether the measured replays agree.
    pub(super) fn judge(&self, hardware: &Hardware, steps: &Steps) -> Steadiness {
        let each = steps.len() as u64 / self.measured;
        let half = self.measured / 2 * each;
        let (first, second) = match half {
            0 => (u128::from(self.before.ps()), steps.total()),
            _ => (steps.first(half), steps.total() - steps.first(steps.len() as u64 - half)),
        };
        let drift = (second as f64 - first as f64) / (first as f64).max(1.0);
        let total = (steps.total() as f64).max(1.0);
        let share = |channel: Channel| {
            self.unpaid[channel.index()] as f64 / reached(hardware, channel) / total
        };
        let shares = hardware.channels().map(|channel| (channel.index(), share(channel)));
        let most = shares.filter(|(_, share)| *share != 0.0);
        let most = most.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        let copies = most.map_or((None, 0.0), |(channel, share)| (Some(channel), share));
        // A stream that ran ahead while others waited has done part of the measured work before.
        let work = (u128::from(self.measured) * self.least) as f64;
        let ahead = (work / total - 1.0).max(0.0);
        let (unpaid_lane, unpaid) = if ahead > copies.1.abs() { (None, ahead) } else { copies };
        let settled = match drift.abs().max(unpaid.abs()) {
            0.0 => Settled::Same,
            off if off <= TOLERANCE => Settled::Agree,
            _ => Settled::Drifts,
        };
        let left_over = Span::ZERO;
        Steadiness { settled, warmup: self.warmup, drift, unpaid, unpaid_lane, left_over }
    }
}

/// Measured replays that differ among each other may come in turns: they agree if their mean is
/// that of the last try, which measured others, and all is paid.
pub(super) fn compare(steady: &mut Steadiness, mean: Span, last: Span) {
    let drift = (mean.ps() as f64 - last.ps() as f64) / (last.ps() as f64).max(1.0);
    if steady.settled == Settled::Drifts && drift.abs().max(steady.unpaid.abs()) <= TOLERANCE {
        (steady.settled, steady.drift) = (Settled::Agree, drift);
    }
}

/// Bytes per picosecond over a channel at most.
fn reached(hardware: &Hardware, channel: Channel) -> f64 {
    let service = hardware.links[channel.link.index()].service.as_ref();
    let queues = service.filter(|service| service.discipline == Discipline::Fifo);
    let at_once = queues.map_or(1, |service| service.at_once());
    hardware.channel_law(channel).rate.get() as f64 * f64::from(at_once) / PS_PER_S as f64
}
