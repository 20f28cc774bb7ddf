//! Rows of tables without our header, one at a time.
//!
//! Invariant: a row is handed out only where nothing was wrong before it; the rest of the file is
//! then only looked at, up to a number of problems.

use super::LIMITS;
use crate::trace::layout::Layout;
use crate::trace::rows::{Row, Rows};
use crate::trace::tables::{Findings, Source};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Problems of a table after which it is not read on.
const ENOUGH: u64 = 50;

/// The rows of a file.
pub(super) struct ForeignRows {
    rows: Rows,
    findings: Findings,
}

impl ForeignRows {
    pub(super) fn open(path: &Path, layout: Layout) -> Result<ForeignRows, Diagnostics> {
        let source = Source::by_magic(path.to_owned(), layout.quotes, LIMITS)?;
        Ok(ForeignRows { rows: Rows::laid_out(source, layout), findings: Findings::default() })
    }

    /// What `read` makes of the next row of which it makes something; none at the end.
    pub(super) fn next<T>(
        &mut self,
        mut read: impl FnMut(&mut Row<'_>) -> Option<T>,
    ) -> Result<Option<T>, Diagnostics> {
        while self.findings.count() < ENOUGH {
            let Some(row) = self.rows.next(&mut self.findings) else { break };
            let made = row.and_then(|mut row| read(&mut row));
            if made.is_some() && self.findings.is_empty() {
                return Ok(made);
            }
        }
        match self.findings.is_empty() {
            true => Ok(None),
            false => Err(std::mem::take(&mut self.findings).finish()),
        }
    }
}
