//! The charts of a result folder: a list.
//!
//! A chart is one module, which makes charts of a record, and one line here, which says how its
//! files are called. Whether a file of a folder is a chart of ours is asked of the same list.
//! Invariant: every chart that is made is named by a line of the list.

use crate::render::Charts;
use crate::sheet::Made;
use crate::{cdf, channel_use, fragmentation, heat_map};
use crate::{latency_cost, latency_memory, multiples, occupancy};
use tiersim_models::results::RunRecord;

/// How files are called, `*` for what varies, and what they are made by.
type Kind = (&'static [&'static str], fn(&RunRecord, Made<'_>) -> Charts);

/// In the order of the folder.
const CHARTS: [Kind; 8] = [
    (&["*-vs-memory"], latency_memory::charts),
    (&["threshold-heat-map"], heat_map::charts),
    (&["*-by-panel"], multiples::charts),
    (&["*-vs-cost", "*-vs-energy"], latency_cost::charts),
    (&["*-cdf"], cdf::charts),
    (&["fragmentation*"], fragmentation::charts),
    (&["occupancy"], occupancy::charts),
    (&["channel-use"], channel_use::charts),
];

/// Those of `explain` and `solve`, whose folders hold nothing else.
const OF_QUESTIONS: [&str; 4] = ["elasticities", "step-gantt", "split-by-phase", "solve"];

/// How many kinds there are.
pub(crate) const KINDS: usize = CHARTS.len();

/// All of a kind that a record has.
pub(crate) fn of_kind(kind: usize, record: &RunRecord, made: Made<'_>) -> Charts {
    CHARTS[kind].1(record, made)
}

/// All that a record has.
#[cfg(test)]
pub(crate) fn of(record: &RunRecord, made: Made<'_>) -> Charts {
    (0..KINDS).flat_map(|kind| of_kind(kind, record, made)).collect()
}

/// Whether a chart's file, without its ending, is of this name.
pub(crate) fn named(stem: &str) -> bool {
    let like = |pattern: &str| match pattern.split_once('*') {
        None => stem == pattern,
        Some((head, tail)) => {
            stem.len() >= pattern.len() - 1 && stem.starts_with(head) && stem.ends_with(tail)
        }
    };
    CHARTS.iter().flat_map(|(names, _)| *names).any(|pattern| like(pattern))
        || OF_QUESTIONS.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn every_chart_of_a_record_is_named_by_the_list() {
        for record in common::all() {
            for (name, _) in of(&record, "0".into()) {
                assert!(named(&name), "{name}");
            }
        }
        for other in ["notes", "cdf", "my-picture", "-vs-memor", "occupancy-2"] {
            assert!(!named(other), "{other}");
        }
    }
}
