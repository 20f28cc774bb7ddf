//! The other charts of the folder: against price and energy, the map of a sweep, fragmentation.

use super::folder::{CHART, Report};
use crate::ChartError;
use crate::html::{Page, Tone};

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let others = report.charts.iter().filter(|(name, _)| name != CHART);
    for (index, (name, drawing)) in others.enumerate() {
        if index == 0 {
            page.heading("Other charts");
        }
        match drawing {
            Ok(drawing) => {
                let caption = format!("{} ({name}). {}", drawing.title, shows(name));
                page.drawing(drawing, &caption, |_| None);
            }
            Err(why) => {
                page.statement(Tone::Note, &format!("Note: {name} is not shown: {why}."));
            }
        }
    }
    Ok(())
}

/// What there is to see on a chart, for those who cannot: by the name of its file.
fn shows(name: &str) -> &'static str {
    let kinds = [
        ("by-panel", "A panel for each group of cases: right is more HBM, up is slower."),
        ("vs-memory", "A point for each case: right is more HBM, up is slower."),
        ("vs-cost", "A point for each case: right is dearer, up is slower."),
        ("vs-energy", "A point for each case: right takes more energy, up is slower."),
        ("heat-map", "A cell for each point of the sweep: the darker, the quicker."),
        ("cdf", "A curve for each case: the share of steps or requests that are at most as long."),
        ("fragmentation", "A curve for each case: the share of memory that is lost to pieces."),
        ("occupancy", "A panel for each case, a line for each tier: what it holds in a step."),
        ("channel-use", "A panel for each case, a band for each channel: when it copies."),
    ];
    let known = kinds.into_iter().find(|(part, _)| name.contains(part));
    known.map_or("The figures are in the tables of this page.", |(_, words)| words)
}
