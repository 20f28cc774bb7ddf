//! Where the file of a part is.
//!
//! A machine comes from anywhere and names parts, so only plain names are read, below the machine's
//! own folder or below the `hardware-specs` of the project around it, and links that lead out of that
//! folder are refused.

use crate::scenario::files::{PathFault, SPECS};
use crate::text::ron_error::choices;
use std::path::{Path, PathBuf};

/// Most names of parts that are looked through for a near one.
const MAX_LISTED: usize = 1000;

/// The file of the part that the machine in the file `machine` calls `name`.
pub(super) fn find(machine: &Path, name: &str) -> Result<PathBuf, PathFault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let segment = |segment: &str| {
        !segment.starts_with('.') && !segment.is_empty() && segment.chars().all(plain)
    };
    if name.len() > 200 || !name.split('/').all(segment) {
        let rule = "a part is named by plain words with `/` between, below the machine's folder or \
                    the project's `hardware-specs`";
        let remedy = "write parts/h100-sxm for parts/h100-sxm.ron";
        return Err((rule.into(), remedy.into()));
    }
    let bases = bases(machine);
    for base in &bases {
        let folder = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let path = base.join(format!("{name}.ron"));
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
    let known = parts(&bases);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let rule = "there is no part of this name in the machine's folder or in `hardware-specs`";
    let remedy = if known.is_empty() {
        "there is none in a folder `parts` there".to_string()
    } else {
        choices(name, &known)
    };
    Err((rule.into(), remedy))
}

/// The machine's own folder, and the specs of the project around it.
fn bases(machine: &Path) -> Vec<PathBuf> {
    let folder = match machine.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // `m.ron` in the working folder has parts `parts/x.ron`, not `./parts/x.ron`.
    let mut bases = vec![machine.parent().unwrap_or(folder).to_path_buf()];
    let real = folder.canonicalize().unwrap_or_default();
    let specs = real.ancestors().map(|above| above.join(SPECS)).find(|specs| specs.is_dir());
    bases.extend(specs.filter(|specs| *specs != real));
    bases
}

/// Names of what is in a folder `parts`.
fn parts(bases: &[PathBuf]) -> Vec<String> {
    let mut names = Vec::new();
    for base in bases {
        let Ok(entries) = std::fs::read_dir(base.join("parts")) else { continue };
        let files = entries.flatten().take(MAX_LISTED).map(|entry| entry.file_name());
        let files = files.filter_map(|file| file.into_string().ok());
        names.extend(files.filter_map(|f| f.strip_suffix(".ron").map(|f| format!("parts/{f}"))));
    }
    names.sort();
    names.dedup();
    names
}
