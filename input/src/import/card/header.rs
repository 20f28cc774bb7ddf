//! The table of tensors that a `.safetensors` file begins with.
//!
//! The format (huggingface/safetensors): 8 bytes, little-endian, say how long the JSON behind them
//! is; it maps names to `dtype`, `shape` and `data_offsets`, which count from the end of the JSON
//! and leave no holes; `__metadata__` maps texts to texts.
//! Invariant: the tensors that are returned have the bytes that type and shape say, and fill the
//! file.

use super::tensors::{Dtype, Stored, WeightTable};
use crate::json::{self, MAX_ENTRIES, Texts, cannot_read, too_many};
use crate::text::check::MAX_PROBLEMS;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Most bytes of a header: the format's own limit.
pub(super) const MAX_HEADER: u64 = 100_000_000;
const REMEDY: &str = "a .safetensors file, or its header as JSON, is wanted";

/// One tensor as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The JSON: each name once.
#[derive(Debug, Default)]
pub(super) struct Header {
    entries: Vec<(String, Entry)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        from.deserialize_map(Tensors)
    }
}

struct Tensors;

impl<'de> Visitor<'de> for Tensors {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut names = std::collections::BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                let shown: String = name.chars().take(80).collect();
                return Err(A::Error::custom(format!("tensor `{shown}` is there twice")));
            }
            if names.len() > MAX_ENTRIES {
                return Err(too_many());
            }
            if name == "__metadata__" {
                header.metadata = map.next_value::<Texts>()?.0.into_iter().collect();
            } else {
                header.entries.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}

/// Reads the header of a `.safetensors` file.
pub(super) fn read_safetensors(path: &Path) -> Result<WeightTable, Diagnostics> {
    let fail = |rule: String, found: String| Diagnostics::one(path, None, rule, found, REMEDY);
    let (all, mut file) = json::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| fail("8 bytes say how long the header is".into(), format!("{all} bytes")))?;
    let length = u64::from_le_bytes(length);
    let most = MAX_HEADER.min(all.saturating_sub(8));
    if length > most {
        let rule = format!("the header of this file has at most {most} bytes");
        return Err(fail(rule, format!("{length} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    let header = json::object(path, &bytes, REMEDY)?;
    table(path, header, Some(all - 8 - length))
}

/// Reads a header that somebody took out of its file.
pub(super) fn read_bare(path: &Path) -> Result<WeightTable, Diagnostics> {
    let bytes = json::read(path, MAX_HEADER, "check what it is")?;
    let header = json::object(path, &bytes, REMEDY)?;
    table(path, header, None)
}

/// Checks the offsets. `data`: bytes behind the header, where they are known.
fn table(path: &Path, header: Header, data: Option<u64>) -> Result<WeightTable, Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut tensors = Vec::new();
    for (name, entry) in header.entries {
        let Entry { dtype, shape, data_offsets: (start, end) } = entry;
        let shown: String = name.chars().take(120).collect();
        let mut fault = |rule: String, found: String, remedy: &str| {
            if problems.0.len() < MAX_PROBLEMS {
                problems.push(path, None, format!("tensor `{shown}`: {rule}"), found, remedy);
            }
        };
        let Some(known) = Dtype::from_word(&dtype) else {
            let words = Dtype::ALL.map(|(dtype, ..)| dtype).join(", ");
            let found = dtype.chars().take(40).collect();
            fault("this dtype is not known".into(), found, &format!("known: {words}"));
            continue;
        };
        let Some(bytes) = known.bytes_of(&shape) else {
            let found = format!("{:.60}", format!("{shape:?}"));
            fault("its shape has less than 2^63 bytes".into(), found, "check the shape");
            continue;
        };
        if end.checked_sub(start) != Some(bytes) {
            let rule = format!("{dtype} of this shape takes {bytes} bytes of data");
            fault(rule, format!("data_offsets [{start}, {end}]"), "write the file again");
            continue;
        }
        tensors.push((start, Stored { name, dtype: known, shape, bytes }));
    }
    if problems.0.is_empty() {
        fills(path, &mut tensors, data, &mut problems);
    }
    let tensors = tensors.into_iter().map(|(_, tensor)| tensor).collect();
    problems.into_result(WeightTable::of(tensors, header.metadata))
}

/// Data of tensors follows one on another, from the first byte to the last.
fn fills(
    path: &Path,
    tensors: &mut [(u64, Stored)],
    data: Option<u64>,
    problems: &mut Diagnostics,
) {
    tensors.sort_by(|(a, left), (b, right)| (a, left.bytes).cmp(&(b, right.bytes)));
    let mut next = 0;
    for (start, tensor) in &*tensors {
        if *start != next {
            let rule = format!("the data of tensor `{:.120}` begins at byte {next}", tensor.name);
            problems.push(path, None, rule, format!("{start}"), "write the file again");
            return;
        }
        // Starts are those that were read, so the sum is an end that was read.
        next = start.saturating_add(tensor.bytes);
    }
    if let Some(data) = data.filter(|&data| data != next) {
        let rule = format!("the tensors have {next} bytes of data");
        problems.push(path, None, rule, format!("{data}"), "fetch the whole file again");
    }
}
