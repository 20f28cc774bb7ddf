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
use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    // An assertion that fails is a mistake in this program and exits as one; the panic has printed
    // where it was.
    let outcome = catch_unwind(|| run(args))
        .unwrap_or_else(|_| Err(Failure::Internal("an assertion failed, see above".to_owned())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
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
