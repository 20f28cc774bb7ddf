//! Where each module's state should live, in the words of training frameworks.
//!
//! `tier_hints.json` is one flat object, `{"module": "HBM" | "CXL" | "CPU" | "SSD"}`, so that a
//! hook of ten lines can load it. The first case whose policy places modules is written; a tier of
//! another node, for which frameworks have no word, is `REMOTE`.

use crate::ChartError;
use std::collections::BTreeMap;
use tiersim_models::hardware::TierKind;
use tiersim_sim::record::RunRecord;

/// The hints as JSON, sorted by module, or `None` if no policy of the record places modules.
pub fn tier_hints(record: &RunRecord) -> Result<Option<String>, ChartError> {
    let kinds: Vec<TierKind> = record.tiers.iter().map(|(_, kind)| *kind).collect();
    let placed = record.results.iter().find_map(|case| case.placement.as_ref());
    placed.map(|placement| hints_json(placement, &kinds)).transpose()
}

/// A placement, (module, index of its tier), as JSON, sorted by module; `kinds` by tier.
pub fn hints_json(placement: &[(String, usize)], kinds: &[TierKind]) -> Result<String, ChartError> {
    let hint = |(module, tier): &(String, usize)| {
        kinds.get(*tier).map(|kind| (module.clone(), kind.hint()))
    };
    let hints: BTreeMap<String, &str> = placement.iter().filter_map(hint).collect();
    let mut json = serde_json::to_string_pretty(&hints)?;
    json.push('\n');
    Ok(json)
}
