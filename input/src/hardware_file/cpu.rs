//! The host's processors in hardware files: read and written.
//!
//! Invariant: what is written is what is read.

use super::Resolver;
use super::write::{Unwritable, Writer, quoted};
use crate::text::quantity::{Bandwidth, Dimension, Duration, FlopRate, Sourced};
use serde::Deserialize;
use tiersim_models::server::Cpu;

/// What ops on the host run on.
#[derive(Debug, Deserialize)]
#[serde(rename = "Cpu", deny_unknown_fields)]
pub(super) struct RawCpu {
    name: String,
    flops: Sourced<FlopRate>,
    memory: Sourced<Bandwidth>,
    launch: Sourced<Duration>,
}

impl Resolver<'_> {
    /// The processors, if there are any; `None` if a number of theirs breaks a rule.
    pub(super) fn cpu(&mut self, raw: Option<&RawCpu>) -> Option<Option<Cpu>> {
        let Some(raw) = raw else { return Some(None) };
        if raw.name.trim().is_empty() {
            self.check.fault("cpu.name", "processors have a name", "name them");
        }
        self.fact(&raw.flops, "cpu.flops", "cpu.flops".into());
        let flops = raw.flops.quantity.rate(&mut self.check, "cpu.flops.0");
        let memory = self.rate(&raw.memory, "cpu.memory", "cpu.memory".into());
        let launch = self.span(&raw.launch, "cpu.launch", "cpu.launch".into());
        let name = raw.name.trim().to_owned();
        Some(Some(Cpu { name, flops: flops?, memory: memory?, launch: launch? }))
    }
}

impl Writer<'_> {
    pub(super) fn cpu(&mut self) -> Result<(), Unwritable> {
        let Some(cpu) = &self.hardware.cpu else { return Ok(()) };
        self.line(1, "cpu: (");
        self.line(2, &format!("name: {},", quoted(&cpu.name)));
        let flops = self.sourced("cpu.flops".into(), cpu.flops.get(), FlopRate::UNIT)?;
        self.line(2, &format!("flops: {flops},"));
        let memory = self.sourced("cpu.memory".into(), cpu.memory.get(), Bandwidth::UNIT)?;
        self.line(2, &format!("memory: {memory},"));
        let launch = self.sourced("cpu.launch".into(), cpu.launch.ps(), Duration::UNIT)?;
        self.line(2, &format!("launch: {launch},"));
        self.line(1, "),");
        Ok(())
    }
}
