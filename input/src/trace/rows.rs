//! Rows of a table: fields by column name, parsed with a message that names line and column.
//!
//! A bad field is reported and replaced by a default, so that the rest of the table is still
//! looked at; the caller must not use the rows of a table that had problems.
//! Invariant: a record's row number gives its line, see [`super::tables`].

use super::layout::{Layout, Width};
use super::tables::{Column, Findings, Guard, OTHERS, ReadBudget, Source, columns, describe};
use csv::StringRecord;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::trace_rules::MAX_NAME_BYTES;
use tiersim_models::workload::Name;

/// One row, and where to report what is wrong with it.
pub(crate) struct Row<'a> {
    record: &'a StringRecord,
    places: &'a [Option<usize>],
    columns: &'a [Column],
    file: &'a Path,
    /// Counted from zero, without the header.
    pub(crate) index: u64,
    /// Counted from one, with it.
    line: u64,
    pub(crate) findings: &'a mut Findings,
}

/// The rows of a table, of which one is in memory at a time.
pub(crate) struct Rows {
    pub(crate) path: PathBuf,
    reader: csv::Reader<Guard>,
    columns: Vec<Column>,
    places: Vec<Option<usize>>,
    width: Width,
    record: StringRecord,
    /// Rows read so far.
    index: u64,
    /// Lines before them.
    before: u64,
    /// Rows after this many are an error; the table ends there.
    most: Option<u64>,
}

impl Rows {
    /// The rows behind the header of a table with these columns; the file's path if that is wrong.
    pub(crate) fn open(
        source: Source,
        names: &'static str,
        most: Option<u64>,
        findings: &mut Findings,
    ) -> Result<Rows, PathBuf> {
        let (Source { path, text }, columns) = (source, columns(names));
        // Rows of another length are reported here rather than by the parser, which would stop.
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
        let found = match reader.headers() {
            Ok(headers) => find_columns(headers, &columns, &path, findings),
            Err(error) => {
                csv_problem(&path, &error, 1, findings);
                None
            }
        };
        let Some((places, width)) = found else { return Err(path) };
        let (record, width) = (StringRecord::new(), Width::Header(width));
        Ok(Rows { path, reader, columns, places, width, record, index: 0, before: 1, most })
    }

    /// The rows of a table of this layout.
    pub(crate) fn laid_out(source: Source, layout: Layout) -> Rows {
        let Source { path, text } = source;
        let Layout { columns: names, places, width, delimiter, header, quotes } = layout;
        let mut reader = csv::ReaderBuilder::new();
        reader.flexible(true).delimiter(delimiter).has_headers(header).quoting(quotes);
        let (reader, columns, record) =
            (reader.from_reader(text), columns(names), StringRecord::new());
        let before = u64::from(header);
        Rows { path, reader, columns, places, width, record, index: 0, before, most: None }
    }

    /// Whether the table has a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        let index = self.columns.iter().position(|known| known.name == column);
        index.is_some_and(|index| self.places[index].is_some())
    }

    /// The next row, which is none in itself where that is reported to be wrong; none at the end.
    pub(crate) fn next<'a>(&'a mut self, findings: &'a mut Findings) -> Option<Option<Row<'a>>> {
        let line = Place { line: self.index + 1 + self.before, column: 0 };
        let read = self.reader.read_record(&mut self.record);
        match read {
            Ok(false) => return None,
            Ok(true) if self.most.is_some_and(|most| self.index >= most) => {
                let rule = format!("more than the {} rows that trace.ron says", self.index);
                findings.push(&self.path, Some(line), rule, "", "correct rows in trace.ron");
                return None;
            }
            Ok(true) => {}
            Err(error) => {
                csv_problem(&self.path, &error, line.line, findings);
                if !matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) {
                    return None;
                }
                self.index += 1;
                return Some(None);
            }
        }
        let index = self.index;
        self.index += 1;
        let fields = self.record.len();
        let (width, like) = match self.width {
            Width::Header(width) => (width, ", like the header"),
            Width::Of(width) => (width, ""),
            Width::First => {
                self.width = Width::Of(fields);
                (fields, "")
            }
            Width::Any => (fields, ""),
        };
        if width != fields {
            let rule = format!("a row has {width} fields{like}");
            let remedy = "check the commas and quotes, and whether the file was cut off";
            findings.push(&self.path, Some(line), rule, self.record.len().to_string(), remedy);
            return Some(None);
        }
        let Rows { path, columns, places, record, .. } = self;
        Some(Some(Row { record, places, columns, file: path, index, line: line.line, findings }))
    }
}

/// Reads every row of a table; returns the file's path, and how many rows it has.
///
/// `most`: rows after this many are an error; the table ends there.
pub(crate) fn read_rows(
    source: Source,
    columns: &'static str,
    most: Option<u64>,
    findings: &mut Findings,
    mut each: impl FnMut(&mut Row<'_>),
) -> (PathBuf, u64) {
    let mut rows = match Rows::open(source, columns, most, findings) {
        Ok(rows) => rows,
        Err(path) => return (path, 0),
    };
    while let Some(row) = rows.next(findings) {
        row.into_iter().for_each(|mut row| each(&mut row));
    }
    (rows.path, rows.index)
}

/// The same of a table that may not be there, of as many rows as there are ids.
pub(crate) fn read_table(
    source: Result<Source, Diagnostics>,
    columns: &'static str,
    findings: &mut Findings,
    each: impl FnMut(&mut Row<'_>),
) {
    match source {
        Ok(source) => _ = read_rows(source, columns, Some(u64::from(u32::MAX)), findings, each),
        Err(problems) => findings.extend(problems),
    }
}

/// Where each column is in the file, and how many fields its rows have.
fn find_columns(
    headers: &StringRecord,
    columns: &[Column],
    path: &Path,
    findings: &mut Findings,
) -> Option<(Vec<Option<usize>>, usize)> {
    let mut places = vec![None; columns.len()];
    let first = Some(Place { line: 1, column: 0 });
    let names = columns.iter().map(|column| column.name).filter(|&name| name != OTHERS);
    let names: Vec<&str> = names.collect();
    let has_others = names.len() < columns.len();
    let remedy = format!("the columns are {}", names.join(", "));
    if headers.iter().all(str::is_empty) {
        let rule = "a table begins with the names of its columns, and this file is empty";
        findings.push(path, first, rule, "", remedy);
        return None;
    }
    // Of another kind of table, or rows alone: one word about all of them.
    if headers.len() > 1 && !headers.iter().any(|header| names.contains(&header)) {
        let line: String = headers.iter().collect::<Vec<_>>().join(",").chars().take(80).collect();
        let rule = "a table begins with the names of its columns, of which none is known";
        findings.push(path, first, rule, format!("{line:?}"), remedy);
        return None;
    }
    let mut sound = true;
    for (place, header) in headers.iter().enumerate() {
        let shown: String = header.chars().take(80).collect();
        match columns.iter().position(|column| column.name == header) {
            Some(column) if places[column].is_some() => {
                findings.push(path, first, "the same column twice", shown, "remove one of them");
                sound = false;
            }
            Some(column) => places[column] = Some(place),
            None if has_others => {}
            None => {
                let found = format!("{shown:?}");
                findings.push(path, first, "unknown column", found, remedy.as_str());
                sound = false;
            }
        }
    }
    for (column, place) in columns.iter().zip(&places) {
        if column.required && place.is_none() {
            findings.push(path, first, format!("missing column {}", column.name), "", "add it");
            sound = false;
        }
    }
    sound.then_some((places, headers.len()))
}

fn csv_problem(path: &Path, error: &csv::Error, line: u64, findings: &mut Findings) {
    match error.kind() {
        csv::ErrorKind::Io(error) => findings.extend(describe(path, error)),
        csv::ErrorKind::Utf8 { .. } => {
            let place = Some(Place { line, column: 0 });
            findings.push(path, place, "text that is not UTF-8", "", "save the table as UTF-8");
        }
        _ => {
            let place = Some(Place { line, column: 0 });
            findings.push(path, place, "not a CSV row", error.to_string(), "check the row");
        }
    }
}

impl Row<'_> {
    /// The text of a field; empty where the table has no such column.
    pub(crate) fn text(&self, column: &str) -> &str {
        let index = self.columns.iter().position(|known| known.name == column);
        let place = index.and_then(|index| self.places[index]);
        place.and_then(|place| self.record.get(place)).unwrap_or_default()
    }

    /// Reports a problem of this row.
    pub(crate) fn problem(&mut self, rule: impl Into<String>, found: String, remedy: &str) {
        let place = Place { line: self.line, column: 0 };
        let mut found: String = found;
        if let Some((cut, _)) = found.char_indices().nth(80) {
            found.truncate(cut);
            found.push_str("...");
        }
        self.findings.push(self.file, Some(place), rule, found, remedy);
    }

    /// Is there room to keep so many bytes of values of this row? If not, that is reported,
    /// once.
    pub(crate) fn fits(&mut self, budget: &mut ReadBudget, live: usize) -> bool {
        let taken = budget.take(self.record.as_slice().len() + self.record.len(), live);
        if let Err(rule) = taken {
            if !std::mem::replace(&mut budget.refused, true) {
                self.problem(rule, "more".to_owned(), "split the table, or check what it is");
            }
            return false;
        }
        true
    }

    /// A name, at most 256 bytes.
    pub(crate) fn name(&mut self, column: &str) -> Name {
        let text = self.text(column);
        if text.len() <= MAX_NAME_BYTES {
            return text.into();
        }
        let found = format!("{:?}", text.chars().take(40).collect::<String>());
        let rule = format!("{column} is at most {MAX_NAME_BYTES} bytes long");
        self.problem(rule, found, "shorten it");
        Name::default()
    }

    /// A whole number that must be there.
    pub(crate) fn whole<T: TryFrom<u64> + Default>(&mut self, column: &str) -> T {
        if self.text(column).is_empty() {
            self.problem(format!("{column} is empty"), String::new(), "write a whole number");
            return T::default();
        }
        self.whole_or_none(column).unwrap_or_default()
    }

    /// A whole number, or nothing for an empty field.
    pub(crate) fn whole_or_none<T: TryFrom<u64> + Default>(&mut self, column: &str) -> Option<T> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        match whole_number(text).and_then(|number| T::try_from(number).ok()) {
            Some(number) => Some(number),
            None => {
                let most = u64::MAX >> (64 - 8 * size_of::<T>().clamp(1, 8));
                let rule = format!("{column} is a whole number from 0 to {most}");
                self.problem(rule, text.to_owned(), "write it in digits, without exponent");
                Some(T::default())
            }
        }
    }

    /// A finite number, or nothing for an empty field.
    pub(crate) fn real_or_none(&mut self, column: &str) -> Option<f64> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Some(number),
            _ => {
                let rule = format!("{column} is a finite number");
                self.problem(rule, text.to_owned(), "write such a number, or leave it empty");
                Some(0.0)
            }
        }
    }

    /// Nanoseconds with up to three decimals, as picoseconds; nothing for an empty field.
    pub(crate) fn picoseconds_or_none(&mut self, column: &str) -> Option<u64> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        match picoseconds(text) {
            Some(ps) => Some(ps),
            None => {
                let rule = format!("{column} is nanoseconds from 0 up to 213 days");
                let remedy = "write digits with at most three decimals, without exponent";
                self.problem(rule, text.to_owned(), remedy);
                Some(0)
            }
        }
    }

    /// One of a set of words.
    pub(crate) fn word<T: Copy>(&mut self, column: &str, words: &[(&str, T)], instead: T) -> T {
        let text = self.text(column);
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let rule = format!("{column} is one of {}", words.join(", "));
        self.problem(rule, format!("{text:?}"), "write one of them");
        instead
    }

    /// Checks that a row's id is its position.
    pub(crate) fn expect_id(&mut self) {
        let id: u64 = self.whole("id");
        if id != self.index {
            let rule = format!("id {} comes next", self.index);
            self.problem(rule, id.to_string(), "number the rows 0, 1, 2, ... in order");
        }
    }
}

/// Digits only: no sign, no exponent, no spaces.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn picoseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let scale = match decimals.len() {
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return None,
    };
    let fraction = whole_number(decimals)?.checked_mul(scale)?;
    whole_number(whole)?.checked_mul(1000)?.checked_add(fraction)
}

/// Adds to a table, which grows by an eighth: a row of ten bytes of text takes 200, and twice that
/// for rows to come would be more than a small file may take.
pub(super) fn push<T>(table: &mut Vec<T>, row: T) {
    if table.len() == table.capacity() {
        table.reserve_exact(table.len() / 8 + 64);
    }
    table.push(row);
}

#[cfg(test)]
mod tests {
    use super::picoseconds;

    #[test]
    fn nanoseconds_are_read_to_the_picosecond() {
        assert_eq!(picoseconds("12"), Some(12_000));
        assert_eq!(picoseconds("12.5"), Some(12_500));
        assert_eq!(picoseconds("0.001"), Some(1));
        assert_eq!(picoseconds("18446744073709551.615"), Some(u64::MAX));
        for bad in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.0001", "18446744073709551.616"] {
            assert_eq!(picoseconds(bad), None, "{bad}");
        }
    }
}
