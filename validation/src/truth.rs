//! What contents must be, and what a check of them found: mismatches, counted, and the first of
//! them in full.

use std::fmt;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_policies::command::Ticket;

/// Mismatches that are kept in full; the rest are only counted.
const KEPT: usize = 16;

/// What was found where a pattern was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The tier holds no room for the object.
    NotAllocated,
    /// At least one word claims to be of this object and version. Memory that never held a
    /// pattern gives numbers that no object has.
    Version {
        /// The object's number.
        object: u32,
        /// The version.
        version: u64,
    },
}

/// Which command meets contents, of which object, and in which tier.
pub(crate) type Meeting = (Ticket, ObjectId, TierId);

/// Contents that were not what the order of the plan makes the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The command that met them.
    pub ticket: Ticket,
    /// The object.
    pub object: ObjectId,
    /// The tier in which it was met.
    pub tier: TierId,
    /// Writes that the object should have seen.
    pub expected: u64,
    /// What was there.
    pub found: Contents,
}

/// All checks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Checks made: one per object and command, or, where parts of the object were written one after
    /// the other, one per row of pages that are of the same write.
    pub checks: u64,
    /// Checks that failed.
    pub mismatches: u64,
    /// The first of them.
    pub first: Vec<Mismatch>,
}

impl Truth {
    pub(crate) fn note(&mut self, mismatch: Option<Mismatch>) {
        self.checks += 1;
        if let Some(mismatch) = mismatch {
            self.mismatches += 1;
            if self.first.len() < KEPT {
                self.first.push(mismatch);
            }
        }
    }
}

impl Mismatch {
    /// What the command met where the version `expected` should be.
    pub(crate) fn new((ticket, object, tier): Meeting, expected: u64, found: Contents) -> Mismatch {
        Mismatch { ticket, object, tier, expected, found }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { ticket, object, tier, expected, found } = self;
        let (ticket, object, tier) = (ticket.0, object.0, tier.0);
        write!(
            f,
            "command {ticket}: object {object} in tier {tier}: expected v{expected}, found "
        )?;
        match found {
            Contents::NotAllocated => f.write_str("no room"),
            Contents::Version { object, version } => write!(f, "object {object} v{version}"),
        }
    }
}
