//! Files that are held in memory, and which files a reading opens.
//!
//! Where there is no disk, as in a browser, what a scenario reads is handed to it whole: [`hold`]
//! takes the files, and from then on they are found as what ships is, by their names below
//! [`EMBEDDED`](crate::shipped::EMBEDDED). Packed files are handed over unpacked, under their names.
//! Who hands them on learns from [`noted`] which files a reading opened, so that no list of what a
//! scenario may name has to be kept anywhere.
//! Both are of one thread: readings on others neither see nor disturb them.
//! Invariant: every reader opens files through [`crate::shipped::bytes`], which asks here first.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names, such as `scenarios/a.ron`, and what the files hold.
pub type HeldFiles = BTreeMap<String, &'static [u8]>;

thread_local! {
    static HELD: RefCell<HeldFiles> = RefCell::default();
    static NOTED: RefCell<BTreeSet<PathBuf>> = RefCell::default();
    static NOTES: Cell<bool> = const { Cell::new(false) };
}

/// Holds these files in the place of those held before. They go before shipped ones of their name.
pub fn hold(files: HeldFiles) {
    HELD.set(files);
}

/// What `read` answers, and the files that it opened, whether or not they were there: their paths
/// as they were opened.
pub fn noted<T>(read: impl FnOnce() -> T) -> (T, BTreeSet<PathBuf>) {
    let (outer, before) = (NOTES.replace(true), NOTED.take());
    let answer = read();
    NOTES.set(outer);
    (answer, NOTED.replace(before))
}

/// Whether readings on other threads would see other files than one on this, or leave no note.
pub(crate) fn is_used() -> bool {
    NOTES.get() || HELD.with_borrow(|held| !held.is_empty())
}

/// A file is opened.
pub(crate) fn note(path: &Path) {
    if NOTES.get() {
        NOTED.with_borrow_mut(|noted| noted.insert(path.to_owned()));
    }
}

/// What the held file called `name` holds.
pub(crate) fn bytes(name: &str) -> Option<&'static [u8]> {
    HELD.with_borrow(|held| held.get(name).copied())
}

/// Whether files are held below a folder.
pub(crate) fn is_folder(folder: &str) -> bool {
    let inside = |name: &String| {
        name.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with('/'))
    };
    HELD.with_borrow(|held| held.keys().any(inside))
}
