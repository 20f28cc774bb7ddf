//! What a recording shows of the machine that it was made on: its copies by the way that they
//! went, and what a profiler says beyond a trace.
//!
//! A trace keeps each copy of a device as an op with its bytes and its time, under the name that
//! the profiler gave it, so a recorded folder shows as much of links as the file that it was made
//! of. How long launches take, which device it was and what shapes products had is in the file
//! only ([`Profile`]).
//! Invariant: pure; nothing is fitted here, and a copy counts its bytes once, though memory sees a
//! read and a write.

use crate::hardware::Source;
use crate::kernel::Product;
use crate::results::calibration::Law;
use crate::units::{Bandwidth, Bytes, Span};
use crate::workload::{Trace, Unit};
use std::collections::BTreeMap;
use std::fmt;

/// Where a copy went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the host to the device.
    ToDevice,
    /// From the device to the host.
    FromDevice,
    /// Within a device's memory.
    Within,
    /// From one device to another.
    Between,
}

/// The host's memory of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostMemory {
    /// Locked in place.
    Pinned,
    /// As any program has it.
    Pageable,
    /// The recording does not say, or no host memory takes part.
    Unsaid,
}

/// The way of a copy, with the host's memory at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Road {
    /// Where to.
    pub way: Way,
    /// Which memory of the host.
    pub memory: HostMemory,
}

impl Road {
    /// The road that a copy of this name took.
    ///
    /// The names are those of CUPTI and ROCm in Kineto: `Memcpy HtoD (Pageable -> Device)`,
    /// `Memcpy DtoH (Device -> Pinned)`, `Memcpy DtoD (Device -> Device)`, `Memcpy PtoP (...)`.
    pub fn of(name: &str) -> Option<Road> {
        let (word, ends) = name.strip_prefix("Memcpy ")?.split_once(' ').unwrap_or_default();
        let way = match word {
            "HtoD" => Way::ToDevice,
            "DtoH" => Way::FromDevice,
            "DtoD" => Way::Within,
            "PtoP" => Way::Between,
            _ => return None,
        };
        let memory = match way {
            Way::Within | Way::Between => HostMemory::Unsaid,
            _ if ends.contains("Pinned") => HostMemory::Pinned,
            _ if ends.contains("Pageable") => HostMemory::Pageable,
            _ => HostMemory::Unsaid,
        };
        Some(Road { way, memory })
    }

    /// The same in as few words as a table wants.
    pub fn short(self) -> &'static str {
        match (self.way, self.memory) {
            (Way::ToDevice, HostMemory::Pinned) => "host->device pinned",
            (Way::ToDevice, HostMemory::Pageable) => "host->device pageable",
            (Way::ToDevice, HostMemory::Unsaid) => "host->device",
            (Way::FromDevice, HostMemory::Pinned) => "device->host pinned",
            (Way::FromDevice, HostMemory::Pageable) => "device->host pageable",
            (Way::FromDevice, HostMemory::Unsaid) => "device->host",
            (Way::Within, _) => "within the device",
            (Way::Between, _) => "device->device",
        }
    }
}

impl fmt::Display for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.way {
            Way::ToDevice => "from host to device",
            Way::FromDevice => "from device to host",
            Way::Within => "within the device",
            Way::Between => "between devices",
        })?;
        f.write_str(match self.memory {
            HostMemory::Pinned => " (pinned memory)",
            HostMemory::Pageable => " (pageable memory)",
            HostMemory::Unsaid => "",
        })
    }
}

/// Bytes and times of the copies of a trace by road, in the order of the ops. A copy that says no
/// bytes or took no time is there too.
pub fn copies(trace: &Trace) -> BTreeMap<Road, Vec<(Bytes, Span)>> {
    let mut all: BTreeMap<Road, Vec<(Bytes, Span)>> = BTreeMap::new();
    if trace.meta.recorded.how.is_empty() {
        return all;
    }
    for op in trace.ops.iter().filter(|op| op.unit != Unit::Idle) {
        if let Some(road) = Road::of(&op.name) {
            all.entry(road).or_default().push((op.bytes, op.duration.unwrap_or_default()));
        }
    }
    all
}

/// What the copies of one road show.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownCopies {
    /// The road.
    pub road: Road,
    /// How many copies the trace has.
    pub copies: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// How many of them say bytes, and last long enough for the clock of the recording to tell.
    pub told: usize,
    /// The law that lies nearest to these, or why there is none.
    pub law: Result<Law, String>,
    /// Whether the set-up of the law is known; where it is not, the rate is a median and the set-up
    /// of the law is zero.
    pub has_setup: bool,
}

/// What a profiler's file says that a trace does not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The device's name and its memory.
    pub device: Option<(String, Option<Bytes>)>,
    /// Kernels that the host had asked for before the one before them on their stream ended: the
    /// gap between the two, and from the end of the one to the end of the other.
    pub chained: Vec<(Span, Span)>,
    /// Kernels that were asked for when their stream had nothing to do: from the call of the host
    /// to the start.
    pub late: Vec<Span>,
    /// Products of matrices whose shapes are recorded: precision, shape, time of their kernels.
    pub products: Vec<(&'static str, Product, Span)>,
}

/// A number of a machine that a recording tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Where in the machine, such as `links.pcie.read`.
    pub path: String,
    /// What stands there.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
    /// One standard error of it as a share.
    pub spread: Option<f64>,
}

/// What a recording tells of one place of a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A rate.
    Rate(Bandwidth),
    /// A time.
    Time(Span),
    /// A size.
    Size(Bytes),
    /// What stands there so many times.
    Times(f64),
    /// A name, which has no source.
    Name(String),
    /// Nothing: what stands there is left out.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::{HostMemory, Road, Way};

    #[test]
    fn names_of_copies_say_their_road() {
        for (name, road) in [
            ("Memcpy HtoD (Pageable -> Device)", Some((Way::ToDevice, HostMemory::Pageable))),
            ("Memcpy HtoD (Pinned -> Device)", Some((Way::ToDevice, HostMemory::Pinned))),
            ("Memcpy HtoD (Host -> Device)", Some((Way::ToDevice, HostMemory::Unsaid))),
            ("Memcpy DtoH (Device -> Pinned)", Some((Way::FromDevice, HostMemory::Pinned))),
            ("Memcpy DtoD (Device -> Device)", Some((Way::Within, HostMemory::Unsaid))),
            ("Memcpy PtoP (Device -> Device)", Some((Way::Between, HostMemory::Unsaid))),
            ("Memcpy HtoH (Pageable -> Pinned)", None),
            ("Memset (Device)", None),
            ("Memcpy", None),
            ("copy_kernel", None),
        ] {
            assert_eq!(Road::of(name), road.map(|(way, memory)| Road { way, memory }), "{name}");
        }
    }
}
