//! Where each module's state should live, in the words of training frameworks.
//!
//! `tier_hints.json` is one flat object, `{"module": "HBM" | "CXL" | "CPU" | "SSD"}`, so that a
//! hook of ten lines can load it. The first case whose policy places modules is written; a tier of
//! another node, for which frameworks have no word, is `REMOTE`.

use crate::ChartError;
use std::collections::BTreeMap;
use tiersim_sim::record::RunRecord;

/// The hints as JSON, sorted by module, or `None` if no policy of the record places modules.
pub fn tier_hints(record: &RunRecord) -> Result<Option<String>, ChartError> {
    let Some(placement) = record.results.iter().find_map(|case| case.placement.as_ref()) else {
        return Ok(None);
    };
    let hints: BTreeMap<&str, &str> = placement
        .iter()
        .filter_map(|(module, tier)| {
            record.tiers.get(*tier).map(|(_, kind)| (module.as_str(), kind.hint()))
        })
        .collect();
    let mut json = serde_json::to_string_pretty(&hints)?;
    json.push('\n');
    Ok(Some(json))
}
