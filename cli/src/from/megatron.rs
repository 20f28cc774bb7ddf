//! `from megatron`: arguments of Megatron-LM, on a machine.
//!
//! Invariant: how many ranks there are, whoever says it last says: the command, what starts the
//! program, or else the product of what splits the model.

use super::shared::{Asked, SERVER, Typed};
use crate::output::Failure;
use clap::Args;
use tiersim_input::guide::{Cluster, megatron};
use tiersim_policies::zoo::Registry;

#[derive(Debug, Args)]
#[command(
    mut_arg("words", |words| words.help(
        "The command in quotes, its arguments, or the path of a shell script that holds them"
    )),
    mut_arg("device", |device| device.help(
        "The machine: one of `tiersim hardware list`, or a GPU such as A100 or H100"
    )),
    mut_arg("model", |model| model.help(
        "The model, in the place of the arguments' dimensions: a name of `tiersim memory --model`, \
         or a config.json"
    )),
    mut_arg("out", |out| out.help(
        "Folder to write results to [default: out/megatron, or out/FILE]"
    )),
)]
pub(super) struct MegatronArgs {
    #[command(flatten)]
    typed: Typed,
    #[command(flatten)]
    asked: Asked,
    /// GPUs of all servers [default: as torchrun is told, else those that split the model once].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    gpus: Option<u64>,
    /// Words of the vocabulary, where the arguments name a tokenizer's files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 26))]
    vocab: Option<u64>,
}

pub(super) fn of_megatron(args: &MegatronArgs, registry: &Registry) -> Result<(), Failure> {
    let MegatronArgs { typed, asked, gpus, vocab } = args;
    let line = typed.line("megatron")?;
    asked.known()?;
    let ships = |ranks: u64| {
        let (name, hardware) = asked.ships(ranks.min(SERVER))?;
        Some((name, hardware.server.devices.into()))
    };
    let cluster =
        Cluster { model: typed.model.as_deref(), machine: &ships, gpus: *gpus, vocab: *vocab };
    let found = megatron(&line.file, &line.text, &cluster)?;
    asked.shown(found, &line.file, &line.stem, registry)
}
