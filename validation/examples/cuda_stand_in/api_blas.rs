//! As much of cuBLAS as a product of matrices takes, for programs that look for its library.
//!
//! It is there if a link `libcublas.so` to the stand-in lies beside the one named `libcuda.so`.
//! Statuses are cuBLAS's: 1 not initialised, 7 a wrong value, 13 the work could not be queued,
//! 15 a kind of matrices that is not here.
//! Invariant: matrices lie column by column, as the library counts.

use crate::codes::{Code, ILLEGAL_ADDRESS};
use crate::driver::{Driver, Needs, enter, put};
use crate::kernels::{Kernel, Launch, Words};
use crate::stream::Work;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// The stream of each handle.
static HANDLES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn with<T>(body: impl FnOnce(&mut BTreeMap<usize, usize>) -> T) -> T {
    body(&mut HANDLES.lock().unwrap_or_else(PoisonError::into_inner))
}

#[unsafe(no_mangle)]
extern "C" fn cublasCreate_v2(to: *mut usize) -> c_int {
    let created = enter("cublasCreate_v2", Needs::Context, |driver| {
        let handle = driver.lock().handle();
        with(|handles| handles.insert(handle, 0));
        put(to, handle)
    });
    c_int::from(created != 0)
}

#[unsafe(no_mangle)]
extern "C" fn cublasDestroy_v2(handle: usize) -> c_int {
    c_int::from(with(|handles| handles.remove(&handle)).is_none())
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetVersion_v2(handle: usize, to: *mut c_int) -> c_int {
    let known = with(|handles| handles.contains_key(&handle));
    c_int::from(!known || put(to, 0).is_err())
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetStream_v2(handle: usize, stream: usize) -> c_int {
    match with(|handles| handles.get_mut(&handle).map(|of| *of = stream)) {
        Some(()) => 0,
        None => 1,
    }
}

/// c = alpha a b + beta c: `m` by `k`, `k` by `n`, `m` by `n`, none of them transposed.
///
/// # Safety
///
/// The two factors are on the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn cublasSgemm_v2(
    handle: usize,
    a_turned: c_int,
    b_turned: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const f32,
    a: u64,
    a_step: c_int,
    b: u64,
    b_step: c_int,
    beta: *const f32,
    c: u64,
    c_step: c_int,
) -> c_int {
    let call = Call {
        name: "cublasSgemm_v2",
        handle,
        turned: (a_turned, b_turned),
        sides: [m, n, k, a_step, b_step, c_step],
        factors: (alpha, beta),
        matrices: [a, b, c],
        kernel: product::<Float>,
    };
    // SAFETY: the caller says that the factors are there.
    unsafe { call.queue() }
}

/// `CUDA_R_32F`, `CUDA_R_16BF`; `CUBLAS_COMPUTE_32F`, `CUBLAS_COMPUTE_32F_FAST_TF32`.
const KINDS: [(c_int, c_int); 3] = [(0, 68), (0, 77), (14, 68)];

/// c = alpha a b + beta c as above, of 32-bit floats or of floats of 16 bits with 7 of mantissa.
///
/// # Safety
///
/// The two factors are on the host, 32-bit floats.
#[unsafe(no_mangle)]
unsafe extern "C" fn cublasGemmEx(
    handle: usize,
    a_turned: c_int,
    b_turned: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const f32,
    a: u64,
    a_kind: c_int,
    a_step: c_int,
    b: u64,
    b_kind: c_int,
    b_step: c_int,
    beta: *const f32,
    c: u64,
    c_kind: c_int,
    c_step: c_int,
    compute: c_int,
    _algorithm: c_int,
) -> c_int {
    if a_kind != b_kind || a_kind != c_kind || !KINDS.contains(&(a_kind, compute)) {
        return 15;
    }
    let call = Call {
        name: "cublasGemmEx",
        handle,
        turned: (a_turned, b_turned),
        sides: [m, n, k, a_step, b_step, c_step],
        factors: (alpha, beta),
        matrices: [a, b, c],
        kernel: if a_kind == 0 { product::<Float> } else { product::<Brain> },
    };
    // SAFETY: the caller says that the factors are there.
    unsafe { call.queue() }
}

/// A call with what both functions check.
struct Call {
    name: &'static str,
    handle: usize,
    turned: (c_int, c_int),
    sides: [c_int; 6],
    factors: (*const f32, *const f32),
    matrices: [u64; 3],
    kernel: Kernel,
}

impl Call {
    /// # Safety
    ///
    /// The two factors are null or on the host.
    unsafe fn queue(self) -> c_int {
        let Some(stream) = with(|handles| handles.get(&self.handle).copied()) else { return 1 };
        let [m, n, k, a_step, b_step, c_step] = self.sides;
        let narrow = m < 0 || n < 0 || k < 0 || a_step < m || b_step < k || c_step < m;
        let (alpha, beta) = self.factors;
        if self.turned != (0, 0) || narrow || alpha.is_null() || beta.is_null() {
            return 7;
        }
        // SAFETY: they are not null, and the caller says that they are there.
        let (alpha, beta) = unsafe { (alpha.read(), beta.read()) };
        let factors = [alpha, beta].map(|factor| u64::from(factor.to_bits()));
        let sides = self.sides.map(|number| u64::from(number.unsigned_abs()));
        let arguments = self.matrices.into_iter().chain(factors).chain(sides).collect();
        let queued = enter(self.name, Needs::Context, |driver: &Driver| {
            let work = Work::Kernel(Launch { kernel: self.kernel, arguments });
            driver.lock().enqueue(stream, work).map(|_| ())
        });
        if queued == 0 { 0 } else { 13 }
    }
}

/// What a matrix is made of.
trait Element {
    type Bits: Copy;
    fn value(bits: Self::Bits) -> f32;
    fn bits(value: f32) -> Self::Bits;
}

/// A 32-bit float.
struct Float;

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
struct Brain;

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

fn product<E: Element>(arguments: &[u64]) -> Result<(), Code> {
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
