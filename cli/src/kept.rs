//! What a command reads it does not write over.
//!
//! Files that are read and written are compared as the places that they are, whatever they are called;
//! of a link both its own place and what it leads to count.
//! Invariant: this is asked before anything is written.

use crate::output::Failure;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tiersim_input::import::any::files_read;
use tiersim_input::trace::trace_names;

/// That none of `written` is one of the files that `read` stands for.
///
/// # Errors
/// Which one is.
pub(crate) fn keeps<'a>(
    read: impl IntoIterator<Item = &'a Path>,
    written: impl IntoIterator<Item = PathBuf>,
) -> Result<(), Failure> {
    let read = read.into_iter().flat_map(files_read);
    let places = |path: PathBuf| place(&path).into_iter().chain(path.canonicalize());
    let places: BTreeSet<PathBuf> = read.flat_map(places).collect();
    let mut written = written.into_iter();
    match written.find(|path| place(path).is_some_and(|place| places.contains(&place))) {
        None => Ok(()),
        Some(path) => {
            let text =
                "this very command reads the file, and would write over it; write somewhere else";
            Err(Failure::Input(format!("{}: {text}", path.display())))
        }
    }
}

/// That no file of a trace in this folder is one of those that are read.
pub(crate) fn keeps_trace<'a>(
    read: impl IntoIterator<Item = &'a Path>,
    folder: &Path,
) -> Result<(), Failure> {
    keeps(read, trace_names().map(|name| folder.join(name)))
}

/// Where a name is, with the links of its folder followed; none where there is nothing of that name.
fn place(path: &Path) -> Option<PathBuf> {
    path.symlink_metadata().ok()?;
    let name = path.file_name()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(name))
}
