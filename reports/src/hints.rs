//! Where each module's state should live, in the words of training frameworks.
//!
//! `tier_hints.json` is one flat object, `{"module": "HBM" | "CXL" | "CPU" | "SSD"}`, so that a
//! hook of ten lines can load it; one entry, whose name no module has, says of which run it is. The
//! first case whose policy places modules is written; a tier of another node, for which frameworks
//! have no word, is `REMOTE`.

use crate::words::count;
use crate::{ChartError, pretty};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiersim_models::hardware::TierKind;
use tiersim_models::results::hints::{FINGERPRINT, HintMatch, HintMatches, How};
use tiersim_models::results::{CaseRecord, RunRecord};

/// What became of each hint.
pub(crate) fn summary(found: &HintMatches) -> Value {
    let fitting = |hint: &HintMatch| json!({ "how": hint.how.word(), "modules": hint.modules });
    let each = found.hints.iter();
    let unmatched = each.clone().filter(|hint| hint.how == How::Nothing).map(|hint| &hint.hint);
    json!({
        "by_name": found.count(How::Name),
        "by_prefix": found.count(How::Prefix),
        "by_parent": found.count(How::Parent),
        "unmatched": unmatched.collect::<Vec<_>>(),
        "unhinted": found.unhinted,
        "matches": each.map(|hint| (&hint.hint, fitting(hint))).collect::<BTreeMap<_, _>>(),
    })
}

/// A sentence about a case that follows hints.
pub(crate) fn words(case: &CaseRecord) -> Option<String> {
    let found = case.hints.as_ref()?;
    let ways = [How::Name, How::Prefix, How::Parent, How::Nothing];
    let ways = ways.map(|how| (how, found.count(how)));
    let part = |&(how, number): &(How, usize)| match how {
        _ if number == 0 => None,
        How::Name => Some(format!("{number} by name")),
        How::Prefix => Some(format!("{number} without prefixes")),
        How::Parent => Some(format!("{number} as parents")),
        How::Nothing => Some(format!("{number} fit nothing")),
    };
    let parts: Vec<String> = ways.iter().filter_map(part).collect();
    let hints = count(found.hints.len(), "hint", "hints");
    let mut words = format!("{hints}: {}", parts.join(", "));
    let alone = found.unhinted.len();
    if alone > 0 {
        let modules = count(alone, "module", "modules");
        words += &format!("; {modules} with weights and no hint in HBM");
    }
    Some(words)
}

/// The hints as JSON, sorted by module, or `None` if no policy of the record places modules.
pub(crate) fn tier_hints(record: &RunRecord) -> Result<Option<String>, ChartError> {
    let placed = record.results.iter().find(|case| case.placement.is_some());
    let hints = placed.and_then(|case| Some((record.of(case), case.placement.as_ref()?)));
    let hints = hints.map(|(on, placement)| {
        let kinds: Vec<TierKind> = on.tiers.iter().map(|(_, kind)| *kind).collect();
        let placed: Vec<(String, usize)> =
            placement.iter().map(|(module, tier)| (module.to_owned(), tier)).collect();
        hints_json(&placed, &kinds, &record.fingerprint)
    });
    hints.transpose()
}

/// A placement, (module, index of its tier), as JSON, sorted by module; `kinds` by tier. What it
/// was worked out from is in one entry beside those of modules.
pub fn hints_json(
    placement: &[(String, usize)],
    kinds: &[TierKind],
    fingerprint: &str,
) -> Result<String, ChartError> {
    let hint = |(module, tier): &(String, usize)| {
        kinds.get(*tier).map(|kind| (module.clone(), kind.hint()))
    };
    let mut hints: BTreeMap<String, &str> = placement.iter().filter_map(hint).collect();
    hints.insert(FINGERPRINT.to_owned(), fingerprint);
    pretty(&hints)
}
