//! Settings as guides to training write them in YAML, to a scenario.
//!
//! Taken is what changes bytes or time here: batch, sequence, precision, checkpoints, ZeRO's stage,
//! offload, thresholds, dynamic batching, the loader. Everything else is listed with the reason for
//! which it is ignored; nothing is dropped in silence.
//! Invariant: every key of the file has one row in the report, and the scenario says nothing that
//! no row says.

mod accelerate;
mod containers;
mod deepspeed;
mod flexgen;
mod fsdp;
mod megatron;
mod reader;
mod serve;
mod settings;
mod shell;
mod to;
mod words;
mod write;
mod yaml;

use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;

pub use accelerate::{Launch, MapLoad, Opened, accelerate, device_map, is_device_map};
pub use deepspeed::{Job, deepspeed};
pub use flexgen::flexgen;
pub use megatron::{Cluster, megatron};
pub use serve::{Engine, Load, Server, serve};
pub use to::{Ask, Back, Part, Told, to_deepspeed, to_device_map, to_fsdp, to_plan, to_server};
pub use yaml::MAX_BYTES;

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The line of the file; 0 for what the command said.
    pub line: u64,
    /// The key with the sections that it is in, such as `memory.gpu_memory_threshold`.
    pub key: String,
    /// Its value as written.
    pub value: String,
    /// What it says in the scenario, or why it says nothing.
    pub fate: Fate,
}

impl Row {
    /// A default that is said, since bytes or time follow from it.
    fn not_said(key: &str, told: &str) -> Row {
        let (key, value) = (key.to_owned(), "not said".to_owned());
        Row { line: 0, key, value, fate: Fate::Taken(told.to_owned()) }
    }
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the scenario, as this.
    Taken(String),
    /// It is not, for this reason.
    Ignored(String),
}

/// What the command says in the place of keys, or instead of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// The model.
    pub model: Option<&'a str>,
    /// The machine.
    pub hardware: Option<&'a str>,
}

/// A scenario, and what became of each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guide {
    /// The scenario's text.
    pub scenario: String,
    /// Its machine, and what products run in.
    pub hardware: String,
    pub(crate) peak: &'static str,
    /// Whether weights are multiplied in fp8 on devices that can.
    pub(crate) in_fp8: bool,
    /// Whether it trains with PyTorch's own attention in one kernel.
    pub(crate) by_pytorch: bool,
    /// In the order of the file.
    pub rows: Vec<Row>,
}

impl Guide {
    /// The same with these fields of kernels. No file says them, so what a scenario takes without
    /// them is told: memory and time follow from it.
    #[must_use]
    pub fn with_kernels(mut self, fields: Option<&str>) -> Guide {
        match fields {
            Some(fields) => {
                let at = "        mode: train(\n";
                let with = format!("{at}            {fields},\n");
                self.scenario = self.scenario.replacen(at, &with, 1);
            }
            None => self.rows.push(Row::not_said(
                "--kernels",
                "kernels: compiled: norms and activations are one kernel each, as a compiler and \
                 Megatron have them; eager ones of PyTorch keep and move more",
            )),
        }
        self
    }

    /// The same with op times by measurement, if the machine has them of such products.
    #[must_use]
    pub fn measured(mut self, machine: &Hardware) -> Guide {
        let times = machine.compute.as_ref().and_then(|compute| compute.op_times.as_deref());
        let known = |precision| times.is_some_and(|times| times.multiplies(precision));
        let as_they_are = self.in_fp8 && known("fp8");
        let precision = if as_they_are { "fp8" } else { self.peak };
        if !known(precision) {
            return self;
        }
        if as_they_are {
            let told = "time: op_times(precision: \"fp8\"): this device multiplies them";
            self.rows.push(Row::not_said("products of weights in fp8", told));
        }
        if self.by_pytorch && times.is_some_and(|times| times.cudnn.is_some()) {
            let told = "time: op_times: attention of cuDNN, as PyTorch has it from 2.11 on; older \
                        ones run FlashAttention 2, up to twice as long for long sequences: write \
                        attention: flash_attention_2 beside the precision there";
            self.rows.push(Row::not_said("attention's kernels", told));
        }
        let from = format!("time: roofline(precision: {:?})", self.peak);
        let to = format!("time: op_times(precision: {precision:?})");
        self.scenario = self.scenario.replacen(&from, &to, 1);
        self
    }
}

/// The scenario that the settings in `text` mean. `file` is what problems name.
///
/// # Errors
/// The text is no YAML of this kind, a value is not what its key wants, or the model or the machine
/// is not said.
pub fn guide(file: &Path, text: &str, said: Said<'_>) -> Result<Guide, Diagnostics> {
    let entries = yaml::entries(file, text)?;
    let (settings, rows) = settings::settings(file, &entries, said)?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let told = ["as the guide says", "tiersim new NAME --from-yaml FILE"];
    Ok(write::guide(&name.unwrap_or_default(), &settings, told, rows))
}
