//! Pages that need nothing else: one file, no network, charts inside.
//!
//! A page is sent by mail, printed, and read years later, so its style is in it, charts are inline
//! SVG, and a policy in its head forbids the browser to load anything and to run any script but the
//! page's own, which sorts and copies tables and shows a chart's points; without it everything can
//! be read all the same. A page that was asked for a simulator has one more script, which runs it. A page is well-formed XML as well as HTML, so that a test can read it
//! strictly.
//! Invariant: every text is cleaned and escaped here and nowhere else; no caller writes markup, ids
//! are unique, and every link leads to an id of the page.

mod points;
mod script;
mod table;
mod what_if;

use crate::ChartError;
use crate::drawing::Drawing;
use crate::render::Chart;
use crate::words::escaped;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) use points::Shown;
pub(crate) use table::Table;
pub(crate) use what_if::WhatIf;

const STYLE: &str = include_str!("../assets/page.css");
/// Most characters of an id.
const MOST_ID: usize = 60;

/// A page under construction: what is added appears in that order.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
    /// Ids that are taken.
    ids: BTreeSet<String>,
    /// Sections by depth, id and heading.
    contents: Vec<(usize, String, String)>,
    /// How many sections are open.
    open: usize,
    /// 1 within a part, else 0.
    depth: usize,
    /// Whether there is a simulator on it.
    simulates: bool,
}

/// How a statement is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As expected.
    Good,
    /// Not as expected.
    Bad,
    /// To be kept in mind.
    Note,
    /// Neither.
    Plain,
}

impl Page {
    /// A page with its title as the first heading.
    pub(crate) fn new(title: &str) -> Page {
        Page {
            title: escaped(title),
            body: String::new(),
            ids: ["top", "what-if-module", "what-if-files"].map(str::to_owned).into(),
            contents: Vec::new(),
            open: 0,
            depth: 0,
            simulates: false,
        }
    }

    /// A part that holds the sections that follow, up to the next part.
    pub(crate) fn part(&mut self, text: &str) {
        self.depth = 0;
        self.heading(text);
        self.depth = 1;
    }

    /// A heading of a section.
    pub(crate) fn heading(&mut self, text: &str) {
        let id = self.id(text);
        self.close(self.depth);
        self.open += 1;
        let _ = writeln!(self.body, "<section id=\"{id}\" aria-labelledby=\"{id}-h\">");
        self.title(2 + self.depth, &format!("{id}-h"), &id, text);
        self.contents.push((self.depth, id, escaped(text)));
    }

    /// A heading within a section.
    pub(crate) fn subheading(&mut self, text: &str) {
        let id = self.id(text);
        self.subheading_at(&id, text);
    }

    /// The same with an id that was made before.
    pub(crate) fn subheading_at(&mut self, id: &str, text: &str) {
        self.title(3 + self.depth, id, id, text);
    }

    fn title(&mut self, level: usize, id: &str, target: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<h{level} id=\"{id}\">{text}<a class=\"here\" href=\"#{target}\" \
             aria-label=\"Link to {text}\">#</a></h{level}>"
        );
    }

    /// An id that only this text's place on the page has: made of its letters and digits.
    pub(crate) fn id(&mut self, text: &str) -> String {
        let mut slug = String::new();
        for c in text.chars().take(MOST_ID) {
            match c.to_ascii_lowercase() {
                c if c.is_ascii_alphanumeric() => slug.push(c),
                _ if slug.ends_with('-') || slug.is_empty() => {}
                _ => slug.push('-'),
            }
        }
        let slug = match slug.trim_end_matches('-') {
            "" => "x",
            slug => slug,
        };
        let mut id = slug.to_owned();
        let mut turn = 1;
        // The heading of a section has its id with two more characters.
        while self.ids.contains(&id) || self.ids.contains(&format!("{id}-h")) {
            turn += 1;
            id = format!("{slug}-{turn}");
        }
        self.ids.extend([id.clone(), format!("{id}-h")]);
        id
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// A paragraph that stands out. Its first word must say what its colour says.
    pub(crate) fn statement(&mut self, tone: Tone, text: &str) {
        let class = match tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Note => "note",
            Tone::Plain => "plain",
        };
        let _ = writeln!(self.body, "<p class=\"said {class}\">{}</p>", escaped(text));
    }

    /// A list; nothing if it is empty.
    pub(crate) fn list(&mut self, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.body.push_str("<ul>\n");
        for item in items {
            let _ = writeln!(self.body, "<li>{}</li>", escaped(item));
        }
        self.body.push_str("</ul>\n");
    }

    /// Names with what they stand for.
    pub(crate) fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.push_str("<dl>\n");
        for (name, value) in facts {
            let (name, value) = (escaped(name), escaped(value));
            let _ = writeln!(self.body, "<dt>{name}</dt><dd>{value}</dd>");
        }
        self.body.push_str("</dl>\n");
    }

    /// A table, which scrolls by itself where the page is narrow.
    pub(crate) fn table(&mut self, table: &Table) {
        table.write(&mut self.body);
    }

    /// A table that a reader has to open.
    pub(crate) fn folded(&mut self, words: &str, table: &Table) {
        let _ = writeln!(self.body, "<details><summary>{}</summary>", escaped(words));
        self.table(table);
        self.body.push_str("</details>\n");
    }

    /// A chart as a figure, with the words for those who cannot see it.
    pub(crate) fn chart(&mut self, chart: &Chart, caption: &str) -> Result<(), ChartError> {
        let drawing = Drawing::read(&chart.svg()?).map_err(ChartError::Draw)?;
        self.drawing(&drawing, caption, |_| None);
        Ok(())
    }

    /// A drawing as a figure. What `shown` says of a case is shown at its mark, which leads to the
    /// id that it names.
    pub(crate) fn drawing(
        &mut self,
        drawing: &Drawing,
        caption: &str,
        shown: impl Fn(usize) -> Option<Shown>,
    ) {
        points::figure(&mut self.body, drawing, &escaped(caption), shown);
    }

    /// A simulator with sliders; a page has one at most.
    pub(crate) fn what_if(&mut self, what_if: &WhatIf<'_>) {
        self.simulates = true;
        what_if.write(&mut self.body);
    }

    /// Ends sections until so many are open.
    fn close(&mut self, open: usize) {
        while self.open > open {
            self.body.push_str("</section>\n");
            self.open -= 1;
        }
    }

    fn contents(&self) -> String {
        let mut list = String::new();
        let deepest = if self.contents.len() > 24 { 0 } else { 1 };
        for (depth, id, text) in self.contents.iter().filter(|(depth, ..)| *depth <= deepest) {
            let class = if *depth > 0 { " class=\"within\"" } else { "" };
            let _ = writeln!(list, "<li{class}><a href=\"#{id}\">{text}</a></li>");
        }
        if list.is_empty() {
            return list;
        }
        format!("<nav aria-label=\"Contents\">\n<ul>\n{list}</ul>\n</nav>\n")
    }

    /// The whole document.
    pub(crate) fn finish(mut self) -> String {
        self.close(0);
        let contents = self.contents();
        let Page { title, body, simulates, .. } = self;
        let (policy, scripts) = (script::policy(simulates), script::scripts(simulates));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body id=\"top\">\n\
             <header>\n<h1>{title}</h1>\n{contents}</header>\n<main>\n{body}</main>\n\
             {scripts}</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests;
