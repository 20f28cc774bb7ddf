//! Objects on several tiers at once: what spreading saves in time, to the picosecond, and what a
//! peer's copies and collectives cost each other on the port that they share.

use tiersim_policies::zoo::sharded::{Measure, ShardedConfig};
use tiersim_tests::prelude::*;

/// The memory of another device, behind the same port as collectives.
const PEER: TierId = TierId(2);

/// A device, host memory at `host`, and a peer behind a switch at `port`, where devices meet.
fn lent(host: u64, port: u64) -> Hardware {
    let far = [
        free(TierKind::Hbm),
        (TierKind::Dram, Capacity::Unlimited, law(0, host)),
        (TierKind::Remote, Capacity::Unlimited, law(0, port)),
    ];
    let links = [(0, 1, law(0, host)), (0, 3, law(0, port)), (3, 2, law(0, port))];
    let mut hardware = hardware(&far, &links);
    hardware.links.iter_mut().for_each(|link| link.service = fair(Some(1), None));
    hardware.nodes = vec![Node { name: "switch".into(), kind: NodeKind::NvlinkSwitch }];
    hardware.server.devices = 2;
    hardware.server.within = Some(NodeId(3));
    hardware
}

/// Twelve weights of 30 bytes that one op reads, then one that fills all of HBM: none can stay.
fn round() -> Trace {
    let mut traced = Traced::new();
    let weights: Vec<ObjectId> = (0..12).map(|_| traced.object(30, true)).collect();
    for weight in &weights {
        traced.0.objects[weight.index()].kind = ObjectKind::Weight;
    }
    let all: Vec<(ObjectId, Mode)> = weights.iter().map(|&weight| (weight, Mode::Read)).collect();
    traced.op(0, 0, Span::ZERO, &all);
    let other = traced.object(360, false);
    traced.op(0, 0, Span::ZERO, &[(other, Mode::Write)]);
    traced.0
}

/// When the op that reads all of them ends.
fn first_end(config: PolicyConfig) -> u64 {
    let mut machine = lent(ONE, 3 * ONE);
    machine.tiers[0].capacity = Bytes::new(360).into();
    let world = World::of(machine, round(), vec![Span::ZERO; 2]);
    let policy = policy_of(&world, &config).expect("it is built");
    world.ends(policy).expect("it fits")[0]
}

#[test]
fn all_links_bring_what_is_spread_at_the_same_time() {
    let spread = |by, spill: &[TierId]| {
        let (spill, kinds) = (spill.to_vec(), vec![ObjectKind::Weight]);
        let access = Access::Migrate { prefetch_ops: 0 };
        first_end(ShardedConfig { by, spill, kinds, access, arrivals: Bytes::ZERO }.into())
    };
    // 360 bytes at 1, 3 and 4 bytes per ps. The faster link has three quarters of them.
    assert_eq!(spread(Measure::Time, &[FAR]), 360);
    assert_eq!(spread(Measure::Time, &[PEER]), 120);
    assert_eq!(spread(Measure::Time, &[FAR, PEER]), 90);
    // Half of the bytes each: the slower link is what is waited for.
    assert_eq!(spread(Measure::Bytes, &[FAR, PEER]), 180);
}

/// The end of an op that reads 1000 bytes of a tier, and that of an all-gather beside it.
fn beside(from: TierId, ranks: u32) -> Vec<u64> {
    let (mut traced, [object]) = Traced::reads([1000], false);
    let op = traced.op(0, 1, Span::ZERO, &[]);
    let (kind, bytes) = (CollectiveKind::AllGather, Bytes::new(2000));
    let exchange = Collective { kind, bytes, within: 2, servers: 1, times: 1 };
    traced.0.ops[op.index()].unit = Unit::Network(exchange);
    let world = World::of(lent(10 * ONE, 10 * ONE), traced.0, vec![Span::ZERO; 2]);
    world.scripted_on(ranks, vec![from], vec![vec![fetch(object)]]).0
}

#[test]
fn a_copy_of_a_peer_and_a_collective_halve_the_port_that_they_share() {
    for ranks in [1, 2] {
        // 1000 bytes each over 10 bytes per ps: 100 ps where they do not meet.
        assert_eq!(beside(FAR, ranks), [100, 100]);
        assert_eq!(beside(PEER, ranks), [200, 200]);
    }
}
