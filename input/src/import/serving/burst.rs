//! BurstGPT (Wang et al., "BurstGPT: A Real-world Workload Dataset", KDD 2025): a table of arrivals
//! and lengths of a service of several months, without contents.
//!
//! `Timestamp` is in seconds since the first day began. A request that failed has no tokens in its answer: it is
//! left out, and counted.
//! Invariant: columns that say nothing of arrivals and lengths may be there or not.

use super::table::{Arrival, Table};
use crate::trace::rows::{Row, whole_number};

/// What the table says. Releases from 2.0 on have two columns more.
pub(super) const TABLE: Table = Table {
    columns: "Timestamp,Session ID?,Elapsed time?,Model?,Request tokens,Response tokens,\
              Total tokens?,Log Type?",
    ps: 1000,
    failures: true,
    arrival,
};

/// Whether a header is that of this table.
pub(crate) fn is_header(header: &str) -> bool {
    let mut columns = header.split(',');
    columns.next() == Some("Timestamp") && columns.any(|column| column == "Request tokens")
}

fn arrival(row: &mut Row<'_>) -> Arrival {
    let text = row.text("Timestamp").to_owned();
    let at = nanoseconds(&text).unwrap_or_else(|| {
        let rule = "Timestamp is seconds from 0 on, with up to nine decimals";
        row.problem(rule, format!("{text:?}"), "write it as in 45 or 45.5");
        0
    });
    Arrival { at, prompt: row.whole("Request tokens"), output: row.whole("Response tokens") }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let scale = 10u64.pow(9u32.checked_sub(u32::try_from(decimals.len()).ok()?)?);
    let fraction = whole_number(decimals)? * scale;
    whole_number(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}
