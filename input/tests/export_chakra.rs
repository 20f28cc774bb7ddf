//! Traces as files of Chakra: read back they are what they were; without our own attributes, and to
//! a script that knows neither us nor a library of protobuf, they are sound files all the same.

mod changed;
mod json;
mod messages;
mod order;

use crate::files::file;
use crate::trace_properties::any_rich_trace;
use messages::{attribute, number, without};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tiersim_input::export::chakra::{Counts, Detail, Exported, export_chakra};
use tiersim_input::import::chakra::{Imported, import_chakra};
use tiersim_input::trace::read_trace;
use tiersim_models::ids::ObjectId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Collective, CollectiveKind, Gaps, Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Unit,
    Use,
};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{Kernels, Parallel, Router, Training, Zero};

fn exported(trace: &Trace, detail: Detail) -> Exported {
    export_chakra(trace, Path::new("a trace"), detail).unwrap_or_else(|error| panic!("{error}"))
}

fn written(bytes: &[u8]) -> PathBuf {
    file("export-chakra", "trace.et", bytes)
}

fn imported(bytes: &[u8]) -> Imported {
    import_chakra(&written(bytes), Gaps::Keep).unwrap_or_else(|error| panic!("{error}"))
}

fn is_own(name: &str) -> bool {
    name.starts_with("tiersim_")
}

fn tiny(objects: Vec<Object>) -> Trace {
    let meta = TraceMeta { batch: 1, sequence: 1, ..TraceMeta::default() };
    Trace { meta, modules: Vec::new(), objects, ops: Vec::new(), uses: Vec::new() }
}

fn object(name: &str, persistent: bool) -> Object {
    Object { persistent, ..Object::new(name, ObjectKind::Buffer, Bytes::new(64)) }
}

fn op(trace: &mut Trace, name: &str, unit: Unit, uses: &[Use]) {
    let start = trace.uses.len() as u32;
    trace.uses.extend(uses);
    let op = Op::new(0, Phase::Other, name, start..trace.uses.len() as u32);
    trace.ops.push(Op { unit, ..op });
}

fn shipped(name: &str) -> Trace {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    read_trace(&root.join(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// ZeRO on two servers with half of the update on the host, pipelines, tensor and expert parallel.
fn trainings() -> Vec<Trace> {
    let card = |name: &str| known(name).unwrap_or_else(|| panic!("{name}")).card();
    let (data, tensor, pipeline) = (8, 2, 2);
    let zero = |stage, host_update| Zero { stage, host_update, ..Zero::default() };
    let of = |name: &str| Training::new(card(name), 512);
    let jobs = [
        Training {
            parallel: Parallel { data, ..Parallel::default() },
            zero: zero(3, 500),
            devices: 4,
            ..of("gpt2")
        },
        Training {
            parallel: Parallel { data, tensor, pipeline, ..Parallel::default() },
            zero: zero(1, 0),
            batch: 4,
            ..of("llama-2-7b")
        },
        Training {
            parallel: Parallel { data, expert: 8, ..Parallel::default() },
            zero: zero(2, 1000),
            ..of("mixtral-8x7b")
        },
    ];
    jobs.iter().map(Training::trace).collect()
}

fn generation(attention: AttentionOn) -> Trace {
    let card = known("opt-1.3b").or_else(|| known("gpt2")).expect("a small model is known").card();
    let job = Generation {
        card,
        formats: Formats::all(Format::Fp16),
        batch: 2,
        batches: 1,
        prompt: 16,
        tokens: 3,
        prefill: true,
        attention,
        kernels: Kernels::Compiled,
        kv_block: None,
        tensor: if attention == AttentionOn::Device { 2 } else { 1 },
        context: 1,
        devices: 2,
        router: Router::default(),
    };
    job.trace()
}

/// What must hold of any trace that is written.
#[track_caller]
fn check(trace: &Trace) -> Counts {
    let whole = exported(trace, Detail::Whole);
    let back = imported(&whole.bytes);
    assert!(back.trace == *trace, "{} is another when it is read back", trace.meta.name);
    let Counts { data, micros, timed, describing, loads, stores, .. } = whole.counts;
    let account = &back.account;
    assert!(account.own);
    assert_eq!((account.nodes, account.data), (whole.counts.nodes(), data));
    assert_eq!((account.micros, account.timed), (micros, timed));
    assert_eq!(account.memory, loads.0 + stores.0);

    // As JSON it is the same file.
    let json = |bytes: &[u8]| imported(json::jsonized(bytes).as_bytes());
    assert!(json(&whole.bytes) == back, "{} is another as JSON", trace.meta.name);

    // The public part says the same without us, and is all of a plain file.
    let plain = exported(trace, Detail::Plain);
    assert_eq!(plain.counts, Counts { describing: 0, ..whole.counts.clone() });
    assert_eq!(whole.counts.nodes() - plain.counts.nodes(), describing);
    assert_eq!(without(&plain.bytes, is_own), plain.bytes);
    assert!(json(&plain.bytes) == imported(&plain.bytes), "{} as JSON", trace.meta.name);
    for bytes in [&plain.bytes, &without(&whole.bytes, is_own)] {
        let Imported { trace: other, account } = imported(bytes);
        assert_eq!(other.problems(), []);
        assert!(!account.own);
        assert_eq!((account.missing, account.contradicted, account.unread), (0, 0, 0));
        let flops: u128 = other.ops.iter().map(|op| u128::from(op.flops)).sum();
        let alone = |flops: u64, bytes: u64| flops.max(u64::from(bytes > 0));
        let each = trace.ops.iter().map(|op| alone(op.flops, op.bytes.get()));
        let wanted: u128 = each.map(u128::from).sum();
        assert_eq!(flops, wanted);
    }
    streams_last_as_long(trace, &whole.bytes);
    whole.counts
}

/// Whole microseconds are off by half of one at most, however many ops a stream has.
fn streams_last_as_long(trace: &Trace, bytes: &[u8]) {
    let mut streams: BTreeMap<u16, (u128, u128)> = BTreeMap::new();
    for op in &trace.ops {
        streams.entry(op.stream).or_default().0 +=
            op.duration.map_or(0, |span| u128::from(span.ps()));
    }
    for node in &messages::messages(bytes)[1..] {
        let Some(op) = attribute(node, "tiersim_op_id") else { continue };
        let sum = streams.get_mut(&trace.ops[op as usize].stream).unwrap();
        sum.1 += u128::from(number(node, 7).unwrap_or(0)) * 1_000_000;
    }
    for (stream, (wanted, found)) in streams {
        assert!(wanted.abs_diff(found) <= 500_000, "stream {stream}: {found} ps for {wanted}");
    }
}

#[test]
fn shipped_recordings_come_back_as_they_were() {
    for name in ["gpt2-train-cpu", "gpt2-train-h200", "tiny-train", "tiny-llama-cpu"] {
        let trace = shipped(name);
        let counts = check(&trace);
        assert_eq!(counts.compute, trace.ops.len() as u64, "{name}");
        assert_eq!((counts.loads.0, counts.stores.0, counts.collectives), (0, 0, 0), "{name}");
        let described = trace.modules.len() + trace.objects.len();
        let kept = trace.objects.iter().filter(|one| one.history.is_some()).count();
        assert_eq!(counts.describing, (described + kept) as u64, "{name}");
    }
}

#[test]
fn generated_steps_come_back_as_they_were() {
    for trace in trainings() {
        let counts = check(&trace);
        let count =
            |of: fn(&Unit) -> bool| trace.ops.iter().filter(|op| of(&op.unit)).count() as u64;
        let sends =
            count(|unit| matches!(unit, Unit::Network(of) if of.kind == CollectiveKind::SendRecv));
        assert_eq!(counts.sends, sends);
        assert_eq!(counts.collectives + sends, count(|unit| matches!(unit, Unit::Network(_))));
        assert!(counts.collectives > 0);
        let on_host = count(|unit| *unit == Unit::Cpu);
        assert_eq!(counts.host, on_host);
        assert_eq!(counts.loads.0 > 0 && counts.stores.0 > 0, on_host > 0);
    }
    for attention in [AttentionOn::Device, AttentionOn::Host] {
        let trace = generation(attention);
        let counts = check(&trace);
        assert_eq!(counts.collectives > 0, attention == AttentionOn::Device);
        assert_eq!(counts.loads.0 > 0, attention == AttentionOn::Host);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_comes_back_as_it_was(trace in any_rich_trace()) {
        prop_assert_eq!(trace.problems(), vec![]);
        let back = imported(&exported(&trace, Detail::Whole).bytes).trace;
        prop_assert_eq!(&back, &trace);
        let plain = imported(&exported(&trace, Detail::Plain).bytes).trace;
        prop_assert_eq!(plain.problems(), vec![]);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        trace in any_rich_trace(),
        at: proptest::sample::Index,
        byte: u8,
        cut: bool,
    ) {
        let mut bytes = exported(&trace, Detail::Whole).bytes;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(if cut { at } else { bytes.len() });
        match import_chakra(&written(&bytes), Gaps::Keep) {
            Ok(imported) => prop_assert_eq!(imported.trace.problems(), vec![]),
            Err(problems) => prop_assert!(!problems.0.is_empty()),
        }
    }
}

/// `tests/count_chakra_trace.py` shares no line with the reader or the writer.
#[test]
fn a_script_counts_the_same() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/count_chakra_trace.py");
    let mut traces = trainings();
    traces.push(shipped("gpt2-train-cpu"));
    for trace in traces {
        let Exported { bytes, counts } = exported(&trace, Detail::Whole);
        let path = written(&bytes);
        let Ok(ran) = Command::new("python3").arg(&script).arg(&path).output() else {
            eprintln!("there is no python3: nothing was counted");
            return;
        };
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let said = String::from_utf8(ran.stdout).unwrap();
        for (word, count) in [
            ("METADATA", counts.describing),
            ("MEM_LOAD", counts.loads.0),
            ("MEM_STORE", counts.stores.0),
            ("COMP", counts.compute),
            ("COMM_SEND", counts.sends),
            ("COMM_COLL", counts.collectives),
        ] {
            let shown = format!("'{word}': {count}");
            assert_eq!(said.contains(&shown), count > 0, "{shown}\n{said}");
        }
        let Counts { data, micros, timed, host, describing, .. } = counts;
        let (nodes, on_device) = (counts.nodes(), counts.nodes() - describing - host);
        assert!(said.contains(&format!("{nodes} nodes, 0 control and {data} data dependencies")));
        assert!(said.contains(&format!("{micros} us on {timed} of them")), "{said}");
        assert!(said.contains(&format!("{on_device} not on the host")), "{said}");
    }
}

#[test]
fn collectives_say_what_goes_in_on_one_rank() {
    let mut trace = tiny(vec![object("buffer", true)]);
    for (kind, bytes, times) in [
        (CollectiveKind::AllGather, 1001, 1),
        (CollectiveKind::ReduceScatter, 1000, 3),
        (CollectiveKind::AllReduce, 1000, 1),
        (CollectiveKind::AllToAll, 1000, 1),
        (CollectiveKind::Broadcast, 1000, 1),
        (CollectiveKind::SendRecv, 1000, 1),
    ] {
        let (bytes, servers) = (Bytes::new(bytes), if times == 1 { 2 } else { 1 });
        op(
            &mut trace,
            kind.word(),
            Unit::Network(Collective { kind, bytes, within: 4, servers, times }),
            &[],
        );
    }
    let Exported { bytes, counts } = exported(&trace, Detail::Whole);
    let nodes = messages::messages(&bytes);
    let nodes = nodes[1..].iter().filter(|node| attribute(node, "comm_size").is_some());
    let said = |node: &messages::Message| {
        let of = |name| attribute(node, name);
        (number(node, 3), of("comm_type"), of("comm_size"), of("group_size"))
    };
    let found: Vec<_> = nodes.map(said).collect();
    let collective = |kind, size, ranks| (Some(7), Some(kind), Some(size), Some(ranks));
    assert_eq!(
        found,
        [
            // An eighth, rounded up.
            collective(2, 126, 8),
            collective(7, 3000, 4),
            collective(0, 1000, 8),
            collective(6, 1000, 8),
            collective(5, 1000, 8),
            (Some(5), None, Some(1000), Some(8)),
        ]
    );
    let groups = [("1", "4x1"), ("2", "4x2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(counts.groups, groups);
    assert_eq!(imported(&bytes).trace, trace);
}

/// An op that uses so much that its node would be too long loses its tensors, and no use.
#[test]
fn an_op_that_uses_very_much_keeps_its_uses() {
    let mut trace = tiny((0..40_000).map(|id| object(&format!("o{id}"), true)).collect());
    let all = (0..40_000).map(tiersim_models::ids::ObjectId);
    let uses: Vec<Use> =
        all.map(|id| Use::whole(id, tiersim_models::workload::Mode::Read)).collect();
    op(&mut trace, "all", Unit::Device, &uses);
    let Exported { bytes, counts } = exported(&trace, Detail::Whole);
    assert_eq!(counts.long, 1);
    assert_eq!(imported(&bytes).trace, trace);
}

/// Its nodes are short, and what is kept of them is many times that.
#[test]
fn a_long_trace_of_short_nodes_is_read_back_without_our_attributes() {
    const OPS: usize = 250_000;
    let mut trace = tiny(vec![object("a", true)]);
    (0..OPS).for_each(|number| op(&mut trace, &format!("COMP_{number}"), Unit::Device, &[]));
    trace.uses.push(Use::whole(ObjectId(0), Mode::Write));
    trace.ops[OPS - 1].uses.end = 1;
    let Exported { bytes, .. } = exported(&trace, Detail::Plain);
    assert!(bytes.len() < 90 * OPS, "{} bytes", bytes.len());
    assert_eq!(imported(&bytes).trace.ops.len(), OPS);
}
