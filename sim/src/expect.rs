//! Whether a scenario's `expect:` list holds.
//!
//! A case that runs out of memory fails the scenario unless the list says that it must: a design
//! review should never be shown a chart with a point silently missing.

use tiersim_models::results::{Outcome, RunRecord};
use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::expectation::{Expectation, figures};

/// Every expectation that does not hold, in words; empty if all do.
pub fn failures(scenario: &Scenario, record: &RunRecord) -> Vec<String> {
    let mut failures: Vec<String> =
        scenario.expect.iter().filter_map(|expected| failure(expected, record).err()).collect();
    for (index, case) in record.results.iter().enumerate() {
        if let Outcome::OutOfMemory(full) = &case.outcome
            && !scenario.expect.contains(&Expectation::OutOfMemory(index))
        {
            failures.push(format!(
                "{:?} {}; give it more (tiersim memory --fit says what makes a model fit), or \
                 expect out_of_memory({:?})",
                case.label,
                full.told(),
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
        Expectation::Faster { case: index, than } => {
            let (fast, slow) = (figures(case(index))?.judged(), figures(case(than))?.judged());
            let (fast_label, slow_label) = (&case(index).label, &case(than).label);
            ensure(fast < slow, || {
                format!("{fast_label:?} takes {fast}, not less than {slow_label:?} with {slow}")
            })
        }
        Expectation::Within { metric, case: index, at_least, at_most } => {
            let (what, found) = metric.read(record, case(index))?;
            let label = &case(index).label;
            if let Some(least) = at_least {
                ensure(found >= least, || format!("{label:?}: {what} is {found}, below {least}"))?;
            }
            if let Some(most) = at_most {
                ensure(found <= most, || format!("{label:?}: {what} is {found}, above {most}"))?;
            }
            Ok(())
        }
    }
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}
