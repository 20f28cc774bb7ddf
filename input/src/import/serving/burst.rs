//! BurstGPT (Wang et al., "BurstGPT: A Real-world Workload Dataset", KDD 2025): a table of arrivals
//! and lengths of a service of several months, without contents.
//!
//! `Timestamp` is in seconds since the first day began. A request that failed has no tokens in its answer: it is
//! left out, and counted.

use super::table::{Arrival, Table, seconds};
use crate::trace::rows::Row;

/// What the table says. Releases from 2.0 on have two columns more than the first.
pub(super) const TABLE: Table = Table {
    told_by: &["Timestamp", "Request tokens"],
    columns: "Timestamp,Request tokens,Response tokens,*?",
    ps: 1000,
    failures: true,
    arrival,
};

fn arrival(row: &mut Row<'_>) -> Arrival {
    let at = seconds(row, "Timestamp");
    Arrival { at, prompt: row.whole("Request tokens"), output: row.whole("Response tokens") }
}
