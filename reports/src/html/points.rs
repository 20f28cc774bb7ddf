//! A drawing on a page: the picture, and over it one link for each case that it has a mark of.
//!
//! Links lie in a second, transparent drawing of the same size, at the places that the first one
//! states of its marks: the picture stays one image with a name and a description, and the links
//! are what a keyboard and a screen reader walk through. They lead to the case, with or without a
//! script.
//! Invariant: a link's name is what is shown at its point.

use crate::drawing::{Drawing, Key, Mark};
use crate::words::escaped;
use std::fmt::Write;

/// Most marks that have a link: more would be no help at a keyboard, and half of a page's bytes.
const MOST_LINKS: usize = 400;
/// Pixels around a mark that belong to it.
const REACH: f64 = 13.0;

/// What is shown at the point of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Its numbers.
    pub(crate) text: String,
    /// The id where more is said of it.
    pub(crate) id: Option<String>,
}

/// The figure of a drawing; `caption` is escaped.
pub(super) fn figure(
    out: &mut String,
    drawing: &Drawing,
    caption: &str,
    shown: impl Fn(usize) -> Option<Shown>,
) {
    let Drawing { width, height, title, body, marks, keys } = drawing;
    let scale = 10;
    let view = format!("viewBox=\"0 0 {} {}\"", width * scale, height * scale);
    // It scrolls where the page is narrow, for a keyboard as well.
    let named = escaped(title);
    let _ = writeln!(
        out,
        "<figure>\n<div class=\"chart\" role=\"region\" tabindex=\"0\" aria-label=\"{named}\">\
         <div class=\"sheet\">"
    );
    let _ = writeln!(
        out,
        "<svg {view} xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\
         <title>{named}</title><desc>{caption}</desc>\n{}\n</svg>",
        body.trim_end()
    );
    let links: Vec<(&Mark, Shown)> =
        marks.iter().filter_map(|mark| Some((mark, shown(mark.case)?))).take(MOST_LINKS).collect();
    if !links.is_empty() {
        let _ = writeln!(
            out,
            "<svg class=\"marks\" {view} xmlns=\"http://www.w3.org/2000/svg\" role=\"group\" \
             aria-label=\"Points of the chart\">"
        );
        links.iter().for_each(|(mark, shown)| link(out, mark, shown));
        out.push_str("</svg>\n");
    }
    out.push_str("</div></div>\n");
    if !links.is_empty() && keys.len() > 1 {
        legend(out, keys);
    }
    let _ = writeln!(out, "<figcaption>{caption}</figcaption></figure>");
}

fn link(out: &mut String, mark: &Mark, shown: &Shown) {
    let series = mark.series.map_or(String::new(), |series| format!(" data-series=\"{series}\""));
    let to = shown.id.as_deref().unwrap_or("top");
    let _ = writeln!(
        out,
        "<a href=\"#{}\" data-case=\"{}\"{series} aria-label=\"{}\">\
         <circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"{:.0}\"/></a>",
        escaped(to),
        mark.case,
        escaped(&shown.text),
        mark.at.0 * 10.0,
        mark.at.1 * 10.0,
        REACH * 10.0
    );
}

/// Names of series with their keys; the script makes buttons of them, which hide and show.
fn legend(out: &mut String, keys: &[Key]) {
    out.push_str("<ul class=\"keys\" aria-label=\"Series of the chart\">\n");
    for Key { series, name, at, body } in keys {
        let (x, y) = (at.0 * 10.0 - 180.0, at.1 * 10.0 - 100.0);
        let _ = writeln!(
            out,
            "<li data-series=\"{series}\"><svg viewBox=\"{x:.0} {y:.0} 360 200\" \
             xmlns=\"http://www.w3.org/2000/svg\" aria-hidden=\"true\">\n{}\n</svg>{}</li>",
            body.trim_end(),
            escaped(name)
        );
    }
    out.push_str("</ul>\n");
}
