//! The text of a profiler's trace on its way to the JSON parser, mended where profilers err.
//!
//! Profilers print numbers that are none as `NaN`, `nan` or `inf`, and names with line breaks and
//! with backslashes that escape nothing. Each is replaced by what JSON has for it while the text
//! streams by: 0, a space, a backslash that escapes the next. No text may be longer than
//! [`MAX_TEXT_BYTES`], so that the parser cannot be made to hold a whole file in one.
//! Invariant: what is JSON already passes unchanged, and at most one buffer of it is held.

use crate::json::BYTE_ORDER_MARK;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// The longest text within quotes.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 20;
const BUFFER_BYTES: usize = 1 << 16;

/// What is known of the text that has passed, for others to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    /// Bytes of text after unpacking.
    pub(super) bytes: Rc<Cell<u64>>,
    /// How many places were mended.
    pub(super) mended: Rc<Cell<u64>>,
}

/// Why reading stops, carried through the parser inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooMuch(pub(super) &'static str);

/// Where in the text the next byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside of quotes.
    Plain,
    /// Behind an `n` that may begin `null` or `nan`.
    AfterN,
    /// Within the letters of a number that is none.
    NoNumber,
    /// Within quotes, so many bytes.
    Text(usize),
    /// The same behind a backslash.
    Escape(usize),
}

/// A reader of JSON as JSON should be.
pub(super) struct Repaired<R> {
    inner: R,
    buffer: Box<[u8]>,
    next: usize,
    end: usize,
    /// A byte that had no room in the caller's buffer.
    waiting: Option<u8>,
    state: State,
    /// Bytes that may still come.
    left: u64,
    passed: Passed,
}

impl<R: Read> Repaired<R> {
    /// At most `limit` bytes of text from `inner`.
    pub(super) fn new(inner: R, limit: u64, passed: Passed) -> Repaired<R> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let (next, end, waiting, state, left) = (0, 0, None, State::Plain, limit);
        Repaired { inner, buffer, next, end, waiting, state, left, passed }
    }

    fn fill(&mut self) -> io::Result<()> {
        (self.next, self.end) = (0, self.inner.read(&mut self.buffer)?);
        let count = self.end as u64;
        if count > self.left {
            return Err(io::Error::other(TooMuch("the file unpacks to more than is allowed")));
        }
        // Some editors put a mark in front of UTF-8.
        if self.passed.bytes.get() == 0 && self.buffer[..self.end].starts_with(BYTE_ORDER_MARK) {
            self.next = BYTE_ORDER_MARK.len();
        }
        self.left -= count;
        self.passed.bytes.set(self.passed.bytes.get() + count);
        Ok(())
    }

    /// What stands for a byte: one, or two.
    fn mend(&mut self, byte: u8) -> io::Result<(u8, Option<u8>)> {
        if self.state == State::AfterN {
            self.state = State::Plain;
            if byte == b'a' {
                self.state = State::NoNumber;
                self.count();
                return Ok((b'0', Some(b' ')));
            }
            let (first, second) = self.mend(byte)?;
            // Nothing that two bytes stand for follows an `n`.
            debug_assert!(second.is_none());
            return Ok((b'n', Some(first)));
        }
        let (state, out) = match (self.state, byte) {
            (State::Text(_), b'"') => (State::Plain, (byte, None)),
            (State::Text(_) | State::Escape(_), _) => return self.mend_text(byte),
            (State::NoNumber, b) if b.is_ascii_alphabetic() => (State::NoNumber, (b' ', None)),
            (_, b'"') => (State::Text(0), (byte, None)),
            (_, b'N' | b'I' | b'i') => {
                self.count();
                (State::NoNumber, (b'0', None))
            }
            (_, _) => (State::Plain, (byte, None)),
        };
        self.state = state;
        Ok(out)
    }

    fn mend_text(&mut self, byte: u8) -> io::Result<(u8, Option<u8>)> {
        let (length, escapes) = match self.state {
            State::Text(length) => (length, false),
            State::Escape(length) => (length, true),
            _ => (0, false),
        };
        if length >= MAX_TEXT_BYTES {
            return Err(io::Error::other(TooMuch("a text of more than 4 MiB within quotes")));
        }
        self.state = match byte {
            b'\\' if !escapes => State::Escape(length + 1),
            _ => State::Text(length + 1),
        };
        let known = matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u');
        if byte >= b' ' && (!escapes || known) {
            return Ok((byte, None));
        }
        self.count();
        let shown = byte.max(b' ');
        Ok(if escapes { (b'\\', Some(shown)) } else { (shown, None) })
    }

    fn count(&self) {
        self.passed.mended.set(self.passed.mended.get() + 1);
    }
}

impl<R: Read> Read for Repaired<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < out.len() {
            if let Some(byte) = self.waiting.take() {
                out[count] = byte;
                count += 1;
                continue;
            }
            if self.next == self.end {
                // What is there is handed on before more is waited for.
                if count > 0 {
                    break;
                }
                self.fill()?;
                if self.end == 0 {
                    break;
                }
                continue;
            }
            let byte = self.buffer[self.next];
            self.next += 1;
            if self.state == State::Plain && byte == b'n' {
                self.state = State::AfterN;
                continue;
            }
            let (first, second) = self.mend(byte)?;
            out[count] = first;
            count += 1;
            self.waiting = second;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Passed, Repaired, State};
    use std::io::Read;

    fn repaired(text: &[u8]) -> (String, u64) {
        let passed = Passed::default();
        let mut out = Vec::new();
        let mut reader = Repaired::new(text, u64::MAX, passed.clone());
        reader.read_to_end(&mut out).expect("text in memory reads");
        assert!(matches!(reader.state, State::Plain | State::NoNumber | State::AfterN));
        (String::from_utf8(out).expect("as it was"), passed.mended.get())
    }

    #[test]
    fn json_passes_unchanged() {
        let text = r#"{"a": [null, true, false, -1.5e3], "n\"\\\u00e9": "inf NaN", "": n"#;
        let text = text.trim_end_matches('n');
        assert_eq!(repaired(text.as_bytes()), (text.to_owned(), 0));
    }

    #[test]
    fn what_is_no_json_is_mended() {
        for (text, wanted, mended) in [
            (&b"\xef\xbb\xbf"[..], "", 0),
            (b"\xef\xbb\xbf[]", "[]", 0),
            (b"[NaN,nan, -inf,Infinity, null]", "[0  ,0  , -0  ,0       , null]", 4),
            (b"\"C:\\Users\\new\"", "\"C:\\\\Users\\new\"", 1),
            (b"\"two\nlines\"", "\"two lines\"", 1),
            (b"\"\\\n\"", "\"\\\\ \"", 1),
        ] {
            assert_eq!(repaired(text), (wanted.to_owned(), mended));
        }
    }

    #[test]
    fn a_text_cannot_grow_without_limit() {
        let text = vec![b'a'; super::MAX_TEXT_BYTES + 1];
        let text = [&b"\""[..], &text].concat();
        let mut reader = Repaired::new(&text[..], u64::MAX, Passed::default());
        let error = std::io::copy(&mut reader, &mut std::io::sink()).expect_err("too long");
        assert_eq!(error.to_string(), "a text of more than 4 MiB within quotes");
        let mut reader = Repaired::new(&text[..], 1000, Passed::default());
        assert!(std::io::copy(&mut reader, &mut std::io::sink()).is_err());
    }
}
