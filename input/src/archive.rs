//! Archives: files that lie in a tar or a ZIP, each read where it lies.
//!
//! A file in an archive has the archive's path and its own name behind it, such as
//! `ranks.tar.gz/kineto/rank0.json`, so that readers open it and messages name it as any other.
//! Nothing is written anywhere: a file is streamed out of its archive each time that it is read, and
//! of a packed tar all that lies before it is unpacked and passed over.
//! Invariant: an archive has at most [`MOST_FILES`] entries, and unpacks to no more than readers allow
//! any packed file.

pub(crate) mod tar;
mod zip;

use crate::packed::Packing;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tar::{Entries, is_tar};

/// Most entries of an archive, folders and links among them.
pub(crate) const MOST_FILES: usize = 1 << 16;
/// The longest name of a file in one.
const LONGEST_NAME: usize = 4096;
/// Bytes that may come from one packed byte, and whatever the ratio.
const RATIO: u64 = 200;
const FREE: u64 = 16 << 20;
/// Folders within folders that are looked into.
const DEEPEST: u32 = 4;
/// So much of a file is looked at, and of a packed one, of which a block may have 128 KiB.
const HEAD: u64 = 8192;
const PACKED_HEAD: u64 = 192 << 10;

/// How an archive is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Tar(Option<Packing>),
    Zip,
}

/// The form of the archive at `path`; none where it is none.
fn form(path: &Path) -> Option<Form> {
    // Inside a page there are no files, and so no archives.
    if cfg!(target_family = "wasm") || !path.is_file() {
        return None;
    }
    let mut file = BufReader::new(File::open(path).ok()?);
    let head = file.fill_buf().ok()?;
    if head.starts_with(b"PK\x03\x04") {
        return Some(Form::Zip);
    }
    let Some(packing) = Packing::of_head(head) else {
        return is_tar(head).then_some(Form::Tar(None));
    };
    let mut start = Vec::new();
    packing.unpacked(Box::new(file)).take(512).read_to_end(&mut start).ok()?;
    is_tar(&start).then_some(Form::Tar(Some(packing)))
}

/// Whether there is an archive at `path`.
pub(crate) fn is_archive(path: &Path) -> bool {
    form(path).is_some()
}

/// The archive that a path leads into, and the name in it.
pub(crate) fn within(path: &Path) -> Option<(PathBuf, String)> {
    if cfg!(target_family = "wasm") || path.symlink_metadata().is_ok() {
        return None;
    }
    let archive = path.ancestors().skip(1).find(|above| above.is_file())?;
    form(archive)?;
    let name = path.strip_prefix(archive).ok()?.to_str()?;
    Some((archive.to_owned(), name.replace(std::path::MAIN_SEPARATOR, "/")))
}

/// Hands on the name, the size and the first bytes of each file in an archive, in the order in which
/// they lie there.
///
/// # Errors
/// That it is damaged or unpacks to too much.
pub(crate) fn each_file(path: &Path, mut take: impl FnMut(&str, u64, &[u8])) -> io::Result<()> {
    match form(path) {
        Some(Form::Zip) => zip::each_file(path, |file, entry| {
            let head = zip::open(file, entry).and_then(head_of);
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", entry.name));
            take(&entry.name, entry.bytes, &head.map_err(named)?);
            Ok(())
        }),
        Some(Form::Tar(packing)) => {
            let mut entries = Entries::new(stream(path, packing)?);
            while let Some((name, bytes)) = entries.next_file()? {
                let head = head_of(&mut entries)?;
                take(&name, bytes, &head);
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// A file in an archive, with its size.
///
/// # Errors
/// That there is none of that name, or that the archive is damaged.
pub(crate) fn open(archive: &Path, name: &str) -> io::Result<(u64, Box<dyn BufRead>)> {
    let missing = || {
        let text = format!("the archive {} has no file of that name", archive.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    match form(archive) {
        Some(Form::Zip) => {
            let mut found = None;
            zip::each_file(archive, |_, entry| {
                if clean(&entry.name) == name {
                    found = Some(entry.clone());
                }
                Ok(())
            })?;
            let entry = found.ok_or_else(missing)?;
            let reader = zip::open(&mut File::open(archive)?, &entry)?;
            Ok((entry.bytes, Box::new(BufReader::new(reader))))
        }
        Some(Form::Tar(packing)) => {
            let mut entries = Entries::new(stream(archive, packing)?);
            while let Some((found, bytes)) = entries.next_file()? {
                if clean(&found) == name {
                    return Ok((bytes, Box::new(BufReader::new(entries))));
                }
            }
            Err(missing())
        }
        None => Err(missing()),
    }
}

/// Hands on the files below a folder, up to [`MOST_FILES`] and so many folders deep; links are not
/// followed, and what begins with a dot is left alone.
pub(crate) fn each_below(folder: &Path, take: &mut dyn FnMut(&Path)) {
    let (mut folders, mut left) = (vec![(folder.to_owned(), DEEPEST)], MOST_FILES);
    while let Some((folder, deep)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(left) {
            left -= 1;
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            match entry.file_type() {
                Ok(kind) if kind.is_file() && !hidden => take(&entry.path()),
                Ok(kind) if kind.is_dir() && !hidden && deep > 0 => {
                    folders.push((entry.path(), deep - 1));
                }
                _ => {}
            }
        }
    }
}

/// A name as it stands in a path: without `./` before it.
pub(crate) fn clean(name: &str) -> &str {
    name.trim_start_matches("./").trim_matches('/')
}

/// The first bytes of a file, by which its kind is told.
pub(crate) fn head_of(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    from.by_ref().take(HEAD).read_to_end(&mut head)?;
    if Packing::of_head(&head).is_some() {
        from.take(PACKED_HEAD - HEAD).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// The entries of a tar, unpacked: a plain one passes over what is not read.
fn stream(path: &Path, packing: Option<Packing>) -> io::Result<Box<dyn Skip>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok(match packing {
        None => Box::new(Plain(BufReader::new(file))),
        Some(packing) => {
            let most = length.saturating_mul(RATIO).saturating_add(FREE);
            let inner = packing.unpacked(Box::new(BufReader::new(file)));
            Box::new(Bounded { inner: BufReader::new(inner), left: most })
        }
    })
}

/// What can be read on behind bytes that nobody wants.
pub(crate) trait Skip: Read {
    /// Passes over so many bytes, or to the end.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// A file of which parts are passed over without reading them.
struct Plain(BufReader<File>);

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Skip for Plain {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.0.seek_relative(bytes)
    }
}

/// What a packed file holds, up to a bound.
pub(crate) struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Bounded<R> {
    /// Bounded by who reads it.
    pub(crate) fn elsewhere(inner: R) -> Bounded<R> {
        Bounded { inner, left: u64::MAX }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                let text = "the archive unpacks to more than 200 times its size";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(count)
    }
}

impl<R: Read> Skip for Bounded<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        io::copy(&mut self.take(bytes), &mut io::sink()).map(drop)
    }
}

/// What an entry too many, or a name too long, is.
fn too_much(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
