//! The `tiersim` command: reads what was typed, calls the library, writes what comes of it.
//!
//! Exit: 0 done, 1 an expectation failed or a case ran out of memory where it must fit, 2 bad
//! input (message on stderr, nothing written), 3 an internal fault (seed and event printed).

mod args;
mod output;
mod progress;
mod runs;
mod traces;

use args::{Args, Command};
use clap::Parser;
use output::Failure;
use std::process::ExitCode;
use tiersim_reports::words::clean;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", printable(&failure.to_string()));
            ExitCode::from(failure.code())
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Run(args) => runs::run(&args),
        Command::Sweep(args) => runs::sweep(&args),
        Command::Hints(args) => runs::hints(&args),
        Command::Check(args) => traces::check(&args),
        Command::Trace(args) => traces::trace(&args.command),
    }
}

/// Messages quote bad input, which may hold what drives a terminal: it is shown, not sent.
fn printable(message: &str) -> String {
    message.lines().map(clean).collect::<Vec<_>>().join("\n")
}
