//! What a machine's calibration measured, and the laws that were fitted to it. Times in seconds,
//! rates in bytes or FLOP per second.

use crate::runtime::Runtime;
use crate::units::Bytes;

/// A calibration that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationRecord {
    /// The word for the machine, such as `host`; `trace` where it was fitted to a recording.
    pub machine: &'static str,
    /// What was asked for, such as `calibrate --machine host`.
    pub command: String,
    /// Name of the spec.
    pub name: String,
    /// The day, such as `2026-01-31`.
    pub date: String,
    /// What computes, such as the name of the processor.
    pub device: String,
    /// Version of its driver.
    pub driver: String,
    /// Clocks, temperatures and the like: name and value with its unit.
    pub clocks: Vec<(String, String)>,
    /// How it was measured where there was a choice.
    pub notes: Vec<String>,
    /// Every law, in the order of the measurements, or why there is none.
    pub laws: Vec<(Probe, Result<Law, String>)>,
    /// Cost of an op, where it was measured.
    pub launch: Option<Quantiles>,
    /// What waking its threads adds to a run, where threads are parked: for the `runtime` of a
    /// scenario.
    pub runtime: Option<Runtime>,
    /// Everything that was measured.
    pub points: Vec<Point>,
    /// What makes no law.
    pub figures: Vec<Figure>,
    /// The nodes of the host's memory, by rising number; none where the system does not say.
    pub nodes: Vec<HostNode>,
}

/// A node of the host's memory, as the system says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    /// Its number.
    pub id: u32,
    /// How many cores it has; none for memory that hangs on another node.
    pub cores: usize,
    /// Its memory.
    pub memory: Bytes,
    /// To every node, in their order: 10 to itself.
    pub distances: Vec<u32>,
    /// What sits next to it.
    pub devices: Vec<HostDevice>,
}

/// A device on the host's PCI bus that computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Where on the bus, such as `0000:81:00.0`.
    pub address: String,
    /// Maker and device in hexadecimal, such as `10de:2330`.
    pub what: String,
    /// The number of the node that it sits next to, if the system says it.
    pub node: Option<u32>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// In words; different probes of one machine have different names.
    pub name: String,
    /// On which chart it is, and in which unit its rate.
    pub kind: ProbeKind,
}

/// A kind of measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Copies over this channel, back to back.
    Busy(String),
    /// A lone copy over this channel, between two ops.
    Alone(String),
    /// Reads of a file.
    Reads,
    /// Writes of a file.
    Writes,
    /// Products of matrices, whose work is FLOP.
    Product,
    /// What is in the tables only.
    Other,
}

/// A law, `setup + work / rate`, with what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Seconds of one piece of work, whatever its size, and one standard error of that.
    pub setup: (f64, f64),
    /// Work per second after that, and one standard error of that.
    pub rate: (f64, f64),
    /// Median, 95th percentile and largest of the relative errors of the points that it was fitted
    /// to.
    pub error: (f64, f64, f64),
    /// The same of those that were held out.
    pub held_out: (f64, f64, f64),
    /// Median over all points of (p95 - p5) / median of their repeats.
    pub spread: f64,
    /// How many points it was fitted to, and how many were held out.
    pub points: (usize, usize),
    /// Repeats of all these points together.
    pub repeats: usize,
    /// Smallest and largest size that it was fitted to.
    pub sizes: (Bytes, Bytes),
}

impl Law {
    /// Seconds for a piece of work.
    pub fn time(&self, work: f64) -> f64 {
        self.setup.0 + work / self.rate.0
    }
}

/// A point with the times that were measured at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What was measured.
    pub probe: Probe,
    /// Bytes of payload.
    pub size: Bytes,
    /// What a law's rate counts: FLOP or bytes.
    pub work: f64,
    /// Bytes of a block and blocks in flight, of a file.
    pub queue: Option<(u32, u16)>,
    /// Measured to grade a law, never fitted.
    pub held_out: bool,
    /// Neither fitted nor held out.
    pub shown_only: bool,
    /// Of all repeats.
    pub times: Quantiles,
    /// Of single blocks of a file.
    pub latencies: Quantiles,
}

impl Point {
    /// Bytes per second of the median repeat.
    pub fn bytes_per_s(&self) -> f64 {
        let median = self.times.median;
        if median > 0.0 { self.size.get() as f64 / median } else { 0.0 }
    }
}

/// Quantiles of the times of one point, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// How many times.
    pub count: usize,
    /// Nearest rank, as all of them.
    pub p5: f64,
    /// The lower of the two middle ones of an even number.
    pub median: f64,
    /// 95 % are not longer.
    pub p95: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// 99.9 % are not longer.
    pub p999: f64,
}

impl Quantiles {
    /// (p95 - p5) / median; zero where the median is.
    pub fn spread(&self) -> f64 {
        if self.median > 0.0 { (self.p95 - self.p5) / self.median } else { 0.0 }
    }
}

/// A figure that makes no law.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Unit of its values.
    pub unit: &'static str,
    /// One per repeat or turn.
    pub values: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// What the median should reach, where there is such a mark.
    pub wanted: Option<f64>,
}
