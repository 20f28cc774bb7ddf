//! Latency against memory: the chart of the folder, with what each of its points is.

use super::folder::{CHART, Report};
use super::summary::{Case, Throughput};
use crate::ChartError;
use crate::html::{Page, Shown, Tone};
use crate::units::{three_digits, time};
use crate::words::{finite, number};
use tiersim_models::units::shown::of_sizes;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    page.heading("Latency against memory");
    let caption = format!(
        "Right is more HBM, up is slower: the lower left is better. Stairs are Pareto fronts. {}. A \
         point shows its numbers under the pointer or the focus and leads to its case; the figures \
         are in the table below.",
        bounds(&report.summary.results)
    );
    match report.chart(CHART) {
        Some(Ok(drawing)) => page.drawing(drawing, &caption, |case| {
            let id = report.ids.get(case).cloned().flatten();
            let case = report.summary.results.get(case)?;
            Some(Shown { text: format!("{}: {}", case.label, numbers(case)), id })
        }),
        Some(Err(why)) => {
            page.statement(Tone::Note, &format!("Note: {CHART} is not shown: {why}."))
        }
        None => page.statement(Tone::Note, &format!("Note: the folder has no {CHART}.")),
    }
    Ok(())
}

/// What the chart's bound is one of, and for whom it holds.
fn bounds(cases: &[Case]) -> &'static str {
    if cases.iter().any(|case| case.serving.is_some()) {
        return "Times are those of requests, of which no bound is known";
    }
    match cases.iter().any(|case| case.emulated) {
        true => {
            "No policy that pays for every use is faster than the bound: emulated cases, which do \
             not, may lie below it"
        }
        false => "No policy is faster than the bound",
    }
}

/// The numbers of a case in one line.
pub(super) fn numbers(case: &Case) -> String {
    let mut words = Vec::new();
    if let Some(serving) = &case.serving {
        let mean = |ms: Option<f64>| ms.and_then(finite).map(|ms| time(ms * 1e9));
        words.extend(mean(serving.ttft_ms.mean).map(|ms| format!("TTFT {ms}")));
        words.extend(mean(serving.tpot_ms.mean).map(|ms| format!("TPOT {ms}")));
    } else if let Some(step) = case.step() {
        words.push(format!("step {}", time(step * 1e9)));
        words.extend(case.slowdown.map(|slowdown| format!("{}× unlimited HBM", number(slowdown))));
        // The bound is one of steps: beside TTFT it would be taken for one of that.
        let over = |gap: f64| format!("{} % over the bound of the step", number(gap * 100.0));
        words.extend(case.gap_to_bound.map(over));
    }
    if let Some((tier, bytes)) = case.peak_hbm() {
        let (unit, size) = of_sizes(bytes);
        words.push(format!("peak {tier} {} {unit}", three_digits(bytes / size)));
    }
    if let Some(Throughput { value: Some(rate), unit }) = &case.throughput
        && *rate > 0.0
    {
        words.push(format!("{} {unit}", three_digits(*rate)));
    }
    words.extend(case.marks().into_iter().map(str::to_owned));
    words.extend(case.oom_reason.as_ref().map(|why| format!("out of memory: {}", why.text)));
    words.join("; ")
}
