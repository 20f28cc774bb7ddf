//! A table with a caption: words on the left, numbers on the right, its first column names the row.
//!
//! Words among numbers wrap, and long names are given room, so that a row is a few lines at the most.
//! It scrolls in a box of its own where the page is narrow, and the box can be reached by keyboard.
//! Invariant: every row has as many cells as there are columns.

use crate::text_table::Side;
use crate::words::escaped;
use std::fmt::Write;

/// Longer texts than this are no numbers.
const MOST_NUMBER: usize = 28;
/// Longer names of rows than this need room.
const MOST_NAME: usize = 32;

/// A table with a caption.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<(String, Side)>,
    /// Second lines of the columns' names.
    seconds: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<String>,
    /// Where more is said of it: `#` and an id of the page, or an address of its server.
    more: Option<String>,
    /// Its own id on the page.
    id: Option<String>,
    /// Columns whose cell is to be seen as different.
    marked: Vec<usize>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(caption: &str, columns: &[(&str, Side)]) -> Table {
        let columns = columns.iter().map(|&(name, side)| (name.to_owned(), side)).collect();
        Table { caption: caption.to_owned(), columns, ..Table::default() }
    }

    /// The name of this column goes on in a second line.
    pub(crate) fn second_line(&mut self, column: usize, text: &str) {
        self.seconds.resize(self.columns.len(), String::new());
        self.seconds[column] = text.to_owned();
    }

    /// Adds a row: one text per column. Missing ones stay empty, further ones are not shown.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row { cells, ..Row::default() });
    }

    /// The name of the last row leads to what has this id on the page.
    pub(crate) fn link(&mut self, id: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.more = Some(format!("#{id}"));
        }
    }

    /// The name of the last row leads to this address of the page's server.
    pub(crate) fn lead(&mut self, address: String) {
        if let Some(row) = self.rows.last_mut() {
            row.more = Some(address);
        }
    }

    /// The last row is what links to this id lead to.
    pub(crate) fn place(&mut self, id: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.id = Some(id.to_owned());
        }
    }

    /// The last row's cells in these columns stand out.
    pub(crate) fn mark(&mut self, columns: Vec<usize>) {
        if let Some(row) = self.rows.last_mut() {
            row.marked = columns;
        }
    }

    /// Has it no rows?
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as HTML.
    pub(super) fn write(&self, out: &mut String) {
        let caption = escaped(&self.caption);
        let _ = writeln!(
            out,
            "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\
             <table>\n<caption>{caption}</caption>"
        );
        out.push_str("<thead><tr>");
        for (index, (name, side)) in self.columns.iter().enumerate() {
            // A head stands above its numbers, but is no reason for its column to be so wide.
            let is_long = *side == Side::Right && name.chars().count() > MOST_NUMBER;
            let class = match is_long {
                true => " class=\"number long\"".to_owned(),
                false => class(*side, false, false),
            };
            let mut name = escaped(name);
            if let Some(second) = self.seconds.get(index).filter(|second| !second.is_empty()) {
                name += &format!(" <br/>{}", escaped(second));
            }
            let _ = write!(out, "<th scope=\"col\"{class}>{name}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        self.rows.iter().for_each(|row| self.write_row(row, out));
        out.push_str("</tbody></table></div>\n");
    }

    fn write_row(&self, row: &Row, out: &mut String) {
        let id = row.id.as_ref().map_or(String::new(), |id| format!(" id=\"{}\"", escaped(id)));
        let _ = write!(out, "<tr{id}>");
        for (index, (cell, (_, side))) in row.cells.iter().zip(&self.columns).enumerate() {
            let most = if index == 0 { MOST_NAME } else { MOST_NUMBER };
            // A long text of a column of words has room without more ado.
            let is_long = cell.chars().count() > most && (index == 0 || *side == Side::Right);
            let class = class(*side, is_long, row.marked.contains(&index));
            let text = escaped(cell);
            let text = match &row.more {
                Some(to) if index == 0 => format!("<a href=\"{}\">{text}</a>", escaped(to)),
                _ => text,
            };
            let _ = match index {
                0 => write!(out, "<th scope=\"row\"{class}>{text}</th>"),
                _ => write!(out, "<td{class}>{text}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
}

fn class(side: Side, is_long: bool, marked: bool) -> String {
    let kind = match (side, is_long) {
        (_, true) => Some("long"),
        (Side::Right, false) => Some("number"),
        (Side::Left, false) => None,
    };
    let words: Vec<&str> = kind.into_iter().chain(marked.then_some("differs")).collect();
    if words.is_empty() { String::new() } else { format!(" class=\"{}\"", words.join(" ")) }
}
