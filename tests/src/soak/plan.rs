//! Random policies and allocators of every kind, and how much memory they get.

use super::dice::Dice;
use crate::chaos::Chaos;
use crate::prelude::*;
use tiersim_models::allocator::Model;
use tiersim_models::hidden::{Hidden, of_tier};
use tiersim_policies::entry::{Entry, Kind, Need, Parameter, Params, Value};
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::zoo::adam_state::Cut;

/// Most runs of a search.
const MOST_RUNS: u64 = 100;

/// A policy that scenarios can name, or one that does whatever is allowed.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// As a scenario would.
    Config(PolicyConfig),
    /// Everything that a policy may do, from this seed.
    Chaos(u64),
}

impl Chosen {
    /// The policy. Errors in words if the trace lacks what it needs.
    pub(super) fn build(
        &self,
        numa: &NumaConfig,
        setting: &Setting<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        let tiers = setting.hardware.tiers.len();
        let objects = setting.workload.trace.objects.len();
        match self {
            Chosen::Config(config) => numa.build(config, setting),
            Chosen::Chaos(seed) => {
                let chaos = Chaos::new(*seed, tiers, objects, seed % 3 > 0).everywhere();
                Ok(cpu_ops::around(Box::new(chaos), setting.workload, setting.hardware))
            }
        }
    }
}

/// Any policy that scenarios can name, with any parameters; or everything that is allowed.
pub(super) fn policy(dice: &mut Dice, trace: &Trace, hardware: &Hardware) -> Chosen {
    let chaos = dice.chance(25);
    let entry = dice.pick(zoo::ALL);
    let alone = hardware.tiers.len() == 1;
    if chaos
        || (alone
            && entry.parameters.iter().any(|p| matches!(p.kind, Kind::Spill | Kind::HostTiers)))
    {
        return Chosen::Chaos(dice.seed());
    }
    // Some parameters do not go together.
    let config = of_entry(dice, entry, trace, hardware);
    config.map_or_else(|| Chosen::Chaos(dice.seed()), Chosen::Config)
}

/// One policy with any parameters; `None` if these do not go together.
pub(super) fn of_entry(
    dice: &mut Dice,
    entry: &Entry,
    trace: &Trace,
    hardware: &Hardware,
) -> Option<PolicyConfig> {
    let mut params = Params::default();
    for Parameter { name, kind, need } in entry.parameters {
        let always = matches!(
            kind,
            Kind::Spill
                | Kind::HostTiers
                | Kind::MoreTiers
                | Kind::ThreeTiers
                | Kind::Kinds
                | Kind::Access
        );
        if always || *need == Need::Required || dice.chance(60) {
            let mut drawn = value(dice, *kind, trace, hardware);
            // Each run simulates the world once more.
            if let ("runs", Value::Count(runs)) = (*name, &mut drawn) {
                *runs = (*runs).min(MOST_RUNS);
            }
            params.0.insert(name, drawn);
        }
    }
    (entry.make)(&params).ok()
}

fn value(dice: &mut Dice, kind: Kind, trace: &Trace, hardware: &Hardware) -> Value {
    let tiers = hardware.tiers.len();
    match kind {
        Kind::Count { least, most } => {
            let small = most.min(least.saturating_add(64)) - least;
            let more = if dice.chance(90) { small } else { most - least };
            Value::Count(least + dice.within(0..=more))
        }
        Kind::Number { least, most } => {
            let most = if most.is_finite() { most } else { least + 1e3 };
            Value::Number(least + (most - least) * dice.below(11) as f64 / 10.0)
        }
        Kind::Flag => Value::Flag(dice.chance(50)),
        Kind::Size => Value::Size(Bytes::new(dice.log(1..=1 << 24))),
        Kind::Duration => Value::Duration(Span::from_ps(dice.log(1..=100_000_000))),
        Kind::Word(words) => Value::Word(dice.pick(words)),
        Kind::Tier => Value::Tier(TierId::at(dice.below(tiers))),
        Kind::Spill | Kind::HostTiers => {
            let mut spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
            dice.shuffle(&mut spill);
            spill.truncate(1 + dice.below(tiers - 1));
            Value::Tiers(spill)
        }
        Kind::MoreTiers => {
            let mut more: Vec<TierId> = (1..tiers).map(TierId::at).collect();
            dice.shuffle(&mut more);
            more.truncate(dice.below(tiers));
            Value::Tiers(more)
        }
        Kind::ThreeTiers => Value::Tiers((0..3).map(|_| TierId::at(dice.below(tiers))).collect()),
        Kind::Kinds => Value::Kinds(kinds(dice)),
        Kind::Access => Value::Access(access(dice)),
        Kind::Cut => Value::Cut(cut(dice)),
        Kind::Steps => Value::Steps(1 + dice.below(4) as u32),
        Kind::Hints => {
            let mut hints = BTreeMap::new();
            for name in &trace.modules {
                if dice.chance(70) {
                    hints.insert(name.to_string(), dice.pick(&hardware.tiers).kind);
                }
            }
            Value::Hints(hints)
        }
        Kind::Weights(names) => {
            let mut weights = BTreeMap::new();
            for name in names {
                if dice.chance(50) {
                    weights.insert(*name, dice.below(41) as f64 / 10.0 - 2.0);
                }
            }
            Value::Weights(weights)
        }
    }
}

fn cut(dice: &mut Dice) -> Cut {
    let first = dice.below(11) as f64 / 10.0;
    let second = dice.below(11) as f64 / 10.0;
    match dice.chance(50) {
        true => Cut::Cumulative { hbm: first.min(second), cpu: first.max(second) },
        false => Cut::Shares { hbm: first, cpu: second * (1.0 - first) },
    }
}

pub(super) fn kinds(dice: &mut Dice) -> Vec<ObjectKind> {
    let mut kinds = ObjectKind::ALL.to_vec();
    kinds.retain(|_| dice.chance(60));
    if kinds.is_empty() {
        kinds.push(ObjectKind::Weight);
    }
    kinds.sort();
    kinds
}

fn access(dice: &mut Dice) -> Access {
    match dice.below(6) {
        0 => Access::InPlace(Charge::ModuleOutput),
        1 => Access::InPlace(Charge::ModuleWeights),
        2 => Access::InPlace(Charge::EveryUse),
        3 => Access::Migrate { prefetch_ops: 0 },
        _ => Access::Migrate { prefetch_ops: dice.log(1..=64) as u32 },
    }
}

/// The allocator of each tier; empty if all are exact.
pub(super) fn allocators(dice: &mut Dice, tiers: usize) -> Vec<AllocatorSpec> {
    if dice.chance(55) {
        return Vec::new();
    }
    let one = |tier| match tier == 0 || dice.chance(30) {
        true => allocator(dice),
        false => AllocatorSpec::default(),
    };
    (0..tiers).map(one).collect()
}

fn allocator(dice: &mut Dice) -> AllocatorSpec {
    let model = match dice.below(5) {
        0 => Model::Exact,
        1 => Model::Pool,
        2 => Model::Buckets(BucketsConfig { adaptive: dice.chance(50) }),
        3 => {
            let least = Bytes::new(1 << dice.below(21));
            let fixed = BuddyConfig::default();
            Model::Buddy(if dice.chance(50) { BuddyConfig { least } } else { fixed })
        }
        _ => Model::Caching(CachingConfig {
            expandable_segments: dice.chance(40),
            max_split: dice.chance(30).then(|| dice.bytes((20 << 20) + 1..=1 << 30)),
            roundup_power2_divisions: dice.pick(&[0, 0, 0, 1, 2, 4, 8, 16]),
            garbage_collection_threshold: dice.pick(&[0.0, 0.0, 0.2, 0.5, 0.8]),
            ..CachingConfig::default()
        }),
    };
    let at_once = if dice.chance(50) { None } else { Some(dice.bytes(1..=64 << 20)) };
    let above = dice.pick(&[0.0, 0.1, 0.3, 0.5, 1.0]);
    // Of what was drawn anyway: another draw would make other worlds of the seeds that tests name.
    let total = at_once.map_or(above > 0.2, |bytes: Bytes| bytes.get() % 2 == 1);
    let by = if total { Fragmentation::Total } else { Fragmentation::External };
    let compaction =
        (model.moves() && dice.chance(60)).then_some(Compaction { above, by, at_once });
    AllocatorSpec { model, compaction }
}

/// Gives every tier room: HBM from what one op needs up, the others mostly plenty. `all` objects'
/// bytes, `most` of one op; what is `hidden` is no room.
pub(super) fn capacities(
    dice: &mut Dice,
    (all, most): (Bytes, Bytes),
    allocators: &[AllocatorSpec],
    hidden: &[Hidden],
    hardware: &mut Hardware,
) {
    let (all, most) = (all.get(), most.get().max(1));
    for (index, tier) in hardware.tiers.iter_mut().enumerate() {
        let near = index == HBM.index();
        let room = match dice.below(100) {
            0..3 => dice.within(1..=most),
            3..8 => most,
            8..70 if near => dice.within(most..=all.max(most)),
            8..20 => dice.within(1..=all.max(1) + all / 2),
            _ => u64::MAX, // no limit
        };
        // What is rounded up, and lies in pieces, needs more room than its bytes.
        let exact = allocators.get(index).is_none_or(AllocatorSpec::is_exact);
        let more = if exact { 0 } else { dice.log(1..=64 << 20).max(most / 2) };
        let hidden = of_tier(hidden, TierId::at(index)).get();
        tier.capacity = match room.saturating_add(more).saturating_add(hidden) {
            u64::MAX => Capacity::Unlimited,
            bytes => Bytes::new(bytes).into(),
        };
    }
}
