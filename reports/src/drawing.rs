//! A chart's SVG as a page takes it: checked sign by sign, with the marks that it says it has.
//!
//! Charts of a result folder lie on a disk, where anybody may have changed them, and within a page
//! an SVG can do what a page can. So nothing is taken over that [`Chart::svg`](crate::Chart::svg)
//! does not write: one element to a line, of a few kinds, with a few attributes of plain values.
//! Texts are read and escaped anew.
//! Invariant: no element, attribute or reference gets through that is not listed here.

use crate::words::escaped;
use std::collections::BTreeMap;

/// Most pixels of a side.
const MOST_PIXELS: u32 = 10_000;

/// A chart to be put on a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawing {
    /// In pixels; coordinates within are tenths of them.
    pub(crate) width: u32,
    /// In pixels.
    pub(crate) height: u32,
    pub(crate) title: String,
    /// Its elements, checked.
    pub(crate) body: String,
    pub(crate) marks: Vec<Mark>,
    /// The legend's entries.
    pub(crate) keys: Vec<Key>,
}

/// The mark of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) case: usize,
    pub(crate) series: Option<usize>,
    /// Its middle in pixels.
    pub(crate) at: (f64, f64),
}

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) series: usize,
    pub(crate) name: String,
    /// Its middle in pixels.
    pub(crate) at: (f64, f64),
    /// What is drawn there.
    pub(crate) body: String,
}

/// Attributes of what is drawn.
const DRAWN: [&str; 17] = [
    "x",
    "y",
    "width",
    "height",
    "cx",
    "cy",
    "r",
    "dy",
    "points",
    "opacity",
    "fill",
    "stroke",
    "stroke-width",
    "text-anchor",
    "font-family",
    "font-size",
    "transform",
];
/// Attributes of groups.
const SAID: [&str; 5] = ["data-series", "data-case", "data-name", "data-x", "data-y"];

impl Drawing {
    /// The drawing of an SVG as this crate writes it; else the line that is none of it, in words.
    pub(crate) fn read(svg: &str) -> Result<Drawing, String> {
        // What a figure of a paper says of itself is no part of the picture.
        let drawn = |(at, line): &(usize, &str)| *at != 2 || !described(line);
        let mut lines = svg.lines().enumerate().filter(drawn);
        let mut line = || lines.next().map_or((0, ""), |(index, line)| (index + 1, line));
        let head = line().1;
        let mut drawing = Drawing::default();
        let sizes = size(head).ok_or_else(|| wrong(1, head))?;
        (drawing.width, drawing.height) = sizes;
        let (at, title) = line();
        let text = title.strip_prefix("<title>").and_then(|rest| rest.strip_suffix("</title>"));
        drawing.title = text.and_then(plain).ok_or_else(|| wrong(at, title))?;
        let mut group: Option<Group> = None;
        loop {
            let (at, line) = line();
            let bad = || wrong(at, line);
            match (line, &group) {
                ("</svg>", None) => {
                    drawing.body = joined(&drawing.body);
                    return Ok(drawing);
                }
                ("</g>", Some(_)) => {
                    drawing.body.push_str("</g>\n");
                    group.take().into_iter().for_each(|group| drawing.end(group));
                    continue;
                }
                (line, None) if line.starts_with("<g ") => {
                    let inside = line.strip_suffix('>').and_then(|line| line.strip_prefix("<g"));
                    let said = inside.and_then(attributes).ok_or_else(bad)?;
                    let known = said.keys().all(|name| SAID.contains(&name.as_str()));
                    let opened = Group::of(&said).filter(|_| known).ok_or_else(bad)?;
                    drawing.body += &opened.opening();
                    group = Some(opened);
                    continue;
                }
                _ => {}
            }
            let element = element(line).ok_or_else(bad)?;
            drawing.body += &element;
            if let Some(group) = &mut group {
                group.body += &element;
            }
        }
    }

    fn end(&mut self, group: Group) {
        let Group { series, case, name, at, body } = group;
        match (case, series, name, at) {
            (Some(case), _, _, Some(at)) => self.marks.push(Mark { case, series, at }),
            (None, Some(series), Some(name), Some(at)) => {
                self.keys.push(Key { series, name, at, body });
            }
            _ => {}
        }
    }
}

fn wrong(line: usize, text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("line {line} is not one of tiersim's charts: {shown:?}")
}

/// A group while it is read.
#[derive(Debug, Default)]
struct Group {
    series: Option<usize>,
    case: Option<usize>,
    name: Option<String>,
    at: Option<(f64, f64)>,
    body: String,
}

impl Group {
    fn of(said: &BTreeMap<String, String>) -> Option<Group> {
        let index = |name: &str| match said.get(name) {
            None => Some(None),
            Some(value) => value.parse::<u32>().ok().map(|index| Some(index as usize)),
        };
        let place = |name: &str| -> Option<f64> {
            let value: f64 = said.get(name)?.parse().ok()?;
            (value.is_finite() && value.abs() <= f64::from(MOST_PIXELS)).then_some(value)
        };
        let at = place("data-x").zip(place("data-y"));
        let name = said.get("data-name").cloned();
        let (series, case) = (index("data-series")?, index("data-case")?);
        Some(Group { series, case, name, at, body: String::new() })
    }

    fn opening(&self) -> String {
        let said = [("series", self.series), ("case", self.case)];
        let said = said.into_iter().filter_map(|(what, index)| Some((what, index?)));
        let said: String = said.map(|(what, index)| format!(" data-{what}=\"{index}\"")).collect();
        format!("<g{said}>\n")
    }
}

/// Width and height in pixels of the layout, from the first line: the picture may be shown larger,
/// or say its size in millimetres.
fn size(line: &str) -> Option<(u32, u32)> {
    let rest = line.strip_prefix("<svg width=\"")?;
    let (width, rest) = rest.split_once("\" height=\"")?;
    let (height, rest) = rest.split_once("\" viewBox=\"0 0 ")?;
    let shown = |said: &str| {
        let number = said.strip_suffix("mm").unwrap_or(said);
        let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        number.parse::<f64>().is_ok_and(|n| plain && (1.0..=f64::from(MOST_PIXELS)).contains(&n))
    };
    let view = rest.strip_suffix("\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">")?;
    let (wide, high) = view.split_once(' ')?;
    let pixels = |units: &str| units.strip_suffix('0')?.parse::<u32>().ok();
    let size = (pixels(wide)?, pixels(high)?);
    let fits = [size.0, size.1].iter().all(|side| (1..=MOST_PIXELS).contains(side));
    (shown(width) && shown(height) && fits).then_some(size)
}

/// Is it the line in which a figure of a paper says what it shows?
fn described(line: &str) -> bool {
    let text = line.strip_prefix("<desc>").and_then(|rest| rest.strip_suffix("</desc>"));
    text.and_then(plain).is_some()
}

/// One element on one line.
fn element(line: &str) -> Option<String> {
    let inside = line.strip_prefix('<')?;
    let (name, _) = inside.split_once(' ')?;
    let (tag, text) = match name {
        "rect" | "circle" | "polygon" | "polyline" => (inside.strip_suffix("/>")?, None),
        "text" => {
            let (tag, text) = inside.strip_suffix("</text>")?.split_once('>')?;
            (tag, Some(plain(text)?))
        }
        _ => return None,
    };
    let drawn = attributes(&tag[name.len()..])?;
    let mut safe = format!("<{name}");
    let said = |(name, value): &(&String, &String)| {
        // What an SVG means without it is not said; a large chart has it thousands of times.
        !value.is_empty() && ![("opacity", "1"), ("stroke", "none")].contains(&(name, value))
    };
    for (attribute, value) in drawn.iter().filter(said) {
        let signs = |c: char| c.is_ascii_alphanumeric() || " #.,%-".contains(c);
        let turn = value.strip_prefix("rotate(").and_then(|value| value.strip_suffix(')'));
        let checked = match attribute.as_str() {
            "transform" => turn?,
            _ => value.as_str(),
        };
        if !DRAWN.contains(&attribute.as_str()) || !checked.chars().all(signs) {
            return None;
        }
        safe += &format!(" {attribute}=\"{value}\"");
    }
    Some(match text {
        Some(text) => format!("{safe}>{}</text>\n", escaped(&text)),
        None => format!("{safe}/>\n"),
    })
}

/// The same picture with lines of one look that follow each other as one element: each dash is a
/// line, and most of a line is its look.
fn joined(body: &str) -> String {
    let (mut out, mut kept) = (String::with_capacity(body.len()), None);
    let ended =
        |path: (String, &str)| format!("<path d=\"{}\" fill=\"none\"{}/>\n", path.0, path.1);
    for line in body.lines() {
        let element = line.strip_prefix("<polyline fill=\"none\" points=\"");
        let line_to = element.and_then(|rest| rest.strip_suffix("/>")?.split_once('"'));
        // Where lines cross, those that can be seen through would not be drawn as one.
        match (line_to.filter(|(_, look)| !look.contains("opacity=")), kept.take()) {
            (Some((points, look)), Some((before, same))) if look == same => {
                kept = Some((before + "M" + points.trim_end(), look));
            }
            (next, last) => {
                last.into_iter().for_each(|path| out += &ended(path));
                kept = next.map(|(points, look)| (format!("M{}", points.trim_end()), look));
                if kept.is_none() {
                    out = out + line + "\n";
                }
            }
        }
    }
    kept.into_iter().for_each(|path| out += &ended(path));
    out
}

/// Names and values of ` a="b" c="d"`.
fn attributes(mut rest: &str) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    while !rest.is_empty() {
        let (name, more) = rest.strip_prefix(' ')?.split_once("=\"")?;
        let (value, more) = more.split_once('"')?;
        if all.insert(name.to_owned(), plain(value)?).is_some() {
            return None;
        }
        rest = more;
    }
    Some(all)
}

/// The text that was escaped; `None` if signs are left that it could not hold.
fn plain(text: &str) -> Option<String> {
    const NAMED: [(&str, char); 6] = [
        ("amp;", '&'),
        ("lt;", '<'),
        ("gt;", '>'),
        ("quot;", '"'),
        ("apos;", '\''),
        ("#39;", '\''),
    ];
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, sign) = NAMED.iter().find(|(name, _)| part.starts_with(name))?;
        out.push(*sign);
        out += &part[name.len()..];
    }
    (!text.contains(['<', '>', '"'])).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;
    use crate::points::Points;
    use crate::style::MOST_APART;
    use crate::{against_memory, common, threshold_heat_map};

    #[test]
    fn every_chart_of_ours_is_read_with_all_its_marks() {
        for record in common::all() {
            let measure = Measure::of(&record)[0];
            if let Some(map) = threshold_heat_map(&record, "0") {
                let svg = map.svg().expect("a chart");
                assert!(Drawing::read(&svg).is_ok(), "{}", record.scenario);
            }
            let svg = against_memory(&record, measure, "0").svg().expect("a chart");
            let drawing = Drawing::read(&svg).unwrap_or_else(|error| panic!("{error}"));
            let points = Points::of(&record, measure);
            let mut drawn: Vec<usize> = drawing.marks.iter().map(|mark| mark.case).collect();
            drawn.sort_unstable();
            let done = points.done.iter().map(|point| point.case);
            let mut cases: Vec<usize> = done.chain(points.oom.iter().map(|oom| oom.0)).collect();
            cases.sort_unstable();
            // Of more, one mark stands for all that look alike in one place.
            if points.done.len() > MOST_APART {
                cases.retain(|case| drawn.binary_search(case).is_ok());
            }
            assert_eq!(drawn, cases, "{}", record.scenario);
            for mark in &drawing.marks {
                let own = points.done.iter().find(|point| point.case == mark.case);
                assert_eq!(own.map(|point| point.series), mark.series);
            }
        }
    }

    #[test]
    fn lines_of_one_look_are_one_path_and_others_stay_as_they_are() {
        let line = |at: u32, stroke: &str| {
            format!("<polyline fill=\"none\" points=\"{at},1 2,3 \" stroke=\"{stroke}\"/>\n")
        };
        let (red, blue, other) = ("#FF0000", "#0000FF", "<circle cx=\"1\" cy=\"2\" r=\"3\"/>\n");
        let path = |points: &str, stroke: &str| {
            format!("<path d=\"{points}\" fill=\"none\" stroke=\"{stroke}\"/>\n")
        };
        let lines = [line(1, red), line(4, red), other.to_owned(), line(5, red), line(6, blue)];
        let want = [path("M1,1 2,3M4,1 2,3", red), other.to_owned()];
        let want = want.concat() + &path("M5,1 2,3", red) + &path("M6,1 2,3", blue);
        assert_eq!(joined(&lines.concat()), want);
        let faint = line(1, red).replace("/>", " opacity=\"0.5\"/>");
        assert_eq!(joined(&faint.repeat(2)), faint.repeat(2));
        assert_eq!(joined(""), "");
    }

    #[test]
    fn what_we_do_not_write_is_refused_with_its_line() {
        let head = "<svg width=\"10\" height=\"10\" viewBox=\"0 0 100 100\" \
                    xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n<title>a</title>\n";
        let read = |body: &str| Drawing::read(&format!("{head}{body}\n</svg>\n"));
        let good = "<circle cx=\"1\" cy=\"2\" r=\"3\" opacity=\"1\" fill=\"#FF0000\"/>";
        assert!(read(good).is_ok());
        for bad in [
            "<script>alert(1)</script>",
            "<circle cx=\"1\" onload=\"x\"/>",
            "<circle cx=\"1\" style=\"fill:red\"/>",
            "<rect x=\"1\" fill=\"url(#a)\"/>",
            "<image href=\"a.png\"/>",
            "<a href=\"javascript:alert(1)\">",
            "<text x=\"1\"><b>x</b></text>",
            "<text x=\"1\">&bogus;</text>",
            "<text x=\"1\" transform=\"url(x)\">a</text>",
            "<foreignObject>",
            "<circle cx=\"1\"/><script>x</script>",
            "<circle cx=\"1\" cx=\"2\"/>",
            "<g data-case=\"-1\">",
            "<g onclick=\"x\">",
            "<g data-case=\"1\">\n<g data-case=\"2\">",
            "<g data-case=\"1\">",
            "</g>",
            "",
        ] {
            let found = read(bad).expect_err(bad);
            assert!(found.starts_with("line "), "{found}");
        }
        assert!(Drawing::read("").is_err() && Drawing::read(head).is_err());
        let huge = head.replace("\"10\" height", "\"99999\" height");
        assert!(Drawing::read(&huge).is_err());
    }
}
