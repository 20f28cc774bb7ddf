//! State by layer: what overlaps with what, to the picosecond.

use crate::dynamic::{machine, play};
use tiersim_models::workload::Mode::{Read, ReadWrite, Write};
use tiersim_policies::zoo::layers::{Arrival, LayersConfig};
use tiersim_tests::prelude::*;

fn config(arrival: Arrival) -> PolicyConfig {
    LayersConfig { arrival, kinds: vec![ObjectKind::Weight], spill: vec![FAR] }.into()
}

/// One layer after the other: bytes of its weight, and how long it computes.
fn layers(layers: &[(u64, u64)], mode: Mode) -> Traced {
    let mut traced = Traced::new();
    for (index, &(bytes, _)) in layers.iter().enumerate() {
        traced.object(bytes, true);
        traced.0.modules.push(format!("layer{index}").into());
    }
    for (index, &(_, ps)) in layers.iter().enumerate() {
        let op = traced.op(0, 0, Span::from_ps(ps), &[(ObjectId::at(index), mode)]);
        traced.0.ops[op.index()].module = Some(ModuleId::at(index));
    }
    traced
}

#[test]
fn hooks_copy_and_compute_in_turn() {
    let list = [(1000, 600), (700, 900), (1000, 100)];
    let played = play(&machine(1000), layers(&list, Read), &config(Arrival::Hooks), 2);
    let all: u64 = list.iter().map(|(bytes, ps)| bytes + ps).sum();
    assert_eq!(*played.ends.last().expect("ops"), 2 * all);
    // Unchanged weights are dropped: nothing is written back.
    assert!(played.copies.iter().all(|&(.., to)| to != FAR));
    // With room for all of them they still leave after every layer.
    let roomy = play(&machine(10_000), layers(&list, Read), &config(Arrival::Hooks), 2);
    assert_eq!(roomy.ends, played.ends);
}

#[test]
fn double_buffering_takes_the_longer_of_compute_and_copy_and_one_first_fill() {
    let mut rng = ChaCha12Rng::seed_from_u64(5);
    for case in 0..200 {
        let count = rng.random_range(1..8);
        let list: Vec<(u64, u64)> =
            (0..count).map(|_| (rng.random_range(1..2000), rng.random_range(1..2000))).collect();
        let most = list.iter().map(|&(bytes, _)| bytes).max().expect("a layer");
        let buffers = config(Arrival::DoubleBuffering);
        let played = play(&machine(2 * most), layers(&list, Read), &buffers, 1);
        let copies = list.iter().skip(1).map(|&(bytes, _)| bytes).chain([0]);
        let overlapped: u64 = list.iter().zip(copies).map(|(&(_, ps), copy)| ps.max(copy)).sum();
        assert_eq!(played.ends[count - 1], list[0].0 + overlapped, "case {case}: {list:?}");
    }
}

#[test]
fn what_a_layer_changed_leaves_while_the_next_one_computes() {
    // Layer i computes 1000, i + 1 comes in 400 and i - 1 goes in 400, the other way.
    let list = [(400, 1000); 6];
    let buffers = config(Arrival::DoubleBuffering);
    let played = play(&machine(800), layers(&list, ReadWrite), &buffers, 2);
    // The buffer of i - 1 is free for i + 1 once it has been written back: 800 of the 1000.
    assert_eq!(*played.ends.last().expect("ops"), 400 + 12 * 1000);
    let back = played.copies.iter().filter(|&&(.., to)| to == FAR).count();
    assert_eq!(back, 11, "the last layer is still there");
}

#[test]
fn looking_further_ahead_hides_a_long_copy_behind_several_layers() {
    let list = [(10, 1000), (10, 1000), (10, 1000), (2500, 1000)];
    let end = |arrival| {
        let played = play(&machine(10_000), layers(&list, Read), &config(arrival), 1);
        *played.ends.last().expect("ops")
    };
    assert_eq!(end(Arrival::Hooks), 2530 + 4000);
    assert_eq!(end(Arrival::LookAhead(1)), 10 + 3000 + 1500 + 1000);
    assert_eq!(end(Arrival::LookAhead(2)), 10 + 3000 + 500 + 1000);
    assert_eq!(end(Arrival::LookAhead(3)), 10 + 4000);
    assert_eq!(end(Arrival::LookAhead(100)), 10 + 4000);
}

#[test]
fn only_double_buffering_makes_others_leave_for_the_next_layer() {
    let traced = || {
        let mut traced = layers(&[], Read);
        let other = traced.object(500, false);
        let [first, second] = [traced.object(400, true), traced.object(400, true)];
        let uses = [(other, Write), (first, Read), (second, Read), (other, Read)];
        for (index, touched) in uses.into_iter().enumerate() {
            traced.0.modules.push(format!("layer{index}").into());
            let op = traced.op(0, 0, Span::from_ps(1000), &[touched]);
            traced.0.ops[op.index()].module = Some(ModuleId::at(index));
        }
        traced
    };
    let moved = |arrival| {
        let played = play(&machine(1000), traced(), &config(arrival), 1);
        (played.ends[3], played.copies.iter().filter(|&&(.., to)| to == FAR).count())
    };
    // The first layer is fetched while the op before it computes; the second finds no free room,
    // and takes that of the first, which is over.
    assert_eq!(moved(Arrival::LookAhead(1)), (4400, 0));
    // Here the other object leaves (500) behind the first op, the second layer comes (400) beside
    // the first, and the other comes back (500) beside the second.
    assert_eq!(moved(Arrival::DoubleBuffering).1, 1);
}
