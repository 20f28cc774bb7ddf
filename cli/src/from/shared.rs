//! The options that readers of frameworks have in common, and what follows from them alone.
//!
//! A verb that says something else of an option says so by `mut_arg`, in its own struct.
//! Invariant: an option of one name is read in one way, whatever the framework.

use super::shown::{Line, command_line, shown};
use crate::hardware::machine;
use crate::output::Failure;
use crate::typed::kernels;
use clap::Args;
use std::path::{Path, PathBuf};
use tiersim_input::guide::Guide;
use tiersim_input::project::{machine_of, machine_with};
use tiersim_models::hardware::Hardware;
use tiersim_policies::zoo::Registry;
use tiersim_workloads::transformer::training::Kernels;

/// Most devices of a server that a word such as `a100` stands for.
pub(super) const SERVER: u64 = 8;

/// The machine, and what becomes of the scenario.
#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The machine: one of `tiersim hardware list`, or a word such as 4090, A100 or laptop.
    #[arg(long, value_name = "NAME")]
    pub(super) device: String,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

impl Asked {
    /// Refuses a word that is no machine, with one device or with a server's, as what was typed.
    pub(super) fn known(&self) -> Result<(), Failure> {
        match machine_of(&self.device, 1).or(machine_of(&self.device, SERVER)) {
            Some(_) => Ok(()),
            None => machine(&self.device).map(drop),
        }
    }

    /// The machine with so many devices and its name, if one ships.
    pub(super) fn ships(&self, devices: u64) -> Option<(String, Hardware)> {
        let name = machine_with(&self.device, devices)?;
        let (_, hardware) = machine(name).ok()?;
        Some((name.to_owned(), hardware))
    }

    /// Prints the scenario, and runs it unless that is not wanted.
    pub(super) fn shown(
        &self,
        found: Guide,
        file: &Path,
        stem: &str,
        of: &Registry,
    ) -> Result<(), Failure> {
        shown(found, (file, stem), self.no_run, self.out.as_deref(), of)
    }
}

/// A command line, and what takes the place of its model.
#[derive(Debug, Args)]
pub(super) struct Typed {
    /// The command line in quotes, or the path of a file that holds it.
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    words: String,
    /// The model, in the place of the command line's: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
}

impl Typed {
    /// What was typed, or the text of the file that it names; `own` is what the former is called.
    pub(super) fn line(&self, own: &str) -> Result<Line, Failure> {
        command_line(&self.words, own)
    }
}

/// What a program says of its training, and no file of its framework has to.
#[derive(Debug, Args)]
pub(super) struct Training {
    /// The model: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    pub(super) model: String,
    /// Tokens of a sequence.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(super) sequence: u64,
    /// Sequences of a micro-batch, where the file does not say [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) micro_batch: Option<u64>,
    /// Micro-batches of a step, where the file does not say [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) accumulation: Option<u64>,
    /// ZeRO's stage, where the file says auto [default: 2].
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u64).range(0..=3))]
    pub(super) stage: Option<u64>,
    /// GiB of the host's memory, in the place of the machine's.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) host_memory: Option<u64>,
    /// The program keeps only the inputs of blocks, and computes the rest again.
    #[arg(long)]
    pub(super) checkpointing: bool,
    /// The kernels of a step: those that a compiler leaves, or Megatron's (`compiled`), Liger's
    /// (`fused`), or one for each operation, as PyTorch runs a model of transformers (`eager`) [default: compiled].
    #[arg(long, value_name = "WHICH", value_parser = kernels)]
    pub(super) kernels: Option<Kernels>,
}

impl Training {
    /// The fields of a scenario about kernels, if they were typed; `fused_update` where the framework
    /// updates weights by a kernel of its own.
    pub(super) fn kernels(&self, fused_update: bool) -> Option<String> {
        let kernels = self.kernels?;
        let update = kernels == Kernels::Eager && fused_update;
        let more = if update { ", optimizer_kernels: fused" } else { "" };
        Some(format!("kernels: {}{more}", kernels.word()))
    }
}

/// How much is generated.
#[derive(Debug, Args)]
pub(super) struct Generation {
    /// Tokens of each request that are in the cache at first.
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(super) prompt: u64,
    /// Tokens that come, one step each.
    #[arg(long, value_name = "TOKENS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    pub(super) tokens: u64,
}
