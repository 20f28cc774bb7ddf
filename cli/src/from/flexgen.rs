//! `from flexgen`: a command line of FlexGen, on a machine.
//!
//! Invariant: the flags say how much is generated; the command adds the machine alone.

use super::shown::{command_line, shown};
use crate::hardware::machine;
use crate::output::Failure;
use clap::Args;
use std::path::PathBuf;
use tiersim_input::guide::flexgen;
use tiersim_input::project::machine_of;
use tiersim_policies::zoo::Registry;

#[derive(Debug, Args)]
pub(super) struct FlexGenArgs {
    /// The command line in quotes, or the path of a file or shell script that holds it.
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    words: String,
    /// The machine: one of `tiersim hardware list`, or a word such as 4090, A100 or laptop.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// The model, in the place of the command line's: a name of `tiersim memory --model`, or a config.json.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print the scenario and do not run it.
    #[arg(long)]
    no_run: bool,
    /// Folder to write results to [default: out/flexgen, or out/FILE].
    #[arg(long, value_name = "DIR", conflicts_with = "no_run")]
    out: Option<PathBuf>,
}

pub(super) fn of_flexgen(args: &FlexGenArgs, registry: &Registry) -> Result<(), Failure> {
    let line = command_line(&args.words, "flexgen")?;
    let device = machine_of(&args.device, 1).unwrap_or(&args.device);
    machine(device)?;
    let found = flexgen(&line.file, &line.text, args.model.as_deref(), device)?;
    shown(&found, &line.stem, args.no_run, args.out.as_deref(), registry)
}
