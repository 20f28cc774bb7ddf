//! How a real machine is set up, and what is alive of it.

use crate::fault::{Fault, Result};
use crate::faulty::Failure;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
pub(crate) use tiersim_models::random::split_mix as draw;
use tiersim_models::units::Span;
use tiersim_policies::command::Ticket;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder in which the machine makes a folder of its own for tiers that are files; removed
    /// when the machine is dropped.
    pub scratch: PathBuf,
    /// Which device, where a machine has several to choose from; counted from 0.
    pub device: usize,
    /// Every how many pages an arrival is checked, besides the first and the last; 1 checks all.
    /// What an op reads is always checked whole: the check is the reading.
    pub arrival_stride: usize,
    /// Whether the delay of use in place is added to an op's time, as an emulation of its tier;
    /// without it the op takes as long as using the object where it lies really takes.
    pub emulate: bool,
    /// Nothing has ended for this long, commands are under way and no worker is at work on one:
    /// then a wake-up or an end was lost, and the run ends with a fault instead of waiting for
    /// ever. A worker that is busy, however long, is none of that.
    pub patience: Span,
    /// Tests only: every piece of work starts late by up to `most`, drawn from `seed`.
    pub delay: Option<Delay>,
    /// Tests only: fails once, on the thread that does the work. Rooms that are taken before the
    /// first op count too.
    pub fail: Option<Failure>,
    /// Counts what is alive.
    pub live: Live,
}

/// Late starts, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Seed of the draws.
    pub seed: u64,
    /// The longest.
    pub most: Span,
}

/// What machines have made and not given back: shared, so that it can be read after a machine is
/// gone.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Slots of memory and files.
    pub rooms: Arc<AtomicUsize>,
    /// Worker threads.
    pub threads: Arc<AtomicUsize>,
}

/// Counts what a machine does, and fails once if it is told to.
pub(crate) struct Failing {
    told: Option<Failure>,
    rooms: AtomicU64,
    copies: AtomicU64,
}

impl Failing {
    pub(crate) fn new(told: Option<Failure>) -> Failing {
        Failing { told, rooms: AtomicU64::new(0), copies: AtomicU64::new(0) }
    }

    /// A room is taken.
    pub(crate) fn room(&self) -> Result<()> {
        self.at(Failure::Allocation(self.rooms.fetch_add(1, Relaxed) + 1))
    }

    /// A copy begins.
    pub(crate) fn copy(&self) -> Result<()> {
        self.at(Failure::Copy(self.copies.fetch_add(1, Relaxed) + 1))
    }

    fn at(&self, now: Failure) -> Result<()> {
        if self.told == Some(now) { Err(Fault::Injected(now)) } else { Ok(()) }
    }
}

/// How late a command's work on a hop starts, if a test asks for it.
pub(crate) fn lateness(delay: Option<Delay>, ticket: Ticket, hop: usize) -> Span {
    let Some(Delay { seed, most }) = delay else { return Span::ZERO };
    Span::from_ps(draw(seed, u64::from(ticket.0) * 8 + hop as u64) % (most.ps() + 1))
}

impl Options {
    /// Checks a sixteenth of the pages of each arrival, and its ends.
    pub fn new(scratch: impl Into<PathBuf>) -> Options {
        Options {
            scratch: scratch.into(),
            device: 0,
            arrival_stride: 16,
            emulate: true,
            patience: Span::from_us(60_000_000),
            delay: None,
            fail: None,
            live: Live::default(),
        }
    }
}
