//! The workload of the baseline: everything in an unlimited HBM, and everything on the device.
//!
//! What an offload is compared with does not offload: updates and attention that a case has on the
//! host's processors are the device's in the baseline. Generated work is made again without what it
//! has on the host; in a recorded trace such ops become the device's, with the time that a roofline
//! says or that was recorded.
//! Invariant: a workload without ops on the CPU is its own baseline.

use super::{CaseRunner, RunError};
use crate::durations::Durations;
use crate::run::batches::Own;
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{Phase, Trace, Unit};
use tiersim_policies::scenario::TraceSource;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::generation::AttentionOn;

impl CaseRunner<'_> {
    /// The workload with everything on the device; `None` if it is so already.
    pub(super) fn on_device(&self) -> Result<Option<Own>, RunError> {
        let is_moved = |trace: &Trace, op: OpId| {
            let op = &trace.ops[op.index()];
            // A data pipeline stays where it is.
            op.unit == Unit::Cpu && op.phase != Phase::Other
        };
        let ops = |trace: &Trace| (0..trace.ops.len()).map(OpId::at);
        let trace = &self.workload.trace;
        if !ops(trace).any(|op| is_moved(trace, op)) {
            return Ok(None);
        }
        let mut trace = match &self.spec.trace {
            TraceSource::Model(Work::Train(training)) => {
                let mut training = training.clone();
                training.zero.host_update = 0;
                Work::Train(training).trace()
            }
            TraceSource::Model(Work::Generate(generation)) => {
                let mut generation = generation.clone();
                generation.attention = AttentionOn::Device;
                Work::Generate(generation).trace()
            }
            _ => trace.clone(),
        };
        for op in ops(&trace).filter(|&op| is_moved(&trace, op)).collect::<Vec<_>>() {
            trace.ops[op.index()].unit = Unit::Device;
        }
        let (hardware, spec) = (self.hardware, self.spec);
        let durations = Durations::new(&trace, spec, hardware.cpu.as_ref(), self.seed)
            .map_err(RunError::Input)?
            .with_collectives(&trace, hardware, spec.ranks);
        Ok(Some(Own { workload: Workload::new(trace), durations }))
    }
}
