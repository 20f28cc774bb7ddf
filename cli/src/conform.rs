//! `conform`: does a real machine do what the simulator does?
//!
//! Needs no scenario and no trace: plans are drawn from seeds or written into the program, so a
//! computer with the binary and nothing else can be checked. The bodies are those of the tests.

use crate::VERSION;
use crate::args::MachineArgs;
use crate::output::{Failure, print, write_all};
use clap::{ArgAction, Args as ClapArgs};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tiersim_conformance::soak::soak;
use tiersim_conformance::{BODIES, Check, Counts, Site};
use tiersim_models::units::Span;
use tiersim_reports::words::clean;
use tiersim_reports::{Artefact, pretty};
use tiersim_validation::real::Kind;

#[derive(Debug, ClapArgs)]
pub(crate) struct ConformArgs {
    #[command(flatten)]
    machine: MachineArgs,
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

/// Runs every body, then soaks if asked.
pub(crate) fn conform(args: &ConformArgs) -> Result<(), Failure> {
    let (kind, device) = args.machine.which()?;
    let scratch = Scratch::new(args)?;
    let site = Site {
        device,
        worlds: u64::from(args.worlds),
        seed: args.seed,
        ..Site::new(kind, &scratch.0)
    };
    let _kept = site.kind.keep(device)?;
    site.probe()?;
    let mut done: Vec<(&str, Check<Counts>)> = Vec::new();
    let mut note = |name: &'static str, result: Check<Counts>| {
        let line = line(name, &result);
        done.push((name, result));
        if args.quiet { Ok(()) } else { print(&line) }
    };
    for body in BODIES {
        note(body.name, (body.run)(&site))?;
    }
    if let Some(seconds) = args.time {
        let time = Span::from_us(u64::from(seconds) * 1_000_000);
        note("soak", soak(&site, time))?;
    }
    drop(scratch);
    let failed: Vec<String> = done
        .iter()
        .filter_map(|(name, result)| Some((name, result.as_ref().err()?)))
        .map(|(name, found)| format!("{}: {found}", spaced(name)))
        .collect();
    if let Some(out) = &args.out {
        let json = pretty(&report(args, kind, &done))?;
        write_all(out, &[Artefact::new("conform.json", json)])?;
    }
    let what =
        format!("\n{} of {} hold on {}\n", done.len() - failed.len(), done.len(), site.kind.word());
    if !args.quiet {
        print(&what)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Expectation(failed)) }
}

/// A folder of this run's own, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(args: &ConformArgs) -> Result<Scratch, Failure> {
        let given = args.scratch.as_ref().or(args.out.as_ref());
        let base = given.cloned().unwrap_or_else(std::env::temp_dir);
        let folder = base.join(format!("tiersim-conform-{}", std::process::id()));
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| refused(&folder, &error))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What a failed body left behind is of no use; failing to remove it changes nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(folder: &Path, error: &std::io::Error) -> Failure {
    let folder = folder.display();
    Failure::Input(format!("{folder}: cannot be made: {error}; give another --scratch"))
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

fn line(name: &str, result: &Check<Counts>) -> String {
    let mut line = String::new();
    let _ = match result {
        Ok(counts) => writeln!(line, "holds  {}: {counts}", spaced(name)),
        Err(found) => writeln!(line, "FAILS  {}: {}", spaced(name), clean(found)),
    };
    line
}

fn report(args: &ConformArgs, kind: Kind, done: &[(&str, Check<Counts>)]) -> Value {
    let counts = |counts: &Counts| -> Map<String, Value> {
        counts.0.iter().map(|&(what, count)| (what.replace(' ', "_"), json!(count))).collect()
    };
    let body = |(name, result): &(&str, Check<Counts>)| match result {
        Ok(counted) => json!({ "name": name, "holds": true, "counts": counts(counted) }),
        Err(found) => json!({ "name": name, "holds": false, "found": found }),
    };
    json!({
        "schema": 1,
        "tiersim": VERSION,
        "machine": kind.word(),
        "worlds": args.worlds,
        "seed": args.seed,
        "soak_s": args.time,
        "holds": done.iter().all(|(_, result)| result.is_ok()),
        "bodies": done.iter().map(body).collect::<Vec<_>>(),
    })
}
