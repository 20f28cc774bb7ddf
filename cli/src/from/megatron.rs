//! `from megatron`: arguments of Megatron-LM, on a machine.
//!
//! Invariant: how many ranks there are, whoever says it last says: the command, what starts the
//! program, or else the product of what splits the model.

use super::shown::{command_line, shown};
use crate::hardware::machine;
use crate::output::Failure;
use clap::Args;
use std::path::PathBuf;
use tiersim_input::guide::{Cluster, megatron};
use tiersim_input::project::{machine_of, machine_with};
use tiersim_policies::zoo::Registry;

/// Most devices of a server that a word such as `a100` stands for.
const SERVER: u64 = 8;

#[derive(Debug, Args)]
pub(super) struct MegatronArgs {
    /// The command in quotes, its arguments, or the path of a shell script that holds them.
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    words: String,
    /// The machine: one of `tiersim hardware list`, or a GPU such as A100 or H100.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// GPUs of all servers [default: as torchrun is told, else those that split the model once].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    gpus: Option<u64>,
    /// Words of the vocabulary, where the arguments name a tokenizer's files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 26))]
    vocab: Option<u64>,
    /// The model, in the place of the arguments' dimensions: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/megatron, or out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

pub(super) fn of_megatron(args: &MegatronArgs, registry: &Registry) -> Result<(), Failure> {
    let line = command_line(&args.words, "megatron")?;
    let known = |ranks: u64| machine_of(&args.device, ranks.min(SERVER));
    // A word that is no machine with one device either is refused as what was typed.
    if known(1).or(known(SERVER)).is_none() {
        machine(&args.device)?;
    }
    let ships = |ranks: u64| {
        let name = machine_with(&args.device, ranks.min(SERVER))?;
        machine(name).is_ok().then(|| name.to_owned())
    };
    let cluster = Cluster {
        model: args.model.as_deref(),
        machine: &ships,
        gpus: args.gpus,
        vocab: args.vocab,
    };
    let found = megatron(&line.file, &line.text, &cluster)?;
    shown(&found, &line.stem, args.no_run, args.out.as_deref(), registry)
}
