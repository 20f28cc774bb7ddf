//! The host's bench: memory, files and a processor core of this computer.
//!
//! Memory stands for HBM and DRAM and files for NVMe, as in the host machine. Copies over lanes,
//! ops in place and the cost of an op are measured through that machine; beside them the bare loops
//! that show what memory, files and a core give without it.
//! Invariant: nothing is left behind below `scratch`.

mod loops;
pub(crate) mod system;

use crate::calibrate::blocks::{self, Blocks};
use crate::calibrate::through::Through;
use crate::calibrate::{Access, Bench, Device, Kind, Limits, Memory, Precision, Probe};
use crate::calibrate::{Sample, Start, Way};
use crate::fault::Fault;
use crate::files::{Buffer, Queue};
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
    pub(super) fn new(scratch: &Path) -> Result<HostBench, Fault> {
        let fail = |what: &'static str, path: &Path, error: &std::io::Error| {
            Fault::io(what, &path.display().to_string(), error)
        };
        let made = std::fs::create_dir_all(scratch);
        made.map_err(|error| fail("makes folder", scratch, &error))?;
        let file = Blocks::create(scratch)?;
        let pinned = Locked::largest(2 * OBJECTS.most.get() as usize);
        let cache = system::last_cache();
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

    fn bare(&mut self, size: usize, memory: Memory, both: bool, repeats: usize) -> Vec<Span> {
        match memory {
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
        }
    }

    fn stream(&mut self, access: Access, size: usize, repeats: usize) -> Vec<Span> {
        let bytes = self.buffer.first(size);
        // Written once, so that every page is a page of its own.
        bytes.fill(1);
        loops::streams(bytes, access, repeats)
    }
}

impl Bench for HostBench {
    fn describe(&self) -> Device {
        self.device.clone()
    }

    fn kinds(&self) -> Vec<(Kind, Limits)> {
        let mut kinds = Vec::new();
        let skeleton = &self.device.skeleton;
        for lane in skeleton.lanes() {
            for start in [Start::Busy, Start::Idle, Start::Both] {
                kinds.push((Kind::Lane { lane, start }, OBJECTS));
            }
        }
        let way = Way::ToDevice;
        let half = Bytes::new(self.pinned.len() as u64 / 2);
        if half >= OBJECTS.least {
            let kind = Kind::Bare { way, memory: Memory::Pinned, both: false };
            kinds.push((kind, Limits { most: half, ..OBJECTS }));
        }
        for both in [false, true] {
            kinds.push((Kind::Bare { way, memory: Memory::Pageable, both }, OBJECTS));
        }
        for access in [Access::Read, Access::Write, Access::Copy] {
            kinds.push((Kind::Stream(access), self.streams()));
        }
        kinds.push((Kind::Launch, Limits::new(Bytes::ZERO, Bytes::ZERO)));
        kinds.push((Kind::Gemm(Precision::Fp32), MATRICES));
        for tier in skeleton.tier_ids() {
            for writes in [false, true] {
                kinds.push((Kind::InPlace { tier, writes }, OBJECTS));
            }
        }
        kinds.extend(blocks::kinds());
        kinds
    }

    fn run(&mut self, probe: &Probe) -> Result<Sample, Fault> {
        let &Probe { kind, size, repeats } = probe;
        let len = usize::try_from(size.get()).expect("it fits memory");
        let (mut latencies, mut flops) = (Vec::new(), 0);
        let machine = real::Kind::Host;
        let through = || Through {
            machine,
            device: 0,
            skeleton: &self.device.skeleton,
            scratch: &self.scratch,
        };
        let spans = match kind {
            Kind::Lane { lane, start } => through().lane(lane, start, size, repeats)?,
            Kind::Launch => through().launch(repeats)?,
            Kind::InPlace { tier, writes } => through().in_place(tier, writes, size, repeats)?,
            Kind::Bare { memory, both, .. } => self.bare(len, memory, both, repeats),
            Kind::Stream(access) => self.stream(access, len, repeats),
            Kind::Gemm(precision) => {
                let side = precision.side(size.get());
                flops = 2 * side.pow(3);
                loops::products(side as usize, repeats)
            }
            Kind::File { access, block, depth } => {
                let queue = Queue { block: block as usize, depth: usize::from(depth) };
                let bytes = self.buffer.first(len);
                let (spans, each) = self.file.run(access, bytes, queue, repeats)?;
                latencies = each;
                spans
            }
        };
        Ok(Sample { probe: *probe, spans, latencies, flops })
    }
}
