//! What a scenario says of the statistics of a generated trace.
//!
//! `csv("file")` gives them by pattern of module names, `synthetic(seed)` has them drawn, `none`
//! refuses policies that need any.

use crate::scenario::raw::{RawStatistics, RawWorkload};
use crate::scenario::resolver::Resolver;
use crate::scenario::{Case, WorkloadSpec};
use tiersim_models::statistics::Stated;

impl Resolver<'_, '_> {
    pub(crate) fn statistics(&mut self, raw: &RawWorkload) -> Option<Stated> {
        let statistics = match raw {
            RawWorkload::Trace(_) => &None,
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
