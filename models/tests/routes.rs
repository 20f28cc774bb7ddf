//! Routes against brute force over all simple paths, prescribed routes, and hops.

use rand::rngs::ChaCha12Rng;
use rand::{Rng, RngExt, SeedableRng};
use tiersim_models::hardware::{Capacity, Channel, HBM, Hardware, Law, Link, Tier, TierKind};
use tiersim_models::ids::{LinkId, NodeId, TierId};
use tiersim_models::nodes::{Node, NodeKind, PrescribedRoute};
use tiersim_models::routes::RouteFault;
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bandwidth, Bytes, Span};

const KINDS: [TierKind; 4] = [TierKind::Cxl, TierKind::Dram, TierKind::Nvme, TierKind::Remote];

fn law(rate: u64) -> Law {
    Law { setup: Span::ZERO, rate: Bandwidth::new(rate).expect("above zero") }
}

/// A machine of these tiers, of the kinds of these nodes, and of links (near, far, fetch, evict).
fn machine(tiers: &[TierKind], nodes: &[NodeKind], links: &[(usize, usize, u64, u64)]) -> Hardware {
    let tier = |(index, &kind): (usize, &TierKind)| Tier {
        name: format!("t{index}"),
        kind,
        capacity: Capacity::Unlimited,
        access: law(1),
        loaded: None,
        requests: Default::default(),
    };
    let link = |(index, &(near, far, fetch, evict)): (usize, &(usize, usize, u64, u64))| {
        let ends = (NodeId::at(near), NodeId::at(far));
        Link::new(format!("l{index}"), ends, [law(fetch), law(evict)])
    };
    let node = |(index, &kind): (usize, &NodeKind)| Node { name: format!("n{index}"), kind };
    Hardware {
        name: "test".to_owned(),
        about: String::new().into(),
        tiers: tiers.iter().enumerate().map(tier).collect(),
        nodes: nodes.iter().enumerate().map(node).collect(),
        links: links.iter().enumerate().map(link).collect(),
        routes: Vec::new(),
        compute: None,
        chunk: Bytes::mib(4),
        hidden: Vec::new(),
        facts: Default::default(),
        economics: Default::default(),
        server: Default::default(),
        cpu: None,
        pressure: None,
    }
}

fn random(rng: &mut impl Rng) -> Hardware {
    let mut tiers = vec![TierKind::Hbm];
    tiers.extend((0..rng.random_range(1..4)).map(|_| KINDS[rng.random_range(0..4)]));
    let nodes: Vec<NodeKind> =
        (0..rng.random_range(0..5)).map(|_| NodeKind::ALL[rng.random_range(0..9)]).collect();
    let all = tiers.len() + nodes.len();
    let mut links = Vec::new();
    for near in 0..all {
        for far in near + 1..all {
            if rng.random_bool(0.5) {
                let (one, other) = if rng.random_bool(0.5) { (near, far) } else { (far, near) };
                links.push((one, other, rng.random_range(1..4), rng.random_range(1..4)));
            }
        }
    }
    for index in (1..links.len()).rev() {
        links.swap(index, rng.random_range(0..=index));
    }
    machine(&tiers, &nodes, &links)
}

/// How bad it is to pass a node, said anew.
fn badness(machine: &Hardware, node: usize) -> u8 {
    if node == 0 {
        return 3;
    }
    match machine.tiers.get(node).map(|tier| tier.kind) {
        Some(TierKind::Dram | TierKind::Cxl) => 1,
        Some(_) => 2,
        None => 2 * u8::from(machine.nodes[node - machine.tiers.len()].kind == NodeKind::Gpu),
    }
}

/// What is minimised: badness of the worst node passed, links, width (negated), numbers of links.
type Cost = (u8, usize, i128, Vec<u16>);

/// The best of all simple paths, or none.
fn brute(
    machine: &Hardware,
    path: &mut Vec<usize>,
    links: &mut Vec<usize>,
    to: usize,
) -> Option<Cost> {
    let here = path[path.len() - 1];
    if here == to {
        let passed = &path[1..path.len() - 1];
        let worst = passed.iter().map(|&node| badness(machine, node)).max().unwrap_or(0);
        let rate = |&link: &usize| {
            let Link { read, write, .. } = &machine.links[link];
            i128::from(read.rate.min(write.rate).get())
        };
        let width = links.iter().map(rate).min()?;
        return Some((worst, links.len(), -width, links.iter().map(|&l| l as u16).collect()));
    }
    let mut best = None;
    for (index, link) in machine.links.iter().enumerate() {
        let ends = [link.near.index(), link.far.index()];
        let Some(next) = [0, 1].into_iter().find(|&end| ends[end] == here).map(|e| ends[1 - e])
        else {
            continue;
        };
        if path.contains(&next) {
            continue;
        }
        path.push(next);
        links.push(index);
        let found = brute(machine, path, links, to);
        best = [best, found].into_iter().flatten().min();
        path.pop();
        links.pop();
    }
    best
}

#[test]
fn routes_are_the_best_of_all_simple_paths_and_the_same_both_ways() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let (mut joined, mut long, mut unjoined) = (0, 0, 0);
    for _ in 0..6000 {
        let machine = random(&mut rng);
        let ids = || machine.tier_ids();
        let pairs = ids().flat_map(move |a| ids().map(move |b| (a, b))).filter(|(a, b)| a != b);
        let best = |a: TierId, b: TierId| {
            brute(&machine, &mut vec![a.index()], &mut Vec::new(), b.index())
        };
        match machine.routes() {
            Err(none) => {
                assert_eq!(best(none.from, none.to), None);
                unjoined += 1;
            }
            Ok(routes) => {
                joined += 1;
                for (from, to) in pairs {
                    let channels = routes.between(from, to);
                    let (low, high) = (from.min(to), from.max(to));
                    let cost = best(low, high).expect("there is a route");
                    let forth: Vec<u16> =
                        routes.between(low, high).iter().map(|channel| channel.link.0).collect();
                    assert_eq!(forth, cost.3, "{machine:?}");
                    let back: Vec<Channel> =
                        routes.between(to, from).iter().rev().copied().collect();
                    let turned =
                        |channel: &Channel| Channel { evicting: !channel.evicting, ..*channel };
                    assert_eq!(channels, back.iter().map(turned).collect::<Vec<_>>());
                    // It leads from the one to the other.
                    let mut here = NodeId::from(from);
                    for channel in channels {
                        let (start, end) = machine.channel_ends(*channel);
                        assert_eq!(start, here);
                        here = end;
                    }
                    assert_eq!(here, to.into());
                    long += usize::from(channels.len() > 2);
                }
            }
        }
    }
    assert!(joined > 2000 && unjoined > 200 && long > 500, "{joined} {unjoined} {long}");
}

/// HBM and a drive at one switch, DRAM at a socket.
fn host() -> Hardware {
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme];
    let nodes = [NodeKind::PcieSwitch, NodeKind::Socket];
    machine(&tiers, &nodes, &[(0, 3, 5, 5), (3, 2, 5, 5), (4, 3, 5, 5), (4, 1, 9, 9)])
}

fn links(channels: &[Channel]) -> Vec<u16> {
    channels.iter().map(|channel| channel.link.0).collect()
}

#[test]
fn a_prescribed_way_counts_both_ways_unless_the_other_is_given_too() {
    let (dram, drive) = (TierId(1), TierId(2));
    let mut host = host();
    let direct = host.routes().expect("it is joined");
    assert_eq!(links(direct.between(drive, HBM)), [1, 0]);
    host.routes = vec![PrescribedRoute { from: drive, to: HBM, via: vec![dram.into()] }];
    let bounced = host.routes().expect("it is joined");
    assert_eq!(links(bounced.between(drive, HBM)), [1, 2, 3, 3, 2, 0]);
    assert_eq!(links(bounced.between(HBM, drive)), [0, 2, 3, 3, 2, 1]);
    assert_eq!(bounced.between(dram, HBM), direct.between(dram, HBM));
    host.routes.push(PrescribedRoute { from: HBM, to: drive, via: vec![NodeId(3)] });
    let one = host.routes().expect("it is joined");
    assert_eq!(links(one.between(drive, HBM)), [1, 2, 3, 3, 2, 0]);
    assert_eq!(links(one.between(HBM, drive)), [0, 1]);
}

#[test]
fn a_way_that_is_none_says_why() {
    let fault = |from: u8, to: u8, via: &[u8]| {
        let via = via.iter().map(|&node| NodeId(node)).collect();
        let routes = vec![PrescribedRoute { from: TierId(from), to: TierId(to), via }];
        let routes = Hardware { routes, ..host() }.routes();
        routes.expect_err("it is none").route
    };
    assert_eq!(fault(2, 0, &[4]), Some(RouteFault::Loop(NodeId(3))));
    assert_eq!(fault(2, 0, &[3, 3]), Some(RouteFault::Loop(NodeId(3))));
    assert_eq!(fault(2, 0, &[1, 3, 1]), Some(RouteFault::Twice(LinkId(2))));
    let mut island = host();
    island.nodes.push(Node { name: "island".to_owned(), kind: NodeKind::Nic });
    island.routes = vec![PrescribedRoute { from: TierId(2), to: HBM, via: vec![NodeId(5)] }];
    let none = island.routes().expect_err("nothing leads there");
    assert_eq!(none.route, Some(RouteFault::Unjoined(NodeId(2), NodeId(5))));
    // Two memories behind one link: the route comes over it, goes back and comes again.
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Cxl, TierKind::Nvme];
    let nodes = [NodeKind::Socket, NodeKind::Socket];
    let links = [(0, 4, 5, 5), (1, 4, 5, 5), (2, 5, 5, 5), (3, 5, 5, 5), (4, 5, 5, 5)];
    let mut sockets = machine(&tiers, &nodes, &links);
    sockets.routes =
        vec![PrescribedRoute { from: TierId(3), to: HBM, via: vec![NodeId(1), NodeId(2)] }];
    let twice = sockets.routes().expect_err("it crosses a link twice");
    assert_eq!(twice.route, Some(RouteFault::Twice(LinkId(4))));
}

#[test]
fn hops_end_in_memory_and_at_links_that_are_not_shared() {
    let (dram, drive) = (TierId(1), TierId(2));
    let hops = |shared: [bool; 4], from, to, via: &[u8]| {
        let mut host = host();
        for (link, shared) in host.links.iter_mut().zip(shared) {
            let discipline = if shared { Discipline::FairShare } else { Discipline::Fifo };
            link.service = Some(Service { discipline, ..Service::default() });
        }
        if !via.is_empty() {
            let via = via.iter().map(|&node| NodeId(node)).collect();
            host.routes = vec![PrescribedRoute { from, to, via }];
        }
        let routes = host.routes().expect("it is joined");
        let hops: Vec<Vec<u16>> = routes.hops(from, to).map(links).collect();
        assert_eq!(hops.concat(), links(routes.between(from, to)));
        hops
    };
    assert_eq!(hops([true; 4], dram, HBM, &[]), [[3, 2, 0]]);
    assert_eq!(hops([false; 4], dram, HBM, &[]), [[3], [2], [0]]);
    assert_eq!(hops([true, true, false, true], dram, HBM, &[]), [[3], [2], [0]]);
    assert_eq!(hops([true, true, true, false], dram, HBM, &[]), [vec![3], vec![2, 0]]);
    assert_eq!(hops([true; 4], drive, HBM, &[1]), [[1, 2, 3], [3, 2, 0]]);
    assert_eq!(hops([true; 4], drive, HBM, &[]), [[1, 0]]);
    assert_eq!(hops([true; 4], drive, drive, &[]), Vec::<Vec<u16>>::new());
}
