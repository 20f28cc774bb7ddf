//! What a launch costs, by kernels that follow each other without the host being late.

use super::Telling;
use crate::calibrate::spec::numbers::span;
use tiersim_models::hardware::Source;
use tiersim_models::recorded::{Profile, Value};
use tiersim_models::results::op_grades::quantile;
use tiersim_models::units::Span;

/// Fewest kernels behind another that tell what a launch costs.
const FEWEST: usize = 100;
/// Kernels with next to no work are shorter, in seconds; where the quickest are not, none is such.
const SHORT: f64 = 10e-6;
/// The quickest twentieth has next to no work.
const QUICKEST: f64 = 0.05;

fn seconds(spans: impl Iterator<Item = Span>) -> Vec<f64> {
    let mut all: Vec<f64> = spans.map(|span| span.ps() as f64 / 1e12).collect();
    all.sort_by(f64::total_cmp);
    all
}

impl Telling<'_> {
    /// `compute.launch` is what an op takes whose work takes nothing, from the end of the one
    /// before it to its own: a gap and the least that any kernel takes.
    pub(super) fn launch(&mut self, profile: &Profile) {
        let base = &self.base.hardware.name;
        let late = seconds(profile.late.iter().copied());
        if !late.is_empty() {
            let [median, p95] = [0.5, 0.95].map(|share| quantile(&late, share) * 1e6);
            self.notes.push(format!(
                "from launch to start on an idle stream: median {median:.2} us, p95 {p95:.2} us, \
                 of {} kernels; the host's time, for which a machine has no number",
                late.len()
            ));
        }
        let count = profile.chained.len();
        if count < FEWEST || self.base.hardware.compute.is_none() {
            self.notes.push(format!(
                "launch: {count} kernels were asked for before the one before them ended, and \
                 {FEWEST} are needed; kept from {base}"
            ));
            return;
        }
        let gaps = seconds(profile.chained.iter().map(|(gap, _)| *gap));
        let ends = seconds(profile.chained.iter().map(|(_, end)| *end));
        let launch = quantile(&ends, QUICKEST);
        let [gap, far] = [0.5, 0.95].map(|share| quantile(&gaps, share) * 1e6);
        if launch > SHORT {
            self.notes.push(format!(
                "launch: the quickest of {count} kernels take {:.1} us, so none shows a launch alone; \
                 kept from {base}",
                launch * 1e6
            ));
            return;
        }
        // The standard error of a quantile, by the values as many ranks away as its rank is known.
        let ranks = (QUICKEST * (1.0 - QUICKEST) / count as f64).sqrt();
        let around = [-ranks, ranks].map(|off| quantile(&ends, QUICKEST + off));
        let words = format!(
            "fitted from {}: kernels that were asked for before the one before them ended, from end \
             to end: 5th percentile of {count}, median {:.2} us; gaps between them median {gap:.2} \
             us p95 {far:.2} us; {}",
            self.file,
            quantile(&ends, 0.5) * 1e6,
            self.date
        );
        let known = (launch, (around[1] - around[0]) / 2.0);
        let path = "compute.launch".to_owned();
        self.tell(path, Value::Time(span(launch)), Source::Measured(words), known);
    }
}
