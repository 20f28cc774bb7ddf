//! A file whose text is handed to the program: it has a name, and lies on no disk.
//!
//! Who makes a scenario in another language need not write it somewhere first. The file stands in
//! the folder that its name says: what it names is looked for there and in the project around, and
//! messages about it have its name.
//! Invariant: there is at most one, and it goes before a file of that name.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static HANDED: OnceLock<(PathBuf, Vec<u8>)> = OnceLock::new();

/// Takes `bytes` as what the file at `path` holds, from now on and on every thread; `false` if
/// there is such a file already.
pub fn hand(path: &Path, bytes: Vec<u8>) -> bool {
    HANDED.set((path.to_owned(), bytes)).is_ok()
}

/// What the file at `path` holds, if it is the one.
pub(crate) fn bytes(path: &Path) -> Option<&'static [u8]> {
    HANDED.get().filter(|(handed, _)| handed == path).map(|(_, bytes)| &bytes[..])
}

/// Whether the file at `path` is the one.
pub(crate) fn is_handed(path: &Path) -> bool {
    bytes(path).is_some()
}
