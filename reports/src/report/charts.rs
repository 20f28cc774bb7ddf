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
            Ok(drawing) => page.drawing(drawing, &format!("{} ({name})", drawing.title), |_| None),
            Err(why) => {
                page.statement(Tone::Note, &format!("Note: {name} is not shown: {why}."));
            }
        }
    }
    Ok(())
}
