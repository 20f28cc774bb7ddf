//! The files of a ZIP archive, by the directory at its end.
//!
//! Stored and deflated files are read, of archives of any length (ZIP64); encrypted ones, and those
//! of several parts, are not.
//! Invariant: what a file holds is as long as the directory says and has its checksum, or reading it
//! ends with an error.

use super::{FREE, LONGEST_NAME, MOST_FILES, RATIO, too_much};
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A file, as the directory has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) bytes: u64,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: u64,
    /// Where its own header is.
    at: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn damaged(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// Hands on each file of the directory.
pub(super) fn each_file(
    path: &Path,
    mut take: impl FnMut(&mut File, &Entry) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let (at, size) = directory(&mut file, length)?;
    file.seek(SeekFrom::Start(at))?;
    let mut rows = BufReader::new(file.take(size));
    let mut other = File::open(path)?;
    for count in 0.. {
        let mut head = [0; 46];
        if let Err(error) = rows.read_exact(&mut head) {
            let ended = error.kind() == io::ErrorKind::UnexpectedEof;
            return if ended { Ok(()) } else { Err(error) };
        }
        if !head.starts_with(b"PK\x01\x02") {
            return Ok(());
        }
        if count >= MOST_FILES {
            return Err(too_much(format!("the archive has more than {MOST_FILES} entries")));
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| u64::from(u16_at(&head, at)));
        let mut text = Vec::new();
        (&mut rows).take(name + extra + comment).read_to_end(&mut text)?;
        let (name, rest) = text.split_at(text.len().min(name as usize));
        let mut entry = Entry {
            name: String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]).into_owned(),
            bytes: u64::from(u32_at(&head, 24)),
            flags: u16_at(&head, 8),
            method: u16_at(&head, 10),
            checksum: u32_at(&head, 16),
            packed: u64::from(u32_at(&head, 20)),
            at: u64::from(u32_at(&head, 42)),
        };
        long(&mut entry, &rest[..rest.len().min(extra as usize)]);
        if !entry.name.ends_with('/') {
            take(&mut other, &entry)?;
        }
    }
    Ok(())
}

/// Numbers that do not fit in the entry itself: ZIP64's extra field has those that are all ones.
fn long(entry: &mut Entry, mut extra: &[u8]) {
    while extra.len() >= 4 {
        let (kind, size) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(field) = extra.get(4..4 + size) else { return };
        if kind == 1 {
            let mut next = 0;
            for number in [&mut entry.bytes, &mut entry.packed, &mut entry.at] {
                if *number == u64::from(u32::MAX) && next + 8 <= field.len() {
                    *number = u64_at(field, next);
                    next += 8;
                }
            }
            return;
        }
        extra = &extra[4 + size..];
    }
}

/// Where the directory is, and its bytes.
fn directory(file: &mut File, length: u64) -> io::Result<(u64, u64)> {
    const END: usize = 22;
    // A comment of at most 65535 bytes may stand behind the end.
    let tail = length.min((END + (1 << 16)) as u64);
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    Read::by_ref(file).take(tail).read_to_end(&mut bytes)?;
    let last = bytes.len().checked_sub(END).ok_or_else(|| damaged("the ZIP is cut off"))?;
    let found = (0..=last).rev().find(|&at| bytes[at..].starts_with(b"PK\x05\x06"));
    let end = found.ok_or_else(|| damaged("the ZIP is cut off: it has no directory"))?;
    let (mut size, mut at) =
        (u64::from(u32_at(&bytes, end + 12)), u64::from(u32_at(&bytes, end + 16)));
    // ZIP64's own end stands before the other, at a place that a locator of 20 bytes says.
    if let Some(locator) = end.checked_sub(20).map(|at| &bytes[at..])
        && locator.starts_with(b"PK\x06\x07")
    {
        let mut own = [0; 56];
        file.seek(SeekFrom::Start(u64_at(locator, 8).min(length)))?;
        file.read_exact(&mut own)?;
        if own.starts_with(b"PK\x06\x06") {
            (size, at) = (u64_at(&own, 40), u64_at(&own, 48));
        }
    }
    match at.checked_add(size).is_some_and(|end| end <= length) {
        true => Ok((at, size)),
        false => Err(damaged("the directory of the ZIP lies outside of it")),
    }
}

/// What a file of the directory holds.
pub(super) fn open(file: &mut File, entry: &Entry) -> io::Result<Box<dyn Read>> {
    if entry.flags & 1 == 1 {
        return Err(damaged("the file is encrypted in its ZIP: unpack it"));
    }
    let mut head = [0; 30];
    file.seek(SeekFrom::Start(entry.at))?;
    file.read_exact(&mut head)?;
    if !head.starts_with(b"PK\x03\x04") {
        return Err(damaged("the directory of the ZIP names a place where no file is"));
    }
    let skip = i64::from(u16_at(&head, 26)) + i64::from(u16_at(&head, 28));
    file.seek(SeekFrom::Current(skip))?;
    let packed = BufReader::new(file.try_clone()?.take(entry.packed));
    let inner: Box<dyn Read> = match entry.method {
        0 => Box::new(packed),
        8 => Box::new(DeflateDecoder::new(packed)),
        method => {
            let text = format!("the file is packed by method {method} in its ZIP: unpack it");
            return Err(damaged(&text));
        }
    };
    let most = entry.packed.saturating_mul(RATIO).saturating_add(FREE);
    if entry.bytes > most {
        return Err(damaged("the file unpacks to more than 200 times its size"));
    }
    Ok(Box::new(Checked { inner, left: entry.bytes, sum: Crc::new(), wanted: entry.checksum }))
}

/// A file that ends as the directory says.
struct Checked {
    inner: Box<dyn Read>,
    left: u64,
    sum: Crc,
    wanted: u32,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| damaged("the file is longer than the directory of its ZIP says"))?;
        self.sum.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && self.sum.sum() != self.wanted {
            return Err(damaged("the checksum does not match"));
        }
        Ok(count)
    }
}
