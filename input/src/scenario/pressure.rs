//! From what a case says about memory pressure to a [`PressureConfig`].
//!
//! Thresholds are a profile's or written out, never both. A micro-batch can change only in a
//! training that is generated: a recording is of one batch size.

use crate::scenario::raw::{RawCase, RawMicroBatch, RawPressure, RawResponses, RawThresholds};
use crate::scenario::resolver::{Resolver, nearest_first};
use crate::scenario::{TraceSource, WorkloadSpec};
use std::num::NonZeroU32;
use tiersim_models::hardware::{Hardware, Profile};
use tiersim_policies::pressure::{
    HYSTERESIS, Level, MILLION, MicroBatch, PressureConfig, Response, Thresholds,
};
use tiersim_workloads::transformer::training::TrainingRun;

/// How a training of several steps is written.
const STEPS: &str =
    "generate the training: Model(..., mode: train(batch: 8, sequences: [512, 1024, ...]))";

/// What the case at `at` says: its own micro-batch, and the tier that it watches.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    case: &RawCase,
    hardware: &Hardware,
    workload: Option<&WorkloadSpec>,
) -> (Option<u32>, Option<PressureConfig>) {
    let path = format!("{at}.micro_batch");
    let own = case.micro_batch;
    let own = own.and_then(|samples| resolver.micro_batch(&path, samples, samples, workload));
    let pressure = case.pressure.as_ref();
    let pressure = pressure
        .and_then(|raw| resolver.pressure(&format!("{at}.pressure"), raw, hardware, workload));
    let dynamic = case.pressure.as_ref().is_some_and(|raw| raw.micro_batch.is_some());
    if case.micro_batch.is_some() && dynamic {
        let rule = "the micro-batch is either fixed or changes under pressure";
        resolver.check.fault(&path, rule, "leave it out, and write `max` in the other place");
    }
    (own.map(|bounds| bounds.max), pressure)
}

impl Resolver<'_, '_> {
    fn pressure(
        &mut self,
        at: &str,
        raw: &RawPressure,
        hardware: &Hardware,
        workload: Option<&WorkloadSpec>,
    ) -> Option<PressureConfig> {
        let tier = self.tier(&format!("{at}.tier"), &raw.tier, hardware);
        let thresholds = self.thresholds(at, raw, hardware.pressure);
        let hysteresis = self.hysteresis(at, raw.hysteresis, thresholds);
        let path = format!("{at}.micro_batch");
        let bounds = raw.micro_batch.as_ref();
        let micro_batch = bounds.and_then(|bounds| self.dynamic(&path, bounds, workload));
        let responses = self.responses(at, raw.actions.as_ref(), bounds);
        if let (Some(batch), Some(thresholds), Some(responses)) =
            (micro_batch, thresholds, &responses)
        {
            self.utilisation(&path, batch.target, thresholds, responses);
        }
        let path = format!("{at}.clear_cache_frequency");
        let clear = self.frequency(&path, raw.clear_cache_frequency);
        let tier = tier?;
        let spill = match &raw.spill {
            Some(names) => self.spill(&format!("{at}.spill"), names, tier, hardware)?,
            None => nearest_first(tier, hardware),
        };
        Some(PressureConfig {
            tier,
            thresholds: thresholds?,
            hysteresis: hysteresis?,
            responses: responses?,
            spill,
            micro_batch,
            clear_cache_frequency: clear,
        })
    }

    fn thresholds(
        &mut self,
        at: &str,
        raw: &RawPressure,
        usual: Option<Profile>,
    ) -> Option<Thresholds> {
        let Some(RawThresholds { target, warning, critical, emergency }) = raw.thresholds else {
            // What the scenario says goes before what the machine does.
            return Some(match raw.profile.or(usual).unwrap_or(Profile::Balanced) {
                Profile::Aggressive => Thresholds::AGGRESSIVE,
                Profile::Balanced => Thresholds::BALANCED,
                Profile::Conservative => Thresholds::CONSERVATIVE,
            });
        };
        if raw.profile.is_some() {
            let rule = "`profile` and `thresholds` say the same thing";
            self.check.fault(&format!("{at}.profile"), rule, "keep one of them");
            return None;
        }
        let path = |name: &str| format!("{at}.thresholds.{name}");
        let all = [target, warning, critical, emergency];
        let least = 1.0 / f64::from(MILLION);
        let found = Level::ALL[1..].iter().zip(all).map(|(level, share)| {
            let found = self.check.number(&path(level.word()), "a threshold", share, least, 1.0);
            found.map(millionths)
        });
        let found: Vec<Option<u32>> = found.collect();
        let [Some(a), Some(b), Some(c), Some(d)] = found[..] else { return None };
        let (found, mut good) = ([a, b, c, d], true);
        for (pair, levels) in found.windows(2).zip(Level::ALL[1..].windows(2)) {
            if pair[0] >= pair[1] {
                let (low, high) = (levels[0].word(), levels[1].word());
                let rule = format!("`{high}` must be above `{low}`, by a millionth at least");
                self.check.fault(&path(high), rule, "write them in rising order");
                good = false;
            }
        }
        good.then_some(Thresholds(found))
    }

    fn hysteresis(
        &mut self,
        at: &str,
        raw: Option<f64>,
        thresholds: Option<Thresholds>,
    ) -> Option<u32> {
        let Some(share) = raw else {
            // A low target of one's own leaves less.
            return Some(HYSTERESIS.min(thresholds?.0[0] / 2));
        };
        let path = format!("{at}.hysteresis");
        let share = millionths(self.check.number(&path, "`hysteresis`", share, 0.0, 1.0)?);
        if share >= thresholds?.0[0] {
            let rule = "`hysteresis` must be below the target, or that would never be left";
            self.check.fault(&path, rule, "write less");
            return None;
        }
        Some(share)
    }

    fn responses(
        &mut self,
        at: &str,
        raw: Option<&RawResponses>,
        batch: Option<&RawMicroBatch>,
    ) -> Option<[Vec<Response>; 4]> {
        let changes = batch.is_some();
        let aimed = batch.is_some_and(|batch| batch.target_utilisation.is_some());
        let lists: [Option<&[Response]>; 4] = match raw {
            Some(RawResponses { target, warning, critical, emergency }) => {
                [target, warning, critical, emergency].map(Option::as_deref)
            }
            None => [None; 4],
        };
        let mut found: [Vec<Response>; 4] = Default::default();
        let mut good = true;
        for ((level, list), found) in Level::ALL[1..].iter().zip(lists).zip(&mut found) {
            let path = format!("{at}.actions.{}", level.word());
            let Some(list) = list else {
                *found = usual(*level, changes);
                continue;
            };
            for (index, raw) in list.iter().enumerate().take(5) {
                let response = *raw;
                let here = format!("{path}.{index}");
                if found.contains(&response) {
                    self.check.fault(&here, "an action is listed twice", "leave it out");
                    good = false;
                } else if response == Response::Shrink && !changes {
                    let rule = "`shrink` needs to know how far: there is no `micro_batch`";
                    self.check.fault(&here, rule, "add such as micro_batch: (min: 1)");
                    good = false;
                }
                found.push(response);
            }
        }
        let shrinks = found.iter().any(|list| list.contains(&Response::Shrink));
        if good && changes && !shrinks && !aimed {
            let rule = "no action is `shrink`, so the micro-batch would never change";
            self.check.fault(
                &format!("{at}.micro_batch"),
                rule,
                "add it to a level, or leave this out",
            );
            return None;
        }
        good.then_some(found)
    }

    fn dynamic(
        &mut self,
        at: &str,
        raw: &RawMicroBatch,
        workload: Option<&WorkloadSpec>,
    ) -> Option<MicroBatch> {
        let workload = workload?;
        let own = match &workload.trace {
            TraceSource::Training(training) => training.training.micro_batch,
            _ => raw.max.unwrap_or(raw.min),
        };
        let max = raw.max.unwrap_or(own);
        let bounds = self.micro_batch(at, raw.min, max, Some(workload));
        let path = format!("{at}.adjustment_frequency");
        let every = self.frequency(&path, raw.adjustment_frequency);
        let path = format!("{at}.target_utilisation");
        let (what, least) = ("`target_utilisation`", 1.0 / f64::from(MILLION));
        let target = raw.target_utilisation;
        let target = target.and_then(|share| self.check.number(&path, what, share, least, 1.0));
        let target = target.map(millionths);
        if workload.repeat > 1 {
            let rule = "a micro-batch that changes from step to step needs a run without replays";
            let remedy = "write `repeat: 1, warmup: 0`, and more `sequences` if that is too short";
            self.check.fault(at, rule, remedy);
        }
        let every = every.unwrap_or(NonZeroU32::MIN);
        Some(MicroBatch { target, every, smooth: raw.smooth.unwrap_or(true), ..bounds? })
    }

    /// Every so many steps, if anything is written.
    fn frequency(&mut self, at: &str, raw: Option<u32>) -> Option<NonZeroU32> {
        let every = NonZeroU32::new(raw?);
        if every.is_none() {
            let rule = "a frequency is a number of steps, 1 or more";
            self.check.fault(at, rule, "write how many steps pass between two, or leave it out");
        }
        every
    }

    /// A batch must not grow into a level that shrinks it.
    fn utilisation(
        &mut self,
        at: &str,
        target: Option<u32>,
        Thresholds(thresholds): Thresholds,
        responses: &[Vec<Response>; 4],
    ) {
        let shrinks = |list: &Vec<Response>| list.contains(&Response::Shrink);
        let lowest = responses.iter().position(shrinks).map(|level| (level, thresholds[level]));
        let (Some(target), Some((level, limit))) = (target, lowest) else { return };
        if target < limit {
            return;
        }
        let level = Level::ALL[1..][level].word();
        let rule = format!(
            "`target_utilisation` must be below the threshold of `{level}`, which shrinks the batch"
        );
        self.check.fault(&format!("{at}.target_utilisation"), rule, "write less");
    }

    /// Bounds of micro-batches that the workload can be cut into.
    fn micro_batch(
        &mut self,
        at: &str,
        min: u32,
        max: u32,
        workload: Option<&WorkloadSpec>,
    ) -> Option<MicroBatch> {
        let training: &TrainingRun = match &workload?.trace {
            TraceSource::Training(training) => training,
            other => {
                let rule = match other {
                    TraceSource::Folder(_) | TraceSource::Recording { .. } => {
                        "a recording is of one batch size: how its ops, sizes and times would be \
                         at another is not in it"
                    }
                    _ => "micro-batches belong to a training of several steps",
                };
                self.check.fault(at, rule, STEPS);
                return None;
            }
        };
        let batch = training.training.batch;
        if min == 0 || min > max || max > batch {
            let rule = format!(
                "a micro-batch has 1 to {batch} samples, which is the batch, and `min` is not above \
                 `max`: {min} to {max}"
            );
            self.check.fault(at, rule, "write whole numbers in that range");
            return None;
        }
        let broken = self.broken(&training.problems(min), |_| at.to_owned());
        (!broken).then_some(MicroBatch::between(min, max))
    }
}

/// The nearest whole number of millionths.
fn millionths(share: f64) -> u32 {
    (share * f64::from(MILLION)).round() as u32
}

/// What is done at a level unless the case says otherwise.
fn usual(level: Level, changes: bool) -> Vec<Response> {
    match (level, changes) {
        (Level::Normal | Level::Target, _) => Vec::new(),
        (Level::Warning, _) => vec![Response::Warn],
        (Level::Critical, false) => vec![Response::Clean],
        (Level::Critical, true) => vec![Response::Clean, Response::Shrink],
        (Level::Emergency, _) => vec![Response::Evict],
    }
}
