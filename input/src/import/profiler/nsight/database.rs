//! A database that somebody else wrote, opened so that it can only be read.
//!
//! It may be damaged, or made to harm whoever opens it. So it is opened as a file that nobody
//! changes: without a lock, a journal or a log beside it, and one beside which there is a log with rows
//! that the database has not is refused. Its views, triggers and functions are not
//! run, and columns that it computes are none.
//! Invariant: a table has at most as many rows, and texts, as the file has room for, and what SQLite
//! does for all of them, the list of tables included, is bounded by the file too, so that pages that
//! lead to each other end in an error and not in a walk without end.

use crate::archive::within;
use crate::json::cannot_read;
use crate::packed::{Packing, plain};
use crate::trace::tables::open;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, MAIN_DB, OpenFlags, Row};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;

/// What a write-ahead log begins with, but for its last bit, which says in which order sums are.
const WAL_MAGIC: u32 = 0x377F_0682;
/// Longest text or row that is read.
const MOST_BYTES: i32 = 4 << 20;
/// Most bytes of the file that SQLite holds at a time.
const CACHE_KIB: i64 = 4096;
/// A row takes two bytes in its page's list of rows, and two bytes or more itself.
const ROW_BYTES: u64 = 4;
/// Steps of SQLite's machine for a byte of the file, and for any file. A row of an activity takes 13
/// steps when it is read, and more than 40 bytes.
const STEPS_PER_BYTE: u64 = 8;
const FREE_STEPS: u64 = 4_000_000;
/// Bytes that a packed database may unpack to: for each of its own, for any, and at most.
const MOST_UNPACKED: u64 = 200;
const FREE_UNPACKED: u64 = 16 << 20;
const MOST_IN_MEMORY: u64 = 2 << 30;
/// How often they are counted.
const AT_ONCE: i32 = 4096;

/// A database, and the names of its tables.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    /// Names, and whether each is a table and no view or the like.
    names: BTreeMap<String, bool>,
    /// Bytes of the file.
    pub(super) bytes: u64,
}

/// A row, by the place of each column that was asked for.
pub(super) struct Cells<'a>(&'a Row<'a>);

impl Database {
    /// Opens the file.
    ///
    /// # Errors
    /// That it is no database, or damaged.
    pub(super) fn open(path: &Path) -> Result<Database, Diagnostics> {
        let unpacked = unpacked(path)?;
        let bytes = match &unpacked {
            Some(bytes) => bytes.len() as u64,
            None => {
                no_log(path)?;
                std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?.len()
            }
        };
        let connection = connect(path, unpacked.as_deref(), bytes)
            .map_err(|error| damaged(path, "its head", &error))?;
        let (path, names) = (path.to_owned(), BTreeMap::new());
        let mut database = Database { connection, path, names, bytes };
        let mut names = BTreeMap::new();
        database.each("its tables", "SELECT name, type, rootpage FROM sqlite_schema", |cells| {
            if let Some(name) = cells.text(0) {
                let table =
                    cells.text(1) == Some("table") && cells.number(2).is_some_and(|at| at > 0);
                names.insert(name.to_owned(), table);
            }
            Ok(())
        })?;
        database.names = names;
        Ok(database)
    }

    /// Whether there is such a table.
    pub(super) fn has(&self, table: &str) -> bool {
        self.names.get(table).copied().unwrap_or(false)
    }

    /// Some of its names, for a message.
    pub(super) fn some_names(&self) -> String {
        let names: Vec<&str> = self.names.keys().map(String::as_str).take(8).collect();
        match names.is_empty() {
            true => "no tables".to_owned(),
            false => names.join(", ").chars().take(200).collect(),
        }
    }

    /// Hands on the columns of each row of a table; none of a table that is not there. A column that
    /// is not there has no value.
    ///
    /// # Errors
    /// That the database is damaged, or what `take` refuses.
    pub(super) fn rows(
        &self,
        table: &'static str,
        columns: &[&str],
        take: impl FnMut(&Cells<'_>) -> Result<(), String>,
    ) -> Result<(), Diagnostics> {
        if !self.has(table) {
            return Ok(());
        }
        let mut there = Vec::new();
        self.each(table, &format!("PRAGMA table_xinfo(\"{table}\")"), |cells| {
            // 0 is a column that is stored: others are computed, or hidden.
            if let (Some(name), Some(0)) = (cells.text(1), cells.number(6)) {
                there.push(name.to_ascii_lowercase());
            }
            Ok(())
        })?;
        let asked =
            columns.iter().map(|column| match there.contains(&column.to_ascii_lowercase()) {
                true => format!("\"{column}\""),
                false => "NULL".to_owned(),
            });
        let asked: Vec<String> = asked.collect();
        self.each(table, &format!("SELECT {} FROM \"{table}\"", asked.join(", ")), take)
    }

    fn each(
        &self,
        what: &str,
        query: &str,
        mut take: impl FnMut(&Cells<'_>) -> Result<(), String>,
    ) -> Result<(), Diagnostics> {
        let fails = |error| damaged(&self.path, what, &error);
        let refused = |rule: String| {
            let remedy = "export the report again, or check what wrote the file";
            Diagnostics::one(&self.path, None, rule, what.to_owned(), remedy)
        };
        let mut statement = self.connection.prepare(query).map_err(fails)?;
        let count = statement.column_count();
        let mut rows = statement.query([]).map_err(fails)?;
        // Texts of two bytes a letter are read as three.
        let (mut left, mut text) = (self.bytes / ROW_BYTES, self.bytes.saturating_mul(2));
        while let Some(row) = rows.next().map_err(fails)? {
            let cells = Cells(row);
            let letters = (0..count).filter_map(|at| cells.text(at)).map(|text| text.len() as u64);
            match (left.checked_sub(1), text.checked_sub(letters.sum())) {
                (Some(rows), Some(bytes)) => (left, text) = (rows, bytes),
                _ => {
                    let rule = "a table has no more rows and texts than its file has room for";
                    return Err(refused(rule.to_owned()));
                }
            }
            take(&cells).map_err(refused)?;
        }
        Ok(())
    }
}

impl Cells<'_> {
    /// A whole number, also as a text; none for anything else.
    pub(super) fn number(&self, at: usize) -> Option<i64> {
        match self.0.get_ref(at).ok()? {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Real(number) => {
                (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
            }
            ValueRef::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// A text; none for anything else.
    pub(super) fn text(&self, at: usize) -> Option<&str> {
        match self.0.get_ref(at).ok()? {
            ValueRef::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

/// That no write-ahead log with finished writes lies beside a database: they would be passed over.
fn no_log(path: &Path) -> Result<(), Diagnostics> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = Path::new(&log);
    if !log.is_file() || !std::fs::File::open(log).is_ok_and(has_writes) {
        return Ok(());
    }
    let rule = "a database is read alone, and a write-ahead log with rows beside it is not";
    let bytes = log.metadata().map_or(0, |meta| meta.len());
    let found = format!("{bytes} bytes in {}", log.display());
    let remedy = "move them into it with `sqlite3 FILE \"PRAGMA wal_checkpoint(TRUNCATE)\"`, or \
                  export the report again";
    Err(Diagnostics::one(path, None, rule, found, remedy))
}

/// Whether a write-ahead log has a write that was finished: a frame that ends one, of those that have
/// the log's own salt (sqlite.org/fileformat2.html, section 4.1). What nobody finished is no row.
fn has_writes(mut log: impl Read + Seek) -> bool {
    let word = |bytes: &[u8], at: usize| {
        let four = bytes[at..at + 4].try_into().expect("four bytes are asked for");
        u32::from_be_bytes(four)
    };
    let mut head = [0; 32];
    if log.read_exact(&mut head).is_err() || word(&head, 0) & !1 != WAL_MAGIC {
        return false;
    }
    let page = word(&head, 8);
    let mut frame = [0; 24];
    while log.read_exact(&mut frame).is_ok() && frame[8..16] == head[16..24] {
        // Pages that the database has behind the write, or 0 within one.
        if word(&frame, 4) > 0 {
            return true;
        }
        if log.seek(SeekFrom::Current(page.into())).is_err() {
            return false;
        }
    }
    false
}

/// What a packed database holds, or one in an archive, in memory: nothing is written beside the file.
/// None of any other.
fn unpacked(path: &Path) -> Result<Option<Vec<u8>>, Diagnostics> {
    let failed = |error: &std::io::Error| cannot_read(path, error);
    let mut head = Vec::new();
    let (_, mut file) = open(path, u64::MAX)?;
    file.by_ref().take(4).read_to_end(&mut head).map_err(|error| failed(&error))?;
    if Packing::of_head(&head).is_none() && within(path).is_none() {
        return Ok(None);
    }
    // What lies in an archive unpacks to no more than this says.
    let mut file = file.take(MOST_IN_MEMORY);
    file.read_to_end(&mut head).map_err(|error| failed(&error))?;
    let most = (head.len() as u64).saturating_mul(MOST_UNPACKED) + FREE_UNPACKED;
    let mut bytes = plain(head, most.min(MOST_IN_MEMORY)).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            let rule = "a packed database unpacks to 200 times its size and 16 MiB at most, and to 2 \
                        GiB";
            Diagnostics::one(path, None, rule, "", "unpack it, and give the database")
        }
        _ => failed(&error),
    })?;
    // A database that kept a log beside it says so here, and in memory there is none: an export is
    // whole without it.
    if let Some(versions @ &mut [2, 2]) = bytes.get_mut(18..20) {
        versions.fill(1);
    }
    Ok(Some(bytes))
}

fn connect(path: &Path, unpacked: Option<&[u8]>, bytes: u64) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = match unpacked {
        None => Connection::open_with_flags(uri(path), flags)?,
        Some(bytes) => {
            let mut connection = Connection::open_in_memory()?;
            connection.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), true)?;
            connection
        }
    };
    let most = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(FREE_STEPS);
    let mut left = most / u64::from(AT_ONCE.unsigned_abs());
    let spent = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(AT_ONCE, Some(spent))?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(setting, on)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// The file as SQLite names one that nobody changes: `file:...?immutable=1`.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(byte));
            }
            _ => uri += &format!("%{byte:02x}"),
        }
    }
    uri + "?mode=ro&immutable=1"
}

fn damaged(path: &Path, what: &str, error: &Error) -> Diagnostics {
    let rule = "the database cannot be read: it is damaged, or none";
    let said: String = error.to_string().chars().take(200).collect();
    let found = format!("{said}, in {what}");
    let remedy = "copy the file again, or export the report again: `nsys export --type sqlite`";
    Diagnostics::one(path, None, rule, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::uri;
    use std::path::Path;

    #[test]
    fn a_path_stays_the_path_that_it_is() {
        assert_eq!(uri(Path::new("/a b/c?mode=rw#%.sqlite")).split('?').count(), 2);
        let wanted = "file:/a%20b/c%3fmode%3drw%23%25.sqlite?mode=ro&immutable=1";
        assert_eq!(uri(Path::new("/a b/c?mode=rw#%.sqlite")), wanted);
    }
}
