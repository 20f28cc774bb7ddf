//! `sweep` and `merge`: every point of a scenario's axes, in one process or in several.
//!
//! What is finished is in a journal at once. A sweep that was cut off goes on from it, and those of
//! shards are put together by the road that a whole sweep takes, so that no file can tell which
//! way it was made.

use crate::args::{Common, scenario};
use crate::draws::{Asked, DrawArgs};
use crate::emit::emit;
use crate::folder::Folder;
use crate::journal::{Checksum, Head, JOURNAL, Known, Points, Taken, note_damaged, read};
use crate::lints::{deny_machines, warned};
use crate::output::{Failure, Format, print, print_as, print_exact};
use crate::replications::ReplicationArgs;
use crate::runs::{expect_none, named, options, overrides, read_runs, run_one, use_threads};
use crate::{VERSION, progress};
use clap::{Args as ClapArgs, ValueEnum};
use rayon::prelude::*;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_input::scenario::fingerprint::sweep_fingerprint;
use tiersim_input::scenario::sweep::read_sweep_with;
use tiersim_input::traces::read_traces_with;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::results::RunRecord;
use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::zoo::Registry;
use tiersim_reports::pretty;
use tiersim_sim::expect::failures;
use tiersim_sim::feasible::first_too_long;
use tiersim_sim::run::Options;
use tiersim_sim::sweep::{Journal, Shard, cases_of, count, run_shard, run_sweep};

/// Version of the journal's format.
const FORMAT: u32 = 2;

/// Most shards of a sweep.
const MOST_SHARDS: usize = 1 << 16;

#[derive(Debug, ClapArgs)]
pub(crate) struct SweepArgs {
    /// A scenario file with a `sweep`, or the name of one that ships.
    #[arg(value_name = "SCENARIO", value_parser = scenario())]
    pub(crate) scenario: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
    #[command(flatten)]
    pub(crate) replications: ReplicationArgs,
    /// Go on with a sweep of the same folder that did not come to its end: none of its finished
    /// cases is simulated again.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Simulate only the I-th of N parts of the sweep, for `tiersim merge` [default folder:
    /// out/SCENARIO-sweep/I-of-N; with --out DIR: DIR/I-of-N].
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with_all = ["uncertainty", "report", "half_width"])]
    pub(crate) shard: Option<Shard>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct MergeArgs {
    /// Folders of shards, or a folder that holds these.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// The scenario, where it is not the file that the shards were made from.
    #[arg(long, value_name = "SCENARIO", value_parser = scenario())]
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
    #[command(flatten)]
    pub(crate) replications: ReplicationArgs,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(index, of)| {
        let (index, of) = (index.parse().ok()?, of.parse().ok()?);
        ((1..=MOST_SHARDS).contains(&of) && (1..=of).contains(&index))
            .then_some(Shard { index, of })
    });
    parts.ok_or_else(|| {
        format!("write I/N, a part counted from 1 and how many there are (at most {MOST_SHARDS}), such as 2/8")
    })
}

/// Lines, of which the checksum is kept and nothing else.
#[derive(Default)]
struct Said {
    any: bool,
    sum: Checksum,
}

impl Said {
    fn line(&mut self, line: &Checksum) {
        if std::mem::replace(&mut self.any, true) {
            self.sum.add(b"\n");
        }
        self.sum.append(line);
    }

    fn checksum(self) -> String {
        self.sum.end()
    }
}

/// A sweep that was read, ready to be run.
struct Ready {
    sweep: Sweep,
    /// The scenario itself, whose expectations are asked.
    own: Sweep,
    /// Of both.
    traces: Traces,
    stamp: String,
}

impl Ready {
    fn read(
        path: &PathBuf,
        overrides: &[(String, String)],
        common: &Common,
        draws: DrawArgs,
        registry: &Registry,
    ) -> Result<Ready, Failure> {
        let sweep = read_sweep_with(path, overrides, registry)?;
        let (mut runs, known) = read_runs(std::slice::from_ref(path), overrides, registry)?;
        let run = runs.swap_remove(0);
        let sweep = Sweep { base: run.base.clone(), ..sweep };
        draws.check(path, &sweep)?;
        let points = || sweep.points.iter().map(|point| &point.scenario);
        let traces = read_traces_with(known, points().chain([&sweep.base]))?;
        // One of them says enough: the next differs by its number of days.
        if let Some(problem) = first_too_long(&sweep, &traces) {
            return Err(Diagnostics(vec![problem]).into());
        }
        deny_machines(common, points().chain([&sweep.base]))?;
        let stamp = sweep_fingerprint(&sweep, |scenario| traces.hash(scenario));
        Ok(Ready { sweep, own: run, traces, stamp })
    }

    /// What a journal of it begins with.
    fn head(
        &self,
        path: &Path,
        overrides: &[(String, String)],
        common: &Common,
        shard: Option<Shard>,
    ) -> Head {
        let bound = common.bound.to_possible_value().expect("none is skipped");
        Head {
            journal: FORMAT,
            tiersim: VERSION.to_owned(),
            sweep: self.stamp.clone(),
            words: self.words(),
            bound: bound.get_name().to_owned(),
            cases: count(&self.sweep),
            shard: shard.map(|shard| (shard.index, shard.of)),
            scenario: path.to_owned(),
            set: overrides.to_vec(),
        }
    }

    /// A checksum of what results say of machines and runtimes beside their numbers.
    fn words(&self) -> String {
        let points = self.sweep.points.iter().map(|point| &point.scenario);
        let all: Vec<&Scenario> = points.chain([&self.sweep.base]).collect();
        // Most points share their machine.
        let machine = |at: usize| {
            let own = &all[at].hardware;
            let known = at.checked_sub(1).is_some_and(|at| Arc::ptr_eq(&all[at].hardware, own));
            (!known).then(|| {
                let mut sum = Checksum::default();
                write!(sum, "{:?}", (&own.name, &own.facts, &own.economics.facts)).map(|()| sum)
            })
        };
        let machines: Vec<_> = (0..all.len()).into_par_iter().map(machine).collect();
        let (mut said, mut last): (Said, Option<&str>) = (Said::default(), None);
        for (scenario, machine) in all.iter().zip(machines) {
            let sources = scenario.cases.iter().map(|case| case.runtime.source.as_str());
            for source in sources.filter(|source| !source.is_empty()) {
                // Most points say the same, too.
                if last != Some(source) {
                    said.line(&Checksum::of(source.as_bytes()));
                    last = Some(source);
                }
            }
            if let Some(machine) = machine {
                said.line(&machine.expect("a checksum takes everything"));
                last = None;
            }
        }
        said.checksum()
    }

    fn run(&self, common: &Common, journal: &impl Journal) -> Result<RunRecord, Failure> {
        let Ready { sweep, traces, stamp, .. } = self;
        Ok(run_sweep(sweep, traces, stamp.clone(), options(common), journal)?)
    }
}

/// What is done with the results of a sweep, however they came.
struct Ending<'a> {
    path: &'a Path,
    overrides: &'a [(String, String)],
    common: &'a Common,
    draws: DrawArgs,
    replications: &'a ReplicationArgs,
    registry: &'a Registry,
}

impl Ending<'_> {
    /// Draws and replications are added; files are written, and the table is printed. Gives back
    /// which expectations of the scenario do not hold.
    fn end(
        &self,
        ready: Ready,
        mut record: RunRecord,
        folder: Folder,
        written: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Ending { path, overrides, common, registry, .. } = *self;
        let Ready { sweep, own: run, traces, .. } = &ready;
        let asked = Asked { path, overrides, registry, common, sweeps: true };
        self.draws.draw(&asked, sweep, traces, &mut record)?;
        self.replications.replicate(common, sweep, traces, &mut record)?;
        // Only its expectations are asked.
        let plain = Options { bound_curve: false, ..options(common) };
        let base = run_one(run, traces, common, plain)?;
        let failed = named(&run.base, failures(&run.base, &base));
        // From here on only results are needed, and there may be many points.
        drop(ready);
        let said = emit(&record, common, folder, Vec::new())?;
        written()?;
        print_as(common.format, &said)?;
        expect_none(failed, warned(&record, common))
    }
}

/// Runs every point of a sweep, and the scenario itself for its expectations; or one shard of it.
pub(crate) fn sweep(args: &SweepArgs, registry: &Registry) -> Result<(), Failure> {
    let SweepArgs { scenario: path, common, draws, replications, resume, shard } = args;
    use_threads(common.jobs)?;
    let overrides = &overrides(common)?;
    let ready = Ready::read(path, overrides, common, *draws, registry)?;
    // A folder of its own: the results of a run are not those of its sweep.
    let name = format!("{}-sweep", ready.sweep.base.name);
    let folder = folder(common.out.clone(), &name, *shard)?;
    let Ready { sweep, traces, .. } = &ready;
    let of_shard = shard.map(|shard| cases_of(sweep, traces, shard)).transpose()?;
    let head = ready.head(path, overrides, common, *shard);
    let wanted = of_shard.as_ref().map_or(head.cases, Vec::len);
    let bar = progress::bar(wanted, common.quiet);
    let journal = Points::open(folder.path(), &head, *resume, &bar)?;
    if let (Some(shard), Some(cases)) = (shard, of_shard) {
        if let Err(error) = run_shard(sweep, traces, cases, options(common), &journal) {
            return Err(journal.broken(error.into()));
        }
        bar.finish_and_clear();
        let place = folder.shown().join(JOURNAL).display().to_string();
        let (Shard { index, of }, cases) = (shard, head.cases);
        return match (common.quiet, common.format) {
            (true, _) => Ok(()),
            (false, Format::Text) => {
                print(&format!("shard {index}/{of}: {wanted} of {cases} cases, in {place}\n"))
            }
            (false, Format::Json) => {
                let shard = json!({ "index": index, "of": of });
                let all =
                    json!({ "shard": shard, "ran": wanted, "cases": cases, "journal": place });
                print_exact(&pretty(&all)?)
            }
        };
    }
    let record = match ready.run(common, &journal) {
        Ok(record) => record,
        Err(error) => return Err(journal.broken(error)),
    };
    bar.finish_and_clear();
    let ending = Ending { path, overrides, common, draws: *draws, replications, registry };
    ending.end(ready, record, folder, || journal.remove())
}

/// Where results go, or the journal of a shard.
fn folder(out: Option<PathBuf>, name: &str, shard: Option<Shard>) -> Result<Folder, Failure> {
    let Some(Shard { index, of }) = shard else { return Folder::open(out, name) };
    let part = format!("{index}-of-{of}");
    match out {
        Some(out) => Folder::open(Some(out.join(part)), name),
        None => Folder::open(None, &format!("{name}/{part}")),
    }
}

/// Puts the shards of a sweep together: the files of the whole sweep.
pub(crate) fn merge(args: &MergeArgs, registry: &Registry) -> Result<(), Failure> {
    let MergeArgs { folders, scenario, common, draws, replications } = args;
    if !common.set.is_empty() || common.seed.is_some() {
        return Err(Failure::Input(
            "--set and --seed are those of the shards; leave them out, or sweep anew".to_owned(),
        ));
    }
    use_threads(common.jobs)?;
    let (head, known) = together(&journals(folders)?)?;
    let path = scenario.as_ref().unwrap_or(&head.scenario);
    let ready = Ready::read(path, &head.set, common, *draws, registry)?;
    let own = ready.head(path, &head.set, common, None);
    if let Some((what, there, here)) = head.other(&own) {
        return Err(Failure::Input(format!(
            "{}: the shards have another {what} ({there}; now {here}); merge with what they were made \
             with, or sweep anew",
            path.display()
        )));
    }
    let missing = (0..own.cases).filter(|case| !known.cases.contains_key(case)).count();
    if missing > 0 {
        return Err(Failure::Input(format!(
            "{missing} of {} cases are in none of the journals; end the shards that are missing or were \
             cut off (tiersim sweep {} --shard I/N --resume), and name the folders of all",
            own.cases,
            path.display()
        )));
    }
    let folder = Folder::open(common.out.clone(), &format!("{}-sweep", ready.sweep.base.name))?;
    let record = ready.run(common, &Taken::new(known))?;
    let overrides = &head.set;
    let ending = Ending { path, overrides, common, draws: *draws, replications, registry };
    ending.end(ready, record, folder, || Ok(()))
}

/// The journals in folders, or in folders of shards in these.
fn journals(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for folder in folders {
        let cannot = |error: std::io::Error| {
            let remedy = "name a folder that tiersim sweep wrote, with its shards";
            Failure::Input(format!("{}: cannot read: {error}; {remedy}", folder.display()))
        };
        let own = folder.join(JOURNAL);
        if own.is_file() {
            all.push(own);
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(cannot)? {
            let journal = entry.map_err(cannot)?.path().join(JOURNAL);
            if journal.is_file() {
                found.push(journal);
            }
        }
        if found.is_empty() {
            return Err(Failure::Input(format!(
                "{}: holds no {JOURNAL}, nor does a folder in it; name a folder that tiersim sweep \
                 --shard wrote",
                folder.display()
            )));
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// All that journals hold, which are of one sweep.
fn together(journals: &[PathBuf]) -> Result<(Head, Known), Failure> {
    let mut all: Option<(Head, Known)> = None;
    for path in journals {
        let empty = || Failure::Input(format!("{}: is empty; run its shard again", path.display()));
        let found = read(path)?.ok_or_else(empty)?;
        if !found.known.damaged.is_empty() {
            note_damaged(path, &found.known.damaged);
        }
        let Some((head, known)) = &mut all else {
            all = Some((found.head, found.known));
            continue;
        };
        if let Some((what, there, here)) = head.other(&found.head) {
            return Err(Failure::Input(format!(
                "{}: has another {what} ({here}) than {} ({there}); merge the shards of one sweep",
                path.display(),
                journals[0].display()
            )));
        }
        known.extend(found.known);
    }
    Ok(all.expect("at least one folder is named"))
}
