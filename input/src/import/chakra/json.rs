//! Chakra traces as JSON: the messages of `et_def.proto` one behind the other, as `chakra_jsonizer`
//! writes them, and the list `workload_graph` that Chakra's feeder reads.
//!
//! The first is protobuf's own mapping: fields in camel case or as the schema has them, 64 bits as
//! texts, kinds by name. The second has nodes with `Id`, `Name`, `NodeType` (a number) and
//! `data_deps`, whose other keys are attributes; it says nothing of the file (Chakra's
//! `src/feeder/JSONNode.cpp`).
//! Invariant: no more than one object is held, and none is longer than a message may be.

use super::wire::{
    Attribute, Broken, GlobalMetadata, MOST_MESSAGE, Node, Nodes, Value, Values, byte,
};
use serde_json::{Map, Value as Json};
use std::io::Read;
use std::str::FromStr;

/// The key of the list.
const GRAPH: &str = "workload_graph";

/// `NodeType`, by number.
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

/// Whether a text begins as a list of nodes does.
fn is_graph(text: &str) -> bool {
    let key = format!("\"{GRAPH}\"");
    text.split(&key).skip(1).any(|rest| rest.trim_start().starts_with(':'))
}

/// Whether JSON begins as a trace of Chakra does.
pub(crate) fn is_chakra_json(text: &str) -> bool {
    let kind = |kind: &&str| text.contains(&format!("\"{kind}\""));
    is_graph(text) || text.contains("\"type\"") && KINDS.iter().any(kind)
}

/// An object, and how many bytes it has.
type Object = (Map<String, Json>, usize);

/// The objects of a file.
pub(super) struct Objects<R> {
    from: R,
    at: u64,
    most: u64,
    /// Where the object begins that was read last, and its number.
    begin: u64,
    number: u64,
    buffer: Vec<u8>,
    graph: bool,
    /// A node that stands where a description of the file was looked for.
    first: Option<Object>,
}

impl<R: Read> Objects<R> {
    /// Of a file that begins with `head`.
    pub(super) fn new(head: &[u8], from: R, most: u64) -> Objects<R> {
        let graph = is_graph(&String::from_utf8_lossy(head));
        let (buffer, first) = Default::default();
        Objects { from, at: 0, most, begin: 0, number: 0, buffer, graph, first }
    }

    fn byte(&mut self) -> Result<Option<u8>, Broken> {
        let Some(byte) = byte(&mut self.from)? else { return Ok(None) };
        self.at += 1;
        match self.at > self.most {
            true => Err(Broken::Rule("the file unpacks to more than is allowed")),
            false => Ok(Some(byte)),
        }
    }

    /// Goes on to the first node of the list.
    fn enter(&mut self) -> Result<(), Broken> {
        let (mut depth, mut last, mut quoted) = (0u64, Vec::new(), false);
        while let Some(byte) = self.byte()? {
            match byte {
                b'"' if !quoted => (quoted, last) = (true, Vec::new()),
                b'"' => quoted = false,
                b'\\' if quoted => drop(self.byte()?),
                // A key is not that long.
                _ if quoted && last.len() <= GRAPH.len() => last.push(byte),
                _ if quoted => {}
                b'[' if depth == 1 && last == GRAPH.as_bytes() => return Ok(()),
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Err(Broken::Rule("the nodes stand in a list `workload_graph`"))
    }

    /// The next object and its length; none at the end.
    fn next(&mut self) -> Result<Option<Object>, Broken> {
        loop {
            self.begin = self.at;
            match self.byte()? {
                Some(b'{') => break,
                Some(b',' | b' ' | b'\t' | b'\r' | b'\n') => {}
                Some(b']') if self.graph => return Ok(None),
                None if !self.graph => return Ok(None),
                None => return Err(Broken::Rule("the file ends within its list of nodes")),
                Some(_) => return Err(Broken::Rule("an object `{...}` is wanted here")),
            }
        }
        self.number += 1;
        self.buffer.clear();
        self.buffer.push(b'{');
        let (mut depth, mut quoted, mut escaped) = (1u64, false, false);
        while depth > 0 {
            let Some(byte) = self.byte()? else {
                return Err(Broken::Rule("the file ends within an object"));
            };
            self.buffer.push(byte);
            if self.buffer.len() as u64 > MOST_MESSAGE {
                return Err(Broken::Rule("a message has at most 1 MiB"));
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = quoted,
                b'"' => quoted = !quoted,
                b'{' if !quoted => depth += 1,
                b'}' if !quoted => depth -= 1,
                _ => {}
            }
        }
        let object = serde_json::from_slice(&self.buffer);
        let object = object.map_err(|error| Broken::Form(error.to_string()))?;
        Ok(Some((object, self.buffer.len())))
    }
}

impl<R: Read> Nodes for Objects<R> {
    fn head(&mut self) -> Result<Option<(GlobalMetadata, usize)>, Broken> {
        if self.graph {
            self.enter()?;
            let version = GRAPH.to_owned();
            return Ok(Some((GlobalMetadata { version, attr: Vec::new() }, 0)));
        }
        let Some((object, length)) = self.next()? else { return Ok(None) };
        let mut head = GlobalMetadata::default();
        if object.contains_key("id") && object.contains_key("type") {
            self.first = Some((object, length));
            return Ok(Some((head, length)));
        }
        for (key, value) in &object {
            match key.as_str() {
                "version" => head.version = text(key, value).map_err(Broken::Form)?,
                "attr" => head.attr = attributes(value).map_err(Broken::Form)?,
                _ => {}
            }
        }
        Ok(Some((head, length)))
    }

    fn node(&mut self) -> Result<Option<(Node, usize)>, Broken> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => self.next()?,
        };
        let Some((object, length)) = next else { return Ok(None) };
        let node = node(&object, self.graph).map_err(Broken::Form)?;
        Ok(Some((node, length)))
    }

    fn place(&self) -> String {
        format!("byte {}, object {}", self.begin, self.number)
    }
}

fn node(object: &Map<String, Json>, graph: bool) -> Result<Node, String> {
    let mut node = Node::default();
    for (key, value) in object {
        match key.as_str() {
            "id" | "Id" => node.id = number(key, value)?,
            "name" | "Name" => node.name = text(key, value)?,
            "type" | "NodeType" => node.kind = kind(key, value)?,
            "ctrlDeps" | "ctrl_deps" => node.ctrl_deps = numbers(key, value)?,
            "dataDeps" | "data_deps" => node.data_deps = numbers(key, value)?,
            "startTimeMicros" | "start_time_micros" => node.start_time_micros = number(key, value)?,
            "durationMicros" | "duration_micros" => node.duration_micros = number(key, value)?,
            "inputs" => node.inputs = values(key, value)?,
            "outputs" => node.outputs = values(key, value)?,
            "attr" => node.attr = attributes(value)?,
            _ if graph => node.attr.extend(plain(key, value)),
            _ => {}
        }
    }
    Ok(node)
}

fn wrong(key: &str, wanted: &str, found: &Json) -> String {
    let found: String = found.to_string().chars().take(60).collect();
    format!("`{key}` is {wanted}; found {found}")
}

fn text(key: &str, value: &Json) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(key, "a text", value))
}

/// A number, also as a text.
fn number<T: FromStr>(key: &str, value: &Json) -> Result<T, String> {
    let found = match value {
        Json::String(text) => text.parse().ok(),
        Json::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    found.ok_or_else(|| wrong(key, "a number of its type", value))
}

fn numbers(key: &str, value: &Json) -> Result<Vec<u64>, String> {
    let list = value.as_array().ok_or_else(|| wrong(key, "a list", value))?;
    list.iter().map(|one| number(key, one)).collect()
}

fn kind(key: &str, value: &Json) -> Result<i32, String> {
    let named = |name: &str| KINDS.iter().position(|kind| *kind == name).map(|at| at as i32);
    match value.as_str().and_then(named) {
        Some(kind) => Ok(kind),
        None => number(key, value),
    }
}

fn values(key: &str, value: &Json) -> Result<Option<Values>, String> {
    let object = value.as_object().ok_or_else(|| wrong(key, "an object", value))?;
    let values = object.get("values").map(|values| text("values", values)).transpose()?;
    Ok(Some(Values { values: values.unwrap_or_default() }))
}

fn attributes(value: &Json) -> Result<Vec<Attribute>, String> {
    let list = value.as_array().ok_or_else(|| wrong("attr", "a list", value))?;
    list.iter().map(attribute).collect()
}

/// `{"name": "tid", "int64Val": "7"}`; lists of values are left out, as they are of protobuf.
fn attribute(from: &Json) -> Result<Attribute, String> {
    let object = from.as_object().ok_or_else(|| wrong("attr", "a list of objects", from))?;
    let mut attribute = Attribute::default();
    for (key, value) in object {
        let kind = key.strip_suffix("Val").or_else(|| key.strip_suffix("_val"));
        let of = match kind {
            _ if key == "name" => {
                attribute.name = text(key, value)?;
                continue;
            }
            Some("double") => Value::Double(number(key, value)?),
            Some("float") => Value::Float(number(key, value)?),
            Some("int32") => Value::Int32(number(key, value)?),
            Some("int64") => Value::Int64(number(key, value)?),
            Some("uint32") => Value::Uint32(number(key, value)?),
            Some("uint64") => Value::Uint64(number(key, value)?),
            Some("sint32") => Value::Sint32(number(key, value)?),
            Some("sint64") => Value::Sint64(number(key, value)?),
            Some("fixed32") => Value::Fixed32(number(key, value)?),
            Some("fixed64") => Value::Fixed64(number(key, value)?),
            Some("sfixed32") => Value::Sfixed32(number(key, value)?),
            Some("sfixed64") => Value::Sfixed64(number(key, value)?),
            Some("bool") => {
                Value::Bool(value.as_bool().ok_or_else(|| wrong(key, "true or false", value))?)
            }
            Some("string") => Value::Text(text(key, value)?),
            _ => continue,
        };
        attribute.value = Some(of);
    }
    Ok(attribute)
}

/// A key of a node of the list, such as `"comm_size": 4096`.
fn plain(key: &str, value: &Json) -> Option<Attribute> {
    let value = match value {
        Json::Bool(yes) => Value::Bool(*yes),
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Value::Uint64(number),
            (_, Some(number)) => Value::Int64(number),
            _ => Value::Double(number.as_f64()?),
        },
        _ => return None,
    };
    Some(Attribute::new(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Node>, String> {
        let mut objects = Objects::new(text.as_bytes(), text.as_bytes(), 1 << 20);
        let said = |broken| format!("{broken:?}");
        objects.head().map_err(said)?.ok_or("no head")?;
        let mut nodes = Vec::new();
        while let Some((node, _)) = objects.node().map_err(said)? {
            nodes.push(node);
        }
        Ok(nodes)
    }

    #[test]
    fn both_forms_say_the_same_node() {
        let messages = r#"{"version": "1"}{"id": "7", "name": "a } \"b", "type": "COMM_COLL_NODE",
            "dataDeps": ["1", 2], "durationMicros": "3",
            "attr": [{"name": "comm_size", "uint64Val": "64"}, {"name": "l", "int32List": {}}]}"#;
        let graph = r#"{"x": ["workload_graph", {}], "workload_graph": [{"Id": 7, "NodeType": 7,
            "Name": "a } \"b", "data_deps": [1, 2], "duration_micros": 3, "comm_size": 64}], "y": 1}"#;
        let (one, other) = (read(messages).unwrap(), read(graph).unwrap());
        // What describes the file may be missing.
        let alone = messages.strip_prefix(r#"{"version": "1"}"#).expect("it begins so");
        assert_eq!(read(alone).unwrap(), one);
        assert_eq!((one[0].id, one[0].kind, &one[0].data_deps[..]), (7, 7, &[1, 2][..]));
        assert_eq!(one[0].number("comm_size"), Some(64));
        assert_eq!(other[0].number("comm_size"), Some(64));
        let without = |node: &Node| Node { attr: Vec::new(), ..node.clone() };
        assert_eq!(without(&one[0]), without(&other[0]));
        assert!(is_chakra_json(messages) && is_chakra_json(graph));
        assert!(!is_chakra_json(r#"{"type": "x", "workload_graph_id": 3}"#));
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for (text, wanted) in [
            (r#"{}{"id": -1}"#, "`id` is a number of its type; found -1"),
            (r#"{}{"id": "x"}"#, "`id` is a number"),
            (r#"{}{"dataDeps": 3}"#, "`dataDeps` is a list"),
            (r#"{}{"type": "NO_NODE"}"#, "`type` is a number"),
            (r#"{}{"attr": [{"name": "a", "boolVal": 3}]}"#, "`boolVal` is true or false"),
            (r#"{}{"id": 1"#, "the file ends within an object"),
            (r#"{}]"#, "an object `{...}` is wanted here"),
            (r#"{"workload_graph": [{"Id": 1}"#, "the file ends within its list"),
            (r#"{"workload_graph": {}}"#, "the nodes stand in a list"),
            (r#"{}{"id": 1,}"#, "trailing comma"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
