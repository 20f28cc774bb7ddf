//! Files that are packed, by gzip or by Zstandard.
//!
//! Invariant: what is unpacked is whole, or reading it ends with an error; how much it may be is
//! for who reads it to say.

use flate2::bufread::GzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, BufRead, Cursor, Read};
use std::path::Path;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Members of gzip, one after the other.
    Gzip,
    /// Frames of Zstandard, one after the other.
    Zstandard,
}

impl Packing {
    /// By the name's ending.
    pub(crate) fn of_name(path: &Path) -> Option<Packing> {
        match path.extension()?.to_str()? {
            "gz" => Some(Packing::Gzip),
            "zst" => Some(Packing::Zstandard),
            _ => None,
        }
    }

    /// By what a file begins with.
    pub(crate) fn of_head(head: &[u8]) -> Option<Packing> {
        if head.starts_with(&[0x1F, 0x8B]) {
            return Some(Packing::Gzip);
        }
        head.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]).then_some(Packing::Zstandard)
    }

    /// What such a file holds.
    pub(crate) fn unpacked(self, file: Box<dyn BufRead>) -> Box<dyn Read> {
        // Inside a page nothing is packed: it was unpacked when it was gathered, so that a page
        // need not carry two more programs.
        if cfg!(target_family = "wasm") {
            return Box::new(file);
        }
        match self {
            Packing::Gzip => Box::new(GzipMembers::Within(Box::new(GzDecoder::new(file)))),
            Packing::Zstandard => Box::new(ZstdFrames::Between(file)),
        }
    }
}

/// What a file of these bytes holds, unpacked if it is packed; an error if that is more than
/// `most` bytes.
pub fn plain(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    let Some(packing) = Packing::of_head(&bytes) else { return Ok(bytes) };
    let mut plain = Vec::new();
    packing.unpacked(Box::new(Cursor::new(bytes))).take(most + 1).read_to_end(&mut plain)?;
    match plain.len() as u64 > most {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(plain),
    }
}

/// What a file begins with that a program packed whose form is not read, in words.
pub(crate) fn packed_otherwise(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some("packed by xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => {
            Some("packed by bzip2")
        }
        [0x04, 0x22, 0x4D, 0x18, ..] => Some("packed by lz4"),
        _ => None,
    }
}

/// The members of a file of gzip, one after the other. Zeros behind the last are padding, as tapes
/// have it.
enum GzipMembers {
    Between(Box<dyn BufRead>),
    Within(Box<GzDecoder<Box<dyn BufRead>>>),
    Ended,
}

impl Read for GzipMembers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, GzipMembers::Ended) {
                GzipMembers::Ended => return Ok(0),
                GzipMembers::Between(mut file) => match behind_padding(&mut file)? {
                    None => return Ok(0),
                    Some(0x1F) => {
                        *self = GzipMembers::Within(Box::new(GzDecoder::new(file)));
                    }
                    Some(_) => {
                        let head = file.fill_buf()?;
                        let head = head[..head.len().min(16)].escape_ascii();
                        let text = format!("behind its end lies what is no gzip: \"{head}\"");
                        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                    }
                },
                GzipMembers::Within(mut member) => match member.read(buffer)? {
                    0 if !buffer.is_empty() => {
                        *self = GzipMembers::Between(member.into_inner());
                    }
                    count => {
                        *self = GzipMembers::Within(member);
                        return Ok(count);
                    }
                },
            }
        }
    }
}

/// The next byte that is not zero; none at the end.
fn behind_padding(file: &mut Box<dyn BufRead>) -> io::Result<Option<u8>> {
    loop {
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let zeros = buffer.iter().take_while(|&&byte| byte == 0).count();
        if let Some(&byte) = buffer.get(zeros) {
            file.consume(zeros);
            return Ok(Some(byte));
        }
        file.consume(zeros);
    }
}

/// The frames of a file of Zstandard, one after the other.
enum ZstdFrames {
    Between(Box<dyn BufRead>),
    Within(Box<StreamingDecoder<Box<dyn BufRead>, ruzstd::decoding::FrameDecoder>>),
    Ended,
}

impl Read for ZstdFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, ZstdFrames::Ended) {
                ZstdFrames::Ended => return Ok(0),
                ZstdFrames::Between(mut file) => {
                    if file.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let damaged = |error: ruzstd::decoding::errors::FrameDecoderError| {
                        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                    };
                    let frame = StreamingDecoder::new(file).map_err(damaged)?;
                    *self = ZstdFrames::Within(Box::new(frame));
                }
                ZstdFrames::Within(mut frame) => match frame.read(buffer) {
                    Ok(0) if !buffer.is_empty() => {
                        let stored = frame.decoder.get_checksum_from_data();
                        if stored.is_some() && stored != frame.decoder.get_calculated_checksum() {
                            let text = "the checksum does not match";
                            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                        }
                        *self = ZstdFrames::Between(frame.into_inner());
                    }
                    Ok(count) => {
                        *self = ZstdFrames::Within(frame);
                        return Ok(count);
                    }
                    // The decoder reports damage as `Other`, which would read as a disk fault.
                    Err(error) => {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn what_is_packed_is_unpacked_by_what_it_begins_with_and_within_its_bound() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(b"abc").expect("a vector takes all");
        let gzip = gzip.finish().expect("a vector takes all");
        // RFC 8878: magic, one segment of 3 bytes, and one last block that is not packed.
        let zstandard = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 3, 0x19, 0, 0, b'a', b'b', b'c'];
        for bytes in [&gzip[..], &zstandard, b"abc"] {
            assert_eq!(plain(bytes.to_vec(), 3).expect("it is whole"), b"abc");
        }
        for packed in [&gzip[..], &zstandard] {
            let large = plain(packed.to_vec(), 2).expect_err("3 are more than 2");
            assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
            assert!(plain(packed[..packed.len() - 1].to_vec(), 3).is_err(), "cut off");
        }
        let two = [&gzip[..], &gzip].concat();
        assert_eq!(plain(two.clone(), 6).expect("two members"), b"abcabc");
        for whole in [[&gzip[..], &[0; 9000]].concat(), [&two[..], &[0]].concat()] {
            assert!(plain(whole, 6).is_ok(), "zeros behind the end are padding");
        }
        let behind = plain([&gzip[..], b"garb\"age"].concat(), 9).expect_err("it is no gzip");
        assert_eq!(behind.to_string(), "behind its end lies what is no gzip: \"garb\\\"age\"");
        assert_eq!(packed_otherwise(b"BZh91AY&SY"), Some("packed by bzip2"));
        assert_eq!(packed_otherwise(b"BZh9"), None);
    }
}
