//! Tables of text for a terminal: every column as wide as its widest cell, two spaces between.
//!
//! Invariant: no line ends in spaces.

/// On which side the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The lines of `rows`, each behind `indent` spaces; columns beyond `sides` are words, and a row
/// without cells is an empty line.
pub fn text_table(indent: usize, sides: &[Side], rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match sides
            .get(column)
        {
            Some(Side::Right) => format!("{cell:>width$}"),
            Some(Side::Left) | None => format!("{cell:<width$}"),
        });
        let line = format!("{:indent$}{}", "", cells.collect::<Vec<_>>().join("  "));
        text += line.trim_end();
        text.push('\n');
    }
    text
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
}
