//! What came of running cases on both machines: what must agree, and how well times were predicted.
//!
//! Everything that is printed, written or drawn is a view of these rows and errors, so that table,
//! files and page cannot disagree.

use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Phase;
use tiersim_policies::scenario::Scenario;
use tiersim_validation::grade::{Errors, error, grade, median, spread};
use tiersim_validation::log::Decisions;
use tiersim_validation::real::DeviceMemory;
use tiersim_validation::truth::Truth;

/// A scenario with what came of its cases.
pub(crate) struct Compared {
    pub(crate) scenario: Scenario,
    /// Fingerprint of the resolved scenario.
    pub(crate) stamp: String,
    pub(crate) results: Vec<CaseResult>,
}

/// One run of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) decisions: Decisions,
    pub(crate) moved: Vec<Bytes>,
    /// Lengths of the measured steps.
    pub(crate) steps: Vec<Span>,
    /// Phase, planned and real length of each measured op; the real machine only.
    pub(crate) ops: Vec<(Phase, Span, Span)>,
    /// From ready to running, of each measured op.
    pub(crate) launch: Vec<Span>,
    /// Every copy over one lane, warm-up included; none on a machine that does not time them.
    pub(crate) copies: Vec<CopyTime>,
    /// Commands, and the time that handing them over took.
    pub(crate) submitted: (u64, Span),
    pub(crate) truth: Truth,
    /// Slots made by tier, and how many are locked memory or unbuffered files.
    pub(crate) slots: Vec<(u64, u64)>,
    /// The most bytes of rooms held at once, by tier; none on a machine that does not meter them.
    pub(crate) peak: Vec<Bytes>,
    /// Memory of the device, where there is one.
    pub(crate) device: Option<DeviceMemory>,
}

/// One copy over one lane, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyTime {
    /// Index of the lane.
    pub(crate) lane: usize,
    /// What the lane's law says of its size.
    pub(crate) predicted: Span,
    pub(crate) measured: Span,
}

/// What came of one case.
pub(crate) struct CaseResult {
    pub(crate) label: String,
    pub(crate) policy: String,
    pub(crate) verdict: Verdict,
}

pub(crate) enum Verdict {
    /// The plan ran out of memory, before any machine could differ.
    DoesNotFit(String),
    Ran(Box<Ran>),
}

/// A case that ran.
pub(crate) struct Ran {
    pub(crate) predicted: Measured,
    /// One per run; the delays of use in place, if there are any, are emulated.
    pub(crate) measured: Vec<Measured>,
    /// The same with real use in place instead; none where nothing is used in place.
    pub(crate) real: Vec<Measured>,
    /// Delay of use in place that the laws charge, over the whole run.
    pub(crate) charged: Span,
}

/// How objects outside of HBM were used in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// Not at all.
    None,
    /// Ops last longer by the delay that the laws say.
    Emulated,
    /// Ops reach for the objects where they lie.
    Real,
}

impl InPlace {
    pub(crate) fn word(self) -> &'static str {
        match self {
            InPlace::None => "none",
            InPlace::Emulated => "emulated",
            InPlace::Real => "real",
        }
    }
}

/// A figure predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// `step`, `ops` or `lane`.
    pub(crate) class: &'static str,
    pub(crate) name: String,
    pub(crate) predicted: Span,
    pub(crate) measured: Span,
    pub(crate) spread: f64,
}

impl Row {
    pub(crate) fn error(&self) -> f64 {
        error(self.predicted, self.measured)
    }
}

/// Errors of what.
pub(crate) type Graded = (String, Errors);

impl CaseResult {
    pub(crate) fn ran(&self) -> Option<&Ran> {
        match &self.verdict {
            Verdict::DoesNotFit(_) => None,
            Verdict::Ran(ran) => Some(ran),
        }
    }

    /// What must agree and does not.
    pub(crate) fn failures(&self) -> Vec<String> {
        let Some(ran) = self.ran() else { return Vec::new() };
        let mut failures = Vec::new();
        let emulated = ran.measured.iter().map(|real| ("run", real));
        let real = ran.real.iter().map(|real| ("run with real use in place", real));
        for (number, (kind, real)) in emulated.chain(real).enumerate() {
            let number = number % ran.measured.len().max(1);
            let mut fail =
                |what: String| failures.push(format!("{}, {kind} {number}: {what}", self.label));
            if real.decisions != ran.predicted.decisions {
                fail(format!("decisions {:?}, not {:?}", real.decisions, ran.predicted.decisions));
            }
            if real.moved != ran.predicted.moved {
                fail(format!("bytes per lane {:?}, not {:?}", real.moved, ran.predicted.moved));
            }
            if let Some(first) = real.truth.first.first() {
                fail(format!("{} checks failed, the first: {first}", real.truth.mismatches));
            }
        }
        failures
    }
}

impl Ran {
    /// Is anything used in place?
    pub(crate) fn in_place(&self) -> bool {
        self.charged > Span::ZERO
    }

    /// How the runs of [`Ran::measured`] use objects in place.
    pub(crate) fn mode(&self) -> InPlace {
        if self.in_place() { InPlace::Emulated } else { InPlace::None }
    }

    /// The runs of a mode; none if the case was not run so.
    pub(crate) fn runs(&self, mode: InPlace) -> &[Measured] {
        match mode {
            InPlace::Real => &self.real,
            mode if mode == self.mode() => &self.measured,
            _ => &[],
        }
    }

    /// Modes in which the case was run.
    pub(crate) fn modes(&self) -> impl Iterator<Item = InPlace> + use<> {
        let real = (!self.real.is_empty()).then_some(InPlace::Real);
        std::iter::once(self.mode()).chain(real)
    }

    /// Steps, ops by phase and lanes, predicted and measured.
    pub(crate) fn rows(&self, mode: InPlace, lanes: &[String]) -> Vec<Row> {
        let runs = self.runs(mode);
        let mut rows = Vec::new();
        if runs.is_empty() {
            return rows;
        }
        let mut row = |class, name: String, predicted, figure: &dyn Fn(&Measured) -> Span| {
            let spans: Vec<Span> = runs.iter().map(figure).collect();
            let (measured, spread) = (median(&spans), spread(&spans));
            rows.push(Row { class, name, predicted, measured, spread });
        };
        for (step, &time) in self.predicted.steps.iter().enumerate() {
            row("step", step.to_string(), time, &|run| run.steps[step]);
        }
        for phase in phases(runs) {
            let of = |ops: &[(Phase, Span, Span)], real: bool| -> Span {
                let ops = ops.iter().filter(|(of, ..)| *of == phase);
                ops.map(|&(_, planned, took)| if real { took } else { planned }).sum()
            };
            // With real use in place an op is still predicted to last as long as the laws say.
            let planned = of(&self.measured[0].ops, false);
            row("ops", phase.word().to_owned(), planned, &|run| of(&run.ops, true));
        }
        for (lane, name) in lanes.iter().enumerate() {
            let of = |run: &Measured, figure: fn(&CopyTime) -> Span| -> Span {
                run.copies.iter().filter(|copy| copy.lane == lane).map(figure).sum()
            };
            let predicted = of(&runs[0], |copy| copy.predicted);
            if predicted > Span::ZERO {
                row("lane", name.clone(), predicted, &|run| of(run, |copy| copy.measured));
            }
        }
        rows
    }

    /// Errors of steps, of single ops by phase, and of single copies by lane.
    pub(crate) fn errors(&self, mode: InPlace, lanes: &[String]) -> Vec<Graded> {
        let runs = self.runs(mode);
        let mut errors = vec![("steps".to_owned(), grade(self.step_pairs(mode)))];
        for phase in phases(runs) {
            errors.push((format!("{} ops", phase.word()), grade(self.op_pairs(mode, Some(phase)))));
        }
        for (lane, name) in lanes.iter().enumerate() {
            let graded = grade(self.copy_pairs(mode, Some(lane)));
            if graded.count > 0 {
                errors.push((format!("copies {name}"), graded));
            }
        }
        errors
    }

    /// The most bytes of rooms held at once: by the simulator, and by the real machine in any run
    /// if it meters them.
    pub(crate) fn peaks(&self) -> Vec<(Bytes, Option<Bytes>)> {
        let measured =
            |tier: usize| self.measured.iter().filter_map(|run| run.peak.get(tier).copied()).max();
        let tiers = self.predicted.peak.iter().enumerate();
        tiers.map(|(tier, &predicted)| (predicted, measured(tier))).collect()
    }

    /// Memory of the device in the run that used most of it.
    pub(crate) fn device(&self) -> Option<DeviceMemory> {
        let runs = self.measured.iter().filter_map(|run| run.device);
        runs.max_by_key(|memory| memory.peak)
    }

    /// Predicted and measured steps; measured is the median of the runs.
    pub(crate) fn step_pairs(&self, mode: InPlace) -> Vec<(Span, Span)> {
        let runs = self.runs(mode);
        if runs.is_empty() {
            return Vec::new();
        }
        let measured = |step: usize| -> Span {
            median(&runs.iter().map(|run| run.steps[step]).collect::<Vec<_>>())
        };
        let steps = self.predicted.steps.iter().enumerate();
        steps.map(|(step, &predicted)| (predicted, measured(step))).collect()
    }

    /// Run-to-run spread of every step.
    pub(crate) fn step_spreads(&self, mode: InPlace) -> Vec<f64> {
        let runs = self.runs(mode);
        let of = |step| spread(&runs.iter().map(|run| run.steps[step]).collect::<Vec<_>>());
        (0..self.predicted.steps.len()).map(of).collect()
    }

    fn op_pairs(&self, mode: InPlace, phase: Option<Phase>) -> Vec<(Span, Span)> {
        let planned = &self.measured[0].ops;
        let ops = self.runs(mode).iter().flat_map(|run| run.ops.iter().zip(planned));
        let ops = ops.filter(|((of, ..), _)| phase.is_none_or(|phase| *of == phase));
        ops.map(|(&(_, _, took), &(_, planned, _))| (planned, took)).collect()
    }

    fn copy_pairs(&self, mode: InPlace, lane: Option<usize>) -> Vec<(Span, Span)> {
        let copies = self.runs(mode).iter().flat_map(|run| &run.copies);
        let copies = copies.filter(|copy| lane.is_none_or(|lane| copy.lane == lane));
        copies.map(|copy| (copy.predicted, copy.measured)).collect()
    }
}

impl Compared {
    /// Names of the lanes, by index.
    pub(crate) fn lanes(&self) -> Vec<String> {
        let hardware = &self.scenario.hardware;
        hardware.lanes().map(|lane| hardware.lane_name(lane)).collect()
    }

    pub(crate) fn ran(&self) -> impl Iterator<Item = (&CaseResult, &Ran)> {
        self.results.iter().filter_map(|result| Some((result, result.ran()?)))
    }
}

/// Errors over all cases: of steps, of steps with real use in place, of single ops and copies.
pub(crate) fn overall(compared: &[Compared]) -> Vec<Graded> {
    let ran = || compared.iter().flat_map(Compared::ran).map(|(_, ran)| ran);
    let of = |pairs: &dyn Fn(&Ran) -> Vec<(Span, Span)>| grade(ran().flat_map(pairs));
    let all = [
        ("steps", of(&|ran| ran.step_pairs(ran.mode()))),
        ("steps with real use in place", of(&|ran| ran.step_pairs(InPlace::Real))),
        ("ops", of(&|ran| ran.op_pairs(ran.mode(), None))),
        ("copies", of(&|ran| ran.copy_pairs(ran.mode(), None))),
    ];
    let graded = all.into_iter().filter(|(_, errors)| errors.count > 0);
    graded.map(|(what, errors)| (what.to_owned(), errors)).collect()
}

/// Median and largest run-to-run spread of all steps, as measured for [`overall`]'s first line;
/// one run has none.
pub(crate) fn overall_spread(compared: &[Compared]) -> Option<(f64, f64)> {
    let ran = compared.iter().flat_map(Compared::ran);
    let ran = ran.filter(|(_, ran)| ran.measured.len() > 1);
    let mut spreads: Vec<f64> = ran.flat_map(|(_, ran)| ran.step_spreads(ran.mode())).collect();
    spreads.sort_by(f64::total_cmp);
    Some((*spreads.get(spreads.len().saturating_sub(1) / 2)?, *spreads.last()?))
}

/// Phases of the measured ops, in the order of their first op.
fn phases(runs: &[Measured]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for &(phase, ..) in runs.iter().flat_map(|run| &run.ops) {
        if !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    phases
}

/// Mean time to hand a command over, in microseconds.
pub(crate) fn submit_us(measured: &[Measured]) -> f64 {
    let commands: u64 = measured.iter().map(|run| run.submitted.0).sum();
    let spent: Span = measured.iter().map(|run| run.submitted.1).sum();
    spent.as_ms() * 1e3 / commands.max(1) as f64
}

/// Median time from ready to running, in microseconds.
pub(crate) fn launch_us(measured: &[Measured]) -> f64 {
    let launches: Vec<Span> = measured.iter().flat_map(|run| run.launch.iter().copied()).collect();
    median(&launches).as_ms() * 1e3
}

#[cfg(test)]
#[path = "grade/tests.rs"]
mod tests;
