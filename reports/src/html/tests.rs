//! What a page promises whoever opens it, with names that are meant to break it.

use super::*;
use crate::text_table::Side;
use crate::words::clean;
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

/// What holds of every page, whatever is on it.
fn assert_inert(page: &str) {
    let document = read(page);
    let mut scripts = 0;
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for node in document.descendants().filter(|node| node.is_element()) {
        let name = node.tag_name().name();
        let loads = ["img", "link", "iframe", "object", "image", "use", "form", "base"];
        assert!(!loads.contains(&name), "{name}");
        if name == "script" {
            scripts += 1;
            assert_eq!(node.attributes().count(), 0);
            assert!(node.text().is_some_and(|text| text.contains("use strict")));
        }
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            let runs = name.starts_with("on") || ["src", "style"].contains(&name);
            assert!(!runs, "{name}={value}");
            if name == "href" {
                let to = value.strip_prefix('#').unwrap_or_else(|| panic!("{value}"));
                assert!(ids.contains(&to), "nothing is called {to}");
            }
        }
    }
    assert_eq!(scripts, 1);
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id comes twice: {ids:?}");
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    assert!(!page.contains("url(") && !page.contains("@import"));
}

#[test]
fn a_page_loads_nothing_and_runs_nothing_but_its_own_script() {
    HOSTILE.iter().for_each(|text| assert_inert(&page(text)));
}

#[test]
fn headings_go_down_one_level_at_a_time() {
    let mut built = Page::new("a");
    built.part("one");
    built.heading("within");
    built.subheading("deeper");
    built.part("two");
    built.heading("within");
    let built = built.finish();
    assert_inert(&built);
    for page in [built, page("x")] {
        let document = read(&page);
        let names = document.descendants().map(|node| node.tag_name().name());
        let levels = names.filter_map(|name| name.strip_prefix('h')?.parse::<u32>().ok());
        let levels: Vec<u32> = levels.collect();
        assert_eq!(levels[0], 1);
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
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

#[test]
fn words_among_numbers_wrap_and_long_names_have_room() {
    let mut page = Page::new("lines");
    let long = "a machine of a rather long name with several links";
    let columns = [("name", Side::Left), ("n", Side::Right), (long, Side::Right)];
    let mut table = Table::new("what", &columns);
    table.row(["short", "12.3 ms"]);
    table.row([long, long]);
    table.mark(vec![1]);
    page.table(&table);
    let page = page.finish();
    assert!(page.contains("<th scope=\"row\">short</th><td class=\"number\">12.3 ms</td>"));
    let row =
        format!("<th scope=\"row\" class=\"long\">{long}</th><td class=\"long differs\">{long}");
    assert!(page.contains(&row), "{page}");
    assert!(page.contains(&format!(
        "<th scope=\"col\" class=\"number\">n</th><th scope=\"col\" class=\"number long\">{long}"
    )));
}
