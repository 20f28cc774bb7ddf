//! The least time of one window of ops.
//!
//! With T the time, C what ops compute, S streams, R bytes per second over the cut and A those
//! that a stream uses in place: copies carry at most R T, and uses in place at most A (S T - C), as
//! each delays its op. Where D bytes must be copied but for m times those used in place,
//! D <= R T + m A (S T - C), so T >= (D + m A C) / (R + m A S).
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
        let least = |bytes, rate, times| self.least(cut, bytes, (rate, times), beyond);
        let mut found = self.computes();
        let forced = least(crossing.in_place, 0, 1);
        found = found.max(WindowBound { ps: forced, cause: Cause::InPlace(depth) });
        let Crossing { strict, loose, .. } = *crossing;
        let both = |[inward, outward]: [u128; 2]| inward.saturating_add(outward);
        let ways = [
            (Direction::In, cut.rates[0], strict[0], loose[0], 1),
            (Direction::Out, cut.rates[1], strict[1], loose[1], 1),
            (Direction::Both, cut.rates[2], both(strict), both(loose), 2),
        ];
        for (way, rate, strict, loose, times) in ways {
            let ps = least(strict, rate, 2 * times).max(least(loose, rate, times));
            found = found.max(WindowBound { ps, cause: Cause::Crossing(depth, way) });
        }
        found
    }

    /// (D + m A C) / (R + m A S), or `beyond` where the dividend does not fit.
    fn least(self, cut: &Cut, bytes: u128, (rate, times): (u128, u128), beyond: u128) -> u128 {
        let work = || {
            let bytes = bytes.checked_mul(u128::from(PS_PER_S))?;
            let rate = times.checked_mul(cut.in_place)?;
            bytes.checked_add(rate.checked_mul(self.compute)?)
        };
        let rates = || {
            let streams = times.checked_mul(cut.in_place)?.checked_mul(self.streams as u128)?;
            rate.checked_add(streams).filter(|rate| *rate > 0)
        };
        match (bytes, rates()) {
            (0, _) | (_, None) => 0,
            (_, Some(rates)) => work().map_or(beyond, |work| work / rates),
        }
    }
}
