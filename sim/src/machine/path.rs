//! How the time up to an end is made up: the split of a step along its critical path.
//!
//! Nothing is walked back. Whatever starts takes over the path to what it had waited for last,
//! which is what ends at that moment: the edge that was satisfied last, the op before it on its
//! stream, the rank that came last. When it ends, its own time is added, by part. So the op whose
//! end ends a step brings the split of the whole step with it, and memory is that of commands under
//! way.
//!
//! Pieces of copies do the same, hop by hop: a piece takes over the path to what let it into the
//! line of its hop, and adds how long it stood there, between its turns too, and how long it
//! crossed. What others did on the channel meanwhile is not followed: standing in line is a part of
//! its own.
//! Invariant: a path adds up to the time since the last step ended, to the picosecond.

use smallvec::SmallVec;
use std::rc::Rc;
use tiersim_models::results::{Parts, PathPart};
use tiersim_models::units::{Span, Time};
use tiersim_policies::state::{Remembered, State, remember};

/// Time by part, by the place of the part.
pub(super) type Path = Rc<[Span]>;

/// Stretches of time, one after the other.
pub(super) type Stretches = SmallVec<[(PathPart, Span); 8]>;

/// Where paths begin and how far they have come.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) parts: Parts,
    pub(super) none: Path,
    /// When the last step ended.
    pub(super) since: Time,
    /// The path to what ended last.
    pub(super) last: Path,
    /// The path to the command of which the plan heard last.
    pub(super) told: Path,
}

/// A piece on a hop: the path to what let it into the line there, when that was, and when it left
/// the line.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) path: Path,
    pub(super) offered: Time,
    pub(super) began: Time,
}

impl Paths {
    pub(super) fn new(parts: Parts) -> Paths {
        let none: Path = vec![Span::ZERO; parts.count()].into();
        Paths { parts, since: Time::ZERO, last: none.clone(), told: none.clone(), none }
    }

    /// `path`, which leads up to `from`, up to where these stretches end.
    pub(super) fn extended(&self, path: Path, from: Time, stretches: &[(PathPart, Span)]) -> Path {
        // What lies before the end of the last step is that step's.
        let mut path = if from > self.since { path } else { self.none.clone() };
        let mut before = self.since.ps().saturating_sub(from.ps());
        // Nobody else has it, most of the time: then nothing is copied.
        let sums = Rc::make_mut(&mut path);
        for &(part, span) in stretches {
            let own = span.ps().saturating_sub(before);
            before -= span.ps() - own;
            sums[self.parts.index(part)] += Span::from_ps(own);
        }
        path
    }

    /// The path to what ended last.
    pub(super) fn last(&self) -> Path {
        self.last.clone()
    }

    /// The plan hears of the command to whose end `path` leads.
    pub(super) fn tell(&mut self, path: Path) {
        self.told = path;
    }

    /// Time goes on: nobody asks any more.
    pub(super) fn told(&mut self) {
        self.told = self.none.clone();
    }

    /// Writes a path that led up to `from`, and when that was.
    pub(super) fn write(&self, path: &Path, from: Time, out: &mut State) {
        from.state(out);
        (from > self.since).then_some(&**path).state(out);
    }

    /// Writes how far a piece has come.
    pub(super) fn leg(&self, leg: &Leg, out: &mut State) {
        let Leg { path, offered, began } = leg;
        self.write(path, *offered, out);
        began.state(out);
    }
}

impl Remembered for Paths {
    /// What the future may build on.
    fn state(&self, out: &mut State) {
        remember!(out, self as Paths { since } skip { parts, none, last, told });
        self.write(&self.last, out.now(), out);
    }
}
