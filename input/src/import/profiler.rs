//! Traces of the PyTorch profiler (Kineto) and exports of Nsight Systems: what a GPU really did,
//! with the memory that was given and taken back meanwhile.
//!
//! Such a trace holds activities of the device with their times, and, where the profiler was asked
//! for memory, each allocation. It holds neither which kernel reads which memory nor what the
//! memory holds that was there before: what is worked out of that is said in the uses and in
//! [`Account`]. The file is streamed (`read`, and `nsight` for a database); everything else works on small tables
//! (`tables`): `host` says what each moment lies in, `items` what ran, `steps` when in a
//! step, `order` what waits for what, `collectives` what ranks did together, `memory` which objects there are, `state` what of them
//! is weights, gradients and optimizer state, `build` makes the trace.
//! Invariant: a trace with the recorded durations takes, in unlimited memory, as long as recorded:
//! with gaps the time from the first start to the last end, without them the time in which anything
//! ran.

mod account;
mod build;
mod collectives;
mod events;
mod host;
mod items;
mod join;
mod memory;
mod meta;
mod modules;
mod nsight;
mod number;
mod order;
mod profile;
mod read;
mod shapes;
mod shares;
mod state;
mod steps;
mod tables;
mod values;

pub use account::Account;
pub(crate) use meta::day;
pub use tiersim_models::workload::Gaps;

use crate::file_kind::FileKind;
use crate::import::execution::{Tensors, read_tensors};
use crate::import::groups::{Group, Words};
use collectives::Seen;
use host::Host;
use items::Items;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;
use tables::{Tables, Work};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;

/// A native trace, and what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Makes a trace of the file that the PyTorch profiler wrote, packed or not, or of the database that
/// Nsight Systems exported: of the device that did the most.
///
/// # Errors
/// What is wrong with the file, with line, column and event, or that it holds nothing that ran.
pub fn import_profiler(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let Profiled { tables, mended } = Profiled::read(path)?;
    build::build(path, &tables, gaps, (mended, None), None).map(|built| built.imported)
}

/// The same, with the tensors of an execution trace of the same steps.
///
/// # Errors
/// What is wrong with either file.
pub fn import_joined(path: &Path, execution: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let tensors = read_tensors(execution, None)?;
    let Profiled { tables, mended } = Profiled::read(path)?;
    build::build(path, &tables, gaps, (mended, Some(&tensors)), None).map(|built| built.imported)
}

/// A file that was read.
pub(super) struct Profiled {
    tables: Tables,
    mended: u64,
}

impl Profiled {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(path: &Path) -> Result<Profiled, Diagnostics> {
        match FileKind::of(path) {
            Some(FileKind::Sqlite) => Profiled::of_process(path, None),
            _ => Profiled::read_text(path, None),
        }
    }

    /// The processes of an export of Nsight Systems that are ranks of their own: those that call
    /// collectives, if they are several. Of more than [`MOST_DEVICES`] none is.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn processes(path: &Path) -> Result<Vec<i64>, Diagnostics> {
        if FileKind::of(path) != Some(FileKind::Sqlite) {
            return Ok(Vec::new());
        }
        let all = nsight::meeting(path)?;
        Ok(if (2..=MOST_DEVICES).contains(&all.len()) { all } else { Vec::new() })
    }

    /// Reads an export of Nsight Systems, of one process or of the one that did the most.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn of_process(path: &Path, process: Option<i64>) -> Result<Profiled, Diagnostics> {
        Ok(Profiled { tables: nsight::read(path, process)?, mended: 0 })
    }

    /// Reads what the PyTorch profiler wrote; of a file that was opened, if it was, with its length.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read_text(
        path: &Path,
        file: Option<(u64, Box<dyn BufRead>)>,
    ) -> Result<Profiled, Diagnostics> {
        let (tables, mended) = read::read(path, file)?;
        Ok(Profiled { tables, mended })
    }

    /// The trace of one device: of `wanted`, or of the one that did the most.
    ///
    /// # Errors
    /// As [`import_profiler`], or that nothing ran on that device.
    pub(super) fn alone(
        &self,
        path: &Path,
        gaps: Gaps,
        wanted: Option<u32>,
    ) -> Result<Imported, Diagnostics> {
        let device = wanted.map(i64::from);
        let devices = self.devices();
        if let Some(number) = device.filter(|number| !devices.contains(number)) {
            let some: Vec<String> = devices.iter().take(16).map(i64::to_string).collect();
            let found = match some.is_empty() {
                true => "nothing ran on any device".to_owned(),
                false => format!("something ran on devices {}", some.join(", ")),
            };
            let (rule, remedy) =
                (format!("something ran on device {number}"), "leave --device out");
            return Err(Diagnostics::one(path, None, rule, found, remedy));
        }
        let with = (self.mended, None);
        build::build(path, &self.tables, gaps, with, device).map(|built| built.imported)
    }

    fn devices(&self) -> BTreeSet<i64> {
        self.tables.streams.iter().map(|(device, _)| *device).collect()
    }

    /// The devices that are ranks of their own: those that call collectives, if they are several and
    /// nothing says that the file is of one rank. Of more than [`MOST_DEVICES`] none is.
    pub(super) fn ranks(&self) -> Vec<i64> {
        let tables = &self.tables;
        let mut devices = BTreeSet::new();
        if tables.rank.is_none() && self.devices().len() > 1 {
            for activity in tables.activities.iter().filter(|one| one.work == Work::Kernel) {
                let device = tables.streams[activity.stream as usize].0;
                if !devices.contains(&device) && collectives::is_library(tables, activity) {
                    devices.insert(device);
                }
            }
        }
        match devices.len() {
            2..=MOST_DEVICES => devices.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Activities of all but these devices.
    pub(super) fn beside(&self, devices: &[i64]) -> u64 {
        let streams = &self.tables.streams;
        let of = |activity: &&tables::Activity| streams[activity.stream as usize].0;
        let beside = self.tables.activities.iter().filter(|one| !devices.contains(&of(one)));
        beside.count() as u64
    }

    /// What one rank recorded, of one device if the file is of several, and with the tensors of an
    /// execution trace if there is one; finds its collectives.
    ///
    /// # Errors
    /// As [`import_joined`].
    pub(super) fn of_rank(
        &mut self,
        path: &Path,
        tensors: Option<&Tensors>,
        gaps: Gaps,
        device: Option<i64>,
    ) -> Result<OfRank, Diagnostics> {
        let built = build::build(path, &self.tables, gaps, (self.mended, tensors), device)?;
        let mut theirs = BTreeMap::new();
        for (range, words) in &built.asked {
            theirs.insert(*range, self.tables.groups.said(words).0);
        }
        let tables = &self.tables;
        let of = (tables, &built.host);
        let (collectives, others) =
            collectives::collectives(of, &built.items, &built.op_of, &theirs);
        let lent = collectives.iter().filter(|seen| seen.lent).count() as u64;
        let (rank, ranks, devices) = (tables.rank, tables.ranks, tables.devices.len());
        let none = BTreeMap::new();
        let listed = tensors.map_or(&none, |tensors| &tensors.groups);
        let groups = tables.groups.resolved(&[&tables.listed, listed]);
        let imported = built.imported;
        Ok(OfRank { imported, rank, ranks, devices, collectives, groups, others, lent })
    }
}

/// As many devices of one file are ranks: so many the largest servers have.
const MOST_DEVICES: usize = 16;

/// The trace, and what of the way to it says more of its ops.
struct Built {
    imported: Imported,
    host: Host,
    items: Items,
    /// By item.
    op_of: Vec<OpId>,
    /// What an execution trace says of the collectives that ranges ask for.
    asked: Vec<(u32, Words)>,
}

/// What one of several ranks recorded.
pub(super) struct OfRank {
    pub(super) imported: Imported,
    /// Which, and of how many, if the file says it.
    pub(super) rank: Option<i64>,
    pub(super) ranks: Option<i64>,
    /// Devices that the file lists: those of the rank's server.
    pub(super) devices: usize,
    pub(super) collectives: Vec<Seen>,
    /// The groups that these are of.
    pub(super) groups: Vec<Group>,
    /// Kernels of the library that are no collective that is known.
    pub(super) others: u64,
    /// Collectives whose group only the execution trace says.
    pub(super) lent: u64,
}
