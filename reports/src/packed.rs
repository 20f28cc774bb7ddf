//! What tiers store packed: for `summary.json` and for the table.
//!
//! Counted are all objects that a tier would store so, were they there: which of them come there is
//! the policy's matter. Invariant: a case without formats leaves no trace.

use crate::words::clean;
use serde_json::{Value, json};
use tiersim_models::compression::Packed;
use tiersim_models::results::{CaseRecord, RunRecord};
use tiersim_models::units::Bytes;

/// One row per format and tier.
pub(crate) fn summary(record: &RunRecord, case: &CaseRecord) -> Value {
    let row = |Packed { format, tier, objects, raw, stored }: &Packed| {
        json!({
            "format": format,
            "tier": record.of(case).tier_name(tier.index()),
            "objects": objects,
            "bytes": wide(*raw),
            "stored_bytes": wide(*stored),
        })
    };
    match case.packed.as_slice() {
        [] => Value::Null,
        rows => rows.iter().map(row).collect(),
    }
}

/// `zstd in nvme: 120 objects, 3.0 GiB in 2.5 GiB`.
pub(crate) fn words(record: &RunRecord, case: &CaseRecord) -> Option<String> {
    let row = |Packed { format, tier, objects, raw, stored }: &Packed| {
        let (format, tier) = (clean(format), clean(record.of(case).tier_name(tier.index())));
        let plural = if *objects == 1 { "object" } else { "objects" };
        let [raw, stored] = [raw, stored].map(|bytes| Bytes::new(wide(*bytes)));
        format!("{format} in {tier}: {objects} {plural}, {raw} in {stored}")
    };
    let rows: Vec<String> = case.packed.iter().map(row).collect();
    (!rows.is_empty()).then(|| rows.join("; "))
}

/// A sum of sizes, as far as 64 bits count.
fn wide(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{common, summary_json};
    use tiersim_models::ids::TierId;

    #[test]
    fn what_is_packed_is_told_by_format_and_tier() {
        let mut record = common::training();
        let json = summary_json(&record, "0").expect("a summary");
        assert!(!json.contains("stored_bytes"), "nothing is packed");
        assert_eq!(words(&record, &record.results[0]), None);
        let packed = Packed {
            format: "zstd".to_owned(),
            tier: TierId(1),
            objects: 1,
            raw: 3 << 30,
            stored: 2 << 30,
        };
        record.results[0].packed = vec![packed];
        let tier = record.base().tier_name(1).to_owned();
        let words = words(&record, &record.results[0]);
        assert_eq!(words, Some(format!("zstd in {tier}: 1 object, 3.000 GiB in 2.000 GiB")));
        let json = summary_json(&record, "0").expect("a summary");
        let json: Value = serde_json::from_str(&json).expect("it is JSON");
        let rows = &json["results"][0]["packed"];
        let row = json!([{"format": "zstd", "tier": tier, "objects": 1,
            "bytes": 3u64 << 30, "stored_bytes": 2u64 << 30}]);
        assert_eq!(rows, &row);
    }
}
