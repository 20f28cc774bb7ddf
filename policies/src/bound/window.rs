//! The least time of one window of ops.
//!
//! With T the time, C what ops compute, S streams, R bytes per second over the cut and A those
//! that a stream uses in place: copies carry at most R T, and uses in place at most A (S T - C), as
//! each delays its op. Where D bytes must be copied but for m times those used in place,
//! D <= R T + m A (S T - C), so T >= (D + m A C) / (R + m A S).
//!
//! What is used in place over shared links crosses the cut, too: what it reads inwards, what it
//! writes outwards. So copies and such uses together are at most R T, and each of their bytes makes
//! up for one less than m. Of tiers whose use crosses no shared link (at A') m stays, so the most
//! that a moment of delay makes up for is the larger of (m - 1) A and m A'. Inwards that leaves
//! those uses that read nothing of what is there, which are taken from D.
//! Invariant: rounded down; where numbers do not fit 128 bits, a smaller bound.

use super::cut::Cut;
use super::traffic::Crossing;
use tiersim_models::units::PS_PER_S;

/// Which way bytes cross a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Towards the device.
    In,
    /// Away from it.
    Out,
    /// Both ways over one shared total, or over both directions of a link.
    Both,
}

/// What a bound comes from. Cuts are numbered from the one around HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Ops, one after the other.
    CriticalPath,
    /// Ops use more than fits inside the cut, so they use some of it where it is.
    InPlace(u8),
    /// Bytes that cross the cut.
    Crossing(u8, Direction),
}

/// A lower bound on the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Picoseconds from the end of the op before the first that counts to the end of the last.
    pub ps: u128,
    /// What most of it is.
    pub cause: Cause,
}

/// A bound and what it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBound {
    pub(crate) ps: u128,
    pub(crate) cause: Cause,
}

impl WindowBound {
    pub(crate) fn max(self, other: WindowBound) -> WindowBound {
        if other.ps > self.ps { other } else { self }
    }
}

/// What all ops of a window compute, in picoseconds, and on how many streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) compute: u128,
    pub(crate) streams: usize,
}

impl Window {
    /// Ops alone.
    pub(crate) fn computes(self) -> WindowBound {
        let ps = self.compute / (self.streams as u128).max(1);
        WindowBound { ps, cause: Cause::CriticalPath }
    }

    /// Ops, and what must cross a cut.
    pub(crate) fn crosses(self, cut: &Cut, crossing: &Crossing) -> WindowBound {
        self.bound(cut, crossing, 0)
    }

    /// No less than [`Window::crosses`] of any crossing that is nowhere above this one.
    pub(crate) fn at_most(self, cut: &Cut, crossing: &Crossing) -> u128 {
        self.bound(cut, crossing, u128::MAX).ps
    }

    fn bound(self, cut: &Cut, crossing: &Crossing, beyond: u128) -> WindowBound {
        let depth = (cut.inside.len() - 1) as u8;
        let least = |bytes, rate, delays| self.least(bytes, (rate, delays), beyond);
        let mut found = self.computes();
        let forced = least(crossing.in_place, 0, cut.in_place);
        found = found.max(WindowBound { ps: forced, cause: Cause::InPlace(depth) });
        let Crossing { strict, loose, unread, .. } = *crossing;
        let both = |[inward, outward]: [u128; 2]| inward.saturating_add(outward);
        let ways = [
            (Direction::In, strict[0], loose[0], (1, unread)),
            (Direction::Out, strict[1], loose[1], (1, 0)),
            (Direction::Both, both(strict), both(loose), (2, unread)),
        ];
        for ((way, strict, loose, (times, unread)), rate) in ways.into_iter().zip(cut.rates) {
            let times = |rate: u128| rate.saturating_mul(times);
            let mut ps = least(strict, rate, times(2 * cut.in_place));
            ps = ps.max(least(loose, rate, times(cut.in_place)));
            if cut.flowing > 0 {
                let (strict, loose) = (strict.saturating_sub(unread), loose.saturating_sub(unread));
                ps = ps.max(least(strict, rate, times(cut.flowing.max(2 * cut.aside))));
                ps = ps.max(least(loose, rate, times(cut.aside)));
            }
            found = found.max(WindowBound { ps, cause: Cause::Crossing(depth, way) });
        }
        found
    }

    /// (D + M C) / (R + M S) where a second of delay makes up for M bytes, or `beyond` where the
    /// dividend does not fit.
    fn least(self, bytes: u128, (rate, delays): (u128, u128), beyond: u128) -> u128 {
        let work = || {
            let bytes = bytes.checked_mul(u128::from(PS_PER_S))?;
            bytes.checked_add(delays.checked_mul(self.compute)?)
        };
        let rates = || {
            let streams = delays.checked_mul(self.streams as u128)?;
            rate.checked_add(streams).filter(|rate| *rate > 0)
        };
        match (bytes, rates()) {
            (0, _) | (_, None) => 0,
            (_, Some(rates)) => work().map_or(beyond, |work| work / rates),
        }
    }
}
