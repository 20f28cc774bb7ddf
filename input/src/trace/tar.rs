//! The one file of a tar archive, streamed.
//!
//! Recordings are handed around as `name.json.tar.gz`. Only what POSIX's `ustar` headers say is
//! read; an archive of several files is refused, for nothing says which of them is meant.
//! Invariant: no more than a header is held.

use std::io::{self, Read};

const BLOCK: usize = 512;

/// What lies behind the headers of an archive that begins so; none where it is none.
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
        let skip = usize::try_from(size.next_multiple_of(BLOCK as u64)).unwrap_or(usize::MAX);
        rest = behind.get(skip..).unwrap_or_default();
    }
    &[]
}

/// The size of an entry, and whether it is a file.
fn entry(header: &[u8]) -> (u64, bool) {
    let digits = header[124..136].iter().take_while(|byte| (b'0'..=b'7').contains(byte));
    let size = digits.fold(0u64, |size, digit| size * 8 + u64::from(digit - b'0'));
    (size, matches!(header[156], b'0' | 0))
}

/// Reads the one file of an archive.
pub(crate) struct OneFile<R> {
    inner: R,
    /// Bytes of the file that are still to come, and of what fills its last block.
    left: u64,
    padding: u64,
    found: bool,
}

impl<R: Read> OneFile<R> {
    pub(crate) fn new(inner: R) -> OneFile<R> {
        OneFile { inner, left: 0, padding: 0, found: false }
    }

    /// Goes to the next file; whether there is one.
    fn next_file(&mut self) -> io::Result<bool> {
        loop {
            let padding = std::mem::take(&mut self.padding);
            io::copy(&mut (&mut self.inner).take(padding), &mut io::sink())?;
            let mut header = Vec::with_capacity(BLOCK);
            (&mut self.inner).take(BLOCK as u64).read_to_end(&mut header)?;
            if header.len() < BLOCK || !is_tar(&header) {
                return Ok(false);
            }
            let (size, regular) = entry(&header);
            let whole = size.next_multiple_of(BLOCK as u64);
            if regular {
                (self.left, self.padding) = (size, whole - size);
                return Ok(true);
            }
            self.padding = whole;
        }
    }
}

impl<R: Read> Read for OneFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let more = self.next_file()?;
            if more && self.found {
                let text = "the archive holds several files: unpack it and name one";
                return Err(io::Error::other(text));
            }
            if !more {
                return Ok(0);
            }
            self.found = true;
        }
        let count = (&mut self.inner).take(self.left).read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{OneFile, first_file};
    use std::io::Read;

    fn archive(files: &[(&[u8], u8)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (text, kind) in files {
            let mut header = vec![0u8; 512];
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

    #[test]
    fn one_file_is_read_behind_what_is_none() {
        let bytes = archive(&[(b"pax", b'x'), (b"", b'5'), (b"{\"a\": 1}", b'0')]);
        let mut text = String::new();
        OneFile::new(&bytes[..]).read_to_string(&mut text).expect("one file");
        assert_eq!(text, "{\"a\": 1}");
        assert_eq!(first_file(&bytes), b"{\"a\": 1}");
    }

    #[test]
    fn several_files_and_half_a_file_are_refused() {
        let bytes = archive(&[(b"one", b'0'), (b"two", b'0')]);
        let error = OneFile::new(&bytes[..]).read_to_string(&mut String::new()).expect_err("two");
        assert!(error.to_string().contains("several files"));
        let bytes = archive(&[(&[b'a'; 700], b'0')]);
        assert!(OneFile::new(&bytes[..900]).read_to_string(&mut String::new()).is_err());
        assert_eq!(first_file(&bytes[..300]), b"");
    }
}
