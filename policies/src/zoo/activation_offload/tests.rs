//! The search in its own model.

use super::choose::{Search, Treatment};
use super::layers::Layers;
use crate::recipe::Setting;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::hardware::{Capacity, Hardware, Law, Link, Tier, TierKind};
use tiersim_models::ids::{ModuleId, NodeId, ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bandwidth, Bytes, Span};
use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Use};

fn machine(hbm: u64, rate: u64) -> Hardware {
    let law = Law { setup: Span::ZERO, rate: Bandwidth::new(rate).expect("above zero") };
    let tier = |(name, kind, capacity): (&str, _, _)| Tier {
        name: name.to_owned(),
        kind,
        capacity,
        access: law,
        loaded: None,
        requests: Default::default(),
    };
    let tiers = [
        ("hbm", TierKind::Hbm, Bytes::new(hbm).into()),
        ("dram", TierKind::Dram, Capacity::Unlimited),
    ];
    Hardware {
        name: "test".to_owned(),
        about: String::new().into(),
        tiers: tiers.map(tier).into(),
        nodes: Vec::new(),
        links: vec![Link::new("link".to_owned(), (NodeId::at(0), NodeId::at(1)), [law; 2])].into(),
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

/// Layers that make some activations each and hand one on, and their backward; sizes and times
/// drawn.
fn chain(layers: usize, rng: &mut ChaCha12Rng) -> Workload {
    let modules = (0..layers).map(|layer| format!("h.{layer}").into()).collect();
    let (objects, ops, uses) = Default::default();
    let mut trace = Trace { meta: TraceMeta::default(), modules, objects, ops, uses };
    let object = |trace: &mut Trace, bytes| {
        trace.objects.push(Object::new(
            format!("o{}", trace.objects.len()),
            ObjectKind::Activation,
            Bytes::new(bytes),
        ));
        ObjectId::at(trace.objects.len() - 1)
    };
    let op = |trace: &mut Trace, phase, layer, ps, uses: &[(ObjectId, Mode)]| {
        let start = trace.uses.len() as u32;
        trace.uses.extend(uses.iter().map(|&(object, mode)| Use::whole(object, mode)));
        let mut op = Op::new(0, phase, "op", start..trace.uses.len() as u32);
        (op.module, op.duration) = (Some(ModuleId::at(layer)), Some(Span::from_ps(ps)));
        trace.ops.push(op);
    };
    let mut handed: Option<ObjectId> = None;
    let mut made = Vec::new();
    for layer in 0..layers {
        let mut before = handed;
        let mut own = Vec::from_iter(before);
        for last in [false, false, true] {
            let new = object(&mut trace, rng.random_range(if last { 5..10 } else { 5..40 }));
            let reads = before.map(|object| (object, Mode::Read));
            let uses: Vec<_> = reads.into_iter().chain([(new, Mode::Write)]).collect();
            op(&mut trace, Phase::Forward, layer, rng.random_range(5..40), &uses);
            before = Some(new);
            if last { handed = Some(new) } else { own.push(new) }
        }
        made.push(own);
    }
    let mut gradient = handed.expect("there is a layer");
    for (layer, own) in made.iter().enumerate().rev() {
        let new = object(&mut trace, 8);
        let reads = own.iter().chain([&gradient]).map(|&object| (object, Mode::Read));
        let uses: Vec<_> = reads.chain([(new, Mode::Write)]).collect();
        op(&mut trace, Phase::Backward, layer, rng.random_range(20..120), &uses);
        gradient = new;
    }
    assert_eq!(trace.problems(), []);
    Workload::new(trace)
}

const ALL: [Treatment; 3] = [Treatment::Keep, Treatment::Offload, Treatment::Recompute];

/// Runs what is asked for a chain on a machine.
fn ask<T>(workload: &Workload, hardware: &Hardware, ask: impl FnOnce(&Setting<'_>) -> T) -> T {
    let memory = hardware.memory();
    let spans = workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO));
    let spans: Vec<Span> = spans.collect();
    let copies = CopyTimes::new(hardware, &hardware.routes().expect("they are joined"));
    let (memory, spans, copies) = (&memory, &spans[..], &copies);
    ask(&Setting { workload, hardware, memory, spans, copies, repeat: 1 })
}

/// The descent, against every choice.
#[test]
fn the_search_is_no_worse_than_any_pure_choice_and_close_to_all_of_them() {
    let (mut found, mut least, mut better) = (0, 0, 0);
    for seed in 0..12 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let workload = chain(6, &mut rng);
        let hardware = machine([150, 220][seed as usize % 2], 500_000_000_000 << (seed % 3));
        ask(&workload, &hardware, |setting| {
            let layers = Layers::of(&workload.trace, false);
            let how = (&[TierId(1)][..], 32);
            let mut search = Search::new(setting, &layers, how, &ALL).expect("they are joined");
            let best = search.descent().expect("it is searched");
            let cost = search.cost(&best).expect("known").expect("it fits");
            for treatment in ALL {
                let pure = search.cost(&vec![treatment; best.len()]).expect("known");
                assert!(pure.is_none_or(|pure| cost <= pure), "seed {seed}: {treatment:?}");
                better += u32::from(pure.is_none_or(|pure| cost < pure));
            }
            let all = (0..3usize.pow(6)).map(|number| {
                let treatment = |at: u32| ALL[number / 3usize.pow(at) % 3];
                let choice: Vec<Treatment> = (0..6).map(treatment).collect();
                search.cost(&choice).expect("it is planned").expect("it fits")
            });
            let optimum = all.min().expect("there are choices");
            assert!(cost >= optimum);
            assert!(cost * 100 <= optimum * 110, "seed {seed}: {cost} where {optimum} is possible");
            (found, least) = (found + cost, least + optimum);
        });
    }
    assert!(found * 100 <= least * 103, "{found} in all where {least} is possible");
    assert!(better > 12, "mixed choices matter here");
}
