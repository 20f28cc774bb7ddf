//! `trace diff`: in what two traces differ.

use crate::VERSION;
use crate::any_trace::any_trace;
use crate::output::{Failure, Format, print, print_exact};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use tiersim_input::trace::diff::{Printed, trace_diff};
use tiersim_reports::pretty;

#[derive(Debug, ClapArgs)]
pub(crate) struct DiffArgs {
    /// A trace's folder, or a file that becomes a trace.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The other one.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Names of ops, objects and steps that are listed: those that differ most.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Compares two traces.
pub(crate) fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let [(first, _), (second, _)] = [any_trace(&args.a)?, any_trace(&args.b)?];
    let diff = trace_diff(&first, &second, args.top);
    let [a, b] = [&args.a, &args.b].map(|path| path.display().to_string());
    match args.format {
        Format::Text => print(&format!("A: {a}\nB: {b}\n{diff}"))?,
        Format::Json => print_exact(&pretty(&Printed::of(VERSION, a, b, &diff))?)?,
    }
    if diff.equal { Ok(()) } else { Err(Failure::Expectation(vec![diff.verdict])) }
}
