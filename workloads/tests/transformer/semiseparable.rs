//! Structured operators: bytes as the formulas say, FLOPs as the products have them.

use crate::transformer::shape::{alive, collectives, sum};
use tiersim_models::workload::ObjectKind;
use tiersim_workloads::memory::semiseparable::{Formats, Shape, has_tridiagonal, levels, operator};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::semiseparable::Semiseparable;

const FLAT: Shape = Shape::Sum(1);
const SHAPES: [Shape; 3] = [FLAT, Shape::Sum(3), Shape::Nested];

fn operators(size: u64, shape: Shape, ranks: u32) -> Semiseparable {
    Semiseparable {
        size,
        layers: 3,
        batch: 5,
        shape,
        factors: Format::Fp16,
        ranks,
        devices: 8,
        overlap: true,
    }
}

#[test]
fn weights_are_those_of_the_busiest_rank() {
    for size in (1..100).chain([1000, 4096, 1 << 20]) {
        for form in SHAPES {
            for ranks in [1, 2, 3, 8, 64] {
                let shape = operators(size, form, ranks);
                assert_eq!(shape.problems(), []);
                let trace = shape.trace();
                assert_eq!(trace.problems(), [], "{size} {form:?} {ranks}");
                let of = operator(size, form, Formats::MIXED, ranks.into()).unwrap();
                let weights = 3 * (of.tridiagonal + of.of_rank);
                assert_eq!(u128::from(sum(&trace, ObjectKind::Weight)), weights);
                let fp32 = trace.objects.iter().filter(|object| object.dtype == "float32");
                let fp32: u64 = fp32.map(|object| object.bytes.get()).sum();
                assert_eq!(u128::from(fp32), 3 * of.tridiagonal);
            }
        }
    }
}

/// Counted by hand: products of 2 x rank and the tridiagonal's three diagonals, per level.
#[test]
fn flops_are_linear_in_the_size() {
    for size in [1, 2, 3, 1000, 1 << 20] {
        for form in SHAPES {
            let trace = operators(size, form, 4).trace();
            let flops: u64 = trace.ops.iter().map(|op| op.flops).sum();
            let level = |(index, size, rank): (usize, u64, u64)| {
                let t = if has_tridiagonal(form, index) { 2 * (3 * size - 2) } else { 0 };
                2 * (2 * size * rank) + t
            };
            let all = levels(size, form).into_iter().enumerate();
            let one: u64 = all.map(|(index, l)| level((index, l.size, l.rank))).sum();
            assert_eq!(flops, 3 * 5 * one, "{size} {form:?}");
        }
    }
    // 64 numbers, ranks 6, 3, 2, 1: the last has the core of size 2.
    let trace = operators(64, Shape::Nested, 1).trace();
    let names: Vec<&str> = trace.ops.iter().map(|op| op.name.as_str()).collect();
    let down = ["project"; 4];
    let up = ["tridiagonal", "expand"].repeat(4);
    assert_eq!(names[1..13], [&down[..], &up[..]].concat());
}

#[test]
fn each_factor_is_gathered_once_per_layer_and_given_back() {
    let trace = operators(1 << 20, FLAT, 8).trace();
    let gathered: Vec<u64> = collectives(&trace).iter().map(|one| one.bytes.get()).collect();
    assert_eq!(gathered, vec![(1 << 20) * 20 * 2; 6]);
    let whole = alive(&trace, |object| object.kind == ObjectKind::Buffer);
    assert_eq!(whole.into_iter().max(), Some((1 << 20) * 20 * 2), "one at a time");
}

#[test]
fn what_is_out_of_range_is_refused() {
    let right = operators(1000, Shape::Nested, 8);
    for (shape, field) in [
        (Semiseparable { size: 0, ..right }, "size"),
        (Semiseparable { size: u64::MAX, ..right }, "size"),
        (Semiseparable { size: 1 << 48, batch: 1 << 20, ..right }, "size"),
        (Semiseparable { layers: 0, ..right }, "layers"),
        (Semiseparable { batch: 0, ..right }, "batch"),
        (Semiseparable { ranks: 0, ..right }, "ranks"),
        (Semiseparable { ranks: 12, ..right }, "ranks"),
        (Semiseparable { devices: 0, ..right }, "devices"),
    ] {
        let problems = shape.problems();
        assert!(problems.iter().any(|problem| problem.field == field), "{problems:?}");
    }
}
