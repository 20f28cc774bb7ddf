//! Cards and trainings to test with, and what is alive when.

use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::kernel::{Kernel, Work};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{Collective, Object, ObjectKind, Op, Trace, Unit};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::Training;

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
        full_attention_every: None,
        latent: None,
    }
}

/// Llama 3 8B: config.json of meta-llama/Meta-Llama-3-8B.
pub(crate) fn llama_8b() -> Card {
    known("llama-3-8b").expect("it is known").card()
}

/// Mixtral 8x7B: config.json of mistralai/Mixtral-8x7B-v0.1.
pub(crate) fn mixtral() -> Card {
    let experts = Some(Experts { count: 8, active: 2, ffn: 14_336, shared: 0, dense_first: 0 });
    Card { name: "mixtral".into(), family: Family::Mixtral, vocab: 32_000, experts, ..llama_8b() }
}

/// One rank, one micro-batch of one sequence, bf16, AdamW, everything kept, no dropout.
pub(crate) fn plain(card: Card, sequence: u64) -> Training {
    Training::new(card, sequence)
}

/// The most that objects amount to that are alive at once; all but what persists goes in the end.
pub(crate) fn most_alive(trace: &Trace, amount: impl Fn(&Object) -> u64) -> u64 {
    let workload = Workload::new(trace.clone());
    let sum = |ids: &[ObjectId]| -> u64 {
        ids.iter().map(|id| amount(&workload.trace.objects[id.index()])).sum()
    };
    let (mut now, mut most) = (0, 0);
    for op in (0..workload.trace.ops.len()).map(OpId::at) {
        now += sum(workload.births(op));
        most = most.max(now);
        now -= sum(workload.releases(op));
    }
    assert_eq!(now, 0, "everything that does not persist is given back");
    most
}

/// The bytes of all objects of a kind.
pub(crate) fn sum(trace: &Trace, kind: ObjectKind) -> u64 {
    trace.objects.iter().filter(|o| o.kind == kind).map(|o| o.bytes.get()).sum()
}

/// FLOPs of all ops.
pub(crate) fn flops(trace: &Trace) -> u128 {
    trace.ops.iter().map(|op| u128::from(op.flops)).sum()
}

/// What ranks do together, in order.
pub(crate) fn collectives(trace: &Trace) -> Vec<Collective> {
    let together = |op: &Op| match op.unit {
        Unit::Network(collective) => Some(collective),
        _ => None,
    };
    trace.ops.iter().filter_map(together).collect()
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

/// Every op of the device says its kernels, which amount to its FLOPs and bytes; no other does.
pub(crate) fn check_kernels(trace: &Trace) {
    check_kernels_of(trace, false);
}

/// The same; eager kernels count FLOPs of what is no product, up to 14 per number that they touch
/// in 16 bits.
pub(crate) fn check_kernels_of(trace: &Trace, is_eager: bool) {
    for op in &trace.ops {
        let Some(kernels) = &op.kernels else {
            assert!(!matches!(op.unit, Unit::Device | Unit::Idle), "{op:?}");
            continue;
        };
        assert!(matches!(op.unit, Unit::Device | Unit::Idle), "{op:?}");
        let sum = |of: &dyn Fn(&Kernel) -> u64| -> u64 {
            kernels.iter().map(|one| of(one) * one.times).sum()
        };
        let amounts = (sum(&|one| one.flops), sum(&|one| one.bytes.get()));
        assert_eq!(amounts, (op.flops, op.bytes.get()), "{op:?}");
        for kernel in kernels.iter() {
            let flops = match kernel.work {
                Work::Product(of) => of.flops(),
                Work::Attention(of) => of.flops(),
                Work::LatentAttention(of) => of.flops(),
                // Five products where the forward pass has two.
                Work::AttentionBackward(of) => of.flops() / 2 * 5,
                Work::Streaming(_) if is_eager => {
                    assert!(kernel.flops <= 7 * kernel.bytes.get(), "{op:?}");
                    continue;
                }
                Work::Streaming(_) => 0,
                Work::Experts(_) => continue,
            };
            assert_eq!(u128::from(kernel.flops), flops, "{op:?}");
        }
    }
}
