//! What makes a job fit, as text and as JSON, behind its account.
//!
//! Invariant: an estimate that rests on a missing rate is not shown as a number.

use crate::ChartError;
use crate::memory_table::{Json, entries, entry, grouped, memory_text};
use crate::words::clean;
use tiersim_models::memory::account::Account;
use tiersim_models::memory::fit::cost::Rates;
use tiersim_models::memory::fit::{Fit, Found, Room};

/// What a job is to fit into.
#[derive(Clone, Debug, PartialEq)]
pub struct FitTarget {
    /// A machine's name, or the size as it was typed.
    pub name: String,
    /// How much room there is.
    pub room: Room,
    /// How fast it is.
    pub rates: Rates,
}

/// Most sets of changes that the text shows; JSON has all.
const SHOWN: usize = 12;

/// The account and what makes the job fit, as JSON.
pub fn memory_fit_json(
    account: &Account,
    target: &FitTarget,
    found: &Found,
    version: &str,
) -> Result<String, ChartError> {
    let mut all = entries(account, version);
    let rate = |rate: Option<f64>| rate.map_or(Json::Nothing, Json::from);
    let smallest = found.smallest();
    let options = found.least.iter().enumerate().map(|(at, fit)| option(fit, smallest == Some(at)));
    let room = |room: Option<u128>| room.map_or(Json::Nothing, Json::from);
    let fit = vec![
        entry("target", target.name.as_str()),
        entry("gpu_room_bytes", target.room.gpu),
        entry("cpu_room_bytes", room(target.room.cpu)),
        entry("nvme_room_bytes", room(target.room.nvme)),
        entry("flops_per_s", rate(target.rates.flops)),
        entry("host_bytes_per_s", rate(target.rates.host)),
        entry("nvme_bytes_per_s", rate(target.rates.nvme)),
        entry("host_memory_bytes_per_s", rate(target.rates.host_memory)),
        entry("fits", Json::Flag(found.fits)),
        entry("tried", found.tried as u128),
        entry("options", Json::List(options.collect())),
    ];
    all.push(entry("fit", Json::Map(fit)));
    Ok(serde_json::to_string_pretty(&Json::Map(all))? + "\n")
}

fn option(fit: &Fit, smallest: bool) -> Json {
    let changes = fit.changes.iter().map(|change| Json::Text(change.clone())).collect();
    let [gpu, cpu, nvme] = fit.bytes;
    Json::Map(vec![
        entry("changes", Json::List(changes)),
        entry("smallest", Json::Flag(smallest)),
        entry("slowdown", fit.slowdown.map_or(Json::Nothing, Json::from)),
        entry("gpu_bytes", gpu),
        entry("cpu_bytes_per_node", cpu),
        entry("nvme_bytes_per_node", nvme),
        entry("flops", fit.cost.flops),
        entry("host_bytes", fit.cost.host),
        entry("nvme_bytes", fit.cost.nvme),
        entry("adam_bytes", fit.cost.adam),
        entry("between_gpus_bytes", fit.cost.between_gpus),
    ])
}

/// The account and what makes the job fit, as text.
pub fn memory_fit_text(account: &Account, target: &FitTarget, found: &Found) -> String {
    let gib = |bytes: u128| bytes as f64 / (1u64 << 30) as f64;
    let room = target.room;
    let mut text = memory_text(account);
    text += &format!("\nfit into {}: {:.3} GiB per GPU", clean(&target.name), gib(room.gpu));
    for (what, bytes) in [("host memory", room.cpu), ("NVMe", room.nvme)] {
        if let Some(bytes) = bytes {
            text += &format!(", {:.1} GiB of {what} per node", gib(bytes));
        }
    }
    text += "\n";
    let rates = [
        ("FLOP/s", target.rates.flops),
        ("B/s to the host", target.rates.host),
        ("B/s of NVMe", target.rates.nvme),
        ("B/s of the host's Adam", target.rates.host_memory),
    ];
    let known: Vec<String> = rates
        .iter()
        .filter_map(|(what, rate)| Some(format!("{} {what}", grouped((*rate)? as u128))))
        .collect();
    if !known.is_empty() {
        text += &format!("  {}\n", known.join(", "));
    }
    if found.fits {
        return text + "  it fits as it is\n";
    }
    if found.least.is_empty() {
        return text + &format!("  none of {} settings fits\n", found.tried);
    }
    let smallest = found.smallest();
    text += &format!(
        "  {:>9}{:>14}{:>16}{:>14}   changes\n",
        "slowdown", "GPU GiB", "host GiB/node", "NVMe GiB"
    );
    // The smallest is shown in any case.
    let shown = |at: &usize| *at < SHOWN || smallest == Some(*at);
    for at in (0..found.least.len()).filter(shown) {
        let fit = &found.least[at];
        let slowdown = fit.slowdown.map_or("-".to_owned(), |slowdown| format!("{slowdown:.3}"));
        let [gpu, cpu, nvme] = fit.bytes.map(gib);
        let mark = if smallest == Some(at) { "   (smallest change)" } else { "" };
        let changes = fit.changes.join(" ");
        text += &format!("  {slowdown:>9}{gpu:>14.3}{cpu:>16.3}{nvme:>14.3}   {changes}{mark}\n");
    }
    if found.least.len() > SHOWN {
        text += &format!("  and more: {} sets in all, in the JSON\n", found.least.len());
    }
    if found.least.iter().any(|fit| fit.slowdown.is_none()) {
        text += "  note: - is a slowdown that needs a shape, tokens or a rate that is not known\n";
    }
    text + "  note: slowdowns are estimates without overlap, collectives and small products; see docs/memory.md\n"
}
