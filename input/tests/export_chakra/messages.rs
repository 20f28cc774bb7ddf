//! Chakra files taken apart and put together again, byte by byte, without what the reader and the
//! writer use.

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    Number(u64),
    Bytes(Vec<u8>),
    /// Eight or four bytes.
    Fixed(Vec<u8>),
}

/// A field: its number and value.
pub(crate) type Field = (u64, Held);

/// A message: its fields in order.
pub(crate) type Message = Vec<Field>;

fn varint(from: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = from.split_first().expect("a number ends");
        *from = rest;
        number |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return number;
        }
    }
}

fn put(mut number: u64, out: &mut Vec<u8>) {
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn fields(mut from: &[u8]) -> Message {
    let mut all = Vec::new();
    while !from.is_empty() {
        let key = varint(&mut from);
        let mut take = |length: usize| {
            let (taken, rest) = from.split_at(length);
            from = rest;
            taken.to_vec()
        };
        let held = match key & 7 {
            0 => Held::Number(varint(&mut from)),
            1 => Held::Fixed(take(8)),
            5 => Held::Fixed(take(4)),
            _ => {
                let length = varint(&mut from) as usize;
                let (taken, rest) = from.split_at(length);
                from = rest;
                Held::Bytes(taken.to_vec())
            }
        };
        all.push((key >> 3, held));
    }
    all
}

/// The head, and then the nodes.
pub(crate) fn messages(mut from: &[u8]) -> Vec<Message> {
    let mut all = Vec::new();
    while !from.is_empty() {
        let length = varint(&mut from) as usize;
        let (message, rest) = from.split_at(length);
        all.push(fields(message));
        from = rest;
    }
    all
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, held) in message {
        match held {
            Held::Number(value) => {
                put(number << 3, &mut out);
                put(*value, &mut out);
            }
            Held::Bytes(bytes) => {
                put(number << 3 | 2, &mut out);
                put(bytes.len() as u64, &mut out);
                out.extend(bytes);
            }
            Held::Fixed(bytes) => {
                put(number << 3 | if bytes.len() == 8 { 1 } else { 5 }, &mut out);
                out.extend(bytes);
            }
        }
    }
    out
}

/// Messages as a file.
pub(crate) fn file(all: &[Message]) -> Vec<u8> {
    let mut out = Vec::new();
    for message in all {
        let message = bytes(message);
        put(message.len() as u64, &mut out);
        out.extend(message);
    }
    out
}

/// The first number of a field.
pub(crate) fn number(message: &Message, field: u64) -> Option<u64> {
    message.iter().find_map(|(of, held)| match held {
        Held::Number(number) if *of == field => Some(*number),
        _ => None,
    })
}

/// The numbers of a repeated field, packed.
pub(crate) fn numbers(message: &Message, field: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for (of, held) in message {
        if let (true, Held::Bytes(bytes)) = (*of == field, held) {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                all.push(varint(&mut rest));
            }
        }
    }
    all
}

/// The name of an attribute, which is its first field.
fn name(attribute: &[u8]) -> String {
    match fields(attribute).remove(0) {
        (1, Held::Bytes(name)) => String::from_utf8(name).expect("a name is text"),
        other => panic!("an attribute without a name: {other:?}"),
    }
}

/// The whole number that a node's attribute holds, if there is one.
pub(crate) fn attribute(node: &Message, wanted: &str) -> Option<u64> {
    let held = node.iter().find_map(|(of, held)| match held {
        Held::Bytes(bytes) if *of == 10 && name(bytes) == wanted => Some(fields(bytes)),
        _ => None,
    })?;
    match &held[1].1 {
        Held::Number(number) => Some(*number),
        other => panic!("{wanted} is no number: {other:?}"),
    }
}

/// The same file without the attributes whose names `leave_out` takes; attributes are field 2 of
/// the head and field 10 of nodes.
pub(crate) fn without(from: &[u8], leave_out: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut all = messages(from);
    for (index, message) in all.iter_mut().enumerate() {
        let field = if index == 0 { 2 } else { 10 };
        message.retain(|(of, held)| match held {
            Held::Bytes(bytes) if *of == field => !leave_out(&name(bytes)),
            _ => true,
        });
    }
    file(&all)
}
