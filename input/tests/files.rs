//! Folders of this suite's own, and files that lie beside the checkout in development.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// An empty folder that no other test has.
pub(crate) fn folder(name: &str) -> PathBuf {
    let number = MADE.fetch_add(1, Ordering::Relaxed).to_string();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("input").join(number).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder is made");
    folder
}

/// A file in a folder of its own.
pub(crate) fn file(folder_name: &str, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder(folder_name).join(name);
    fs::write(&path, bytes).expect("the file is written");
    path
}

/// What lies beside the checkout as `shared/data/NAME`; says so where it does not.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = root.ancestors().map(|above| above.join("shared/data").join(name));
    let found = places.find(|place| place.exists());
    if found.is_none() {
        eprintln!("shared/data/{name} is not beside this checkout: nothing was compared with it");
    }
    found
}
