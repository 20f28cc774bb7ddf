//! Reads a machine: `hardware-specs/*.ron` -> [`Hardware`].
//!
//! Every number of the file is written with its source and becomes a
//! [`Fact`](tiersim_models::hardware::Fact); a number without one does not parse. The only numbers
//! without a source are `chunk`, for how finely the simulator cuts a copy is its own choice and no
//! property of the machine, and how many `devices` a server has. A machine may be put together from
//! [`parts`]; the rules see one file all the same.
//! Invariant: a returned machine obeys every rule of these files, all of which are checked before
//! any problem is reported.

pub mod changed;
mod compute;
mod hidden;
mod links;
mod machine;
mod nodes;
pub mod parts;
mod raw;
mod read_times;
mod resolver;
mod server;
mod tiers;
pub mod told;
pub mod write;

use crate::file_kind::{FileKind, refused};
use crate::project::Project;
use crate::text::ron_text::Document;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;

pub use crate::text::choices::SCHEMA;

/// Reads and checks a hardware file; the machine is called like the file.
pub fn read_hardware(path: &Path) -> Result<Hardware, Diagnostics> {
    read(path, None)
}

/// Reads and checks a machine that `project` names: one that ships may have parts of the project.
pub fn read_hardware_of(path: &Path, project: &Project) -> Result<Hardware, Diagnostics> {
    read(path, Some(project))
}

/// Checks a hardware document.
pub fn resolve_hardware(document: &Document, name: String) -> Result<Hardware, Diagnostics> {
    parts::resolve(document, name, None)
}

fn read(path: &Path, project: Option<&Project>) -> Result<Hardware, Diagnostics> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let read = || parts::resolve(&Document::read(path)?, name, project);
    read().map_err(|said| refused(path, &[FileKind::Hardware], said))
}
