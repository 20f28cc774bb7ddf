//! cuBLAS, where it can be loaded: products of matrices, found by name at run time.
//!
//! As with the driver, `cudarc` finds the library and the calls are looked up here, because its own
//! functions panic where a library lacks one.
//! Invariant: without the library, or where it does not take the device, there is no [`Blas`], and
//! the bench says that it multiplies with its own kernel.

use crate::calibrate::probe::Precision;
use crate::cuda::driver::Stream;
use crate::fault::{Fault, Result};
use cudarc::cublas::sys;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type Version = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
#[rustfmt::skip]
type GemmEx = unsafe extern "C" fn(
    Handle, c_int, c_int, c_int, c_int, c_int, *const c_void, u64, c_int, c_int, u64, c_int, c_int,
    *const c_void, u64, c_int, c_int, c_int, c_int,
) -> c_int;

/// `CUBLAS_OP_N`: as it is, not transposed.
const PLAIN: c_int = 0;
/// `CUDA_R_32F` and `CUDA_R_16BF`: what matrices are made of.
const FLOATS: c_int = 0;
const BRAIN_FLOATS: c_int = 14;
/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`.
const COMPUTE_FLOATS: c_int = 68;
const COMPUTE_TF32: c_int = 77;
/// `CUBLAS_GEMM_DEFAULT`: the library chooses how.
const CHOOSE: c_int = -1;

/// A handle of the library, for the context that was current when it was made.
pub(super) struct Blas {
    handle: Handle,
    destroy: Destroy,
    set_stream: SetStream,
    gemm_ex: GemmEx,
    /// As the library writes it: 120103 is 12.1.3.
    pub(super) version: c_int,
}

impl Blas {
    /// `None` where there is no such library, or it does not take the device.
    #[expect(unsafe_code, reason = "a library found at run time has types by promise only")]
    pub(super) fn open() -> Option<Blas> {
        // SAFETY: it opens the system's cuBLAS, if it has one, as programs that use it do.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        // SAFETY: it has just been opened, so this does not panic; it stays open.
        let library = unsafe { sys::culib() };
        // SAFETY: the types are those of cublas_v2.h, with statuses as the numbers that they are.
        let (create, destroy, get_version, set_stream, gemm_ex) = unsafe {
            (
                *library.get::<Create>(b"cublasCreate_v2\0").ok()?,
                *library.get::<Destroy>(b"cublasDestroy_v2\0").ok()?,
                *library.get::<Version>(b"cublasGetVersion_v2\0").ok()?,
                *library.get::<SetStream>(b"cublasSetStream_v2\0").ok()?,
                *library.get::<GemmEx>(b"cublasGemmEx\0").ok()?,
            )
        };
        let (mut handle, mut version) = (null_mut(), 0);
        // SAFETY: a context is current; the call writes one handle.
        if unsafe { create(&mut handle) } != 0 {
            return None;
        }
        // SAFETY: the handle was made above; the call writes one number, or leaves 0.
        unsafe { get_version(handle, &mut version) };
        Some(Blas { handle, destroy, set_stream, gemm_ex, version })
    }

    /// c = a b, row by row.
    ///
    /// The library counts column by column, and so takes them for their transposes: what it must
    /// compute is c' = b' a'. Sums are 32-bit floats, and so are the two factors.
    #[expect(unsafe_code, reason = "a library's calls")]
    pub(super) fn product(
        &self,
        stream: &Stream,
        [a, b, c]: [u64; 3],
        precision: Precision,
        side: u64,
    ) -> Result<()> {
        let n = c_int::try_from(side).expect("three matrices fit the device's memory");
        let (one, zero) = (1.0f32, 0.0f32);
        // SAFETY: handle and stream are alive.
        let status = unsafe { (self.set_stream)(self.handle, stream.handle().cast()) };
        check("cublasSetStream", status)?;
        let (kind, compute) = match precision {
            Precision::Fp32 => (FLOATS, COMPUTE_FLOATS),
            Precision::Tf32 => (FLOATS, COMPUTE_TF32),
            Precision::Bf16 => (BRAIN_FLOATS, COMPUTE_FLOATS),
        };
        let [one, zero] = [&one, &zero].map(|factor| std::ptr::from_ref(factor).cast());
        // SAFETY: handle and stream are alive; the two factors outlive the call, which reads them
        // before it returns; the three matrices are the bench's.
        #[rustfmt::skip]
        let status = unsafe {
            (self.gemm_ex)(
                self.handle, PLAIN, PLAIN, n, n, n, one, b, kind, n, a, kind, n, zero, c, kind, n,
                compute, CHOOSE,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a library's call")]
        // SAFETY: made in `open`, and used by nobody else.
        let _ = unsafe { (self.destroy)(self.handle) };
    }
}

fn check(call: &'static str, status: c_int) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(Fault::Device { call, found: format!("cublasStatus_t {status}") }),
    }
}
