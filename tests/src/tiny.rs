//! The generated trace `traces/tiny-train`: a layered training run small enough for real memory.
//!
//! Six layers, each with weights, gradients, Adam state and an activation that lives from forward
//! to backward. Sizes and durations are chosen, not measured: ops are long against what starting a
//! thread costs, and the whole is a few MB.

use crate::prelude::*;
use tiersim_models::workload::{Object, Recorded, TraceMeta};

const LAYERS: usize = 6;
const STEPS: u32 = 2;
/// Steps of a run whose statistics are known.
const TURNS: usize = 6;
const KIB: u64 = 1024;

/// The trace; always the same.
pub fn tiny_train() -> Trace {
    let meta = TraceMeta {
        name: "tiny-train".to_owned(),
        about: "generated: 6 layers, 2 training steps with Adam, 3.4 MB; durations are chosen \
                (forward 0.4 ms, backward 0.8 ms, optimizer 0.6 ms per layer)"
            .to_owned(),
        precision: "fp32".to_owned(),
        batch: 1,
        sequence: 64,
        recorded: Recorded::default(),
    };
    let mut trace = Traced::new();
    trace.0.meta = meta;
    trace.0.modules = (0..LAYERS).map(|layer| format!("h.{layer}").into()).collect();
    let state: Vec<[ObjectId; 3]> =
        (0..LAYERS).map(|layer| layer_state(&mut trace, layer)).collect();
    for step in 0..STEPS {
        one_step(&mut trace, step, &state);
    }
    trace.0
}

/// Weight, gradient and optimizer state of a layer.
fn layer_state(trace: &mut Traced, layer: usize) -> [ObjectId; 3] {
    use ObjectKind::{Gradient, Optimizer, Weight};
    [(Weight, "weight", 128), (Gradient, "weight.grad", 128), (Optimizer, "weight.adam", 256)]
        .map(|(kind, name, kib)| object(trace, format!("h.{layer}.{name}"), kind, kib, Some(layer)))
}

fn one_step(trace: &mut Traced, step: u32, state: &[[ObjectId; 3]]) {
    use Mode::{Read, ReadWrite, Write};
    let mut outputs: Vec<ObjectId> = Vec::new();
    for (layer, &[weight, ..]) in state.iter().enumerate() {
        let name = format!("step{step}.h.{layer}.out");
        let out = object(trace, name, ObjectKind::Activation, 64, None);
        let mut uses = vec![(weight, Read), (out, Write)];
        uses.extend(outputs.last().map(|&before| (before, Read)));
        outputs.push(out);
        op(trace, (step, Phase::Forward, "forward", layer), 400, &uses);
    }
    for (layer, &[weight, gradient, _]) in state.iter().enumerate().rev() {
        let uses = [(weight, Read), (outputs[layer], Read), (gradient, Write)];
        op(trace, (step, Phase::Backward, "backward", layer), 800, &uses);
    }
    for (layer, &[weight, gradient, adam]) in state.iter().enumerate() {
        let uses = [(gradient, Read), (adam, ReadWrite), (weight, ReadWrite)];
        op(trace, (step, Phase::Optimizer, "adam", layer), 600, &uses);
    }
}

/// `layer` for state that persists; activations have none.
fn object(
    trace: &mut Traced,
    name: String,
    kind: ObjectKind,
    kib: u64,
    layer: Option<usize>,
) -> ObjectId {
    // Falling from layer to layer, so that a policy by Adam score has something to rank.
    let score = layer.filter(|_| kind == ObjectKind::Weight).map(|layer| 1.0 / (layer + 1) as f64);
    // Each layer's turn to be first comes, so that a policy that ranks again has something to move.
    let turn = |step: usize, layer: usize| {
        let score = Some(1.0 / ((layer + step) % LAYERS + 1) as f64);
        Statistics { adam_m: score, adam_v: score, grad_norm: score }
    };
    let ranked = layer.filter(|_| score.is_some());
    trace.add(Object {
        history: ranked.map(|layer| (0..TURNS).map(|step| turn(step, layer)).collect()),
        dtype: "float32".to_owned(),
        persistent: layer.is_some(),
        module: layer.map(ModuleId::at),
        statistics: Statistics { adam_m: score, adam_v: score, grad_norm: None },
        ..Object::new(name, kind, Bytes::new(kib * KIB))
    })
}

fn op(
    trace: &mut Traced,
    (step, phase, name, layer): (u32, Phase, &str, usize),
    us: u64,
    uses: &[(ObjectId, Mode)],
) {
    let (module, duration) = (Some(ModuleId::at(layer)), Some(Span::from_us(us)));
    let bytes = trace.bytes(uses);
    trace.run(Op { module, duration, bytes, ..Op::new(step, phase, name, 0..0) }, uses);
}
