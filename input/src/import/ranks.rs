//! Several ranks of one run, each recorded by the PyTorch profiler or Nsight Systems, as one trace.
//!
//! Every rank keeps its ops, on streams of its own, and its objects under names of its own. What
//! Files are read in an order in which none is unpacked twice (`reading`). What
//! ranks did together, the collectives, is one op for all that take part (`party`, `tie`): it waits for
//! the last of them, and all wait for its end (`merge`): a rank that a policy makes late is waited for.
//! A trace of tiersim is of one device; here that device stands for all of the ranks together.
//! Invariant: each rank's ops are in the order of its own import, and wait for what they wait for
//! there.

mod account;
mod merge;
mod party;
mod reading;
mod tie;

pub use account::Account;

use crate::import::imported;
use crate::import::profiler::{Gaps, OfRank, Profiled};
use crate::trace::tables::Findings;
use reading::read_all;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;

/// A native trace, and what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// One rank on the way to the trace.
struct Rank<'a> {
    path: &'a Path,
    number: i64,
    of: OfRank,
}

/// Makes one trace of what several ranks of a run recorded in the same steps; `executions` are
/// none, or the execution trace of each.
///
/// # Errors
/// What is wrong with a file, or why they are not of one run.
pub fn import_ranks(
    files: &[PathBuf],
    executions: &[PathBuf],
    gaps: Gaps,
) -> Result<Imported, Diagnostics> {
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    if !executions.is_empty() && executions.len() != files.len() {
        let rule = "several ranks have an execution trace each, in the order of their files";
        let found = format!("{} files and {} of these", files.len(), executions.len());
        let remedy = "say --execution-trace once for each file, or leave it out";
        return Err(Diagnostics::one(first, None, rule, found, remedy));
    }
    let read = read_all(files, executions, gaps)?;
    let ranks = files.iter().zip(read).enumerate().map(|(index, (path, of))| {
        let number = of.rank.unwrap_or(index as i64);
        Rank { path, number, of }
    });
    joined(first, ranks.collect(), gaps)
}

/// Makes a trace of one recording. Several processes of it, or devices of one, that meet in
/// collectives are ranks of one run; else it is of `wanted`, or of the device that did the most.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn import_devices(
    path: &Path,
    gaps: Gaps,
    wanted: Option<u32>,
) -> Result<imported::Imported<String>, Diagnostics> {
    let processes = if wanted.is_none() { Profiled::processes(path)? } else { Vec::new() };
    let mut ranks = Vec::new();
    if !processes.is_empty() {
        for (index, &process) in processes.iter().enumerate() {
            let of = Profiled::of_process(path, Some(process))?.of_rank(path, None, gaps, None)?;
            ranks.push(Rank { path, number: index as i64, of });
        }
        let said = format!("{} processes call collectives, and each is a rank", processes.len());
        return Ok(in_words(&said, joined(path, ranks, gaps)?));
    }
    let mut profiled = Profiled::read(path)?;
    let devices = if wanted.is_none() { profiled.ranks() } else { Vec::new() };
    if devices.is_empty() {
        return Ok(profiled.alone(path, gaps, wanted)?.in_words());
    }
    for &device in &devices {
        let mut of = profiled.of_rank(path, None, gaps, Some(device))?;
        // What other ranks did is not left out.
        let account = &mut of.imported.account;
        account.elsewhere = if ranks.is_empty() { profiled.beside(&devices) } else { 0 };
        ranks.push(Rank { path, number: device, of });
    }
    let numbers: Vec<String> = devices.iter().map(i64::to_string).collect();
    let said = format!("devices {} call collectives, and each is a rank", numbers.join(", "));
    Ok(in_words(&said, joined(path, ranks, gaps)?))
}

fn in_words(said: &str, ranks: Imported) -> imported::Imported<String> {
    let mut words = ranks.in_words();
    words.account.insert_str(0, &format!("of one recording {said}\n"));
    words
}

/// One trace of all ranks.
fn joined(first: &Path, mut ranks: Vec<Rank<'_>>, gaps: Gaps) -> Result<Imported, Diagnostics> {
    ranks.sort_by_key(|rank| rank.number);
    of_one_run(&ranks)?;
    let world = ranks.iter().find_map(|rank| rank.of.ranks);
    let world = world.and_then(|world| u32::try_from(world).ok());
    let group = tie::Group::new(world, &ranks);
    let ties = tie::ties(&ranks, group)?;
    let mut account = Account::new(&ranks, group, &ties);
    let trace = merge::merge(&ranks, &ties, gaps, &mut account)?;
    let mut findings = Findings::default();
    findings.unsound(first, &trace);
    if !findings.is_empty() {
        return Err(findings.finish());
    }
    Ok(Imported { trace, account })
}

/// That no rank is there twice, and all are of as many.
fn of_one_run(ranks: &[Rank<'_>]) -> Result<(), Diagnostics> {
    for pair in ranks.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        if one.number == next.number {
            let rule = "several files are of several ranks";
            let found = format!("rank {} here and in {}", one.number, one.path.display());
            let remedy = "give one file for each rank";
            return Err(Diagnostics::one(next.path, None, rule, found, remedy));
        }
        if one.of.ranks != next.of.ranks {
            let rule = "ranks of one run say how many they are alike";
            let words = |ranks: Option<i64>| ranks.map_or("nothing".to_owned(), |n| n.to_string());
            let (here, there) = (words(next.of.ranks), words(one.of.ranks));
            let found = format!("{here} here and {there} in {}", one.path.display());
            let remedy = "give recordings of the same run";
            return Err(Diagnostics::one(next.path, None, rule, found, remedy));
        }
    }
    Ok(())
}
