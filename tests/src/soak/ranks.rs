//! Random servers: what devices share, where they meet, how many of them run, and what they do
//! together.
//!
//! Invariant: what is drawn obeys the rules of hardware files and of traces, and is drawn last, so
//! that a world without it is the world that it was.

use super::dice::Dice;
use crate::prelude::*;
use tiersim_models::hardware::Channel;

/// Makes the machine one of several devices, perhaps; how many of them run.
pub(super) fn server(dice: &mut Dice, hardware: &mut Hardware, trace: &mut Trace) -> u32 {
    if !dice.chance(40) {
        return 1;
    }
    let devices = dice.pick(&[2, 3, 4, 6, 8, 8]);
    hardware.server.devices = devices;
    hardware.server.within = meeting(dice, hardware, None);
    if dice.chance(50) {
        hardware.server.between = meeting(dice, hardware, hardware.server.within);
    }
    shared(dice, hardware, devices);
    collectives(dice, hardware, trace);
    // Memory that several have a part of is drawn as the part of each.
    dice.within(1..=devices.into()) as u32
}

/// Somewhere that only shared links lead to, and no memory lies before.
fn meeting(dice: &mut Dice, hardware: &mut Hardware, other: Option<NodeId>) -> Option<NodeId> {
    let tiers = hardware.tiers.len();
    let node = match (dice.chance(50), hardware.nodes.len()) {
        (true, nodes @ 1..) => NodeId::at(tiers + dice.below(nodes)),
        _ => {
            let node = NodeId::at(tiers + hardware.nodes.len());
            let (name, kind) = (format!("m{}", node.index()), NodeKind::NvlinkSwitch);
            // Behind the device, or behind something that copies pass.
            let near = match hardware.nodes.len() {
                nodes @ 1.. if dice.chance(50) => NodeId::at(tiers + dice.below(nodes)),
                _ => HBM.into(),
            };
            hardware.nodes.push(Node { name: name.clone(), kind });
            let rate = dice.rate(1_000_000_000..=1_000_000_000_000);
            let law = Law { setup: dice.span(5_000_000), rate };
            hardware.links.push(Link::new(name, (near, node), [law; 2]));
            node
        }
    };
    let way = hardware.way_out(node).filter(|_| Some(node) != other)?;
    let passes = |channel: &Channel| {
        let (_, to) = hardware.channel_ends(*channel);
        to != node && hardware.tier_of(to).is_some()
    };
    if way.iter().any(passes) {
        return None;
    }
    for channel in way {
        let link = &mut hardware.links[channel.link.index()];
        if link.service.as_ref().is_none_or(|service| service.discipline == Discipline::Fifo) {
            let faster = link.read.rate.max(link.write.rate).get();
            let slower = link.read.rate.min(link.write.rate).get();
            let total = dice.chance(30).then(|| Bandwidth::new(faster + slower / 2)).flatten();
            let discipline = Discipline::FairShare;
            link.service = Some(Service { discipline, total, ..Service::default() });
        }
    }
    Some(node)
}

/// Some of the memory and of the links.
fn shared(dice: &mut Dice, hardware: &mut Hardware, devices: u32) {
    let divisors = |of: u32| (1..=of).filter(|by| of.is_multiple_of(*by)).collect::<Vec<u32>>();
    for tier in hardware.tier_ids().skip(1) {
        let by = dice.pick(&divisors(devices));
        hardware.server.tiers.extend((by > 1).then_some((tier, by)));
    }
    for (index, link) in hardware.links.iter().enumerate() {
        let ends = [link.near, link.far].into_iter().filter_map(|end| hardware.tier_of(end));
        let ends: Vec<u32> = ends
            .filter(|&tier| tier != HBM)
            .map(|tier| hardware.server.sharers_of_tier(tier))
            .collect();
        let allowed: Vec<u32> = divisors(devices)
            .into_iter()
            .filter(|&by| ends.iter().all(|end| end.is_multiple_of(by)))
            .collect();
        let by = if dice.chance(50) { dice.pick(&allowed) } else { 1 };
        hardware.server.links.extend((by > 1).then_some((LinkId::at(index), by)));
    }
}

/// Some ops become collectives, as far as the machine has ways for them.
fn collectives(dice: &mut Dice, hardware: &Hardware, trace: &mut Trace) {
    let [within, between] = hardware.meetings();
    let often = dice.pick(&[0, 10, 40, 100]);
    for op in &mut trace.ops {
        if !dice.chance(often) {
            continue;
        }
        let most = if within.is_some() { u64::from(hardware.server.devices) } else { 1 };
        let ranks = dice.within(1..=most) as u32;
        let servers = if between.is_some() { dice.log(1..=64) as u32 } else { 1 };
        let kind = dice.pick(&CollectiveKind::ALL);
        let bytes = Bytes::new(dice.log(1..=1 << 30));
        op.unit = Unit::Network(Collective { kind, bytes, within: ranks, servers, times: 1 });
    }
}
