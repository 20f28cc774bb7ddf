//! Commands for developers that are not `cargo test`: `cargo xtask soak`.
//!
//! Exit: 0 done, 1 a world failed, 2 bad arguments.

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
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Soak(args) => soak::soak(&args),
    }
}
