//! What is where, by next use: the candidates to leave HBM, to be copied out and to be fetched.
//!
//! A view of the ledger in the order that decisions need. It can lag behind where a plan is mended
//! by others (memory pressure, allocators without a large enough piece), so whoever takes a
//! candidate checks it against the view.
//! Invariant: an object is in one set at most.

use super::future::Future;
use crate::state::{Remembered, State};
use std::collections::BTreeSet;
use tiersim_models::ids::ObjectId;

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside HBM only.
    Outside,
    /// The same, and used no more.
    Over,
    /// In HBM, with a copy outside.
    Copied,
    /// In HBM only, and worth a copy.
    Alone,
    /// In HBM only, and not worth one.
    Kept,
}

impl Place {
    /// Whether HBM holds it.
    pub(super) fn is_inside(self) -> bool {
        !matches!(self, Place::Outside | Place::Over)
    }
}

/// Objects by place and rank of their next use.
#[derive(Debug)]
pub(super) struct Stock {
    sets: [BTreeSet<(u64, ObjectId)>; 5],
    of: Vec<Option<(Place, u64)>>,
}

impl Remembered for Stock {
    /// Who is where: the order follows from the ranks.
    fn state(&self, out: &mut State) {
        let Stock { sets: _, of } = self;
        for of in of {
            out.word(of.map_or(0, |(place, _)| place as u64 + 1));
            of.iter().for_each(|&(_, rank)| Future::write_rank(rank, out));
        }
    }
}

impl Stock {
    pub(super) fn new(objects: usize) -> Stock {
        Stock { sets: Default::default(), of: vec![None; objects] }
    }

    pub(super) fn put(&mut self, object: ObjectId, place: Place, rank: u64) {
        if self.of[object.index()] == Some((place, rank)) {
            return;
        }
        self.take(object);
        self.of[object.index()] = Some((place, rank));
        self.sets[place as usize].insert((rank, object));
    }

    pub(super) fn place(&self, object: ObjectId) -> Option<Place> {
        self.of[object.index()].map(|(place, _)| place)
    }

    pub(super) fn take(&mut self, object: ObjectId) -> Option<Place> {
        let (place, rank) = self.of[object.index()].take()?;
        self.sets[place as usize].remove(&(rank, object));
        Some(place)
    }

    /// Those of one place, by rank.
    pub(super) fn of(&self, place: Place) -> impl DoubleEndedIterator<Item = (u64, ObjectId)> + '_ {
        self.sets[place as usize].iter().copied()
    }

    /// Those of one place, by rank, from one on.
    pub(super) fn from(
        &self,
        place: Place,
        first: (u64, ObjectId),
    ) -> impl DoubleEndedIterator<Item = (u64, ObjectId)> + '_ {
        self.sets[place as usize].range(first..).copied()
    }

    /// Those of one place before one, the last first.
    pub(super) fn down_from(
        &self,
        place: Place,
        end: (u64, ObjectId),
    ) -> impl DoubleEndedIterator<Item = (u64, ObjectId)> + '_ {
        self.sets[place as usize].range(..end).rev().copied()
    }
}
