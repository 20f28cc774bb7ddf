//! Pages that need nothing else: one file, no script, no network, charts inside.
//!
//! A page is sent by mail, printed, and read years later, so its style is in it, charts are inline
//! SVG, and a policy in its head forbids the browser to load anything. It is well-formed XML as
//! well as HTML, so that a test can read it strictly.
//! Invariant: every text is cleaned and escaped here and nowhere else; no caller writes markup.

use crate::ChartError;
use crate::render::Chart;
use crate::text_table::Side;
use crate::words::clean;
use std::fmt::Write;

const STYLE: &str = include_str!("../assets/page.css");

/// A page under construction: what is added appears in that order.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
}

/// A table with a caption.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
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
}

impl Page {
    /// A page with its title as the first heading.
    pub(crate) fn new(title: &str) -> Page {
        let title = escaped(title);
        let body = format!("<h1>{title}</h1>\n");
        Page { title, body }
    }

    /// A heading of a section.
    pub(crate) fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
    }

    /// A heading within a section.
    pub(crate) fn subheading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h3>{}</h3>", escaped(text));
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
        let class = |side: Side| if side == Side::Right { " class=\"number\"" } else { "" };
        self.body.push_str("<div class=\"wide\"><table>\n");
        let _ = writeln!(self.body, "<caption>{}</caption>", escaped(&table.caption));
        self.body.push_str("<thead><tr>");
        for (name, side) in &table.columns {
            let _ = write!(self.body, "<th scope=\"col\"{}>{}</th>", class(*side), escaped(name));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            self.body.push_str("<tr>");
            for (cell, (_, side)) in row.iter().zip(&table.columns) {
                let _ = write!(self.body, "<td{}>{}</td>", class(*side), escaped(cell));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// A chart as a figure, with the words for those who cannot see it.
    pub(crate) fn chart(&mut self, chart: &Chart, caption: &str) -> Result<(), ChartError> {
        let (svg, caption) = (chart.svg()?, escaped(caption));
        let _ = writeln!(
            self.body,
            "<figure>\n{}\n<figcaption>{caption}</figcaption></figure>",
            svg.trim_end()
        );
        Ok(())
    }

    /// The whole document.
    pub(crate) fn finish(self) -> String {
        let Page { title, body } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\
             </main>\n</body>\n</html>\n"
        )
    }
}

impl Table {
    /// An empty table.
    pub(crate) fn new(caption: &str, columns: &[(&str, Side)]) -> Table {
        let columns = columns.iter().map(|&(name, side)| (name.to_owned(), side)).collect();
        Table { caption: caption.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row: one text per column. Missing ones stay empty, further ones are not shown.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Has it no rows?
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Text that is nothing but text, in an element or in an attribute.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Marks, Series, XyChart};
    use roxmltree::{Document, ParsingOptions};

    const HOSTILE: [&str; 8] = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onload='x",
        "&amp;&#60;&lt",
        "]]></style></svg><b>",
        "\u{202e}gnp.exe\u{0}\u{1b}[2J",
        "<!-- --> <!DOCTYPE x> <?php ?>",
        "two\nlines\ttabs",
    ];

    /// A page with this text everywhere.
    fn page(text: &str) -> String {
        let mut page = Page::new(text);
        page.heading(text);
        page.subheading(text);
        page.paragraph(text);
        page.statement(Tone::Bad, text);
        page.list(&[text.to_owned(), text.to_owned()]);
        page.facts(&[("name", text.to_owned())]);
        let mut table = Table::new(text, &[(text, Side::Left), ("n", Side::Right)]);
        table.row([text, "1"]);
        table.row([text]);
        page.table(&table);
        let axis = || Axis::linear(text, text);
        let points = vec![(1.0, 2.0)];
        let series = Series { label: text.to_owned(), marks: Marks::Points, points };
        let chart = XyChart {
            title: text.to_owned(),
            notes: vec![text.to_owned(); 3],
            x: axis(),
            y: axis(),
            series: vec![series],
            ..XyChart::default()
        };
        page.chart(&chart.chart(), text).expect("it draws");
        page.finish()
    }

    fn read(page: &str) -> Document<'_> {
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        Document::parse_with_options(page, options).expect("well-formed")
    }

    #[test]
    fn hostile_names_stay_text() {
        let plain = page("plain");
        let names = |page: &str| -> Vec<String> {
            let page = read(page);
            let elements = page.descendants().filter(|node| node.is_element());
            elements.map(|node| node.tag_name().name().to_owned()).collect()
        };
        let shape = |page: &str| -> Vec<String> {
            // What a text is drawn as within a chart depends on its length.
            let all = names(page);
            all.into_iter().filter(|name| name.as_str() != "text").collect()
        };
        for text in HOSTILE {
            let hostile = page(text);
            assert_eq!(shape(&hostile), shape(&plain), "{text:?}");
            let document = read(&hostile);
            let heading = document.descendants().find(|node| node.tag_name().name() == "h2");
            let said = heading.and_then(|node| node.text()).expect("a heading");
            assert_eq!(said, clean(text), "the text is there, whole");
        }
    }

    #[test]
    fn a_page_loads_nothing_and_runs_nothing() {
        for text in HOSTILE {
            let page = page(text);
            let document = read(&page);
            for node in document.descendants().filter(|node| node.is_element()) {
                let name = node.tag_name().name();
                let loads = ["script", "img", "link", "iframe", "object", "image", "use", "a"];
                assert!(!loads.contains(&name), "{name}");
                for attribute in node.attributes() {
                    let name = attribute.name();
                    let runs = name.starts_with("on") || ["src", "href", "style"].contains(&name);
                    assert!(!runs, "{name}={}", attribute.value());
                }
            }
            assert!(page.contains("default-src 'none'"));
            assert!(!page.contains("url(") && !page.contains("@import"));
        }
    }

    #[test]
    fn rows_have_a_cell_for_every_column() {
        let page = page("x");
        let document = read(&page);
        let rows = document.descendants().filter(|node| node.tag_name().name() == "tr");
        for row in rows {
            assert_eq!(row.children().filter(|cell| cell.is_element()).count(), 2);
        }
    }
}
