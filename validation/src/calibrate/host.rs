//! The host's bench: memory, files and a processor core of this computer.
//!
//! Memory stands for HBM and DRAM and files for NVMe, as in the host machine. Copies over channels,
//! ops in place and the cost of an op are measured through that machine; beside them the bare loops
//! that show what memory, files and a core give without it.
//! Invariant: nothing is left behind below `scratch`.

mod loops;
pub(crate) mod system;

use crate::calibrate::bench::{self, Bare};
use crate::calibrate::blocks::Blocks;
use crate::calibrate::probe::{
    Access, Device, Kind, Limits, MeasuredMachine, Memory, Precision, Probe, Sample, Way,
};
use crate::calibrate::through::Through;
use crate::fault::{Fault, Result};
use crate::files::Buffer;
use crate::host::kernels::last_cache;
use crate::real;
use loops::Locked;
use std::path::{Path, PathBuf};
use tiersim_models::units::{Bytes, Span};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Sizes of copies and of objects.
const OBJECTS: Limits = Limits::new(Bytes::new(4 * KIB), Bytes::new(64 * MIB));
/// Three matrices of a side of 73 to 1182.
const MATRICES: Limits = Limits::new(Bytes::new(64 * KIB), Bytes::new(16 * MIB));
/// This computer.
pub(super) struct HostBench {
    device: Device,
    scratch: PathBuf,
    pinned: Locked,
    pageable: [Vec<u8>; 4],
    file: Blocks,
    buffer: Buffer,
    cache: Option<u64>,
}

impl HostBench {
    pub(super) fn new(scratch: &Path) -> Result<HostBench> {
        let made = std::fs::create_dir_all(scratch);
        made.map_err(Fault::io("makes folder", scratch.display()))?;
        let file = Blocks::create(scratch)?;
        let pinned = Locked::largest(2 * OBJECTS.most.get() as usize);
        let cache = last_cache();
        let device = system::describe(scratch, file.file(), pinned.len(), cache)?;
        let (pageable, buffer) = (Default::default(), Buffer::new(0));
        let scratch = scratch.to_path_buf();
        Ok(HostBench { device, scratch, pinned, pageable, file, buffer, cache })
    }

    /// From twice the largest cache on, at least half of it is memory's doing. Of larger caches no
    /// account is taken: a GiB of memory must do.
    fn streams(&self) -> Limits {
        let cache = self.cache.unwrap_or(32 * MIB).min(128 * MIB);
        let fit_from = Bytes::new(2 * cache.next_power_of_two());
        Limits { least: OBJECTS.least, most: Bytes::new(4 * fit_from.get()), fit_from }
    }
}

impl Bare for HostBench {
    fn through(&self) -> Through<'_> {
        let (skeleton, scratch) = (&self.device.skeleton, self.scratch.as_path());
        Through { machine: real::Kind::Host, device: 0, skeleton, scratch }
    }

    fn bare(
        &mut self,
        size: usize,
        (_, memory, both): (Way, Memory, bool),
        repeats: usize,
    ) -> Result<Vec<Span>> {
        Ok(match memory {
            Memory::Pinned => {
                let (from, to) = self.pinned.bytes().split_at_mut(size);
                loops::copies(from, &mut to[..size], None, repeats)
            }
            Memory::Pageable => {
                for half in &mut self.pageable {
                    half.resize(half.len().max(size), 1);
                }
                let [from, to, other_from, other_to] = &mut self.pageable;
                let other = both.then_some((&other_from[..size], &mut other_to[..size]));
                loops::copies(&from[..size], &mut to[..size], other, repeats)
            }
        })
    }

    fn stream(&mut self, access: Access, size: usize, repeats: usize) -> Result<Vec<Span>> {
        let bytes = self.buffer.first(size);
        // Written once, so that every page is a page of its own.
        bytes.fill(1);
        Ok(loops::streams(bytes, access, repeats))
    }

    fn product(&mut self, _: Precision, side: u64, repeats: usize) -> Result<Vec<Span>> {
        Ok(loops::products(side as usize, repeats))
    }

    fn file(&mut self, size: usize) -> Result<(&mut Blocks, &mut [u8])> {
        Ok((&mut self.file, self.buffer.first(size)))
    }
}

impl MeasuredMachine for HostBench {
    fn describe(&self) -> Device {
        self.device.clone()
    }

    fn kinds(&self) -> Vec<(Kind, Limits)> {
        let way = Way::ToDevice;
        let half = Bytes::new(self.pinned.len() as u64 / 2);
        let pinned = (Kind::Bare { way, memory: Memory::Pinned, both: false }, half);
        let pageable = [false, true]
            .map(|both| (Kind::Bare { way, memory: Memory::Pageable, both }, OBJECTS.most));
        let bare = [pinned].into_iter().chain(pageable).filter(|(_, most)| *most >= OBJECTS.least);
        let bare = bare.map(|(kind, most)| (kind, Limits { most, ..OBJECTS }));
        let products = [(Kind::Gemm(Precision::Fp32), MATRICES)];
        let mut kinds =
            bench::kinds(&self.device.skeleton, |_| OBJECTS, bare, self.streams(), products);
        kinds.push((Kind::Between, Limits::new(Bytes::ZERO, Bytes::ZERO)));
        kinds
    }

    fn run(&mut self, probe: &Probe) -> Result<Sample> {
        bench::run(self, probe)
    }
}
