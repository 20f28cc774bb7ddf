//! Properties of trace folders over generated traces: what is written reads back equal, and a
//! damaged folder gives a trace that keeps every rule or a list of problems.

use crate::files::folder;
use proptest::prelude::*;
use std::fs;
use tiersim_input::trace::{Packing, read_trace, write_trace};
use tiersim_models::ids::{ModuleId, ObjectId, OpId, RankId};
use tiersim_models::kernel::{Kernel, Product, Streaming, Work};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Collective, CollectiveKind, Known, Mode, Name, Object, ObjectKind, Op, PartialUse, Phase,
    Recorded, Statistics, Trace, TraceMeta, Unit, Use,
};

fn any_name() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z,\"';. é#]{1,12}").unwrap()
}

prop_compose! {
    fn any_object()(
        name in any_name(), kind in 0..7usize, bytes in 1..1u64 << 40, module in 0..4usize,
        m in proptest::option::of(0.0..f64::MAX), norm in proptest::option::of(0.0..1e-300f64),
    ) -> (String, ObjectKind, u64, usize, Statistics) {
        let statistics = Statistics { adam_m: m, adam_v: None, grad_norm: norm };
        (name, ObjectKind::ALL[kind], bytes, module, statistics)
    }
}

prop_compose! {
    fn any_trace()(
        objects in proptest::collection::vec(any_object(), 0..6),
        ops in proptest::collection::vec(
            (any_name(), 0..6usize, 0..3u16, proptest::option::of(0..1u64 << 50), 0..1u64 << 50),
            1..8,
        ),
        pick in proptest::collection::vec(0..1000usize, 40),
        about in ".{0,40}",
    ) -> Trace {
        let (last, mut uses, mut pick) = (ops.len() as u32 - 1, Vec::new(), pick.into_iter().cycle());
        let mut seen = vec![false; objects.len()];
        let ops: Vec<Op> = ops.into_iter().enumerate().map(|(index, (name, phase, stream, d, at))| {
            let from = uses.len() as u32;
            for (object, seen) in seen.iter_mut().enumerate() {
                let choice = pick.next().unwrap_or(0) % 4;
                let modes = [Mode::Read, Mode::Write, Mode::ReadWrite];
                let Some(&mode) = modes.get(choice) else { continue };
                let mode = if std::mem::replace(seen, true) { mode } else { Mode::Write };
                uses.push(Use::whole(ObjectId(object as u32), mode));
            }
            let after = if index > 0 { vec![OpId(index as u32 - 1)] } else { vec![] };
            let product = Work::Product(Product::new(at, 3, u64::from(stream)));
            let kernel = Kernel { times: at, ..Kernel::new(product, at.into(), at.into()) };
            let norm = Kernel::new(Work::Streaming(Streaming::Norm), 0, 1);
            Op {
                step: index as u32 / 3, phase: Phase::ALL[phase], name: name.into(), module: None,
                stream,
                rank: RankId(0), duration: d.map(Span::from_ps), flops: at, bytes: Bytes::new(at),
                at: Some(Time::from_ps(at)), after, unit: Unit::Device, release: None,
                kernels: (index % 3 < 2).then(|| [kernel, norm][index % 3..].into()),
                uses: from..uses.len() as u32,
            }
        }).collect();
        // Modules in the order of their first use, as a reader numbers them.
        let mut modules: Vec<Name> = Vec::new();
        let objects = objects.into_iter().enumerate().map(|(i, (name, kind, bytes, m, statistics))| {
            let module = (m > 0).then(|| {
                let name = format!("m,{m}");
                let known = modules.iter().position(|module| *module == name);
                let index = known.unwrap_or_else(|| { modules.push(name.into()); modules.len() - 1 });
                ModuleId(index as u32)
            });
            Object {
                persistent: m % 2 == 0, module, statistics,
                freed_after: (m == 1).then_some(OpId(last)),
                ..Object::new(format!("{name}{i}"), kind, Bytes::new(bytes))
            }
        }).collect();
        let meta = TraceMeta {
            name: "t".into(), about, precision: "fp32".into(), batch: 1, sequence: 2,
            recorded: Recorded { how: "\u{1}\n\"".into(), when: "é".into(), on: "\\".into() },
        };
        Trace { meta, modules, objects, ops, uses }
    }
}

/// Traces with all that a trace may say: units, pieces, releases, statistics step by step.
pub(crate) fn any_rich_trace() -> impl Strategy<Value = Trace> {
    (any_trace(), proptest::collection::vec(0..u64::MAX, 30)).prop_map(|(mut trace, picks)| {
        let mut picks = picks.into_iter().cycle();
        // Another one each time, also behind the end of the list.
        let mut turns = 0u64;
        let mut pick = |most: u64| {
            turns += 1;
            (picks.next().unwrap_or(0) ^ turns.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % most
        };
        for (index, op) in trace.ops.iter_mut().enumerate() {
            op.unit = match pick(8) {
                0..3 => Unit::Device,
                3 | 4 => Unit::Cpu,
                5 => Unit::Idle,
                _ => Unit::Network(Collective {
                    kind: CollectiveKind::ALL[pick(6) as usize],
                    bytes: Bytes::new(1 + pick(1 << 40)),
                    within: 1 + pick(8) as u32,
                    servers: 1 + pick(4) as u32,
                    times: 1 + pick(3) as u32,
                }),
            };
            op.release = (pick(5) == 0).then(|| Time::from_ps(pick(1 << 50)));
            op.at = op.at.filter(|_| pick(3) > 0);
            if pick(4) == 0 {
                (op.flops, op.bytes) = (pick(2), Bytes::new(pick(2)));
            }
            match pick(4) {
                0 => op.after.clear(),
                1 if index > 2 => op.after.insert(0, OpId(0)),
                _ => {}
            }
        }
        for one in &mut trace.uses {
            one.known = Known::ALL[pick(3) as usize];
            let whole = trace.objects[one.object.index()].bytes;
            if one.mode != Mode::Write && pick(3) == 0 {
                one.part = PartialUse::of(1 + u128::from(pick(9)), 1 + u128::from(pick(99)), whole);
            }
        }
        let steps = pick(4);
        for object in trace.objects.iter_mut().filter(|one| steps > 0 && one.bytes.get() % 2 == 0) {
            let of = |step: u64| Statistics {
                adam_m: (pick(3) > 0).then(|| step as f64 / 3.0),
                adam_v: None,
                grad_norm: (pick(2) > 0).then_some(f64::MIN_POSITIVE),
            };
            object.history = Some((0..steps).map(of).collect());
        }
        trace
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_valid_trace_reads_back_equal(trace in any_rich_trace()) {
        prop_assert_eq!(trace.problems(), vec![]);
        let folder = folder("any");
        write_trace(&trace, &folder, Packing::Smaller).unwrap();
        prop_assert_eq!(read_trace(&folder).unwrap(), trace);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        trace in any_rich_trace(),
        file in 0..4usize,
        at: proptest::sample::Index,
        byte: u8,
        cut: bool,
    ) {
        let folder = folder("damage");
        write_trace(&trace, &folder, Packing::Plain).unwrap();
        let file = folder.join(["trace.ron", "objects.csv", "ops.csv", "uses.csv"][file]);
        let mut bytes = fs::read(&file).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(if cut { at } else { bytes.len() });
        fs::write(&file, bytes).unwrap();
        match read_trace(&folder) {
            Ok(trace) => prop_assert_eq!(trace.problems(), vec![]),
            Err(problems) => prop_assert!(!problems.0.is_empty()),
        }
    }
}
