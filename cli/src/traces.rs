//! `trace`.

use crate::args::Format;
use crate::generate::{GenerateArgs, generate};
use crate::output::{Failure, print};
use crate::trace_memory::{TraceMemoryArgs, memory};
use clap::Subcommand;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tiersim_input::import::recording::import_recording;
use tiersim_input::import::tables::{Tables, import_tables};
use tiersim_input::project::typed;
use tiersim_input::trace::{Packing, info, read_trace, write_trace};
use tiersim_models::workload::Trace;
use tiersim_reports::pretty;

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print what a trace holds.
    #[command(after_help = "Examples:\n  tiersim trace info traces/gpt2-train-cpu")]
    Info {
        /// The trace's folder.
        #[arg(value_name = "TRACE")]
        trace: PathBuf,
        /// What to print.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Say what a trace asks of an allocator: the least pool, fragmentation, offsets ahead, leaks.
    #[command(
        after_help = "Examples:\n  tiersim trace memory traces/gpt2-train-cpu\n  tiersim trace memory traces/gpt2-train-cpu --allocator pool --compact-by total"
    )]
    Memory(TraceMemoryArgs),
    /// Convert what another program recorded to a trace.
    #[command(subcommand)]
    Import(Source),
    /// Make the trace of a model from its card.
    #[command(
        after_help = "Examples:\n  tiersim trace generate --list\n  tiersim trace generate --model llama-2-7b --train --sequence 2048 --out TRACE"
    )]
    Generate(Box<GenerateArgs>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Reads and writes of a PyTorch run by storage, op by op.
    #[command(
        after_help = "Examples:\n  tiersim trace import recording traces/gpt2-train-cpu --out TRACE"
    )]
    Recording {
        /// The recording's folder, or that of a trace with its recording in it.
        source: PathBuf,
        /// Folder of the trace to write.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// A table of kernels and one of tensors, as of the G10 artefact.
    Tables {
        /// The kernels, in the order in which they ran.
        #[arg(long, value_name = "FILE")]
        kernels: PathBuf,
        /// The tensors that they read and write.
        #[arg(long, value_name = "FILE")]
        tensors: PathBuf,
        /// Samples per iteration.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// Folder of the trace to write.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Looks at a trace, or makes one.
pub(crate) fn trace(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Info { trace, format } => {
            let info = info(&read_trace(&typed(trace))?);
            match format {
                Format::Text => print(&info.to_string()),
                Format::Json => print(&pretty(&info)?),
            }
        }
        TraceCommand::Memory(args) => memory(args),
        TraceCommand::Generate(args) => generate(args),
        TraceCommand::Import(from) => match from {
            Source::Recording { source, out } => {
                let imported = import_recording(&recording(source))?;
                write_imported(&imported.trace, &imported.counts, out)
            }
            Source::Tables { kernels, tensors, batch, out } => {
                let (kernels, tensors) = (kernels.clone(), tensors.clone());
                let imported = import_tables(&Tables { kernels, tensors, batch: *batch })?;
                write_imported(&imported.trace, &imported.counts, out)
            }
        },
    }
}

/// The recording that somebody means: a trace that was made from one keeps it in `recording`.
fn recording(named: &Path) -> PathBuf {
    let inside = named.join("recording");
    let is_trace = named.join("trace.ron").is_file() && inside.is_dir();
    if is_trace { inside } else { named.to_owned() }
}

/// Writes a trace, and says what it holds and what it left out.
fn write_imported(trace: &Trace, counts: &dyn Display, out: &Path) -> Result<(), Failure> {
    write_trace(trace, out, Packing::Smaller)?;
    print(&format!("{}\n\n{counts}\nwritten to {}\n", info(trace), out.display()))
}
