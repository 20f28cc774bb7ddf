//! Where a file comes from that a scenario, a machine or a command line names.
//!
//! A project is the nearest folder, from the given one upwards, that has a `hardware-specs` folder;
//! without one it is the given folder. What is named is looked for in the folder, then in the
//! project, then among what ships inside the command: a file of the project goes before a shipped
//! one of the same name, also where a shipped machine names a part.
//!
//! A scenario comes from anywhere, so it may only reach into its own folder and into the project
//! around it: absolute paths, `..` out of the project, and links that lead out are refused.
//! Invariant: a returned path is canonical and lies in the project, or is that of a shipped file;
//! the path of a part is as the machine's was given.

mod called;
mod parts;

pub use called::{machine_of, machine_with};
pub(crate) use parts::{Named, part};

use crate::handed::is_handed;
use crate::shipped;
use crate::text::choices::choices;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Folder of the machines that can be named without a path.
pub const SPECS: &str = "hardware-specs";

/// Folder of the scenarios that can be named without a path.
pub const SCENARIOS: &str = "scenarios";

/// Why a path is not used: the rule and the remedy.
pub type PathFault = (String, String);

/// A folder, and the project around it.
#[derive(Clone, Debug)]
pub struct Project {
    folder: PathBuf,
    root: PathBuf,
}

impl Project {
    /// The project around `folder`; the empty path is the current folder.
    pub fn around(folder: &Path) -> io::Result<Project> {
        if folder.starts_with(shipped::EMBEDDED) {
            // What is held in memory is all the project that there is.
            return Ok(Project { folder: folder.to_owned(), root: shipped::EMBEDDED.into() });
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = folder.canonicalize()?;
        let root = folder.ancestors().find(|above| above.join(SPECS).is_dir());
        Ok(Project { root: root.unwrap_or(&folder).to_path_buf(), folder })
    }

    /// The folder that holds all that may be named.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the project's own machines, if it has one.
    pub fn specs(&self) -> Option<PathBuf> {
        Some(self.root.join(SPECS)).filter(|specs| specs.is_dir())
    }

    /// The machine called `name`, such as `host-smoke` or `measured/host`; where no file has the
    /// name, one that ships by what people call it, such as `4090` or `laptop`.
    pub fn machine(&self, name: &str) -> Result<PathBuf, PathFault> {
        if is_plain(name) {
            let file = format!("{SPECS}/{name}.ron");
            let path = self.root.join(&file);
            if path.exists() || shipped::is_shipped(&path) {
                return self.inside(&path);
            }
            if let Some(path) = shipped::path(&file).filter(|_| !name.contains('/')) {
                return Ok(path);
            }
        }
        if let Some(called) = machine_of(name, 1).filter(|&called| called != name) {
            return self.machine(called);
        }
        let machines = self.machines();
        let known: Vec<&str> = machines.keys().map(String::as_str).collect();
        let rule = format!("no machine of this name is in `{SPECS}` or ships with tiersim");
        Err((rule, format!("{}; or give the path of a .ron file", choices(name, &known))))
    }

    /// Every machine that can be named, with its file; those of a folder in [`SPECS`] with the
    /// folder's name.
    pub fn machines(&self) -> BTreeMap<String, PathBuf> {
        let shipped = shipped::specs(SPECS).map(|name| {
            let path = Path::new(shipped::EMBEDDED).join(SPECS).join(format!("{name}.ron"));
            (name.to_owned(), path)
        });
        let mut all: BTreeMap<String, PathBuf> = shipped.collect();
        if let Some(specs) = self.specs() {
            all.extend(machines(&specs, ""));
            // Parts and op times are no machines.
            let is_other = |name: &str| ["parts", "op-times"].contains(&name);
            let folder = |name: &String| !is_other(name) && specs.join(name).is_dir();
            for folder in entries(&specs).into_iter().filter(folder) {
                all.extend(machines(&specs.join(&folder), &format!("{folder}/")));
            }
        }
        all
    }

    /// The file or folder called `name`.
    pub fn path(&self, name: &str) -> Result<PathBuf, PathFault> {
        let relative = Path::new(name);
        let remedy = "name a file or a folder";
        if name.is_empty() {
            return Err(("a path may not be empty".into(), remedy.into()));
        }
        if name.contains('\0') {
            return Err(("a path has no character of the code 0".into(), remedy.into()));
        }
        if relative.is_absolute() || relative.has_root() {
            let rule = "a path in a scenario must be relative";
            let remedy = "write it relative to the scenario's folder or the project's";
            return Err((rule.into(), remedy.into()));
        }
        let mut climbs = true;
        for base in [&self.folder, &self.root] {
            match flat(&base.join(relative)).filter(|path| path.starts_with(&self.root)) {
                Some(path) if is_there(&path) => return self.inside(&path),
                Some(_) => climbs = false,
                None => {}
            }
        }
        if climbs {
            let remedy = "name something in the scenario's folder or in the project";
            return Err(("the path leads out of the project".into(), remedy.into()));
        }
        if let Some(path) = flat(relative).and_then(|flat| shipped::path(flat.to_str()?)) {
            return Ok(path);
        }
        let rule = "there is no such file or folder in the scenario's folder or the project, and \
                    none ships with tiersim";
        Err((rule.into(), "check the path".into()))
    }

    /// `path` with its links followed, if it then still lies in the project.
    fn inside(&self, path: &Path) -> Result<PathBuf, PathFault> {
        if shipped::is_shipped(path) {
            return Ok(path.to_owned());
        }
        match path.canonicalize() {
            Ok(real) if real.starts_with(&self.root) => Ok(real),
            Ok(_) => {
                let remedy = "copy the file into the project";
                Err(("the path follows a link out of the project".into(), remedy.into()))
            }
            Err(error) => Err((format!("the path cannot be read: {error}"), "check it".into())),
        }
    }
}

/// A path that somebody typed: what is there, or else what ships by that name.
pub fn typed(path: &Path) -> PathBuf {
    let shipped = || shipped::path(flat(path)?.to_str()?);
    if path.symlink_metadata().is_ok() { None } else { shipped() }
        .unwrap_or_else(|| path.to_owned())
}

/// A scenario that somebody typed: what is there, or else what ships by that name. A plain name is
/// that of a scenario of the project or of one that ships.
pub fn scenario(path: &Path) -> PathBuf {
    let found = typed(path);
    if is_handed(path) || found.symlink_metadata().is_ok() || shipped::is_shipped(&found) {
        return found;
    }
    let named = || {
        let file = format!("{SCENARIOS}/{}.ron", path.to_str().filter(|name| is_plain(name))?);
        let own = Project::around(Path::new("")).ok()?.root.join(&file);
        Some(own).filter(|own| own.is_file()).or_else(|| shipped::path(&file))
    };
    named().unwrap_or(found)
}

/// Whether something has this path, on a disk or in memory.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok() || shipped::is_shipped(path)
}

/// Plain words with `/` between: what a machine or a part may be named by.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let segment =
        |part: &str| !part.starts_with('.') && !part.is_empty() && part.chars().all(plain);
    name.len() <= 200 && name.split('/').all(segment)
}

/// Names of what is in a folder; enough of them to choose from.
fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().take(1000).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The `.ron` files of a folder.
fn machines(folder: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let named = |file: String| {
        let name = format!("{prefix}{}", file.strip_suffix(".ron")?);
        Some((name, folder.join(&file))).filter(|(_, path)| path.is_file())
    };
    entries(folder).into_iter().filter_map(named).collect()
}

/// `path` without `.` and `..`; `None` if it climbs above where it begins.
fn flat(path: &Path) -> Option<PathBuf> {
    let mut flat = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !flat.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => flat.push(other),
        }
    }
    Some(flat)
}
