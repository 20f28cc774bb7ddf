//! What ships inside the command: machines, their parts, scenarios, and the traces that these read.
//!
//! A shipped file has a path like any other, below [`EMBEDDED`], so that messages can name it and
//! readers, caches and fingerprints need not know where its bytes come from. Only
//! [`crate::project::Project`] gives such a path to a name, after the files of the project.
//! Files held in memory ([`crate::held`]) have such paths too, and go before those that ship.
//! Invariant: a path that is in neither list is one of the file system.

use crate::{handed, held};
use std::path::{Path, PathBuf};
use tiersim_shipped::FILES;

/// The folder that stands for the program itself in paths.
pub const EMBEDDED: &str = "embedded:";

/// What the shipped or held file at `path` holds. Whoever opens a file asks here first.
pub fn bytes(path: &Path) -> Option<&'static [u8]> {
    held::note(path);
    handed::bytes(path).or_else(|| of(name(path)?))
}

fn of(name: &str) -> Option<&'static [u8]> {
    if let Some(bytes) = held::bytes(name) {
        return Some(bytes);
    }
    let found = FILES.binary_search_by_key(&name, |(known, _)| known);
    found.ok().map(|index| FILES[index].1)
}

/// Whether files ship or are held below the folder at `path`.
pub fn is_folder(path: &Path) -> bool {
    name(path).is_some_and(|folder| below(folder).next().is_some() || held::is_folder(folder))
}

/// The path of what ships as `name`, a file or a folder.
pub fn path(name: &str) -> Option<PathBuf> {
    let path = Path::new(EMBEDDED).join(name);
    is_shipped(&path).then_some(path)
}

/// Whether this is the path of something that ships or is held.
pub fn is_shipped(path: &Path) -> bool {
    name(path).and_then(of).is_some() || is_folder(path)
}

/// Whether the file at `path` is held in memory, where packed files are held unpacked.
pub(crate) fn is_held(path: &Path) -> bool {
    name(path).and_then(held::bytes).is_some()
}

/// Whether files are held in memory below the folder at `path`.
pub(crate) fn holds_folder(path: &Path) -> bool {
    name(path).is_some_and(held::is_folder)
}

/// Names of the `.ron` files right in a folder that ships, without their endings.
pub fn specs(folder: &str) -> impl Iterator<Item = &'static str> {
    let names = below(folder).filter_map(|name| name.strip_suffix(".ron"));
    names.filter(|name| !name.contains('/'))
}

/// The rest of the names of all files below a folder.
fn below(folder: &str) -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(move |(name, _)| name.strip_prefix(folder)?.strip_prefix('/'))
}

fn name(path: &Path) -> Option<&str> {
    path.strip_prefix(EMBEDDED).ok()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_hold_what_the_project_does() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
        assert!(FILES.is_sorted());
        for (name, held) in FILES {
            assert_eq!(bytes(&path(name).expect(name)), Some(*held), "{name}");
            assert_eq!(std::fs::read(project.join(name)).expect(name), *held, "{name}");
        }
        for folder in
            ["hardware-specs", "hardware-specs/parts", "scenarios", "traces/gpt2-train-cpu"]
        {
            assert!(is_folder(&path(folder).expect(folder)), "{folder}");
        }
        for none in ["hardware-specs/none.ron", "traces", "hardware", "", "../sim"] {
            let path = Path::new(EMBEDDED).join(none);
            assert_eq!(bytes(&path), None, "{none}");
        }
        assert_eq!(path("hardware"), None);
    }

    #[test]
    fn parts_are_no_machines() {
        assert!(specs("hardware-specs").all(|name| !name.starts_with("parts")));
        assert!(specs("hardware-specs").any(|name| name == "h100-sxm-pcie5"));
        assert!(specs("hardware-specs/parts").any(|name| name == "h100-sxm"));
    }
}
