//! What resolving a scenario carries along: the document's problems, and the files that it names.

use crate::scenario::files::Files;
use crate::text::check::Check;
use tiersim_models::diagnostic::{Diagnostics, Warning};

/// Most policies or expectations of one file.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// One scenario being resolved; each part of a scenario adds methods of its own.
pub(crate) struct Resolver<'d, 'f> {
    pub(crate) check: Check<'d>,
    pub(crate) files: &'f mut Files,
    /// Mistakes of form, and problems with other files.
    pub(crate) outside: Diagnostics,
    /// What should be looked at in files that are right.
    pub(crate) warnings: Vec<Warning>,
}
