//! Plans that ran on the simulated and on a real machine: what must agree, and how well times were
//! predicted.
//!
//! Everything that is printed, written or drawn is a view of these rows and errors, so that table,
//! files and page cannot disagree. An error is a share of what was measured.

use crate::hardware::Hardware;
use crate::units::{Bytes, Span};
use crate::workload::Phase;
use std::sync::Arc;

/// A scenario with what came of its cases.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The scenario's name.
    pub scenario: String,
    /// The question that it answers.
    pub about: String,
    /// Fingerprint of the resolved scenario.
    pub fingerprint: String,
    /// Seed of every draw.
    pub seed: u64,
    /// The machine that predicted, with the numbers that it predicts from.
    pub hardware: Arc<Hardware>,
    /// One per case, in the scenario's order.
    pub results: Vec<CaseResult>,
}

/// One run of a case.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What every op and every copy does.
    pub decisions: Decisions,
    /// Bytes copied, by channel.
    pub moved: Vec<Bytes>,
    /// Lengths of the measured steps.
    pub steps: Vec<Span>,
    /// Phase, planned and real length of each measured op; the real machine only.
    pub ops: Vec<(Phase, Span, Span)>,
    /// From ready to running, of each measured op.
    pub launch: Vec<Span>,
    /// Every copy over one channel, warm-up included; none on a machine that does not time them.
    pub copies: Vec<CopyTime>,
    /// Commands, and the time that handing them over took.
    pub submitted: (u64, Span),
    /// Checks of contents.
    pub checks: u64,
    /// Checks that failed.
    pub mismatches: u64,
    /// The first of these in words.
    pub first_mismatch: Option<String>,
    /// Slots made by tier, and how many are locked memory or unbuffered files.
    pub slots: Vec<(u64, u64)>,
    /// The most bytes of rooms held at once, by tier; none on a machine that does not meter them.
    pub peak: Vec<Bytes>,
    /// Memory of the device, where there is one.
    pub device: Option<DeviceMemory>,
}

/// One copy over one channel, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTime {
    /// Index of the channel.
    pub channel: usize,
    /// What the channel's law says of its size.
    pub predicted: Span,
    /// From its start to its end.
    pub measured: Span,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case's label.
    pub label: String,
    /// The policy's name.
    pub policy: String,
    /// Whether it ran, and what came of that.
    pub verdict: Verdict,
}

/// Whether a case ran.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The plan ran out of memory, before any machine could differ.
    DoesNotFit(String),
    /// Both machines ran it to its end.
    Ran(Box<Ran>),
}

/// A case that ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// By the simulator.
    pub predicted: Measured,
    /// One per run; the delays of use in place, if there are any, are emulated.
    pub measured: Vec<Measured>,
    /// The same with real use in place instead; none where nothing is used in place.
    pub real: Vec<Measured>,
    /// Delay of use in place that the laws charge, over the whole run.
    pub charged: Span,
}

crate::words! {
    /// How objects outside of HBM were used in place.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum InPlace {
        /// Not at all.
        None = "none",
        /// Ops last longer by the delay that the laws say.
        Emulated = "emulated",
        /// Ops reach for the objects where they lie.
        Real = "real",
    }
}

/// A figure predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `step`, `ops` or `channel`.
    pub class: &'static str,
    /// Number of the step, phase of the ops or name of the channel.
    pub name: String,
    /// By the simulator and the laws.
    pub predicted: Span,
    /// Median of the runs.
    pub measured: Span,
    /// Run-to-run spread.
    pub spread: f64,
}

impl Row {
    /// (predicted - measured) / measured.
    pub fn error(&self) -> f64 {
        error(self.predicted, self.measured)
    }
}

/// Errors of what.
pub type Graded = (String, Errors);

impl CaseResult {
    /// Both runs, if it fits.
    pub fn ran(&self) -> Option<&Ran> {
        match &self.verdict {
            Verdict::DoesNotFit(_) => None,
            Verdict::Ran(ran) => Some(ran),
        }
    }

    /// What must agree and does not.
    pub fn failures(&self) -> Vec<String> {
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
                fail(format!("bytes per channel {:?}, not {:?}", real.moved, ran.predicted.moved));
            }
            if let Some(first) = &real.first_mismatch {
                fail(format!("{} checks failed, the first: {first}", real.mismatches));
            }
        }
        failures
    }
}

impl Ran {
    /// Is anything used in place?
    pub fn in_place(&self) -> bool {
        self.charged > Span::ZERO
    }

    /// How the runs of [`Ran::measured`] use objects in place.
    pub fn mode(&self) -> InPlace {
        if self.in_place() { InPlace::Emulated } else { InPlace::None }
    }

    /// The runs of a mode; none if the case was not run so.
    pub fn runs(&self, mode: InPlace) -> &[Measured] {
        match mode {
            InPlace::Real => &self.real,
            mode if mode == self.mode() => &self.measured,
            _ => &[],
        }
    }

    /// Modes in which the case was run.
    pub fn modes(&self) -> impl Iterator<Item = InPlace> + use<> {
        let real = (!self.real.is_empty()).then_some(InPlace::Real);
        std::iter::once(self.mode()).chain(real)
    }

    /// Steps, ops by phase and channels, predicted and measured.
    pub fn rows(&self, mode: InPlace, channels: &[String]) -> Vec<Row> {
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
        for (channel, name) in channels.iter().enumerate() {
            let of = |run: &Measured, figure: fn(&CopyTime) -> Span| -> Span {
                run.copies.iter().filter(|copy| copy.channel == channel).map(figure).sum()
            };
            let predicted = of(&runs[0], |copy| copy.predicted);
            if predicted > Span::ZERO {
                row("lane", name.clone(), predicted, &|run| of(run, |copy| copy.measured));
            }
        }
        rows
    }

    /// Errors of steps, of single ops by phase, and of single copies by channel.
    pub fn errors(&self, mode: InPlace, channels: &[String]) -> Vec<Graded> {
        let runs = self.runs(mode);
        let mut errors = vec![("steps".to_owned(), grade(self.step_pairs(mode)))];
        for phase in phases(runs) {
            errors.push((format!("{} ops", phase.word()), grade(self.op_pairs(mode, Some(phase)))));
        }
        for (channel, name) in channels.iter().enumerate() {
            let graded = grade(self.copy_pairs(mode, Some(channel)));
            if graded.count > 0 {
                errors.push((format!("copies {name}"), graded));
            }
        }
        errors
    }

    /// The most bytes of rooms held at once: by the simulator, and by the real machine in any run
    /// if it meters them.
    pub fn peaks(&self) -> Vec<(Bytes, Option<Bytes>)> {
        let measured =
            |tier: usize| self.measured.iter().filter_map(|run| run.peak.get(tier).copied()).max();
        let tiers = self.predicted.peak.iter().enumerate();
        tiers.map(|(tier, &predicted)| (predicted, measured(tier))).collect()
    }

    /// Memory of the device in the run that used most of it.
    pub fn device(&self) -> Option<DeviceMemory> {
        let runs = self.measured.iter().filter_map(|run| run.device);
        runs.max_by_key(|memory| memory.peak)
    }

    /// Predicted and measured steps; measured is the median of the runs.
    pub fn step_pairs(&self, mode: InPlace) -> Vec<(Span, Span)> {
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
    pub fn step_spreads(&self, mode: InPlace) -> Vec<f64> {
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

    fn copy_pairs(&self, mode: InPlace, channel: Option<usize>) -> Vec<(Span, Span)> {
        let copies = self.runs(mode).iter().flat_map(|run| &run.copies);
        let copies = copies.filter(|copy| channel.is_none_or(|channel| copy.channel == channel));
        copies.map(|copy| (copy.predicted, copy.measured)).collect()
    }
}

impl Compared {
    /// Names of the channels, by index.
    pub fn channels(&self) -> Vec<String> {
        self.hardware.channels().map(|channel| self.hardware.channel_name(channel)).collect()
    }

    /// The cases that fit.
    pub fn ran(&self) -> impl Iterator<Item = (&CaseResult, &Ran)> {
        self.results.iter().filter_map(|result| Some((result, result.ran()?)))
    }
}

/// Errors over all cases: of steps, of steps with real use in place, of single ops and copies.
pub fn overall(compared: &[Compared]) -> Vec<Graded> {
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
pub fn overall_spread(compared: &[Compared]) -> Option<(f64, f64)> {
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
pub fn submit_us(measured: &[Measured]) -> f64 {
    let commands: u64 = measured.iter().map(|run| run.submitted.0).sum();
    let spent: Span = measured.iter().map(|run| run.submitted.1).sum();
    spent.as_ms() * 1e3 / commands.max(1) as f64
}

/// Median time from ready to running, in microseconds.
pub fn launch_us(measured: &[Measured]) -> f64 {
    let launches: Vec<Span> = measured.iter().flat_map(|run| run.launch.iter().copied()).collect();
    median(&launches).as_ms() * 1e3
}

/// Decisions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// FNV-1a of work and claims, in order.
    pub hash: u64,
    /// Sum of the hashes of rooms given back, each with the number of ops before it.
    pub frees: u64,
    /// Ops.
    pub ops: u64,
    /// Copies.
    pub copies: u64,
}

/// Memory of a device, by its driver and by the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The most that the driver saw in use, less what was in use before the run.
    pub peak: Bytes,
    /// The most that the plan's rooms in the device's tier came to.
    pub rooms: Bytes,
}

/// Sizes of relative errors, sorted away: |predicted - measured| / measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// How many pairs.
    pub count: usize,
    /// Half of them are smaller.
    pub median: f64,
    /// 95 % of them are not larger (nearest rank).
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

/// Grades pairs of (predicted, measured). Pairs measured as zero count as 0 if predicted so too,
/// else as 1.
pub fn grade(pairs: impl IntoIterator<Item = (Span, Span)>) -> Errors {
    let mut errors: Vec<f64> = pairs.into_iter().map(|(p, m)| error(p, m).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let Some(&max) = errors.last() else { return Errors::default() };
    let rank = |percent: usize| errors[(errors.len() * percent).div_ceil(100).max(1) - 1];
    Errors { count: errors.len(), median: rank(50), p95: rank(95), max }
}

/// (predicted - measured) / measured.
pub fn error(predicted: Span, measured: Span) -> f64 {
    if measured == Span::ZERO {
        return if predicted == Span::ZERO { 0.0 } else { 1.0 };
    }
    (predicted.ps() as f64 - measured.ps() as f64) / measured.ps() as f64
}

/// The middle one of several runs' figures; the lower of the two middle ones of an even number.
pub fn median(spans: &[Span]) -> Span {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(Span::ZERO)
}

/// Run-to-run spread: (longest - shortest) / median.
pub fn spread(spans: &[Span]) -> f64 {
    let (Some(min), Some(max)) = (spans.iter().min(), spans.iter().max()) else { return 0.0 };
    (max.ps() - min.ps()) as f64 / (median(spans).ps() as f64).max(1.0)
}

#[cfg(test)]
#[path = "comparison/tests.rs"]
mod tests;
