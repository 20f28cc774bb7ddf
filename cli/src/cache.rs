//! `cache`: a block or page trace through one replacement policy.
//!
//! What can be typed is here too: its values have no meaning to other commands.
//! Invariant: nothing is written before the whole trace is read.

use crate::block_trace::BlockTraceArgs;
use crate::output::{Failure, Format, print, print_exact, stem, write_all, written};
use crate::typed::size;
use crate::{VERSION, progress};
use clap::{ArgAction, Args};
use std::path::PathBuf;
use std::str::FromStr;
use tiersim_input::file_kind::block_trace;
use tiersim_policies::replacement::Algorithm;
use tiersim_reports::{cache_artefacts, cache_json, cache_text};
use tiersim_sim::cache::{Setup, replay};

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Records, lists or tables of libCacheSim, a table with a column `object`, Mooncake's
    /// requests, or a trace of MSR Cambridge, Alibaba, Tencent, Twitter or fio, packed (.gz, .zst)
    /// or not; or a folder with accesses.csv.
    #[arg(value_name = "FILE")]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) of: BlockTraceArgs,
    /// The replacement policy, such as LRU.
    #[arg(long, value_name = "NAME", value_parser = replacement)]
    pub(crate) policy: Algorithm,
    /// Capacity of the cache: bytes, such as 65536 or 10MiB; with --unit objects. May be repeated.
    #[arg(long, value_name = "N", required = true, value_delimiter = ',')]
    pub(crate) capacity: Vec<Capacity>,
    /// Every object counts 1, whatever its size.
    #[arg(long)]
    pub(crate) unit: bool,
    /// Folder to write to [default: out/FILE, without its endings].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

/// A capacity as typed.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    amount: u64,
    /// With a unit of bytes.
    bytes: bool,
}

impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Capacity, String> {
        let alone = text.bytes().all(|digit| digit.is_ascii_digit());
        let amount = if alone { text.parse().ok() } else { Some(size(text)?) };
        let amount = amount.filter(|amount| (1..=1 << 60).contains(amount));
        let amount = amount.ok_or("from 1 to 2^60, such as 65536 or 10MiB")?;
        Ok(Capacity { amount, bytes: !alone })
    }
}

/// The policy of a name.
fn replacement(name: &str) -> Result<Algorithm, String> {
    Algorithm::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        format!("choose from {}", names.join(", "))
    })
}

/// Replays, prints, writes.
pub(crate) fn cache(args: &CacheArgs) -> Result<(), Failure> {
    if let Some(capacity) = args.capacity.iter().find(|capacity| args.unit && capacity.bytes) {
        let bytes = capacity.amount;
        return Err(Failure::Input(format!(
            "--capacity counts objects with --unit (found {bytes} bytes); write a number alone, or \
             leave --unit out"
        )));
    }
    let capacities = args.capacity.iter().map(|capacity| capacity.amount).collect();
    let (algorithm, reader, unit) = (args.policy, args.of.reader()?, args.unit);
    let open = |sizes| block_trace(&args.trace, reader, sizes, args.of.object_bytes);
    let setup = Setup { algorithm, unit, capacities };
    let spinner = progress::spinner("requests", args.quiet);
    let record = replay(&args.trace, &setup, open, |requests| spinner.set_position(requests))?;
    spinner.finish_and_clear();
    let files = cache_artefacts(&record, VERSION)?;
    let out =
        args.out.clone().unwrap_or_else(|| PathBuf::from("out").join(stem(&args.trace, "cache")));
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => Ok(()),
        Format::Json => print_exact(&cache_json(&record, VERSION)?),
        Format::Text => print(&format!("{}{}\n", cache_text(&record), written(&out, &files))),
    }
}
