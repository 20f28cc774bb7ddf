//! A trace that somebody named, whatever it is.

use crate::output::Failure;
use std::path::Path;
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::any::{file_or_folder, import_device};
use tiersim_input::project::typed;
use tiersim_input::trace::read_trace;
use tiersim_models::workload::{Gaps, Trace};

/// The trace of a folder or of a file that becomes one, and of a file what was seen on the way.
pub(crate) fn any_trace(named: &Path) -> Result<(Trace, Option<String>), Failure> {
    device_trace(named, None)
}

/// The same, of one device of a recording of several.
pub(crate) fn device_trace(
    named: &Path,
    device: Option<u32>,
) -> Result<(Trace, Option<String>), Failure> {
    let path = typed(named);
    let kind = FileKind::of(&path);
    file_or_folder(&path)?;
    // What a file is that is none of these says its reader.
    let unknown = kind.is_none() && (path.is_file() || path.is_dir());
    if unknown || kind.is_some_and(FileKind::becomes_trace) {
        let imported = import_device(&path, Gaps::Keep, device)?;
        return Ok((imported.trace, Some(imported.account)));
    }
    if let Some(number) = device {
        let text = "the folder of a trace is of one device; leave --device out";
        return Err(Failure::Input(format!("{}: --device {number}: {text}", named.display())));
    }
    Ok((read_trace(&path)?, None))
}
