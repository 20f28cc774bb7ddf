//! Rings, trees and pairs against their closed forms, and which of them is chosen.

use tiersim_models::hardware::CollectiveLaws;
use tiersim_models::hardware::Law;
use tiersim_models::units::{Bandwidth, Bytes, Span};
use tiersim_models::workload::{Collective, CollectiveKind};

fn collective(kind: CollectiveKind, bytes: u64, within: u32, servers: u32) -> Collective {
    Collective { kind, bytes: Bytes::new(bytes), within, servers, times: 1 }
}

fn law(setup: u64, rate: u64) -> Law {
    Law { setup: Span::from_ps(setup), rate: Bandwidth::new(rate).expect("above zero") }
}

#[test]
fn a_ring_within_one_server_is_alpha_and_beta_of_the_textbook() {
    let way = law(1_700_000, 234_900_000_000);
    for n in [2u32, 3, 4, 7, 8, 16] {
        for bytes in [1u64, 1000, 1 << 20, 3_000_000_007, 1 << 40] {
            let parts =
                |times: u64| (u128::from(bytes) * u128::from(times)).div_ceil(n.into()) as u64;
            let steps = u64::from(n) - 1;
            let span = |steps: u64, bytes: u64| {
                Span::from_ps(steps * way.setup.ps() + way.rate.span_of(bytes).ps())
            };
            let ring = |kind| collective(kind, bytes, n, 1).ring().span([way, law(0, 1)]);
            assert_eq!(ring(CollectiveKind::AllGather), Some(span(steps, parts(steps))));
            assert_eq!(ring(CollectiveKind::ReduceScatter), ring(CollectiveKind::AllGather));
            assert_eq!(ring(CollectiveKind::AllReduce), Some(span(2 * steps, parts(2 * steps))));
            assert_eq!(ring(CollectiveKind::AllToAll), ring(CollectiveKind::AllGather));
            assert_eq!(ring(CollectiveKind::Broadcast), Some(span(steps, bytes)));
            assert_eq!(ring(CollectiveKind::SendRecv), Some(span(1, bytes)));
            let tree = collective(CollectiveKind::AllReduce, bytes, n, 1).tree();
            let levels = 2 * u64::from(n.next_power_of_two().ilog2());
            let most = if n == 2 { bytes } else { 2 * bytes };
            assert_eq!(tree.and_then(|t| t.span([way, law(0, 1)])), Some(span(levels, most)));
        }
    }
}

/// Bytes that all devices of all servers send, by walking g rings of g x m devices joint by joint.
fn walked(joint: u64, within: u64, servers: u64) -> [u64; 2] {
    let (mut near, mut far) = (0, 0);
    for _ring in 0..within {
        for device in 0..within * servers {
            let next = (device + 1) % (within * servers);
            match device / within == next / within {
                true => near += joint,
                false => far += joint,
            }
        }
    }
    [near, far]
}

#[test]
fn every_joint_of_every_ring_carries_its_share() {
    for (within, servers) in [(1u32, 2u32), (2, 2), (4, 3), (8, 2), (8, 64)] {
        let n = u64::from(within) * u64::from(servers);
        // Bytes of which every share is a whole number.
        let bytes = n * u64::from(within) * 1000;
        for (kind, joint) in [
            (CollectiveKind::AllGather, bytes / n * (n - 1)),
            (CollectiveKind::AllReduce, 2 * (bytes / n * (n - 1))),
            (CollectiveKind::Broadcast, bytes),
        ] {
            let ring = collective(kind, bytes, within, servers).ring();
            let all = walked(joint / u64::from(within), within.into(), servers.into());
            assert_eq!(ring.bytes.map(|each| each.get() * n), all, "{kind:?} {within}x{servers}");
            let rounds = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
            assert_eq!(ring.steps.iter().sum::<u64>(), rounds * (n - 1));
            assert_eq!(ring.steps[1], rounds * (u64::from(servers) - 1));
        }
        // Everybody's part for everybody, once.
        let pairs = collective(CollectiveKind::AllToAll, bytes, within, servers).ring();
        assert_eq!(pairs.bytes.map(Bytes::get).iter().sum::<u64>(), bytes / n * (n - 1));
        assert_eq!(pairs.bytes[1].get(), bytes / n * (n - u64::from(within)));
    }
}

#[test]
fn small_sums_take_trees_and_large_ones_rings() {
    let ways = [law(2_000_000, 200_000_000_000), law(5_000_000, 25_000_000_000)];
    let chosen = |bytes, within, servers| {
        let sum = collective(CollectiveKind::AllReduce, bytes, within, servers);
        let chosen = sum.exchange(CollectiveLaws { ways, times: None });
        let least = [Some(sum.ring()), sum.tree()].into_iter().flatten();
        assert_eq!(chosen.span(ways), least.filter_map(|one| one.span(ways)).min());
        chosen == sum.ring()
    };
    assert!(!chosen(1000, 8, 1) && chosen(1 << 30, 8, 1));
    assert!(!chosen(1000, 8, 64));
    // A tree over two servers has half the bytes of a ring between them.
    assert!(!chosen(1 << 30, 8, 2) && chosen(1 << 34, 8, 4));
    assert!(chosen(5, 2, 1), "two ranks are the same either way");
    assert_eq!(collective(CollectiveKind::AllGather, 5, 2, 1).tree(), None);
}

#[test]
fn a_group_of_one_sends_nothing_and_the_largest_group_does_not_overflow() {
    for kind in CollectiveKind::ALL {
        assert_eq!(collective(kind, 1 << 60, 1, 1).ring(), Default::default());
        for (within, servers) in [(1 << 20, 1), (1, 1 << 20), (1 << 10, 1 << 10)] {
            let large = collective(kind, 1 << 60, within, servers);
            let [near, far] = large.ring().bytes.map(Bytes::get);
            assert!(near <= 1 << 61 && far <= 1 << 61 && near + far > 0, "{kind:?}");
            assert_eq!(
                large.exchange(CollectiveLaws { ways: [law(u64::MAX, 1); 2], times: None }),
                large.ring()
            );
        }
    }
}

#[test]
fn several_in_a_row_take_as_many_times_as_long() {
    // A picosecond per byte: nothing is rounded.
    let ways = [law(1_700_000, 1_000_000_000_000), law(3_000_000, 1_000_000_000_000)];
    let laws = CollectiveLaws { ways, times: None };
    for kind in CollectiveKind::ALL {
        for (bytes, within, servers) in [(8_000, 8, 1), (1 << 30, 2, 1), (1 << 20, 4, 2)] {
            let once = collective(kind, bytes, within, servers);
            let span = |of: Collective| of.exchange(laws).span(ways).expect("it ends").ps();
            for times in [2, 64, 1000] {
                let all = Collective { times, ..once };
                assert_eq!(span(all), u64::from(times) * span(once), "{kind:?} {times}");
            }
        }
    }
}
