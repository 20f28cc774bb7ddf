//! The tensors of a model's files: names, types, shapes and bytes.
//!
//! Invariant: the bytes of a table are at least those of its tensors.

use std::collections::{BTreeMap, BTreeSet};
use tiersim_workloads::transformer::format::Format;

/// The type of a tensor's numbers, as the format names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dtype {
    /// Its word, such as `BF16`.
    pub word: &'static str,
    bits: u64,
    format: Option<Format>,
}

impl Dtype {
    /// Words, bits and the format that such weights have.
    pub(super) const ALL: [(&'static str, u64, Option<Format>); 18] = [
        ("F64", 64, None),
        ("F32", 32, Some(Format::Fp32)),
        ("F16", 16, Some(Format::Fp16)),
        ("BF16", 16, Some(Format::Bf16)),
        ("F8_E4M3", 8, Some(Format::Fp8)),
        ("F8_E5M2", 8, Some(Format::Fp8)),
        ("F8_E8M0", 8, Some(Format::Fp8)),
        ("F6_E2M3", 6, None),
        ("F6_E3M2", 6, None),
        ("F4", 4, None),
        ("I64", 64, None),
        ("I32", 32, None),
        ("I16", 16, None),
        ("I8", 8, Some(Format::Int8)),
        ("U32", 32, None),
        ("U16", 16, None),
        ("U8", 8, Some(Format::Int8)),
        ("BOOL", 8, None),
    ];

    /// The type that `word` names.
    pub fn from_word(word: &str) -> Option<Dtype> {
        let found = Dtype::ALL.into_iter().find(|(known, ..)| *known == word);
        found.map(|(word, bits, format)| Dtype { word, bits, format })
    }

    /// The format of weights of this type, if there is one.
    pub fn format(self) -> Option<Format> {
        self.format
    }

    /// Bytes of a tensor; `None` from 2^63 on.
    pub fn bytes_of(self, shape: &[u64]) -> Option<u64> {
        let numel = shape.iter().try_fold(1u64, |all, &size| all.checked_mul(size))?;
        let bytes = numel.checked_mul(self.bits)?.div_ceil(8);
        (bytes < 1 << 63).then_some(bytes)
    }
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// The type of its numbers.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Bytes of its data.
    pub bytes: u64,
}

/// The tensors of a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightTable {
    /// Every tensor; empty where only names are known.
    pub tensors: Vec<Stored>,
    /// The names of all tensors, and of those that stand for another one.
    pub names: BTreeSet<String>,
    /// Bytes of all tensors.
    pub bytes: u64,
}

impl WeightTable {
    pub(super) fn of(tensors: Vec<Stored>, metadata: BTreeMap<String, String>) -> WeightTable {
        let mut names: BTreeSet<String> =
            tensors.iter().map(|tensor| tensor.name.clone()).collect();
        // Tensors that share their data are stored once; the metadata names the others.
        let shared = metadata.into_iter().filter(|(_, stored)| names.contains(stored));
        let shared: Vec<String> = shared.map(|(name, _)| name).collect();
        names.extend(shared);
        // Each is the length of data of one file: a sum beyond 64 bits is no file.
        let bytes = tensors.iter().fold(0, |all: u64, tensor| all.saturating_add(tensor.bytes));
        WeightTable { tensors, names, bytes }
    }

    /// The format that most bytes have.
    pub fn format(&self) -> Option<Format> {
        let mut by_format: BTreeMap<Option<Format>, u64> = BTreeMap::new();
        for tensor in &self.tensors {
            let bytes = by_format.entry(tensor.dtype.format).or_default();
            *bytes = bytes.saturating_add(tensor.bytes);
        }
        by_format.into_iter().max_by_key(|(_, bytes)| *bytes).and_then(|(format, _)| format)
    }
}
