//! Random machines: tiers and nodes in every shape, links with every law and service.
//!
//! Invariant: what is drawn obeys the rules of hardware files, so a failure is never the draw's.

use super::dice::Dice;
use super::drives::drives_and_others;
use crate::prelude::*;
use tiersim_models::hardware::{Compute, Tier};
use tiersim_models::nodes::PrescribedRoute;
use tiersim_models::service::{Cache, Tail};

/// Rates of links and memories, in bytes per second.
const SLOWEST: u64 = 50_000_000;
const FASTEST: u64 = 20_000_000_000_000;
/// Longest set-up, in picoseconds: 20 us.
const SETUP: u64 = 20_000_000;
/// A copy goes in at most so many pieces, so that no world takes long.
const PIECES: u64 = 48;

/// The machine of a seed; its tiers are unlimited so far.
pub(super) fn machine(seed: u64, largest: Bytes) -> Hardware {
    let dice = &mut Dice::new(seed, 1);
    let tiers = match dice.below(100) {
        0..3 => 1,
        3..80 => dice.within(2..=4) as usize,
        _ => dice.within(5..=8) as usize,
    };
    let nodes = if dice.chance(35) { dice.within(1..=4) as usize } else { 0 };
    let tiers: Vec<Tier> = (0..tiers).map(|index| tier(dice, index)).collect();
    let node = |index| Node { name: format!("n{index}"), kind: dice.pick(&NodeKind::ALL) };
    let nodes: Vec<Node> = (0..nodes).map(node).collect();
    let links = links(dice, tiers.len(), nodes.len());
    let least = (largest.get() / PIECES).max(1);
    let mut hardware = Hardware {
        name: "random".to_owned(),
        about: String::new().into(),
        tiers: tiers.into(),
        nodes,
        links: links.into(),
        routes: Vec::new(),
        compute: Some(compute(dice).into()),
        chunk: Bytes::new(dice.log(least..=least.saturating_mul(200))),
        hidden: Vec::new(),
        facts: Default::default(),
        economics: Default::default(),
        server: Default::default(),
        cpu: None,
        pressure: None,
    };
    drives_and_others(&mut Dice::new(seed, 4), &mut hardware);
    // Last: which routes there are depends on rates.
    prescribe(dice, &mut hardware);
    hardware
}

/// Some machines have processors that some ops run on, where there is memory of the host.
pub(super) fn processors(dice: &mut Dice, hardware: &mut Hardware, trace: &mut Trace) {
    if cpu_ops::host_tiers(hardware).is_empty() || !dice.chance(25) {
        return;
    }
    hardware.cpu = Some(Cpu {
        name: "host".to_owned(),
        flops: dice.rate(SLOWEST..=FASTEST),
        memory: dice.rate(SLOWEST..=FASTEST),
        launch: dice.span(SETUP),
    });
    let share = dice.pick(&[5, 30, 100]);
    for op in &mut trace.ops {
        op.unit = if dice.chance(share) { Unit::Cpu } else { Unit::Device };
    }
}

/// Some tiers take few requests at once, and some uses are of a part of an object.
pub(super) fn requests(dice: &mut Dice, hardware: &mut Hardware, trace: &mut Trace) {
    for tier in &mut hardware.tiers {
        let granule = dice.chance(15).then(|| Bytes::new(dice.log(1..=65536)));
        let depth = dice.chance(15).then(|| NonZeroU32::new(dice.log(1..=4096) as u32)).flatten();
        tier.requests = DeviceRequests { granule, depth };
    }
    if !dice.chance(30) {
        return;
    }
    for used in trace.uses.iter_mut().filter(|used| used.mode != Mode::Write) {
        let whole = trace.objects[used.object.index()].bytes;
        if dice.chance(30) {
            let piece = dice.log(1..=whole.get());
            let pieces = dice.log(1..=(whole.get() / piece).min(1 << 20));
            used.part = PartialUse::of(pieces.into(), piece.into(), whole);
        }
    }
}

fn law(dice: &mut Dice) -> Law {
    Law { setup: dice.span(SETUP), rate: dice.rate(SLOWEST..=FASTEST) }
}

fn tier(dice: &mut Dice, index: usize) -> Tier {
    let others = [TierKind::Dram, TierKind::Cxl, TierKind::Nvme, TierKind::Remote];
    let kind = if index == 0 { TierKind::Hbm } else { dice.pick(&others) };
    let access = law(dice);
    let loaded = dice.chance(15).then(|| loaded(dice));
    let (name, requests) = (format!("t{index}"), DeviceRequests::default());
    Tier { name, kind, capacity: Capacity::Unlimited, access, loaded, requests }
}

fn loaded(dice: &mut Dice) -> Loaded {
    let mut shares: Vec<u8> = (0..dice.within(1..=3)).map(|_| dice.within(0..=100) as u8).collect();
    shares.sort_unstable();
    shares.dedup();
    let curve = |reads| {
        let mut rates: Vec<Bandwidth> =
            (0..dice.within(1..=5)).map(|_| dice.rate(SLOWEST..=FASTEST)).collect();
        rates.sort_unstable();
        rates.dedup();
        let mut latency = dice.within(1..=500_000);
        let points = rates.into_iter().map(|rate| {
            latency += dice.within(0..=500_000);
            (rate, Span::from_ps(latency))
        });
        Curve { reads, points: points.collect() }
    };
    Loaded { curves: shares.into_iter().map(curve).collect() }
}

fn compute(dice: &mut Dice) -> Compute {
    Compute {
        op_times: None,
        attention: None,
        name: "device".to_owned(),
        flops: vec![("fp32".to_owned(), dice.rate(1_000_000_000_000..=1_000_000_000_000_000))],
        memory: dice.rate(100_000_000_000..=FASTEST),
        launch: dice.span(5_000_000),
        efficiency: Default::default(),
    }
}

/// A chain, a star or a tree over all nodes, the device first; in a mesh more links on top, some
/// of them beside others.
fn links(dice: &mut Dice, tiers: usize, nodes: usize) -> Vec<Link> {
    let mut order: Vec<usize> = (1..tiers + nodes).collect();
    dice.shuffle(&mut order);
    order.insert(0, 0);
    let shape = dice.below(4);
    let mut ends = Vec::new();
    for place in 1..order.len() {
        let parent = match shape {
            0 => place - 1,
            1 => 0,
            _ => dice.below(place),
        };
        ends.push((order[parent], order[place]));
    }
    if shape == 3 && order.len() > 1 {
        for _ in 0..dice.within(1..=4) {
            let near = dice.below(order.len() - 1);
            let far = near + 1 + dice.below(order.len() - near - 1);
            ends.push((order[near], order[far]));
        }
    }
    let served = dice.below(3);
    let link = |(index, (near, far)): (usize, (usize, usize))| {
        let fetch = law(dice);
        let evict = if dice.chance(50) { fetch } else { law(dice) };
        let ends = (NodeId::at(near), NodeId::at(far));
        let mut link = Link::new(format!("l{index}"), ends, [fetch, evict]);
        link.service = match served {
            0 => None,
            1 => dice.chance(50).then(|| service(dice, [fetch, evict])),
            _ => Some(service(dice, [fetch, evict])),
        };
        link
    };
    ends.into_iter().enumerate().map(link).collect()
}

fn service(dice: &mut Dice, [fetch, evict]: [Law; 2]) -> Service {
    let fair = dice.chance(60);
    let max_in_flight = dice.chance(40).then(|| dice.log(1..=16) as u32).and_then(NonZeroU32::new);
    let (slower, faster) = (fetch.rate.min(evict.rate), fetch.rate.max(evict.rate));
    let both = faster.get()..=faster.get() + slower.get();
    let total = (fair && dice.chance(40)).then(|| dice.rate(both));
    let mix = total.filter(|_| dice.chance(50)).map(|total| mix(dice, total)).unwrap_or_default();
    let mut service = Service {
        discipline: if fair { Discipline::FairShare } else { Discipline::Fifo },
        max_in_flight,
        total,
        mix,
        read: detail(dice, fetch.rate, fair),
        write: detail(dice, evict.rate, fair),
    };
    if !fair && service.at_once() == 1 && dice.chance(40) {
        let drain = dice.rate((evict.rate.get() / 20)..=(evict.rate.get() - 1));
        service.write.cache = Some(Cache { size: dice.bytes(1..=1 << 30), drain });
    }
    service
}

fn mix(dice: &mut Dice, total: Bandwidth) -> Vec<(u8, Bandwidth)> {
    let mut shares: Vec<u8> = (0..dice.within(1..=4)).map(|_| dice.within(0..=100) as u8).collect();
    shares.sort_unstable();
    shares.dedup();
    shares.into_iter().map(|share| (share, dice.rate(total.get() / 8..=total.get()))).collect()
}

fn detail(dice: &mut Dice, rate: Bandwidth, fair: bool) -> Detail {
    let sizes = if dice.chance(25) { sizes(dice, rate) } else { Vec::new() };
    let depths = if fair && dice.chance(25) { depths(dice, rate) } else { Vec::new() };
    let tail = dice.chance(20).then(|| {
        let p50 = dice.log(1..=SETUP);
        let p99 = p50 * dice.log(1..=50);
        Tail { p50: Span::from_ps(p50), p99: Span::from_ps(p99) }
    });
    Detail { sizes, depths, tail, cache: None }
}

/// Larger copies take no less time.
fn sizes(dice: &mut Dice, rate: Bandwidth) -> Vec<(Bytes, Bandwidth)> {
    let mut points: Vec<(Bytes, Bandwidth)> = Vec::new();
    let mut size = 0;
    for _ in 0..dice.within(1..=5) {
        size += dice.log(1..=1 << 28);
        let point = (Bytes::new(size), dice.rate(rate.get() / 30..=rate.get()));
        let time = |(size, rate): &(Bytes, Bandwidth)| rate.span_of(size.get());
        if points.last().is_none_or(|last| time(last) <= time(&point)) {
            points.push(point);
        }
    }
    points
}

/// More copies reach no less together.
fn depths(dice: &mut Dice, rate: Bandwidth) -> Vec<(u32, Bandwidth)> {
    let mut rates: Vec<Bandwidth> =
        (0..dice.within(1..=4)).map(|_| dice.rate(rate.get() / 10..=rate.get())).collect();
    rates.sort_unstable();
    let mut depth = 1;
    let point = |rate| {
        let here = depth;
        depth += dice.log(1..=8) as u32;
        (here, rate)
    };
    rates.into_iter().map(point).collect()
}

/// Prescribes some routes, as far as they are routes.
fn prescribe(dice: &mut Dice, hardware: &mut Hardware) {
    let (tiers, nodes) = (hardware.tiers.len(), hardware.tiers.len() + hardware.nodes.len());
    if tiers < 2 || nodes < 3 || !dice.chance(25) {
        return;
    }
    for _ in 0..dice.within(1..=3) {
        let (from, to) = (dice.below(tiers), dice.below(tiers));
        let (to, via) = match dice.chance(50) {
            true => (to, vec![1 + dice.below(nodes - 1)]),
            false => walk(dice, hardware, from),
        };
        let via: Vec<NodeId> = via.into_iter().map(NodeId::at).collect();
        let again = hardware
            .routes
            .iter()
            .any(|route| (route.from.index(), route.to.index()) == (from, to));
        if from == to || via.is_empty() || again {
            continue;
        }
        let (from, to) = (TierId::at(from), TierId::at(to));
        hardware.routes.push(PrescribedRoute { from, to, via });
        if hardware.routes().is_err() {
            hardware.routes.pop();
        }
    }
}

/// A tier, and the nodes on a route to it along links that passes none twice; no nodes if there is
/// no such.
fn walk(dice: &mut Dice, hardware: &Hardware, from: usize) -> (usize, Vec<usize>) {
    let mut passed = vec![from];
    for _ in 0..dice.within(2..=4) {
        let here = passed[passed.len() - 1];
        let ends = hardware.links.iter().map(|link| (link.near.index(), link.far.index()));
        let beside = ends.flat_map(|(near, far)| [(near, far), (far, near)]);
        let next = beside.filter(|&(near, far)| near == here && !passed.contains(&far));
        let next: Vec<usize> = next.map(|(_, far)| far).collect();
        if next.is_empty() || here == 0 && passed.len() > 1 {
            break;
        }
        passed.push(dice.pick(&next));
    }
    while passed.len() > 1 && passed[passed.len() - 1] >= hardware.tiers.len() {
        passed.pop();
    }
    let to = passed[passed.len() - 1];
    (to, passed.get(1..passed.len() - 1).unwrap_or_default().to_vec())
}
