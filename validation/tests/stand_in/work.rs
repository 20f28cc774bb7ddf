//! The stand-in's larger pieces of work: many ranges in one launch, and products by cuBLAS.
//!
//! Invariant: every test ends with nothing left on the device.

use crate::stand_in::device::Device;
use crate::stand_in::word;

#[test]
fn many_ranges_are_filled_and_checked_by_one_launch() {
    let device = Device::open();
    // One of them is empty.
    let counts = [5u64, 0, 1300, 512, 2000];
    let places = counts.map(|count| (device.alloc(8 * count + 8), device.alloc(32)));
    let key = |n: u64| word(n + 1, 2, 0);
    let ranges = |held: fn(u64) -> u64, stride: u64, does: u64| {
        // No work before and behind, no sink.
        let mut words = vec![0; 11];
        words.push(counts.len() as u64);
        for (n, (&count, (to, out))) in (0..).zip(counts.iter().zip(places)) {
            words.extend([to, count, held(key(n)), 512 * n, stride, out, key(n), does]);
        }
        words.resize(12 + 46 * 8, 0);
        words
    };
    let (reads, writes) = (1, 2);
    device.run_whole("op_many", &ranges(|key| key, 1, writes));
    for (n, (&count, (to, _))) in (0..).zip(counts.iter().zip(places)) {
        let got = device.read(to, count as usize);
        assert!((0..count).all(|i| got[i as usize] == word(n + 1, 2, 512 * n + i)), "range {n}");
    }
    let check = |stride: u64| {
        places.iter().for_each(|(_, out)| device.write(*out, &[0, u64::MAX, 0, 0]));
        device.run_whole("op_many", &ranges(|key| key, stride, reads));
        places.map(|(_, out)| device.read(out, 3))
    };
    let right = vec![0, u64::MAX, 0];
    assert_eq!(check(1), [(); 5].map(|()| right.clone()));
    device.write(places[2].0 + 8 * 600, &[11]);
    device.write(places[4].0 + 8 * 1999, &[12]);
    let found = check(1);
    let (third, last) = (vec![1, 600, 11], vec![1, 1999, 12]);
    assert_eq!(found, [right.clone(), right.clone(), third, right.clone(), last]);
    assert_eq!(check(2)[2], right, "in a page that a stride of 2 passes over");
    // Compared with another key, found wrong, and filled.
    places.iter().for_each(|(_, out)| device.write(*out, &[0, u64::MAX, 0, 0]));
    device.run_whole("op_many", &ranges(|key| key + 1, 1, reads | writes));
    let found = places.map(|(_, out)| device.read(out, 3));
    let all = |n: usize| vec![counts[n], 0, word(n as u64 + 1, 2, 512 * n as u64)];
    assert_eq!(found, [all(0), right.clone(), all(2), all(3), all(4)]);
    assert_eq!(check(1), [(); 5].map(|()| right.clone()));
}

#[test]
fn an_op_works_before_and_behind_what_it_touches() {
    let device = Device::open();
    let [from, between, to, out] = [32, 32, 32, 32].map(|bytes| device.alloc(bytes));
    let key = word(9, 1, 0);
    device.run("fill", &[from, 4, key, 0]);
    device.write(between, &[0; 4]);
    device.write(out, &[0, u64::MAX, 0, 0]);
    // Copies the pattern, finds it there and writes the next over it, and copies that.
    let mut words = vec![10, between, from, 2, 1, 0, to, between, 2, 3, 0, 1];
    words.extend([between, 4, key, 0, 1, out, key + 1, 3]);
    words.resize(12 + 6 * 8, 0);
    device.run_whole("op_few", &words);
    assert_eq!(device.read(out, 4), [0, u64::MAX, 0, 0]);
    let next: Vec<u64> = (0..4).map(|i| word(9, 2, i)).collect();
    assert_eq!((device.read(between, 4), device.read(to, 4)), (next.clone(), next));
}

#[test]
fn a_product_by_cublas_is_that_of_the_definition_in_short_floats_too() {
    let device = Device::open();
    let (m, n, k) = (6usize, 10, 4);
    // Small whole numbers: their upper halves are all of them, and so is that of a sum.
    let value = |i: usize| (i * 7 % 5) as f32 - 2.0;
    let [left, right] = [m * k, k * n].map(|count| (0..count).map(value).collect::<Vec<_>>());
    let places = [m * k, k * n, m * n].map(|count| device.alloc(count as u64 * 4));
    let sides = [m as i32, n as i32, k as i32];
    let want =
        |at: usize| -> f32 { (0..k).map(|l| left[at % m + l * m] * right[l + at / m * k]).sum() };
    let pack = |values: &[f32]| -> Vec<u64> {
        let half = |value: &f32| u64::from(value.to_bits() >> 16);
        let four = |values: &[f32]| values.iter().rev().fold(0, |word, v| word << 16 | half(v));
        values.chunks(4).map(four).collect()
    };
    device.write_f32(places[0], &left);
    device.write_f32(places[1], &right);
    for compute in [68, 77] {
        assert_eq!(device.gemm(sides, places, (0, compute)), 0);
        let got = device.read_f32(places[2], m * n);
        assert!((0..m * n).all(|at| got[at] == want(at)), "{compute}: {got:?}");
    }
    device.write(places[0], &pack(&left));
    device.write(places[1], &pack(&right));
    assert_eq!(device.gemm(sides, places, (14, 68)), 0);
    let got = device.read(places[2], m * n / 4);
    let got = |at: usize| f32::from_bits(((got[at / 4] >> (at % 4 * 16)) as u32) << 16);
    assert!((0..m * n).all(|at| got(at) == want(at)));
    assert_eq!(device.gemm(sides, places, (14, 77)), 15, "no such kind");
}
