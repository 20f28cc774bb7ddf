//! What every switch of a job saves and costs, as text and as JSON, behind the job's account.

use crate::memory_fit::{ESTIMATES, FitTarget, UNKNOWN, figure, gib, of_fit, of_target, room};
use crate::memory_table::{Json, entries, entry, memory_text};
use crate::text_table::{Side, cells, text_table};
use crate::{ChartError, pretty};
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_fit::{Fit, SwitchTable};

/// What is held less than before, below zero where it is more.
const SAVED: [&str; 3] =
    ["saved_gpu_bytes", "saved_cpu_bytes_per_node", "saved_nvme_bytes_per_node"];

/// The account and its switches, as JSON.
pub fn memory_switches_json(
    account: &Account,
    target: &FitTarget,
    found: &SwitchTable,
    version: &str,
) -> Result<String, ChartError> {
    let mut all = entries(account, version);
    let side = |fit: &Fit, fits: bool, from: &Fit| {
        let mut side = of_fit(fit);
        side.push(entry("fits", Json::Flag(fits)));
        side.extend(SAVED.into_iter().enumerate().map(|(at, key)| {
            let bytes = |fit: &Fit| i128::try_from(fit.bytes[at]).unwrap_or(i128::MAX);
            (key.to_owned(), Json::Signed(bytes(from) - bytes(fit)))
        }));
        Json::Map(side)
    };
    let mut before = &found.base;
    let mut rows = Vec::new();
    for row in &found.rows {
        rows.push(Json::Map(vec![
            entry("alone", side(&row.alone, row.alone_fits, &found.base)),
            entry("in_turn", side(&row.in_turn, row.in_turn_fits, before)),
        ]));
        before = &row.in_turn;
    }
    let mut table = of_target(target);
    table.push(entry("as_typed", side(&found.base, found.base_fits, &found.base)));
    table.push(entry("switches", Json::List(rows)));
    all.push(entry("table", Json::Map(table)));
    pretty(&Json::Map(all))
}

/// The account and its switches, as text.
pub fn memory_switches_text(account: &Account, target: &FitTarget, found: &SwitchTable) -> String {
    let mut text = memory_text(account) + &room("switch by switch on", target) + &rows(found);
    let sides = || found.rows.iter().flat_map(|row| [&row.alone, &row.in_turn]);
    if sides().chain([&found.base]).any(|fit| fit.seconds.is_none()) {
        text += UNKNOWN;
    }
    text += "  note: alone is beside the job as typed, in turn with all switches above it\n";
    text +=
        "  note: saved is what a GPU holds less than as typed; x is the step over that as typed\n";
    text + ESTIMATES
}

fn word(fits: bool) -> &'static str {
    if fits { "yes" } else { "no" }
}

/// What a job holds less than another, in GiB.
fn less(fit: &Fit, from: &Fit) -> String {
    format!("{:.3}", gib(from.bytes[0]) - gib(fit.bytes[0]))
}

fn rows(found: &SwitchTable) -> String {
    let base = &found.base;
    let mut rows = vec![
        cells(["alone", "", "", "", "in turn", "", "", "", "", "", ""]),
        cells([
            "saved GiB",
            "s/step",
            "x",
            "fits",
            "GPU GiB",
            "host GiB/node",
            "NVMe GiB",
            "s/step",
            "x",
            "fits",
            "switch",
        ]),
    ];
    let in_turn = |fit: &Fit, fits: bool| {
        let mut side: Vec<String> = fit.bytes.map(|bytes| format!("{:.3}", gib(bytes))).to_vec();
        side.extend([figure(fit.seconds), figure(fit.slowdown), word(fits).to_owned()]);
        side
    };
    let mut row: Vec<String> = vec![String::new(); 4];
    row.extend(in_turn(base, found.base_fits));
    row.push("as typed".to_owned());
    rows.push(row);
    for switched in &found.rows {
        let alone = &switched.alone;
        let mut row = vec![
            less(alone, base),
            figure(alone.seconds),
            figure(alone.slowdown),
            word(switched.alone_fits).to_owned(),
        ];
        row.extend(in_turn(&switched.in_turn, switched.in_turn_fits));
        row.push(alone.changes.join(" "));
        rows.push(row);
    }
    text_table(2, &[Side::Right; 10], &rows)
}
