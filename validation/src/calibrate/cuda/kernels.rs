//! The kernels that only calibration runs, and the product of matrices by whoever does it best.
//!
//! Products are cuBLAS's where its library can be loaded and takes the device, else `gemm_f32`'s.
//! Invariant: addresses are those of memory that the bench keeps until nothing is under way.

use crate::calibrate::cuda::blas::Blas;
use crate::calibrate::probe::{Access, Precision};
use crate::cuda::driver::{Device, DeviceMemory, Function, Module, Stream};
use crate::cuda::kernels::PTX;
use crate::fault::Result;
use std::sync::Arc;

/// Side of the tiles of `gemm_f32`.
const TILE: u64 = 64;

/// The kernels, compiled.
pub(super) struct Kernels {
    read: Function,
    write: Function,
    copy: Function,
    delay: Function,
    gemm: Function,
    blas: Option<Blas>,
    sink: DeviceMemory,
    _module: Module,
}

impl Kernels {
    pub(super) fn load(device: &Arc<Device>) -> Result<Kernels> {
        let module = Module::load(device, PTX)?;
        Ok(Kernels {
            read: module.function(c"stream_read")?,
            write: module.function(c"stream_write")?,
            copy: module.function(c"stream_copy")?,
            delay: module.function(c"delay")?,
            gemm: module.function(c"gemm_f32")?,
            blas: Blas::open(),
            sink: DeviceMemory::new(device, 256)?,
            _module: module,
        })
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
        let count = bytes / 16;
        match access {
            Access::Read => {
                let arguments = [address, count, 1, self.sink.address];
                stream.launch(self.read, stream.grid(count), &arguments)
            }
            Access::Write => stream.launch(self.write, stream.grid(count), &[address, count, 1]),
            Access::Copy => {
                let half = count / 2;
                let arguments = [address + half * 16, address, half, 1];
                stream.launch(self.copy, stream.grid(half), &arguments)
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
        stream.launch(self.gemm, (blocks, 256), &[a, b, c, side])
    }

    /// Keeps a stream busy for a time, in nanoseconds; nothing but a launch for 0.
    pub(super) fn delay(&self, stream: &Stream, ns: u64) -> Result<()> {
        stream.launch(self.delay, (1, 1), &[ns])
    }
}
