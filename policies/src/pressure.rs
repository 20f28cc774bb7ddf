//! Memory pressure of one tier: how full it is, what follows from that, and what happened.
//!
//! Pressure is what the tier's allocator has reserved (in an exact tier, what is allocated) over
//! the capacity, read from the ledger after every allocation and release, in the order of the plan.
//! No clock and no float: a threshold is a whole number of millionths, and a level is reached at
//! exactly `ceil(threshold * capacity)` bytes.
//! A level is entered as soon as its threshold is reached, and left once pressure is below the
//! threshold by the hysteresis: between the two nothing changes.
//! Invariant: what is said here depends on the order of allocations and releases only.

mod batch;

pub use batch::{MicroBatch, StepPressure};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::sync::Arc;
use tiersim_models::ids::TierId;
pub use tiersim_models::results::pressure::{Level, MOST_EVENTS, PressureEvent, PressureLog, What};
use tiersim_models::units::Bytes;

/// One millionth is the unit of thresholds.
pub const MILLION: u32 = 1_000_000;

/// What is done when a level is entered from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename = "Action", rename_all = "snake_case")]
pub enum Response {
    /// At `warning`, unless said otherwise: counts and logs a warning.
    Warn,
    /// At `critical`, unless said otherwise: has the allocator give back memory in which nothing is
    /// live, as `torch.cuda.empty_cache()`; whoever gets it next waits for all that is under way.
    /// `caching` only: the other allocators keep no empty memory.
    Clean,
    /// At `critical`, if there is a `micro_batch`, unless said otherwise: makes the micro-batch
    /// smaller by a notch, or more if it is not `smooth`, when it may change next.
    Shrink,
    /// At `emergency`, unless said otherwise: moves persistent objects that the op does not use out
    /// of the tier, the one used longest ago first, until what is allocated is below `target`; then
    /// `clean`s, if that is an action of any level.
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

/// Thresholds in millionths of the capacity, by level above normal; each above the one before.
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
    /// What is done at each level above normal.
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
    /// Bytes at which each level above normal is entered.
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
            Level::ALL[reached]
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

/// What is remembered of one watched tier.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) config: Arc<PressureConfig>,
    pub(crate) gauge: Gauge,
    /// Levels that were entered from below and not answered yet.
    pub(crate) pending: Vec<Level>,
    /// Something did not fit; once it does, more leaves if the level asks for it.
    pub(crate) forced: bool,
    pub(crate) step: StepPressure,
    pub(crate) steps: usize,
    pub(crate) last_step: Option<StepPressure>,
    /// The last op of the run that used each object, counted from 1.
    pub(crate) last_used: Vec<u64>,
    /// Whether an object left because of pressure and has not come back.
    pub(crate) away: Vec<bool>,
    pub(crate) log: PressureLog,
}

impl Monitor {
    pub(crate) fn note(
        &mut self,
        occurrence: u64,
        what: What,
        (from, to): (Level, Level),
        used: Bytes,
        bytes: Bytes,
    ) {
        let step = self.steps as u32;
        self.log.note(PressureEvent { occurrence, step, what, from, to, used, bytes, batch: None });
    }
}
