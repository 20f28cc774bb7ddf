//! The recordings of several ranks, read one after the other.
//!
//! What lies in a packed tar is read as it comes while the tar is unpacked once: to look for each file
//! from the beginning would cost the square of their number. A rank is made as soon as all of it is
//! there, so that of those that wait for their execution trace only tables are held.
//! Invariant: what is returned is in the order of the files, wherever they lie.

use crate::archive::{Pass, within_packed};
use crate::file_kind::FileKind;
use crate::import::execution::{Tensors, read_tensors};
use crate::import::profiler::{Gaps, OfRank, Profiled};
use crate::trace::tables::describe;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;

/// Which of the files of a rank something is.
#[derive(Clone, Copy, Debug)]
enum Part {
    Profile,
    Execution,
}

/// By archive and name in it: which part of which rank it is.
type Wanted = BTreeMap<PathBuf, BTreeMap<String, (usize, Part)>>;

/// Reads all; `executions` are none, or as many as files.
///
/// # Errors
/// What is wrong with a file.
pub(super) fn read_all(
    files: &[PathBuf],
    executions: &[PathBuf],
    gaps: Gaps,
) -> Result<Vec<OfRank>, Diagnostics> {
    let ranks = files.iter().enumerate().map(|(rank, path)| Reading {
        path,
        execution: executions.get(rank).map(PathBuf::as_path),
        profiled: None,
        tensors: None,
        made: None,
    });
    let mut ranks: Vec<Reading<'_>> = ranks.collect();
    for (archive, mut names) in wanted(&ranks) {
        let damaged = |error| describe(&archive, &error);
        let mut pass = Pass::of(&archive).map_err(damaged)?;
        while !names.is_empty() {
            // What is not there is said by who looks for it below.
            let Some(found) = pass.next_file().map_err(damaged)? else { break };
            let Some((rank, part)) = names.remove(&found.name) else { continue };
            let rank = &mut ranks[rank];
            let kind = FileKind::of_bytes(&found.head, found.bytes);
            let file = Some((found.bytes, found.file));
            match part {
                // A database is read as a whole, and not as it comes.
                Part::Profile if kind == Some(FileKind::Sqlite) => {}
                Part::Profile => rank.profiled = Some(Profiled::read_text(rank.path, file)?),
                Part::Execution => {
                    let path = rank.execution.unwrap_or(rank.path);
                    rank.tensors = Some(read_tensors(path, file)?);
                }
            }
            rank.make(gaps)?;
        }
    }
    ranks.into_iter().map(|rank| rank.rest(gaps)).collect()
}

/// What of all files lies in packed tars. A file that is named twice is read there once.
fn wanted(ranks: &[Reading<'_>]) -> Wanted {
    let mut wanted = Wanted::new();
    for (index, rank) in ranks.iter().enumerate() {
        let parts = [(Some(rank.path), Part::Profile), (rank.execution, Part::Execution)];
        for (path, part) in parts {
            if let Some((archive, name)) = path.and_then(within_packed) {
                wanted.entry(archive).or_default().entry(name).or_insert((index, part));
            }
        }
    }
    wanted
}

/// What of a rank is there.
struct Reading<'a> {
    path: &'a Path,
    execution: Option<&'a Path>,
    profiled: Option<Profiled>,
    tensors: Option<Tensors>,
    made: Option<OfRank>,
}

impl Reading<'_> {
    /// Makes its trace, if all of it is there.
    fn make(&mut self, gaps: Gaps) -> Result<(), Diagnostics> {
        let whole = self.execution.is_none() || self.tensors.is_some();
        if let Some(mut profiled) = self.profiled.take_if(|_| whole) {
            let tensors = self.tensors.take();
            self.made = Some(profiled.of_rank(self.path, tensors.as_ref(), gaps, None)?);
        }
        Ok(())
    }

    /// Reads what is not there yet.
    fn rest(mut self, gaps: Gaps) -> Result<OfRank, Diagnostics> {
        if let Some(made) = self.made {
            return Ok(made);
        }
        let tensors = match (self.tensors.take(), self.execution) {
            (None, Some(path)) => Some(read_tensors(path, None)?),
            (tensors, _) => tensors,
        };
        let mut profiled = match self.profiled.take() {
            Some(profiled) => profiled,
            None => Profiled::read(self.path)?,
        };
        profiled.of_rank(self.path, tensors.as_ref(), gaps, None)
    }
}
