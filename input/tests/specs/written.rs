//! Machines written out: what is written reads back equal, and what cannot be written is refused.

use crate::specs::hardware::read;
use crate::specs::project::shipped;
use proptest::prelude::*;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::hardware_file::write::{Unwritable, hardware_text};
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares, WHOLE};
use tiersim_models::hardware::{
    Capacity, Compute, Fact, Hardware, Law, Link, Source, Tier, TierKind,
};
use tiersim_models::ids::{LinkId, NodeId, TierId};
use tiersim_models::nodes::{Node, NodeKind};
use tiersim_models::server::Server;
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bandwidth, Bytes, FlopRate, Span};

#[test]
fn every_shipped_machine_reads_back_equal() {
    let mut seen = 0;
    for entry in std::fs::read_dir(shipped()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ron") {
            continue;
        }
        let machine = read_hardware(&path).unwrap();
        let text = hardware_text(&machine, "written again").unwrap();
        assert!(text.starts_with("// written again\nHardware(\n"), "{text}");
        let again = Hardware { name: machine.name.clone(), ..read(&text).unwrap() };
        assert_eq!(again, machine, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 5);
}

fn any_source() -> impl Strategy<Value = Source> {
    let text = proptest::string::string_regex("[a-z\"\\\\%.é;]([ -~]{0,20}[a-z])?").unwrap();
    (0..4, text).prop_map(|(which, text)| match which {
        0 => Source::Datasheet(text),
        1 => Source::Measured(text),
        2 => Source::Announced(text),
        _ => Source::Assumed(text),
    })
}

fn any_law() -> impl Strategy<Value = Law> {
    let rate = prop_oneof![1_000_000..1u64 << 50, (1..900u64).prop_map(|gb| gb * 1_000_000_000)];
    let setup = prop_oneof![0..10_000_000_000_000u64, (0..100u64).prop_map(|us| us * 1_000_000)];
    (setup, rate).prop_map(|(setup, rate)| Law {
        setup: Span::from_ps(setup),
        rate: Bandwidth::new(rate).unwrap(),
    })
}

fn any_shares() -> impl Strategy<Value = Shares> {
    let points = proptest::collection::btree_map(1..1u64 << 53, 1..=WHOLE, 0..6);
    (points, any::<bool>()).prop_map(|(points, steps)| {
        let interpolation = if steps && !points.is_empty() {
            Interpolation::Steps
        } else {
            Interpolation::Interpolated
        };
        Shares { points: points.into_iter().collect(), interpolation }
    })
}

fn any_efficiency() -> impl Strategy<Value = Efficiency> {
    (any_shares(), any_shares()).prop_map(|(products, memory)| Efficiency { products, memory })
}

/// Devices of a server, and how many of them share each tier and each link.
fn any_sharers() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    (0..4u32).prop_flat_map(|log| {
        let by = || (0..=log).prop_map(|log| 1 << log);
        (Just(1 << log), proptest::collection::vec((by(), by()), 8))
    })
}

prop_compose! {
    /// Tiers in a row, a link between neighbours, perhaps a device; facts without values.
    fn any_machine()(
        about in "[a-z]([ -~]{0,30}[a-z])?",
        tiers in proptest::collection::vec((0..5usize, proptest::option::of(1..1u64 << 53), any_law()), 1..8),
        laws in proptest::collection::vec((any_law(), any_law()), 7),
        compute in proptest::option::of((any_law(), any_law())),
        efficiency in any_efficiency(),
        chunk in 4096..1u64 << 34,
        (devices, sharers) in any_sharers(),
        meets in any::<bool>(),
        sources in proptest::collection::vec(any_source(), 64),
    ) -> Hardware {
        let kinds = [TierKind::Hbm, TierKind::Cxl, TierKind::Dram, TierKind::Nvme, TierKind::Remote];
        let mut sources = sources.into_iter().cycle();
        let mut facts = Vec::new();
        let mut fact = |path: String| {
            let source = sources.next().unwrap();
            facts.push(Fact { path, value: String::new(), source });
        };
        let mut made = Vec::new();
        for (index, (kind, capacity, access)) in tiers.into_iter().enumerate() {
            let kind = if index == 0 { TierKind::Hbm } else { kinds[kind] };
            if capacity.is_some() {
                fact(format!("tiers.t{index}.capacity"));
            }
            fact(format!("tiers.t{index}.setup"));
            fact(format!("tiers.t{index}.bandwidth"));
            let capacity = capacity.map_or(Capacity::Unlimited, |bytes| Bytes::new(bytes).into());
            made.push(Tier { name: format!("t{index}"), kind, capacity, access, loaded: None, requests: Default::default() });
        }
        let mut links = Vec::new();
        for (index, (fetch, evict)) in laws.into_iter().enumerate().take(made.len() - 1) {
            for field in ["setup", "read", "write_setup", "write"] {
                fact(format!("links.l{index}.{field}"));
            }
            let ends = (TierId::at(index), TierId::at(index + 1));
            links.push(Link::new(format!("l{index}"), ends, [fetch, evict]));
        }
        let (mut nodes, mut server) = (Vec::new(), Server { devices, ..Server::default() });
        let of = |index: usize| if index == 0 { devices } else { sharers[index].0 };
        server.tiers = (1..made.len()).map(|tier| (TierId::at(tier), of(tier))).collect();
        // Powers of two: the smaller divides the larger.
        let link = |index: usize| (LinkId::at(index), of(index).min(of(index + 1)).min(sharers[index].1));
        server.links = (0..links.len()).map(link).collect();
        server.tiers.retain(|&(_, by)| by > 1);
        server.links.retain(|&(_, by)| by > 1);
        if meets {
            for field in ["setup", "read", "write"] {
                fact(format!("links.fabric.{field}"));
            }
            nodes.push(Node { name: "meet".into(), kind: NodeKind::NvlinkSwitch });
            let meet = NodeId::at(made.len());
            let mut fabric = Link::new("fabric", (NodeId::from(TierId(0)), meet), [made[0].access; 2]);
            let discipline = Discipline::FairShare;
            fabric.service = Some(Service { discipline, ..Service::default() });
            links.push(fabric);
            server.within = Some(meet);
        }
        let compute = compute.map(|(one, other)| {
            for field in ["flops.fp32", "memory", "launch"] {
                fact(format!("compute.{field}"));
            }
            if !efficiency.products.points.is_empty() {
                fact("compute.efficiency.products".into());
            }
            if !efficiency.memory.points.is_empty() {
                fact("compute.efficiency.memory".into());
            }
            let flops = vec![("fp32".to_owned(), FlopRate::new(one.rate.get()).unwrap())];
            let name = "device".into();
            Compute { name, flops, memory: other.rate, launch: one.setup, efficiency }
        });
        let (routes, chunk) = (Vec::new(), Bytes::new(chunk));
        let (hidden, economics) = (Vec::new(), Default::default());
        Hardware {
            name: "m".into(), about, tiers: made, nodes, links, routes, compute, chunk, hidden, facts, economics,
            server, cpu: None,
        }
    }
}

proptest! {
    #[test]
    fn any_machine_reads_back_equal(machine in any_machine()) {
        let text = hardware_text(&machine, "").unwrap();
        let again = read(&text).unwrap();
        // Values of facts are as written; all else is as it was.
        let written: Vec<(&str, &Source)> =
            again.facts.iter().map(|fact| (fact.path.as_str(), &fact.source)).collect();
        let meant: Vec<(&str, &Source)> =
            machine.facts.iter().map(|fact| (fact.path.as_str(), &fact.source)).collect();
        prop_assert_eq!(written, meant);
        let bare = |machine: &Hardware| Hardware { facts: Vec::new(), ..machine.clone() };
        prop_assert_eq!(bare(&again), bare(&machine));
        prop_assert_eq!(hardware_text(&again, "").unwrap(), text);
    }
}

fn smoke() -> Hardware {
    read_hardware(&shipped().join("host-smoke.ron")).unwrap()
}

#[test]
fn numbers_are_written_in_units_that_people_use() {
    let mut machine = smoke();
    machine.tiers[0].access = Law { setup: Span::from_ps(12_340), rate: Bandwidth::gb_per_s(3350) };
    machine.facts.iter_mut().for_each(|fact| fact.value.clear());
    let text = hardware_text(&machine, "").unwrap();
    for written in ["mib(16)", "ns(12.34)", "tb_per_s(3.35)", "us(20)", "gb_per_s(4)", "kib(64)"] {
        assert!(text.contains(written), "{written}:\n{text}");
    }
}

#[test]
fn what_would_not_be_read_back_is_refused() {
    let change = |change: &dyn Fn(&mut Hardware)| {
        let mut machine = smoke();
        change(&mut machine);
        hardware_text(&machine, "").unwrap_err()
    };
    let found = change(&|m| drop(m.facts.remove(1)));
    assert_eq!(found, Unwritable::NoSource("tiers.hbm.setup".into()));
    let found = change(&|m| m.facts.push(m.facts[0].clone()));
    assert_eq!(found, Unwritable::Stray("tiers.hbm.capacity".into()));
    let found = change(&|m| m.facts[1].value = "ns(7)".into());
    assert!(matches!(&found, Unwritable::Differs(what) if what.contains("hbm")), "{found}");
    let found = change(&|m| m.about.clear());
    assert!(matches!(&found, Unwritable::Refused(what) if what.contains("about")), "{found}");
}
