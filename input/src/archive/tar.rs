//! The files of a tar archive, streamed.
//!
//! Recordings are handed around as `name.json.tar.gz`, and those of several ranks as one archive.
//! Headers are those of POSIX (`ustar` and `pax`) and GNU; links, folders and devices are none.
//! Invariant: no more than a header, a name and what is asked for is held.

use super::{Bounded, LONGEST_NAME, MOST_FILES, Skip, too_much};
use std::io::{self, Read};

const BLOCK: usize = 512;

/// Whether what begins so is an archive.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// The contents of the first file, as far as `head` has them.
pub(crate) fn first_file(head: &[u8]) -> &[u8] {
    let mut rest = head;
    while let Some((header, behind)) = rest.split_at_checked(BLOCK) {
        if !is_tar(header) {
            break;
        }
        let (size, regular) = entry(header);
        if regular {
            return &behind[..behind.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        }
        let skip = usize::try_from(padded(size)).unwrap_or(usize::MAX);
        rest = behind.get(skip..).unwrap_or_default();
    }
    &[]
}

/// The size of an entry, and whether it is a file.
fn entry(header: &[u8]) -> (u64, bool) {
    let field = &header[124..136];
    let size = match field[0] & 0x80 {
        // GNU writes what octal digits cannot say as a number.
        0x80 => field[4..].iter().fold(0u64, |size, &byte| size << 8 | u64::from(byte)),
        _ => octal(field),
    };
    (size, matches!(header[156], b'0' | b'7' | 0))
}

fn octal(field: &[u8]) -> u64 {
    let digits = field.iter().skip_while(|byte| **byte == b' ');
    let digits = digits.take_while(|byte| (b'0'..=b'7').contains(byte));
    digits.fold(0u64, |number, digit| number * 8 + u64::from(digit - b'0'))
}

fn padded(size: u64) -> u64 {
    size.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX)
}

/// The files of an archive, one after the other; reading reads the one that was come to last.
pub(crate) struct Entries {
    inner: Box<dyn Skip>,
    /// Bytes of the file that are still to come, and of what fills its last block.
    left: u64,
    padding: u64,
    count: usize,
}

impl Entries {
    pub(crate) fn new(inner: Box<dyn Skip>) -> Entries {
        Entries { inner, left: 0, padding: 0, count: 0 }
    }

    /// Goes to the next file; its name and size, if there is one.
    pub(crate) fn next_file(&mut self) -> io::Result<Option<(String, u64)>> {
        let (mut name, mut size) = (None, None);
        loop {
            let rest = std::mem::take(&mut self.left).saturating_add(self.padding);
            self.padding = 0;
            self.inner.skip(rest)?;
            let mut header = Vec::with_capacity(BLOCK);
            (&mut self.inner).take(BLOCK as u64).read_to_end(&mut header)?;
            if header.len() < BLOCK {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            if !is_tar(&header) {
                // Blocks of zeros are its end: without them a rank or more may be lost.
                let ended = header.iter().all(|byte| *byte == 0);
                return if ended { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            self.count += 1;
            if self.count > MOST_FILES {
                return Err(too_much(format!("the archive has more than {MOST_FILES} entries")));
            }
            let (length, regular) = entry(&header);
            match header[156] {
                b'L' => name = Some(text(&self.extra(length)?)),
                b'x' => {
                    let extra = self.extra(length)?;
                    name = pax(&extra, "path").map(str::to_owned).or(name);
                    size = pax(&extra, "size").and_then(|size| size.parse().ok()).or(size);
                }
                _ => {
                    let length = size.take().unwrap_or(length);
                    let name = name.take().unwrap_or_else(|| header_name(&header));
                    (self.left, self.padding) = (length, padded(length) - length);
                    if regular {
                        return Ok(Some((name, length)));
                    }
                }
            }
        }
    }

    /// What an entry holds that describes the next one.
    fn extra(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Such entries have other records as well.
        let most = 16 * LONGEST_NAME as u64;
        if length > most {
            return Err(too_much(format!("the name of a file takes more than {most} bytes")));
        }
        (&mut self.inner).take(length).read_to_end(&mut bytes)?;
        self.padding = padded(length) - length;
        Ok(bytes)
    }
}

impl Read for Entries {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&mut self.inner).take(self.left).read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// Bytes up to the first zero, as text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end.min(LONGEST_NAME)]).into_owned()
}

fn header_name(header: &[u8]) -> String {
    let name = text(&header[..100]);
    // Only POSIX has a prefix there.
    let prefix = if header[262] == 0 { text(&header[345..500]) } else { String::new() };
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

/// The value of a record `LENGTH KEY=VALUE\n`.
fn pax<'a>(mut records: &'a [u8], key: &str) -> Option<&'a str> {
    loop {
        let space = records.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
        let record = records.get(space + 1..length)?;
        let record = std::str::from_utf8(record).ok().and_then(|text| text.split_once('='));
        match record {
            Some((found, value)) if found == key => return Some(value.trim_end_matches('\n')),
            _ => records = &records[length..],
        }
    }
}

/// Reads the one file of an archive.
pub(crate) struct OneFile {
    entries: Entries,
    found: bool,
}

impl OneFile {
    pub(crate) fn new(inner: impl Read + 'static) -> OneFile {
        OneFile { entries: Entries::new(Box::new(Bounded::elsewhere(inner))), found: false }
    }
}

impl Read for OneFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.entries.left == 0 {
            let more = self.entries.next_file()?;
            if more.is_some() && self.found {
                let text = "the archive holds several files: name one, as ARCHIVE/NAME";
                return Err(io::Error::other(text));
            }
            if more.is_none() {
                return Ok(0);
            }
            self.found = true;
        }
        self.entries.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounded, Entries, OneFile, first_file};
    use std::io::{Cursor, Read};

    fn archive(files: &[(&[u8], u8)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (text, kind) in files {
            let mut header = vec![0u8; 512];
            header[..3].copy_from_slice(b"a/b");
            header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
            header[156] = *kind;
            header[257..262].copy_from_slice(b"ustar");
            out.extend(header);
            out.extend(*text);
            out.resize(out.len().next_multiple_of(512), 0);
        }
        out.extend([0; 1024]);
        out
    }

    fn read(bytes: &[u8]) -> std::io::Result<String> {
        let mut text = String::new();
        OneFile::new(Cursor::new(bytes.to_vec())).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn one_file_is_read_behind_what_is_none() {
        let bytes = archive(&[(b"pax", b'x'), (b"", b'5'), (b"{\"a\": 1}", b'0')]);
        assert_eq!(read(&bytes).expect("one file"), "{\"a\": 1}");
        assert_eq!(first_file(&bytes), b"{\"a\": 1}");
    }

    #[test]
    fn several_files_and_half_a_file_are_refused() {
        let bytes = archive(&[(b"one", b'0'), (b"two", b'0')]);
        assert!(read(&bytes).expect_err("two").to_string().contains("several files"));
        let bytes = archive(&[(&[b'a'; 700], b'0')]);
        assert!(read(&bytes[..900]).is_err());
        assert_eq!(first_file(&bytes[..300]), b"");
    }

    #[test]
    fn an_archive_that_ends_behind_a_file_is_cut_off() {
        let bytes = archive(&[(b"one", b'0')]);
        assert!(read(&bytes).is_ok() && read(&bytes[..1024]).is_err());
        assert!(read(&[&bytes[..1024], &[7; 512]].concat()).is_err());
    }

    #[test]
    fn names_come_from_headers_of_every_kind() {
        let pax = b"30 mtime=1350244992.023960108\n15 path=p/long\n10 size=3\n";
        let bytes = archive(&[
            (b"one", b'0'),
            (b"g/long\0", b'L'),
            (b"two", b'0'),
            (&pax[..], b'x'),
            (b"abc", b'0'),
            (b"", b'5'),
            (b"four", 0),
        ]);
        let mut entries = Entries::new(Box::new(Bounded::elsewhere(Cursor::new(bytes))));
        let mut found = Vec::new();
        while let Some((name, size)) = entries.next_file().expect("it is whole") {
            found.push((name, size));
        }
        let wanted = [("a/b", 3), ("g/long", 3), ("p/long", 3), ("a/b", 4)];
        assert_eq!(found, wanted.map(|(name, size)| (name.to_owned(), size)));
    }

    #[test]
    fn a_name_or_a_size_without_end_is_an_error_and_no_memory() {
        let mut bytes = archive(&[(b"x", b'L'), (b"two", b'0')]);
        bytes[124..136].copy_from_slice(b"77777777777\0");
        let mut entries = Entries::new(Box::new(Bounded::elsewhere(Cursor::new(bytes.clone()))));
        assert!(entries.next_file().is_err());
        bytes[156] = b'0';
        bytes[124..136].copy_from_slice(&[0xFF; 12]);
        let mut entries = Entries::new(Box::new(Bounded::elsewhere(Cursor::new(bytes))));
        assert_eq!(entries.next_file().expect("a file").map(|file| file.1), Some(u64::MAX));
        assert!(entries.next_file().is_err());
    }
}
