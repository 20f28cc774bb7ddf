//! The set of residents that saves the most moved bytes, as a knapsack.
//!
//! Value of an object: the bytes that one replay moves if it only visits HBM. Its size counts in
//! every period of the trace in which it ever lies idle; a period's limit is what is free throughout
//! it when all ops have their objects and the kinds that the rule does not speak of have stayed. Up
//! to [`crate::packing::EXACT_ITEMS`] objects are chosen exactly, more by the rounded linear relaxation
//! ([`crate::packing`]). Objects that fit beside the choice, periods being coarser than ops, stay
//! too, by falling density.
//! Invariant: what stays leaves every op its room ([`Residents`]).

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::packing::{Packed, Packing, Period};
use crate::placed::Placed;
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, spill_through};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::workload::ObjectKind;

/// Parameters of `knapsack`.
#[derive(Clone, Debug, PartialEq)]
pub struct KnapsackConfig {
    /// In how many parts of as many ops the trace is cut, each with a limit of its own.
    pub periods: u32,
    /// Where objects live that do not stay: the first of these with room.
    pub spill: Vec<TierId>,
    /// Kinds that the rule is for; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Knapsack",
    about: "the residents of HBM that save the most moved bytes, as a knapsack",
    parameters: &[
        Parameter::optional("periods", Kind::Count { least: 1, most: 64 }),
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let periods = params.count("periods").unwrap_or(16) as u32;
        let (spill, kinds) = (params.tiers("spill"), params.kinds("kinds"));
        Ok(KnapsackConfig { periods, spill, kinds, access: params.access("access") }.into())
    },
};

impl Recipe for KnapsackConfig {
    fn name(&self) -> &'static str {
        "knapsack"
    }

    fn details(&self) -> String {
        let periods = match self.periods {
            1 => "1 period".to_owned(),
            periods => format!("{periods} periods"),
        };
        format!("{periods}, {}", self.access)
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let (homes, _) = self.homes(setting);
        let placed = Placed::of_objects(self.name(), &setting.workload.trace, homes, self.access);
        let spill = spill_through(&self.spill, setting.hardware);
        Ok(Box::new(placed.spilling(&spill).foreseen()))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(KnapsackConfig { spill, ..self.clone() }.into())
    }
}

impl KnapsackConfig {
    /// The home of every object, by object id, and what the knapsack said.
    pub fn homes(&self, setting: &Setting<'_>) -> (Vec<TierId>, Packed) {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        let mut objects = residents.of_kinds(&self.kinds);
        objects.sort_by(|&a, &b| residents.denser(a, b));
        let packed = self.packing(&residents, &objects).solve();
        let (chosen, others): (Vec<_>, Vec<_>) =
            objects.into_iter().enumerate().partition(|(index, _)| packed.chosen[*index]);
        let objects: Vec<ObjectId> =
            chosen.into_iter().chain(others).map(|(_, object)| object).collect();
        residents.place(&objects);
        (residents.homes(), packed)
    }

    /// The model: items are `objects`, in order.
    fn packing(&self, residents: &Residents<'_>, objects: &[ObjectId]) -> Packing {
        let ops = residents.visits.ops();
        let cuts = self.periods.clamp(1, ops.max(1));
        let cut = |index: u32| (u64::from(ops) * u64::from(index) / u64::from(cuts)) as u32;
        let mut periods = Vec::new();
        for index in 0..cuts {
            let span = cut(index)..cut(index + 1);
            let idles = |object: ObjectId| {
                let (life, uses) = (residents.visits.life(object), residents.visits.uses(object));
                let (start, end) = (life.start.max(span.start), life.end.min(span.end));
                let first = uses.partition_point(|(op, _)| *op < start);
                let used = uses[first..].iter().take_while(|(op, _)| *op < end).count();
                start < end && used < (end - start) as usize
            };
            let items = (0..objects.len()).filter(|&item| idles(objects[item])).collect();
            periods.push(Period { capacity: residents.free(span).get(), items });
        }
        Packing {
            values: objects.iter().map(|&object| residents.saved(object)).collect(),
            sizes: objects.iter().map(|&object| residents.bytes(object).get()).collect(),
            periods,
        }
    }
}
