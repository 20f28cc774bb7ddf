//! Tables of statistics by pattern of module names.

use crate::trace::rows::{Row, read_rows};
use crate::trace::tables::{Findings, Limits, Source};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::statistics::Given;
use tiersim_models::workload::Statistics;

const COLUMNS: &str = "module adam_m? adam_v? grad_norm?";
/// Most bytes of a file, unpacked.
const LIMITS: Limits = Limits { expanded: 16 << 20, ratio: 200, free: 1 << 20 };

/// Reads a table of statistics by pattern of module names.
pub(crate) fn read_statistics(path: &Path) -> Result<Vec<Given>, Diagnostics> {
    let source = Source::at(path.to_owned(), true, LIMITS)?;
    let (mut findings, mut rows) = (Findings::default(), Vec::new());
    let each = |row: &mut Row<'_>| {
        let pattern = row.text("module").to_owned();
        let mut value = |name: &str| {
            let value = row.real_or_none(name);
            if value.is_some_and(|value| value < 0.0) {
                let rule = format!("`{name}` is a mean of sizes, so not below 0");
                row.problem(rule, format!("{value:?}"), "write 0 or more");
            }
            value
        };
        let statistics = Statistics {
            adam_m: value("adam_m"),
            adam_v: value("adam_v"),
            grad_norm: value("grad_norm"),
        };
        rows.push(Given { pattern, statistics });
    };
    read_rows(source, COLUMNS, None, &mut findings, each);
    findings.finish().into_result(rows)
}
