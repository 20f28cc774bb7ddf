//! Spreading: level where sizes are equal, against the formula for water in vessels; near level
//! where they are not, against every way to spread them; and by links, not by tiers.

use super::worlds::{Dice, hardware, object, op, trace, with_setting};
use super::{DEMAND, STATE};
use tiersim_models::hardware::{HBM, Hardware, Law, TierKind};
use tiersim_models::ids::{NodeId, ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bandwidth, Bytes, Span};
use tiersim_models::workload::{Mode, ObjectKind};
use tiersim_policies::zoo::sharded::{Measure, ShardedConfig};

fn config(by: Measure, tiers: usize) -> ShardedConfig {
    let spill = (1..tiers).map(TierId::at).collect();
    ShardedConfig { by, spill, kinds: STATE.to_vec(), access: DEMAND, arrivals: Bytes::ZERO }
}

/// Weights of these sizes, each read by an op of its own.
fn weights(sizes: &[u64]) -> Workload {
    let mut trace = trace();
    for (index, &bytes) in sizes.iter().enumerate() {
        let weight = object(&mut trace, &format!("m{index}"), ObjectKind::Weight, bytes, true);
        op(&mut trace, &[(weight, Mode::Read)]);
    }
    Workload::new(trace)
}

fn homes(workload: &Workload, machine: &Hardware, by: Measure) -> Vec<TierId> {
    let config = config(by, machine.tiers.len());
    with_setting(workload, machine, |setting| config.homes(setting)).expect("it is joined")
}

/// What each tier holds.
fn held(workload: &Workload, machine: &Hardware, homes: &[TierId]) -> Vec<u64> {
    let mut held = vec![0; machine.tiers.len()];
    for (object, home) in workload.trace.objects.iter().zip(homes) {
        held[home.index()] += object.bytes.get();
    }
    held
}

/// Water of this much in vessels: the level, by closed form over the full ones.
fn level(mut capacities: Vec<u64>, water: u64) -> f64 {
    capacities.sort_unstable();
    let (mut left, mut open) = (water as f64, capacities.len() as f64);
    for capacity in capacities {
        if left / open <= capacity as f64 {
            break;
        }
        left -= capacity as f64;
        open -= 1.0;
    }
    left / open
}

#[test]
fn equal_objects_are_level_in_bytes_as_water_is() {
    let mut dice = Dice::new(3);
    for _ in 0..200 {
        let (size, count) = (1 + dice.below(20), 4 + dice.below(30));
        let workload = weights(&vec![size; count as usize]);
        // HBM takes no more than a visitor; the last tier takes all.
        let room = |dice: &mut Dice| size * (1 + dice.below(count / 2));
        let peers = [room(&mut dice), room(&mut dice), size * count];
        let kinds = [TierKind::Remote, TierKind::Remote, TierKind::Dram];
        let others: Vec<(TierKind, u64)> = kinds.into_iter().zip(peers).collect();
        let machine = hardware(size, &others);
        let homes = homes(&workload, &machine, Measure::Bytes);
        let held = held(&workload, &machine, &homes);
        // One stays, if nobody ever visits while it idles: here all do.
        assert_eq!(held[0], 0, "{held:?}");
        let level = level(peers.to_vec(), size * count);
        for (&held, &capacity) in held[1..].iter().zip(&peers) {
            let expected = level.min(capacity as f64);
            assert!((held as f64 - expected).abs() < size as f64, "{held:?} of {peers:?}, {level}");
        }
        let most = held[1..].iter().max().copied().unwrap_or(0);
        // Whole objects: no tier is more than the level rounded up to one.
        assert!(most as f64 <= (level / size as f64).ceil() * size as f64, "{held:?}, {level}");
    }
}

/// How long the busiest channel is busy if the objects lie so: every read fetches its object.
fn busiest(machine: &Hardware, sizes: &[u64], homes: &[TierId]) -> u64 {
    let routes = machine.routes().expect("it is joined");
    let mut busy = vec![0u64; 2 * machine.links.len()];
    for (&bytes, &home) in sizes.iter().zip(homes).filter(|(_, home)| **home != HBM) {
        for channel in routes.between(home, HBM) {
            let law = machine.channel_law(*channel);
            busy[channel.index()] += law.span_of(Bytes::new(bytes)).ps();
        }
    }
    busy.into_iter().max().unwrap_or(0)
}

/// The least that any spreading makes of it.
fn best(machine: &Hardware, sizes: &[u64]) -> u64 {
    let tiers = machine.tiers.len() - 1;
    let fits = |homes: &[TierId]| {
        machine.tier_ids().filter(|&tier| tier != HBM).all(|tier| {
            let held = sizes.iter().zip(homes).filter(|(_, home)| **home == tier);
            let capacity = machine.memory().usable(tier).most().get();
            held.map(|(bytes, _)| bytes).sum::<u64>() <= capacity
        })
    };
    let ways = (0..tiers.pow(sizes.len() as u32)).map(|way| {
        let digit = |index: usize| TierId::at(1 + way / tiers.pow(index as u32) % tiers);
        (0..sizes.len()).map(digit).collect::<Vec<TierId>>()
    });
    let fitting = ways.filter(|homes| fits(homes));
    fitting.map(|homes| busiest(machine, sizes, &homes)).min().expect("one fits")
}

fn rate(machine: &mut Hardware, link: usize, rate: u64) {
    let rate = Bandwidth::new(rate).expect("above zero");
    let law = Law { setup: Span::from_ps(5), rate };
    (machine.links[link].read, machine.links[link].write) = (law, law);
}

#[test]
fn times_are_within_one_object_of_the_best_of_all_ways() {
    let mut dice = Dice::new(11);
    let (mut equal, mut ratio, worlds) = (0u32, 1.0f64, 150u32);
    for _ in 0..worlds {
        let sizes: Vec<u64> = (0..3 + dice.below(4)).map(|_| 1 + dice.below(100)).collect();
        let all: u64 = sizes.iter().sum();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let room = largest + dice.below(all);
        let mut machine = hardware(
            largest,
            &[(TierKind::Remote, room), (TierKind::Dram, all), (TierKind::Nvme, all)],
        );
        for link in 0..3 {
            rate(&mut machine, link, 1_000_000_000 * (1 + dice.below(8)));
        }
        // Sometimes the drive is behind the host's memory, and loads both links.
        if dice.below(2) == 0 {
            machine.links[2].near = NodeId::at(2);
        }
        let workload = weights(&sizes);
        let homes = homes(&workload, &machine, Measure::Time);
        let away: Vec<ObjectId> = (0..sizes.len()).map(ObjectId::at).collect();
        assert!(away.iter().all(|object| homes[object.index()] != HBM), "{homes:?}");
        let (found, best) = (busiest(&machine, &sizes, &homes), best(&machine, &sizes));
        let slowest = (0..3).map(|link| machine.links[link].read.span_of(Bytes::new(largest)).ps());
        assert!(found >= best && found <= best + slowest.max().unwrap_or(0), "{found}, {best}");
        equal += u32::from(found == best);
        ratio = ratio.max(found as f64 / best as f64);
    }
    assert!(equal * 10 >= worlds * 7 && ratio < 1.4, "{equal} of {worlds} the best, worst {ratio}");
}

/// Two tiers behind one link are no faster than one: the drive gets nothing that the peer can take.
#[test]
fn tiers_behind_one_link_count_as_one() {
    let workload = weights(&[10; 12]);
    let mut machine =
        hardware(10, &[(TierKind::Remote, 1000), (TierKind::Dram, 1000), (TierKind::Nvme, 1000)]);
    machine.links[2].near = NodeId::at(2);
    rate(&mut machine, 0, 3_000_000_000);
    rate(&mut machine, 1, 1_000_000_000);
    rate(&mut machine, 2, 1_000_000_000);
    let by = |by| held(&workload, &machine, &homes(&workload, &machine, by));
    // Level bytes: a third each. Level times: three quarters over the link that is three times as
    // fast, and nothing on the drive, whose bytes cross the host's link as well.
    assert_eq!(by(Measure::Bytes), [0, 40, 40, 40]);
    assert_eq!(by(Measure::Time), [0, 90, 30, 0]);
}
