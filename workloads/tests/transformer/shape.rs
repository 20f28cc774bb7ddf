//! Cards and trainings to test with, and what is alive when.

use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{Object, ObjectKind, Trace};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Optimizer, Parallel, Router, Training, Zero,
};

/// GPT-2 of any size.
pub(crate) fn gpt2(layers: u32, hidden: u32, heads: u32) -> Card {
    Card {
        name: "gpt2".into(),
        family: Family::Gpt2,
        layers,
        hidden,
        ffn: 4 * hidden,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        vocab: 50_257,
        positions: 1024,
        tied: true,
        qkv_bias: true,
        experts: None,
        window: None,
    }
}

/// Llama 3 8B: config.json of meta-llama/Meta-Llama-3-8B.
pub(crate) fn llama_8b() -> Card {
    Card {
        name: "llama-3-8b".into(),
        family: Family::Llama,
        layers: 32,
        hidden: 4096,
        ffn: 14_336,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab: 128_256,
        positions: 0,
        tied: false,
        qkv_bias: false,
        experts: None,
        window: None,
    }
}

/// Mixtral 8x7B: config.json of mistralai/Mixtral-8x7B-v0.1.
pub(crate) fn mixtral() -> Card {
    let experts = Some(Experts { count: 8, active: 2, ffn: 14_336, shared: 0 });
    Card { name: "mixtral".into(), family: Family::Mixtral, vocab: 32_000, experts, ..llama_8b() }
}

/// One rank, one micro-batch of one sequence, bf16, AdamW, everything kept, no dropout.
pub(crate) fn plain(card: Card, sequence: u64) -> Training {
    Training {
        card,
        batch: 1,
        micro_batch: 1,
        sequence,
        formats: Formats::all(Format::Bf16),
        optimizer: Optimizer::AdamW,
        checkpointing: Checkpointing::None,
        attention: Attention::Flash,
        dropout: false,
        parallel: Parallel::default(),
        zero: Zero::default(),
        devices: 8,
        router: Router::default(),
        loader: None,
    }
}

/// The bytes of all objects of a kind.
pub(crate) fn sum(trace: &Trace, kind: ObjectKind) -> u64 {
    trace.objects.iter().filter(|o| o.kind == kind).map(|o| o.bytes.get()).sum()
}

/// Bytes alive during each op of the objects that `counts`, what persists among them.
pub(crate) fn alive(trace: &Trace, counts: impl Fn(&Object) -> bool) -> Vec<u64> {
    let workload = Workload::new(trace.clone());
    let bytes = |id: &ObjectId| {
        let object = &workload.trace.objects[id.index()];
        if counts(object) { object.bytes.get() } else { 0 }
    };
    let persistent = workload.trace.objects.iter().filter(|o| o.persistent && counts(o));
    let mut now: u64 = persistent.map(|o| o.bytes.get()).sum();
    let ops = (0..workload.trace.ops.len()).map(OpId::at);
    let each = ops.map(|op| {
        now += workload.births(op).iter().map(bytes).sum::<u64>();
        let during = now;
        now -= workload.releases(op).iter().map(bytes).sum::<u64>();
        during
    });
    each.collect()
}

/// Weights, gradients, optimizer state and master copies.
pub(crate) fn is_state(object: &Object) -> bool {
    use ObjectKind::{Gradient, Master, Optimizer, Weight};
    matches!(object.kind, Weight | Gradient | Optimizer | Master)
}

/// The most bytes of model state that are alive at once.
pub(crate) fn peak_state(trace: &Trace) -> u64 {
    alive(trace, is_state).into_iter().max().unwrap_or(0)
}
