//! The kernels of `validation/kernels/kernels.cu`, written again for a thread of the host.
//!
//! They do what those do to memory, whole in one go: grid and block are checked when a launch is
//! queued and matter no further. An address that no allocation holds is an illegal one.
//! Invariant: a kernel reaches memory through [`Words`] only, which were checked.

use crate::codes::{Code, ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED_ADDRESS};
use crate::driver::Driver;
use crate::memory::Place;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const PAGE_WORDS: u64 = 512;

/// The moment.
#[expect(clippy::disallowed_methods, reason = "events note real times, as a driver's do")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A kernel: takes its arguments, as numbers.
pub(crate) type Kernel = fn(&[u64]) -> Result<(), Code>;

/// A kernel with the arguments that it was launched with.
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) arguments: Vec<u64>,
}

impl Launch {
    pub(crate) fn run(&self) -> Result<(), Code> {
        (self.kernel)(&self.arguments)
    }
}

/// A kernel by its name, with the widths of its parameters in bytes.
pub(crate) fn find(name: &str) -> Option<(Kernel, &'static [usize])> {
    Some(match name {
        "fill" => (fill as Kernel, &[8, 8, 8, 8][..]),
        "op_few" => (op, &[OP_BYTES + 6 * RANGE_BYTES]),
        "op_many" => (op, &[OP_BYTES + 46 * RANGE_BYTES]),
        "check" => (check, &[8, 8, 8, 8, 8, 8]),
        "stream_read" => (stream_read, &[8, 8, 4, 8]),
        "stream_write" => (stream_write, &[8, 8, 4]),
        "stream_copy" => (stream_copy, &[8, 8, 8, 4]),
        "delay" => (delay, &[8]),
        "gemm_f32" => (gemm_f32, &[8, 8, 8, 4]),
        _ => return None,
    })
}

/// Numbers of one size in memory that a kernel may reach.
pub(crate) struct Words<T> {
    /// None if there are none: then it may be any address.
    place: Option<Place>,
    count: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Copy> Words<T> {
    pub(crate) fn at(address: u64, count: u64) -> Result<Words<T>, Code> {
        let size = size_of::<T>() as u64;
        if count > 0 && !address.is_multiple_of(size) {
            return Err(MISALIGNED_ADDRESS);
        }
        let bytes = count.checked_mul(size).ok_or(ILLEGAL_ADDRESS)?;
        let place = || Driver::get().lock().memory.known(address, bytes);
        let place = (count > 0).then(place).transpose().map_err(|_| ILLEGAL_ADDRESS)?;
        let count = usize::try_from(count).map_err(|_| ILLEGAL_ADDRESS)?;
        Ok(Words { place, count, of: std::marker::PhantomData })
    }

    fn pointer(&self, index: usize) -> *mut T {
        let place = self.place.as_ref().filter(|_| index < self.count);
        let place = place.expect("a kernel stays within what it asked for");
        place.pointer().cast::<T>().wrapping_add(index)
    }

    pub(crate) fn get(&self, index: usize) -> T {
        // SAFETY: within the allocation that `place` keeps alive, aligned, and any bits are a
        // number. Others may write there at the same time, as on a device: a volatile read takes
        // what is there.
        unsafe { self.pointer(index).read_volatile() }
    }

    pub(crate) fn set(&self, index: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.pointer(index).write_volatile(value) }
    }
}

fn pattern(key: u64, index: u64) -> u64 {
    key ^ index.wrapping_mul(ODD)
}

/// What a launch does to a range.
const READS: u64 = 1;
const WRITES: u64 = 2;
/// Words of a range and of a filler, and bytes; those of an op are two fillers, a sink and a count.
const RANGE: usize = 8;
const FILLER: usize = 5;
const RANGE_BYTES: usize = 8 * RANGE;
const OP_BYTES: usize = 8 * (2 * FILLER + 2);

fn fill(arguments: &[u64]) -> Result<(), Code> {
    let &[words, count, key, first] = arguments else { return Err(LAUNCH_FAILED) };
    use_one(&[words, count, 0, first, 1, 0, key, WRITES])
}

fn check(arguments: &[u64]) -> Result<(), Code> {
    let &[words, count, key, first, stride, out] = arguments else { return Err(LAUNCH_FAILED) };
    use_one(&[words, count, key, first, stride, out, 0, READS])
}

fn op(arguments: &[u64]) -> Result<(), Code> {
    let (before, rest) = arguments.split_at_checked(FILLER).ok_or(LAUNCH_FAILED)?;
    let (after, rest) = rest.split_at_checked(FILLER).ok_or(LAUNCH_FAILED)?;
    let [_sink, count, ranges @ ..] = rest else { return Err(LAUNCH_FAILED) };
    let count = usize::try_from(*count).ok().filter(|count| *count <= ranges.len() / RANGE);
    work(before)?;
    ranges.chunks_exact(RANGE).take(count.ok_or(LAUNCH_FAILED)?).try_for_each(use_one)?;
    work(after)
}

fn work(filler: &[u64]) -> Result<(), Code> {
    let &[rounds, to, from, count, passes] = filler else { return Err(LAUNCH_FAILED) };
    multiply_add(rounds);
    stream_copy(&[to, from, if passes == 0 { 0 } else { count }, passes])
}

fn use_one(range: &[u64]) -> Result<(), Code> {
    let &[address, count, key, first, stride, out, next, does] = range else {
        return Err(LAUNCH_FAILED);
    };
    if count == 0 {
        return Ok(());
    }
    // Two at a time.
    if !address.is_multiple_of(16) {
        return Err(MISALIGNED_ADDRESS);
    }
    let words = Words::<u64>::at(address, count)?;
    if does & READS != 0 {
        compare(&words, (key, first), stride, &Words::at(out, 4)?);
    }
    if does & WRITES != 0 {
        for i in 0..words.count {
            words.set(i, pattern(next, first.wrapping_add(i as u64)));
        }
    }
    Ok(())
}

fn compare(words: &Words<u64>, (key, first): (u64, u64), stride: u64, out: &Words<u64>) {
    let count = words.count as u64;
    let last = (count - 1) / PAGE_WORDS;
    for page in 0..=last {
        if !page.is_multiple_of(stride.max(1)) && page != last {
            continue;
        }
        for at in page * PAGE_WORDS..((page + 1) * PAGE_WORDS).min(count) {
            let found = words.get(at as usize);
            if found != pattern(key, first.wrapping_add(at)) {
                out.set(0, out.get(0).wrapping_add(1));
                if at < out.get(1) {
                    out.set(1, at);
                    out.set(2, found);
                }
            }
        }
    }
}

fn stream_read(arguments: &[u64]) -> Result<(), Code> {
    let &[from, count, passes, _sink] = arguments else { return Err(LAUNCH_FAILED) };
    let from = Words::<u128>::at(from, count)?;
    let mut all = 0;
    for _ in 0..passes {
        for i in 0..from.count {
            all ^= from.get(i);
        }
    }
    black_box(all);
    Ok(())
}

fn stream_write(arguments: &[u64]) -> Result<(), Code> {
    let &[to, count, passes] = arguments else { return Err(LAUNCH_FAILED) };
    let to = Words::<u128>::at(to, count)?;
    for pass in 0..passes as u32 {
        let parts = [0, 1, 2, 3].map(|part| u128::from(pass.wrapping_add(part)));
        let value = parts[0] | parts[1] << 32 | parts[2] << 64 | parts[3] << 96;
        for i in 0..to.count {
            to.set(i, value);
        }
    }
    Ok(())
}

fn stream_copy(arguments: &[u64]) -> Result<(), Code> {
    let &[to, from, count, passes] = arguments else { return Err(LAUNCH_FAILED) };
    let (to, from) = (Words::<u128>::at(to, count)?, Words::<u128>::at(from, count)?);
    for _ in 0..passes {
        for i in 0..to.count {
            to.set(i, from.get(i));
        }
    }
    Ok(())
}

/// One thread's chains; a device would run as many as there are threads.
fn multiply_add(rounds: u64) {
    let mut x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    for _ in 0..rounds {
        for _ in 0..16 {
            x = x.map(|x| x * 0.5 + 0.5);
        }
        x = black_box(x);
    }
}

fn delay(arguments: &[u64]) -> Result<(), Code> {
    let &[ns] = arguments else { return Err(LAUNCH_FAILED) };
    let (start, wanted) = (now(), Duration::from_nanos(ns.min(10_000_000_000)));
    // The system wakes a thread late; the rest is spent looking at the clock.
    let late = Duration::from_micros(100);
    loop {
        let left = wanted.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        if left > late {
            std::thread::park_timeout(left - late);
        } else {
            std::hint::spin_loop();
        }
    }
}

/// c = a b row by row, which is c' = b' a' column by column.
fn gemm_f32(arguments: &[u64]) -> Result<(), Code> {
    let &[a, b, c, n] = arguments else { return Err(LAUNCH_FAILED) };
    product::<Float>(&[b, a, c, u64::from(1f32.to_bits()), 0, n, n, n, n, n, n])
}

/// What a matrix is made of.
pub(crate) trait Element {
    type Bits: Copy;
    fn value(bits: Self::Bits) -> f32;
    fn bits(value: f32) -> Self::Bits;
}

/// A 32-bit float.
pub(crate) struct Float;

impl Element for Float {
    type Bits = f32;
    fn value(bits: f32) -> f32 {
        bits
    }
    fn bits(value: f32) -> f32 {
        value
    }
}

/// The upper half of one, rounded to the nearest, ties to even.
pub(crate) struct Brain;

impl Element for Brain {
    type Bits = u16;
    fn value(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
    fn bits(value: f32) -> u16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return (bits >> 16) as u16 | 0x40;
        }
        (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16
    }
}

/// c = alpha a b + beta c, column by column: `m` by `k`, `k` by `n`, `m` by `n`.
pub(crate) fn product<E: Element>(arguments: &[u64]) -> Result<(), Code> {
    let &[a, b, c, alpha, beta, m, n, k, a_step, b_step, c_step] = arguments else {
        return Err(ILLEGAL_ADDRESS);
    };
    let [alpha, beta] = [alpha, beta].map(|bits| f32::from_bits(bits as u32));
    let (a, b) = (Words::<E::Bits>::at(a, a_step * k)?, Words::<E::Bits>::at(b, b_step * n)?);
    let c = Words::<E::Bits>::at(c, c_step * n)?;
    let at = |row: u64, column: u64, step: u64| (row + column * step) as usize;
    let mut column = vec![0.0f32; m as usize];
    for j in 0..n {
        column.fill(0.0);
        for l in 0..k {
            let right = E::value(b.get(at(l, j, b_step)));
            for (i, sum) in column.iter_mut().enumerate() {
                *sum += E::value(a.get(at(i as u64, l, a_step))) * right;
            }
        }
        for (i, sum) in column.iter().enumerate() {
            let place = at(i as u64, j, c_step);
            // With a factor of 0 what is there is not read: it may be no number.
            let before = if beta == 0.0 { 0.0 } else { beta * E::value(c.get(place)) };
            c.set(place, E::bits(alpha * sum + before));
        }
    }
    Ok(())
}
