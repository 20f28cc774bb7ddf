//! Objects spread over every tier outside HBM at once: other devices' HBM, the host's memory,
//! drives.
//!
//! What saves most for its room stays in HBM ([`crate::zoo::residents`]). A rule that sends the
//! rest to the first tier with room leaves the links of all others idle; here they share it. Level
//! is, of choice, what each tier holds in bytes, or how long each link is busy with what crosses it
//! in one replay: an object loads all links of its route, so two tiers behind one link count as
//! one. The largest object goes first, to the tier where the fullest tier or busiest link grows
//! least; then each is asked again, as long as any moves. Of equal choices the one counts that leaves
//! all levels together (the sum of their squares) lower.
//! Sources: R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Applied Mathematics
//! 17, 1969, for the order; spreading over links that work at the same time: Rajbhandari et al.,
//! "ZeRO-Infinity", arXiv:2104.07857, section 6.1.
//! Invariant: no move of one object to another tier with room lowers the level.

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, policy_of};
use crate::visits::Moves;
use std::cmp::Reverse;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::ObjectKind;

/// Parameters of `sharded`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedConfig {
    /// What is level.
    pub by: Measure,
    /// The tiers over which objects are spread; equal ones in this order.
    pub spill: Vec<TierId>,
    /// Kinds that the rule is for; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
    /// HBM that what stays leaves free, for what is fetched ahead.
    pub arrivals: Bytes,
}

/// What is level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The bytes that each tier holds.
    Bytes,
    /// The time that each link, and each tier that is used in place, is busy in one replay.
    Time,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Sharded",
    about: "what does not stay in HBM, spread over all other tiers until bytes or times are level",
    parameters: &[
        Parameter::optional("by", Kind::Word(&["time", "bytes"])),
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
        Parameter::optional("arrivals", Kind::Size),
    ],
    make: |params| {
        let by = if params.word("by") == Some("bytes") { Measure::Bytes } else { Measure::Time };
        let (spill, kinds) = (params.tiers("spill"), params.kinds("kinds"));
        let (access, arrivals) = (params.access("access"), params.size("arrivals"));
        let arrivals = arrivals.unwrap_or(Bytes::ZERO);
        Ok(ShardedConfig { by, spill, kinds, access, arrivals }.into())
    },
};

impl Recipe for ShardedConfig {
    fn name(&self) -> &'static str {
        "sharded"
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        let by = match self.by {
            Measure::Bytes => "bytes",
            Measure::Time => "times",
        };
        match self.arrivals {
            Bytes::ZERO => format!("level {by}, {}", self.access),
            arrivals => format!("level {by}, {}, {} B for arrivals", self.access, arrivals.get()),
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let homes = self.homes(setting)?;
        Ok(policy_of((self.name(), homes), self.access, &self.spill, setting))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ShardedConfig { spill, ..self.clone() }.into())
    }
}

impl ShardedConfig {
    /// The home of every object, by object id.
    ///
    /// Errors in words if tiers are not joined.
    pub fn homes(&self, setting: &Setting<'_>) -> Result<Vec<TierId>, String> {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        residents.reserve(self.arrivals);
        let mut objects = residents.of_kinds(&self.kinds);
        objects.sort_by(|&a, &b| residents.denser(a, b));
        objects.retain(|&object| !residents.keep(object));
        let unjoined = |_| format!("{}: not all tiers are joined by links", setting.hardware.name);
        let routes = setting.hardware.routes().map_err(unjoined)?;
        let mut spread = Spread::new(self, setting.hardware, &routes, residents);
        spread.place(objects);
        Ok(spread.residents.homes())
    }
}

/// What an object puts on each of the things that are to be level.
type Loads = Vec<(usize, u128)>;

/// Objects being spread.
struct Spread<'a> {
    config: &'a ShardedConfig,
    hardware: &'a Hardware,
    routes: &'a Routes,
    residents: Residents<'a>,
    /// The tiers to spread over.
    tiers: Vec<TierId>,
    /// By channel of the machine, its tiers behind its links: bytes or picoseconds.
    levels: Vec<u128>,
}

/// How often objects are asked again. Every round ends lower than the one before, so few are
/// needed; the number is there so that none can take long.
const ROUNDS: u32 = 16;

impl<'a> Spread<'a> {
    fn new(
        config: &'a ShardedConfig,
        hardware: &'a Hardware,
        routes: &'a Routes,
        residents: Residents<'a>,
    ) -> Spread<'a> {
        let mut tiers = config.spill.clone();
        tiers.retain(|&tier| tier != HBM);
        let levels = vec![0; 2 * hardware.links.len() + hardware.tiers.len()];
        Spread { config, hardware, routes, residents, tiers, levels }
    }

    /// What an object loads from a tier.
    fn loads(&self, object: ObjectId, tier: TierId) -> Loads {
        let bytes = self.residents.bytes(object);
        let own = 2 * self.hardware.links.len() + tier.index();
        if self.config.by == Measure::Bytes {
            return vec![(own, u128::from(bytes.get()))];
        }
        let Moves { fetches, write_backs } =
            self.residents.visits.accesses(object, self.config.access);
        let times = |count: u64, span: Span| u128::from(count) * u128::from(span.ps());
        let mut loads = Loads::new();
        for (count, from, to) in [(fetches, tier, HBM), (write_backs, HBM, tier)] {
            let channels = self.routes.between(from, to).iter();
            loads.extend(channels.map(|channel| {
                (channel.index(), times(count, self.hardware.channel_law(*channel).span_of(bytes)))
            }));
        }
        if let Access::InPlace(_) = self.config.access {
            let access = self.hardware.tiers[tier.index()].access.span_of(bytes);
            loads.push((own, times(fetches + write_backs, access)));
        }
        loads
    }

    /// The highest level, and the sum of the squares of all, once these loads are on top.
    fn with(&self, loads: &Loads) -> (u128, u128) {
        let mut levels = self.levels.clone();
        loads.iter().for_each(|&(at, load)| levels[at] += load);
        let squares = levels.iter().map(|level| level.saturating_mul(*level));
        let sum = squares.fold(0, u128::saturating_add);
        (levels.into_iter().max().unwrap_or(0), sum)
    }

    /// Puts an object where the level rises least, where it was if that is as good; `None` where
    /// no tier has room.
    fn put(&mut self, object: ObjectId, was: Option<TierId>) -> Option<TierId> {
        let mut ranked: Vec<((u128, u128), TierId)> =
            self.tiers.iter().map(|&tier| (self.with(&self.loads(object, tier)), tier)).collect();
        // Equal ones stay in the order of `spill`.
        ranked.sort_by_key(|&(level, tier)| (level, Some(tier) != was));
        let found = ranked.into_iter().find(|&(_, tier)| self.residents.put(object, tier));
        let (_, tier) = found?;
        for (at, load) in self.loads(object, tier) {
            self.levels[at] += load;
        }
        Some(tier)
    }

    fn take(&mut self, object: ObjectId, tier: TierId) {
        self.residents.take(object, tier);
        for (at, load) in self.loads(object, tier) {
            self.levels[at] -= load;
        }
    }

    fn place(&mut self, mut objects: Vec<ObjectId>) {
        // What is least of it on the thing that it loads most.
        let size = |object: ObjectId| {
            let of = |&tier: &TierId| self.loads(object, tier).iter().map(|&(_, load)| load).max();
            self.tiers.iter().filter_map(of).min().unwrap_or(0)
        };
        objects.sort_by_cached_key(|&object| (Reverse(size(object)), object));
        let mut placed: Vec<(ObjectId, TierId)> = Vec::new();
        for object in objects {
            match self.put(object, None) {
                Some(tier) => placed.push((object, tier)),
                None => self.residents.send(object),
            }
        }
        for _ in 0..ROUNDS {
            let mut moved = false;
            for (object, tier) in &mut placed {
                self.take(*object, *tier);
                let now = self.put(*object, Some(*tier)).expect("it fits where it was");
                moved |= std::mem::replace(tier, now) != now;
            }
            if !moved {
                break;
            }
        }
    }
}
