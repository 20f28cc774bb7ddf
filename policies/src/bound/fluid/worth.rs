//! What more of a machine would take off the bound, by the prices of the program's rows.
//!
//! At the best solution a row's price says by how much the least stall falls with what the row has
//! to spare: a hundredth more memory is a hundredth more in each row of memory, a hundredth more
//! of a rate takes a hundredth off what crosses in each row of its channel (the envelope theorem).
//! Of two solutions that are as good prices may differ, and then more is worth less than fewer cost.
//! Invariant: all but memory add up to -1, as the bound is twice as long where every time is.

use super::channels::Carried;
use super::cycle::Cycle;
use super::rows::Rows;
use crate::bound::cut::words;
use crate::bound::linear::Solution;
use crate::bound::{Cause, Direction};
use tiersim_models::hardware::Hardware;

/// Something that a machine may have more of. Cuts are numbered from the one around HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// What the tiers inside of a cut hold.
    Memory(u8),
    /// What all links across a cut carry in a second.
    Rate(u8, Direction),
    /// How fast ops use what is outside HBM where it is.
    InPlace,
    /// How fast ops compute.
    Compute,
}

/// By how many per cent the bound moves with a hundredth more of something; below zero where it
/// falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// Of what.
    pub resource: Resource,
    /// Per cent per per cent.
    pub elasticity: f64,
}

impl Resource {
    /// In words, such as `rate into hbm`.
    pub fn words(self, hardware: &Hardware) -> String {
        match self {
            Resource::Memory(cut) => format!("memory of {}", words(hardware, cut)),
            Resource::Rate(cut, direction) => {
                let way = Cause::Crossing(cut, direction).words(hardware);
                way.replacen("bytes", "rate", 1)
            }
            Resource::InPlace => "rate of use in place".to_owned(),
            Resource::Compute => "rate of compute".to_owned(),
        }
    }
}

/// What each is worth to a bound of `ps` picoseconds, in the order of cuts; those of no worth too.
pub(crate) fn worths(cycle: &Cycle, rows: &Rows, solution: &Solution, ps: f64) -> Vec<Worth> {
    let price = |row: usize| solution.prices[row].max(0.0);
    // Picoseconds of the run, to per cent of the bound.
    let share = |units: f64| -units * rows.unit * cycle.times / ps.max(1.0);
    let mut all = Vec::new();
    let mut add = |resource, units| all.push(Worth { resource, elasticity: share(units) });
    for (depth, (held, channels)) in (0u8..).zip(rows.held.iter().zip(&rows.channels)) {
        add(Resource::Memory(depth), held.iter().map(|&row| price(row)).sum());
        for (way, channel) in [Direction::In, Direction::Out, Direction::Both].iter().zip(channels)
        {
            let saved = |carried: &Carried| price(carried.row) * carried.used(&solution.values);
            add(Resource::Rate(depth, *way), channel.iter().map(saved).sum());
        }
    }
    // While ops compute, or are delayed, channels go on.
    let mut gained = vec![0.0; rows.delays.len()];
    let every = rows.channels.iter().flatten().flatten();
    every.for_each(|carried| gained[carried.window] += price(carried.row));
    let delays = rows.delays.iter().map(|delays| {
        let spans = delays.iter().map(|&(share, span)| span * solution.values[share as usize]);
        spans.sum::<f64>()
    });
    let paid = |spans: &mut dyn Iterator<Item = f64>| -> f64 {
        spans.zip(&gained).map(|(span, gained)| span * (1.0 - gained)).sum()
    };
    add(Resource::InPlace, paid(&mut delays.into_iter()));
    add(Resource::Compute, paid(&mut rows.computed.iter().copied()));
    all
}
