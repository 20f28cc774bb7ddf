//! Random hidden memory, nodes of host memory and memory pressure, and what must hold of a tier
//! that is watched.
//!
//! Invariant: what is drawn obeys the rules of scenarios; thresholds rise, and a target can be
//! left.

use super::dice::Dice;
use super::drives::staging;
use super::plan::kinds;
use crate::prelude::*;
use tiersim_models::hidden::{Hidden, What, of_tier, over};
use tiersim_models::routes::Routes;
use tiersim_policies::buffers::of_machine;
use tiersim_policies::numa::{NumaConfig, Pin, Placement};
use tiersim_policies::pressure::{
    HYSTERESIS, Level, MILLION, PressureConfig, PressureEvent, Response, Thresholds,
    What as Happened,
};

/// What hides memory, but for what follows from routes.
const KINDS: [What; 7] = [
    What::Context,
    What::Driver,
    What::Workspace,
    What::Communication,
    What::Pinned,
    What::Staging,
    What::Bounce,
];

/// Draws what a machine's file says of hidden memory, and returns all there is.
pub(super) fn hidden(dice: &mut Dice, hardware: &mut Hardware, routes: &Routes) -> Vec<Hidden> {
    let staged = staging(dice, hardware);
    let mut said: Vec<Hidden> = Vec::new();
    for _ in 0..if dice.chance(20) { dice.within(1..=4) } else { 0 } {
        let (tier, what) = (TierId::at(dice.below(hardware.tiers.len())), dice.pick(&KINDS));
        let bytes = Bytes::new(if dice.chance(10) { 0 } else { dice.log(1..=64 << 20) });
        if said.iter().all(|entry| (entry.tier, entry.what) != (tier, what)) {
            said.push(Hidden { tier, what, bytes });
        }
    }
    hardware.hidden = over(&staged, &said);
    of_machine(hardware, routes)
}

/// Hidden memory of a machine that was finished after its capacities were drawn: routes and laws of
/// links that came later may need other buffers. Objects have what they had.
pub(super) fn of_finished(hardware: &mut Hardware, before: &[Hidden]) -> Vec<Hidden> {
    let routes = hardware.routes().expect("every drawn machine is joined");
    let hidden = of_machine(hardware, &routes);
    for (index, tier) in hardware.tiers.iter_mut().enumerate() {
        let of = |hidden: &[Hidden]| of_tier(hidden, TierId::at(index)).get();
        tier.capacity = tier.capacity.map(|all| (all - of(before)).saturating_add(of(&hidden)));
    }
    hidden
}

/// On which nodes of host memory objects go, if there are any.
pub(super) fn numa(dice: &mut Dice, hardware: &Hardware) -> NumaConfig {
    let is_dram = |tier: &TierId| hardware.tiers[tier.index()].kind == TierKind::Dram;
    let nodes: Vec<TierId> = hardware.tier_ids().filter(is_dram).collect();
    if nodes.is_empty() || !dice.chance(40) {
        return NumaConfig::default();
    }
    let first = dice.pick(&nodes);
    let routes = [Placement::NearGpu, Placement::Interleave, Placement::FirstTouch(first)];
    let placement = dice.chance(75).then(|| dice.pick(&routes));
    let pin = |dice: &mut Dice| Pin {
        kinds: kinds(dice),
        // Every trace has the first module.
        module: dice.chance(30).then(|| "m0".to_owned()),
        node: dice.pick(&nodes),
    };
    let pins = (0..dice.pick(&[0, 0, 1, 2])).map(|_| pin(dice)).collect();
    NumaConfig { placement, pins }
}

/// A watched tier, mostly HBM.
/// How often its cache is cleared is drawn elsewhere.
pub(super) fn pressure(dice: &mut Dice, clears: &mut Dice, tiers: usize) -> Option<PressureConfig> {
    if !dice.chance(25) {
        return None;
    }
    let tier = if dice.chance(80) { HBM } else { TierId::at(dice.below(tiers)) };
    let thresholds = match dice.below(6) {
        0 => Thresholds::AGGRESSIVE,
        1 => Thresholds::BALANCED,
        2 => Thresholds::CONSERVATIVE,
        _ => thresholds(dice),
    };
    let target = thresholds.0[0];
    let usual = HYSTERESIS.min(target / 2);
    let hysteresis =
        if dice.chance(50) { usual } else { dice.within(0..=u64::from(target - 1)) as u32 };
    let mut spill: Vec<TierId> = (0..tiers).map(TierId::at).filter(|&id| id != tier).collect();
    if dice.chance(50) {
        dice.shuffle(&mut spill);
        spill.truncate(dice.below(spill.len() + 1));
    }
    let responses = [(); 4].map(|()| responses(dice));
    Some(PressureConfig {
        tier,
        thresholds,
        hysteresis,
        responses,
        spill,
        micro_batch: None,
        clear_cache_frequency: clears.pick(&[None, None, NonZeroU32::new(1), NonZeroU32::new(3)]),
    })
}

fn thresholds(dice: &mut Dice) -> Thresholds {
    let mut millionths = [(); 4].map(|()| dice.within(1..=u64::from(MILLION) - 3) as u32);
    millionths.sort_unstable();
    for (above, place) in millionths.iter_mut().enumerate() {
        *place += above as u32;
    }
    Thresholds(millionths)
}

fn responses(dice: &mut Dice) -> Vec<Response> {
    let mut all = vec![Response::Warn, Response::Clean, Response::Evict];
    dice.shuffle(&mut all);
    all.truncate(dice.below(4));
    all
}

/// What must hold of the log of a plan whose tier has room for `room` bytes of objects.
pub(super) fn pressure_rules(
    config: &PressureConfig,
    planner: &Planner<'_>,
    room: Bytes,
) -> Result<(), String> {
    let Some(log) = planner.pressure() else { return Err("nobody watches".to_owned()) };
    let mut level = Level::Normal;
    let mut before = 0;
    for event in &log.events {
        let told = |what: &str| Err(format!("pressure: {what}: {event:?}, room {room}"));
        if event.occurrence < before {
            return told("out of order");
        }
        before = event.occurrence;
        if event.used > room {
            return told("more than there is");
        }
        if event.from != level {
            return told("another level than the one before");
        }
        level = event.to;
        let changes = event.what == Happened::Level;
        if changes != (event.from != event.to) {
            return told("a level changes without a word, or the other way round");
        }
        if changes && !follows(config, event, room) && log.forced == 0 {
            return told("thresholds say another level");
        }
        if event.what == Happened::Evict && event.bytes == Bytes::ZERO {
            return told("nothing was evicted");
        }
    }
    let highest = log.events.iter().map(|event| event.to).max().unwrap_or_default();
    if log.left_out == 0 && highest != log.highest {
        return Err(format!("pressure: the highest level is {highest:?}, not {:?}", log.highest));
    }
    Ok(())
}

/// Whether bytes in use explain the level after an event, by the definition of a level alone.
fn follows(config: &PressureConfig, event: &PressureEvent, room: Bytes) -> bool {
    let reaches = |level: Level, less: u32| {
        let at = u128::from(config.thresholds.0[level as usize - 1] - less);
        u128::from(event.used.get()) * u128::from(MILLION) >= at * u128::from(room.get())
    };
    if event.to > event.from {
        let next = Level::ALL.into_iter().find(|&level| level > event.to);
        return reaches(event.to, 0) && next.is_none_or(|next| !reaches(next, 0));
    }
    let left = Level::ALL.into_iter().filter(|&level| level > event.to && level <= event.from);
    left.map(|level| reaches(level, config.hysteresis)).all(|stays| !stays)
        && (event.to == Level::Normal || reaches(event.to, config.hysteresis))
}
