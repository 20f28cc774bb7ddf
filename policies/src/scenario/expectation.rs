//! What must hold after a run: a case runs to its end or not, one is faster than another, or a
//! metric of a case lies within bounds.
//!
//! [`METRICS`] is the one table of metrics. Readers take from it how a metric is spelled, the unit
//! of its bounds and what else is chosen; [`Metric::read`] takes the figure off the record of a
//! run.

use std::fmt::{Display, Formatter};
use tiersim_models::hardware::Channel;
use tiersim_models::ids::TierId;
use tiersim_models::results::long_run::Extended;
use tiersim_models::results::memory_use::{MemoryUse, Share};
use tiersim_models::results::pressure::Level;
use tiersim_models::results::served::{RequestFigures, ServingFigures};
use tiersim_models::results::{CaseRecord, Figures, PressureRecord, RunRecord};
use tiersim_models::units::{Bytes, Span};

/// What must hold after the run. Cases are named by index into [`super::Scenario::cases`].
#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    /// The case runs to its end.
    Fits(usize),
    /// The case runs out of memory.
    OutOfMemory(usize),
    /// One case has a shorter mean step than another.
    Faster {
        /// The faster case.
        case: usize,
        /// The slower case.
        than: usize,
    },
    /// A metric lies within bounds, of which there is at least one.
    Within {
        /// What is compared.
        metric: Metric,
        /// Of which case.
        case: usize,
        /// Lower bound, in the metric's unit.
        at_least: Option<Figure>,
        /// Upper bound, in the metric's unit.
        at_most: Option<Figure>,
    },
}

/// What is read off a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Mean step time.
    StepTime,
    /// Mean step time over the baseline's.
    Slowdown,
    /// Mean step of the long run that the case is the beginning of.
    LongStep,
    /// Half of the interval of that, as a share of it.
    LongError,
    /// Mean latency of requests, from arrival to the last token.
    Latency,
    /// Mean time to the first token.
    Ttft,
    /// Mean time per token behind the first.
    Tpot,
    /// Bytes copied over one direction of a link per measured step.
    Moved(Channel),
    /// External fragmentation of a tier over the run, 0 to 1.
    Fragmentation(TierId, Over),
    /// Total fragmentation of a tier over the run, 0 to 1.
    TotalFragmentation(TierId, Over),
    /// The highest level of pressure of the run.
    Pressure,
    /// The smallest micro-batch of any step.
    MicroBatch,
    /// Most bytes ever held in a tier.
    Peak(TierId),
}

/// Which figure of a share that varies over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The mean over ops.
    Mean,
    /// The highest after any op.
    Highest,
    /// After the last op.
    End,
}

impl Over {
    fn of(self, share: Share) -> f64 {
        match self {
            Over::Mean => share.mean,
            Over::Highest => share.highest,
            Over::End => share.end,
        }
    }
}

/// A figure of a run or a bound of one. Those of one metric are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Figure {
    /// A time.
    Time(Span),
    /// A size.
    Size(Bytes),
    /// A number without a unit.
    Number(f64),
    /// A whole number.
    Count(u32),
    /// A level of memory pressure.
    Level(Level),
}

/// How the bounds of a metric are written.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Times.
    Time,
    /// Sizes.
    Size,
    /// Numbers from 0 to `most`.
    Number {
        /// What one is, with its article.
        what: &'static str,
        /// The largest.
        most: f64,
    },
    /// Whole numbers.
    Count,
    /// Words for levels of memory pressure.
    Level,
}

/// What a metric needs to know beside the case.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// Nothing.
    Nothing(Metric),
    /// One direction of a link.
    Channel(fn(Channel) -> Metric),
    /// A tier.
    Tier(fn(TierId) -> Metric),
    /// A tier, and which figure of the run.
    TierOver(fn(TierId, Over) -> Metric),
}

/// Every metric: how it is spelled, its unit, and what is chosen.
pub const METRICS: [(&str, Unit, Choice); 13] = [
    ("step_time", Unit::Time, Choice::Nothing(Metric::StepTime)),
    ("slowdown", SLOWDOWN, Choice::Nothing(Metric::Slowdown)),
    ("long_step", Unit::Time, Choice::Nothing(Metric::LongStep)),
    ("long_error", SHARE, Choice::Nothing(Metric::LongError)),
    ("latency", Unit::Time, Choice::Nothing(Metric::Latency)),
    ("ttft", Unit::Time, Choice::Nothing(Metric::Ttft)),
    ("tpot", Unit::Time, Choice::Nothing(Metric::Tpot)),
    ("moved", Unit::Size, Choice::Channel(Metric::Moved)),
    ("fragmentation", SHARE, Choice::TierOver(Metric::Fragmentation)),
    ("total_fragmentation", SHARE, Choice::TierOver(Metric::TotalFragmentation)),
    ("pressure", Unit::Level, Choice::Nothing(Metric::Pressure)),
    ("micro_batch", Unit::Count, Choice::Nothing(Metric::MicroBatch)),
    ("peak", Unit::Size, Choice::Tier(Metric::Peak)),
];

const SLOWDOWN: Unit = Unit::Number { what: "a slowdown", most: 1e9 };
const SHARE: Unit = Unit::Number { what: "a share", most: 1.0 };

impl Expectation {
    /// The same of cases that stand so much later.
    pub fn shifted(&self, by: usize) -> Expectation {
        let mut shifted = self.clone();
        match &mut shifted {
            Expectation::Fits(case) | Expectation::OutOfMemory(case) => *case += by,
            Expectation::Faster { case, than } => (*case, *than) = (*case + by, *than + by),
            Expectation::Within { case, .. } => *case += by,
        }
        shifted
    }
}

impl Metric {
    /// The metric in words and what it was for one case of a run, or why there is no figure.
    pub fn read(self, run: &RunRecord, case: &CaseRecord) -> Result<(String, Figure), String> {
        let tier = |tier: TierId| &run.of(case).tiers[tier.index()].0;
        let named = |words: &str, figure| (words.to_owned(), figure);
        Ok(match self {
            Metric::StepTime => named("mean step", Figure::Time(figures(case)?.mean_step())),
            Metric::Slowdown if figures(case)?.serving.is_some() => {
                return Err(format!(
                    "{:?} serves requests, whose steps are iterations of the server, and has no \
                     slowdown: write `latency`, or `faster`",
                    case.label
                ));
            }
            Metric::Slowdown => {
                named("slowdown", Figure::Number(figures(case)?.slowdown(case.baseline_step)))
            }
            Metric::LongStep => {
                let mean = Span::from_ps(long_run(case)?.mean.round() as u64);
                named("mean step of the long run", Figure::Time(mean))
            }
            Metric::LongError => {
                named("error of the long run", Figure::Number(long_run(case)?.share()))
            }
            Metric::Latency => {
                let mean = serving(case)?.mean(|request| Some(request.latency));
                named("mean latency of requests", Figure::Time(mean))
            }
            Metric::Ttft => {
                let mean = serving(case)?.mean(|request| Some(request.first_token));
                named("mean TTFT", Figure::Time(mean))
            }
            Metric::Tpot => {
                let mean = serving(case)?.mean(RequestFigures::per_token);
                named("mean TPOT", Figure::Time(mean))
            }
            Metric::Moved(channel) => {
                let moved = figures(case)?.moved_per_step(channel.index());
                let ends = &run.of(case).channels[channel.index()].ends;
                (format!("bytes moved per step over {ends}"), Figure::Size(moved))
            }
            Metric::Fragmentation(of, over) => {
                let share = over.of(memory(case, of, tier(of))?.external);
                (format!("fragmentation of {}", tier(of)), Figure::Number(share))
            }
            Metric::TotalFragmentation(of, over) => {
                let share = over.of(memory(case, of, tier(of))?.total);
                (format!("total fragmentation of {}", tier(of)), Figure::Number(share))
            }
            Metric::Pressure => {
                named("highest level of pressure", Figure::Level(pressure(case)?.log.highest))
            }
            Metric::MicroBatch => {
                let smallest = pressure(case)?.smallest_micro_batch();
                let none = || format!("{:?} has no micro-batches", case.label);
                named("smallest micro-batch", Figure::Count(smallest.ok_or_else(none)?))
            }
            Metric::Peak(of) => {
                (format!("peak of {}", tier(of)), Figure::Size(figures(case)?.peak[of.index()]))
            }
        })
    }
}

/// The figures of a case, or that it has none.
pub fn figures(case: &CaseRecord) -> Result<&Figures, String> {
    let figures = case.outcome.figures();
    figures.ok_or_else(|| format!("{:?} ran out of memory and has no figures", case.label))
}

/// What is stated of the long run of a case, or why nothing is.
fn long_run(case: &CaseRecord) -> Result<&Extended, String> {
    let none = || format!("{:?} is the beginning of no long run: write `horizon`", case.label);
    let answer = &case.long_run.as_ref().ok_or_else(none)?.answer;
    answer.as_ref().map_err(|why| format!("{:?} is not extended: {why}", case.label))
}

/// How a tier's memory was used, which `name` says in the message if nothing knows it.
fn memory<'a>(case: &'a CaseRecord, tier: TierId, name: &str) -> Result<&'a MemoryUse, String> {
    figures(case)?.memory_of(tier.index()).ok_or_else(|| {
        format!("{:?}: the allocator of {name} is exact and fragments nothing", case.label)
    })
}

fn serving(case: &CaseRecord) -> Result<&ServingFigures, String> {
    let serving = figures(case)?.serving.as_deref();
    serving.ok_or_else(|| format!("{:?} serves no requests", case.label))
}

fn pressure(case: &CaseRecord) -> Result<&PressureRecord, String> {
    let pressure = case.pressure.as_deref();
    pressure.ok_or_else(|| format!("{:?} does not say `pressure`, so none was watched", case.label))
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Figure::Time(span) => span.fmt(f),
            Figure::Size(bytes) => bytes.fmt(f),
            Figure::Number(number) => number.fmt(f),
            Figure::Count(count) => count.fmt(f),
            Figure::Level(level) => f.write_str(level.word()),
        }
    }
}
