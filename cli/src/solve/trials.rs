//! Runs a scenario at points, and holds its cases against conditions.

use super::question::{Asking, in_machine};
use crate::output::Failure;
use crate::progress::Progress;
use tiersim_input::scenario::fingerprint::sweep_fingerprint;
use tiersim_input::scenario::sweep::read_along_with;
use tiersim_input::text::condition::Condition;
use tiersim_input::traces::read_more_traces;
use tiersim_models::results::metrics::metric;
use tiersim_models::results::solved::{Tried, Variable};
use tiersim_models::results::{AxisValue, CaseRecord, RunRecord};
use tiersim_policies::scenario::labelled;
use tiersim_policies::scenario::sweep::{Axis, AxisPoint};
use tiersim_policies::scenario::traces::Traces;
use tiersim_sim::run::Options;
use tiersim_sim::solve::several::Measured;
use tiersim_sim::sweep::run_sweep;

/// Decimals of what a case has in the place of a condition.
const FEWEST_DECIMALS: usize = 4;
const MOST_DECIMALS: usize = 17;

/// Runs of one question; traces that points share are read once.
pub(super) struct Trials<'a> {
    asking: &'a Asking<'a>,
    bar: &'a Progress,
    traces: Traces,
    stamp: Option<String>,
}

/// What a batch of points came to, or why the machine refuses the point.
type Evaluated = Result<RunRecord, String>;
/// Points that ran together, and what they came to.
type Batch<'p> = (&'p [Vec<AxisPoint>], Evaluated);

impl<'a> Trials<'a> {
    pub(super) fn new(asking: &'a Asking<'a>, bar: &'a Progress) -> Trials<'a> {
        Trials { asking, bar, traces: Traces::default(), stamp: None }
    }

    /// Of the first points that ran.
    pub(super) fn fingerprint(&self) -> String {
        self.stamp.clone().unwrap_or_default()
    }

    /// What comes of points of numbers.
    pub(super) fn numbers(
        &mut self,
        variables: &[Variable],
        points: &[Vec<f64>],
    ) -> Result<Vec<Measured>, Failure> {
        let paths: Vec<String> = variables.iter().map(|path| path.path.clone()).collect();
        let value = |(variable, &value): (&Variable, &f64)| AxisPoint {
            text: variable.written(value),
            value: AxisValue::Number(value),
        };
        let point = |values: &Vec<f64>| variables.iter().zip(values).map(value).collect();
        let all: Vec<Vec<AxisPoint>> = points.iter().map(point).collect();
        let mut found = self.points(&paths, &all)?;
        for (measured, values) in found.iter_mut().zip(points) {
            measured.tried.values.clone_from(values);
        }
        Ok(found)
    }

    /// What comes of points of any values.
    pub(super) fn points(
        &mut self,
        paths: &[String],
        points: &[Vec<AxisPoint>],
    ) -> Result<Vec<Measured>, Failure> {
        self.bar.inc(points.len() as u64);
        let mut all = Vec::new();
        for (points, run) in self.batches(paths, points)? {
            let asking = self.asking;
            match run {
                Ok(record) => {
                    let judge = |point| Judge { record: &record, asking, paths, point }.measured();
                    all.extend(points.iter().map(|point| judge(point)));
                }
                Err(why) => all.extend(points.iter().map(|_| asking.refused(why.clone()))),
            }
        }
        Ok(all)
    }

    /// Runs the scenario at these points, together as long as the machine takes all of them; a
    /// point that it refuses (less memory than is hidden, say) stands alone with the reason.
    fn batches<'p>(
        &mut self,
        paths: &[String],
        points: &'p [Vec<AxisPoint>],
    ) -> Result<Vec<Batch<'p>>, Failure> {
        let why = match self.batch(paths, points) {
            Ok(record) => return Ok(vec![(points, Ok(record))]),
            Err(failure) => failure.input()?,
        };
        if let [_] = points {
            return Ok(vec![(points, Err(why))]);
        }
        let (low, high) = points.split_at(points.len() / 2);
        let mut all = self.batches(paths, low)?;
        all.extend(self.batches(paths, high)?);
        Ok(all)
    }

    fn batch(&mut self, paths: &[String], points: &[Vec<AxisPoint>]) -> Result<RunRecord, Failure> {
        let Asking { args, overrides, registry, base, .. } = self.asking;
        let axis = |(index, path): (usize, &String)| Axis {
            name: axis_name(index),
            path: path.clone(),
            values: points.iter().map(|point| point[index].clone()).collect(),
        };
        let axes = paths.iter().enumerate().map(axis).collect();
        let mut sweep = read_along_with(&args.question.scenario, overrides, registry, axes)?;
        if sweep.points.is_empty() {
            let why = sweep.skipped.first().map_or_else(String::new, |(_, why)| why.to_string());
            return Err(Failure::Input(why));
        }
        if let Some(name) = &args.case {
            // What else is compared need not run.
            let points = sweep.points.iter_mut().map(|point| &mut point.scenario);
            for scenario in points.chain([&mut sweep.base]) {
                scenario.cases.retain(|case| case.name() == name);
            }
        }
        // Shapes of other points are seldom asked for again.
        self.traces.keep_only(base);
        let scenarios = sweep.points.iter().map(|point| &point.scenario);
        read_more_traces(&mut self.traces, scenarios.chain([&sweep.base]))?;
        let stamp = sweep_fingerprint(&sweep, |scenario| self.traces.hash(scenario));
        let options = Options { audit: false, bound_curve: false, ..Options::default() };
        let record = run_sweep(&sweep, &self.traces, stamp.clone(), options, &())?;
        self.stamp.get_or_insert(stamp);
        Ok(record)
    }
}

/// The name of the axis of a path.
fn axis_name(index: usize) -> String {
    format!("value {}", index + 1)
}

impl Asking<'_> {
    /// A point at which nothing ran.
    fn refused(&self, why: String) -> Measured {
        let metrics = vec![None; self.metrics.len()];
        let tried = Tried { values: Vec::new(), outcome: Err(why), metrics };
        Measured { tried, slack: vec![None; self.conditions.len()], ran: false }
    }
}

/// Holds cases against conditions.
struct Judge<'j> {
    record: &'j RunRecord,
    asking: &'j Asking<'j>,
    paths: &'j [String],
    point: &'j [AxisPoint],
}

impl Judge<'_> {
    /// What a point came to: the first case that meets all conditions, or why the first does not.
    fn measured(&self) -> Measured {
        let is_here = |params: &[(String, AxisValue)]| {
            // A case that a value does not touch ran once for all.
            let holds = |(index, wanted): (usize, &AxisPoint)| {
                let at = params.iter().find(|(axis, _)| *axis == axis_name(index));
                at.is_none_or(|(_, at)| *at == wanted.value)
            };
            self.point.iter().enumerate().all(holds)
        };
        if let Some((_, why)) = self.record.skipped.iter().find(|(params, _)| is_here(params)) {
            return self.asking.refused(why.to_string());
        }
        let wanted = |case: &&CaseRecord| {
            let name = self.asking.args.case.as_deref();
            name.is_none_or(|name| self.name(case) == name) && is_here(&case.params)
        };
        let mut found = self.asking.refused("no case ran".to_owned());
        for (index, case) in self.record.results.iter().filter(wanted).enumerate() {
            found.ran = true;
            let of = |name: &str| metric(self.record, case, name).ok();
            let metrics: Vec<Option<f64>> = self.asking.metrics.iter().map(|m| of(m)).collect();
            let value =
                |name: &str| case.outcome.figures().and_then(|_| self.value(case, name).ok());
            let conditions = self.asking.conditions.iter();
            let slack = conditions.map(|condition| condition.slack(value)).collect();
            match self.broken(case) {
                None => {
                    let outcome = Ok(self.name(case));
                    let tried = Tried { values: Vec::new(), outcome, metrics };
                    return Measured { tried, slack, ran: true };
                }
                Some(rule) if index == 0 => {
                    found.tried.outcome = Err(format!("{}: {rule}", self.name(case)));
                }
                Some(_) => {}
            }
            if found.tried.metrics.iter().all(Option::is_none) {
                (found.tried.metrics, found.slack) = (metrics, slack);
            }
        }
        found
    }

    /// What a condition calls by a name: a path's value at this point, or else a metric.
    fn value(&self, case: &CaseRecord, name: &str) -> Result<f64, String> {
        let path = in_machine(name);
        match self.paths.iter().position(|known| *known == path).map(|at| &self.point[at].value) {
            Some(AxisValue::Number(value)) => Ok(*value),
            _ => metric(self.record, case, name),
        }
    }

    /// The case's name in the file.
    fn name(&self, case: &CaseRecord) -> String {
        let names = self.asking.base.cases.iter().map(|known| known.label.as_str());
        let mut own = names.filter(|name| labelled(name, &case.params) == case.label);
        own.next().unwrap_or(&case.label).to_owned()
    }

    /// Why a case has no figure of the objective; or the first condition that it does not meet, and
    /// what it has instead.
    fn broken(&self, case: &CaseRecord) -> Option<String> {
        if case.outcome.figures().is_none() {
            return Some("it runs out of memory".to_owned());
        }
        let objective = self.asking.objective().map(|name| metric(self.record, case, name));
        if let Some(Err(lacks)) = objective {
            return Some(lacks);
        }
        for condition in &self.asking.conditions {
            let found = |name: &str| self.value(case, name).ok();
            if condition.holds(found) == Some(true) {
                continue;
            }
            let lacks = condition.names().find_map(|name| self.value(case, name).err());
            return Some(lacks.unwrap_or_else(|| broken_by(condition, found)));
        }
        None
    }
}

/// A condition that is broken, and what its names have, in so many decimals that it is seen.
fn broken_by(condition: &Condition, found: impl Fn(&str) -> Option<f64>) -> String {
    let shown = |name: &str, decimals: usize| Some(format!("{:.decimals$}", found(name)?));
    let as_shown = |name: &str, decimals: usize| shown(name, decimals)?.parse().ok();
    let seen = |&decimals: &usize| condition.holds(|name| as_shown(name, decimals)) == Some(false);
    let decimals = (FEWEST_DECIMALS..MOST_DECIMALS).find(seen).unwrap_or(MOST_DECIMALS);
    let figure = |name: &str| Some(format!("{name} {}", shown(name, decimals)?));
    let figures: Vec<String> = condition.names().filter_map(figure).collect();
    format!("{condition}: {}", figures.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_condition_is_seen_to_be_broken() {
        let said = |text: &str, value: f64| {
            broken_by(&Condition::parse(text).unwrap(), |name| (name == "step").then_some(value))
        };
        assert_eq!(said("step <= 0.2", 0.7), "step <= 0.2: step 0.7000");
        assert_eq!(said("step <= 0.2", 0.200_000_3), "step <= 0.2: step 0.2000003");
        assert_eq!(said("step < 0.2", 0.2), "step < 0.2: step 0.2000");
        assert_eq!(said("2 * step <= 1.5e-6", 9e-7), "2 * step <= 1.5e-6: step 0.000001");
    }
}
