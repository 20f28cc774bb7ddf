//! A trace that somebody named, whatever it is.

use crate::output::Failure;
use std::path::Path;
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::any::import_file;
use tiersim_input::project::typed;
use tiersim_input::trace::read_trace;
use tiersim_models::workload::{Gaps, Trace};

/// The trace of a folder or of a file that becomes one, and of a file what was seen on the way.
pub(crate) fn any_trace(named: &Path) -> Result<(Trace, Option<String>), Failure> {
    let path = typed(named);
    let kind = FileKind::of(&path);
    // What a file is that is none of these says its reader.
    let unknown = kind.is_none() && path.is_file();
    if unknown || kind.is_some_and(FileKind::becomes_trace) {
        let imported = import_file(&path, Gaps::Keep)?;
        return Ok((imported.trace, Some(imported.account)));
    }
    Ok((read_trace(&path)?, None))
}
