//! Archives: files that lie in a tar or a ZIP, each read where it lies.
//!
//! A file in an archive has the archive's path and its own name behind it, such as
//! `ranks.tar.gz/kineto/rank0.json`, so that readers open it and messages name it as any other.
//! Nothing is written anywhere: a file is streamed out of its archive each time that it is read, and
//! of a packed tar all that lies before it is unpacked and passed over. Who reads many files of one
//! takes them as they come ([`Pass`]).
//! Invariant: an archive has at most [`MOST_FILES`] entries, and unpacks to no more than readers allow
//! any packed file.

pub(crate) mod tar;
mod zip;

use crate::packed::Packing;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
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

/// The packed tar that a path leads into, and the name in it: each file that is read there by its path
/// costs unpacking all before it.
pub(crate) fn within_packed(path: &Path) -> Option<(PathBuf, String)> {
    within(path).filter(|(archive, _)| matches!(form(archive), Some(Form::Tar(Some(_)))))
}

/// The files of a packed tar in the order in which they lie there, unpacked once.
pub(crate) struct Pass(Rc<RefCell<Entries>>);

/// A file that a pass has come to.
pub(crate) struct Passed {
    /// Its name, as it stands in a path.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// So much of it as tells what it is.
    pub(crate) head: Vec<u8>,
    /// All of it, until the pass goes on.
    pub(crate) file: Box<dyn BufRead>,
}

impl Pass {
    /// # Errors
    /// That the archive cannot be opened, or is no packed tar.
    pub(crate) fn of(archive: &Path) -> io::Result<Pass> {
        match form(archive) {
            Some(Form::Tar(packing @ Some(_))) => {
                let entries = Entries::new(stream(archive, packing)?);
                Ok(Pass(Rc::new(RefCell::new(entries))))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Goes to the next file. What is still read of the one before is of it from then on.
    ///
    /// # Errors
    /// That the archive is damaged, or unpacks to too much.
    pub(crate) fn next_file(&mut self) -> io::Result<Option<Passed>> {
        let Some((name, bytes)) = self.0.borrow_mut().next_file()? else { return Ok(None) };
        let mut rest = OfPass(Rc::clone(&self.0));
        let head = head_of(&mut rest)?;
        let file = Box::new(BufReader::new(Cursor::new(head.clone()).chain(rest)));
        Ok(Some(Passed { name: clean(&name).to_owned(), bytes, head, file }))
    }
}

/// The file that a pass has come to.
struct OfPass(Rc<RefCell<Entries>>);

impl Read for OfPass {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
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

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn a_pass_comes_to_every_file_of_a_packed_tar_once_and_whole() {
        let mut bytes = Vec::new();
        // Larger than what is looked at, and than a reader's buffer.
        let texts = [vec![b'a'; 3], vec![b'b'; 100_000], Vec::new(), vec![b'd'; 9000]];
        for (name, text) in ["./a", "k/b", "c", "d"].into_iter().zip(&texts) {
            let mut header = vec![0u8; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
            header[156] = b'0';
            header[257..262].copy_from_slice(b"ustar");
            bytes.extend(header);
            bytes.extend(text);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        bytes.extend([0; 1024]);
        let folder = std::env::temp_dir().join(format!("tiersim-pass-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.tar.gz");
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).expect("a vector takes all");
        std::fs::write(&path, gzip.finish().expect("a vector takes all")).expect("it is written");
        let mut pass = Pass::of(&path).expect("a packed tar");
        let mut found = Vec::new();
        while let Some(mut one) = pass.next_file().expect("it is whole") {
            let mut text = Vec::new();
            // One is passed over.
            if one.name != "k/b" {
                one.file.read_to_end(&mut text).expect("it is whole");
            }
            assert!(one.name == "k/b" || text.len() as u64 == one.bytes);
            found.push((one.name, text));
        }
        let [a, _, c, d] = texts;
        let wanted = [("a", a), ("k/b", Vec::new()), ("c", c), ("d", d)];
        assert_eq!(found, wanted.map(|(name, text)| (name.to_owned(), text)));
        let packed = within_packed(&path.join("k/b")).expect("it lies in one");
        assert_eq!(packed, (path.clone(), "k/b".to_owned()));
        std::fs::write(folder.join("b.tar"), &bytes).expect("it is written");
        assert!(within_packed(&folder.join("b.tar/k/b")).is_none());
        assert!(Pass::of(&folder.join("b.tar")).is_err());
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}
