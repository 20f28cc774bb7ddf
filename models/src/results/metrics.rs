//! What conditions can be about: figures of a case, by name.
//!
//! The names are those of limits in a design review. Times are in milliseconds, sizes in GiB.
//! Invariant: a figure that a case does not have is none, with what it lacks, and never 0.

use super::served::Spread;
use super::{CaseRecord, Figures, RunRecord};

/// Seconds over which `tokens_per_usd` spreads the price of a machine: four years.
pub const LIFETIME_S: f64 = 4.0 * 365.0 * 24.0 * 3600.0;

/// Every metric: its name, its unit, and what it is.
pub const METRICS: [(&str, &str, &str); 16] = [
    ("slowdown", "", "mean step over the baseline's"),
    ("step", "ms", "mean step"),
    ("step_p95", "ms", "95th percentile of steps"),
    ("gap_to_bound", "", "how much longer the mean step is than its bound: 0.25 is a quarter"),
    ("tokens_per_s", "tokens/s", "work per time at the mean step"),
    ("latency", "ms", "mean latency of requests, from arrival to the last token"),
    ("latency_p95", "ms", "its 95th percentile"),
    ("latency_slowdown", "", "mean latency of requests over the baseline's"),
    ("ttft", "ms", "mean time to the first token"),
    ("ttft_p95", "ms", "its 95th percentile"),
    ("tpot", "ms", "mean time per further token"),
    ("tpot_p95", "ms", "its 95th percentile"),
    ("energy_j", "J", "energy of a mean step, of one device"),
    ("cost_usd", "USD", "price of the machine, one device's part"),
    ("tokens_per_usd", "tokens/USD", "tokens in four years over the price of all devices"),
    ("peak_gib", "GiB", "most bytes ever held in the first tier"),
];

/// Why there is no slowdown where requests are served.
pub const ITERATIONS: &str = "it serves requests, whose steps are iterations of the server: \
    latency_slowdown compares what requests take";

/// Why an emulated case has no gap to the bound.
const EMULATED: &str = "it is emulated, and the bound is of runs that pay for every use";

/// What is said to who asks for a metric that has another name, and other numbers, by now.
pub fn instead_of(name: &str) -> Option<&'static str> {
    (name == "gap").then_some(
        "`gap_to_bound` is what a step takes beyond its bound, as in results.csv: for `gap <= 1.2` \
         write `gap_to_bound <= 0.2`",
    )
}

/// The unit of a metric, if there is one of this name.
pub fn unit_of(name: &str) -> Option<&'static str> {
    METRICS.iter().find(|(known, ..)| *known == name).map(|(_, unit, _)| *unit)
}

/// A metric of a case.
///
/// # Errors
/// What keeps the case from having it: it ran out of memory, serves nobody, or the spec lacks
/// numbers, which are named.
pub fn metric(record: &RunRecord, case: &CaseRecord, name: &str) -> Result<f64, String> {
    let figures = case.outcome.figures().ok_or("it runs out of memory")?;
    let cost = || {
        let missing = &case.economics.cost.basis.missing;
        case.economics.dollars().ok_or_else(|| format!("no price without {}", missing.join(", ")))
    };
    let tokens = || record.tokens_per_s(case).ok_or("it has no tokens");
    let served = |of: fn(&super::ServingFigures) -> Spread, pick: fn(Spread) -> f64| {
        let figures = figures.serving.as_deref().ok_or("it serves no requests")?;
        Ok::<f64, String>(pick(of(figures)))
    };
    let found = match name {
        "slowdown" if figures.serving.is_some() => return Err(ITERATIONS.to_owned()),
        "slowdown" => figures.slowdown(case.baseline_step),
        "step" => figures.mean_step().as_ms(),
        "step_p95" => figures.step_ms_percentile(95),
        "gap_to_bound" if case.emulated => return Err(EMULATED.to_owned()),
        "gap_to_bound" => case.gap_to_bound().ok_or("there is no bound")?,
        "tokens_per_s" => tokens()?,
        "latency" => served(super::ServingFigures::latency_ms, |spread| spread.mean)?,
        "latency_p95" => served(super::ServingFigures::latency_ms, |spread| spread.p95)?,
        "latency_slowdown" => {
            let own = served(super::ServingFigures::latency_ms, |spread| spread.mean)?;
            own / record.of(case).baseline.judged().as_ms()
        }
        "ttft" => served(super::ServingFigures::first_token_ms, |spread| spread.mean)?,
        "ttft_p95" => served(super::ServingFigures::first_token_ms, |spread| spread.p95)?,
        "tpot" => served(super::ServingFigures::per_token_ms, |spread| spread.mean)?,
        "tpot_p95" => served(super::ServingFigures::per_token_ms, |spread| spread.p95)?,
        "energy_j" => joules(case)?,
        "cost_usd" => cost()?,
        "tokens_per_usd" => tokens()? * LIFETIME_S / record.of(case).of_all(cost()?),
        "peak_gib" => peak(figures),
        _ => return Err(format!("there is no metric `{name}`")),
    };
    // 0/0 and the like: a step of no time has no rate.
    if found.is_finite() { Ok(found) } else { Err(format!("{name} is not finite")) }
}

fn joules(case: &CaseRecord) -> Result<f64, String> {
    let missing = case.economics.energy.as_ref().map(|energy| energy.basis.missing.join(", "));
    case.economics.joules().ok_or_else(|| {
        format!("no energy without {}", missing.unwrap_or_else(|| "numbers of power".to_owned()))
    })
}

fn peak(figures: &Figures) -> f64 {
    figures.peak.first().map_or(0.0, |bytes| bytes.get() as f64 / (1u64 << 30) as f64)
}
