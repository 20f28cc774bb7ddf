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
    Ok(match FileKind::of(&path).filter(|kind| kind.becomes_trace()) {
        Some(_) => {
            let imported = import_file(&path, Gaps::Keep)?;
            (imported.trace, Some(imported.account))
        }
        None => (read_trace(&path)?, None),
    })
}
