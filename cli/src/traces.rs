//! `trace`.

use crate::block_trace::BlockTraceArgs;
use crate::generate::{GenerateArgs, generate};
use crate::kept::keeps_trace;
use crate::output::{Failure, print};
use crate::trace_diff::{DiffArgs, diff};
use crate::trace_export::{ExportArgs, export};
use crate::trace_info::{InfoArgs, trace_info};
use crate::trace_memory::{TraceMemoryArgs, memory};
use clap::{Args, Subcommand, ValueEnum};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tiersim_input::import::accesses::Grouping;
use tiersim_input::import::any::import_recordings;
use tiersim_input::import::recording::import_recording;
use tiersim_input::import::tables::{Tables, import_tables};
use tiersim_input::trace::{Packing, info, write_trace};
use tiersim_models::workload::{Gaps, Trace};

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print what a trace holds.
    #[command(
        after_help = "Examples:\n  tiersim trace info traces/gpt2-train-cpu\n  tiersim trace info trace.json --out out/trace"
    )]
    Info(InfoArgs),
    /// Say what a trace asks of an allocator: the least pool, fragmentation, offsets ahead, leaks.
    #[command(
        after_help = "Examples:\n  tiersim trace memory traces/gpt2-train-cpu\n  tiersim trace memory traces/gpt2-train-cpu --allocator pool --compact-by total"
    )]
    Memory(TraceMemoryArgs),
    /// Convert what another program recorded to a trace.
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  tiersim trace import trace.json --out TRACE\n  tiersim trace import rank0.json rank1.json --out TRACE\n  tiersim trace import ranks.tar.gz --out TRACE\n  tiersim trace import snapshot.pickle --out TRACE\n  tiersim trace import app.lackey.gz --object-bytes 64B --window 10000 --out TRACE\n  tiersim trace import recording traces/gpt2-train-cpu --out TRACE"
    )]
    Import(Box<ImportArgs>),
    /// Write a trace as an execution trace of MLCommons Chakra, for other simulators.
    #[command(
        after_help = "Examples:\n  tiersim trace export traces/gpt2-train-cpu --out out/gpt2.0.et"
    )]
    Export(ExportArgs),
    /// Say in what two traces differ: exit 0 if in nothing that runs, else 1.
    #[command(
        after_help = "Examples:\n  tiersim trace diff traces/gpt2-train-cpu traces/gpt2-train-cpu\n  tiersim trace diff traces/gpt2-train-cpu traces/gpt2-train-h200 --top 3    # exit 1"
    )]
    Diff(DiffArgs),
    /// Make the trace of a model from its card.
    #[command(
        after_help = "Examples:\n  tiersim trace generate --list\n  tiersim trace generate --model llama-2-7b --train --sequence 2048 --out TRACE"
    )]
    Generate(Box<GenerateArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    source: Option<Source>,
    /// What PyTorch, Nsight Systems (exported as SQLite), MLCommons Chakra, lackey, perf script,
    /// DAMON, fio or libCacheSim wrote, or a public block trace, as it is or packed; what it is, is
    /// found out where it leaves no doubt. Several files are ranks of
    /// one run, and so are those in an archive or a folder.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// An execution trace of the same steps: what ops read and write. Of several ranks, one for each
    /// file in turn.
    #[arg(long, value_name = "FILE")]
    execution_trace: Vec<PathBuf>,
    /// Folder of the trace to write.
    #[arg(long, required = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What becomes of the time in which the device waited for its host.
    #[arg(long, value_enum, default_value_t = GapsName::Keep)]
    gaps: GapsName,
    /// Of a recording of several devices, the number of the one that is meant [default: those that meet
    /// in collectives, or the one that did the most].
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    #[command(flatten)]
    of: BlockTraceArgs,
    /// Of a file of accesses: how many are one op [default: as few as leave 65536 ops at most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Of a file of accesses without times: how many there are in a second [default: 100000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
}

impl ImportArgs {
    /// A file of accesses stands alone: what only such a file has use for would be passed over.
    fn says_nothing_of_accesses(&self) -> Result<(), Failure> {
        let others = [("--window", self.window.is_some()), ("--rate", self.rate.is_some())];
        let mut given = self.of.given().into_iter().chain(others);
        let Some((option, _)) = given.find(|(_, given)| *given) else { return Ok(()) };
        Err(Failure::Input(format!(
            "{option} says how one file of accesses is read, and here recordings of a run are put \
             together; leave it out, or name that file alone"
        )))
    }
}

/// What becomes of gaps, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapsName {
    /// Idle ops stand for it: ops start when they did.
    Keep,
    /// Time in which nothing ran is left out.
    Drop,
}

impl GapsName {
    pub(crate) fn gaps(self) -> Gaps {
        match self {
            GapsName::Keep => Gaps::Keep,
            GapsName::Drop => Gaps::Drop,
        }
    }
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
        TraceCommand::Info(args) => trace_info(args),
        TraceCommand::Memory(args) => memory(args),
        TraceCommand::Export(args) => export(args),
        TraceCommand::Diff(args) => diff(args),
        TraceCommand::Generate(args) => generate(args),
        TraceCommand::Import(args) => import(args),
    }
}

fn import(args: &ImportArgs) -> Result<(), Failure> {
    match &args.source {
        Some(Source::Recording { source, out }) => {
            let source = recording(source);
            keeps_trace([&*source], out)?;
            let imported = import_recording(&source)?;
            write_imported(&imported.trace, &imported.counts, out)
        }
        Some(Source::Tables { kernels, tensors, batch, out }) => {
            keeps_trace([&**kernels, tensors], out)?;
            let (kernels, tensors) = (kernels.clone(), tensors.clone());
            let imported = import_tables(&Tables { kernels, tensors, batch: *batch })?;
            write_imported(&imported.trace, &imported.counts, out)
        }
        None => {
            // It is required where there is no subcommand.
            let Some(out) = &args.out else { return Ok(()) };
            let (gaps, executions) = (args.gaps.gaps(), &args.execution_trace);
            if args.files.len() > 1 || !executions.is_empty() {
                args.says_nothing_of_accesses()?;
            }
            keeps_trace(args.files.iter().chain(executions).map(PathBuf::as_path), out)?;
            let (object_bytes, window, rate) = (args.of.object_bytes, args.window, args.rate);
            let grouping = Grouping { object_bytes, window, rate };
            let accesses = (args.of.reader()?, &grouping);
            let imported = import_recordings(&args.files, executions, gaps, accesses, args.device)?;
            write_imported(&imported.trace, &imported.account, out)
        }
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
