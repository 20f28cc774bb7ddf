//! A scenario, resolved: no name to look up, no unit to convert, no invalid state.
//!
//! This says what a scenario *means*; the readers turn files into it, and runs answer it.

pub mod expectation;
pub mod hypercube;
pub mod sweep;
pub mod traces;
pub mod weights;

use crate::numa::NumaConfig;
use crate::pressure::PressureConfig;
use crate::recipe::PolicyConfig;
use expectation::Expectation;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use tiersim_models::allocator::AllocatorSpec;
use tiersim_models::compression::Choice;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{Compute, Hardware};
use tiersim_models::hidden::Hidden;
pub use tiersim_models::results::{AxisValue, Params};
use tiersim_models::runtime::Runtime;
use tiersim_models::statistics::Stated;
use tiersim_models::units::{Bytes, Time};
use tiersim_models::workload::Gaps;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::serving::Serving;
use tiersim_workloads::transformer::training::TrainingRun;

/// Everything that one run needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called, asks and expects; shared by the points of a sweep.
    pub said: Arc<Said>,
    /// The machine, with the scenario's overrides applied; shared by the points of a sweep.
    pub hardware: Arc<Hardware>,
    /// What runs on it; shared by the points of a sweep, too.
    pub workload: Arc<WorkloadSpec>,
    /// What is compared, in order.
    pub cases: Vec<Case>,
    /// Seed of every draw.
    pub seed: u64,
    /// What should be looked at in the files that it names.
    pub warnings: Vec<Warning>,
}

impl Deref for Scenario {
    type Target = Said;

    fn deref(&self) -> &Said {
        &self.said
    }
}

impl DerefMut for Scenario {
    /// From then on no other point shares it.
    fn deref_mut(&mut self) -> &mut Said {
        Arc::make_mut(&mut self.said)
    }
}

/// What a scenario says beside what it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The file's name without `.ron`.
    pub name: String,
    /// What question it answers.
    pub about: String,
    /// What must hold after the run.
    pub expect: Vec<Expectation>,
}

/// Which trace, how often, and how long its ops take.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Where the trace comes from.
    pub trace: TraceSource,
    /// How many times the recorded steps are replayed.
    pub repeat: u32,
    /// How many replays at the start are left out of the figures.
    pub warmup: u32,
    /// Replays of the long run that this is the beginning of, its warm-up included; `None` where it
    /// stands for itself.
    pub horizon: Option<u64>,
    /// Where op durations come from.
    pub time: OpTime,
    /// Relative standard deviation of op durations (log-normal, mean 1); 0 for none.
    pub jitter: f64,
    /// Devices of the server that run the trace together, each as a rank of its own.
    pub ranks: u32,
    /// Where the statistics of a generated trace come from.
    pub statistics: Stated,
}

impl WorkloadSpec {
    /// In one word where the statistics come from: those of a folder are recorded.
    pub fn statistics_word(&self) -> &'static str {
        match self.trace {
            TraceSource::Folder(_) | TraceSource::Recording { .. } => "recorded",
            _ => self.statistics.word(),
        }
    }
}

/// Where a trace comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceSource {
    /// A folder.
    Folder(PathBuf),
    /// A file that another program recorded.
    Recording {
        /// Which.
        file: PathBuf,
        /// What becomes of the time in which the device waited for its host.
        gaps: Gaps,
    },
    /// Several steps of training, which have no problems.
    Training(TrainingRun),
    /// Made from a model and what is done with it, which has no problems.
    Model(Work),
    /// Requests that a model serves.
    Serving(Box<ServingSource>),
}

impl TraceSource {
    /// Whether somebody recorded it: it is read, and not made.
    pub fn is_recorded(&self) -> bool {
        matches!(self, TraceSource::Folder(_) | TraceSource::Recording { .. })
    }

    /// What messages about the trace name in the place of a file.
    pub fn place(&self) -> PathBuf {
        match self {
            TraceSource::Folder(path) | TraceSource::Recording { file: path, .. } => path.clone(),
            TraceSource::Training(_) | TraceSource::Model(_) => {
                PathBuf::from("workload Model(...)")
            }
            TraceSource::Serving(source) => source.requests.clone(),
        }
    }
}

/// Requests that a model serves on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServingSource {
    /// The trace of requests.
    pub requests: PathBuf,
    /// Only so many of them, the first ones.
    pub first: Option<u64>,
    /// Only those that arrive before.
    pub until: Option<Time>,
    /// How they are served.
    pub serving: Serving,
    /// What estimates iterations: a device, and which of its peaks.
    pub device: Option<(Compute, String)>,
}

/// Where op durations come from.
#[derive(Clone, Debug, PartialEq)]
pub enum OpTime {
    /// [`Compute::time`]: by the device's op times where it has them, by its roofline elsewhere.
    Priced {
        /// The device.
        compute: Compute,
        /// Which of its peaks.
        precision: String,
    },
    /// The recorded duration times a factor.
    Recorded {
        /// 1.0 for the recording device itself.
        scale: f64,
    },
}

/// One policy under one memory budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Unique label in tables and charts.
    pub label: String,
    /// The policy.
    pub policy: PolicyConfig,
    /// Values of the sweep's axes at this point, for tables.
    pub params: Params,
    /// Under what it runs; shared by the points of a sweep.
    pub terms: Arc<Terms>,
}

impl Deref for Case {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for Case {
    /// From then on no other point shares them.
    fn deref_mut(&mut self) -> &mut Terms {
        Arc::make_mut(&mut self.terms)
    }
}

/// Under what a policy runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// How much HBM it may use.
    pub hbm: Budget,
    /// The allocator of each tier; empty if all are exact.
    pub allocators: Vec<AllocatorSpec>,
    /// Which node of DRAM objects go to.
    pub numa: NumaConfig,
    /// What the scenario and the case say of memory that no object can have, instead of what the
    /// machine says of the same kind and tier.
    pub hidden: Vec<Hidden>,
    /// Objects larger than this are placed and moved in pieces of this size.
    pub chunk: Option<Bytes>,
    /// Most samples of a micro-batch, if not the workload's.
    pub micro_batch: Option<u32>,
    /// The tier that is watched, and what is done when it runs full.
    pub pressure: Option<PressureConfig>,
    /// What a framework adds to its run.
    pub runtime: Runtime,
    /// The formats in which its tiers store objects.
    pub compress: Choice,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            hbm: Budget::Hardware,
            allocators: Vec::new(),
            hidden: Vec::new(),
            numa: NumaConfig::default(),
            chunk: None,
            micro_batch: None,
            pressure: None,
            runtime: Runtime::default(),
            compress: Choice::default(),
        }
    }
}

impl Case {
    /// Its name in the file, which is its label without the point of a sweep.
    pub fn name(&self) -> &str {
        self.label.strip_suffix(&point_words(&self.params)).unwrap_or(&self.label)
    }
}

/// A case's name with the point it belongs to: `adam [hbm=0.3, access=in place]`.
pub fn labelled(name: &str, params: &[(String, AxisValue)]) -> String {
    format!("{name}{}", point_words(params))
}

fn point_words(params: &[(String, AxisValue)]) -> String {
    if params.is_empty() {
        return String::new();
    }
    let (machine, others): (Vec<_>, Vec<_>) =
        params.iter().partition(|(axis, _)| axis == sweep::MACHINE);
    let on: String = machine.iter().map(|(_, machine)| format!(" on {machine}")).collect();
    let words: Vec<String> = others.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if words.is_empty() { on } else { format!("{on} [{}]", words.join(", ")) }
}

/// How much HBM a case may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// What the hardware has.
    Hardware,
    /// So many bytes.
    Bytes(Bytes),
    /// This share of what the workload needs when everything is in HBM.
    ShareOfPeak(f64),
}
