//! What is asked of a machine, and what it answers.
//!
//! All times are [`Span`]s (picoseconds; a clock of nanoseconds gives multiples of 1000). All sizes
//! are bytes of payload: a copy of b bytes counts b once, though memory sees a read and a write.
//! Invariant: different kinds of one machine have different names, and none has a comma.

use crate::fault::Result;
use tiersim_models::hardware::{Channel, Hardware, Source};
use tiersim_models::ids::TierId;
use tiersim_models::results::calibration::{self, Figure, ProbeKind};
use tiersim_models::units::{Bytes, Span};

/// A machine that can be measured.
pub trait MeasuredMachine {
    /// What it is. The same at every call.
    fn describe(&self) -> Device;

    /// Every kind of measurement that this machine can make, in the order in which they are
    /// reported. For sizes see [`Limits`].
    fn kinds(&self) -> Vec<(Kind, Limits)>;

    /// Measures one point, `probe.repeats` times in a row after at least one that is not counted.
    ///
    /// Called again and again with the same point, in another order each round, so that a
    /// disturbance that lasts for a second does not hit all repeats of one point. What is expensive
    /// to set up (a pinned arena, a file of the largest size, a compiled kernel) is best kept
    /// between calls.
    fn run(&mut self, probe: &Probe) -> Result<Sample>;

    /// Where the device is on the host's PCI bus, such as `0000:81:00.0`; `None` for a host.
    fn address(&self) -> Option<String> {
        None
    }

    /// Figures of this kind of machine that make no law; none where it has none.
    fn figures(&mut self) -> Result<Vec<Figure>> {
        Ok(Vec::new())
    }
}

/// What a machine says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name of the device that computes, such as the processor's or the GPU's.
    pub name: String,
    /// Version of its driver and libraries; the system's kernel for a host.
    pub driver: String,
    /// Clocks, temperatures, power limits and the like: name and value with its unit, as the system
    /// gave them. Only what was read, nothing assumed.
    pub clocks: Vec<(String, String)>,
    /// How the measurements were made where there was a choice, such as io_uring or threads, direct
    /// or buffered files, locked memory or not: one sentence each.
    pub notes: Vec<String>,
    /// Tiers and links that a spec of this machine has, with capacities that the system gave. All
    /// laws in it are placeholders that calibration replaces; `facts` is empty.
    pub skeleton: Hardware,
    /// Where each capacity of the skeleton comes from, by tier.
    pub capacities: Vec<Source>,
    /// Whether threads do its ops and copies and are parked where there is nothing to do, so that
    /// waking them comes between two ops.
    pub parks: bool,
}

/// Sizes that a kind of measurement is made at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Smallest.
    pub least: Bytes,
    /// Largest.
    pub most: Bytes,
    /// Smaller sizes are measured and shown, but no law is fitted to them: what fits a cache says
    /// nothing about memory.
    pub fit_from: Bytes,
}

impl Limits {
    /// Sizes that are all fitted.
    pub const fn new(least: Bytes, most: Bytes) -> Limits {
        Limits { least, most, fit_from: least }
    }
}

/// One point to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// What.
    pub kind: Kind,
    /// Bytes of payload; for [`Kind::Launch`] and [`Kind::Between`] 0, for [`Kind::Gemm`] the bytes of its three
    /// matrices, for [`Kind::File`] the bytes of one whole transfer.
    pub size: Bytes,
    /// How many times that count.
    pub repeats: usize,
}

/// What was measured at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The point.
    pub probe: Probe,
    /// One per repeat, in the order of the repeats.
    pub spans: Vec<Span>,
    /// [`Kind::File`] only: the time of every block from its submission to its end, all repeats
    /// together.
    pub latencies: Vec<Span>,
    /// Work of one repeat in FLOP; [`Kind::Gemm`] only, else 0.
    pub flops: u64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A copy over one channel of the skeleton, through the [`crate::real::RealMachine`], with all
    /// that it does to a copy, checks of arrivals included.
    Channel {
        /// The channel, of a link of the skeleton.
        channel: Channel,
        /// Which copies are timed.
        start: Start,
    },
    /// A copy between device and host memory (on a host: between two places of memory) by the
    /// bare call in a loop, around the machine: the yardstick for [`Kind::Channel`].
    Bare {
        /// Which way; a host has only [`Way::ToDevice`].
        way: Way,
        /// The host's memory.
        memory: Memory,
        /// Whether the other direction is busy all the while (on a host: a second thread copies
        /// other memory). Only this direction is timed.
        both: bool,
    },
    /// A kernel that streams through device memory of `size` bytes, which it touches once: a read,
    /// a write, or a copy of one half to the other. Timed from its start to its end on the device,
    /// or by the host's clock around a call that waits.
    Stream(Access),
    /// An op without objects in a chain of its like through the machine: from the end of one to the
    /// end of the next. What an op costs besides its work.
    Launch,
    /// The same with ops that last a while and are submitted as others end, on a machine whose
    /// threads are parked: from the end of one to the start of the next. What it costs to wake who
    /// waits for its end.
    Between,
    /// A product of two square matrices, C = A B, whose three matrices have `size` bytes or the
    /// nearest below that a side allows: one in whole numbers for [`Precision::Fp32`], else a
    /// multiple of [`Precision::STEP`], which suits tensor cores. `flops` is 2 n^3.
    Gemm(Precision),
    /// Blocks of a file, around the page cache where the file system allows it: `size` bytes
    /// at offsets in order, with `depth` blocks in flight.
    File {
        /// Whether blocks are written over what is there; they are read otherwise.
        writes: bool,
        /// Bytes of a block.
        block: u32,
        /// Blocks in flight.
        depth: u16,
    },
    /// An op through the machine that uses one object of `size` bytes where it lies, without the
    /// delay of an emulated tier: from its start to its end.
    InPlace {
        /// The object's tier in the skeleton.
        tier: TierId,
        /// Whether the op writes the object; it reads it otherwise.
        writes: bool,
    },
}

/// Which copies of a channel are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// Copies back to back, from the start of each to its end. This is what the laws of the spec
    /// are fitted to.
    Busy,
    /// A lone copy between two ops on an otherwise idle machine, the second of which waits for it:
    /// from the end of the op before to the start of the op after, with the waking of whoever
    /// copies and of whoever waits. What a copy on demand costs an op.
    Idle,
    /// As `Busy`, while the link's other channel is kept busy with copies of the same size.
    Both,
}

/// A direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the host to the device.
    ToDevice,
    /// From the device to the host.
    FromDevice,
}

/// The host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// Locked in place.
    Pinned,
    /// As any program has it.
    Pageable,
}

/// What matrices are made of, and how they are multiplied. Sums are always 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// 32-bit floats, multiplied as such.
    Fp32,
    /// 32-bit floats, cut to 10 bits of mantissa before they are multiplied.
    Tf32,
    /// Floats of 16 bits with 7 of mantissa, in and out.
    Bf16,
}

impl Precision {
    /// All, in the order of a spec.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Bf16];
    /// Sides of matrices for tensor cores are multiples of it.
    pub const STEP: u64 = 64;

    /// What specs call it.
    pub const fn word(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    /// Bytes of one number in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Precision::Fp32 | Precision::Tf32 => 4,
            Precision::Bf16 => 2,
        }
    }

    /// Side of square matrices, three of which have so many bytes at most; at least 1.
    pub const fn side(self, bytes: u64) -> u64 {
        let most = (bytes / (3 * self.bytes())).isqrt();
        let whole = most / Precision::STEP * Precision::STEP;
        match self {
            Precision::Tf32 | Precision::Bf16 if whole > 0 => whole,
            _ if most > 0 => most,
            _ => 1,
        }
    }
}

/// A way of going through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reads `size` bytes.
    Read,
    /// Writes `size` bytes.
    Write,
    /// Reads half of them and writes the other half.
    Copy,
}

impl Kind {
    /// What is measured, in words; `skeleton` names tiers and channels.
    pub fn name(self, skeleton: &Hardware) -> String {
        match self {
            Kind::Channel { channel, start } => {
                let how = match start {
                    Start::Busy => "back to back",
                    Start::Idle => "alone",
                    Start::Both => "both ways at once",
                };
                format!("{} {how}", skeleton.channel_name(channel))
            }
            Kind::Bare { way, memory, both } => {
                let way = match way {
                    Way::ToDevice => "to device",
                    Way::FromDevice => "from device",
                };
                let memory = match memory {
                    Memory::Pinned => "pinned",
                    Memory::Pageable => "pageable",
                };
                let both = if both { " both ways at once" } else { "" };
                format!("bare copy {way} {memory}{both}")
            }
            Kind::Stream(access) => {
                let access = match access {
                    Access::Read => "read",
                    Access::Write => "write",
                    Access::Copy => "copy",
                };
                format!("device memory {access}")
            }
            Kind::Launch => "op without objects".to_owned(),
            Kind::Between => "between two ops".to_owned(),
            Kind::Gemm(precision) => format!("matrix product {}", precision.word()),
            Kind::File { writes, .. } => {
                format!("file {}", if writes { "write" } else { "read" })
            }
            Kind::InPlace { tier, writes } => {
                let tier = &skeleton.tiers[tier.index()].name;
                format!("{tier} {} in place", if writes { "written" } else { "read" })
            }
        }
    }

    /// What reports see of it.
    pub fn probe(self, skeleton: &Hardware) -> calibration::Probe {
        let kind = match self {
            Kind::Channel { channel, start: Start::Busy } => {
                ProbeKind::Busy(skeleton.channel_name(channel))
            }
            Kind::Channel { channel, start: Start::Idle } => {
                ProbeKind::Alone(skeleton.channel_name(channel))
            }
            Kind::File { writes: false, .. } => ProbeKind::Reads,
            Kind::File { writes: true, .. } => ProbeKind::Writes,
            Kind::Gemm(_) => ProbeKind::Product,
            _ => ProbeKind::Other,
        };
        calibration::Probe { name: self.name(skeleton), kind }
    }

    /// Block in bytes and blocks in flight, of a file's measurement.
    pub const fn queue(self) -> Option<(u32, u16)> {
        match self {
            Kind::File { block, depth, .. } => Some((block, depth)),
            _ => None,
        }
    }
}
