//! Whether a scenario's `expect:` list holds.
//!
//! A case that runs out of memory fails the scenario unless the list says that it must: a design
//! review should never be shown a chart with a point silently missing.

use std::fmt::{Display, Formatter};
use tiersim_models::results::served::{RequestFigures, ServingFigures};
use tiersim_models::results::{CaseRecord, Figures, Outcome, PressureRecord, RunRecord};
use tiersim_policies::pressure::Level;
use tiersim_policies::scenario::{Expectation, Over, Scenario};

/// Every expectation that does not hold, in words; empty if all do.
pub fn failures(scenario: &Scenario, record: &RunRecord) -> Vec<String> {
    let mut failures: Vec<String> =
        scenario.expect.iter().filter_map(|expected| failure(expected, record).err()).collect();
    for (index, case) in record.results.iter().enumerate() {
        if let Outcome::OutOfMemory(full) = &case.outcome
            && !scenario.expect.contains(&Expectation::OutOfMemory(index))
        {
            failures.push(format!(
                "{:?} ran out of memory in {} ({} needed for {}, {} free of {}{}, {}); give it \
                 more (tiersim memory --fit says what makes a model fit), or expect \
                 out_of_memory({:?})",
                case.label,
                full.tier,
                full.need,
                full.object,
                full.free,
                full.capacity,
                full.pieces(),
                full.at,
                case.label
            ));
        }
    }
    failures
}

fn failure(expected: &Expectation, record: &RunRecord) -> Result<(), String> {
    let case = |index: usize| &record.results[index];
    match *expected {
        Expectation::Fits(index) => figures(case(index)).map(|_| ()),
        Expectation::OutOfMemory(index) => match case(index).outcome {
            Outcome::OutOfMemory(_) => Ok(()),
            Outcome::Done(_) => Err(format!("{:?} was to run out of memory", case(index).label)),
        },
        Expectation::StepTime { case: index, at_least, at_most } => {
            let step = figures(case(index))?.mean_step();
            within(&case(index).label, "mean step", step, at_least, at_most)
        }
        Expectation::FirstToken { case: index, at_least, at_most } => {
            let mean = serving(case(index))?.mean(|request| Some(request.first_token));
            within(&case(index).label, "mean TTFT", mean, at_least, at_most)
        }
        Expectation::PerToken { case: index, at_least, at_most } => {
            let mean = serving(case(index))?.mean(RequestFigures::per_token);
            within(&case(index).label, "mean TPOT", mean, at_least, at_most)
        }
        Expectation::Slowdown { case: index, at_least, at_most } => {
            let slowdown = figures(case(index))?.slowdown(case(index).baseline_step);
            within(&case(index).label, "slowdown", slowdown, at_least, at_most)
        }
        Expectation::Faster { case: index, than } => {
            let (fast, slow) =
                (figures(case(index))?.mean_step(), figures(case(than))?.mean_step());
            let (fast_label, slow_label) = (&case(index).label, &case(than).label);
            ensure(fast < slow, || {
                format!("{fast_label:?} takes {fast}, not less than {slow_label:?} with {slow}")
            })
        }
        Expectation::Moved { case: index, lane, at_least, at_most } => {
            let figures = figures(case(index))?;
            let moved = figures.moved_per_step(lane.index());
            let what = format!("bytes moved per step over {}", record.lanes[lane.index()].ends);
            within(&case(index).label, &what, moved, at_least, at_most)
        }
        Expectation::Fragmentation { case: index, tier, over, at_least, at_most } => {
            let name = &record.tiers[tier.index()].0;
            let label = &case(index).label;
            let memory = figures(case(index))?.memory_of(tier.index());
            let memory = memory.ok_or_else(|| {
                format!("{label:?}: the allocator of {name} is exact and fragments nothing")
            })?;
            let found = match over {
                Over::Mean => memory.external.mean,
                Over::Highest => memory.external.highest,
                Over::End => memory.external.end,
            };
            within(label, &format!("fragmentation of {name}"), found, at_least, at_most)
        }
        Expectation::Pressure { case: index, at_least, at_most } => {
            let highest = pressure(case(index))?.log.highest;
            let [found, least, most] =
                [Some(highest), at_least, at_most].map(|level| level.map(Shown));
            let found = found.expect("it is given");
            within(&case(index).label, "highest level of pressure", found, least, most)
        }
        Expectation::MicroBatch { case: index, at_least, at_most } => {
            let smallest = pressure(case(index))?.smallest_micro_batch();
            let label = &case(index).label;
            let smallest = smallest.ok_or_else(|| format!("{label:?} has no micro-batches"))?;
            within(label, "smallest micro-batch", smallest, at_least, at_most)
        }
        Expectation::Peak { case: index, tier, at_least, at_most } => {
            let peak = figures(case(index))?.peak[tier.index()];
            let what = format!("peak of {}", record.tiers[tier.index()].0);
            within(&case(index).label, &what, peak, at_least, at_most)
        }
    }
}

fn serving(case: &CaseRecord) -> Result<&ServingFigures, String> {
    let serving = figures(case)?.serving.as_deref();
    serving.ok_or_else(|| format!("{:?} serves no requests", case.label))
}

fn pressure(case: &CaseRecord) -> Result<&PressureRecord, String> {
    let pressure = case.pressure.as_ref();
    pressure.ok_or_else(|| format!("{:?} does not say `pressure`, so none was watched", case.label))
}

/// A level that prints as its word.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Shown(Level);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.word())
    }
}

fn figures(case: &CaseRecord) -> Result<&Figures, String> {
    let figures = case.outcome.figures();
    figures.ok_or_else(|| format!("{:?} ran out of memory and has no figures", case.label))
}

fn within<T: PartialOrd + Display>(
    label: &str,
    what: &str,
    found: T,
    at_least: Option<T>,
    at_most: Option<T>,
) -> Result<(), String> {
    if let Some(least) = at_least {
        ensure(found >= least, || format!("{label:?}: {what} is {found}, below {least}"))?;
    }
    if let Some(most) = at_most {
        ensure(found <= most, || format!("{label:?}: {what} is {found}, above {most}"))?;
    }
    Ok(())
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}
