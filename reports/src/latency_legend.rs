//! The legend of latency against memory, and how what it names is drawn.
//!
//! A series has an entry, which on a page hides and shows it. Where an axis has the colours and the
//! legend has no room for every series, as in a column of a paper, it names markers and colours
//! apart instead.
//! Invariant: what is on the chart is in the legend, or the legend says how many are not.

use crate::against::Against;
use crate::against_marks;
use crate::canvas::{Align, Canvas, Tag};
use crate::frame::{self, Entry, RESULTS};
use crate::names::Direct;
use crate::points::{Front, Points};
use crate::series::Factors;
use crate::style::{self, LABEL, MOST_JOINED};
use crate::words::clean;

/// Draws it from `top` on; gives the height where it ends.
pub(crate) fn draw(
    canvas: &mut Canvas,
    top: f64,
    points: &Points,
    against: &Against,
    labels: &Direct,
) -> f64 {
    let joined = points.done.len() <= MOST_JOINED;
    let drawn = points.drawn().into_iter();
    let on_front = |series| {
        let mut own = points.done.iter().filter(|point| point.series == series);
        own.any(|point| point.front)
    };
    let series = drawn.map(|index| (on_front(index), of_series(points, index, joined)));
    let mut rest = marks(points, against);
    if let Some(said) = &labels.left_out {
        let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
            canvas.text("…", (x, y + 3.0), LABEL, style::SOFT_INK, Align::Centre);
        };
        rest.push(entry(key, said.clone()));
    }
    let mut last = fronts(points);
    last.extend(rest);
    let series = frame::fronts_first(&canvas.sheet, series.collect(), &last);
    match &points.factors {
        Some(factors) if !frame::has_room(&canvas.sheet, series.iter().chain(&last)) => {
            last.drain(..points.machines.len());
            let apart = by_factor(factors, points);
            frame::legend(canvas, top, Vec::new(), apart.into_iter().chain(last).collect(), "")
        }
        _ => frame::legend(canvas, top, series, last, RESULTS),
    }
}

fn entry<'a>(key: impl Fn(&mut Canvas, (f64, f64)) + 'a, text: String) -> Entry<'a> {
    Entry { key: Box::new(key), text }
}

fn of_series(points: &Points, index: usize, joined: bool) -> Entry<'_> {
    let name = &points.series[index];
    let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
        let tag = Tag { series: Some(index), name: Some(name.clone()), ..Tag::default() };
        canvas.tagged(Tag { at: Some((x, y)), ..tag }, |canvas| {
            if joined {
                let color = style::line_color(index).tint(0.6);
                canvas.line((x - 15.0, y), (x + 15.0, y), color, 2.0);
            }
            style::marker(canvas, index, (x, y), 5.5, 1.0);
        });
    };
    entry(key, name.clone())
}

/// Those of machines first.
fn fronts(points: &Points) -> Vec<Entry<'_>> {
    let machines = points.machines.iter().enumerate().map(|(machine, (name, _))| {
        let key =
            move |canvas: &mut Canvas, at| machine_line(canvas, frame::sample_stairs(at), machine);
        entry(key, format!("front of {}", clean(name)))
    });
    let all = [
        (Front::Plain, "Pareto front"),
        (Front::WithOracles, "front with oracles"),
        (Front::Emulated, "front of emulated cases"),
    ];
    let shown = all.into_iter().filter(|(front, _)| front_is_drawn(points, *front));
    let plain = shown.map(|(front, words)| {
        let key =
            move |canvas: &mut Canvas, at| front_line(canvas, frame::sample_stairs(at), front);
        entry(key, words.to_owned())
    });
    machines.chain(plain).collect()
}

fn marks(points: &Points, against: &Against) -> Vec<Entry<'static>> {
    let mut all: Vec<Entry> = against_marks::entries(against);
    if has_bars(points) {
        let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
            style::bar(canvas, [(x, y + 9.0), (x, y - 9.0)], style::SOFT_INK);
        };
        all.push(entry(key, "5th to 95th percentile of draws".to_owned()));
    }
    if !points.oom.is_empty() {
        let key = |canvas: &mut Canvas, at: (f64, f64)| {
            style::cross(canvas, at, 6.0, style::OOM, 2.5);
        };
        all.push(entry(key, "out of memory, at its HBM budget".to_owned()));
    }
    all
}

/// What markers and what colours mean, in the place of their pairs and of the machines' fronts.
fn by_factor<'p>(factors: &'p Factors, points: &'p Points) -> Vec<Entry<'p>> {
    let of = |(look, text): &(usize, String), machine: Option<usize>| {
        let look = *look;
        let key = move |canvas: &mut Canvas, at: (f64, f64)| {
            if let Some(machine) = machine {
                machine_line(canvas, frame::sample_stairs(at), machine);
            }
            style::marker(canvas, look, at, 5.5, 1.0);
        };
        let front = if machine.is_some() { ", its front" } else { "" };
        entry(key, format!("{text}{front}"))
    };
    let markers = factors.markers.iter().map(|entry| of(entry, None));
    let machine = |color: usize| (color < points.machines.len()).then_some(color);
    let colors = factors.colors.iter().enumerate();
    markers.chain(colors.map(|(color, entry)| of(entry, machine(color)))).collect()
}

/// One emulated case among others needs no front of its own.
pub(crate) fn front_is_drawn(points: &Points, front: Front) -> bool {
    points.front(front).len() > usize::from(front == Front::Emulated)
}

/// A front: a broad line for cases that pay for every access, a thin one with those that see the
/// whole trace, a broken one for emulated cases.
pub(crate) fn front_line(canvas: &mut Canvas, stairs: Vec<(f64, f64)>, front: Front) {
    match front {
        Front::Plain => canvas.path(stairs, style::FRONT, 5.0),
        Front::WithOracles => canvas.path(stairs, style::FRONT, 1.6),
        Front::Emulated => {
            for ends in stairs.windows(2) {
                canvas.dashed(ends, style::FRONT, 3.0, (4.0, 4.0));
            }
        }
    }
}

/// The front of one of several machines, in the machine's colour.
pub(crate) fn machine_line(canvas: &mut Canvas, stairs: Vec<(f64, f64)>, machine: usize) {
    canvas.path(stairs, style::line_color(machine).tint(0.45), 3.0);
}

/// Whether draws are shown: in a crowd they would hide the points.
pub(crate) fn has_bars(points: &Points) -> bool {
    points.done.len() <= MOST_JOINED && points.done.iter().any(|point| point.reach.is_some())
}

#[cfg(test)]
mod tests {
    use crate::canvas::Item;
    use crate::common;
    use crate::latency_memory::against_memory;
    use crate::measure::Measure;
    use crate::sheet::{Made, Style};

    #[test]
    fn a_column_of_a_paper_names_all_policies_and_all_values() {
        let policies = ["all-hbm", "lru", "density", "belady", "look-ahead"];
        let values = ["16 bits", "8 bits", "4 bits"];
        let record = common::pairs(&policies, &values);
        let made = Made { version: "1", style: Style::Paper };
        let chart = against_memory(&record, Measure::Step, made);
        let text = |item: &Item| match item {
            Item::Text { text, .. } => Some(text.to_string()),
            _ => None,
        };
        let texts: Vec<String> = chart.items().iter().filter_map(text).collect();
        for name in policies.iter().chain(&values) {
            assert!(texts.iter().any(|text| text == name), "{name}: {texts:?}");
        }
        assert!(texts.iter().all(|text| !text.contains("more series")), "{texts:?}");
    }
}
