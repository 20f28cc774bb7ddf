//! What is remembered of a tier that is watched.

use crate::pressure::{Gauge, PressureConfig, StepPressure};
use std::sync::Arc;
use tiersim_models::results::pressure::{Level, PressureEvent, PressureLog, What};
use tiersim_models::units::Bytes;

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
