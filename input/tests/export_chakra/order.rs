//! What nodes wait for and what is moved, against definitions written down naively.

use super::messages::{Message, attribute, messages, number, numbers};
use super::{exported, object, op};
use crate::trace_properties::any_rich_trace;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_input::export::chakra::Detail;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::workload::{Mode, Trace, Unit, Use};

const LOAD: u64 = 2;
const STORE: u64 = 3;

/// By node all that must have ended before it starts.
fn before(nodes: &[Message]) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut all: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for node in nodes {
        let id = number(node, 1).unwrap();
        let mut earlier = BTreeSet::new();
        for awaited in numbers(node, 5) {
            earlier.insert(awaited);
            earlier.extend(&all[&awaited]);
        }
        all.insert(id, earlier);
    }
    all
}

/// By op the earlier ones that it must wait for by the trace's own rules, directly or not.
fn wanted(trace: &Trace) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for (late, op) in trace.ops.iter().enumerate() {
        let mut earlier = BTreeSet::new();
        for (early, before) in all.iter().enumerate() {
            let conflict = trace.uses_of(OpId::at(early)).iter().any(|one| {
                let others = trace.uses_of(OpId::at(late)).iter();
                let mut same = others.filter(|other| other.object == one.object);
                same.any(|other| one.mode.writes() || other.mode.writes())
            });
            let named = op.after.contains(&OpId::at(early));
            if conflict || named || trace.ops[early].stream == op.stream {
                earlier.insert(early);
                earlier.extend(before);
            }
        }
        all.push(earlier);
    }
    all
}

/// Loads and stores of each object: for each use that reads, whether the use before it that was on
/// the same side or wrote was on the other side, counted around the end for what persists.
fn moves(trace: &Trace) -> BTreeMap<(u64, u64), u64> {
    let mut all = BTreeMap::new();
    for object in 0..trace.objects.len() {
        let mut uses = Vec::new();
        for (id, op) in trace.ops.iter().enumerate() {
            let own = trace.uses_of(OpId::at(id)).iter();
            let own = own.filter(|one| one.object.index() == object);
            uses.extend(own.map(|one| (op.unit == Unit::Cpu, one.mode)));
        }
        let around = if trace.objects[object].persistent { uses.clone() } else { Vec::new() };
        for (at, &(side, mode)) in uses.iter().enumerate() {
            let mut earlier = around.iter().chain(&uses[..at]).rev();
            let last = earlier.find(|(other, mode)| *other == side || mode.writes());
            if mode.reads() && last.is_some_and(|(other, _)| *other != side) {
                let kind = if side { STORE } else { LOAD };
                *all.entry((kind, trace.objects[object].bytes.get())).or_default() += 1;
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_node_waits_for_what_it_must_and_for_nothing_else(trace in any_rich_trace()) {
        let all = messages(&exported(&trace, Detail::Whole).bytes);
        let nodes = &all[1..];
        let before = before(nodes);
        let ops = nodes.iter().filter_map(|node| {
            Some((attribute(node, "tiersim_op_id")? as usize, number(node, 1).unwrap()))
        });
        let ops: BTreeMap<usize, u64> = ops.collect();
        prop_assert_eq!(ops.len(), trace.ops.len());
        let moves = nodes.iter().any(|node| matches!(number(node, 3), Some(LOAD | STORE)));
        for (late, wanted) in wanted(&trace).into_iter().enumerate() {
            let earlier = &before[&ops[&late]];
            for early in 0..late {
                let waits = earlier.contains(&ops[&early]);
                prop_assert!(waits || !wanted.contains(&early), "{late} does not wait for {early}");
                // Copies of a direction wait for each other, and so may what needs them.
                prop_assert!(moves || !waits || wanted.contains(&early), "{late} waits for {early}");
            }
        }
    }

    #[test]
    fn what_one_side_wrote_and_the_other_reads_is_moved(trace in any_rich_trace()) {
        let all = messages(&exported(&trace, Detail::Plain).bytes);
        let mut found = BTreeMap::new();
        for node in &all[1..] {
            if let Some(kind @ (LOAD | STORE)) = number(node, 3) {
                *found.entry((kind, attribute(node, "tensor_size").unwrap())).or_default() += 1;
            }
        }
        prop_assert_eq!(found, moves(&trace));
    }
}

/// An update on the host, as ZeRO-Offload has it: gradients go out, weights come back.
#[test]
fn an_update_on_the_host_stores_gradients_and_loads_weights() {
    let mut trace = super::tiny(vec![
        object("weight", true),
        object("moments", true),
        object("gradient", false),
    ]);
    let [weight, moments, gradient] = [0, 1, 2].map(ObjectId);
    op(&mut trace, "forward", Unit::Device, &[Use::whole(weight, Mode::Read)]);
    let backward = [Use::whole(weight, Mode::Read), Use::whole(gradient, Mode::Write)];
    op(&mut trace, "backward", Unit::Device, &backward);
    let update = [
        Use::whole(gradient, Mode::Read),
        Use::whole(moments, Mode::ReadWrite),
        Use::whole(weight, Mode::Write),
    ];
    op(&mut trace, "adam", Unit::Cpu, &update);
    let all = messages(&exported(&trace, Detail::Plain).bytes);
    let told = |node: &Message| {
        let name = node.iter().find(|(of, _)| *of == 2).unwrap();
        let super::messages::Held::Bytes(name) = &name.1 else { panic!("a name is text") };
        let name = String::from_utf8(name.clone()).unwrap();
        (number(node, 1).unwrap(), number(node, 3).unwrap(), name, numbers(node, 5))
    };
    let nodes: Vec<_> = all[1..].iter().map(told).collect();
    let node = |id, kind, name: &str, after: &[u64]| (id, kind, name.to_owned(), after.to_vec());
    assert_eq!(
        nodes,
        [
            // The step before left the weight on the host.
            node(1, LOAD, "load weight", &[]),
            node(2, 4, "forward", &[1]),
            node(3, 4, "backward", &[1, 2]),
            node(4, STORE, "store gradient", &[3]),
            // Behind those that read what it overwrites; moments never leave the host.
            node(5, 4, "adam", &[1, 3, 4]),
        ]
    );
}
