//! Nodes of an execution trace, as the observer of PyTorch wrote them.
//!
//! Two forms are read: flat nodes (schema 1.0) with `parent`, `inputs` and `outputs`, and nodes with
//! `ctrl_deps`, `inputs.values` and `attrs` (from 1.1). A tensor is a list `[tensor, storage,
//! offset, numbers, bytes of a number, device]`, within lists of any depth.
//! Invariant: of values that are no tensors nothing is kept.

use crate::import::groups::Words;
use crate::import::names::{Names, cut};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A tensor as an op takes or returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Tensor {
    pub(in crate::import) storage: i64,
    /// Up to where it reaches in its storage, in bytes.
    pub(in crate::import) end: u64,
    pub(in crate::import) bytes: u64,
    pub(in crate::import) numbers: u64,
    /// The device's name.
    pub(in crate::import) device: u32,
    /// Which of the op's arguments it is, or is in.
    pub(in crate::import) argument: u16,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub(in crate::import) struct Node {
    pub(in crate::import) id: i64,
    pub(in crate::import) parent: i64,
    /// Its number in a trace of the profiler.
    pub(in crate::import) record_function: i64,
    pub(in crate::import) thread: i64,
    pub(in crate::import) name: u32,
    pub(in crate::import) inputs: Vec<Tensor>,
    pub(in crate::import) outputs: Vec<Tensor>,
    /// By argument: whether the op's schema says that it is changed, for the first 64.
    pub(in crate::import) changed: u64,
    /// Whether it has a schema, as ops have and ranges have not.
    pub(in crate::import) op: bool,
    /// What it says of a collective.
    pub(in crate::import) collective: Option<Box<Words>>,
    /// The list of groups of ranks that a run begins with, as JSON.
    pub(in crate::import) groups: Option<String>,
}

impl Node {
    /// About what it takes in memory, and what is made of it.
    pub(in crate::import) fn bytes(&self) -> usize {
        let said = self.collective.as_ref().map_or(0, |_| 1024);
        let groups = self.groups.as_ref().map_or(0, |text| 4 * text.len());
        600 + self.tensors_bytes() + said + groups
    }

    /// The same of its tensors alone.
    pub(in crate::import) fn tensors_bytes(&self) -> usize {
        (self.inputs.len() + self.outputs.len()) * (2 * size_of::<Tensor>() + 120)
    }
}

/// Reads a node.
pub(in crate::import) struct NodeSeed<'a>(pub(super) &'a mut Names);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut node = Node::default();
        let mut name = String::new();
        let mut schema = String::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => node.id = map.next_value()?,
                "ctrl_deps" | "parent" => node.parent = map.next_value()?,
                "name" => name = map.next_value()?,
                "inputs" => {
                    let mut values = Values::new(self.0, &mut node.inputs);
                    values.groups = Some(&mut node.groups);
                    map.next_value_seed(values)?;
                }
                "outputs" => {
                    map.next_value_seed(Values::new(self.0, &mut node.outputs))?;
                }
                "op_schema" => schema = map.next_value()?,
                "rf_id" => node.record_function = map.next_value()?,
                "tid" => node.thread = map.next_value()?,
                "attrs" => {
                    for Attribute { name, value } in map.next_value::<Vec<Attribute>>()? {
                        match (name.as_str(), value) {
                            ("op_schema", Element::Text(text)) => schema = text,
                            ("rf_id", Element::Number(number)) => node.record_function = number,
                            ("tid", Element::Number(number)) => node.thread = number,
                            (name, value) => said(&mut node.collective, name, value),
                        }
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        node.name = self.0.id(&name).0;
        node.op = !schema.is_empty();
        node.changed = changed(&schema, &name);
        Ok(node)
    }
}

#[derive(serde::Deserialize)]
struct Attribute {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: Element,
}

impl<'de> serde::Deserialize<'de> for Element {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Element, D::Error> {
        let (mut names, mut none) = (Names::default(), Vec::new());
        Values::new(&mut names, &mut none).element(from)
    }
}

/// Takes what an attribute says of a collective.
fn said(collective: &mut Option<Box<Words>>, name: &str, value: Element) {
    let known = ["collective_name", "dtype", "in_msg_nelems", "pg_name", "pg_size"];
    if !known.contains(&name) {
        return;
    }
    let words = collective.get_or_insert_default();
    match (name, value) {
        ("in_msg_nelems", Element::Number(number)) => words.numbers = Some(number),
        ("pg_size", Element::Number(number)) => words.size = Some(number),
        ("pg_name", Element::Number(number)) => words.group = number.to_string(),
        ("pg_name", Element::Text(text)) => words.group = cut(&text).to_owned(),
        ("dtype", Element::Text(text)) => words.dtype = cut(&text).to_owned(),
        ("collective_name", Element::Text(text)) => words.name = cut(&text).to_owned(),
        _ => {}
    }
}

/// Which arguments a schema says to be changed: `add_(Tensor(a!) self, ...)`. Without a schema the
/// name tells: what ends in `_` changes its first.
pub(in crate::import) fn changed(schema: &str, name: &str) -> u64 {
    let Some((_, rest)) = schema.split_once('(') else {
        return u64::from(name.ends_with('_') && !name.ends_with("__"));
    };
    let (mut depth, mut argument, mut found, mut star) = (0u32, 0u32, 0u64, false);
    for byte in rest.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => break,
            b')' | b']' => depth -= 1,
            // A star between arguments is none.
            b'*' if depth == 0 => star = true,
            b',' if depth == 0 && star => star = false,
            b',' if depth == 0 => argument += 1,
            b'!' if argument < 64 => found |= 1 << argument,
            _ => {}
        }
    }
    found
}

/// Collects the tensors of inputs or outputs: a list of values, or a map with such a list.
pub(in crate::import) struct Values<'a> {
    names: &'a mut Names,
    out: &'a mut Vec<Tensor>,
    argument: u16,
    depth: u8,
    /// Where a list of groups of ranks goes, which is a text.
    groups: Option<&'a mut Option<String>>,
}

/// What one value is.
#[derive(Default)]
pub(in crate::import) enum Element {
    Number(i64),
    Text(String),
    #[default]
    Other,
}

impl<'a> Values<'a> {
    pub(in crate::import) fn new(names: &'a mut Names, out: &'a mut Vec<Tensor>) -> Values<'a> {
        Values { names, out, argument: 0, depth: 0, groups: None }
    }

    pub(in crate::import) fn element<'de, D: serde::Deserializer<'de>>(
        self,
        from: D,
    ) -> Result<Element, D::Error> {
        from.deserialize_any(ElementVisitor(self))
    }

    /// A list: a tensor, or values among which are some.
    fn list<'de, A: SeqAccess<'de>>(&mut self, mut seq: A) -> Result<(), A::Error> {
        let (mut numbers, mut count, mut plain) = ([0i64; 5], 0usize, true);
        let mut device = None;
        loop {
            let inner = Values {
                names: &mut *self.names,
                out: &mut *self.out,
                argument: self.argument,
                depth: self.depth + 1,
                groups: None,
            };
            let Some(element) = seq.next_element_seed(inner)? else { break };
            match element {
                Element::Number(number) if count < 5 => numbers[count] = number,
                Element::Text(text) if text.starts_with("[{") && text.contains("pg_name") => {
                    if let Some(groups) = self.groups.as_deref_mut() {
                        *groups = Some(text);
                    }
                    plain = false;
                }
                Element::Text(text) if count == 5 => device = Some(text),
                _ => plain = false,
            }
            count += 1;
            if self.depth == 0 {
                self.argument = self.argument.saturating_add(1);
            }
        }
        if let Some(device) = device.filter(|_| plain && count == 6 && self.depth > 0) {
            self.push(numbers, &device);
        }
        Ok(())
    }

    fn push(&mut self, numbers: [i64; 5], device: &str) {
        let [_, storage, offset, count, item] = numbers;
        let size = |number: i64| u64::try_from(number).ok();
        let whole = || {
            let (offset, count, item) = (size(offset)?, size(count)?, size(item)?);
            let end = offset.checked_add(count)?.checked_mul(item)?;
            Some((end, count * item, count))
        };
        let Some((end, bytes, numbers)) = whole().filter(|of| of.0 < 1 << 50) else {
            return;
        };
        let device = self.names.id(device).0;
        let argument = self.argument;
        self.out.push(Tensor { storage, end, bytes, numbers, device, argument });
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Element;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Element, D::Error> {
        self.element(from)
    }
}

struct ElementVisitor<'a>(Values<'a>);

impl<'de> Visitor<'de> for ElementVisitor<'_> {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Element, E> {
        Ok(Element::Other)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Element, E> {
        Ok(Element::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Element, E> {
        Ok(Element::Number(number.cast_signed()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Element, E> {
        Ok(Element::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Element, E> {
        Ok(Element::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, seq: A) -> Result<Element, A::Error> {
        self.0.list(seq)?;
        Ok(Element::Other)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Element, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "values" && self.0.depth == 0 {
                let Values { names, out, argument, depth, groups } = &mut self.0;
                let (argument, depth, groups) = (*argument, *depth, groups.as_deref_mut());
                map.next_value_seed(Values { names, out, argument, depth, groups })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Element::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn a_schema_says_what_is_changed() {
        let schema =
            "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)";
        assert_eq!(changed(schema, "aten::add_"), 0b1);
        let schema = "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()";
        assert_eq!(changed(schema, "aten::_foreach_add_"), 0b1);
        let schema = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)";
        assert_eq!(changed(schema, "aten::mm"), 0b100);
        assert_eq!(changed("aten::t(Tensor(a) self) -> Tensor(a)", "aten::t"), 0);
        assert_eq!(changed("", "record_"), 1);
        assert_eq!(changed("", "c10d::allreduce"), 0);
    }
}
