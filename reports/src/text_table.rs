//! Tables of text for a terminal: every column as wide as its widest cell, two spaces between.

use crate::wide::columns;
use crate::words::wrapped;

/// How much a table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What a terminal of 80 columns has room for.
    Narrow,
    /// Every figure, on lines of up to 112 characters.
    Wide,
}

impl Detail {
    /// Most characters of a line.
    pub(crate) const fn width(self) -> usize {
        match self {
            Detail::Narrow => 80,
            Detail::Wide => 112,
        }
    }
}

/// On which side the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The lines of `rows`, each behind `indent` spaces; columns beyond `sides` are words, and a row
/// without cells is an empty line. No line ends in spaces.
pub fn text_table(indent: usize, sides: &[Side], rows: &[Vec<String>]) -> String {
    let widths = widths(rows);
    let side = |column: usize| sides.get(column).copied().unwrap_or(Side::Left);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate();
        let line = line(cells.map(|(column, cell)| (cell, widths[column], side(column))));
        text += format!("{:indent$}{line}", "").trim_end();
        text.push('\n');
    }
    text
}

/// The lines of `rows` with a rule under the first `head` of them. Columns that do not fit `most`
/// characters continue in a block of their own, behind the first column, which is words; the others
/// are numbers. All lines of a block are equally wide.
pub(crate) fn table_in_blocks(head: usize, most: usize, rows: &[Vec<String>]) -> String {
    let widths = widths(rows);
    let mut blocks = Vec::new();
    let mut from = 1;
    while from < widths.len() {
        let (mut to, mut width) = (from, widths[0]);
        while to < widths.len() && (to == from || width + 2 + widths[to] <= most) {
            width += 2 + widths[to];
            to += 1;
        }
        let of = |row: &Vec<String>| {
            let numbers = (from..to).map(|column| (&row[column], widths[column], Side::Right));
            line(std::iter::once((&row[0], widths[0], Side::Left)).chain(numbers)) + "\n"
        };
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let (heads, cells) = rows.split_at(head.min(rows.len()));
        blocks.push(heads.iter().chain([&rule]).chain(cells).map(of).collect::<String>());
        from = to;
    }
    blocks.join("\n")
}

/// How wide the widest cell of each column is.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| columns(cell)).max().unwrap_or(0)
    };
    (0..count).map(width).collect()
}

/// Cells with their widths and sides, two spaces between.
fn line<'c>(cells: impl Iterator<Item = (&'c String, usize, Side)>) -> String {
    let padded = cells.map(|(cell, width, side)| {
        let air = " ".repeat(width.saturating_sub(columns(cell)));
        match side {
            Side::Right => air + cell,
            Side::Left => format!("{cell}{air}"),
        }
    });
    padded.collect::<Vec<_>>().join("  ")
}

/// Writes a text on lines of at most `width` characters: behind `first` the first line, behind
/// `rest` all others.
pub(crate) fn paragraph(out: &mut String, first: &str, rest: &str, text: &str, width: usize) {
    for (index, line) in wrapped(text, width - rest.len()).iter().enumerate() {
        *out += &format!("{}{line}\n", if index == 0 { first } else { rest });
    }
}

/// Cells of a row.
pub fn cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            cells(["name", "bytes", "from"]),
            cells(["é", "12345", ""]),
            vec![],
            cells(["long one"]),
        ];
        let table = text_table(2, &[Side::Left, Side::Right], &rows);
        assert_eq!(table, "  name      bytes  from\n  é         12345\n\n  long one\n");
        assert_eq!(text_table(0, &[], &[]), "");
    }

    #[test]
    fn cells_of_wide_characters_leave_the_next_column_where_it_is() {
        let rows = [cells(["分層", "1"]), cells(["ab", "22"]), cells(["e\u{301}", "333"])];
        let table = text_table(0, &[Side::Left, Side::Right], &rows);
        assert_eq!(table, "分層    1\nab     22\ne\u{301}     333\n");
    }
}
