//! Where the points of the latency chart go: the frame, its two axes and their units.

use crate::against::{Against, HeldAgainst};
use crate::canvas::Rect;
use crate::measure::Measure;
use crate::points::{Point, Points, Reach};
use crate::scale::{Scale, extent};
use crate::sheet::Sheet;
use tiersim_models::results::RunRecord;
use tiersim_models::units::shown::{Unit, of_sizes, of_times};

/// Height of the band of cases that ran out of memory.
const BAND: f64 = 34.0;

/// Where data goes.
pub(crate) struct Plot<'r> {
    pub(crate) record: &'r RunRecord,
    pub(crate) points: Points,
    pub(crate) area: Rect,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) memory: Unit,
    pub(crate) time: Unit,
    /// The band of the cases that ran out of memory.
    pub(crate) band: Option<Rect>,
    pub(crate) measure: Measure,
    /// What cases are held against.
    pub(crate) against: Against,
}

impl Plot<'_> {
    pub(crate) fn new<'r>(
        sheet: &Sheet,
        record: &'r RunRecord,
        points: Points,
        (measure, against): (Measure, Against),
        top: f64,
    ) -> Plot<'r> {
        // Only titled sheets have an axis of slowdowns on the right.
        let (left, right) = if sheet.is_titled() { (78.0, 104.0) } else { (58.0, 8.0) };
        let (left, right) = (sheet.margin + left, sheet.width - right);
        let area = Rect::new(left, top, right, sheet.floor() - 42.0);
        let band = (!points.oom.is_empty()).then_some(Rect { bottom: area.top + BAND, ..area });
        let memory_values = memory_range(&points);
        let memory = of_sizes(extent(&memory_values).map_or(0.0, |(_, most)| most));
        let mut steps: Vec<f64> = points.done.iter().map(|p| p.step as f64).collect();
        steps.extend(against.values(record, &points));
        let reaches = points.done.iter().filter_map(|point| point.reach);
        steps.extend(reaches.flat_map(|reach| reach.step).map(|ps| ps as f64));
        // Never zoom in on less than a tenth: it would make noise look like a difference.
        if let Some((lo, hi)) = extent(&steps).filter(|(lo, hi)| hi / lo < 1.1) {
            steps.extend([lo * 0.95, hi * 1.05]);
        }
        let time = of_times(extent(&steps).map_or(0.0, |(_, most)| most));
        let steps: Vec<f64> = steps.iter().map(|ps| ps / time.1).collect();
        let memory_values: Vec<f64> = memory_values.iter().map(|b| b / memory.1).collect();
        let x = Scale::linear(&memory_values, 0.06, area.left, area.right);
        let ceiling = band.map_or(area.top, |band| band.bottom);
        let y = Scale::fitting(&steps, 20.0, 0.09, area.bottom, ceiling);
        Plot { record, points, area, x, y, memory, time, band, measure, against }
    }

    /// The pixel of a level line.
    pub(crate) fn level(&self, held: HeldAgainst) -> Option<f64> {
        match held {
            HeldAgainst::Same(ps) => Some(self.y.at(ps as f64 / self.time.1)),
            HeldAgainst::Nowhere | HeldAgainst::Own => None,
        }
    }

    /// The pixel of a point.
    pub(crate) fn at(&self, point: &Point) -> (f64, f64) {
        (self.x.at(point.memory as f64 / self.memory.1), self.y.at(point.step as f64 / self.time.1))
    }

    /// The ends of the bars of a point's draws: of its time, and of its memory if that differs.
    pub(crate) fn bars(&self, point: &Point) -> Vec<[(f64, f64); 2]> {
        let Some(Reach { memory, step }) = point.reach else { return Vec::new() };
        let (x, y) = self.at(point);
        let xs = memory.map(|bytes| self.x.at(bytes as f64 / self.memory.1));
        let ys = step.map(|ps| self.y.at(ps as f64 / self.time.1));
        let mut bars = vec![[(x, ys[0]), (x, ys[1])]];
        if xs[1] - xs[0] >= 1.0 {
            bars.push([(xs[0], y), (xs[1], y)]);
        }
        bars
    }

    /// Where data may be: the frame without the band.
    pub(crate) fn data(&self) -> Rect {
        Rect { top: self.band.map_or(self.area.top, |band| band.bottom), ..self.area }
    }
}

/// Bytes that the memory axis shows. A budget far beyond every peak would squeeze the rest into a
/// corner, so it is shown at the edge instead.
fn memory_range(points: &Points) -> Vec<f64> {
    let mut values: Vec<f64> = points.done.iter().map(|p| p.memory as f64).collect();
    let reaches = points.done.iter().filter_map(|point| point.reach);
    values.extend(reaches.flat_map(|reach| reach.memory).map(|bytes| bytes as f64));
    let budgets = points.oom.iter().filter_map(|(_, budget)| *budget).map(|bytes| bytes as f64);
    match extent(&values) {
        Some((_, most)) if most > 0.0 => values.extend(budgets.map(|b| b.min(most * 1.25))),
        _ => values.extend(budgets),
    }
    values
}
