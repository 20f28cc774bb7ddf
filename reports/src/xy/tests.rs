//! Charts are read back as a person reads them: by the labels of their ticks.

use super::*;
use crate::canvas::Item;

fn axis(label: &str, log: bool) -> Axis {
    Axis { log, ..Axis::linear(label, "ms") }
}

fn series(label: &str, marks: Marks, points: &[(f64, f64)]) -> Series {
    Series { label: label.to_owned(), marks, points: points.to_vec() }
}

fn chart(log: (bool, bool), diagonal: bool, points: &[(f64, f64)]) -> XyChart {
    let band = |share: f64| Band { label: format!("within {} %", share * 100.0), share };
    XyChart {
        title: "predicted against measured".to_owned(),
        notes: vec!["one".to_owned(), "two".to_owned(), "three".to_owned()],
        x: axis("measured step", log.0),
        y: axis("predicted step", log.1),
        series: vec![series("lru", Marks::Points, points)],
        bands: if diagonal { vec![band(0.05), band(0.1)] } else { Vec::new() },
        diagonal,
        ..XyChart::default()
    }
}

const POINTS: [(f64, f64); 6] =
    [(0.4, 0.41), (3.0, 2.9), (12.5, 13.0), (80.0, 70.0), (81.0, 75.5), (950.0, 1001.0)];

/// Every way in which the same points can be asked for.
fn all(points: &[(f64, f64)]) -> Vec<XyChart> {
    let kinds = [(false, false), (true, false), (false, true), (true, true)];
    kinds.iter().flat_map(|&log| [true, false].map(|d| chart(log, d, points))).collect()
}

/// The labels of an axis with their pixels, two of them: enough to read any value.
fn read_axis(chart: &Chart, across: bool) -> [(f64, f64); 2] {
    let plot = frame_of(chart);
    let labels = chart.items().iter().filter_map(|item| match item {
        Item::Text { text, at, align, .. } => {
            let here = match across {
                true => *align == Align::Centre && at.1 > plot.bottom && at.1 < plot.bottom + 25.0,
                false => *align == Align::Right && at.0 < plot.left,
            };
            let pixel = if across { at.0 } else { at.1 - 5.0 };
            here.then(|| text.parse().ok().map(|value| (pixel, value))).flatten()
        }
        _ => None,
    });
    let mut labels: Vec<(f64, f64)> = labels.collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(labels.len() >= 2, "an axis of {labels:?} says nothing");
    [labels[0], labels[labels.len() - 1]]
}

/// What a pixel means by two labels.
fn value([a, b]: [(f64, f64); 2], log: bool, pixel: f64) -> f64 {
    let share = (pixel - a.0) / (b.0 - a.0);
    if log { a.1 * (b.1 / a.1).powf(share) } else { a.1 + (b.1 - a.1) * share }
}

/// The frame of the plot: the largest rectangle of grid lines.
fn frame_of(chart: &Chart) -> Rect {
    let lines = chart.items().iter().filter_map(|item| match item {
        Item::Path { points, color, .. } if *color == style::GRID => Some(points.clone()),
        _ => None,
    });
    let ends: Vec<(f64, f64)> = lines.flatten().collect();
    let least = |f: fn(&(f64, f64)) -> f64| ends.iter().map(f).fold(f64::INFINITY, f64::min);
    let most = |f: fn(&(f64, f64)) -> f64| ends.iter().map(f).fold(0.0, f64::max);
    Rect::new(least(|p| p.0), least(|p| p.1), most(|p| p.0), most(|p| p.1))
}

/// The discs inside the plot: markers of the first series, without their rims.
fn discs(chart: &Chart) -> Vec<(f64, f64)> {
    let plot = frame_of(chart);
    let disc = |item: &Item| match item {
        Item::Disc { centre, color, .. } if *color == style::series_color(0) => Some(*centre),
        _ => None,
    };
    let all = chart.items().iter().filter_map(disc);
    all.filter(|at| plot.holds(&Rect::around(*at, 0.0))).collect()
}

#[test]
fn every_point_lands_where_the_axes_say() {
    for asked in all(&POINTS) {
        let drawn = asked.chart();
        let (x, y) = (read_axis(&drawn, true), read_axis(&drawn, false));
        let places = discs(&drawn);
        assert_eq!(places.len(), POINTS.len());
        for (at, point) in places.into_iter().zip(POINTS) {
            for (found, wanted, log) in [
                (value(x, asked.x.log, at.0), point.0, asked.x.log),
                (value(y, asked.y.log, at.1), point.1, asked.y.log),
            ] {
                let off = (found - wanted).abs();
                let close = if log { off < 1e-6 * wanted } else { off < 1e-6 * 1001.0 };
                assert!(close, "{found} is drawn for {wanted}");
            }
        }
    }
}

#[test]
fn the_diagonal_and_the_bands_are_where_the_axes_say() {
    for log in [false, true] {
        let asked = chart((log, log), true, &POINTS);
        let drawn = asked.chart();
        let (x, y) = (read_axis(&drawn, true), read_axis(&drawn, false));
        let ratio = |at: &(f64, f64)| value(y, log, at.1) / value(x, log, at.0);
        let plot = frame_of(&drawn);
        let inside = |at: &&(f64, f64)| {
            plot.grown(-1.0).holds(&Rect::around(**at, 0.0)) && value(x, log, at.0) > 1.0
        };
        let (mut equal, mut edges) = (0, Vec::new());
        for item in drawn.items() {
            match item {
                Item::Path { points, color, .. } if *color == style::SOFT_INK => {
                    for at in points.iter().filter(inside) {
                        assert!((ratio(at) - 1.0).abs() < 1e-6, "{}", ratio(at));
                        equal += 1;
                    }
                }
                Item::Polygon { points, .. } if points.len() > 2 * SAMPLES => {
                    edges.push(points.iter().filter(inside).map(ratio).collect::<Vec<_>>());
                }
                _ => {}
            }
        }
        assert!(equal > 100, "{equal}");
        assert_eq!(edges.len(), 2, "one polygon per band");
        for (ratios, share) in edges.iter().zip([0.1, 0.05]) {
            assert!(ratios.len() > 200);
            let near = |r: &f64| (r - 1.0 - share).abs() < 1e-6 || (r - 1.0 + share).abs() < 1e-6;
            assert!(ratios.iter().all(near), "{ratios:?}");
        }
    }
}

fn hostile() -> Vec<XyChart> {
    let mut wild = chart((true, true), true, &[(1e-12, 1e15), (0.0, -1.0), (f64::NAN, 1.0)]);
    wild.title = "\u{202e}<svg>\n".repeat(60);
    wild.notes = vec!["word ".repeat(400); 9];
    wild.x.label = "x".repeat(900);
    wild.y.unit = "y".repeat(900);
    let many = |n: usize| series(&"W".repeat(n + 1), Marks::LineAndPoints, &[(n as f64, 1.0)]);
    wild.series.extend((0..40).map(many));
    wild.bands.push(Band { label: "wide".to_owned(), share: 3.0 });
    wild.bands.push(Band { label: "none".to_owned(), share: f64::NAN });
    let mut sets = vec![wild];
    let inputs: [&[(f64, f64)]; 9] = [
        &[],
        &[(3.0, 4.0)],
        &[(0.0, 0.0)],
        &[(5.0, 5.0), (5.0, 5.0)],
        &[(-3.0, -2.0), (4.0, 1.0)],
        &[(f64::NAN, 1.0), (f64::INFINITY, 2.0)],
        &[(1e-9, 2e-9), (1.5e-9, 1e-9)],
        &[(1e11, 1e12), (9e3, 8e3)],
        &[(100.0, 101.0), (100.5, 100.2)],
    ];
    sets.extend(inputs.iter().flat_map(|points| all(points)));
    sets.extend(all(&POINTS));
    sets
}

#[test]
fn no_text_covers_another_and_nothing_leaves_the_page() {
    for asked in hostile() {
        let drawn = asked.chart();
        drawn.assert_legible(0.0);
        let svg = drawn.svg().expect("it draws");
        roxmltree::Document::parse(&svg).expect("legal XML");
    }
}

#[test]
fn an_axis_of_shares_begins_at_0_and_others_say_that_they_do_not() {
    const HIGH: [(f64, f64); 2] = [(0.0, 71.0), (2.0, 100.0)];
    let drawn = |y: Axis| XyChart { y, ..chart((false, false), false, &HIGH) }.chart();
    let says = |chart: &Chart, text: &str| {
        let mut items = chart.items().iter();
        items.any(|item| matches!(item, Item::Text { text: said, .. } if said.contains(text)))
    };
    let shares = drawn(Axis::shares("share of uses"));
    assert_eq!(read_axis(&shares, false).map(|label| label.1), [100.0, 0.0]);
    assert!(!says(&shares, "not from 0"));
    assert!(says(&drawn(axis("step", false)), "step (ms, not from 0: spans "));
    // Where that is too long for the page, it is said in short and nothing is cut.
    let long = "a step whose name takes half of its axis";
    let said = drawn(axis(long, false));
    assert!(says(&said, &format!("{long} (ms, not from 0)")));
}

#[test]
fn what_cannot_be_drawn_is_counted() {
    let points = [(f64::NAN, 1.0), (1.0, 0.0), (2.0, 2.0), (3.0, 4.0)];
    let drawn = chart((true, true), false, &points).chart();
    assert_eq!(discs(&drawn).len(), 3);
    let said = |words: &str| {
        drawn.items().iter().any(|item| item.text_place().is_some_and(|(_, t)| t.contains(words)))
    };
    assert!(said("1 point left out") && said("1 point at the edge"));
    let clean = chart((true, true), false, &POINTS).chart();
    assert!(clean.items().iter().all(|i| i.text_place().is_none_or(|(_, t)| !t.contains("edge"))));
}

#[test]
fn series_of_one_label_look_the_same_and_have_one_entry() {
    let mut asked = chart((false, false), false, &POINTS);
    asked.series = vec![
        series("dram to hbm", Marks::Points, &POINTS),
        series("hbm to dram", Marks::Points, &POINTS[..3]),
        series("dram to hbm", Marks::Line, &[(0.0, 0.0), (900.0, 900.0)]),
    ];
    let looks: Vec<usize> = asked.series.iter().map(|s| asked.look(&s.label)).collect();
    assert_eq!(looks, [0, 1, 0]);
    let drawn = asked.chart();
    let named = |label: &str| {
        let texts = drawn.items().iter().filter_map(Item::text_place);
        texts.filter(|(_, text)| *text == label).count()
    };
    assert_eq!((named("dram to hbm"), named("hbm to dram")), (1, 1));
    // The line of the fit, and its sample in the legend, in the colour of its points.
    let lines = drawn.items().iter().filter(|item| match item {
        Item::Path { color, .. } => *color == style::series_color(0),
        _ => false,
    });
    assert_eq!(lines.count(), 2);
}
