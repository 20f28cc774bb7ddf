//! The kernels that only calibration runs, and the product of matrices by whoever does it best.
//!
//! Products are cuBLAS's where its library can be loaded and takes the device, else `gemm_f32`'s.
//! Invariant: addresses are those of memory that the bench keeps until nothing is under way.

use crate::calibrate::cuda::blas::Blas;
use crate::calibrate::probe::{Access, Precision};
use crate::cuda::driver::{Device, Stream};
use crate::cuda::kernels;
use crate::fault::Result;
use std::sync::Arc;

/// Side of the tiles of `gemm_f32`.
const TILE: u64 = 64;

/// The machine's kernels, and who multiplies matrices.
pub(super) struct Kernels {
    all: kernels::Kernels,
    blas: Option<Blas>,
}

impl Kernels {
    pub(super) fn load(device: &Arc<Device>) -> Result<Kernels> {
        Ok(Kernels { all: kernels::Kernels::load(device)?, blas: Blas::open() })
    }

    /// Who multiplies matrices.
    pub(super) fn multiplier(&self) -> String {
        match &self.blas {
            Some(blas) => format!("products by cuBLAS {}", blas.version),
            None => "products by the kernel gemm_f32: cuBLAS could not be loaded".to_owned(),
        }
    }

    /// The call or the kernel that multiplies.
    pub(super) fn multiplies_by(&self) -> &'static str {
        if self.blas.is_some() { "cuBLAS" } else { "gemm_f32" }
    }

    /// Precisions that whoever multiplies may know.
    pub(super) fn precisions(&self) -> &'static [Precision] {
        if self.blas.is_some() { &Precision::ALL } else { &[Precision::Fp32] }
    }

    /// Goes once through the first `bytes` of some memory: a copy, from one half to the other.
    pub(super) fn stream(
        &self,
        stream: &Stream,
        access: Access,
        address: u64,
        bytes: u64,
    ) -> Result<()> {
        let (all, count) = (&self.all, bytes / 16);
        match access {
            Access::Read => {
                let arguments = [address, count, 1, all.sink.address];
                stream.launch(all.stream_read, stream.grid(count), &arguments)
            }
            Access::Write => {
                stream.launch(all.stream_write, stream.grid(count), &[address, count, 1])
            }
            Access::Copy => {
                let half = count / 2 * 16;
                all.stream_copy(stream, (address + half, address), half, 1)
            }
        }
    }

    /// c = a b, of square matrices at these addresses; without cuBLAS of [`Precision::Fp32`] only.
    pub(super) fn product(
        &self,
        stream: &Stream,
        [a, b, c]: [u64; 3],
        precision: Precision,
        side: u64,
    ) -> Result<()> {
        if let Some(blas) = &self.blas {
            return blas.product(stream, [a, b, c], precision, side);
        }
        let tiles = side.div_ceil(TILE).pow(2).clamp(1, i32::MAX as u64);
        let blocks = u32::try_from(tiles).expect("bounded above");
        stream.launch(self.all.gemm, (blocks, 256), &[a, b, c, side])
    }

    /// Keeps a stream busy for a time, in nanoseconds; nothing but a launch for 0.
    pub(super) fn delay(&self, stream: &Stream, ns: u64) -> Result<()> {
        stream.launch(self.all.delay, (1, 1), &[ns])
    }
}
