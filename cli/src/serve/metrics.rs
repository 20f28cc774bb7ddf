//! `/metrics`: results, sweeps and the server itself for Prometheus, in its text format 0.0.4.
//!
//! What results say is written anew for every scrape from their summaries; of each the first cases
//! have gauges of their own, and all cases together are histograms, so that a sweep of thousands is
//! a few lines. The names are in docs/reference/metrics.md.
//! Invariant: bytes and seconds are the units, and no figure is another than that of `summary.json`.

use super::sweeps::Sweep;
use crate::VERSION;
use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};
use std::sync::Arc;
use std::time::Duration;
use tiersim_reports::words::clean;
use tiersim_reports::{CaseMeasures, Overview};

/// Cases of a result with gauges of their own: those with a place of their own in a report.
const MOST_CASES: usize = 32;
/// Shares, in hundredths where most of them are.
const SHARES: [f64; 12] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0];
/// Copies per step.
const COPIES: [f64; 9] = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0];
/// Seconds of a simulation.
const SECONDS: [f64; 10] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 2.0, 20.0];

/// What the server counts of itself.
#[derive(Clone)]
pub(super) struct Counters {
    requests: IntCounterVec,
    outcomes: IntCounterVec,
    simulations: Histogram,
}

impl Default for Counters {
    fn default() -> Counters {
        let counter = |name: &str, help: &str, label: &str| {
            IntCounterVec::new(Opts::new(name, help), &[label]).expect("the names are well formed")
        };
        let opts = HistogramOpts::new(
            "tiersim_simulation_seconds",
            "Time from a turned slider to all figures of all cases.",
        );
        Counters {
            requests: counter(
                "tiersim_http_requests_total",
                "Requests that were answered, by status.",
                "status",
            ),
            outcomes: counter(
                "tiersim_simulations_total",
                "Simulations that were asked for, by what came of them.",
                "outcome",
            ),
            simulations: Histogram::with_opts(opts.buckets(SECONDS.to_vec()))
                .expect("the name is well formed"),
        }
    }
}

impl Counters {
    pub(super) fn answered(&self, status: u16) {
        self.requests.with_label_values(&[&status.to_string()]).inc();
    }

    pub(super) fn simulated(&self, took: Duration, answered: bool) {
        self.outcomes.with_label_values(&[if answered { "answered" } else { "refused" }]).inc();
        self.simulations.observe(took.as_secs_f64());
    }
}

/// Everything that is measured now.
pub(super) fn text(
    counters: &Counters,
    results: &[(String, Result<Arc<Overview>, String>)],
    sweeps: &[Sweep],
) -> Result<String, prometheus::Error> {
    let all = Registry::new();
    for own in [&counters.requests, &counters.outcomes] {
        all.register(Box::new(own.clone()))?;
    }
    all.register(Box::new(counters.simulations.clone()))?;
    let build =
        gauges(&all, "build_info", "The version of tiersim; the value is 1.", &["version"])?;
    build.with_label_values(&[VERSION]).set(1.0);
    let found =
        gauges(&all, "results", "Folders of results, by whether they can be read.", &["readable"])?;
    let readable = results.iter().filter(|(_, said)| said.is_ok()).count();
    found.with_label_values(&["yes"]).set(readable as f64);
    found.with_label_values(&["no"]).set((results.len() - readable) as f64);
    let measured = Measured::new(&all)?;
    for (name, said) in results {
        if let Ok(overview) = said {
            measured.add(&clean(name), overview);
        }
    }
    let labels = &["sweep", "part"];
    let of = gauges(&all, "sweep_cases", "Cases of the whole sweep.", labels)?;
    let done = gauges(&all, "sweep_cases_done", "Cases that are in the journal.", labels)?;
    let rate = gauges(
        &all,
        "sweep_cases_per_second",
        "Pace since the server first saw the journal.",
        labels,
    )?;
    for sweep in sweeps {
        let part = sweep.part.map_or_else(String::new, |(index, of)| format!("{index}/{of}"));
        let labels = &[&clean(&sweep.name)[..], &part];
        of.with_label_values(labels).set(sweep.all as f64);
        done.with_label_values(labels).set(sweep.done as f64);
        rate.with_label_values(labels).set(sweep.rate.unwrap_or(0.0));
    }
    TextEncoder::new().encode_to_string(&all.gather())
}

/// Gauges of results, by case, and histograms over all cases of each.
struct Measured {
    cases: GaugeVec,
    out_of_memory: GaugeVec,
    step: GaugeVec,
    peak: GaugeVec,
    moved: GaugeVec,
    copies: GaugeVec,
    stall: GaugeVec,
    fragmentation: GaugeVec,
    all_occupancy: HistogramVec,
    all_copies: HistogramVec,
    all_stalls: HistogramVec,
    all_fragmentation: HistogramVec,
}

impl Measured {
    fn new(all: &Registry) -> Result<Measured, prometheus::Error> {
        let case = |name, help, more: &[&str]| {
            gauges(all, name, help, &[&["result", "case"], more].concat())
        };
        let over = |name, help, bounds: &[f64]| histograms(all, name, help, bounds);
        Ok(Measured {
            cases: gauges(all, "result_cases", "Cases of a result.", &["result"])?,
            out_of_memory: gauges(
                all,
                "result_cases_out_of_memory",
                "Cases of a result that ran out of memory.",
                &["result"],
            )?,
            step: case("case_step_seconds", "Mean step.", &[])?,
            peak: case("case_peak_bytes", "Most bytes held in a tier.", &["tier"])?,
            moved: case("case_moved_bytes", "Bytes moved per step.", &["channel"])?,
            copies: case("case_copies", "Copies per step.", &["channel"])?,
            stall: case("case_stall_seconds", "Time per step that ops waited.", &["channel"])?,
            fragmentation: case(
                "case_fragmentation_ratio",
                "Mean fragmentation of a tier with an allocator; total is the mean of both.",
                &["tier", "kind"],
            )?,
            all_occupancy: over(
                "occupancy_ratio",
                "Peak of the first tier over the case's budget, over the cases that have one.",
                &SHARES,
            )?,
            all_copies: over("copies", "Copies per step, over the cases.", &COPIES)?,
            all_stalls: over("stall_ratio", "Stalls over the step, over the cases.", &SHARES)?,
            all_fragmentation: over(
                "fragmentation_ratio",
                "Mean total fragmentation, over the cases and tiers with an allocator.",
                &SHARES,
            )?,
        })
    }

    fn add(&self, result: &str, overview: &Overview) {
        let cases = &overview.cases;
        let fits = cases.iter().filter(|case| case.step_ms.is_some()).count();
        self.cases.with_label_values(&[result]).set(cases.len() as f64);
        self.out_of_memory.with_label_values(&[result]).set((cases.len() - fits) as f64);
        for (at, case) in cases.iter().enumerate() {
            if at < MOST_CASES {
                self.one(result, &format!("{} {}", at + 1, clean(&case.label)), case);
            }
            let Some(step) = case.step_ms else { continue };
            let sum = |of: &[(String, f64)]| of.iter().map(|(_, value)| value).sum::<f64>();
            let observe = |of: &HistogramVec, value| of.with_label_values(&[result]).observe(value);
            observe(&self.all_copies, sum(&case.copies));
            if step > 0.0 {
                observe(&self.all_stalls, sum(&case.stall_ms) / step);
            }
            if let (Some((_, peak)), Some(budget)) = (case.peak_bytes.first(), case.budget_bytes) {
                observe(&self.all_occupancy, peak / budget);
            }
            for tier in &case.fragmentation {
                observe(&self.all_fragmentation, tier.total);
            }
        }
    }

    fn one(&self, result: &str, label: &str, case: &CaseMeasures) {
        let CaseMeasures { step_ms, peak_bytes, moved_bytes, copies, stall_ms, .. } = case;
        if let Some(ms) = step_ms {
            self.step.with_label_values(&[result, label]).set(ms / 1e3);
        }
        let by = |gauge: &GaugeVec, of: &[(String, f64)], unit: f64| {
            for (name, value) in of {
                gauge.with_label_values(&[result, label, name]).set(value / unit);
            }
        };
        by(&self.peak, peak_bytes, 1.0);
        by(&self.moved, moved_bytes, 1.0);
        by(&self.copies, copies, 1.0);
        by(&self.stall, stall_ms, 1e3);
        for tier in &case.fragmentation {
            let kinds =
                [("external", tier.external), ("internal", tier.internal), ("total", tier.total)];
            for (kind, share) in kinds {
                self.fragmentation.with_label_values(&[result, label, &tier.tier, kind]).set(share);
            }
        }
    }
}

fn gauges(
    all: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<GaugeVec, prometheus::Error> {
    registered(all, GaugeVec::new(Opts::new(format!("tiersim_{name}"), help), labels)?)
}

fn histograms(
    all: &Registry,
    name: &str,
    help: &str,
    bounds: &[f64],
) -> Result<HistogramVec, prometheus::Error> {
    let opts = HistogramOpts::new(format!("tiersim_result_{name}"), help).buckets(bounds.to_vec());
    registered(all, HistogramVec::new(opts, &["result"])?)
}

fn registered<C: Collector + Clone + 'static>(
    all: &Registry,
    of: C,
) -> Result<C, prometheus::Error> {
    all.register(Box::new(of.clone()))?;
    Ok(of)
}
