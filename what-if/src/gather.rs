//! From a scenario on a disk to its bundle.
//!
//! The scenario is read and its trace is made, and every file that this opened goes into the
//! bundle: so whatever a scenario may name is there, and nothing else is sent along. What is packed
//! by gzip or Zstandard goes there unpacked, to be packed with the others. A recording of another
//! program goes there as the trace that it becomes: a folder of the recording's name. Then the
//! bundle is read as a page will, from memory alone, which shows that nothing is missing.
//! Invariant: a bundle that is returned can be loaded, and asks the same question as the file.

use crate::bundle::MOST_BYTES;
use crate::session::read_sole;
use crate::{Bundle, Ready, Refusal, Set};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tiersim_input::held::{hold, noted};
use tiersim_input::packed::plain;
use tiersim_input::shipped;
use tiersim_input::trace::{Named, trace_files};
use tiersim_input::traces::read_traces;
use tiersim_policies::scenario::TraceSource;
use tiersim_policies::zoo::Registry;

/// The bundle of a scenario with what is set of it.
///
/// # Errors
/// In words: the scenario cannot be read or names several machines, a file is too large for a page,
/// or it cannot be found again by its name.
pub fn gather(scenario: &Path, set: &[Set]) -> Result<Bundle, String> {
    let (read, opened) = noted(|| read(scenario, set));
    let recorded = read?;
    let said = |error| format!("{}: cannot read: {error}", scenario.display());
    let folder = scenario.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = match folder.unwrap_or(Path::new(".")) {
        // What ships lies in no folder of a disk.
        embedded if embedded.starts_with(shipped::EMBEDDED) => embedded.to_owned(),
        folder => folder.canonicalize().map_err(said)?,
    };
    let root = tiersim_input::project::Project::around(&folder).map_err(said)?.root().to_owned();
    let whole = |path: &Path| match path == scenario {
        true => folder.join(path.file_name().unwrap_or_default()),
        false => path.to_owned(),
    };
    let mut bundle =
        Bundle { scenario: String::new(), set: set.to_vec(), files: BTreeMap::default() };
    let mut total = 0;
    for path in opened {
        let name = name(&whole(&path), &root)?;
        if let Some((_, files)) = recorded.as_ref().filter(|(file, _)| *file == path) {
            for (table, text) in files {
                total = sum(&path, total, text.len() as u64)?;
                bundle.files.insert(format!("{name}/{table}"), text.clone().into_bytes());
            }
            continue;
        }
        let Some(held) = bytes(&path, MOST_BYTES - total)? else { continue };
        total += held.len() as u64;
        if path == scenario {
            bundle.scenario.clone_from(&name);
        }
        bundle.files.insert(name, held);
    }
    let loaded = Ready::load(&bundle);
    // What the command reads next is on its disk.
    hold(BTreeMap::default());
    loaded.map_err(|why| format!("read from a page alone it is refused: {why}"))?;
    Ok(bundle)
}

/// A recording, and the files of the trace that it becomes.
type Recorded = (PathBuf, Vec<Named>);

/// Reads all that a run reads.
fn read(scenario: &Path, set: &[Set]) -> Result<Option<Recorded>, Refusal> {
    let scenario = read_sole(scenario, set, &Registry::default())?;
    let traces = read_traces([&scenario])?;
    let TraceSource::Recording { file, .. } = &scenario.workload.trace else { return Ok(None) };
    let files = trace_files(&traces.of(&scenario).trace, file)?;
    Ok(Some((file.clone(), files)))
}

/// The name below its project of a file, or of what ships.
fn name(path: &Path, root: &Path) -> Result<String, String> {
    let below = path.strip_prefix(shipped::EMBEDDED).or_else(|_| path.strip_prefix(root));
    let name = below.ok().and_then(|path| {
        let parts = path.components().map(|part| part.as_os_str().to_str());
        Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
    });
    name.ok_or_else(|| {
        format!("{} lies outside the project, so it cannot be found in a page", path.display())
    })
}

/// Bytes of all files, with those that a file comes to.
fn sum(path: &Path, total: u64, more: u64) -> Result<u64, String> {
    if more > MOST_BYTES - total { Err(too_large(path)) } else { Ok(total + more) }
}

fn too_large(path: &Path) -> String {
    let most = MOST_BYTES >> 20;
    format!("{} and the others are more than the {most} MiB that a page takes", path.display())
}

/// What a file holds, unpacked, if it is there.
fn bytes(path: &PathBuf, most: u64) -> Result<Option<Vec<u8>>, String> {
    let said = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(path),
        _ => format!("{}: cannot read: {error}", path.display()),
    };
    let held = match shipped::bytes(path) {
        Some(held) => held.to_vec(),
        None => {
            let Ok(found) = fs::metadata(path) else { return Ok(None) };
            if found.len() > most {
                return Err(said(io::ErrorKind::FileTooLarge.into()));
            }
            fs::read(path).map_err(said)?
        }
    };
    plain(held, most).map(Some).map_err(said)
}
