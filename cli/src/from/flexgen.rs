//! `from flexgen`: a command line of FlexGen, on a machine.
//!
//! Invariant: the flags say how much is generated; the command adds the machine alone.

use super::shared::{Asked, Typed};
use crate::hardware::machine;
use crate::output::Failure;
use clap::Args;
use tiersim_input::guide::flexgen;
use tiersim_input::project::machine_of;
use tiersim_policies::zoo::Registry;

#[derive(Debug, Args)]
#[command(
    mut_arg("words", |words| words.help(
        "The command line in quotes, or the path of a file or shell script that holds it"
    )),
    mut_arg("out", |out| out.help(
        "Folder to write results to [default: out/flexgen, or out/FILE]"
    )),
)]
pub(super) struct FlexGenArgs {
    #[command(flatten)]
    typed: Typed,
    #[command(flatten)]
    asked: Asked,
}

pub(super) fn of_flexgen(args: &FlexGenArgs, registry: &Registry) -> Result<(), Failure> {
    let FlexGenArgs { typed, asked } = args;
    let line = typed.line("flexgen")?;
    let device = machine_of(&asked.device, 1).unwrap_or(&asked.device);
    machine(device)?;
    let found = flexgen(&line.file, &line.text, typed.model.as_deref(), device)?;
    asked.shown(found, &line.file, &line.stem, registry)
}
