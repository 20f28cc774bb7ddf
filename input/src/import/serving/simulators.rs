//! Tables of requests that other simulators of serving come with: Vidur's
//! (github.com/microsoft/vidur, `data/processed_traces`) and splitwise-sim's
//! (github.com/Mutinifni/splitwise-sim, `traces`).
//!
//! Both write arrivals in seconds.

use super::table::{Arrival, Table, seconds};
use crate::trace::rows::Row;

/// Vidur's.
pub(super) const VIDUR: Table = Table {
    told_by: &["arrived_at", "num_prefill_tokens"],
    columns: "arrived_at,num_prefill_tokens,num_decode_tokens,*?",
    ps: 1000,
    failures: false,
    arrival: of_vidur,
};

/// That of splitwise-sim.
pub(super) const SPLITWISE: Table = Table {
    told_by: &["arrival_timestamp", "prompt_size"],
    columns: "arrival_timestamp,prompt_size,token_size,*?",
    ps: 1000,
    failures: false,
    arrival: of_splitwise,
};

fn of_vidur(row: &mut Row<'_>) -> Arrival {
    let at = seconds(row, "arrived_at");
    let [prompt, output] = ["num_prefill_tokens", "num_decode_tokens"].map(|name| row.whole(name));
    Arrival { at, prompt, output }
}

fn of_splitwise(row: &mut Row<'_>) -> Arrival {
    let at = seconds(row, "arrival_timestamp");
    let [prompt, output] = ["prompt_size", "token_size"].map(|name| row.whole(name));
    Arrival { at, prompt, output }
}
