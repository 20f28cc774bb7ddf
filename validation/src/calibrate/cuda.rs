//! The CUDA bench: what calibration asks of a device, and how it is answered.
//!
//! Copies over channels, ops in place and the cost of an op go through the machine; beside them the
//! bare loops that show what the driver gives without it: copies of pinned and pageable memory,
//! kernels that stream, products of matrices, blocks of files into pinned memory.
//! Invariant: nothing runs on the device between two probes, and nothing is left behind.

mod blas;
mod figures;
mod kernels;
mod products;
mod rows;
mod system;

use crate::calibrate::bench::{self, Bare};
use crate::calibrate::blocks::Blocks;
use crate::calibrate::probe::{
    Access, Device as Described, Kind, Limits, MeasuredMachine, Memory, Precision, Probe, Sample,
    Way,
};
use crate::calibrate::through::Through;
use crate::cuda::driver::{Attribute, Device, DeviceMemory, Pageable, PinnedMemory};
use crate::fault::{Fault, Result};
use crate::host::room::is_file;
use crate::options::Live;
use crate::real;
use kernels::Kernels;
use rows::{Ends, Rows};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::ids::TierId;
use tiersim_models::results::calibration::Figure;
use tiersim_models::units::{Bytes, Span};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Sizes of copies and of objects, where the device has the room.
const OBJECTS: Limits = Limits::new(Bytes::new(4 * KIB), Bytes::new(256 * MIB));
/// What crosses files stops where a transfer of blocks does: a drive's rate is known by then, and
/// larger objects take most of a calibration's time.
const FILES: Limits = Limits::new(Bytes::new(4 * KIB), Bytes::new(64 * MIB));
/// Three matrices, of a side of 73 to 6689 in 32-bit floats.
const MATRICES: Limits = Limits::new(Bytes::new(64 * KIB), Bytes::new(512 * MIB));
/// The largest range that kernels stream through, and the smallest cache that is assumed.
const STREAMS: u64 = 2 << 30;
/// Distance between matrices, which tensor cores and copies like.
const ALIGN: u64 = 256;

/// A CUDA device with this computer's memory and files. What holds memory comes before the device.
pub(crate) struct CudaBench {
    rows: Rows,
    kernels: Kernels,
    /// Device memory, as large as was asked for last.
    arena: Option<(u64, DeviceMemory)>,
    pinned: Option<(u64, PinnedMemory)>,
    pageable: [Pageable; 2],
    blocks: Blocks,
    /// What the matrices that lie in the arena are made of, and their side.
    matrices: Option<(Precision, u64)>,
    /// What can be multiplied, and rightly.
    precisions: Vec<Precision>,
    described: Described,
    scratch: PathBuf,
    /// The largest share of the device's memory that one probe takes.
    most: u64,
    /// Bytes of the device's last cache.
    cache: u64,
    /// The device's number, for machines on it.
    number: usize,
    device: Arc<Device>,
}

impl CudaBench {
    /// The device of a number. Without a driver or a device: a fault that says what was looked for.
    pub(crate) fn new(number: usize, scratch: &Path) -> Result<CudaBench> {
        let device = Device::open(number, Live::default())?;
        std::fs::create_dir_all(scratch).map_err(Fault::io("makes folder", scratch.display()))?;
        let kernels = Kernels::load(&device)?;
        let blocks = Blocks::create(scratch)?;
        let direct = if blocks.file().is_direct() { "around" } else { "through" };
        let backend = blocks.file().backend().word();
        let mut notes = vec![
            format!("files {direct} the page cache by {backend}, into pinned memory"),
            kernels.multiplier(),
        ];
        let (rows, mut precisions) = (Rows::new(&device)?, Vec::new());
        for &precision in kernels.precisions() {
            match products::trial(&device, &kernels, rows.main(), precision)? {
                None => precisions.push(precision),
                Some(refused) => notes.push(refused),
            }
        }
        let described = system::describe(&device, scratch, notes)?;
        let (free, _) = device.memory()?;
        Ok(CudaBench {
            rows,
            kernels,
            arena: None,
            pinned: None,
            pageable: [Pageable::new(8), Pageable::new(8)],
            blocks,
            matrices: None,
            precisions,
            described,
            scratch: scratch.to_path_buf(),
            most: (free.get() / 4).max(MIB),
            cache: device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            number,
            device,
        })
    }

    /// Sizes up to what one probe may take, a power of two.
    fn limits(&self, limits: Limits, share: u64) -> Limits {
        let most = 1u64 << (self.most / share).max(limits.least.get()).ilog2();
        Limits { most: limits.most.min(Bytes::new(most)), ..limits }
    }

    /// Beyond twice the cache it is memory's doing.
    fn streams(&self) -> Limits {
        let fit_from = Bytes::new(2 * self.cache.max(MIB).next_power_of_two());
        let limits = Limits { least: Bytes::new(64 * KIB), most: Bytes::new(STREAMS), fit_from };
        self.limits(limits, 1)
    }

    /// Address of device memory of at least a size.
    fn arena(&mut self, bytes: u64) -> Result<u64> {
        if self.arena.as_ref().is_none_or(|(size, _)| *size < bytes) {
            // The smaller one goes first: both together may not fit.
            (self.arena, self.matrices) = (None, None);
            self.arena = Some((bytes, DeviceMemory::new(&self.device, bytes)?));
        }
        Ok(self.arena.as_ref().map_or(0, |(_, memory)| memory.address))
    }

    /// Pinned memory of at least a size.
    fn pinned(&mut self, bytes: u64) -> Result<&mut PinnedMemory> {
        if self.pinned.as_ref().is_none_or(|(size, _)| *size < bytes) {
            self.pinned = None;
            self.pinned = Some((bytes, PinnedMemory::new(&self.device, bytes)?));
        }
        Ok(self.pinned.as_mut().map(|(_, memory)| memory).expect("made above"))
    }
}

impl Bare for CudaBench {
    fn through(&self) -> Through<'_> {
        let (skeleton, scratch) = (&self.described.skeleton, self.scratch.as_path());
        Through { machine: real::Kind::Cuda, device: self.number, skeleton, scratch }
    }

    fn bare(
        &mut self,
        size: usize,
        (way, memory, both): (Way, Memory, bool),
        repeats: usize,
    ) -> Result<Vec<Span>> {
        self.matrices = None;
        let bytes = size as u64;
        let device = self.arena(2 * bytes)?;
        let back = match way {
            Way::ToDevice => Way::FromDevice,
            Way::FromDevice => Way::ToDevice,
        };
        let ends = |hosts: [u64; 2]| {
            let theirs = both.then(|| Ends::of(back, device + bytes, hosts[1], bytes));
            (Ends::of(way, device, hosts[0], bytes), theirs)
        };
        match memory {
            Memory::Pinned => {
                let host = self.pinned(2 * bytes)?.address;
                let (ours, theirs) = ends([host, host + bytes]);
                self.rows.copies(&self.kernels, ours, theirs, repeats)
            }
            Memory::Pageable => {
                let hosts = self.pageable.each_mut().map(|memory| rows::at_least(memory, bytes));
                let (ours, theirs) = ends(hosts);
                self.rows.pageable(ours, theirs, repeats)
            }
        }
    }

    fn product(&mut self, precision: Precision, side: u64, repeats: usize) -> Result<Vec<Span>> {
        let matrix = (side * side * precision.bytes()).next_multiple_of(ALIGN);
        let start = self.arena(3 * matrix)?;
        let places = [0, 1, 2].map(|index| start + index * matrix);
        if self.matrices != Some((precision, side)) {
            for (seed, place) in (0..).zip(&places[..2]) {
                let host = self.pinned(matrix)?;
                products::fill(&mut host.bytes()?[..matrix as usize], precision, seed);
                let host = host.address;
                self.rows.main().copy(*place, host, matrix)?;
                self.rows.main().synchronize()?;
            }
            self.matrices = Some((precision, side));
        }
        let kernels = &self.kernels;
        self.rows
            .single(kernels, repeats, |stream| kernels.product(stream, places, precision, side))
    }

    fn stream(&mut self, access: Access, size: usize, repeats: usize) -> Result<Vec<Span>> {
        self.matrices = None;
        let bytes = size as u64;
        let (address, kernels) = (self.arena(bytes)?, &self.kernels);
        self.rows.single(kernels, repeats, |to| kernels.stream(to, access, address, bytes))
    }
    fn file(&mut self, size: usize) -> Result<(&mut Blocks, &mut [u8])> {
        self.pinned(size as u64)?;
        let (_, pinned) = self.pinned.as_mut().expect("made above");
        Ok((&mut self.blocks, &mut pinned.bytes()?[..size]))
    }
}

impl MeasuredMachine for CudaBench {
    fn describe(&self) -> Described {
        self.described.clone()
    }

    fn address(&self) -> Option<String> {
        system::address(&self.device).ok()
    }

    fn kinds(&self) -> Vec<(Kind, Limits)> {
        let skeleton = &self.described.skeleton;
        let objects = |tiers: &[TierId]| {
            let files = tiers.iter().any(|tier| is_file(skeleton.tiers[tier.index()].kind));
            self.limits(if files { FILES } else { OBJECTS }, 2)
        };
        let mut bare = Vec::new();
        for way in [Way::ToDevice, Way::FromDevice] {
            for memory in [Memory::Pinned, Memory::Pageable] {
                for both in [false, true] {
                    bare.push((Kind::Bare { way, memory, both }, self.limits(OBJECTS, 2)));
                }
            }
        }
        let product = |&precision| (Kind::Gemm(precision), self.limits(MATRICES, 1));
        let products = self.precisions.iter().map(product);
        bench::kinds(skeleton, objects, bare, self.streams(), products)
    }

    fn run(&mut self, probe: &Probe) -> Result<Sample> {
        self.alone(|bench| bench::run(bench, probe))
    }

    fn figures(&mut self) -> Result<Vec<Figure>> {
        self.alone(|bench| figures::figures(&mut bench.rows, &bench.kernels))
    }
}

impl CudaBench {
    /// Works on the device, which has nothing left to do after a fault.
    fn alone<T>(&mut self, work: impl FnOnce(&mut CudaBench) -> Result<T>) -> Result<T> {
        // A machine may have been dropped on this thread since.
        self.device.enter()?;
        let done = work(self);
        if done.is_err() {
            // What was queued before the fault still uses the bench's memory.
            let _ = self.device.synchronize();
        }
        done
    }
}
