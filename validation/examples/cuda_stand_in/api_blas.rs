//! As much of cuBLAS as a product of matrices takes, for programs that look for its library.
//!
//! It is there if a link `libcublas.so` to the stand-in lies beside the one named `libcuda.so`.
//! Statuses are cuBLAS's: 1 not initialised, 7 a wrong value, 13 the work could not be queued,
//! 15 a kind of matrices that is not here.
//! Invariant: matrices lie column by column, as the library counts.

use crate::driver::{Needs, enter, put};
use crate::kernels::{Brain, Float, Kernel, Launch, product};
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

/// `CUDA_R_32F`, `CUDA_R_16BF`; `CUBLAS_COMPUTE_32F`, `CUBLAS_COMPUTE_32F_FAST_TF32`.
const KINDS: [(c_int, c_int); 3] = [(0, 68), (0, 77), (14, 68)];

/// c = alpha a b + beta c: `m` by `k`, `k` by `n`, `m` by `n`, none of them transposed, of 32-bit
/// floats or of floats of 16 bits with 7 of mantissa.
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
    let Some(stream) = with(|handles| handles.get(&handle).copied()) else { return 1 };
    let narrow = m < 0 || n < 0 || k < 0 || a_step < m || b_step < k || c_step < m;
    if (a_turned, b_turned) != (0, 0) || narrow || alpha.is_null() || beta.is_null() {
        return 7;
    }
    // SAFETY: they are not null, and the caller says that they are there.
    let (alpha, beta) = unsafe { (alpha.read(), beta.read()) };
    let factors = [alpha, beta].map(|factor| u64::from(factor.to_bits()));
    let sides = [m, n, k, a_step, b_step, c_step].map(|number| u64::from(number.unsigned_abs()));
    let arguments = [a, b, c].into_iter().chain(factors).chain(sides).collect();
    let kernel: Kernel = if a_kind == 0 { product::<Float> } else { product::<Brain> };
    let queued = enter("cublasGemmEx", Needs::Context, |driver| {
        driver.lock().enqueue(stream, Work::Kernel(Launch { kernel, arguments })).map(|_| ())
    });
    if queued == 0 { 0 } else { 13 }
}
