//! The generated trace `traces/varying-sequence`: 1,000 training steps, each of another length.
//!
//! A transformer of four layers in 16 bits whose batches are padded to their own longest sequence,
//! so that no two steps ask for the same sizes. Lifetimes are those of a plain training loop: what
//! forward saves dies in backward, gradients live until the optimizer has used them, Adam's state
//! is made in the first step, the next batch is loaded during this one, losses are kept for the
//! log. Sizes follow from the shape, FLOPs from sizes; nothing is measured.

use crate::prelude::*;
use tiersim_models::workload::{Object, Recorded, TraceMeta};

const STEPS: u32 = 1000;
const LAYERS: usize = 4;
const BATCH: u64 = 8;
const HIDDEN: u64 = 1024;
const VOCABULARY: u64 = 16_000;
/// Sequence lengths are drawn evenly from this range.
const LENGTHS: std::ops::RangeInclusive<u64> = 128..=2048;
/// Losses that the log keeps.
const KEPT: usize = 20;
/// Bytes of a number in 16 bits.
const HALF: u64 = 2;

/// What persists or is handed from step to step.
struct Loop {
    trace: Traced,
    embedding: ObjectId,
    /// Weights of attention and feed-forward of each layer.
    weights: Vec<[ObjectId; 2]>,
    adam: Vec<ObjectId>,
    losses: Vec<ObjectId>,
    step: u32,
}

/// The trace; always the same.
pub fn varying_sequence() -> Trace {
    let meta = TraceMeta {
        name: "varying-sequence".to_owned(),
        about: "generated: 4 transformer layers of width 1024 in 16 bits, batch 8, 1,000 training \
                steps with Adam, sequence length drawn evenly from 128 to 2048 for each step"
            .to_owned(),
        precision: "bf16".to_owned(),
        batch: BATCH as u32,
        sequence: ((LENGTHS.start() + LENGTHS.end()) / 2) as u32,
        recorded: Recorded::default(),
    };
    let mut trace = Traced::new();
    trace.0.meta = meta;
    trace.0.modules = (0..LAYERS).map(|layer| format!("h.{layer}").into()).collect();
    let mut weight = |name: String, numbers: u64, module| {
        object(&mut trace, name, ObjectKind::Weight, numbers * HALF, true, module)
    };
    let embedding = weight("embedding".to_owned(), VOCABULARY * HIDDEN, None);
    let weights = (0..LAYERS).map(|layer| {
        [("attention", 4), ("mlp", 8)].map(|(name, squares)| {
            weight(format!("h.{layer}.{name}"), squares * HIDDEN * HIDDEN, Some(layer))
        })
    });
    let weights = weights.collect();
    let (adam, losses) = (Vec::new(), Vec::new());
    let mut run = Loop { trace, embedding, weights, adam, losses, step: 0 };
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let lengths: Vec<u64> = (0..=STEPS).map(|_| rng.random_range(LENGTHS)).collect();
    let mut tokens = run.load(0, lengths[0]);
    for step in 0..STEPS {
        run.step = step;
        let length = lengths[step as usize];
        let next = lengths[step as usize + 1];
        tokens = run.one_step(length, tokens, next);
    }
    run.trace.0
}

impl Loop {
    fn make(&mut self, name: &str, kind: ObjectKind, bytes: u64) -> ObjectId {
        let name = format!("s{}.{name}", self.step);
        object(&mut self.trace, name, kind, bytes, false, None)
    }

    fn load(&mut self, batch: u32, length: u64) -> ObjectId {
        let name = format!("batch{batch}.tokens");
        let bytes = BATCH * length * 8;
        let tokens = object(&mut self.trace, name, ObjectKind::Buffer, bytes, false, None);
        self.op((Phase::Other, "load", None), 0, &[(tokens, Mode::Write)]);
        tokens
    }

    /// Returns the tokens of the next step.
    fn one_step(&mut self, length: u64, tokens: ObjectId, next: u64) -> ObjectId {
        use ObjectKind::{Activation, Buffer, Gradient};
        let rows = BATCH * length;
        let wide = |times: u64| rows * HIDDEN * times * HALF;
        let mut hidden = self.make("embedded", Activation, wide(1));
        let looked_up = [(tokens, Mode::Read), (self.embedding, Mode::Read), (hidden, Mode::Write)];
        self.op((Phase::Forward, "embed", None), 0, &looked_up);
        let next_tokens = self.load(self.step + 1, next);
        let mut saved = Vec::new();
        for layer in 0..LAYERS {
            let (out, kept) = self.forward(layer, hidden, rows, length);
            saved.push((hidden, kept));
            hidden = out;
        }
        let logits = self.make("logits", Activation, rows * VOCABULARY * HALF);
        let loss = self.make("loss", Buffer, 4);
        let flops = 2 * rows * HIDDEN * VOCABULARY;
        let uses = [hidden, self.embedding, tokens].map(|object| (object, Mode::Read));
        let uses = [&uses[..], &[(logits, Mode::Write), (loss, Mode::Write)]].concat();
        self.op((Phase::Forward, "loss", None), flops, &uses);
        let mut flowing = self.make("d.hidden", Activation, wide(1));
        let embedding_grad = self.make("d.embedding", Gradient, VOCABULARY * HIDDEN * HALF);
        let uses = [logits, hidden, self.embedding].map(|object| (object, Mode::Read));
        let made = [(flowing, Mode::Write), (embedding_grad, Mode::Write)];
        self.op((Phase::Backward, "loss", None), 2 * flops, &[&uses[..], &made].concat());
        let mut gradients = vec![embedding_grad];
        for (layer, (input, kept)) in saved.into_iter().enumerate().rev() {
            let made = self.backward(layer, input, &kept, flowing, rows, length);
            flowing = made[0];
            gradients.extend(&made[1..]);
        }
        self.optimize(&gradients);
        self.log(loss);
        next_tokens
    }

    /// The layer's output, and what backward needs: attention's four, then feed-forward's two.
    fn forward(
        &mut self,
        layer: usize,
        input: ObjectId,
        rows: u64,
        length: u64,
    ) -> (ObjectId, [ObjectId; 6]) {
        use Mode::{Read, Write};
        let widths = [("norm", 1), ("qkv", 3), ("mixed", 1), ("between", 1), ("up", 4), ("act", 4)];
        let [attention, mlp] = self.weights[layer];
        let mut make = |name: &str, times: u64| {
            let bytes = rows * HIDDEN * times * HALF;
            self.make(&format!("h{layer}.{name}"), ObjectKind::Activation, bytes)
        };
        let kept = widths.map(|(name, times)| make(name, times));
        let out = make("out", 1);
        let [norm, qkv, mixed, between, up, act] = kept;
        let made = [norm, qkv, mixed, between].map(|object| (object, Write));
        let uses = [&[(input, Read), (attention, Read)][..], &made].concat();
        let flops = rows * (8 * HIDDEN * HIDDEN + 4 * length * HIDDEN);
        self.op((Phase::Forward, "attention", Some(layer)), flops, &uses);
        let uses = [(between, Read), (mlp, Read), (up, Write), (act, Write), (out, Write)];
        self.op((Phase::Forward, "mlp", Some(layer)), 16 * rows * HIDDEN * HIDDEN, &uses);
        (out, kept)
    }

    /// The gradient that flows on, and those of the layer's weights.
    fn backward(
        &mut self,
        layer: usize,
        input: ObjectId,
        kept: &[ObjectId; 6],
        flowing: ObjectId,
        rows: u64,
        length: u64,
    ) -> [ObjectId; 3] {
        use Mode::{Read, Write};
        use ObjectKind::{Activation, Buffer, Gradient};
        let [attention, mlp] = self.weights[layer];
        let [norm, qkv, mixed, between, up, act] = *kept;
        let wide = |times: u64| rows * HIDDEN * times * HALF;
        let squares = |squares: u64| squares * HIDDEN * HIDDEN * HALF;
        let middle = self.make(&format!("d.h{layer}.between"), Activation, wide(1));
        let space = self.make(&format!("d.h{layer}.up"), Buffer, wide(4));
        let mlp_grad = self.make(&format!("d.h{layer}.mlp"), Gradient, squares(8));
        let read = [flowing, mlp, between, up, act].map(|object| (object, Read));
        let made = [middle, space, mlp_grad].map(|object| (object, Write));
        let flops = 32 * rows * HIDDEN * HIDDEN;
        self.op((Phase::Backward, "mlp", Some(layer)), flops, &[&read[..], &made].concat());
        let on = self.make(&format!("d.h{layer}.in"), Activation, wide(1));
        let space = self.make(&format!("d.h{layer}.qkv"), Buffer, wide(3));
        let attention_grad = self.make(&format!("d.h{layer}.attention"), Gradient, squares(4));
        let read = [middle, attention, input, norm, qkv, mixed].map(|object| (object, Read));
        let made = [on, space, attention_grad].map(|object| (object, Write));
        let flops = rows * (16 * HIDDEN * HIDDEN + 10 * length * HIDDEN);
        self.op((Phase::Backward, "attention", Some(layer)), flops, &[&read[..], &made].concat());
        [on, mlp_grad, attention_grad]
    }

    /// Adam in 32 bits: two moments and a master copy for each number, made in the first step.
    fn optimize(&mut self, gradients: &[ObjectId]) {
        let layers = self.weights.iter().rev().flat_map(|&[attention, mlp]| [mlp, attention]);
        let weights: Vec<ObjectId> = std::iter::once(self.embedding).chain(layers).collect();
        for (index, (&gradient, weight)) in gradients.iter().zip(weights).enumerate() {
            let bytes = self.trace.0.objects[weight.index()].bytes.get() / HALF * 12;
            let mode = if self.step == 0 { Mode::Write } else { Mode::ReadWrite };
            if self.step == 0 {
                let state = self.make(&format!("adam.{index}"), ObjectKind::Optimizer, bytes);
                self.adam.push(state);
            }
            let uses =
                [(gradient, Mode::Read), (self.adam[index], mode), (weight, Mode::ReadWrite)];
            self.op((Phase::Optimizer, "adam", None), bytes, &uses);
        }
    }

    /// Losses are read back some at a time.
    fn log(&mut self, loss: ObjectId) {
        self.losses.push(loss);
        if self.losses.len() == KEPT {
            let uses: Vec<_> = self.losses.drain(..).map(|loss| (loss, Mode::Read)).collect();
            self.op((Phase::Other, "log", None), 0, &uses);
        }
    }

    fn op(
        &mut self,
        (phase, name, layer): (Phase, &str, Option<usize>),
        flops: u64,
        uses: &[(ObjectId, Mode)],
    ) -> OpId {
        let (module, bytes) = (layer.map(ModuleId::at), self.trace.bytes(uses));
        let op = Op { module, flops, bytes, ..Op::new(self.step, phase, name, 0..0) };
        self.trace.run(op, uses)
    }
}

fn object(
    trace: &mut Traced,
    name: String,
    kind: ObjectKind,
    bytes: u64,
    persistent: bool,
    module: Option<usize>,
) -> ObjectId {
    trace.add(Object {
        dtype: "bf16".to_owned(),
        persistent,
        module: module.map(ModuleId::at),
        ..Object::new(name, kind, Bytes::new(bytes))
    })
}
