//! Bare loops over memory and the product of matrices: what the hardware gives without a machine
//! around it.
//!
//! Each repeat is timed by itself, after one that is not counted; what a loop computes is made
//! opaque to the compiler, which would otherwise leave it out.

use crate::calibrate::probe::Access;
use crate::clock::Clock;
use crate::host::room::{Buffer, lock, unlock};
use crate::pattern::PAGE;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tiersim_models::units::Span;

/// Times `repeats` calls, and makes one before them.
fn timed(repeats: usize, mut call: impl FnMut()) -> Vec<Span> {
    call();
    let clock = Clock::start();
    let mut once = |_| {
        let start = clock.now();
        call();
        clock.now().since(start)
    };
    (0..repeats).map(&mut once).collect()
}

/// Copies one slice to another of its size; meanwhile a second thread copies `other`, if there is.
pub(super) fn copies(
    from: &[u8],
    to: &mut [u8],
    other: Option<(&[u8], &mut [u8])>,
    repeats: usize,
) -> Vec<Span> {
    let mut ours = || timed(repeats, || black_box(&mut *to).copy_from_slice(black_box(from)));
    let Some((other_from, other_to)) = other else { return ours() };
    let (started, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let theirs = || {
            while !over.load(Relaxed) {
                black_box(&mut *other_to).copy_from_slice(black_box(other_from));
                started.store(true, Relaxed);
            }
        };
        let busy = std::thread::Builder::new().spawn_scoped(scope, theirs);
        while busy.is_ok() && !started.load(Relaxed) {
            std::thread::yield_now();
        }
        let spans = ours();
        over.store(true, Relaxed);
        spans
    })
}

/// Goes through memory once per repeat.
pub(super) fn streams(bytes: &mut [u8], access: Access, repeats: usize) -> Vec<Span> {
    let half = bytes.len() / 2;
    let mut value = 0u8;
    match access {
        Access::Read => timed(repeats, || {
            black_box(sum(black_box(bytes)));
        }),
        Access::Write => timed(repeats, || {
            value = value.wrapping_add(1);
            black_box(&mut *bytes).fill(value);
        }),
        Access::Copy => {
            let (from, to) = bytes.split_at_mut(half);
            timed(repeats, || black_box(&mut *to)[..half].copy_from_slice(black_box(from)))
        }
    }
}

/// Sum of all words: eight running sums, so that additions do not wait for each other.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 8];
    for line in bytes.chunks_exact(64) {
        for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
            *sum = sum.wrapping_add(crate::pattern::read(word));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// Multiplies two square matrices of floats by one thread.
#[expect(unsafe_code, reason = "the product of the crate takes pointers")]
pub(super) fn products(side: usize, repeats: usize) -> Vec<Span> {
    let matrix = |scale: f32| -> Vec<f32> {
        (0..side * side).map(|index| (index % 7) as f32 * scale).collect()
    };
    let (a, b, mut c) = (matrix(0.5), matrix(0.25), matrix(0.0));
    let (row, column) = (isize::try_from(side).expect("a matrix fits memory"), 1);
    let spans = timed(repeats, || {
        let (a, b, c) = (black_box(a.as_ptr()), black_box(b.as_ptr()), black_box(c.as_mut_ptr()));
        // SAFETY: the three are matrices of `side` rows of `side` elements that follow each other,
        // as the strides say, and `c` is borrowed from nobody else.
        unsafe {
            matrixmultiply::sgemm(
                side, side, side, 1.0, a, row, column, b, row, column, 0.0, c, row, column,
            );
        }
    });
    black_box(c);
    spans
}

/// Memory that the system keeps in place.
pub(super) struct Locked {
    buffer: Buffer,
    len: usize,
}

impl Locked {
    /// As much as the limit of locked memory allows, in halvings of `most`; perhaps none.
    pub(super) fn largest(most: usize) -> Locked {
        let mut len = most;
        while len >= PAGE {
            let mut buffer = Buffer::new(len);
            buffer.first(len).fill(1);
            if lock(buffer.first(len)) {
                return Locked { buffer, len };
            }
            len /= 2;
        }
        Locked { buffer: Buffer::new(0), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.buffer.first(self.len)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.len > 0 {
            unlock(self.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_gives_one_time_per_repeat() {
        let mut bytes = vec![3; 8192];
        for access in [Access::Read, Access::Write, Access::Copy] {
            assert_eq!(streams(&mut bytes, access, 5).len(), 5);
        }
        assert_eq!(products(9, 2).len(), 2);
    }

    #[test]
    fn copies_really_copy_also_beside_another_thread() {
        let (from, other_from) = (vec![7; 4096], vec![9; 4096]);
        let (mut to, mut other_to) = (vec![0; 4096], vec![0; 4096]);
        assert_eq!(copies(&from, &mut to, None, 3).len(), 3);
        assert!(to == from);
        to.fill(0);
        let spans = copies(&from, &mut to, Some((&other_from, &mut other_to)), 3);
        assert!(spans.len() == 3 && to == from && other_to == other_from);
    }

    #[test]
    fn a_sum_is_of_all_words() {
        let bytes: Vec<u8> = (0..64u64).flat_map(|word| (word * word).to_le_bytes()).collect();
        assert_eq!(sum(&bytes), (0..64).map(|word| word * word).sum::<u64>());
    }
}
