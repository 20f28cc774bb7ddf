//! What a run measured: the only thing that reports see of the engine.
//!
//! Figures are integers as measured; means, shares and units are made by the methods here, once, so
//! that a table and a chart cannot disagree. Tables indexed by tier or channel follow the order
//! of [`Conditions::tiers`] and [`Conditions::channels`] of the case's machine.

pub mod cache;
pub mod calibration;
pub mod comparison;
mod conditions;
pub mod economics;
pub mod explain;
pub mod hints;
pub mod long_run;
pub mod memory_account;
pub mod memory_fit;
pub mod memory_use;
pub mod metrics;
pub mod op_fit;
pub mod op_grades;
pub mod operators;
pub mod pressure;
pub mod replications;
pub mod served;
pub mod snapshot;
pub mod solved;
mod split;
mod steadiness;
pub mod step_log;
mod steps;
pub mod switched;
mod timeline;
pub mod trace_memory;
pub mod trace_shape;
pub mod uncertainty;

use crate::compression::Packed;
use crate::diagnostic::Warning;
use crate::hardware::{Capacity, Fact};
use crate::runtime::Runtime;
use crate::units::{Bytes, Span};
use economics::CaseEconomics;
use hints::HintMatches;
use long_run::LongRun;
use memory_use::MemoryUse;
use replications::Replications;
use serde::{Deserialize, Serialize};
use served::ServingFigures;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use step_log::StepLine;
use uncertainty::UncertaintyRecord;

pub use conditions::Conditions;
pub use pressure::PressureRecord;
pub use split::{Parts, PathPart, Split};
pub use steadiness::{Settled, Steadiness};
pub use steps::Steps;
pub use timeline::{Residency, ShownStep, Slice, SliceDetail, Timeline, Track};

/// How much of the trace ahead a policy may look at. Reports mark policies that see it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lookahead {
    /// Nothing but the op that it is asked about.
    Past,
    /// So many ops ahead, as a framework with a recorded order has.
    Window(u32),
    /// All of it: a bound, not something that can be deployed.
    Oracle,
}

/// One of a few fixed words; owned where a record was read back.
pub type Word = Cow<'static, str>;

/// The axis of a scenario's machines, where it names several.
pub const MACHINE: &str = "machine";

/// A value on a sweep's axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AxisValue {
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Number(number) => number.fmt(f),
            AxisValue::Text(text) => f.write_str(text),
        }
    }
}

/// All results of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The scenario's name.
    pub scenario: String,
    /// The question it answers.
    pub about: String,
    /// `sha256:` and the hash of the resolved scenario, its hardware and its trace.
    pub fingerprint: String,
    /// The numbers of the hardware that energy and cost rest on, with their sources.
    pub power_and_price: Vec<Fact>,
    /// The numbers of the hardware that times rest on and nobody stated or measured, with why they
    /// were assumed.
    pub assumed: Vec<Fact>,
    /// The same of each machine that a scenario compares, in its order; none where it has one.
    pub machines: Vec<MachineFacts>,
    /// What cases run on and are held against; the first is what the file says. Points of a sweep
    /// that differ in machine, workload or seed have their own.
    pub conditions: Vec<Conditions>,
    /// Names of the axes of a sweep, in order; none for a single scenario.
    pub axes: Vec<String>,
    /// One per case, in the scenario's order.
    pub results: Vec<CaseRecord>,
    /// Points of a sweep that do not resolve, with the reason.
    pub skipped: Vec<(Params, Arc<str>)>,
    /// What the lint says about the machine, and then about the results.
    pub warnings: Vec<Warning>,
    /// The same cases where the machine's numbers are drawn, if that was asked for.
    pub uncertainty: Option<UncertaintyRecord>,
    /// The same cases with other seeds, if that was asked for.
    pub replications: Option<Replications>,
}

/// A machine among several, and the numbers of it that somebody may ask the source of.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFacts {
    /// What it has on the axis [`MACHINE`].
    pub machine: String,
    /// Its name, as cases have it.
    pub hardware: String,
    /// As [`RunRecord::power_and_price`].
    pub power_and_price: Vec<Fact>,
    /// As [`RunRecord::assumed`].
    pub assumed: Vec<Fact>,
    /// How many numbers are assumed, with capacities that the scenario sets.
    pub assumed_numbers: usize,
}

/// One direction of a link, or a tier's way to itself, which compaction takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelName {
    /// Ends in copy direction, such as `dram->hbm` or `hbm->hbm`.
    pub ends: String,
    /// The link, such as `pcie`.
    pub link: String,
}

impl ChannelName {
    /// Whether it leads from a tier to itself.
    pub fn is_within(&self) -> bool {
        self.ends.split_once("->").is_some_and(|(from, to)| from == to)
    }
}

/// Values of the axes at a point of a sweep, in the axes' order: (axis, value). All that is known of
/// the point shares them.
pub type Params = Arc<[(String, AxisValue)]>;

/// One case's result. A long sweep holds one of these for each of its points, so what those have in
/// common that run alike is shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// The case's label.
    pub label: String,
    /// The policy's parameters in words, such as `shares 0.3/0.5 of modules, in place`.
    pub details: String,
    /// Axis values of a sweep's point, without those of axes that do not touch the case.
    pub params: Params,
    /// Index into [`RunRecord::conditions`].
    pub conditions: usize,
    /// All else.
    pub ran: Arc<CaseRan>,
}

impl Deref for CaseRecord {
    type Target = CaseRan;

    fn deref(&self) -> &CaseRan {
        &self.ran
    }
}

impl CaseRecord {
    /// How much longer its mean step is than the bound: 0.25 for a quarter. `None` without a step,
    /// for an emulated case, and where there is no bound.
    pub fn gap_to_bound(&self) -> Option<f64> {
        let step = self.outcome.figures().filter(|_| !self.emulated)?.mean_step();
        let bound = self.bound_step.ps();
        (bound > 0).then(|| step.ps() as f64 / bound as f64 - 1.0)
    }
}

impl DerefMut for CaseRecord {
    /// From then on no other case shares what came of it.
    fn deref_mut(&mut self) -> &mut CaseRan {
        Arc::make_mut(&mut self.ran)
    }
}

/// What came of a case, but for what it is called. What few cases have is boxed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseRan {
    /// The policy's name, such as `adam-state`.
    pub policy: String,
    /// Does not pay for every use outside HBM: comparable with other emulations only.
    pub emulated: bool,
    /// Where the statistics come from that its policy ranks by, in one word such as `recorded` or
    /// `made up`; `None` if it ranks by none.
    pub statistics: Option<Word>,
    /// How far its policy looks ahead.
    pub lookahead: Lookahead,
    /// Whether its policy's numbers were found by training.
    pub learned: bool,
    /// HBM that the case's objects may use.
    pub hbm_budget: Capacity,
    /// Mean step of the same workload with unlimited HBM.
    pub baseline_step: Span,
    /// Most bytes that the same workload ever holds with unlimited HBM.
    pub baseline_peak: Bytes,
    /// No policy that pays for every use can have a shorter mean step in this memory.
    pub bound_step: Span,
    /// What most of that bound is, such as `bytes into hbm`.
    pub bound_by: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Where each module's state lives, if the policy places modules.
    pub placement: Option<Placement>,
    /// Energy of its steps and cost of its machine.
    pub economics: CaseEconomics,
    /// Memory that no object can have: tier index, what for, bytes.
    pub hidden: Vec<(usize, Word, Bytes)>,
    /// Measured and warm-up steps that were not simulated one by one, because the run was in the
    /// same state as before. All figures are those of the whole run.
    pub left_out: u64,
    /// What is said of the long run that it is the beginning of, if it is one of such.
    pub long_run: Option<Box<LongRun>>,
    /// What happened under memory pressure, if a tier was watched.
    pub pressure: Option<Box<PressureRecord>>,
    /// What became of each hint, if its policy follows hints.
    pub hints: Option<Box<HintMatches>>,
    /// What a framework added to its run.
    pub runtime: Runtime,
    /// What its tiers would store packed, were all such objects there.
    pub packed: Vec<Packed>,
}

/// Where the state of modules lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Names of modules, the same for all cases of a workload.
    pub modules: Arc<[String]>,
    /// The tier of each, by index.
    pub tiers: Vec<u16>,
}

impl From<Vec<(String, usize)>> for Placement {
    fn from(placed: Vec<(String, usize)>) -> Placement {
        let place =
            |(module, tier)| (module, u16::try_from(tier).expect("machines have few tiers"));
        let (modules, tiers): (Vec<String>, Vec<u16>) = placed.into_iter().map(place).unzip();
        Placement { modules: modules.into(), tiers }
    }
}

impl Placement {
    /// Each module with the index of its tier.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        let names = self.modules.iter().map(String::as_str);
        names.zip(self.tiers.iter().map(|&tier| usize::from(tier)))
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran to the end of the trace.
    Done(Box<Figures>),
    /// It did not fit.
    OutOfMemory(Box<OutOfMemory>),
}

impl Outcome {
    /// The figures, unless it ran out of memory.
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Outcome::Done(figures) => Some(figures),
            Outcome::OutOfMemory(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn figures_mut(&mut self) -> Option<&mut Figures> {
        match self {
            Outcome::Done(figures) => Some(figures),
            Outcome::OutOfMemory(_) => None,
        }
    }
}

impl From<Figures> for Outcome {
    fn from(figures: Figures) -> Outcome {
        Outcome::Done(Box::new(figures))
    }
}

/// The allocation that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// The tier's name.
    pub tier: String,
    /// Its capacity.
    pub capacity: Capacity,
    /// What was asked for.
    pub need: Bytes,
    /// What was free.
    pub free: Bytes,
    /// The largest free piece, if the tier's allocator is not exact: it may be less than `need`
    /// though more is free.
    pub largest: Option<Bytes>,
    /// What of the capacity no object can have: what for, bytes.
    pub hidden: Vec<(Word, Bytes)>,
    /// The object that did not fit.
    pub object: String,
    /// The op that needed it, with its step, such as `step 0, op 17 aten.mm`; or `before the
    /// first op`.
    pub at: String,
    /// What the scenario may write to let the policy use tiers that it keeps out of.
    pub remedy: Option<String>,
}

impl OutOfMemory {
    /// What happened, as the rest of a sentence: `ran out of memory in hbm (98.2 MiB needed for ...`.
    pub fn told(&self) -> String {
        let OutOfMemory { tier, need, object, free, capacity, at, .. } = self;
        let pieces = self.pieces();
        let [need, free] = [*need, *free].map(|bytes| self.shown(bytes));
        format!(
            "ran out of memory in {tier} ({need} needed for {object}, {free} free of \
             {capacity}{pieces}, {at})"
        )
    }

    /// What was needed or free, in words: in bytes where another of these would read alike.
    pub fn shown(&self, bytes: Bytes) -> String {
        let all = [Some(self.need), Some(self.free), self.largest];
        let words = bytes.to_string();
        let alike = |other: &Bytes| *other != bytes && other.to_string() == words;
        match all.iter().flatten().any(alike) {
            true => format!("{} bytes", bytes.get()),
            false => words,
        }
    }

    /// What a sentence says of hidden memory; nothing if there is none.
    pub fn beside(&self) -> String {
        let each = self.hidden.iter().map(|(what, bytes)| format!("{what} {bytes}"));
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            all => format!(", beside hidden memory ({all})"),
        }
    }

    /// What a sentence says behind the free bytes where these are in pieces; else nothing.
    pub fn pieces(&self) -> String {
        let words = |largest| format!(" in pieces of at most {}", self.shown(largest));
        self.largest.map_or(String::new(), words)
    }
}

/// What a run measured. Sums and steps are over the measured replays, without the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Length of each measured step.
    pub steps: Steps,
    /// How these are made up along their critical paths, all together.
    pub split: Split,
    /// Most bytes ever held, by tier, over the whole run.
    pub peak: Vec<Bytes>,
    /// Bytes copied, by channel.
    pub moved: Vec<Bytes>,
    /// Time that the channel was copying.
    pub busy: Vec<Span>,
    /// Copies that crossed the channel.
    pub transfers: Vec<u64>,
    /// Time that these took together, each from its start to its end over all of its way.
    pub transfer_time: Vec<Span>,
    /// Time that compute stood still waiting for a copy on the channel.
    pub stall: Vec<Span>,
    /// Delay of ops for objects used in place, by tier.
    pub in_place: Vec<Span>,
    /// Time that ops computed.
    pub compute: Span,
    /// Delays of ops that their policy stated, such as the handling of page faults.
    pub delay: Span,
    /// What ops waited for allocators.
    pub allocating: Span,
    /// Uses of objects that found them in HBM.
    pub hits: u64,
    /// Uses that did not: fetched, or in place.
    pub misses: u64,
    /// Events that the engine processed, over the whole run.
    pub events: u64,
    /// The last measured step: what ran when, for timelines.
    pub timeline: Timeline,
    /// Bytes of objects that ops read, by tier.
    pub read: Vec<u128>,
    /// Bytes of objects that ops wrote, by tier.
    pub written: Vec<u128>,
    /// Time in which at least one op of the device ran, delays of use in place included.
    pub active: Span,
    /// How the memory of tiers was used whose allocator is not exact: by tier, over the whole run.
    pub memory: Vec<(usize, MemoryUse)>,
    /// What became of requests, where the workload serves some.
    pub serving: Option<Box<ServingFigures>>,
    /// Whether the measured steps are those of the steady state.
    pub steady: Steadiness,
    /// A line per step, if that was asked for.
    pub log: Vec<StepLine>,
}

impl Figures {
    /// Mean step length, rounded to the picosecond.
    pub fn mean_step(&self) -> Span {
        self.steps.mean()
    }

    /// The `percent`-th percentile of step lengths in milliseconds, interpolated between steps
    /// as type 8 of Hyndman and Fan (1996), kept within the shortest and longest step.
    pub fn step_ms_percentile(&self, percent: usize) -> f64 {
        self.steps.ms_percentile(percent)
    }

    /// Tokens per second at the mean step; where requests are served, tokens of answers per second
    /// of the run.
    pub fn tokens_per_s(&self, tokens_per_step: u64) -> f64 {
        if let Some(serving) = &self.serving {
            return serving.tokens_per_s();
        }
        tokens_per_step as f64 / (self.mean_step().ps() as f64 / 1e12)
    }

    /// What runs of the same work are compared by: the mean latency of requests where it serves
    /// some, else the mean step. The steps of a server are its iterations, of which there are as
    /// many as arrivals leave it time for.
    pub fn judged(&self) -> Span {
        let latency = self.serving.as_deref().map(|serving| serving.latency_ms().mean);
        match latency.filter(|ms| ms.is_finite()) {
            Some(ms) => Span::from_ps((ms * 1e9).round() as u64),
            None => self.mean_step(),
        }
    }

    /// This mean step over the baseline's.
    pub fn slowdown(&self, baseline_step: Span) -> f64 {
        self.mean_step().ps() as f64 / baseline_step.ps() as f64
    }

    /// How much more work per time is done than in steps of the baseline, in per cent; less is
    /// negative.
    pub fn throughput_change(&self, baseline_step: Span) -> f64 {
        (baseline_step.ps() as f64 / self.mean_step().ps() as f64 - 1.0) * 100.0
    }

    /// Bytes copied over channel `channel` in a measured step, the mean rounded to the nearest.
    pub fn moved_per_step(&self, channel: usize) -> Bytes {
        let steps = self.steps.len().max(1) as u128;
        let total = u128::from(self.moved[channel].get());
        Bytes::new(u64::try_from((total + steps / 2) / steps).expect("no mean exceeds the sum"))
    }

    /// How many copies crossed channel `channel`, mean per measured step.
    pub fn copies_per_step(&self, channel: usize) -> f64 {
        self.transfers.get(channel).map_or(0.0, |&all| all as f64) / self.steps.len().max(1) as f64
    }

    /// Bytes and time of one of them, from its start to its end over all of its way; `None` without
    /// any.
    pub fn mean_copy(&self, channel: usize) -> Option<(f64, Span)> {
        let count = self.transfers.get(channel).copied().filter(|&count| count > 0)?;
        let took = self.transfer_time[channel].ps() as f64 / count as f64;
        Some((self.moved[channel].get() as f64 / count as f64, Span::from_ps(took.round() as u64)))
    }

    /// How the memory of a tier was used, unless its allocator is exact.
    pub fn memory_of(&self, tier: usize) -> Option<&MemoryUse> {
        self.memory.iter().find(|(index, _)| *index == tier).map(|(_, memory)| memory)
    }

    /// Share of uses that found their object in HBM.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// What is said where a channel was busy for longer than the measured time: a fault of the
    /// program.
    pub fn busy_beyond_time(&self) -> Option<String> {
        let time = self.steps.total();
        let beyond = |(_, busy): &(usize, &Span)| u128::from(busy.ps()) > time;
        let (channel, busy) = self.busy.iter().enumerate().find(beyond)?;
        Some(format!("channel {channel} was busy for {} of {time} measured ps", busy.ps()))
    }

    /// Share of the measured time that channel `channel` was copying.
    pub fn busy_fraction(&self, channel: usize) -> f64 {
        self.busy[channel].ps() as f64 / (self.steps.total() as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_round_to_the_nearest() {
        let moved = |total| {
            let steps = [Span::ZERO; 3].into_iter().collect();
            Figures { steps, moved: vec![Bytes::new(total)], ..Figures::default() }
                .moved_per_step(0)
                .get()
        };
        assert_eq!([0, 1, 2, 3, 4, 5].map(moved), [0, 0, 1, 1, 1, 2]);
        assert_eq!(moved(u64::MAX), u64::MAX / 3);
    }
}
