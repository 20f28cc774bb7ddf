//! Opening tables safely: packed or plain, with a bound on everything.
//!
//! A table comes from anywhere, so the reader underneath the CSV parser counts bytes, lines and
//! quotes before the parser may buffer them: a packed file cannot expand without limit, a line
//! cannot grow without limit, and a file that was cut off is noticed at its end.
//! Invariant: at most [`MAX_LINE_BYTES`] of a table are buffered at a time, and line `n` of the
//! file is record `n` of the table.

use crate::archive;
use crate::archive::tar::{OneFile, is_tar};
use crate::packed::Packing;
use crate::shipped;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::{Diagnostic, Diagnostics, Place};
use tiersim_models::printed::clean;
use tiersim_models::workload::{Trace, TraceProblem};

/// The longest line of a table.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;
/// How many problems of one input are listed; the rest are counted.
const MAX_LISTED: usize = 50;

/// How much a table may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of text, after unpacking.
    pub(crate) expanded: u64,
    /// Bytes of text that may come from one packed byte; real tables stay under 50.
    pub(crate) ratio: u64,
    /// Bytes of text that are allowed whatever the ratio.
    pub(crate) free: u64,
}

/// What every reader uses outside tests.
pub(crate) const LIMITS: Limits = Limits { expanded: 8 << 30, ratio: 200, free: 16 << 20 };

/// What the rows of an input may take in memory: so much for any, and more for what it holds.
///
/// Readers whose shortest rows make values many times their length ask it before they keep a row.
#[derive(Debug, Default)]
pub(crate) struct ReadBudget {
    text: u64,
    /// Bytes of text that will have come at the end, if that is known.
    whole: u64,
    live: u64,
    /// Whether somebody was told that values are too many: once is enough.
    pub(crate) refused: bool,
}

/// With the program itself, what is read and its copies stay below 64 MiB and 8 times the text.
const FREE_BYTES: u64 = 44 << 20;
const BYTES_PER_BYTE: u64 = 7;

impl ReadBudget {
    /// Of a file that holds at least so many bytes of text, of which none came so far.
    pub(crate) fn of(whole: u64) -> ReadBudget {
        ReadBudget { whole, ..ReadBudget::default() }
    }

    /// Whether so many bytes of values more may be kept.
    pub(crate) fn fits(&self, live: usize) -> bool {
        self.live.saturating_add(live as u64) <= self.most()
    }

    fn most(&self) -> u64 {
        let text = self.text.max(self.whole);
        text.saturating_mul(BYTES_PER_BYTE).saturating_add(FREE_BYTES)
    }

    /// Takes a row of so many bytes of text, of which so many bytes of values are kept.
    ///
    /// # Errors
    /// The rule, where the values are too many for the text so far.
    pub(crate) fn take(&mut self, text: usize, live: usize) -> Result<(), String> {
        self.text = self.text.saturating_add(text as u64);
        self.live = self.live.saturating_add(live as u64);
        let most = self.most();
        if self.live <= most {
            return Ok(());
        }
        let text = self.text.max(self.whole);
        Err(format!("the values of {text} bytes of tables take at most {most} bytes of memory"))
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Whether it must be there; else its fields count as empty where it is left out.
    pub(crate) required: bool,
}

/// The name that stands for columns that are left alone, in a table that may have others.
pub(crate) const OTHERS: &str = "*";

/// The columns that a text names, with spaces or commas between them and `?` behind those that may
/// be left out; `*?` are [`OTHERS`].
pub(crate) fn columns(text: &'static str) -> Vec<Column> {
    let column = |word: &'static str| match word.strip_suffix('?') {
        Some(name) => Column { name, required: false },
        None => Column { name: word, required: true },
    };
    // Names may have spaces themselves.
    text.split(if text.contains(',') { ',' } else { ' ' }).map(column).collect()
}

/// Problems found so far, with a bound on how many are kept.
#[derive(Default)]
pub(crate) struct Findings {
    list: Diagnostics,
    unlisted: u64,
}

impl Findings {
    pub(crate) fn push(
        &mut self,
        file: &Path,
        place: Option<Place>,
        rule: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.list.0.len() < MAX_LISTED {
            self.list.push(file, place, rule, found, remedy);
        } else {
            self.unlisted += 1;
        }
    }

    pub(crate) fn extend(&mut self, more: Diagnostics) {
        for Diagnostic { file, place, rule, found, remedy } in more.0 {
            self.push(&file, place, rule, found, remedy);
        }
    }

    /// What keeps an importer's trace from being one.
    pub(crate) fn unsound(&mut self, source: &Path, trace: &Trace) {
        for TraceProblem { table, row, found, remedy } in trace.problems() {
            let rule = format!("the trace made from it breaks a rule: {table}, row {row}: {found}");
            self.push(source, None, rule, "", remedy);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.0.is_empty()
    }

    /// How many problems there are, listed or not.
    pub(crate) fn count(&self) -> u64 {
        self.list.0.len() as u64 + self.unlisted
    }

    /// All problems; the last entry counts those that were not listed.
    pub(crate) fn finish(mut self) -> Diagnostics {
        if self.unlisted > 0 {
            let file = self.list.0.last().map(|last| last.file.clone()).unwrap_or_default();
            let rule = format!("and {} more problems", self.unlisted);
            self.list.push(&file, None, rule, "", "mend the listed ones first");
        }
        self.list
    }
}

/// A file of a folder, plain or packed, open for reading.
pub(crate) struct Source {
    /// Which file it is.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: Guard,
}

impl Source {
    /// Opens `name`, `name.gz` or `name.zst` of `folder`, whichever one exists.
    ///
    /// `quotes`: whether `"` starts and ends a field, as in CSV.
    pub(crate) fn open(
        folder: &Path,
        name: &str,
        quotes: bool,
        limits: Limits,
    ) -> Result<Source, Diagnostics> {
        let names = [name.to_owned(), format!("{name}.gz"), format!("{name}.zst")];
        let there = |path: &PathBuf| path.symlink_metadata().is_ok() || shipped::is_shipped(path);
        let paths: Vec<PathBuf> = names.iter().map(|n| folder.join(n)).filter(there).collect();
        let path = match &paths[..] {
            [path] => path.clone(),
            [] => {
                let remedy = format!("expected {name}, {name}.gz or {name}.zst in the folder");
                return Err(Diagnostics::one(&folder.join(name), None, "missing file", "", remedy));
            }
            [first, second, ..] => {
                let rule = "the same table twice";
                let found = second.display().to_string();
                return Err(Diagnostics::one(first, None, rule, found, "remove one of the two"));
            }
        };
        Source::at(path, quotes, limits)
    }

    /// Opens a file, which is packed if its name ends so.
    pub(crate) fn at(path: PathBuf, quotes: bool, limits: Limits) -> Result<Source, Diagnostics> {
        let (inner, limit) = unpacked(&path, limits)?;
        Ok(Source { path, text: Guard::new(inner, limit, quotes) })
    }

    /// The same, packed if it begins so, whatever its name.
    pub(crate) fn by_magic(
        path: PathBuf,
        quotes: bool,
        limits: Limits,
    ) -> Result<Source, Diagnostics> {
        let (inner, limit) = unpacked_by_magic(&path, limits)?;
        Ok(Source { path, text: Guard::new(inner, limit, quotes) })
    }

    /// The same file, of which the last line need not end with a line break.
    pub(crate) fn open_ended(mut self) -> Source {
        self.text.open_ended = true;
        self
    }
}

/// A file's name in small letters, without the ending of what packs it.
pub(crate) fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    clean(name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name))
}

/// What a file holds, unpacked if its name ends in `.gz` or `.zst` or it begins so, and how many bytes
/// of it are allowed.
pub(crate) fn unpacked(path: &Path, limits: Limits) -> Result<(Box<dyn Read>, u64), Diagnostics> {
    let (length, mut file) = open(path, limits.expanded)?;
    let head = file.fill_buf().map_err(|error| describe(path, &error))?;
    no_pointer(path, head)?;
    // What is held keeps its name and is unpacked already.
    let by_name = Packing::of_name(path).filter(|_| !shipped::is_held(path));
    Ok(match by_name.or(Packing::of_head(head)) {
        Some(packing) => {
            let most = length.saturating_mul(limits.ratio).saturating_add(limits.free);
            (packing.unpacked(file), limits.expanded.min(most))
        }
        None => (file, limits.expanded),
    })
}

/// The same by what the file begins with, whatever its name.
pub(crate) fn unpacked_by_magic(
    path: &Path,
    limits: Limits,
) -> Result<(Box<dyn Read>, u64), Diagnostics> {
    unpacked_file(path, open(path, limits.expanded)?, limits)
}

/// The same of a file that was opened, with its length.
pub(crate) fn unpacked_file(
    path: &Path,
    (length, mut file): (u64, Box<dyn BufRead>),
    limits: Limits,
) -> Result<(Box<dyn Read>, u64), Diagnostics> {
    at_most(path, length, limits.expanded)?;
    let head = file.fill_buf().map_err(|error| describe(path, &error))?;
    no_pointer(path, head)?;
    let (inner, most): (Box<dyn Read>, u64) = match Packing::of_head(head) {
        Some(packing) => {
            let most = length.saturating_mul(limits.ratio).saturating_add(limits.free);
            (packing.unpacked(file), limits.expanded.min(most))
        }
        None => (file, limits.expanded),
    };
    let mut inner = BufReader::new(inner);
    // A gzip of one block may give less at first than a header has.
    let head = inner.fill_buf().map_err(|error| describe(path, &error))?;
    match is_tar(head) {
        true => Ok((Box::new(OneFile::new(inner)), most)),
        false => Ok((Box::new(inner), most)),
    }
}

/// Bytes of text that a file holds for sure: its length where nothing packs it and it lies in no
/// archive, which only says so; else none.
pub(crate) fn known_text(path: &Path) -> u64 {
    if archive::within(path).is_some() {
        return 0;
    }
    let Ok((length, mut file)) = open(path, u64::MAX) else { return 0 };
    let packed = file.fill_buf().is_ok_and(|head| Packing::of_head(head).is_some());
    if packed { 0 } else { length }
}

/// What a file that Git LFS has not fetched begins with.
pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// What to do about it.
pub(crate) const LFS_REMEDY: &str = "fetch the file itself, with `git lfs pull`";

/// That a file which begins so is itself, and not what stands in its place.
fn no_pointer(path: &Path, head: &[u8]) -> Result<(), Diagnostics> {
    if !head.starts_with(LFS_POINTER) {
        return Ok(());
    }
    let rule = "this is a pointer of Git LFS, and not the file itself";
    Err(Diagnostics::one(path, None, rule, "", LFS_REMEDY))
}

/// A file of at most `limit` bytes, with its length: one that ships, a regular file, or one that lies
/// in an archive.
pub(crate) fn open(path: &Path, limit: u64) -> Result<(u64, Box<dyn BufRead>), Diagnostics> {
    if let Some(bytes) = shipped::bytes(path) {
        return Ok((bytes.len() as u64, Box::new(bytes)));
    }
    if let Some((archive, name)) = archive::within(path) {
        let (length, file) =
            archive::open(&archive, &name).map_err(|error| describe(path, &error))?;
        return at_most(path, length, limit).map(|()| (length, file));
    }
    let length = regular_file(path, limit)?;
    let file = File::open(path).map_err(|error| describe(path, &error))?;
    Ok((length, Box::new(BufReader::new(file))))
}

/// Checks that `path` is a file itself, not a link, of at most `limit` bytes; returns its length.
pub(crate) fn regular_file(path: &Path, limit: u64) -> Result<u64, Diagnostics> {
    let meta = path.symlink_metadata().map_err(|error| describe(path, &error))?;
    let kind = meta.file_type();
    if kind.is_symlink() {
        let remedy = "copy the file into the folder: links are not followed";
        return Err(Diagnostics::one(path, None, "a symbolic link", "", remedy));
    }
    if !kind.is_file() {
        return Err(Diagnostics::one(path, None, "not a regular file", "", "put a file there"));
    }
    at_most(path, meta.len(), limit)?;
    Ok(meta.len())
}

/// That a path is no pipe or device, which opening would wait for; what is not there says its reader.
///
/// # Errors
/// That it is neither a file nor a folder.
pub fn file_or_folder(path: &Path) -> Result<(), Diagnostics> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() && !meta.is_dir() => {
            let remedy = "name a file or a folder";
            Err(Diagnostics::one(path, None, "not a regular file", "", remedy))
        }
        _ => Ok(()),
    }
}

fn at_most(path: &Path, length: u64, limit: u64) -> Result<(), Diagnostics> {
    if length > limit {
        let found = format!("{length} bytes");
        return Err(Diagnostics::one(path, None, format!("over {limit} bytes"), found, "split it"));
    }
    Ok(())
}

/// The text of a table, checked while it streams by.
pub(crate) struct Guard {
    inner: Box<dyn Read>,
    /// Bytes that may still come.
    left: u64,
    quotes: bool,
    in_quotes: bool,
    line: u64,
    in_line: usize,
    after_cr: bool,
    /// Whether the last line may be without a line break.
    open_ended: bool,
}

/// A rule about the text itself, carried through the parser inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{rule}")]
struct Broken {
    line: u64,
    rule: &'static str,
    remedy: &'static str,
}

impl Guard {
    fn new(inner: Box<dyn Read>, limit: u64, quotes: bool) -> Guard {
        let (in_quotes, after_cr, open_ended) = (false, false, false);
        let (line, in_line) = (1, 0);
        Guard { inner, left: limit, quotes, in_quotes, line, in_line, after_cr, open_ended }
    }

    fn check(&mut self, byte: u8) -> Result<(), (&'static str, &'static str)> {
        if byte == b'\n' {
            if self.in_quotes {
                return Err(("a quote that is not closed in its line", "close it"));
            }
            if self.in_line == usize::from(self.after_cr) {
                return Err(("an empty line", "remove it"));
            }
            (self.line, self.in_line, self.after_cr) = (self.line + 1, 0, false);
            return Ok(());
        }
        if self.after_cr {
            return Err(("a carriage return inside a line", "end lines with a line feed"));
        }
        self.after_cr = byte == b'\r';
        self.in_quotes ^= self.quotes && byte == b'"';
        self.in_line += 1;
        if self.in_line > MAX_LINE_BYTES {
            return Err(("a line of more than 1 MiB", "check that this is a table"));
        }
        Ok(())
    }
}

impl Read for Guard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let fail = |line, (rule, remedy)| Err(io::Error::other(Broken { line, rule, remedy }));
        if count == 0 && !buffer.is_empty() && self.in_line > 0 && !self.open_ended {
            let remedy = "copy the file again: it was cut off";
            return fail(self.line, ("the last line has no line break", remedy));
        }
        if count as u64 > self.left {
            let remedy = "unpack it and check what it is, or split the trace";
            return fail(self.line, ("the file unpacks to more than is allowed", remedy));
        }
        self.left -= count as u64;
        if (self.line, self.in_line) == (1, 0) && Packing::of_head(&buffer[..count]).is_some() {
            let remedy = "unpack it once, so that the table or what packs it once is left";
            return fail(self.line, ("what was unpacked is packed again", remedy));
        }
        for &byte in &buffer[..count] {
            if let Err(broken) = self.check(byte) {
                return fail(self.line, broken);
            }
        }
        Ok(count)
    }
}

/// What an input or output error means, for the file it happened in.
pub(crate) fn describe(path: &Path, error: &io::Error) -> Diagnostics {
    if let Some(Broken { line, rule, remedy }) =
        error.get_ref().and_then(|inner| inner.downcast_ref())
    {
        let place = Place { line: *line, column: 0 };
        return Diagnostics::one(path, Some(place), *rule, "", *remedy);
    }
    let (rule, remedy) = match error.kind() {
        io::ErrorKind::NotFound => ("missing file", "check the path"),
        io::ErrorKind::UnexpectedEof => ("the packed data ends early", "copy the file again"),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            ("the packed data is damaged", "copy the file again, or pack it again")
        }
        _ => ("cannot be read or written", "check the path, its permissions and free space"),
    };
    Diagnostics::one(path, None, rule, error.to_string(), remedy)
}
