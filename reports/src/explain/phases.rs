//! The split by phase: a bar for each phase of the step, made up of what the path was spent on.
//!
//! Invariant: the bars add up to the step, and a bar's pieces to the bar.

use super::findings::mean;
use super::looks::{LOOKS, Look};
use crate::canvas::{Align, Canvas, Rect};
use crate::frame;
use crate::render::Chart;
use crate::scale::Scale;
use crate::sheet::Made;
use crate::style::{FRAME, GRID, INK, LABEL};
use crate::units::time;
use crate::words::{elide, percent};
use tiersim_models::results::explain::Explanation;
use tiersim_models::units::Span;
use tiersim_models::units::shown::of_times;
use tiersim_models::workload::Phase;

/// Room for the names of phases.
const NAMES: f64 = 110.0;
/// Room for sums.
const SUMS: f64 = 170.0;

/// The chart; `version` is tiersim's own.
pub(super) fn phases(of: &Explanation, made: Made<'_>) -> Chart {
    let mut canvas = Canvas::of(made.style);
    let sheet = canvas.sheet;
    let title = "Where the step goes, by phase".to_owned();
    let about = format!(
        "{}, case {}: the critical path of a step of {}",
        elide(&of.record.scenario, 60),
        elide(&of.case().label, 60),
        time(of.path.mean_step().ps() as f64)
    );
    let top = frame::header(&mut canvas, &title, &about);
    let looks = of.path.sums.iter().map(|sum| Look::of(sum.part)).collect::<Vec<_>>();
    let used = LOOKS.iter().filter(|look| looks.contains(look));
    let entries = used.map(|look| look.entry()).collect();
    let top = frame::legend(&mut canvas, top, entries, Vec::new(), "") + 10.0;
    let right = sheet.width - sheet.margin - sheet.aside(SUMS);
    bars(
        &mut canvas,
        of,
        Rect::new(sheet.margin + sheet.aside(NAMES), top, right, sheet.floor() - 46.0),
    );
    frame::footer(&mut canvas, &of.record, made.version);
    Chart::new(title, canvas)
}

fn bars(canvas: &mut Canvas, of: &Explanation, area: Rect) {
    let sum = |phase: Phase, look: Look| -> Span {
        let own =
            of.path.sums.iter().filter(|sum| (sum.phase, Look::of(sum.part)) == (phase, look));
        own.map(|sum| sum.span).sum()
    };
    let all = |phase: Phase| -> Span { LOOKS.iter().map(|&look| sum(phase, look)).sum() };
    let shown: Vec<Phase> = Phase::ALL.into_iter().filter(|&phase| all(phase).ps() > 0).collect();
    let steps = of.path.steps.max(1) as f64;
    let most = shown.iter().map(|&phase| all(phase).ps()).max().unwrap_or(1) as f64 / steps;
    let (unit, size) = of_times(most);
    let x = Scale::linear(&[0.0, most / size * 1.02], 0.0, area.left, area.right);
    for (value, text) in x.ticks(8) {
        let at = x.at(value);
        canvas.line((at, area.top), (at, area.bottom), GRID, 1.0);
        canvas.text(&text, (at, area.bottom + 20.0), LABEL, INK, Align::Centre);
    }
    let row = area.height() / shown.len().max(3) as f64;
    for (index, &phase) in shown.iter().enumerate() {
        let middle = area.top + row * (index as f64 + 0.5);
        let half = (row * 0.34).min(40.0);
        let mut before = 0.0;
        for look in LOOKS {
            let own = sum(phase, look).ps() as f64 / steps / size;
            let (from, to) = (x.at(before), x.at(before + own));
            if to - from > 0.2 {
                look.fill(canvas, Rect::new(from, middle - half, to, middle + half));
            }
            before += own;
        }
        let words = format!("{}, {}", mean(of, all(phase)), percent(of.path.share(all(phase))));
        canvas.text(phase.word(), (area.left - 10.0, middle + 5.0), LABEL, INK, Align::Right);
        canvas.text(&words, (area.right + 10.0, middle + 5.0), LABEL, INK, Align::Left);
    }
    canvas.frame(area, FRAME, 1.0);
    let centre = f64::midpoint(area.left, area.right);
    frame::x_title(canvas, &format!("time per step ({unit})"), centre, area.bottom + 40.0);
}
