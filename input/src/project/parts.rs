//! Where the file of a part is, and that of the op times of a device.
//!
//! A machine comes from anywhere and names both, so only plain names are read, below the machine's
//! own folder or below the `hardware-specs` of the project around it, and links that lead out of
//! that folder are refused. A machine that ships has the parts of the project that names it.

use super::{PathFault, Project, SPECS, entries, is_plain};
use crate::shipped;
use crate::text::choices::choices;
use std::path::{Path, PathBuf};

/// What a machine names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A part of it.
    Part,
    /// What kernels take on its device, or on one like it.
    OpTimes,
}

impl Named {
    fn words(self) -> &'static str {
        match self {
            Named::Part => "part",
            Named::OpTimes => "file of op times",
        }
    }

    /// Where they lie, of which one is an example.
    fn folder(self) -> (&'static str, &'static str) {
        match self {
            Named::Part => ("parts", "h100-sxm"),
            Named::OpTimes => ("op-times", "h100"),
        }
    }
}

/// The file of what the machine in the file `machine` calls `name`; `project` is the one that names
/// the machine, if another file does.
pub(crate) fn part(
    project: Option<&Project>,
    machine: &Path,
    what: Named,
    name: &str,
) -> Result<PathBuf, PathFault> {
    let (words, (folder, one)) = (what.words(), what.folder());
    if !is_plain(name) {
        let rule = format!(
            "a {words} is named by plain words with `/` between, below the machine's folder or the \
             project's `hardware-specs`"
        );
        return Err((rule, format!("write {folder}/{one} for {folder}/{one}.ron")));
    }
    let bases = bases(project, machine);
    for base in &bases {
        let folder = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let path = base.join(format!("{name}.ron"));
        if shipped::is_shipped(&path) {
            return Ok(path);
        }
        if path.symlink_metadata().is_err() {
            continue;
        }
        return match (path.canonicalize(), folder.canonicalize()) {
            (Ok(real), Ok(base)) if real.starts_with(&base) => Ok(path),
            (Ok(_), Ok(_)) => {
                let rule = "the path follows a link out of its folder";
                Err((rule.into(), "copy the file there".into()))
            }
            (Err(error), _) | (_, Err(error)) => {
                Err((format!("the path cannot be read: {error}"), "check it".into()))
            }
        };
    }
    if let Some(path) = shipped::path(&format!("{SPECS}/{name}.ron")) {
        return Ok(path);
    }
    let known = names(&bases, folder);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let rule = format!(
        "there is no {words} of this name in the machine's folder or in `hardware-specs`, and none \
         ships with tiersim"
    );
    Err((rule, choices(name, &known)))
}

/// The machine's own folder, and the specs of the project around it.
fn bases(project: Option<&Project>, machine: &Path) -> Vec<PathBuf> {
    if shipped::is_shipped(machine) {
        let own = machine.parent().map(Path::to_path_buf);
        return project.and_then(Project::specs).into_iter().chain(own).collect();
    }
    // `m.ron` in the working folder has parts `parts/x.ron`, not `./parts/x.ron`.
    let folder = machine.parent().unwrap_or(Path::new("")).to_path_buf();
    let around = Project::around(&folder).ok();
    let specs = around.filter(|around| around.folder != around.root.join(SPECS));
    [folder].into_iter().chain(specs.and_then(|around| around.specs())).collect()
}

/// Names of what is in a folder such as `parts`, and of what ships.
fn names(bases: &[PathBuf], folder: &str) -> Vec<String> {
    let all = format!("{SPECS}/{folder}");
    let shipped = shipped::specs(&all).map(|name| format!("{folder}/{name}"));
    let mut names: Vec<String> = shipped.collect();
    for file in bases.iter().flat_map(|base| entries(&base.join(folder))) {
        names.extend(file.strip_suffix(".ron").map(|name| format!("{folder}/{name}")));
    }
    names.sort();
    names.dedup();
    names
}
