//! What makes a job fit, as text and as JSON, behind its account.
//!
//! Invariant: an estimate that rests on a missing rate is not shown as a number.

use crate::memory_table::{Json, entries, entry, grouped, memory_text};
use crate::text_table::{Side, cells, text_table};
use crate::words::clean;
use crate::{ChartError, pretty};
use tiersim_models::hardware::Compute;
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_fit::{Fit, FitSearch, MemoryBudget, Rates};

/// What a job is to fit into.
#[derive(Clone, Debug, PartialEq)]
pub struct FitTarget {
    /// A machine's name, or the size as it was typed.
    pub name: String,
    /// How much room there is.
    pub budget: MemoryBudget,
    /// How fast it is.
    pub rates: Rates,
    /// Its device, if it is a machine that describes one.
    pub device: Option<Compute>,
}

/// Most sets of changes that the text shows; JSON has all.
const SHOWN: usize = 12;

/// The account and what makes the job fit, as JSON.
pub fn memory_fit_json(
    account: &Account,
    target: &FitTarget,
    found: &FitSearch,
    version: &str,
) -> Result<String, ChartError> {
    let mut all = entries(account, version);
    let smallest = found.smallest();
    let options = found.least.iter().enumerate().map(|(at, fit)| {
        let mut option = of_fit(fit);
        option.insert(1, entry("smallest", Json::Flag(smallest == Some(at))));
        Json::Map(option)
    });
    let mut fit = of_target(target);
    fit.extend([
        entry("fits", Json::Flag(found.fits)),
        entry("tried", found.tried as u128),
        entry("options", Json::List(options.collect())),
    ]);
    all.push(entry("fit", Json::Map(fit)));
    pretty(&Json::Map(all))
}

/// Room and rates of what a job is to fit into.
pub(crate) fn of_target(target: &FitTarget) -> Vec<(String, Json)> {
    vec![
        entry("target", target.name.as_str()),
        entry("gpu_room_bytes", target.budget.gpu),
        entry("cpu_room_bytes", target.budget.cpu),
        entry("nvme_room_bytes", target.budget.nvme),
        entry("flops_per_s", target.rates.flops),
        entry("host_bytes_per_s", target.rates.host),
        entry("nvme_bytes_per_s", target.rates.nvme),
        entry("host_memory_bytes_per_s", target.rates.host_memory),
        entry("memory_bytes_per_s", target.rates.memory),
    ]
}

/// What a job comes to with a set of changes.
pub(crate) fn of_fit(fit: &Fit) -> Vec<(String, Json)> {
    let changes = fit.changes.iter().map(|change| Json::Text(change.clone())).collect();
    let [gpu, cpu, nvme] = fit.bytes;
    vec![
        entry("changes", Json::List(changes)),
        entry("slowdown", fit.slowdown),
        entry("seconds_per_step", fit.seconds),
        entry("tokens_per_s", fit.tokens_per_s),
        entry("more_cpu_bytes_per_node", fit.more_cpu),
        entry("gpu_bytes", gpu),
        entry("cpu_bytes_per_node", cpu),
        entry("nvme_bytes_per_node", nvme),
        entry("flops", fit.cost.flops),
        entry("host_bytes", fit.cost.host),
        entry("nvme_bytes", fit.cost.nvme),
        entry("adam_bytes", fit.cost.adam),
        entry("compressed_bytes", fit.cost.compressed),
        entry("between_gpus_bytes", fit.cost.between_gpus),
    ]
}

/// The account and what makes the job fit, as text.
pub fn memory_fit_text(account: &Account, target: &FitTarget, found: &FitSearch) -> String {
    let mut text = memory_text(account) + &room("fit into", target);
    if found.least.is_empty() {
        return text + &format!("  none of {} settings fits\n", found.tried);
    }
    if found.fits {
        text += "  it fits as it is\n";
    }
    text += &rows(found);
    if found.least.len() > SHOWN {
        text += &format!("  and more: {} sets in all, in the JSON\n", found.least.len());
    }
    if found.least.iter().any(|fit| fit.seconds.is_none()) {
        text += UNKNOWN;
    }
    text += "  note: x is the time for as much work over that of the quickest of all settings that fit, whatever was typed\n";
    text += "  note: LoRA is not offered: it trains another thing\n";
    text + ESTIMATES
}

/// What a dash stands for.
pub(crate) const UNKNOWN: &str = "  note: - needs a shape, tokens or a rate that is not known\n";
/// What estimates leave out.
pub(crate) const ESTIMATES: &str =
    "  note: estimates without overlap and collectives; see docs/howto/memory.md\n";

pub(crate) fn gib(bytes: u128) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

/// The room and the rates of what a job is to fit into, behind `what`.
pub(crate) fn room(what: &str, target: &FitTarget) -> String {
    let budget = target.budget;
    let name = clean(&target.name);
    let mut text = format!("\n{what} {name}: {:.3} GiB per GPU", gib(budget.gpu));
    for (what, bytes) in [("host memory", budget.cpu), ("NVMe", budget.nvme)] {
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
    text
}

/// A row for each set of changes.
fn rows(found: &FitSearch) -> String {
    let smallest = found.smallest();
    let header = ["s/step", "tokens/s", "x", "GPU GiB", "host GiB/node", "NVMe GiB", "changes"];
    let mut rows = vec![cells(header)];
    // The smallest is shown in any case.
    let shown = |at: &usize| *at < SHOWN || smallest == Some(*at);
    for at in (0..found.least.len()).filter(shown) {
        let fit = &found.least[at];
        let mut row = [fit.seconds, fit.tokens_per_s, fit.slowdown].map(figure).to_vec();
        row.extend(fit.bytes.map(|bytes| format!("{:.3}", gib(bytes))));
        let mut changes =
            if fit.changes.is_empty() { "none".to_owned() } else { fit.changes.join(" ") };
        if fit.more_cpu > 0 {
            changes += &format!(", and {:.1} GiB more host memory per node", gib(fit.more_cpu));
        }
        if smallest == Some(at) && !found.fits {
            changes += "   (smallest change)";
        }
        row.push(changes);
        rows.push(row);
    }
    text_table(2, &[Side::Right; 6], &rows)
}

/// A number in four digits or more.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}
