//! What tensor ranks exchange beside the products of the backward pass.

use crate::transformer::shape::{check_kernels, collectives, flops, gpt2, llama_8b, mixtral};
use crate::transformer::timed::makespan;
use tiersim_models::workload::{CollectiveKind, Op, Trace, Unit};
use tiersim_workloads::transformer::adapters::{Lora, Target, Targets};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::training::{Checkpointing, Kernels, Loss, Parallel, Training};

fn llama(layers: u32) -> Card {
    Card { layers, vocab: 1024, ..llama_8b() }
}

fn job(card: Card, tensor: u32, sequence: bool, overlap: bool) -> Training {
    let parallel = Parallel { tensor, sequence, overlap, ..Parallel::default() };
    let job = Training { parallel, ..Training::new(card, 512) };
    assert_eq!(job.problems(), []);
    job
}

/// Collectives of the tensor group that run beside the device's work.
fn beside(trace: &Trace) -> Vec<CollectiveKind> {
    let of = trace.ops.iter().filter(|op| op.stream == 3);
    let of = of.filter_map(|op| match op.unit {
        Unit::Network(of) => Some(of.kind),
        _ => None,
    });
    of.collect()
}

#[test]
fn what_the_gradients_of_wide_matrices_need_is_exchanged_beside_them() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    for card in [llama(3), Card { layers: 3, vocab: 1024, ..gpt2(3, 256, 4) }] {
        // Of the head and of two parts of each of three blocks.
        let whole = beside(&job(card.clone(), 4, false, true).trace());
        assert_eq!(whole, [AllReduce; 7]);
        let split = beside(&job(card.clone(), 4, true, true).trace());
        assert_eq!(split, [[AllGather, ReduceScatter]; 7].concat());
        for sequence in [false, true] {
            let [on, off] = [true, false].map(|on| job(card.clone(), 4, sequence, on).trace());
            assert_eq!(beside(&off), []);
            // Nothing else differs: not what is computed, nor what is exchanged.
            assert_eq!(flops(&on), flops(&off));
            assert_eq!(collectives(&on).len(), collectives(&off).len());
            check_kernels(&on);
        }
        assert_eq!(beside(&job(card, 1, false, true).trace()), []);
    }
}

#[test]
fn what_runs_beside_is_hidden_and_nothing_else() {
    for (sequence, hidden) in [(false, 2 * 3 + 1), (true, 2 * (2 * 3 + 1))] {
        for checkpointing in [Checkpointing::None, Checkpointing::Full] {
            let of = |overlap| {
                let job = job(llama(3), 4, sequence, overlap);
                Training { checkpointing, ..job }.trace()
            };
            let (on, off) = (of(true), of(false));
            // Less than any product takes.
            let each = 100_000;
            // Of what norms have, sums at the end are on a stream of their own.
            let of_stream = |op: &&Op| op.stream == 0 && matches!(op.unit, Unit::Network(_));
            let all = off.ops.iter().filter(of_stream).count() as u128;
            let exposed = |trace: &Trace| makespan(trace, each) - makespan(trace, 0);
            assert_eq!(exposed(&off), all * u128::from(each));
            assert_eq!(exposed(&on), (all - hidden) * u128::from(each), "{sequence}");
        }
    }
}

#[test]
fn exchange_that_takes_longer_than_its_product_is_waited_for() {
    // A collective of a second beside products of far less: each still counts but for these.
    let each = 1_000_000_000_000;
    let [on, off] = [true, false].map(|on| job(llama(2), 4, false, on).trace());
    let [on, off] = [&on, &off].map(|trace| makespan(trace, each) / u128::from(each));
    assert_eq!(on, off);
}

#[test]
fn what_has_no_gradient_beside_it_is_exposed() {
    let base = job(llama(2), 4, true, true);
    let eager = Training { kernels: Kernels::Eager, ..base.clone() };
    let lora = Some(Lora { rank: 4, targets: Targets::from(vec![Target::Q]) });
    let adapted = Training { lora, ..base.clone() };
    for job in [eager, adapted] {
        assert_eq!(beside(&job.trace()), []);
    }
    // A fused loss has made both gradients of the head before they could be exchanged.
    let fused = Training { loss: Loss::Fused, ..base };
    assert_eq!(beside(&fused.trace()).len(), 2 * 4);
    // Of blocks of experts it is attention's.
    let card = Card { layers: 2, vocab: 1024, ..mixtral() };
    let experts = job(card, 4, true, true);
    assert_eq!(beside(&experts.trace()).len(), 2 * (2 + 1));
}
