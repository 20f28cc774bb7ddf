//! What lies in the folder that is served: results, and sweeps that have not come to their end.
//!
//! Folders are looked for anew for every request, links are not followed, and what a request names
//! is compared with what was found. What a summary says is kept as long as the file is the same.
//! Invariant: nothing is opened but files of fixed names in folders that were found.

use crate::journal::JOURNAL;
use crate::report::{MOST_SUMMARY, plain};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_reports::{Overview, SUMMARY, overview};

/// Results and sweeps that are listed.
const MOST: usize = 1000;
/// Entries of folders that are looked at.
const MOST_ENTRIES: usize = 20_000;
/// Folders within folders: shards of a sweep lie two deep.
const DEPTH: usize = 3;

/// A folder with something to show: its name below the one that is served, and its place.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The folder, and what its summaries say.
pub(super) struct Results {
    root: PathBuf,
    /// By name: which file it was, and what it says.
    known: BTreeMap<String, (String, Result<Arc<Overview>, String>)>,
}

impl Results {
    pub(super) fn of(folder: &Path) -> Results {
        // One that is not there yet may come.
        let root = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        Results { root, known: BTreeMap::new() }
    }

    /// The result of this name.
    pub(super) fn find(&self, name: &str) -> Option<Found> {
        self.found(SUMMARY).into_iter().find(|found| found.name == name)
    }

    /// Every sweep with a journal.
    pub(super) fn sweeps(&self) -> Vec<Found> {
        self.found(JOURNAL)
    }

    /// Every result with what it says, or why it says nothing.
    pub(super) fn overviews(&mut self) -> Vec<(String, Result<Arc<Overview>, String>)> {
        let mut known = std::mem::take(&mut self.known);
        for Found { name, path } in self.found(SUMMARY) {
            let file = path.join(SUMMARY);
            let stamp = stamp(&file);
            let before = known.remove(&name).filter(|(then, _)| *then == stamp);
            let said = before.map_or_else(|| read(&name, &file), |(_, said)| said);
            self.known.insert(name, (stamp, said));
        }
        self.known.iter().map(|(name, (_, said))| (name.clone(), said.clone())).collect()
    }

    /// Folders with a plain file of this name, by name.
    fn found(&self, file: &str) -> Vec<Found> {
        let own = self.root.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut left = vec![(own.unwrap_or_default(), self.root.clone(), 0)];
        let (mut found, mut entries) = (BTreeMap::new(), 0);
        while let Some((name, path, depth)) = left.pop() {
            if fs::symlink_metadata(path.join(file)).is_ok_and(|found| found.is_file()) {
                found.entry(name.clone()).or_insert_with(|| path.clone());
            }
            let Ok(within) = fs::read_dir(&path).map(|within| within.flatten()) else { continue };
            for entry in within.take(MOST_ENTRIES) {
                entries += 1;
                let Ok(file) = entry.file_name().into_string() else { continue };
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                // Where a run writes begins with a dot.
                if is_folder && !file.starts_with('.') && depth < DEPTH && entries < MOST_ENTRIES {
                    let below = if depth == 0 { file } else { format!("{name}/{file}") };
                    left.push((below, entry.path(), depth + 1));
                }
            }
        }
        found.into_iter().take(MOST).map(|(name, path)| Found { name, path }).collect()
    }
}

/// What tells a file from what was there before: it changes with every writing.
pub(super) fn stamp(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(found) => format!("{} {:?}", found.len(), found.modified()),
        Err(error) => error.kind().to_string(),
    }
}

fn read(name: &str, file: &Path) -> Result<Arc<Overview>, String> {
    let bytes = plain(file, MOST_SUMMARY).map_err(|failure| failure.to_string())?;
    overview(name, &bytes).map(Arc::new).map_err(|error| error.to_string())
}
