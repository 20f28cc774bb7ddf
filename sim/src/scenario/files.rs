//! The files that a scenario may name, each read once.
//!
//! A scenario comes from anywhere and names other files, so it may only reach into its own folder
//! and into the project around it: absolute paths, `..` out of the project, and links that lead out
//! are refused. The project is the nearest folder above the scenario that has a `hardware-specs`
//! folder; without one it is the scenario's own folder.
//! Invariant: a returned path is canonical and lies in the project.

use crate::diagnostic::Diagnostics;
use crate::hardware_file::read_hardware;
use crate::scenario::hints::{HintFile, read_hints};
use crate::scenario::model::ModelFound;
use crate::scenario::statistics::read_statistics;
use crate::scenario::weights::{WeightFile, read_weights};
use crate::text::ron_error::choices;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tiersim_models::hardware::Hardware;
use tiersim_models::statistics::Given;

/// Folder of the machines that a scenario can name without a path.
pub const SPECS: &str = "hardware-specs";

/// Why a path is not used: the rule and the remedy.
pub type PathFault = (String, String);

/// What a named file turned out to be.
#[derive(Clone, Debug)]
pub enum Found<T> {
    /// Read.
    Good(Arc<T>),
    /// It cannot be reached from here.
    Path(PathFault),
    /// It was read and is wrong.
    Wrong(Diagnostics),
}

/// Finds and remembers files.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    root: PathBuf,
    paths: BTreeMap<String, Result<PathBuf, PathFault>>,
    hardware: BTreeMap<String, Found<Hardware>>,
    hints: BTreeMap<String, Found<HintFile>>,
    weights: BTreeMap<String, Found<WeightFile>>,
    statistics: BTreeMap<String, Found<Vec<Given>>>,
    /// By name and file of weights.
    pub(super) models: BTreeMap<(String, Option<String>), ModelFound>,
    machines: BTreeMap<Vec<u64>, Vec<Arc<Hardware>>>,
}

impl Files {
    /// For the scenario file at `scenario`.
    pub fn around(scenario: &Path) -> Result<Files, Diagnostics> {
        let parent = match scenario.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = parent.canonicalize().map_err(|error| {
            let rule = "the scenario's folder cannot be read";
            Diagnostics::one(scenario, None, rule, error.to_string(), "check the path")
        })?;
        let root = folder.ancestors().find(|above| above.join(SPECS).is_dir());
        let root = root.unwrap_or(&folder).to_path_buf();
        let (paths, hardware, hints, weights, models, machines) = Default::default();
        let statistics = BTreeMap::new();
        Ok(Files { folder, root, paths, hardware, hints, weights, statistics, models, machines })
    }

    /// The file or folder that the scenario calls `name`.
    pub fn path(&mut self, name: &str) -> Result<PathBuf, PathFault> {
        if let Some(known) = self.paths.get(name) {
            return known.clone();
        }
        let found = self.find(name);
        self.paths.insert(name.to_string(), found.clone());
        found
    }

    /// The machine called `name`: a spec of the project, such as `host-smoke` or `measured/host`, or
    /// a file if the name ends in `.ron`.
    pub fn hardware(&mut self, name: &str) -> Found<Hardware> {
        if let Some(known) = self.hardware.get(name) {
            return known.clone();
        }
        let path = if name.ends_with(".ron") { self.path(name) } else { self.spec(name) };
        let found = read(path, read_hardware);
        self.hardware.insert(name.to_string(), found.clone());
        found
    }

    /// `machine`, or one that is equal to it and already in use: points of a sweep that have the same
    /// machine share it.
    pub fn shared(&mut self, machine: Arc<Hardware>) -> Arc<Hardware> {
        let capacities = machine.tiers.iter().map(|tier| tier.capacity.get()).collect();
        let alike = self.machines.entry(capacities).or_default();
        if let Some(known) = alike.iter().find(|known| **known == machine) {
            return known.clone();
        }
        // Machines with equal capacities differ by name or by how a capacity is written: few.
        if alike.len() < 64 {
            alike.push(machine.clone());
        }
        machine
    }

    /// The hint file called `name`.
    pub fn hints(&mut self, name: &str) -> Found<HintFile> {
        if let Some(known) = self.hints.get(name) {
            return known.clone();
        }
        let found = read(self.path(name), read_hints);
        self.hints.insert(name.to_string(), found.clone());
        found
    }

    /// The file of trained weights called `name`.
    pub fn weights(&mut self, name: &str) -> Found<WeightFile> {
        if let Some(known) = self.weights.get(name) {
            return known.clone();
        }
        let found = read(self.path(name), read_weights);
        self.weights.insert(name.to_string(), found.clone());
        found
    }

    /// The table of statistics called `name`.
    pub fn statistics(&mut self, name: &str) -> Found<Vec<Given>> {
        if let Some(known) = self.statistics.get(name) {
            return known.clone();
        }
        let found = read(self.path(name), read_statistics);
        self.statistics.insert(name.to_string(), found.clone());
        found
    }

    fn spec(&mut self, name: &str) -> Result<PathBuf, PathFault> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let part =
            |part: &str| !part.starts_with('.') && !part.is_empty() && part.chars().all(plain);
        if name.split('/').all(part) {
            let path = self.root.join(SPECS).join(format!("{name}.ron"));
            if path.exists() {
                return self.inside(&path);
            }
        }
        let shipped = self.specs();
        let known: Vec<&str> = shipped.iter().map(String::as_str).collect();
        let rule = format!("no machine of this name is in `{SPECS}`");
        let remedy = if known.is_empty() {
            format!("`{SPECS}` has none; give the path of a file that ends in .ron")
        } else {
            format!("{}; or give the path of a .ron file", choices(name, &known))
        };
        Err((rule, remedy))
    }

    /// Names of all machines; those of a folder in [`SPECS`] with the folder's.
    fn specs(&self) -> Vec<String> {
        let specs = self.root.join(SPECS);
        let mut names = machines(&specs, "");
        // Parts are no machines.
        let folder = |name: &String| name != "parts" && specs.join(name).is_dir();
        for folder in entries(&specs).into_iter().filter(folder) {
            names.extend(machines(&specs.join(&folder), &format!("{folder}/")));
        }
        names.sort();
        names
    }

    fn find(&self, name: &str) -> Result<PathBuf, PathFault> {
        let relative = Path::new(name);
        if name.is_empty() || name.contains('\0') {
            return Err(("a path may not be empty".into(), "name a file or a folder".into()));
        }
        if relative.is_absolute() || relative.has_root() {
            let rule = "a path in a scenario must be relative";
            let remedy = "write it relative to the scenario's folder or the project's";
            return Err((rule.into(), remedy.into()));
        }
        let mut climbs = true;
        for base in [&self.folder, &self.root] {
            match flat(&base.join(relative)).filter(|path| path.starts_with(&self.root)) {
                Some(path) if path.symlink_metadata().is_ok() => return self.inside(&path),
                Some(_) => climbs = false,
                None => {}
            }
        }
        if climbs {
            let remedy = "name something in the scenario's folder or in the project";
            return Err(("the path leads out of the project".into(), remedy.into()));
        }
        let rule = "there is no such file or folder in the scenario's folder or the project";
        Err((rule.into(), "check the path".into()))
    }

    /// `path` with its links followed, if it then still lies in the project.
    fn inside(&self, path: &Path) -> Result<PathBuf, PathFault> {
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

/// Names of what is in a folder; enough of them to choose from.
fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().take(1000).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn machines(folder: &Path, prefix: &str) -> Vec<String> {
    let of = |name: String| name.strip_suffix(".ron").map(|name| format!("{prefix}{name}"));
    entries(folder).into_iter().filter_map(of).collect()
}

fn read<T>(
    path: Result<PathBuf, PathFault>,
    read: impl Fn(&Path) -> Result<T, Diagnostics>,
) -> Found<T> {
    match path.map(|path| read(&path)) {
        Ok(Ok(value)) => Found::Good(Arc::new(value)),
        Ok(Err(problems)) => Found::Wrong(problems),
        Err(fault) => Found::Path(fault),
    }
}

/// `path` without `.` and `..`; `None` if it climbs above the file system's root.
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
