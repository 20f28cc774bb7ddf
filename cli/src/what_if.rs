//! `--what-if`: the simulator and what a scenario reads, as files of a result folder that
//! `report.html` takes in.
//!
//! A plain build of the command has no compiler for WebAssembly to hand, so the module is a file
//! that `cargo xtask what-if` builds, looked for beside the command and in the build folder that
//! the command lies in.
//! Invariant: all that can be wrong is said before anything is simulated.

use crate::output::Failure;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_reports::{Artefact, WHAT_IF_FILES, WHAT_IF_MODULE};
use tiersim_what_if::{VERSION, checked, gather};

/// The module's file, where nobody says another.
const MODULE: &str = "tiersim.wasm";
/// Bytes of a module: twenty times of what it has.
const MOST_MODULE: u64 = 32 << 20;

/// The module, packed: the file that was named, or one that is found.
pub(crate) fn module(named: Option<&Path>) -> Result<Artefact, Failure> {
    let build = "build it with `cargo xtask what-if`";
    let path = match named {
        Some(path) => path.to_owned(),
        None => found().ok_or_else(|| {
            Failure::Input(format!(
                "--what-if: the simulator that a page holds is a file of its own, {MODULE}, which \
                 is not there; get it from the source code of tiersim {VERSION}: `cargo xtask \
                 what-if` writes target/what-if/{MODULE} there, to be copied to the folder of the \
                 command or named with --what-if=FILE; tiersim serve SCENARIO has the same sliders \
                 without it"
            ))
        })?,
    };
    let said = |what: String| Failure::Input(format!("--what-if: {}: {what}", path.display()));
    let size =
        fs::metadata(&path).map_err(|error| said(format!("cannot read: {error}; {build}")))?;
    if !size.is_file() || size.len() > MOST_MODULE {
        return Err(said(format!("it is no module of WebAssembly; {build}")));
    }
    let bytes = fs::read(&path).map_err(|error| said(format!("cannot read: {error}; {build}")))?;
    checked(&bytes).map_err(|what| said(format!("{what}; {build}")))?;
    Ok(Artefact::new(WHAT_IF_MODULE, bytes))
}

/// Beside the command, or beside the folder of its profile: `target/what-if` of `target/release`.
fn found() -> Option<PathBuf> {
    let command = env::current_exe().ok()?;
    let folder = command.parent()?;
    let places = [Some(folder.to_owned()), folder.parent().map(|above| above.join("what-if"))];
    let mut files = places.into_iter().flatten().map(|place| place.join(MODULE));
    files.find(|file| file.is_file())
}

/// What a scenario reads, packed.
pub(crate) fn files(scenario: &Path, set: &[(String, String)]) -> Result<Artefact, Failure> {
    let bundle = gather(scenario, set)
        .map_err(|why| Failure::Input(format!("--what-if: {}: {why}", scenario.display())))?;
    Ok(Artefact::new(WHAT_IF_FILES, bundle.packed()))
}
