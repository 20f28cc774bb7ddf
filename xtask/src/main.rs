//! Commands for developers that are not `cargo test`: `cargo xtask soak`, `cargo xtask fuzz`.
//!
//! Exit: 0 done, 1 a world or a case failed, 2 bad arguments.

mod fuzz;
mod soak;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Commands for developers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs random worlds under audit until one fails or all have passed.
    Soak(soak::SoakArgs),
    /// Feeds damaged files to readers until one fails or the time is over.
    Fuzz(fuzz::FuzzArgs),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Soak(args) => soak::soak(&args),
        Command::Fuzz(args) => fuzz::fuzz(&args),
    }
}
