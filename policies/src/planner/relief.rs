//! How the planner watches a tier and makes room in it when it runs full.
//!
//! Evictions are ordinary actions, planned like a policy's: every hazard has its edge and the
//! ledger counts every byte. What was evicted comes back when an op needs it. An allocation that
//! does not fit is an emergency first, and out of memory only if nothing helps.
//! Invariant: an object that the op in question uses is never evicted for it, and nothing here
//! happens in a plan that is not watched.

use crate::ledger::Occupancy;
use crate::planner::{PlanError, Planner};
use crate::policy::Action;
use crate::pressure::{
    Gauge, Level, Monitor, PressureConfig, PressureEvent, PressureLog, Response, StepPressure, What,
};
use std::sync::Arc;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl<'a> Planner<'a> {
    /// Watches a tier from now on. `micro_batches` says which micro-batch each step of the run has,
    /// for the log; it may be empty.
    pub fn watch(&mut self, config: PressureConfig, micro_batches: Vec<u32>) {
        assert_eq!(self.next, 0, "a plan is watched from its start");
        let objects = self.workload.trace.objects.len();
        self.pressure = Some(Box::new(Monitor {
            gauge: Gauge::new(&config, self.ledger.capacity(config.tier).most()),
            config: Arc::new(config),
            pending: Vec::new(),
            forced: false,
            step: StepPressure::default(),
            steps: 0,
            last_step: None,
            last_used: vec![0; objects],
            away: vec![false; objects],
            log: PressureLog { micro_batches, ..PressureLog::default() },
        }));
        self.observe();
    }

    /// What has happened under pressure so far, if a tier is watched.
    pub fn pressure(&self) -> Option<&PressureLog> {
        self.pressure.as_ref().map(|monitor| &monitor.log)
    }

    /// The step whose last op was planned last, if a tier is watched.
    pub fn last_step(&self) -> Option<StepPressure> {
        self.pressure.as_ref()?.last_step
    }

    pub(super) fn watches(&self, tier: TierId) -> bool {
        self.pressure.as_ref().is_some_and(|monitor| monitor.config.tier == tier)
    }

    /// Takes a reading after an allocation or release.
    pub(super) fn observe(&mut self) {
        let Some(monitor) = &mut self.pressure else { return };
        let held = self.ledger.held(monitor.config.tier);
        let (from, to) = monitor.gauge.read(held.reserved);
        monitor.step.peak = monitor.step.peak.max(held.allocated);
        monitor.step.highest = monitor.step.highest.max(to);
        if from == to {
            return;
        }
        let passed = Level::ALL.into_iter().filter(|&level| from < level && level <= to);
        monitor.pending.extend(passed);
        monitor.note(self.next, What::Level, (from, to), held.reserved, Bytes::ZERO);
    }

    /// Whether pressure has already done what an action asks for, or has moved the copy out that a
    /// drop counted on.
    pub(super) fn overtaken(&self, action: &Action) -> bool {
        let Some(monitor) = &self.pressure else { return false };
        let away = |object: ObjectId| monitor.away[object.index()];
        match *action {
            Action::Evict { object, from, .. } => {
                away(object) && !self.ledger.is_allocated(object, from)
            }
            Action::Drop { object, tier } => {
                let only = || self.ledger.tiers_of(object).as_slice() == [tier];
                away(object) && (!self.ledger.is_allocated(object, tier) || only())
            }
            _ => false,
        }
    }

    /// Fetches what left because of pressure, is used now, and has not been fetched by the policy.
    pub(super) fn bring_back(&mut self) -> Result<(), PlanError> {
        // An op on the CPU needs nothing in HBM.
        let on_host = self.is_on_host(self.op_planned());
        for touched in self.uses() {
            let object = touched.object;
            let Some(monitor) = &mut self.pressure else { return Ok(()) };
            monitor.last_used[object.index()] = self.next + 1;
            if !monitor.away[object.index()] || on_host || self.in_place.contains(&object) {
                continue;
            }
            monitor.away[object.index()] = false;
            if self.ledger.exists(object) && !self.ledger.holds(object, HBM) {
                self.act(Action::Fetch { object, to: HBM })?;
            }
        }
        self.relieve(None)
    }

    /// Answers an allocation of so many bytes that does not fit.
    pub(super) fn force(&mut self, tier: TierId, bytes: Bytes) -> Result<(), PlanError> {
        if !self.watches(tier) || self.ledger.fits(tier, bytes, self.stream) {
            return Ok(());
        }
        let (next, held) = (self.next, self.ledger.held(tier));
        let Some(monitor) = &mut self.pressure else { return Ok(()) };
        let from = monitor.gauge.force();
        monitor.log.forced += 1;
        monitor.forced = true;
        monitor.step.highest = Level::Emergency;
        monitor.pending.extend(Level::ALL.into_iter().filter(|&level| from < level));
        if from < Level::Emergency {
            let levels = (from, Level::Emergency);
            monitor.note(next, What::Level, levels, held.reserved, Bytes::ZERO);
        } else if !monitor.pending.contains(&Level::Emergency) {
            // Answered before, and it was not enough.
            monitor.pending.push(Level::Emergency);
        }
        self.relieve(Some(bytes))
    }

    /// Does what the levels ask for that were entered; with `need`, until so many bytes fit.
    pub(super) fn relieve(&mut self, need: Option<Bytes>) -> Result<(), PlanError> {
        let Some(monitor) = &mut self.pressure else { return Ok(()) };
        let pending = std::mem::take(&mut monitor.pending);
        let more = need.is_none() && std::mem::take(&mut monitor.forced);
        let config = Arc::clone(&monitor.config);
        for &level in &pending {
            for &response in config.responses(level) {
                // What came before may have helped.
                if response != Response::Warn && self.relieved(level, need) {
                    continue;
                }
                self.respond(response, need)?;
            }
        }
        let level = Level::Emergency;
        let evicts = config.responses(level).contains(&Response::Evict);
        if more && evicts && !pending.contains(&level) && !self.relieved(level, None) {
            self.respond(Response::Evict, None)?;
        }
        Ok(())
    }

    fn relieved(&self, level: Level, need: Option<Bytes>) -> bool {
        let Some(monitor) = &self.pressure else { return true };
        let tier = monitor.config.tier;
        match need {
            Some(bytes) => self.ledger.fits(tier, bytes, self.stream),
            None => !monitor.gauge.reaches(self.ledger.held(tier).reserved, level),
        }
    }

    fn respond(&mut self, response: Response, need: Option<Bytes>) -> Result<(), PlanError> {
        match response {
            Response::Warn => self.happened(What::Warn, Bytes::ZERO),
            Response::Clean => self.clean(),
            Response::Shrink => {
                if let Some(monitor) = &mut self.pressure {
                    monitor.step.shrink = true;
                }
            }
            Response::Evict => self.evict(need)?,
        }
        Ok(())
    }

    fn happened(&mut self, what: What, bytes: Bytes) {
        let Some(monitor) = &mut self.pressure else { return };
        let Occupancy { reserved, .. } = self.ledger.held(monitor.config.tier);
        let level = monitor.gauge.level();
        monitor.note(self.next, what, (level, level), reserved, bytes);
    }

    /// Has the allocator give back what nobody uses.
    fn clean(&mut self) {
        let Some(monitor) = &self.pressure else { return };
        let tier = monitor.config.tier;
        let before = self.ledger.held(tier).reserved;
        if let Some(arena) = self.ledger.arena(tier) {
            arena.clean();
            let freed = before - self.ledger.held(tier).reserved;
            self.happened(What::Clean, freed);
            self.observe();
        }
    }

    /// Moves persistent objects out, the one used longest ago first.
    fn evict(&mut self, need: Option<Bytes>) -> Result<(), PlanError> {
        let Some(monitor) = &self.pressure else { return Ok(()) };
        let config = Arc::clone(&monitor.config);
        let uses = self.uses();
        let objects = self.workload.trace.objects.iter().enumerate();
        let mut candidates: Vec<(u64, ObjectId)> = objects
            .filter(|(_, object)| object.persistent && object.bytes > Bytes::ZERO)
            .map(|(index, _)| (monitor.last_used[index], ObjectId::at(index)))
            .filter(|&(_, object)| self.ledger.is_allocated(object, config.tier))
            .filter(|&(_, object)| uses.iter().all(|touched| touched.object != object))
            .collect();
        candidates.sort_unstable();
        let mut gone = Bytes::ZERO;
        for (_, object) in candidates {
            let held = self.ledger.held(config.tier).allocated;
            let enough = match (need, &self.pressure) {
                (Some(bytes), _) => self.ledger.fits(config.tier, bytes, self.stream),
                (None, Some(monitor)) => !monitor.gauge.reaches(held, Level::Target),
                (None, None) => true,
            };
            if enough {
                break;
            }
            let Some(to) = self.far(object, &config) else { continue };
            self.act(Action::Evict { object, from: config.tier, to })?;
            gone += self.allocation(object, config.tier).bytes;
            if let Some(monitor) = &mut self.pressure {
                monitor.away[object.index()] = true;
                monitor.log.evictions += 1;
            }
        }
        if gone > Bytes::ZERO {
            self.happened(What::Evict, gone);
            if config.responds(Response::Clean) {
                self.clean();
            }
        }
        Ok(())
    }

    /// Where an object goes: the policy's place for it, or the first of the spill tiers with room.
    fn far(&mut self, object: ObjectId, config: &PressureConfig) -> Option<TierId> {
        let chosen = self.ask(|policy, view| policy.spill_tier(object, view));
        let room = |to: TierId| self.allocation(object, to).bytes;
        let open = |&to: &TierId| {
            to != config.tier
                && !self.makes_room(to)
                && (self.ledger.is_allocated(object, to)
                    || self.ledger.fits(to, room(to), self.stream))
        };
        chosen.into_iter().chain(config.spill.iter().copied()).find(open)
    }

    /// The op before `self.next` was the last of its step.
    pub(super) fn step_ended(&mut self) {
        let Some(monitor) = &mut self.pressure else { return };
        let Occupancy { allocated, reserved } = self.ledger.held(monitor.config.tier);
        let done = StepPressure { rest: allocated, ..std::mem::take(&mut monitor.step) };
        monitor.last_step = Some(done);
        let level = monitor.gauge.level();
        monitor.step = StepPressure { peak: allocated, highest: level, ..Default::default() };
        let step = monitor.steps;
        monitor.steps += 1;
        let every = monitor.config.clear_cache_frequency;
        let mut clear = every.is_some_and(|every| monitor.steps % every.get() as usize == 0);
        let batches = &monitor.log.micro_batches;
        if let (Some(&was), Some(&is)) = (batches.get(step), batches.get(step + 1))
            && was != is
        {
            monitor.log.note(PressureEvent {
                occurrence: self.next,
                step: monitor.steps as u32,
                what: if is < was { What::Shrink } else { What::Restore },
                from: level,
                to: level,
                used: reserved,
                bytes: Bytes::ZERO,
                batch: Some((was, is)),
            });
            // Memory that is kept for objects of the old sizes does not fit the new ones.
            clear |= monitor.config.responds(Response::Clean);
        }
        if clear {
            self.clean();
        }
    }
}
