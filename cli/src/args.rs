//! What can be typed. Only what it says; what it means is worked out elsewhere.

use crate::cache::CacheArgs;
use crate::generate::GenerateArgs;
use crate::memory::MemoryArgs;
use crate::new::NewArgs;
use crate::train::TrainArgs;
use crate::typed::capacity;
use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tiersim_validation::real::Kind;

/// Replay AI training and inference over memory tiers, and chart latency against memory.
#[derive(Debug, Parser)]
#[command(name = "tiersim", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

// Examples of help run in tests/cli/documented.rs, as those of documents do.
const RUN: &str = "Examples:
  tiersim run scenarios/gpt2-adam-tiering.ron --wide
  tiersim run scenarios/gpt2-adam-tiering.ron --set policies.4.policy.cut.hbm=0.4
  tiersim run scenarios/gpt2-adam-tiering.ron scenarios/gpt2-look-ahead.ron --format json";
const CACHE: &str = "Examples:
  tiersim cache traces/requests-conversation/requests.jsonl --policy lru --unit --capacity 1000
  tiersim cache FILE --policy s3-fifo --capacity 10MiB,1GiB";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented scenario that runs, to start from.
    #[command(after_help = "Examples:\n  tiersim new NAME\n  tiersim run NAME.ron")]
    New(NewArgs),
    /// Simulate a scenario's policies, print the table, write OUT/.
    #[command(after_help = RUN)]
    Run(RunArgs),
    /// Simulate every point of a scenario's axes.
    #[command(
        after_help = "Examples:\n  tiersim sweep scenarios/gpt2-threshold-sweep.ron --jobs 2"
    )]
    Sweep(SweepArgs),
    /// Write tier_hints.json: the tier of every module, for a training framework to load.
    #[command(
        after_help = "Examples:\n  tiersim hints scenarios/gpt2-adam-tiering.ron --policy 'Adam 30 %'"
    )]
    Hints(HintsArgs),
    /// Train the weights of Scored on a scenario by the cross-entropy method, and write them.
    TrainPolicy(TrainArgs),
    /// Run scenarios' plans on a real machine as well; compare decisions, bytes and time.
    #[command(
        after_help = "Examples:\n  tiersim validate scenarios/validation/host-smoke.ron --machine host"
    )]
    Validate(ValidateArgs),
    /// Check that a real machine does what the simulator does, on plans drawn at random and written
    /// by hand.
    #[command(after_help = "Examples:\n  tiersim conform --machine host")]
    Conform(ConformArgs),
    /// Measure this machine and write its hardware spec.
    #[command(after_help = "Examples:\n  tiersim calibrate --machine host")]
    Calibrate(CalibrateArgs),
    /// Only read and resolve scenarios, hardware specs and traces; list every problem.
    #[command(
        after_help = "Examples:\n  tiersim check scenarios/gpt2-adam-tiering.ron traces/gpt2-train-cpu"
    )]
    Check(CheckArgs),
    /// Look at traces and make them.
    Trace(TraceArgs),
    /// Replay a block or page trace through one replacement policy; draw its miss ratio by
    /// capacity.
    #[command(after_help = CACHE)]
    Cache(CacheArgs),
    /// Replay a CUDA memory snapshot's requests through the model of PyTorch's caching allocator;
    /// compare reserved and active bytes at every entry.
    Allocator(AllocatorArgs),
    /// Account what training or serving a model needs of each GPU and each node, by formula.
    Memory(Box<MemoryArgs>),
    /// List the machines that can be named, or show and draw one with the source of each number.
    Hardware(HardwareArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Override any value of the scenario, such as seed=7; elements of a list by number from 0 or
    /// by name.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Override the scenario's seed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Check capacity, hazards, conservation and Little's law after every event.
    #[arg(long)]
    pub(crate) audit: bool,
    /// Worker threads; all cores without it. No output depends on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Folder to write to [default: out/SCENARIO].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout; of several scenarios `json` is one list.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print every figure on wide lines: percentiles, traffic, stalls, memory of every tier, costs.
    #[arg(long)]
    pub(crate) wide: bool,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
    /// What counts as a failure too: exit 2 before anything is written, or 1 where only the results
    /// show it.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<Deny>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    /// Every warning of the lint.
    Warnings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    Text,
    /// The summary for programs.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Scenario files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SweepArgs {
    /// A scenario file with a `sweep`.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct HintsArgs {
    /// A scenario file with a policy that places modules.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,
    /// The policy's name in the scenario [default: the first that places modules].
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Folder to write tier_hints.json to, or the file itself [default: out/SCENARIO]; the hints
    /// are printed as well.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ValidateArgs {
    /// Scenario files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<PathBuf>,
    /// The real machine.
    #[arg(long, value_enum)]
    pub(crate) machine: RealMachine,
    /// Which CUDA device, counted from 0 [default: 0]; with --machine cuda only.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u16>,
    /// Only cases of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// How often each case is run on the real machine.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat_runs: u16,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Override the scenarios' seeds.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Folder to write to, with a folder per scenario if there are several [default:
    /// out/validate-SCENARIO, or out/validate].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the files that stand for NVMe and remote tiers [default: the folder to write to].
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConformArgs {
    /// The real machine.
    #[arg(long, value_enum)]
    pub(crate) machine: RealMachine,
    /// Which CUDA device, counted from 0 [default: 0]; with --machine cuda only.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u16>,
    /// How many random worlds.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) worlds: u32,
    /// Goes on with new random worlds for so many seconds.
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(crate) time: Option<u32>,
    /// Seed of the first random world; the others follow.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Folder for the files that stand for NVMe and remote tiers [default: OUT, or the system's for
    /// temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Folder to write conform.json to.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CalibrateArgs {
    /// The real machine.
    #[arg(long, value_enum)]
    pub(crate) machine: RealMachine,
    /// Which CUDA device, counted from 0 [default: 0]; with --machine cuda only.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u16>,
    /// Name of the spec [default: host, or the device's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder to write everything to [default: the spec to hardware-specs/measured of the project
    /// around the current folder, the rest to out/calibrate-NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the files that are measured [default: the folder to write to].
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Fewer and smaller sizes: seconds instead of minutes, for a try.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RealMachine {
    /// This machine's memory and files.
    Host,
    /// A CUDA device.
    Cuda,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Scenarios or hardware specs (.ron), or folders of traces.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// What counts as a problem too.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<Deny>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AllocatorArgs {
    /// What torch.cuda.memory._dump_snapshot wrote, or the same as JSON; may be packed with gzip or
    /// Zstandard.
    #[arg(value_name = "FILE")]
    pub(crate) snapshot: PathBuf,
    /// Which device of the snapshot, counted from 0 [default: each that has a history].
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<usize>,
    /// Memory of the device, such as 80GiB, or what set_per_process_memory_fraction leaves of it
    /// [default: the snapshot shows when memory was out].
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    pub(crate) capacity: Option<u64>,
    /// Largest deviation that is no failure, as a share of what the snapshot says.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(crate) at_most: f64,
    /// Folder to write to [default: out/allocator-FILE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct HardwareArgs {
    #[command(subcommand)]
    pub(crate) command: HardwareCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HardwareCommand {
    /// One line per machine that can be named: of the project around the current folder, and those
    /// that are embedded in this program.
    #[command(after_help = "Examples:\n  tiersim hardware list")]
    List,
    /// Tiers, links, routes and numbers with their sources; writes machine.svg and machine.png.
    #[command(after_help = "Examples:\n  tiersim hardware show h100-sxm-pcie5")]
    Show(ShowArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// A machine by its name, as `hardware list` has it, or a file that ends in .ron.
    #[arg(value_name = "NAME")]
    pub(crate) machine: String,
    /// Folder to write to [default: out/hardware-NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

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
    /// Convert what another program recorded to a trace.
    Import(ImportArgs),
    /// Make the trace of a model from its card.
    #[command(
        after_help = "Examples:\n  tiersim trace generate --list\n  tiersim trace generate --model llama-2-7b --train --sequence 2048 --out TRACE"
    )]
    Generate(Box<GenerateArgs>),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: Source,
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

impl RealMachine {
    pub(crate) fn kind(self) -> Kind {
        match self {
            RealMachine::Host => Kind::Host,
            RealMachine::Cuda => Kind::Cuda,
        }
    }
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.to_owned(), value.to_owned())),
        _ => Err("write PATH=VALUE, such as seed=7".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share from 0 to 1, such as 0.01".to_owned())
}
