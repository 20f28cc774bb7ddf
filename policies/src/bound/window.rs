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
        let depth = (cut.inside.len() - 1) as u8;
        let mut found = self.computes();
        let forced = self.least(crossing.in_place, 0, 1, cut.in_place);
        found = found.max(WindowBound { ps: forced, cause: Cause::InPlace(depth) });
        let Crossing { strict, loose, .. } = *crossing;
        let ways = [
            (Direction::In, cut.rates[0], strict[0], loose[0], 1),
            (Direction::Out, cut.rates[1], strict[1], loose[1], 1),
            (Direction::Both, cut.rates[2], strict[0] + strict[1], loose[0] + loose[1], 2),
        ];
        for (way, rate, strict, loose, times) in ways {
            let tight = self.least(strict, rate, 2 * times, cut.in_place);
            let wide = self.least(loose, rate, times, cut.in_place);
            found =
                found.max(WindowBound { ps: tight.max(wide), cause: Cause::Crossing(depth, way) });
        }
        found
    }

    /// (D + m A C) / (R + m A S).
    fn least(self, bytes: u128, rate: u128, times: u128, in_place: u128) -> u128 {
        let work = || {
            let bytes = bytes.checked_mul(u128::from(PS_PER_S))?;
            let rate = times.checked_mul(in_place)?;
            bytes.checked_add(rate.checked_mul(self.compute)?)
        };
        let rates = || {
            let streams = times.checked_mul(in_place)?.checked_mul(self.streams as u128)?;
            rate.checked_add(streams).filter(|rate| *rate > 0)
        };
        let least = || work()?.checked_div(rates()?);
        if bytes == 0 { 0 } else { least().unwrap_or(0) }
    }
}
