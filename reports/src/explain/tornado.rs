//! The tornado chart: how much a step answers to each number of the machine, a bar each, the
//! longest on top.
//!
//! A bar shows two runs, one with the number a little lower and one a little higher: left of the
//! line steps are shorter, right of it longer. The two differ by colour and by pattern, so that
//! grey shows them too.
//! Invariant: every bar ends where a run of the record does.

use super::judged;
use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::fit_name;
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::render::Chart;
use crate::scale::Scale;
use crate::sheet::Made;
use crate::style::{FRAME, GRID, INK, LABEL, SMALL, SOFT_INK, series_color};
use crate::units::time;
use crate::words::{elide, number};
use tiersim_models::results::explain::{Elasticity, Explanation};

/// Bars of a chart.
const MOST: usize = 12;
/// An answer below this has no bar: per cent per per cent, what is printed beside it.
const LEAST: f64 = 5e-4;
/// Room for names on the left.
const NAMES: f64 = 400.0;
/// Room for numbers on the right.
const NUMBERS: f64 = 110.0;

/// The chart of an explanation that has elasticities; `version` is tiersim's own.
pub(super) fn tornado(of: &Explanation, made: Made<'_>) -> Chart {
    let mut canvas = Canvas::of(made.style);
    let sheet = canvas.sheet;
    let title = format!("What the {} answers to", judged(of, "step time"));
    let what = judged(of, "step");
    let counts = match shown(of).iter().any(|found| found.is_of_a_count(of.change)) {
        true => " (a count as far as is said with it)",
        false => "",
    };
    let about = format!(
        "{}, case {}: {what} of {} with each number of the machine {} % lower and higher{counts}, all \
         else equal; every bar is two runs",
        elide(&of.record.scenario, 60),
        elide(&of.case().label, 60),
        time(of.judged().ps() as f64),
        number(of.change * 100.0)
    );
    let top = frame::header(&mut canvas, &title, &about);
    let entries = ["number lower", "number higher"].into_iter().enumerate().map(|(side, text)| {
        let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
            bar(canvas, Rect::new(x - 14.0, y - 7.0, x + 14.0, y + 7.0), side);
        };
        Entry { key: Box::new(key), text: text.to_owned() }
    });
    let top = frame::legend(&mut canvas, top, entries.collect(), Vec::new(), "") + 10.0;
    let right = sheet.width - sheet.margin - sheet.aside(NUMBERS);
    let area = Rect::new(sheet.margin + sheet.aside(NAMES), top, right, sheet.floor() - 46.0);
    bars(&mut canvas, of, area);
    frame::footer(&mut canvas, &of.record, made.version);
    Chart::new(title, canvas)
}

/// A step's change in per cent.
fn change(of: &Explanation, found: &Elasticity) -> [f64; 2] {
    let step = of.judged().ps() as f64;
    found.steps.map(|other| (other.ps() as f64 / step.max(1.0) - 1.0) * 100.0)
}

/// The numbers with a bar.
fn shown(of: &Explanation) -> Vec<&Elasticity> {
    let answers = |found: &&Elasticity| found.of(of.judged()).abs() >= LEAST;
    of.elasticities.iter().filter(answers).take(MOST).collect()
}

/// A number's value, and of a count which ones were tried.
fn value(of: &Explanation, found: &Elasticity) -> String {
    let [below, above] = &found.tried;
    match found.is_of_a_count(of.change) {
        true if *below == found.value => format!("{} to {above}", found.value),
        true => format!("{}: {below}, {above}", found.value),
        false => found.value.clone(),
    }
}

fn bars(canvas: &mut Canvas, of: &Explanation, area: Rect) {
    let shown = shown(of);
    let ends = shown.iter().flat_map(|found| change(of, found));
    let most = ends.map(f64::abs).fold(0.0, f64::max).max(0.01) * 1.08;
    let x = Scale::linear(&[-most, most], 0.0, area.left, area.right);
    for (value, text) in x.ticks(7) {
        let at = x.at(value);
        canvas.line((at, area.top), (at, area.bottom), GRID, 1.0);
        canvas.text(&text, (at, area.bottom + 20.0), LABEL, INK, Align::Centre);
    }
    let row = area.height() / shown.len().max(4) as f64;
    for (index, found) in shown.iter().enumerate() {
        let middle = area.top + row * (index as f64 + 0.5);
        let half = (row * 0.32).min(17.0);
        for (side, end) in change(of, found).into_iter().enumerate() {
            let (a, b) = (x.at(0.0), x.at(end));
            // Where both runs are on one side they share the row.
            let (above, below) = if side == 0 { (half, 0.0) } else { (0.0, half) };
            let rect = Rect::new(a.min(b), middle - above, a.max(b), middle + below);
            if rect.width() >= 0.5 {
                bar(canvas, rect, side);
            }
        }
        let value = elide(&value(of, found), 26);
        let room = canvas.sheet.aside(NAMES) - 24.0 - text_width(&value, SMALL);
        let name = fit_name(&found.path, LABEL, room);
        canvas.text(&value, (area.left - 10.0, middle + 5.0), SMALL, SOFT_INK, Align::Right);
        canvas.text(&name, (canvas.sheet.margin, middle + 5.0), LABEL, INK, Align::Left);
        let per_cent = format!("{:+.3} %/%", found.of(of.judged()));
        canvas.text(&per_cent, (area.right + 10.0, middle + 5.0), SMALL, INK, Align::Left);
    }
    canvas.line((x.at(0.0), area.top), (x.at(0.0), area.bottom), INK, 1.5);
    canvas.frame(area, FRAME, 1.0);
    let centre = f64::midpoint(area.left, area.right);
    let title = format!("change of the {} (%)", judged(of, "mean step"));
    frame::x_title(canvas, &title, centre, area.bottom + 40.0);
}

/// A bar of the runs with lower numbers (0) or higher ones (1), which is striped.
fn bar(canvas: &mut Canvas, rect: Rect, side: usize) {
    let color = series_color(side);
    canvas.rect(rect, if side == 0 { color } else { color.tint(0.45) });
    if side == 1 {
        let mut at = rect.left + 4.0;
        while at < rect.right - 1.0 {
            canvas.line((at, rect.top), (at, rect.bottom), color.shade(), 1.2);
            at += 6.0;
        }
    }
    canvas.frame(rect, color.shade(), 1.0);
}
