//! Memory that no object can have: for `summary.json` and for the table.
//!
//! Invariant: a case without any leaves no trace.

use crate::words::clean;
use serde_json::{Map, Value, json};
use tiersim_models::results::{CaseRecord, RunRecord};

/// Bytes by tier and by what they are for.
pub(crate) fn hidden_bytes(record: &RunRecord, case: &CaseRecord) -> Map<String, Value> {
    let mut tiers = Map::new();
    for (tier, what, bytes) in &case.hidden {
        let own =
            tiers.entry(record.of(case).tier_name(*tier).to_owned()).or_insert_with(|| json!({}));
        own[&**what] = json!(bytes.get());
    }
    tiers
}

/// `hbm: context 423 MiB, driver 438 MiB; dram: bounce 32 MiB`.
pub(crate) fn hidden_words(record: &RunRecord, case: &CaseRecord) -> Option<String> {
    let of = |tier: usize| {
        let own = case.hidden.iter().filter(|(own, ..)| *own == tier);
        let own: Vec<String> = own.map(|(_, what, bytes)| format!("{what} {bytes}")).collect();
        let name = clean(record.of(case).tier_name(tier));
        (!own.is_empty()).then(|| format!("{name}: {}", own.join(", ")))
    };
    let all: Vec<String> = (0..record.of(case).tiers.len()).filter_map(of).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{common, summary_json};
    use tiersim_models::units::Bytes;

    #[test]
    fn hidden_memory_is_told_by_tier_and_kind() {
        let mut record = common::training();
        let json = summary_json(&record, "0").expect("a summary");
        assert!(!json.contains("hidden_bytes"), "nothing is hidden");
        assert_eq!(hidden_words(&record, &record.results[0]), None);
        let (context, bounce) = (Bytes::mib(423), Bytes::mib(32));
        record.results[0].hidden =
            vec![(0, "context".into(), context), (1, "bounce".into(), bounce)];
        let words = hidden_words(&record, &record.results[0]).expect("something is hidden");
        let names = [0, 1].map(|tier: usize| record.base().tier_name(tier).to_owned());
        assert_eq!(
            words,
            format!("{}: context 423.0 MiB; {}: bounce 32.0 MiB", names[0], names[1])
        );
        let bytes = hidden_bytes(&record, &record.results[0]);
        assert_eq!(bytes[&names[0]], json!({"context": 423u64 << 20}));
        assert_eq!(bytes[&names[1]], json!({"bounce": 32u64 << 20}));
    }
}
