//! Which formats a case uses, and for which objects that pays.
//!
//! A format pays for an object in a tier if bringing it to HBM, and, where an op writes it, back
//! again, takes less time than without it, with nobody in the way. The device's formats are in all
//! their tiers or in none, so these count together. Room that it saves is no reason by itself: a
//! case that needs the room names its formats.

use crate::compression::format::{Format, Packer};
use crate::compression::way::{Place, alone, stages};
use crate::hardware::{HBM, Hardware, MAX_TIERS};
use crate::ids::TierId;
use crate::routes::Routes;
use crate::workload::Object;

/// In the place of a format's number: as it is.
pub(super) const PLAIN: u8 = u8::MAX;

/// What a case says of formats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Those that it uses, or may use; none by default.
    pub formats: Vec<Format>,
    /// Only for objects for which a format pays, and then the one that saves the most.
    pub only_if_it_pays: bool,
}

impl Choice {
    /// Whether nothing is packed.
    pub fn is_none(&self) -> bool {
        self.formats.is_empty()
    }

    /// The places in the list of two of its formats that take the same objects in the same tier, if
    /// any do.
    pub fn overlap(&self) -> Option<[usize; 2]> {
        let all = || self.formats.iter().enumerate();
        let mut pairs = all().flat_map(|one| all().take(one.0).map(move |other| (other, one)));
        pairs
            .find(|((_, other), (_, one))| one.overlaps(other))
            .map(|((first, _), (second, _))| [first, second])
    }
}

/// The format of an object by tier, where all formats are used that take it.
pub(super) fn taken(formats: &[Format], object: &Object) -> [u8; MAX_TIERS] {
    let mut of = [PLAIN; MAX_TIERS];
    for (index, format) in formats.iter().enumerate().filter(|(_, format)| format.takes(object)) {
        format.tiers.iter().for_each(|tier| of[tier.index()] = index as u8);
    }
    of
}

/// The formats that pay for an object, by tier. `written` says whether an op writes it.
pub(super) fn paying(
    (formats, places): (&[Format], &[Place]),
    (object, written): (&Object, bool),
    on: (&Hardware, &Routes),
) -> [u8; MAX_TIERS] {
    // By format and tiers: how much it saves.
    let mut offers: Vec<(i128, usize, Vec<TierId>)> = Vec::new();
    let own = formats.iter().zip(places).enumerate().filter(|(_, (f, _))| f.takes(object));
    for (index, format) in own {
        let saves = |&tier: &TierId| saves(format, tier, (object, written), on);
        let tiers = &format.0.tiers;
        match format.0.by {
            Packer::Device => offers.push((tiers.iter().map(saves).sum(), index, tiers.clone())),
            Packer::Cpu => offers.extend(tiers.iter().map(|t| (saves(t), index, vec![*t]))),
        }
    }
    offers.sort_by_key(|&(saves, index, _)| (std::cmp::Reverse(saves), index));
    let mut of = [PLAIN; MAX_TIERS];
    for (_, index, tiers) in offers.into_iter().filter(|&(saves, ..)| saves > 0) {
        if tiers.iter().all(|tier| of[tier.index()] == PLAIN) {
            tiers.iter().for_each(|tier| of[tier.index()] = index as u8);
        }
    }
    of
}

/// Picoseconds that one visit of HBM from a tier takes less with a format; below zero if it takes
/// longer.
fn saves(
    format: (&Format, &Place),
    tier: TierId,
    (object, written): (&Object, bool),
    (hardware, routes): (&Hardware, &Routes),
) -> i128 {
    let time = |ends: (TierId, TierId), formats| {
        i128::from(alone(&stages(formats, routes, ends, object.bytes), hardware).ps())
    };
    let fetch = time((tier, HBM), [None, None]) - time((tier, HBM), [Some(format), None]);
    let back = time((HBM, tier), [None, None]) - time((HBM, tier), [None, Some(format)]);
    fetch + if written { back } else { 0 }
}
