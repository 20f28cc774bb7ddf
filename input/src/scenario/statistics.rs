//! What a scenario says of the statistics of a generated trace.
//!
//! `csv("file")` gives them by pattern of module names, `synthetic(seed)` has them drawn, `none`
//! refuses policies that need any.

use crate::scenario::raw::{RawStatistics, RawWorkload};
use crate::scenario::resolver::Resolver;
use crate::scenario::{Case, WorkloadSpec};
use crate::trace::rows::{Row, read_rows};
use crate::trace::tables::{Findings, Limits, Source};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::statistics::{Given, Stated};
use tiersim_models::workload::Statistics;

const COLUMNS: &str = "module adam_m? adam_v? grad_norm?";
/// Most bytes of a file, unpacked.
const LIMITS: Limits = Limits { expanded: 16 << 20, ratio: 200, free: 1 << 20 };

impl Resolver<'_, '_> {
    pub(crate) fn statistics(&mut self, raw: &RawWorkload) -> Option<Stated> {
        let statistics = match raw {
            RawWorkload::Trace(_) => &None,
            RawWorkload::Layered(raw) => &raw.statistics,
            RawWorkload::Model(raw) => &raw.statistics,
        };
        let file = match statistics {
            None => return Some(Stated::MadeUp),
            Some(RawStatistics::None) => return Some(Stated::Nothing),
            Some(RawStatistics::Synthetic(seed)) => return Some(Stated::Synthetic(*seed)),
            Some(RawStatistics::Csv(file)) => file,
        };
        let found = self.files.statistics(file);
        self.good("workload.statistics", found).map(|rows| Stated::Given(rows.to_vec()))
    }

    /// Refuses cases whose policies rank by statistics where the scenario says that there are none.
    pub(crate) fn refuse_without(&mut self, spec: Option<&WorkloadSpec>, cases: &[Case]) {
        if spec.is_none_or(|spec| spec.statistics != Stated::Nothing) {
            return;
        }
        for (index, case) in cases.iter().enumerate() {
            if case.policy.uses_statistics() {
                let rule = format!(
                    "policy {:?} ranks by statistics of training, and the workload says \
                     `statistics: none`",
                    case.name()
                );
                let remedy = "write `statistics: csv(\"file.csv\")` or `synthetic(seed)` in the \
                              workload, or choose another policy";
                self.check.fault(&format!("policies.{index}.policy"), rule, remedy);
            }
        }
    }
}

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
