//! The choice by layer against all choices, through the simulator.

use super::*;
use tiersim_tests::soak::seed_of;

/// Layers of two inner activations and an output each, sizes and times by a rule without pattern.
fn uneven(layers: usize) -> Trace {
    use Mode::{Read, Write};
    let mut traced = Traced::new();
    traced.0.modules = (0..layers).map(|layer| format!("h.{layer}").into()).collect();
    let mut number = 0;
    let mut draw = |least: u64, most: u64| {
        number += 1;
        least + seed_of(11, number) % (most - least)
    };
    let op = |traced: &mut Traced, phase, layer, ps, uses: &[_]| {
        let id = traced.op(0, 0, Span::from_ps(ps), uses);
        let op = &mut traced.0.ops[id.index()];
        (op.phase, op.module) = (phase, Some(ModuleId::at(layer)));
    };
    let mut handed = Vec::new();
    let mut made = Vec::new();
    for layer in 0..layers {
        let [a, b, out] = [draw(5, 60), draw(5, 60), 10].map(|bytes| traced.object(bytes, false));
        let mut uses: Vec<_> = handed.iter().map(|&x| (x, Read)).collect();
        let inputs = uses.clone();
        uses.push((a, Write));
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &uses);
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &[(a, Read), (b, Write)]);
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &[(b, Read), (out, Write)]);
        made.push(inputs.into_iter().chain([(a, Read), (b, Read)]).collect::<Vec<_>>());
        handed = vec![out];
    }
    let mut gradient = handed[0];
    for (layer, uses) in made.iter().enumerate().rev() {
        let new = traced.object(10, false);
        let mut uses = uses.clone();
        uses.extend([(gradient, Read), (new, Write)]);
        op(&mut traced, Phase::Backward, layer, draw(20, 120), &uses);
        gradient = new;
    }
    assert_eq!(traced.0.problems(), []);
    traced.0
}

/// Through the simulator, against every choice by layer.
#[test]
fn the_best_choice_is_close_to_that_of_all_choices_run() {
    let trace = uneven(6);
    let how = How { audit: false, ..ONCE };
    let treatments = [Treatment::Keep, Treatment::Offload, Treatment::Recompute];
    let (mut found, mut least) = (0, 0);
    for (hbm, rate) in [(160, ONE / 4), (160, ONE), (180, ONE / 4), (180, ONE / 2), (220, ONE / 4)]
    {
        let time = |choice| step((hbm, rate), &trace, choice, how).expect("it fits");
        let all = (0..729usize).map(|number| {
            let treatment = |at: u32| treatments[number / 3usize.pow(at) % 3];
            time(Choice::Each((0..6).map(treatment).collect()))
        });
        let optimum = all.min().expect("there are choices");
        let best = time(Choice::Best);
        eprintln!("{hbm} bytes, {rate} B/s: {best} where {optimum} is possible");
        assert!(best * 100 <= optimum * 105, "{best} where {optimum} is possible");
        (found, least) = (found + best, least + optimum);
    }
    assert!(found * 100 <= least * 103, "{found} in all where {least} is possible");
}
