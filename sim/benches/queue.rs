//! The event queue against the standard library's binary heap, with the same key and payload.
//!
//! Both run in one process, taking turns, so that a noisy machine disturbs both alike; the medians
//! and their ratio are printed. *Hold* (take the first, put one back later) is what a simulation
//! does all day. *Burst* (take 16, put 16 back) and *drain* (fill, then empty) are what this queue
//! is not tuned for, and so is *ebb* (hold after all but one in a hundred have left: the tree keeps
//! the height of its peak); they are shown for that reason.

mod timing;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::Exp1;
use tiersim_models::units::Time;
use tiersim_sim::queue::EventQueue;
use timing::{median, seconds};

const ROUNDS: usize = 15;
const OPERATIONS: usize = 400_000;
const BURST: usize = 16;

trait Pending {
    fn name() -> &'static str;
    fn empty() -> Self;
    fn push(&mut self, at: u64, class: u8, payload: u64);
    fn pop(&mut self) -> Option<(u64, u64)>;
}

struct StdHeap {
    heap: BinaryHeap<Reverse<(u64, u8, u64, u64)>>,
    seq: u64,
}

impl Pending for StdHeap {
    fn name() -> &'static str {
        "BinaryHeap"
    }
    fn empty() -> StdHeap {
        StdHeap { heap: BinaryHeap::new(), seq: 0 }
    }
    #[inline]
    fn push(&mut self, at: u64, class: u8, payload: u64) {
        self.heap.push(Reverse((at, class, self.seq, payload)));
        self.seq += 1;
    }
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        self.heap.pop().map(|Reverse((at, _, _, payload))| (at, payload))
    }
}

impl Pending for EventQueue<u64> {
    fn name() -> &'static str {
        "EventQueue"
    }
    fn empty() -> EventQueue<u64> {
        EventQueue::new()
    }
    #[inline]
    fn push(&mut self, at: u64, class: u8, payload: u64) {
        EventQueue::push(self, Time::from_ps(at), class, payload);
    }
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        EventQueue::pop(self).map(|(at, payload)| (at.ps(), payload))
    }
}

/// Exponential gaps and classes, drawn beforehand so that only the queues are timed.
struct Draws {
    gaps: Vec<(u64, u8)>,
    next: usize,
}

impl Draws {
    fn new() -> Draws {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let gap = |rng: &mut ChaCha12Rng| (rng.sample::<f64, _>(Exp1) * 1e9) as u64;
        Draws {
            gaps: (0..1 << 14).map(|_| (gap(&mut rng), rng.random_range(0..4))).collect(),
            next: 0,
        }
    }
    #[inline]
    fn draw(&mut self) -> (u64, u8) {
        self.next = (self.next + 1) & (self.gaps.len() - 1);
        self.gaps[self.next]
    }
}

fn filled<Q: Pending>(pending: usize, draws: &mut Draws) -> Q {
    let mut queue = Q::empty();
    for payload in 0..pending as u64 {
        let (gap, class) = draws.draw();
        queue.push(gap, class, payload);
    }
    queue
}

/// Takes `burst` events, puts as many back, and so on; nanoseconds per event taken and put back.
fn hold<Q: Pending>(queue: &mut Q, draws: &mut Draws, burst: usize) -> f64 {
    let mut taken = Vec::with_capacity(burst);
    timed(OPERATIONS, || {
        for _ in 0..OPERATIONS / burst {
            for _ in 0..burst {
                taken.push(queue.pop().expect("the queue is never empty"));
            }
            for (now, payload) in taken.drain(..) {
                let (gap, class) = draws.draw();
                queue.push(now + gap, class, payload);
            }
        }
    })
}

/// Fills an empty queue and empties it; nanoseconds per event.
fn drain<Q: Pending>(pending: usize, draws: &mut Draws) -> f64 {
    let repeats = OPERATIONS / pending;
    timed(repeats * pending, || {
        for _ in 0..repeats {
            let mut queue: Q = filled(pending, draws);
            while let Some(event) = queue.pop() {
                black_box(event);
            }
        }
    })
}

fn timed(operations: usize, work: impl FnOnce()) -> f64 {
    seconds(work) * 1e9 / operations as f64
}

fn compare<A: Pending, B: Pending>(
    pattern: &str,
    pending: usize,
    required: Option<f64>,
    mut a: impl FnMut() -> f64,
    mut b: impl FnMut() -> f64,
) {
    // Warm up.
    a();
    b();
    let (times_a, times_b) = (0..ROUNDS).map(|_| (a(), b())).unzip();
    let (a, b) = (median(times_a), median(times_b));
    let required =
        required.map_or(String::new(), |most| format!("  (required: at most {most:.2})"));
    println!(
        "{pattern:<6} {pending:>7} pending: {} {a:6.1} ns, {} {b:6.1} ns, ratio {:.3}{required}",
        A::name(),
        B::name(),
        b / a
    );
}

fn compare_hold<A: Pending, B: Pending>(pending: usize, burst: usize, required: Option<f64>) {
    let (mut draws_a, mut draws_b) = (Draws::new(), Draws::new());
    let (mut a, mut b) = (filled::<A>(pending, &mut draws_a), filled::<B>(pending, &mut draws_b));
    let pattern = if burst == 1 { "hold" } else { "burst" };
    compare::<A, B>(
        pattern,
        pending,
        required,
        || hold(&mut a, &mut draws_a, burst),
        || hold(&mut b, &mut draws_b, burst),
    );
}

fn compare_ebb<A: Pending, B: Pending>(pending: usize) {
    let (mut draws_a, mut draws_b) = (Draws::new(), Draws::new());
    let mut a = filled::<A>(100 * pending, &mut draws_a);
    let mut b = filled::<B>(100 * pending, &mut draws_b);
    for _ in 0..99 * pending {
        a.pop();
        b.pop();
    }
    compare::<A, B>(
        "ebb",
        pending,
        None,
        || hold(&mut a, &mut draws_a, 1),
        || hold(&mut b, &mut draws_b, 1),
    );
}

fn compare_drain<A: Pending, B: Pending>(pending: usize) {
    let (mut draws_a, mut draws_b) = (Draws::new(), Draws::new());
    compare::<A, B>(
        "drain",
        pending,
        None,
        || drain::<A>(pending, &mut draws_a),
        || drain::<B>(pending, &mut draws_b),
    );
}

fn main() {
    type Ours = EventQueue<u64>;
    for (pending, required) in [(10, None), (1_000, Some(0.70)), (100_000, Some(0.55))] {
        compare_hold::<StdHeap, Ours>(pending, 1, required);
        if pending >= BURST {
            compare_hold::<StdHeap, Ours>(pending, BURST, None);
        }
        compare_drain::<StdHeap, Ours>(pending);
    }
    compare_ebb::<StdHeap, Ours>(1_000);
}
