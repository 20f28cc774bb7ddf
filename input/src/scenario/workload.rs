//! From what a scenario says about its workload to a [`WorkloadSpec`].
//!
//! A trace is named by its folder, or generated from a model; how often it runs and how
//! long its ops take is said alike for all.

use crate::file_kind::FileKind;
use crate::scenario::machines;
use crate::scenario::raw::work::RawWork;
use crate::scenario::raw::{RawTime, RawWorkload};
use crate::scenario::resolver::Resolver;
use crate::scenario::{OpTime, TraceSource, WorkloadSpec};
use crate::shipped;
use std::path::Path;
use std::sync::Arc;
use tiersim_models::hardware::{Compute, Hardware};
use tiersim_models::op_times::{AttentionKernel, OpTimes};
use tiersim_models::workload::Gaps;

/// Most replays of a trace: a million hours of a step of several seconds, or hours of many short
/// ones.
const MAX_REPEAT: u32 = 1_000_000_000;
/// Most replays that cannot be the same: every step is simulated and kept.
const MAX_DRAWN: u32 = 1_000_000;
/// Most replays of a long run, and most that are a sample of one: their lines are kept.
const MAX_HORIZON: u64 = 1_000_000_000_000;
const MAX_SAMPLE: u32 = 100_000;

impl Resolver<'_, '_> {
    /// The workload, and the machine whose device computes if that is another one.
    pub(crate) fn workload(
        &mut self,
        raw: &RawWorkload,
        hardware: Option<&Arc<Hardware>>,
    ) -> Option<(WorkloadSpec, Option<Arc<Hardware>>)> {
        let (time, repeat, warmup, jitter, horizon) = match raw {
            RawWorkload::Trace(raw) => (&raw.time, raw.repeat, raw.warmup, raw.jitter, raw.horizon),
            RawWorkload::Model(raw) => (&raw.time, raw.repeat, raw.warmup, raw.jitter, raw.horizon),
        };
        let trace = match raw {
            RawWorkload::Trace(raw) => {
                let ranks = self.ranks(raw.ranks, hardware);
                self.recorded(&raw.path, raw.gaps).zip(ranks)
            }
            RawWorkload::Model(raw) => self.modelled(raw, hardware),
        };
        let serves = matches!(trace, Some((TraceSource::Serving(_), _)));
        let repeat = repeat.unwrap_or(if serves { 1 } else { 3 });
        if serves && repeat != 1 {
            let rule = "requests arrive once";
            self.check.fault("workload.repeat", rule, "write 1, or leave it out");
        } else if !(1..=MAX_REPEAT).contains(&repeat) {
            let rule = format!("`repeat` must lie between 1 and {MAX_REPEAT}");
            self.check.fault("workload.repeat", rule, "write how often the steps are replayed");
        }
        let warmup = warmup.unwrap_or(1.min(repeat.saturating_sub(1)));
        if warmup >= repeat {
            let rule = format!("`warmup` must be below `repeat`, which is {repeat}");
            self.check.fault("workload.warmup", rule, "leave at least one replay to measure");
        }
        self.horizon(horizon, repeat, serves);
        let jitter = jitter.unwrap_or(0.0);
        let jitter = self.check.number("workload.jitter", "`jitter`", jitter, 0.0, 1.0);
        if jitter.is_some_and(|jitter| jitter > 0.0) && repeat > MAX_DRAWN {
            let rule = format!("with `jitter` no more than {MAX_DRAWN} replays can be simulated");
            self.check.fault("workload.repeat", rule, "lower `repeat`, or leave `jitter` out");
        }
        let time = self.op_time(time, raw, hardware);
        let statistics = self.statistics(raw);
        let ((time, device), (mut trace, ranks), jitter) = (time?, trace?, jitter?);
        if let (TraceSource::Serving(source), OpTime::Priced { compute, precision }) =
            (&mut trace, &time)
        {
            source.device = Some((compute.clone(), precision.clone()));
        }
        let statistics = statistics?;
        let spec = WorkloadSpec { trace, repeat, warmup, horizon, time, jitter, ranks, statistics };
        Some((spec, device))
    }

    /// Whether a run can be the beginning of one of so many replays.
    fn horizon(&mut self, horizon: Option<u64>, repeat: u32, serves: bool) {
        let Some(horizon) = horizon else { return };
        let path = "workload.horizon";
        let most = MAX_HORIZON;
        if serves {
            self.check.fault(path, "requests arrive once", "leave it out");
        } else if repeat > MAX_SAMPLE {
            let rule = format!("with `horizon` no more than {MAX_SAMPLE} replays are a sample");
            self.check.fault("workload.repeat", rule, "lower `repeat`: the rest is predicted");
        } else if !(u64::from(repeat)..=most).contains(&horizon) {
            let rule =
                format!("`horizon` must lie between `repeat`, which is {repeat}, and {most}");
            self.check.fault(path, rule, "write how many replays the long run has");
        }
    }

    /// How many devices run a recorded trace together.
    fn ranks(&mut self, ranks: Option<u32>, hardware: Option<&Arc<Hardware>>) -> Option<u32> {
        let Some(ranks) = ranks else { return Some(1) };
        let devices = hardware?.server.devices;
        if (1..=devices).contains(&ranks) {
            return Some(ranks);
        }
        let rule = format!("a server of this hardware has {devices} devices");
        let remedy = "write a number from 1 to that";
        self.check.fault("workload.ranks", rule, remedy);
        None
    }

    /// A trace is a folder of ours, or a file that another program recorded.
    fn recorded(&mut self, path: &str, gaps: Option<Gaps>) -> Option<TraceSource> {
        match self.files.path(path) {
            Ok(found) => {
                if let Some(source) = trace_at(&found, gaps.unwrap_or_default()) {
                    // In a page a recording is the folder of the trace that it became.
                    let came = gaps.is_some() && !shipped::holds_folder(&found);
                    if came && matches!(source, TraceSource::Folder(_)) {
                        let rule = "`gaps` is for files that are imported";
                        let remedy = "leave it out: a folder has the gaps that it was made with";
                        self.check.fault("workload.gaps", rule, remedy);
                    }
                    return Some(source);
                }
                let rule = "a trace is a folder, or a file that becomes one".into();
                let fault =
                    (rule, "name the folder, or a file that `tiersim trace import` takes".into());
                self.path_fault("workload.path", fault);
            }
            Err(fault) => self.path_fault("workload.path", fault),
        }
        None
    }

    fn op_time(
        &mut self,
        raw: &RawTime,
        workload: &RawWorkload,
        hardware: Option<&Arc<Hardware>>,
    ) -> Option<(OpTime, Option<Arc<Hardware>>)> {
        let (device, precision) = match raw {
            RawTime::Recorded { .. } if matches!(workload, RawWorkload::Model(_)) => {
                let rule = "a generated trace has no recorded durations";
                let remedy = "write roofline(precision: \"bf16\")";
                self.check.fault("workload.time", rule, remedy);
                return None;
            }
            RawTime::Recorded { scale } => {
                let scale = scale.unwrap_or(1.0);
                let path = "workload.time.scale";
                let scale = self.check.number(path, "`scale`", scale, 1e-6, 1e6)?;
                return Some((OpTime::Recorded { scale }, None));
            }
            RawTime::Roofline { device, precision }
            | RawTime::OpTimes { device, precision, attention: _ } => (device, precision),
        };
        // The device of the scenario's own machine has what the scenario changes in it.
        let own = |name: &&String| !machines::changes(self.check.document, name);
        let other = match device.as_ref().filter(own) {
            Some(name) => Some(self.hardware("workload.time.device", name)?),
            None => None,
        };
        let machine = other.as_ref().or(hardware)?;
        let Some(mut compute) = machine.compute.clone() else {
            let rule = format!("`{}` has no `compute` to take op times from", machine.name);
            let remedy = "name another `device`, or use recorded(scale: 1.0)";
            self.check.fault("workload.time", rule, remedy);
            return None;
        };
        self.precision(&compute, precision)?;
        match (raw, &compute.op_times) {
            (RawTime::OpTimes { attention, .. }, Some(times)) => {
                compute.attention = match attention {
                    Some(told) => Some(self.attention(*told, times, &machine.name)?),
                    None => usual_attention(workload, times),
                };
            }
            (RawTime::OpTimes { .. }, None) => {
                let rule =
                    format!("`{}` has no `compute.op_times` to take op times from", machine.name);
                let remedy = "name another `device`, or write roofline(...)";
                self.check.fault("workload.time", rule, remedy);
                return None;
            }
            _ => compute.op_times = None,
        }
        let other = other.filter(|other| hardware.is_none_or(|own| own.name != other.name));
        Some((OpTime::Priced { compute: compute.own(), precision: precision.clone() }, other))
    }

    /// The kernel of attention that a scenario names, if the device has numbers for it.
    fn attention(
        &mut self,
        told: AttentionKernel,
        times: &OpTimes,
        machine: &str,
    ) -> Option<AttentionKernel> {
        let Some((rule, remedy)) = times.without(told) else { return Some(told) };
        let rule = format!("`{machine}` cannot run it: {rule}");
        self.check.fault("workload.time.attention", rule, remedy);
        None
    }

    fn precision(&mut self, compute: &Compute, precision: &str) -> Option<()> {
        let known: Vec<&str> = compute.flops.iter().map(|(name, _)| name.as_str()).collect();
        if known.contains(&precision) {
            return Some(());
        }
        let rule = format!("`{}` has no peak for this precision", compute.name);
        self.check.unknown("workload.time.precision", &rule, precision, &known);
        None
    }
}

/// The trace that a path names, if it is one: a folder, or what becomes a trace.
pub fn trace_at(path: &Path, gaps: Gaps) -> Option<TraceSource> {
    let recorded = FileKind::of(path).is_some_and(FileKind::becomes_trace);
    if !recorded && (path.is_dir() || shipped::is_folder(path)) {
        return Some(TraceSource::Folder(path.to_owned()));
    }
    recorded.then(|| TraceSource::Recording { file: path.to_owned(), gaps })
}

/// The kernel of attention that training runs on unless somebody chose another: on an H200 cuDNN's,
/// with Transformer Engine and with PyTorch from 2.11 on (its
/// `check_prefer_cudnn_attention`). Engines that serve run what was measured.
fn usual_attention(workload: &RawWorkload, times: &OpTimes) -> Option<AttentionKernel> {
    let RawWorkload::Model(raw) = workload else { return None };
    let trains = matches!(raw.mode, RawWork::Train(_));
    times.attention_kernels().find(|kernel| trains && *kernel == AttentionKernel::Cudnn)
}
