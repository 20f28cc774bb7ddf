//! In which format which tier of a case stores which object.
//!
//! This is part of a case's memory: ledger, machine, auditor, bound and reports all read it.

use crate::compression::choice::{Choice, PLAIN, paying, taken};
use crate::compression::format::{Format, Packer, RATIO_UNIT};
use crate::compression::way::{Place, Stage, places, stages};
use crate::hardware::{Hardware, Law, MAX_TIERS};
use crate::ids::{ObjectId, TierId};
use crate::routes::Routes;
use crate::units::{Bytes, Span};
use crate::workload::Object;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// In which format which tier of a case stores which object.
#[derive(Clone, Debug, PartialEq)]
pub struct Storing {
    formats: Arc<[Format]>,
    /// By format: how long it takes to unpack and to pack is told by these laws.
    laws: Arc<[[Law; 2]]>,
    /// By format.
    places: Arc<[Place]>,
    /// By object, then by tier: its format, or none.
    of: Arc<[[u8; MAX_TIERS]]>,
    /// By object: its own bytes.
    wholes: Arc<[Bytes]>,
}

/// What a tier stores in a format of the objects of a workload, were all of them there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// The format's name.
    pub format: String,
    /// The tier.
    pub tier: TierId,
    /// How many objects it stores so.
    pub objects: u64,
    /// Their bytes.
    pub raw: u128,
    /// What they are stored in.
    pub stored: u128,
}

impl Storing {
    /// Which tier stores which of `objects` in which of the chosen formats: all that these take, or
    /// those for which it pays. `None` if no format is chosen. `written` says whether an op writes
    /// the object.
    ///
    /// # Panics
    /// If a format has no place to work in: see [`super::problem`].
    pub fn new<'o>(
        choice: &Choice,
        (hardware, routes): (&Hardware, &Routes),
        objects: impl Iterator<Item = &'o Object> + Clone,
        written: impl Fn(ObjectId) -> bool,
    ) -> Option<Storing> {
        if choice.is_none() {
            return None;
        }
        let formats: Arc<[Format]> = choice.formats.clone().into();
        let place = |format| places(format, hardware, routes).expect("the scenario was checked");
        let places: Arc<[Place]> = formats.iter().map(place).collect();
        let law = |format: &Format| format.channels.map(|channel| hardware.channel_law(channel));
        let of = |(index, object): (usize, &Object)| match choice.only_if_it_pays {
            true => {
                let used = (object, written(ObjectId::at(index)));
                paying((&formats, &places), used, (hardware, routes))
            }
            false => taken(&formats, object),
        };
        let wholes = objects.clone().map(|object| object.bytes).collect();
        let of = objects.enumerate().map(of).collect();
        Some(Storing { laws: formats.iter().map(law).collect(), of, wholes, formats, places })
    }

    /// The format in which a tier stores an object; `None` if it stores it as it is.
    #[inline]
    pub fn format(&self, object: ObjectId, tier: TierId) -> Option<&Format> {
        self.formats.get(self.index(object, tier))
    }

    fn index(&self, object: ObjectId, tier: TierId) -> usize {
        usize::from(self.of[object.index()][tier.index()])
    }

    /// What so many bytes of an object take in a tier.
    #[inline]
    pub fn stored(&self, object: ObjectId, tier: TierId, bytes: Bytes) -> Bytes {
        self.format(object, tier).map_or(bytes, |format| format.stored(bytes))
    }

    /// The object's own bytes.
    pub fn whole(&self, object: ObjectId) -> Bytes {
        self.wholes[object.index()]
    }

    /// The way of so many bytes of an object from one tier to another, if one of them stores it
    /// packed.
    pub fn way<'a>(
        &'a self,
        object: ObjectId,
        routes: &'a Routes,
        (from, to): (TierId, TierId),
        bytes: Bytes,
    ) -> Option<Vec<Stage<'a>>> {
        let format = |tier| {
            let index = self.index(object, tier);
            self.formats.get(index).map(|format| (format, &self.places[index]))
        };
        let formats = [format(from), format(to)];
        let packed = formats.iter().any(Option::is_some);
        packed.then(|| stages(formats, routes, (from, to), bytes))
    }

    /// How long it takes to unpack what is read and to pack what is written, with nobody in the
    /// way, where an op uses an object in a tier that stores it packed.
    pub fn used_there(
        &self,
        (object, tier): (ObjectId, TierId),
        [read, written]: [Bytes; 2],
    ) -> Span {
        let Some([unpacks, packs]) = self.laws.get(self.index(object, tier)) else {
            return Span::ZERO;
        };
        let pays = [(unpacks, read), (packs, written)];
        let pays = pays.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
        pays.map(|(law, bytes)| law.span_of(bytes)).sum()
    }

    /// What each tier stores in each format, of all objects that it would store so; those that
    /// store none left out.
    pub fn packed(&self) -> Vec<Packed> {
        let mut all = Vec::new();
        for (index, format) in self.formats.iter().enumerate() {
            for &tier in &format.tiers {
                let own = self.of.iter().zip(self.wholes.iter());
                let own = own.filter(|(of, _)| usize::from(of[tier.index()]) == index);
                let sum = (0u64, 0u128, 0u128);
                let (objects, raw, stored) = own.fold(sum, |(objects, raw, stored), (_, bytes)| {
                    let packed = u128::from(format.stored(*bytes).get());
                    (objects + 1, raw + u128::from(bytes.get()), stored + packed)
                });
                if objects > 0 {
                    let format = format.name.clone();
                    all.push(Packed { format, tier, objects, raw, stored });
                }
            }
        }
        all
    }

    /// The largest ratio, in parts of [`RATIO_UNIT`], at which an object may cross the border
    /// around some tiers or lie in one of them: a bound may count so many bytes less.
    pub fn most_ratio(&self, object: ObjectId, inside: &[TierId]) -> u64 {
        let tiers = (0..MAX_TIERS).map(TierId::at);
        let ratios = tiers.filter_map(|tier| {
            let format = self.format(object, tier)?;
            let place = &self.places[self.index(object, tier)];
            let is_inside = |tier: &TierId| inside.contains(tier);
            // What the processors work on is packed only between the tier and the host's memory.
            let crosses = match format.by {
                Packer::Device => true,
                Packer::Cpu => place.spreads(tier, &format.tiers, is_inside),
            };
            (crosses || is_inside(&tier)).then_some(format.ratio)
        });
        ratios.max().unwrap_or(RATIO_UNIT)
    }
}

// Without a format nothing is packed.
const _: () = assert!(PLAIN as usize > super::format::MAX_FORMATS);
