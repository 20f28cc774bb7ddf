//! The `tiersim` command: reads what was typed, calls the library, writes what comes of it.
//!
//! Exit: 0 done, 1 an expectation failed, a case ran out of memory where it must fit or two traces
//! differ, 2 bad input (message on stderr, nothing written), 3 an internal fault (seed and event
//! printed).
//!
//! It is a library so that a program with policies of its own can be the same command:
//! [`main_with`].

mod allocator;
mod any_trace;
mod args;
mod asking;
mod block_trace;
mod cache;
mod calibrate;
mod check;
mod conform;
mod draws;
mod emit;
mod explain;
mod folder;
mod from;
mod generate;
mod hardware;
mod help;
mod journal;
mod kept;
mod lints;
mod memory;
mod messages;
mod new;
mod ops;
mod output;
mod points;
mod progress;
mod replications;
mod report;
mod runs;
mod scenarios;
#[cfg(feature = "serve")]
mod serve;
mod solve;
mod sweeps;
mod to;
mod trace_diff;
mod trace_export;
mod trace_info;
mod trace_memory;
mod traces;
mod train;
mod typed;
mod validate;
mod what_if;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use messages::say;
use output::{Failure, INTERNAL};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use tiersim_policies::elsewhere::NoAnswer;
use tiersim_policies::zoo::Registry;
use tiersim_validation::limits::tell_of_file_sizes;

/// Version of the command.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Replay AI training and inference over memory tiers, and chart latency against memory.
#[derive(Debug, Parser)]
#[command(name = "tiersim", version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    programs: messages::ForPrograms,
}

// Examples of help run in tests/cli/documented.rs, as those of documents do.
const RUN: &str = "Examples:
  tiersim run scenarios/gpt2-adam-tiering.ron --wide
  tiersim run scenarios/gpt2-adam-tiering.ron --set policies.4.policy.cut.hbm=0.4
  tiersim run scenarios/gpt2-adam-tiering.ron scenarios/gpt2-look-ahead.ron --format json
  tiersim run SCENARIO --report --what-if";
const SWEEP: &str = "Examples:
  tiersim sweep scenarios/gpt2-threshold-sweep.ron --jobs 2
  tiersim sweep scenarios/gpt2-threshold-sweep.ron --resume
  tiersim sweep scenarios/gpt2-threshold-sweep.ron --shard 2/8 --out out/eighths";
const MERGE: &str = "Examples:
  tiersim merge DIR
  tiersim merge DIR DIR --out out/whole";
const REPORT: &str = "Examples:
  tiersim report DIR
  tiersim report DIR DIR --compare --out out/compared";
#[cfg(feature = "serve")]
const SERVE: &str = "Examples:
  tiersim serve
  tiersim serve scenarios/gpt2-adam-tiering.ron --listen 127.0.0.1:0";
const EXPLAIN: &str = "Examples:
  tiersim explain scenarios/gpt2-adam-tiering.ron --case 'Adam 30 %'
  tiersim explain scenarios/gpt2-lru-budgets.ron --set 'hardware.links.pcie.read=times(1.2)'";
const CACHE: &str = "Examples:
  tiersim cache traces/requests-conversation/requests.jsonl --policy lru --unit --capacity 1000
  tiersim cache FILE --policy s3-fifo --capacity 10MiB,1GiB";

const OPS: &str = "Examples:
  tiersim ops FILE.csv --hardware h100-sxm-pcie5
  tiersim ops FILE.csv.gz --hardware dgx-a100-80g --format json
  tiersim ops FILE.csv --hardware h100-sxm-pcie5 --fit";

const SOLVE: &str = "Examples:
  tiersim solve scenarios/tiny-llama-lru.ron --minimize links.pcie.read --case 'LRU 75 %' --such-that 'slowdown <= 3'
  tiersim solve scenarios/tiny-llama-lru.ron --maximize links.pcie.setup --case 'LRU 75 %' --such-that 'step <= 8'
  tiersim solve scenarios/tiny-llama-lru.ron --maximize tokens_per_s --vary links.pcie.read=10..60 --vary links.pcie.write=10..60 --such-that 'links.pcie.read + links.pcie.write <= 70'
  tiersim solve scenarios/gpt2-out-of-memory.ron --fit --case 'all in HBM'";

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a commented scenario that runs, to start from.
    #[command(after_help = "Examples:\n  tiersim new NAME\n  tiersim run NAME.ron")]
    New(new::NewArgs),
    /// Write what a framework's own file means as a scenario, with what became of each key, and run
    /// it.
    From(from::FromArgs),
    /// Simulate a scenario's policies, print the table, write OUT/.
    #[command(after_help = RUN)]
    Run(runs::RunArgs),
    /// Say where the time of a step goes, why, and what would change it.
    #[command(after_help = EXPLAIN)]
    Explain(explain::ExplainArgs),
    /// Simulate every point of a scenario's axes.
    #[command(after_help = SWEEP)]
    Sweep(sweeps::SweepArgs),
    /// Put the shards of a sweep together: the results of the whole sweep.
    #[command(after_help = MERGE)]
    Merge(Box<sweeps::MergeArgs>),
    /// Find the least or largest value of a path for which conditions hold, the best of several, or
    /// the least change with which a scenario fits.
    #[command(after_help = SOLVE)]
    Solve(solve::SolveArgs),
    /// Make one page of result folders that exist: the verdict, charts, every figure; several side
    /// by side.
    #[command(after_help = REPORT)]
    Report(report::ReportArgs),
    /// Show results, sweeps on their way and a scenario with sliders in a browser, and metrics to
    /// Prometheus.
    #[cfg(feature = "serve")]
    #[command(after_help = SERVE)]
    Serve(serve::ServeArgs),
    /// Write tier_hints.json: the tier of every module, for a training framework to load.
    #[command(
        after_help = "Examples:\n  tiersim hints scenarios/gpt2-adam-tiering.ron --policy 'Adam 30 %'"
    )]
    Hints(runs::HintsArgs),
    /// Write a case for a framework: DeepSpeed's or FSDP's configuration, flags of vLLM or SGLang, a
    /// device_map; and what it cannot say.
    To(to::ToArgs),
    /// Train the weights of a policy that learns on a scenario by the cross-entropy method, and write them.
    TrainPolicy(train::TrainArgs),
    /// Run scenarios' plans on a real machine as well; compare decisions, bytes and time.
    #[command(
        after_help = "Examples:\n  tiersim validate scenarios/validation/host-smoke.ron --machine host"
    )]
    Validate(validate::ValidateArgs),
    /// Check that a real machine does what the simulator does, on plans drawn at random and written
    /// by hand.
    #[command(after_help = "Examples:\n  tiersim conform --machine host")]
    Conform(conform::ConformArgs),
    /// Measure this machine, or take what a recording shows of another, and write its hardware spec.
    #[command(
        after_help = "Examples:\n  tiersim calibrate --machine host\n  tiersim calibrate --from-trace trace.json --base rtx-3090"
    )]
    Calibrate(calibrate::CalibrateArgs),
    /// Only read and resolve scenarios, hardware specs and traces; list every problem.
    #[command(
        after_help = "Examples:\n  tiersim check scenarios/gpt2-adam-tiering.ron traces/gpt2-train-cpu"
    )]
    Check(check::CheckArgs),
    /// Look at traces and make them.
    #[command(subcommand)]
    Trace(traces::TraceCommand),
    /// Replay a block or page trace through one replacement policy; draw its miss ratio by
    /// capacity.
    #[command(after_help = CACHE)]
    Cache(cache::CacheArgs),
    /// Price a table of single ops on a machine, and grade it against measured times.
    #[command(after_help = OPS)]
    Ops(ops::OpsArgs),
    /// Replay a CUDA memory snapshot's requests through the model of PyTorch's caching allocator;
    /// compare reserved and active bytes at every entry.
    Allocator(allocator::AllocatorArgs),
    /// Account what training or serving a model needs of each GPU and each node, by formula.
    Memory(Box<memory::MemoryArgs>),
    /// List the machines that can be named, or show and draw one with the source of each number.
    #[command(subcommand)]
    Hardware(hardware::HardwareCommand),
    /// List the scenarios that ship, or print one.
    #[command(subcommand)]
    Scenario(scenarios::ScenarioCommand),
    /// Print what a shell needs to complete verbs and options.
    #[command(after_help = "Examples:\n  tiersim completions bash\n  tiersim completions zsh")]
    Completions(help::CompletionsArgs),
    /// Print the manual page, or write one of every verb.
    #[command(after_help = "Examples:\n  tiersim man --out DIR")]
    Man(help::ManArgs),
}

/// The command, whose scenarios can name the policies of `registry`.
pub fn main_with(registry: &Registry) -> ExitCode {
    panic::set_hook(Box::new(|fault| say_fault(&fault.to_string())));
    tell_of_file_sizes();
    match panic::catch_unwind(|| run(parse(), registry)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            say(&failure);
            ExitCode::from(failure.code())
        }
        Err(payload) => match payload.downcast::<NoAnswer>() {
            Ok(why) => {
                let failure = Failure::from(*why);
                say(&failure);
                ExitCode::from(failure.code())
            }
            // The hook has said what happened.
            Err(_) => ExitCode::from(INTERNAL),
        },
    }
}

/// What was typed; `memory` is told which of its options that were, as many do not go together.
fn parse() -> Args {
    let matches = help::grouped(Args::command()).get_matches();
    let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let (Command::Memory(memory), Some((_, found))) = (&mut args.command, matches.subcommand()) {
        let typed =
            |id: &&clap::Id| found.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        memory.typed = found.ids().filter(typed).map(ToString::to_string).collect();
    }
    args
}

fn run(args: Args, registry: &Registry) -> Result<(), Failure> {
    args.programs.begin()?;
    let registry = &asking::registry(registry, args.programs.policies());
    match args.command {
        Command::New(args) => new::new(&args),
        Command::From(args) => from::from(&args, registry),
        Command::Run(args) => runs::run(&args, registry),
        Command::Explain(args) => explain::explain(&args, registry),
        Command::Sweep(args) => sweeps::sweep(&args, registry),
        Command::Merge(args) => sweeps::merge(&args, registry),
        Command::Solve(args) => solve::solve(&args, registry),
        Command::Report(args) => report::report(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(&args, registry),
        Command::Hints(args) => runs::hints(&args, registry),
        Command::To(args) => to::to(&args, registry),
        Command::TrainPolicy(args) => train::train_policy(&args, registry),
        Command::Validate(args) => validate::validate(&args, registry),
        Command::Conform(args) => conform::conform(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Check(args) => check::check(&args, registry),
        Command::Trace(args) => traces::trace(&args),
        Command::Cache(args) => cache::cache(&args),
        Command::Ops(args) => ops::ops(&args),
        Command::Allocator(args) => allocator::allocator(&args),
        Command::Memory(args) => memory::memory(&args),
        Command::Hardware(args) => hardware::hardware(&args),
        Command::Scenario(command) => scenarios::scenario(&command),
        Command::Completions(args) => help::completions(&args, Args::command()),
        Command::Man(args) => help::man(&args, Args::command()),
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
