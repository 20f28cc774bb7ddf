//! `trace export`: a trace as a file that other simulators read.

use crate::any_trace::any_trace;
use crate::kept::keeps;
use crate::output::{Failure, print, write_each};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use tiersim_input::export::chakra::{Detail, Exported, export_chakra};
use tiersim_input::project::typed;

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The trace's folder, or a file that becomes a trace.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The file to write; readers of several ranks want RANK.et at its end, such as gpt2.0.et.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Leave out what Chakra has no word for: the trace cannot be read back as it was.
    #[arg(long)]
    plain: bool,
}

/// Writes the file, and says what is in it.
pub(crate) fn export(args: &ExportArgs) -> Result<(), Failure> {
    keeps([&*typed(&args.trace)], [args.out.clone()])?;
    let (trace, _) = any_trace(&args.trace)?;
    let detail = if args.plain { Detail::Plain } else { Detail::Whole };
    let Exported { bytes, counts } = export_chakra(&trace, &args.trace, detail)?;
    write_each(&[(args.out.clone(), &bytes)])?;
    print(&format!("{counts}\nwritten to {}\n", args.out.display()))
}
