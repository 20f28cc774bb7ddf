//! Memory pressure of one tier: how full it is, what follows from that, and what happened.
//!
//! Pressure is what the tier's allocator has reserved (in an exact tier, what is allocated) over the
//! capacity, read from the ledger after every claim and release, in the order of the plan. No clock
//! and no float: a threshold is a whole number of millionths, and a level is reached at exactly
//! `ceil(threshold * capacity)` bytes.
//! A level is entered as soon as its threshold is reached, and left once pressure is below the
//! threshold by the hysteresis: between the two nothing changes.
//! Invariant: what is said here depends on the order of claims and releases only.

mod batch;

pub use batch::{MicroBatch, StepPressure};
use std::num::NonZeroU32;
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// How many events of a run are kept one by one; all of them are counted.
pub const MOST_EVENTS: usize = 4096;

/// One millionth is the unit of thresholds.
pub const MILLION: u32 = 1_000_000;

/// How full a tier is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Below every threshold.
    #[default]
    Normal,
    /// As full as it should be.
    Target,
    /// Fuller than it should be.
    Warning,
    /// The next larger step may not fit.
    Critical,
    /// The next claim may not fit, or did not.
    Emergency,
}

impl Level {
    /// Levels that have a threshold, lowest first.
    pub const ALL: [Level; 4] = [Level::Target, Level::Warning, Level::Critical, Level::Emergency];

    /// The word used in scenarios and results.
    pub const fn word(self) -> &'static str {
        match self {
            Level::Normal => "normal",
            Level::Target => "target",
            Level::Warning => "warning",
            Level::Critical => "critical",
            Level::Emergency => "emergency",
        }
    }
}

/// What is done when a level is entered from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Response {
    /// Say so.
    Warn,
    /// Give memory back that the allocator keeps and nobody uses, as PyTorch's `empty_cache`.
    Clean,
    /// Make the micro-batch smaller when it may change next.
    Shrink,
    /// Move persistent objects that the op does not use to another tier, the one used longest ago
    /// first, until pressure is below the target.
    Evict,
}

impl Response {
    /// The word used in scenarios and results.
    pub const fn word(self) -> &'static str {
        match self {
            Response::Warn => "warn",
            Response::Clean => "clean",
            Response::Shrink => "shrink",
            Response::Evict => "evict",
        }
    }
}

/// Thresholds in millionths of the capacity, by [`Level::ALL`]; each above the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds(pub [u32; 4]);

impl Thresholds {
    /// 0.90, 0.92, 0.95, 0.97.
    pub const BALANCED: Thresholds = Thresholds([900_000, 920_000, 950_000, 970_000]);
    /// 0.92, 0.94, 0.96, 0.98: uses more of the tier and has less time to react.
    pub const AGGRESSIVE: Thresholds = Thresholds([920_000, 940_000, 960_000, 980_000]);
    /// 0.85, 0.88, 0.92, 0.95: keeps more of the tier free.
    pub const CONSERVATIVE: Thresholds = Thresholds([850_000, 880_000, 920_000, 950_000]);
}

/// Two points in a hundred, unless a scenario says otherwise.
pub const HYSTERESIS: u32 = 20_000;

/// What is watched and what is done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureConfig {
    /// The tier.
    pub tier: TierId,
    /// When levels are entered.
    pub thresholds: Thresholds,
    /// How far below its threshold a level is left, in millionths.
    pub hysteresis: u32,
    /// What is done at each of [`Level::ALL`].
    pub responses: [Vec<Response>; 4],
    /// Where evicted objects go if the policy has no place for them: the first with room.
    pub spill: Vec<TierId>,
    /// The micro-batch, if it may change.
    pub micro_batch: Option<MicroBatch>,
    /// After every so many steps the allocator gives back what nobody uses.
    pub clear_cache_frequency: Option<NonZeroU32>,
}

impl PressureConfig {
    /// Responses at a level.
    pub fn responses(&self, level: Level) -> &[Response] {
        match level {
            Level::Normal => &[],
            level => &self.responses[level as usize - 1],
        }
    }

    /// Whether the response belongs to any level.
    pub fn responds(&self, response: Response) -> bool {
        self.responses.iter().any(|responses| responses.contains(&response))
    }
}

/// Which level bytes are at, with memory of the level before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Bytes at which each of [`Level::ALL`] is entered.
    enter: [u64; 4],
    /// Bytes below which it is left.
    pub(crate) leave: [u64; 4],
    level: Level,
}

impl Gauge {
    /// At the normal level.
    pub fn new(config: &PressureConfig, capacity: Bytes) -> Gauge {
        let bytes = |millionths: u32| {
            let product = u128::from(capacity.get()) * u128::from(millionths);
            product.div_ceil(u128::from(MILLION)) as u64
        };
        let Thresholds(enter) = config.thresholds;
        Gauge {
            enter: enter.map(bytes),
            leave: enter.map(|at| bytes(at.saturating_sub(config.hysteresis))),
            level: Level::Normal,
        }
    }

    /// The level as last read.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether so many bytes reach the level.
    pub fn reaches(&self, used: Bytes, level: Level) -> bool {
        level == Level::Normal || used.get() >= self.enter[level as usize - 1]
    }

    /// Takes a reading: the level before and the level now. It rises to the highest level whose
    /// threshold is reached, and falls no further than to the highest one that is not left.
    pub fn read(&mut self, used: Bytes) -> (Level, Level) {
        let highest = |thresholds: &[u64; 4]| {
            let reached = thresholds.iter().filter(|&&at| used.get() >= at).count();
            if reached == 0 { Level::Normal } else { Level::ALL[reached - 1] }
        };
        let from = self.level;
        self.level = from.clamp(highest(&self.enter), highest(&self.leave));
        (from, self.level)
    }

    /// Something did not fit, which is an emergency at any number of bytes.
    pub fn force(&mut self) -> Level {
        std::mem::replace(&mut self.level, Level::Emergency)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The level changed.
    Level,
    /// A warning was to be given.
    Warn,
    /// The allocator gave memory back.
    Clean,
    /// Objects left.
    Evict,
    /// The micro-batch became smaller with this op's step.
    Shrink,
    /// It became larger.
    Restore,
}

impl What {
    /// The word used in results.
    pub const fn word(self) -> &'static str {
        match self {
            What::Level => "level",
            What::Warn => "warn",
            What::Clean => "clean",
            What::Evict => "evict",
            What::Shrink => "shrink",
            What::Restore => "restore",
        }
    }
}

/// Something that happened, before an op in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureEvent {
    /// Which op of the run comes next, or is being planned.
    pub occurrence: u64,
    /// Which step of the run that op belongs to.
    pub step: u32,
    /// What.
    pub what: What,
    /// The level before.
    pub from: Level,
    /// The level after.
    pub to: Level,
    /// Bytes reserved after it.
    pub used: Bytes,
    /// Bytes that were cleaned or evicted.
    pub bytes: Bytes,
    /// Micro-batch before and after.
    pub batch: Option<(u32, u32)>,
}

/// All that happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PressureLog {
    /// The highest level of the run.
    pub highest: Level,
    /// How often a level was entered from below.
    pub rises: u64,
    /// Warnings.
    pub warnings: u64,
    /// How often the allocator was told to give memory back.
    pub cleans: u64,
    /// Bytes that this gave back.
    pub cleaned: Bytes,
    /// Objects that were moved out.
    pub evictions: u64,
    /// Their bytes.
    pub evicted: Bytes,
    /// How often the micro-batch became smaller.
    pub shrinks: u64,
    /// How often it became larger.
    pub restores: u64,
    /// Claims that did not fit at first.
    pub forced: u64,
    /// The first [`MOST_EVENTS`] events, in order.
    pub events: Vec<PressureEvent>,
    /// How many more there were.
    pub left_out: u64,
    /// The most samples of a micro-batch, by step of the run; empty if that is not known.
    pub micro_batches: Vec<u32>,
}

impl PressureLog {
    /// Counts and keeps an event.
    pub(crate) fn note(&mut self, event: PressureEvent) {
        self.highest = self.highest.max(event.to);
        match event.what {
            What::Level => self.rises += u64::from(event.to > event.from),
            What::Warn => self.warnings += 1,
            What::Clean => {
                self.cleans += 1;
                self.cleaned += event.bytes;
            }
            What::Evict => self.evicted += event.bytes,
            What::Shrink => self.shrinks += 1,
            What::Restore => self.restores += 1,
        }
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        } else {
            self.left_out += 1;
        }
    }
}
