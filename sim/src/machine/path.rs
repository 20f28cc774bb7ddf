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

use super::trail::{NOWHERE, Source, Tip, Trail};
use smallvec::SmallVec;
use std::rc::Rc;
use tiersim_models::results::{Parts, PathPart};
use tiersim_models::units::{Span, Time};
use tiersim_policies::state::{Remembered, State, remember};

/// A path up to a moment.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Time by part, by the place of the part.
    pub(super) sums: Rc<[Span]>,
    /// Its last stretch, where these are kept.
    pub(super) tip: Tip,
}

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
    /// The stretches of paths themselves, where a run is explained.
    pub(super) trail: Option<Box<Trail>>,
}

/// A piece on a hop: the path to what let it into the line there, when that was, and when it left
/// the line.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) path: Path,
    pub(super) offered: Time,
    pub(super) began: Time,
    /// Whether it has had a turn there before, and so paid what does not depend on its bytes.
    pub(super) again: bool,
}

impl Paths {
    pub(super) fn new(parts: Parts) -> Paths {
        let none = Path { sums: vec![Span::ZERO; parts.count()].into(), tip: NOWHERE };
        let (last, told) = (none.clone(), none.clone());
        Paths { parts, since: Time::ZERO, last, told, none, trail: None }
    }

    /// `path`, which leads up to `from`, up to where these stretches end; `source` is who spent
    /// them, where that is kept.
    pub(super) fn extended(
        &mut self,
        path: Path,
        from: Time,
        stretches: &[(PathPart, Span)],
        source: Option<Source>,
    ) -> Path {
        // What lies before the end of the last step is that step's.
        let mut path = if from > self.since { path } else { self.none.clone() };
        let mut before = self.since.ps().saturating_sub(from.ps());
        // Nobody else has it, most of the time: then nothing is copied.
        let sums = Rc::make_mut(&mut path.sums);
        let mut at = from.max(self.since);
        // What takes no time changes nothing.
        for &(part, span) in stretches.iter().filter(|(_, span)| *span > Span::ZERO) {
            let own = span.ps().saturating_sub(before);
            before -= span.ps() - own;
            let own = Span::from_ps(own);
            sums[self.parts.index(part)] += own;
            if let (Some(trail), Some(mut source)) = (&mut self.trail, source) {
                // What a crossing pays beside its bytes comes first, and so is cut first.
                let cut = span.ps() - own.ps();
                source.setup = match part {
                    PathPart::Copy(_) => Span::from_ps(source.setup.ps().saturating_sub(cut)),
                    _ => Span::ZERO,
                };
                path.tip = trail.add(path.tip, (at, own), part, source);
                at = at + own;
            }
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
        (from > self.since).then_some(&*path.sums).state(out);
    }

    /// Writes how far a piece has come.
    pub(super) fn leg(&self, leg: &Leg, out: &mut State) {
        let Leg { path, offered, began, again: _ } = leg;
        self.write(path, *offered, out);
        began.state(out);
    }
}

impl Remembered for Paths {
    /// What the future may build on.
    fn state(&self, out: &mut State) {
        remember!(out, self as Paths { since } skip { parts, none, last, told, trail });
        self.write(&self.last, out.now(), out);
    }
}
