//! The `tiersim` command: reads what was typed, calls the library, writes what comes of it.
//!
//! Exit: 0 done, 1 an expectation failed or a case ran out of memory where it must fit, 2 bad
//! input (message on stderr, nothing written), 3 an internal fault (seed and event printed).
//!
//! It is a library so that a program with policies of its own can be the same command:
//! [`main_with`].

mod allocator;
mod allocator_report;
mod args;
mod cache;
mod calibrate;
mod calibrate_charts;
mod calibrate_report;
mod check;
mod conform;
mod folder;
mod generate;
mod hardware;
mod lints;
mod memory;
mod new;
mod output;
mod progress;
mod runs;
mod traces;
mod train;
mod typed;
mod validate;

use args::{Args, Command};
use clap::Parser;
use output::{Failure, INTERNAL};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use tiersim_policies::zoo::Registry;
use tiersim_reports::words::clean;

/// The command, whose scenarios can name the policies of `registry`.
pub fn main_with(registry: &Registry) -> ExitCode {
    panic::set_hook(Box::new(|fault| say_fault(&fault.to_string())));
    match panic::catch_unwind(|| run(Args::parse(), registry)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            say(&failure);
            ExitCode::from(failure.code())
        }
        // The hook has said what happened.
        Err(_) => ExitCode::from(INTERNAL),
    }
}

fn run(args: Args, registry: &Registry) -> Result<(), Failure> {
    match args.command {
        Command::New(args) => new::new(&args),
        Command::Run(args) => runs::run(&args, registry),
        Command::Sweep(args) => runs::sweep(&args, registry),
        Command::Hints(args) => runs::hints(&args, registry),
        Command::TrainPolicy(args) => train::train_policy(&args, registry),
        Command::Validate(args) => validate::validate(&args, registry),
        Command::Conform(args) => conform::conform(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Check(args) => check::check(&args, registry),
        Command::Trace(args) => traces::trace(&args.command),
        Command::Cache(args) => cache::cache(&args),
        Command::Allocator(args) => allocator::allocator(&args),
        Command::Memory(args) => memory::memory(&args),
        Command::Hardware(args) => hardware::hardware(&args.command),
    }
}

/// A failed assertion is a mistake of this program, and is said like any other of them.
fn say_fault(fault: &str) {
    say(&Failure::Internal(fault.to_owned()));
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        let _ = writeln!(std::io::stderr(), "{trace}");
    }
}

/// Messages quote bad input, which may hold what drives a terminal: it is shown, not sent.
fn say(failure: &Failure) {
    let message = failure.to_string();
    let lines: Vec<String> = message.lines().map(clean).collect();
    // Where there is no stderr, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
}
