//! The same messages as `chakra_jsonizer` would print them: protobuf's own mapping to JSON, one
//! object behind the other with nothing between.

use super::messages::{Field, Held, Message, fields, messages, number, numbers};
use std::fmt::Write;

const KINDS: [&str; 11] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
];

/// A text within quotes.
fn quoted(bytes: &[u8]) -> String {
    serde_json::to_string(std::str::from_utf8(bytes).expect("a text")).expect("a text is JSON")
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.try_into().expect("eight bytes")
}

/// A number of `sint64`, which is folded so that small ones of either sign are short.
fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn value((field, held): &Field) -> String {
    let (name, value) = match (field, held) {
        (3, Held::Fixed(bytes)) => ("double", format!("{:?}", f64::from_le_bytes(eight(bytes)))),
        (7, Held::Number(number)) => ("int32", (*number as i32).to_string()),
        (9, Held::Number(number)) => ("int64", format!("\"{}\"", number.cast_signed())),
        (11, Held::Number(number)) => ("uint32", number.to_string()),
        (13, Held::Number(number)) => ("uint64", format!("\"{number}\"")),
        (17, Held::Number(number)) => ("sint64", format!("\"{}\"", unfolded(*number))),
        (27, Held::Number(yes)) => ("bool", (*yes > 0).to_string()),
        (29, Held::Bytes(text)) => ("string", quoted(text)),
        other => panic!("an attribute of another type: {other:?}"),
    };
    format!("\"{name}Val\": {value}")
}

fn attribute(bytes: &[u8]) -> String {
    let mut said = Vec::new();
    for field in &fields(bytes) {
        said.push(match field {
            (1, Held::Bytes(name)) => format!("\"name\": {}", quoted(name)),
            other => value(other),
        });
    }
    format!("{{{}}}", said.join(", "))
}

fn list<T>(all: &[T], one: impl Fn(&T) -> String) -> String {
    format!("[{}]", all.iter().map(one).collect::<Vec<String>>().join(", "))
}

fn held(message: &Message, field: u64) -> Vec<&[u8]> {
    let of = message.iter().filter_map(|(of, held)| match held {
        Held::Bytes(bytes) if *of == field => Some(&bytes[..]),
        _ => None,
    });
    of.collect()
}

fn object(message: &Message, head: bool) -> String {
    let mut said = Vec::new();
    let name = if head { ("version", 1) } else { ("name", 2) };
    said.extend(held(message, name.1).iter().map(|of| format!("\"{}\": {}", name.0, quoted(of))));
    let attributes = held(message, if head { 2 } else { 10 });
    if !attributes.is_empty() {
        said.push(format!("\"attr\": {}", list(&attributes, |of| attribute(of))));
    }
    if !head {
        for (key, field) in [("id", 1), ("startTimeMicros", 6), ("durationMicros", 7)] {
            said.extend(number(message, field).map(|of| format!("\"{key}\": \"{of}\"")));
        }
        said.extend(number(message, 3).map(|of| format!("\"type\": \"{}\"", KINDS[of as usize])));
        for (key, field) in [("ctrlDeps", 4), ("dataDeps", 5)] {
            let of = numbers(message, field);
            said.push(format!("\"{key}\": {}", list(&of, |number| format!("\"{number}\""))));
        }
        for (key, field) in [("inputs", 8), ("outputs", 9)] {
            for of in held(message, field) {
                let values =
                    held(&fields(of), 1).first().map_or("\"\"".to_owned(), |of| quoted(of));
                said.push(format!("\"{key}\": {{\"values\": {values}}}"));
            }
        }
    }
    format!("{{\n  {}\n}}", said.join(",\n  "))
}

/// A file of protobuf as one of JSON.
pub(crate) fn jsonized(from: &[u8]) -> String {
    let mut out = String::new();
    for (index, message) in messages(from).iter().enumerate() {
        write!(out, "{}", object(message, index == 0)).expect("a text takes all");
    }
    out
}
