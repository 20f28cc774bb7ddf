//! Matrices for products, and the trial that shows that whoever multiplies them does it right.
//!
//! A library's arguments have types by promise only, and a product of other matrices than meant
//! takes as long as the right one. So each precision multiplies two small matrices before it is
//! timed, and the result is compared with a plain product.
//! Invariant: no element is 0 or hard to multiply: what a product takes depends on its numbers,
//! through the power that it draws.

use crate::calibrate::cuda::kernels::Kernels;
use crate::calibrate::probe::Precision;
use crate::cuda::driver::{Device, DeviceMemory, PinnedMemory, Stream};
use crate::fault::{Fault, Result};
use crate::options::draw;
use std::sync::Arc;

/// Side of the trial's matrices.
const SIDE: usize = 64;
/// How far an element may be off, as a share of the sum of the sizes of its products: numbers of 8
/// bits of mantissa, which are the shortest, are off by 1/512.
const OFF: f64 = 1.0 / 128.0;

/// Fills memory with numbers whose sizes lie from 1/2 to 2, of either sign.
pub(super) fn fill(bytes: &mut [u8], precision: Precision, seed: u64) {
    // Sign, lowest bit of the exponent and mantissa are drawn.
    let (drawn, fixed) = match precision {
        Precision::Fp32 | Precision::Tf32 => (0x80FF_FFFF_80FF_FFFF, 0x3F00_0000_3F00_0000),
        Precision::Bf16 => (0x80FF_80FF_80FF_80FF, 0x3F00_3F00_3F00_3F00),
    };
    for (index, word) in bytes.chunks_mut(8).enumerate() {
        let value: u64 = draw(seed, index as u64) & drawn | fixed;
        word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
    }
}

/// The numbers that memory holds.
fn numbers(bytes: &[u8], precision: Precision) -> Vec<f64> {
    let each = bytes.chunks_exact(precision.bytes() as usize);
    let value = |number: &[u8]| match *number {
        [low, high] => f32::from_bits(u32::from(u16::from_le_bytes([low, high])) << 16),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
        _ => f32::NAN,
    };
    each.map(|number| f64::from(value(number))).collect()
}

/// Whether c = a b, row by row, as far as rounding allows.
fn is_product([a, b, c]: [&[f64]; 3], side: usize) -> bool {
    (0..side * side).all(|at| {
        let (row, column) = (at / side * side, at % side);
        let products = (0..side).map(|k| a[row + k] * b[k * side + column]);
        let (sum, size) =
            products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()));
        // Not the other way round: what is no number is wrong.
        (c[at] - sum).abs() <= OFF * size
    })
}

/// Multiplies two small matrices. A sentence that says why not, if the library refuses them.
pub(super) fn trial(
    device: &Arc<Device>,
    kernels: &Kernels,
    stream: &Stream,
    precision: Precision,
) -> Result<Option<String>> {
    let matrix = SIDE * SIDE * precision.bytes() as usize;
    let bytes = 3 * matrix as u64;
    let memory = DeviceMemory::new(device, bytes)?;
    let mut host = PinnedMemory::new(device, bytes)?;
    fill(host.bytes()?, precision, 1);
    stream.copy(memory.address, host.address, bytes)?;
    let places = [0, 1, 2].map(|index| memory.address + index * matrix as u64);
    let multiplied = kernels.product(stream, places, precision, SIDE as u64);
    stream.copy(host.address, memory.address, bytes)?;
    // Whatever came of it, nothing uses this memory when it is given back.
    stream.synchronize()?;
    let word = precision.word();
    match multiplied {
        Err(Fault::Device { call, found }) if precision != Precision::Fp32 => {
            return Ok(Some(format!("products in {word} are left out: {call} says {found}")));
        }
        other => other?,
    }
    let numbers = numbers(host.bytes()?, precision);
    let [a, b, c] = [0, 1, 2].map(|index| &numbers[index * SIDE * SIDE..][..SIDE * SIDE]);
    if is_product([a, b, c], SIDE) {
        return Ok(None);
    }
    let found = format!("a product of {SIDE} x {SIDE} matrices in {word} that is wrong");
    Err(Fault::Device { call: kernels.multiplies_by(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrices(precision: Precision) -> [Vec<f64>; 2] {
        [1, 2].map(|seed| {
            let mut bytes = vec![0; SIDE * SIDE * precision.bytes() as usize];
            fill(&mut bytes, precision, seed);
            numbers(&bytes, precision)
        })
    }

    fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
        let at = |i: usize| {
            (0..SIDE).map(|k| a[i / SIDE * SIDE + k] * b[k * SIDE + i % SIDE]).sum::<f64>()
        };
        (0..SIDE * SIDE).map(at).collect()
    }

    #[test]
    fn matrices_hold_ordinary_numbers_of_both_signs() {
        for precision in Precision::ALL {
            let [a, b] = matrices(precision);
            assert_eq!(a.len(), SIDE * SIDE);
            assert!(a.iter().all(|x| (0.5..2.0).contains(&x.abs())), "{precision:?}");
            let negative = a.iter().filter(|x| **x < 0.0).count();
            assert!((SIDE * SIDE / 3..SIDE * SIDE * 2 / 3).contains(&negative));
            assert_ne!(a, b);
        }
    }

    #[test]
    fn only_the_product_in_the_right_order_passes() {
        for precision in Precision::ALL {
            let [a, b] = matrices(precision);
            let rounded: Vec<f64> =
                product(&a, &b).iter().map(|x| x * (1.0 + 1.0 / 512.0)).collect();
            assert!(is_product([&a, &b, &rounded], SIDE));
            assert!(!is_product([&a, &b, &product(&b, &a)], SIDE), "the other order");
            let mut turned = rounded.clone();
            (0..SIDE * SIDE).for_each(|i| turned[i] = rounded[i % SIDE * SIDE + i / SIDE]);
            assert!(!is_product([&a, &b, &turned], SIDE), "column by column");
            let mut one = rounded;
            one[SIDE * SIDE - 1] = f64::NAN;
            assert!(!is_product([&a, &b, &one], SIDE), "no number");
        }
    }

    #[test]
    fn sides_fit_the_bytes_and_suit_tensor_cores() {
        for (precision, bytes, side) in [
            (Precision::Fp32, 65_536, 73),
            (Precision::Tf32, 65_536, 64),
            (Precision::Bf16, 65_536, 64),
            (Precision::Bf16, 6 * 192 * 192, 192),
            (Precision::Bf16, 6 * 192 * 192 - 1, 128),
            (Precision::Bf16, 600, 10),
            (Precision::Fp32, 0, 1),
        ] {
            assert_eq!(precision.side(bytes), side, "{precision:?} {bytes}");
        }
    }
}
