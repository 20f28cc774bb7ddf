//! Commands for developers that are not `cargo test`: `cargo xtask soak`, `cargo xtask fuzz`,
//! `cargo xtask reference`, `cargo xtask what-if`, `cargo xtask dist`.
//!
//! Exit: 0 done, 1 a world or a case failed, 2 bad arguments.

mod dist;
mod fuzz;
mod packages;
mod programs;
mod reference;
mod sbom;
mod soak;
mod targets;
mod watchdog;
mod what_if;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::panic;
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
    /// Writes the pages on file formats from the types that read the files.
    Reference,
    /// Feeds damaged files to readers until one fails or the time is over.
    Fuzz(fuzz::FuzzArgs),
    /// Builds the simulator for pages: target/what-if/tiersim.wasm.
    WhatIf,
    /// Builds what a release consists of: target/dist-archives.
    Dist(dist::DistArgs),
}

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    // A panic is told once, with its seed, and not by every attempt to make its world smaller.
    panic::set_hook(Box::new(|_| ()));
    let passed = match command {
        Command::Soak(args) => end(soak::soak(&args)),
        Command::Reference => end(reference::reference()),
        Command::Fuzz(args) => fuzz::fuzz(&args),
        Command::WhatIf => what_if::what_if(),
        Command::Dist(args) => end(dist::dist(&args)),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says what came of something, and whether it passed.
fn end(told: Result<String, String>) -> bool {
    let passed = told.is_ok();
    say(&told.unwrap_or_else(|words| words));
    passed
}

fn say(words: &str) {
    let _ = writeln!(std::io::stdout(), "{words}");
}
