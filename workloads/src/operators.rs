//! A structured operator, a dense one and attention: their kernels, and what they take by size.
//!
//! N tokens meet each other, with vectors of B numbers each: y = H x, for a structured H = T + U
//! V^T ([`crate::memory::semiseparable`]) or a dense one, or attention with a head of B, in one
//! kernel or with all scores. H x = y is solved by a factorisation: of the structured one by cyclic
//! reduction of T with the columns of U and y at its right, and by the capacitance matrix I + V^T
//! T^-1 U (Woodbury); of the dense one by LU, of which only the trailing updates count. Products
//! and attention are in 16 bits, T and what reduction works on in fp32. Several heads are one kernel
//! of attention in one kernel, and of all else one behind the other: batched kernels would be
//! quicker.
//! Invariant: kernels have FLOPs and bytes of what they touch once; nothing is in a cache before.

use crate::memory::semiseparable::{Formats, Shape, operator, rank};
use tiersim_models::hardware::{Compute, Hardware};
use tiersim_models::kernel::{Attention, Kernel, Product, Streaming, Work};
use tiersim_models::op_times::Throttle;
use tiersim_models::results::operators::{OperatorTimes, SizeTaken, WayTaken};

/// The smallest size, and how often it doubles.
const SIZES: (u64, u32) = (512, 8);
/// Columns of a panel of LU.
const PANEL: u64 = 512;
/// Bytes of a number of products.
const HALF: u128 = 2;
/// Bytes of a number of the tridiagonal part.
const SINGLE: u128 = 4;

/// The structured operator's product; then those that it is held against.
pub const STRUCTURED: &str = "structured";
/// A dense matrix times the vectors.
pub const DENSE: &str = "dense";
/// Attention in one kernel.
pub const FLASH: &str = "flash attention";
/// Attention with all scores in memory.
pub const EAGER: &str = "eager attention";
/// The structured operator, factored and solved.
pub const STRUCTURED_SOLVE: &str = "structured solve";
/// The dense matrix, factored and solved.
pub const DENSE_SOLVE: &str = "dense solve";

/// What one way holds, and its kernels in their order.
struct Way {
    name: &'static str,
    bytes: u128,
    kernels: Vec<Kernel>,
}

fn product([m, n, k]: [u64; 3], more: u128) -> Kernel {
    let shape = Product::new(m, n, k);
    let [a, b, c] = [(m, k), (k, n), (m, n)].map(|(x, y)| u128::from(x) * u128::from(y));
    Kernel::new(Work::Product(shape), shape.flops(), HALF * (a + b + c) + more)
}

fn streaming(kind: Streaming, flops: u128, bytes: u128) -> Kernel {
    Kernel::new(Work::Streaming(kind), flops, bytes)
}

/// Tridiagonal systems of `columns` right sides by cyclic reduction: every level halves the rows,
/// forward and back.
fn reduction(size: u64, columns: u64) -> Vec<Kernel> {
    let levels = u64::BITS - size.saturating_sub(1).leading_zeros();
    let columns = u128::from(columns);
    let level = |level: u32| {
        let rows = u128::from(size.div_ceil(1 << level));
        // Three diagonals and the right sides, read and written.
        let forward = streaming(
            Streaming::ElementWise,
            rows * (8 + 4 * columns),
            2 * SINGLE * rows * (3 + columns),
        );
        let back = streaming(
            Streaming::ElementWise,
            rows * 5 * columns,
            SINGLE * rows * (3 + 2 * columns),
        );
        [forward, back]
    };
    (0..levels).flat_map(level).collect()
}

/// Every way at a size, with so many vectors, of one head.
fn ways(size: u64, vectors: u64, heads: u32) -> Vec<Way> {
    let r = rank(size);
    let [n, b, rank] = [size, vectors, r].map(u128::from);
    let held = operator(size, Shape::Sum(1), Formats::MIXED, 1).unwrap_or_default();
    let structured = held.tridiagonal + held.factors;
    let tridiagonal =
        streaming(Streaming::ElementWise, 2 * (3 * n - 2) * b, held.tridiagonal + 2 * HALF * n * b);
    let attention = Attention {
        batch: 1,
        new: size,
        past: 0,
        heads,
        kv_heads: heads,
        head_dim: u32::try_from(vectors).unwrap_or(u32::MAX),
        window: 0,
        kv_bytes: 2,
        causal: false,
    };
    let moved = 4 * HALF * n * b * u128::from(heads);
    let flash = Kernel::new(Work::Attention(attention), attention.flops(), moved);
    let softmax = streaming(Streaming::Softmax, 5 * n * n, 2 * HALF * n * n);
    let mut solve = reduction(size, r + vectors);
    // V^T times T^-1 U and T^-1 y; the capacitance matrix; and what U has of it taken off.
    solve.push(product([r, r + vectors, size], 0));
    let capacitance = 2 * rank * rank * rank / 3 + 2 * rank * rank * b;
    solve.push(streaming(Streaming::ElementWise, capacitance, 2 * SINGLE * rank * (rank + b)));
    solve.push(product([vectors, size, r], HALF * n * b));
    let panels = (1..size.div_ceil(PANEL)).map(|panel| size - panel * PANEL);
    let mut lu: Vec<Kernel> = panels.map(|rest| product([rest, rest, PANEL], 0)).collect();
    // Forward and back substitution read half the factors each.
    lu.push(product([vectors, size, size], 0));
    vec![
        Way {
            name: STRUCTURED,
            bytes: structured,
            kernels: vec![
                product([vectors, r, size], 0),
                tridiagonal,
                product([vectors, size, r], HALF * n * b),
            ],
        },
        Way { name: DENSE, bytes: HALF * n * n, kernels: vec![product([vectors, size, size], 0)] },
        Way { name: FLASH, bytes: 2 * HALF * n * b + SINGLE * n, kernels: vec![flash] },
        Way {
            name: EAGER,
            bytes: 2 * HALF * n * b + HALF * n * n,
            kernels: vec![
                product([size, size, vectors], 0),
                softmax,
                product([size, vectors, size], 0),
            ],
        },
        Way { name: STRUCTURED_SOLVE, bytes: structured + SINGLE * n * rank, kernels: solve },
        Way { name: DENSE_SOLVE, bytes: HALF * n * n, kernels: lu },
    ]
}

fn taken(way: &Way, heads: u32, compute: &Compute, precision: &str) -> WayTaken {
    // Attention has all heads in one kernel; else each has its own.
    let heads = u128::from(heads);
    let times = if way.name == FLASH { 1 } else { heads };
    let priced = way.kernels.iter().map(|kernel| compute.kernel(precision, kernel, Throttle::NONE));
    let priced: Option<Vec<_>> = priced.collect();
    let seconds = compute.kernels(precision, &way.kernels);
    let seconds = seconds.map(|span| (u128::from(span.ps()) * times) as f64 * 1e-12);
    let by = priced.as_ref().and_then(|all| all.iter().max_by_key(|(span, _)| *span));
    WayTaken {
        bytes: way.bytes * heads,
        flops: way.kernels.iter().map(|kernel| u128::from(kernel.flops)).sum::<u128>() * times,
        kernels: way.kernels.len() as u64 * times as u64,
        seconds,
        by: by.map(|(_, by)| *by),
    }
}

/// The precision of products on a device: 16 bits, as it has them.
fn precision(compute: &Compute) -> Option<&'static str> {
    let has = |word: &&str| compute.flops.iter().any(|(known, _)| known == *word);
    ["bf16", "fp16"].into_iter().find(|word| has(word))
}

/// What every way takes on a machine, for sizes from 512 to 131,072; `None` without a device that
/// multiplies in 16 bits.
pub fn operator_times(hardware: &Hardware, vectors: u64, heads: u32) -> Option<OperatorTimes> {
    let compute = hardware.compute.as_ref()?;
    let precision = precision(compute)?;
    let (least, doubled) = SIZES;
    let sizes = (0..=doubled).map(|times| least << times);
    let of = |size: u64| SizeTaken {
        size,
        rank: rank(size),
        taken: ways(size, vectors, heads)
            .iter()
            .map(|way| taken(way, heads, compute, precision))
            .collect(),
    };
    Some(OperatorTimes {
        machine: hardware.name.clone(),
        device: compute.name.clone(),
        vectors,
        heads,
        precision,
        ways: ways(least, vectors, heads).iter().map(|way| way.name).collect(),
        sizes: sizes.map(of).collect(),
    })
}
