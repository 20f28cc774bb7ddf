//! Numeric formats, and the one that each kind of object has.

use super::packed::Packed;
use serde::Deserialize;
use tiersim_models::workload::ObjectKind;

/// A numeric format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// 4 bytes.
    Fp32,
    /// 4 bytes in memory; products have 10 bits of mantissa.
    Tf32,
    /// 2 bytes.
    Fp16,
    /// 2 bytes.
    Bf16,
    /// 1 byte.
    Fp8,
    /// 1 byte.
    Int8,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 6] =
        [Format::Fp32, Format::Tf32, Format::Fp16, Format::Bf16, Format::Fp8, Format::Int8];

    /// The word used in scenarios and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Fp32 => "fp32",
            Format::Tf32 => "tf32",
            Format::Fp16 => "fp16",
            Format::Bf16 => "bf16",
            Format::Fp8 => "fp8",
            Format::Int8 => "int8",
        }
    }

    /// The format that `word` names.
    pub fn from_word(word: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.word() == word)
    }

    /// Bytes of one number.
    pub const fn bytes(self) -> u64 {
        match self {
            Format::Fp32 | Format::Tf32 => 4,
            Format::Fp16 | Format::Bf16 => 2,
            Format::Fp8 | Format::Int8 => 1,
        }
    }

    /// The format in which products read packed weights, and compute, where that is as they are
    /// stored.
    pub const fn read_as(packed: Packed) -> Option<Format> {
        match packed {
            Packed::Nf4 { .. } | Packed::Int4 { .. } | Packed::Mxfp4 => None,
            Packed::Fp8 => Some(Format::Fp8),
            Packed::Int8 => Some(Format::Int8),
        }
    }

    /// PyTorch's name.
    pub const fn dtype(self) -> &'static str {
        match self {
            Format::Fp32 | Format::Tf32 => "float32",
            Format::Fp16 => "float16",
            Format::Bf16 => "bfloat16",
            Format::Fp8 => "float8_e4m3fn",
            Format::Int8 => "int8",
        }
    }
}

/// The format of each kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Formats {
    /// Weights.
    pub weights: Format,
    /// How the matrices of blocks are stored, if not in that.
    pub packed: Option<Packed>,
    /// Gradients of weights.
    pub gradients: Format,
    /// What the forward pass keeps for the backward pass; int8 stands for compressed activations.
    pub activations: Format,
    /// Keys and values of past tokens.
    pub kv: Format,
}

impl Formats {
    /// The format of an object of a model that generates or serves.
    pub(crate) const fn of(&self, kind: ObjectKind) -> Format {
        match kind {
            ObjectKind::Weight => self.weights,
            ObjectKind::Kv => self.kv,
            _ => self.activations,
        }
    }

    /// What products compute in: that of weights, but where those of 8 bits are read as they are.
    pub(crate) fn products(&self) -> Format {
        self.packed.and_then(Format::read_as).unwrap_or(self.weights)
    }

    /// One format for all.
    pub const fn all(format: Format) -> Formats {
        Formats {
            weights: format,
            packed: None,
            gradients: format,
            activations: format,
            kv: format,
        }
    }
}
