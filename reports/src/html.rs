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
use crate::words::{clean, escaped};
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) use points::Shown;
pub(crate) use script::Also;
pub(crate) use table::Table;
pub(crate) use what_if::WhatIf;

const STYLE: &str = include_str!("../assets/page.css");
/// What only pages of a server have.
const SERVED: &str = include_str!("../assets/served/served.css");
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
    /// The script beside that of every page.
    pub(crate) also: Also,
    /// Where a page of a server leads back to: address and words.
    pub(crate) home: Option<(&'static str, &'static str)>,
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
            also: Also::Nothing,
            home: None,
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
        self.also = if what_if.inside.is_some() { Also::Module } else { Also::Server };
        what_if.write(&mut self.body);
    }

    /// A text that the script of a server's page sends back; `tag` says which one it was. False if
    /// it has what a page cannot show as it is.
    pub(crate) fn editor(&mut self, label: &str, text: &str, tag: &str) -> bool {
        let (label, tag, rows) = (escaped(label), escaped(tag), text.lines().count().clamp(8, 40));
        let breaks = |c: char| matches!(c, '\n' | '\t');
        if text.split(breaks).any(|piece| clean(piece) != piece) {
            return false;
        }
        let pieces = text.split_inclusive(breaks).map(|piece| {
            let (words, end) = piece.split_at(piece.trim_end_matches(breaks).len());
            escaped(words) + end
        });
        // The first line break of a text area is not part of its text.
        let text: String = pieces.collect();
        let _ = writeln!(
            self.body,
            "<div class=\"edit\"><textarea rows=\"{rows}\" spellcheck=\"false\" \
             aria-label=\"{label}\" data-tag=\"{tag}\">\n{text}</textarea>\n\
             <p><button type=\"button\">Check and save</button> <span role=\"status\"></span></p>\n\
             <ul></ul></div>"
        );
        true
    }

    /// A table whose figures the script of a server's page renews.
    pub(crate) fn renewed(&mut self, table: &Table) {
        self.also = Also::Sweeps;
        self.body.push_str("<div class=\"sweeps\">\n");
        self.table(table);
        self.body.push_str("<p role=\"status\"></p></div>\n");
    }

    /// The content security policy of the page as it stands.
    pub(crate) fn policy(&self) -> String {
        self.also.policy()
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
        if let Some((to, words)) = self.home {
            let _ = writeln!(list, "<li><a href=\"{to}\">{words}</a></li>");
        }
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
        let (policy, scripts) = (self.policy(), self.also.scripts());
        let served = if matches!(self.also, Also::Server | Also::Sweeps) { SERVED } else { "" };
        let Page { title, body, .. } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}{served}</style>\n</head>\n<body id=\"top\">\n\
             <header>\n<h1>{title}</h1>\n{contents}</header>\n<main>\n{body}</main>\n\
             {scripts}</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests;
