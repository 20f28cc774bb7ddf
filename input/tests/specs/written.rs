//! Machines written out: what is written reads back equal, and what cannot be written is refused.

use crate::specs::hardware::{TWO, read};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use tiersim_input::hardware_file::write::{Unwritable, hardware_text};
use tiersim_models::hardware::{
    Capacity, Compute, Fact, Hardware, Law, Link, Source, Tier, TierKind, Uncertainty,
};
use tiersim_models::ids::TierId;
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bandwidth, Bytes, FlopRate, Span};

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

prop_compose! {
    /// Tiers in a row, a link between neighbours, perhaps a device; facts without values.
    fn any_machine()(
        about in "[a-z]([ -~]{0,30}[a-z])?",
        tiers in proptest::collection::vec((0..5usize, proptest::option::of(1..1u64 << 53), any_law()), 1..8),
        laws in proptest::collection::vec((any_law(), any_law(), any::<bool>()), 7),
        compute in proptest::option::of((any_law(), any_law())),
        chunk in 4096..1u64 << 34,
        sources in proptest::collection::vec(any_source(), 64),
        shares in proptest::collection::vec(proptest::option::of(0.001..1.0), 64),
    ) -> Hardware {
        let (mut sources, mut shares) = (sources.into_iter().cycle(), shares.into_iter().cycle());
        let mut facts = Vec::new();
        let mut fact = |path: String| {
            let source = sources.next().unwrap();
            // A set-up may be none, which has no share.
            let rate = ["bandwidth", "read", "write"].iter().any(|field| path.ends_with(field));
            let uncertainty = shares.next().unwrap().filter(|_| rate).map(Uncertainty::share);
            facts.push(Fact { uncertainty, ..Fact::new(path, String::new(), source) });
        };
        let mut made = Vec::new();
        for (index, (kind, capacity, access)) in tiers.into_iter().enumerate() {
            let kind = if index == 0 { TierKind::Hbm } else { TierKind::ALL[kind] };
            if capacity.is_some() {
                fact(format!("tiers.t{index}.capacity"));
            }
            fact(format!("tiers.t{index}.setup"));
            fact(format!("tiers.t{index}.bandwidth"));
            let capacity = capacity.map_or(Capacity::Unlimited, |bytes| Bytes::new(bytes).into());
            made.push(Tier { name: format!("t{index}"), kind, capacity, access, loaded: None, requests: Default::default() });
        }
        let mut links = Vec::new();
        for (index, (fetch, evict, shared)) in laws.into_iter().enumerate().take(made.len() - 1) {
            for field in ["setup", "read", "write_setup", "write"] {
                fact(format!("links.l{index}.{field}"));
            }
            let ends = (TierId::at(index), TierId::at(index + 1));
            let mut link = Link::new(format!("l{index}"), ends, [fetch, evict]);
            link.service = shared.then(|| {
                for field in ["max_in_flight", "total"] {
                    fact(format!("links.l{index}.{field}"));
                }
                let (discipline, max_in_flight) = (Discipline::FairShare, Some(NonZeroU32::MIN));
                let total = Some(fetch.rate.max(evict.rate));
                Service { discipline, max_in_flight, total, ..Service::default() }
            });
            links.push(link);
        }
        let compute = compute.map(|(one, other)| {
            for field in ["flops.fp32", "memory", "launch"] {
                fact(format!("compute.{field}"));
            }
            let flops = vec![("fp32".to_owned(), FlopRate::new(one.rate.get()).unwrap())];
            let (name, efficiency) = ("device".into(), Default::default());
            let (memory, launch) = (other.rate, one.setup);
            Compute { name, flops, memory, launch, efficiency, op_times: None, attention: None }
        });
        let (tiers, links, facts) = (made.into(), links.into(), facts.into());
        let (about, compute) = (about.into(), compute.map(Into::into));
        Hardware { about, tiers, links, compute, chunk: Bytes::new(chunk), facts, ..read(TWO).unwrap() }
    }
}

proptest! {
    #[test]
    fn any_machine_reads_back_equal(machine in any_machine()) {
        let text = hardware_text(&machine, "written\nagain").unwrap();
        prop_assert!(text.starts_with("// written\n// again\nHardware(\n"), "{}", text);
        let again = read(&text).unwrap();
        // Values of facts are as written; all else is as it was.
        let sources = |machine: &Hardware| -> BTreeMap<String, Source> {
            machine.facts.iter().map(|fact| (fact.path.clone(), fact.source.clone())).collect()
        };
        prop_assert_eq!(sources(&again), sources(&machine));
        // Spreads are written to two digits.
        for fact in &machine.facts {
            let read = again.facts.iter().find(|read| read.path == fact.path).unwrap();
            let share = |fact: &Fact| fact.uncertainty.as_ref().and_then(Uncertainty::relative);
            let (wanted, found) = (share(fact), share(read));
            prop_assert_eq!(wanted.is_some(), found.is_some());
            let off = found.zip(wanted).map_or(0.0, |(found, wanted)| (found / wanted - 1.0).abs());
            prop_assert!(off < 0.051, "{:?} {:?}", wanted, found);
        }
        let bare = |machine: &Hardware| Hardware { facts: Default::default(), ..machine.clone() };
        prop_assert_eq!(bare(&again), bare(&machine));
        prop_assert_eq!(hardware_text(&again, "written\nagain").unwrap(), text);
    }
}

/// A machine whose link has all that is written.
fn both_ways() -> Hardware {
    read(&TWO.replace("write:", "write_setup: (us(9), measured(\"m\")), write:")).unwrap()
}

#[test]
fn numbers_are_written_in_units_that_people_use() {
    let mut machine = both_ways();
    machine.tiers[0].access = Law { setup: Span::from_ps(12_340), rate: Bandwidth::gb_per_s(3350) };
    machine.chunk = Bytes::new(64 << 10);
    let text = hardware_text(&machine, "").unwrap();
    for written in ["gb(80)", "ns(12.34)", "tb_per_s(3.35)", "us(9)", "gb_per_s(26)", "kib(64)"] {
        assert!(text.contains(written), "{written}:\n{text}");
    }
}

#[test]
fn what_would_not_be_read_back_is_refused() {
    let change = |change: &dyn Fn(&mut Hardware)| {
        let mut machine = both_ways();
        change(&mut machine);
        hardware_text(&machine, "").unwrap_err()
    };
    let found = change(&|m| drop(m.facts.all().remove(1)));
    assert_eq!(found, Unwritable::NoSource("tiers.hbm.setup".into()));
    let found = change(&|m| {
        let first = m.facts[0].clone();
        m.facts.all().push(first);
    });
    assert_eq!(found, Unwritable::Stray("tiers.hbm.capacity".into()));
    assert_eq!(change(&|m| m.server.devices = 2), Unwritable::Differs);
    let found = change(&|m| m.about.clear());
    assert!(matches!(&found, Unwritable::Refused(what) if what.contains("about")), "{found}");
}
