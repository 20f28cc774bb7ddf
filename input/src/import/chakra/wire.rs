//! Messages of a Chakra file: each behind its length, one after the other.
//!
//! The schema is `et_def.proto` of MLCommons Chakra; what is not used here is not listed.
//! Invariant: no more than one message is held, and none is longer than [`MOST_MESSAGE`]; what is
//! decoded of it is at most some 60 times as long, for a smallest attribute has two bytes.

use prost::Message;
use std::io::{self, Read};

/// Real messages have some kilobytes, the longest lists of tensors some hundred.
pub(crate) const MOST_MESSAGE: u64 = 1 << 20;

/// `NodeType`.
pub(crate) mod kinds {
    pub(crate) const INVALID: i32 = 0;
    pub(crate) const METADATA: i32 = 1;
    pub(crate) const LOAD: i32 = 2;
    pub(crate) const STORE: i32 = 3;
    pub(crate) const COMPUTE: i32 = 4;
    pub(crate) const SEND: i32 = 5;
    pub(crate) const RECEIVE: i32 = 6;
    pub(crate) const COLLECTIVE: i32 = 7;
    // What files and file systems do, batches that are read, checkpoints.
    pub(crate) const STORAGE: i32 = 8;
    pub(crate) const CHECKPOINT: i32 = 10;
}

/// What is said of the whole file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) attr: Vec<Attribute>,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(crate) data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub(crate) start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) inputs: Option<Values>,
    #[prost(message, optional, tag = "9")]
    pub(crate) outputs: Option<Values>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) attr: Vec<Attribute>,
}

/// Tensors and other values, as a literal of Python.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Values {
    #[prost(string, tag = "1")]
    pub(crate) values: String,
}

/// A named value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(oneof = "Value", tags = "5, 3, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub(crate) value: Option<Value>,
}

/// Of the values of an attribute, those that are no lists.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Node {
    /// What it says of itself by name.
    pub(crate) fn said(&self) -> Said<'_> {
        Said(&self.attr)
    }

    /// A whole number that is not negative, whatever its type.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.said().number(name)
    }
}

impl Attribute {
    /// One of this name and value.
    pub(crate) fn new(name: &str, value: Value) -> Attribute {
        Attribute { name: name.to_owned(), value: Some(value) }
    }
}

/// Named values; of two of one name the first counts.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a>(pub(crate) &'a [Attribute]);

impl<'a> Said<'a> {
    /// The value of a name.
    pub(crate) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|one| one.name == name)?.value.as_ref()
    }

    /// A text.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative, whatever its type.
    pub(crate) fn number(self, name: &str) -> Option<u64> {
        match *self.value(name)? {
            Value::Double(number) => whole(number),
            Value::Float(number) => whole(f64::from(number)),
            Value::Int32(number) | Value::Sint32(number) | Value::Sfixed32(number) => {
                u64::try_from(number).ok()
            }
            Value::Int64(number) | Value::Sint64(number) | Value::Sfixed64(number) => {
                u64::try_from(number).ok()
            }
            Value::Uint32(number) | Value::Fixed32(number) => Some(u64::from(number)),
            Value::Uint64(number) | Value::Fixed64(number) => Some(number),
            Value::Bool(yes) => Some(u64::from(yes)),
            Value::Text(ref text) => text.parse().ok(),
        }
    }
}

fn whole(number: f64) -> Option<u64> {
    (0.0..9e15).contains(&number).then_some(number as u64)
}

/// What keeps a message from being read.
#[derive(Debug)]
pub(super) enum Broken {
    /// What the file breaks.
    Rule(&'static str),
    /// What a message breaks.
    Message(prost::DecodeError),
    /// The same of a message that is written as JSON.
    #[cfg_attr(target_family = "wasm", expect(dead_code, reason = "pages read no JSON of Chakra"))]
    Form(String),
    /// What reading ended with.
    Io(io::Error),
}

/// What a file holds, however it is written.
pub(super) trait Nodes {
    /// What is said of the whole file, and the length of that.
    fn head(&mut self) -> Result<Option<(GlobalMetadata, usize)>, Broken>;

    /// The next node and its length; none at the end of the file.
    fn node(&mut self) -> Result<Option<(Node, usize)>, Broken>;

    /// Where it was read last.
    fn place(&self) -> String;
}

impl<R: Read> Nodes for Messages<R> {
    fn head(&mut self) -> Result<Option<(GlobalMetadata, usize)>, Broken> {
        self.next()
    }

    fn node(&mut self) -> Result<Option<(Node, usize)>, Broken> {
        self.next()
    }

    fn place(&self) -> String {
        format!("byte {}, message {}", self.begin, self.number)
    }
}

/// The next byte; none at the end.
pub(super) fn byte(from: &mut impl Read) -> Result<Option<u8>, Broken> {
    let mut byte = [0];
    loop {
        // `read_exact` would take the end within packed bytes for the end of the file.
        match from.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::Io(error)),
        }
    }
}

/// The messages of a file.
pub(super) struct Messages<R> {
    from: R,
    /// Bytes that were read, and those that may be.
    at: u64,
    most: u64,
    /// Where the message began that was read last, and its number.
    begin: u64,
    number: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Messages<R> {
    pub(super) fn new(from: R, most: u64) -> Messages<R> {
        Messages { from, at: 0, most, begin: 0, number: 0, buffer: Vec::new() }
    }

    /// The next message and its length; none at the end of the file.
    fn next<M: Message + Default>(&mut self) -> Result<Option<(M, usize)>, Broken> {
        self.begin = self.at;
        let Some(length) = self.length()? else { return Ok(None) };
        if length > MOST_MESSAGE {
            return Err(Broken::Rule("a message has at most 1 MiB"));
        }
        self.buffer.clear();
        let read = (&mut self.from).take(length).read_to_end(&mut self.buffer);
        let read = read.map_err(Broken::Io)? as u64;
        self.at += read;
        if read < length {
            return Err(Broken::Rule("the file ends within a message"));
        }
        if self.at > self.most {
            return Err(Broken::Rule("the file unpacks to more than is allowed"));
        }
        self.number += 1;
        let message = M::decode(self.buffer.as_slice()).map_err(Broken::Message)?;
        Ok(Some((message, length as usize)))
    }

    fn length(&mut self) -> Result<Option<u64>, Broken> {
        let (mut length, mut shift) = (0u64, 0u32);
        loop {
            let byte = match byte(&mut self.from)? {
                Some(byte) => byte,
                None if shift == 0 => return Ok(None),
                None => return Err(Broken::Rule("the file ends within the length of a message")),
            };
            self.at += 1;
            length |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(Some(length));
            }
            shift += 7;
            if shift > 28 {
                return Err(Broken::Rule("the length of a message has at most five bytes"));
            }
        }
    }
}

/// Whether a file begins as one of Chakra does: with a `GlobalMetadata` of which every field fits,
/// and a node behind it.
pub(crate) fn is_chakra(head: &[u8]) -> bool {
    let mut rest = head;
    let Some(length) = varint(&mut rest).filter(|&length| length <= MOST_MESSAGE) else {
        return false;
    };
    let mut left = length as usize;
    while left > 0 {
        let Some((tag @ (0x0A | 0x12), inner)) = rest.split_first().map(|(tag, r)| (*tag, r))
        else {
            return false;
        };
        let mut after = inner;
        let Some(size) = varint(&mut after) else { return false };
        let taken = (rest.len() - after.len()) as u64 + size;
        if taken > left as u64 || tag == 0x12 && size > 0 && after.first() != Some(&0x0A) {
            return false;
        }
        if size as usize > after.len() {
            return true;
        }
        left -= taken as usize;
        rest = &after[size as usize..];
    }
    // A node has an identity, a name, or both.
    varint(&mut rest).is_some_and(|length| length > 0) && matches!(rest.first(), Some(0x08 | 0x12))
}

fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}
