//! Weights that are stored in fewer bits than the rest of a model: of 4 two in a byte, and scales that
//! groups of them share; of 8 one in a byte.
//!
//! NF4 as bitsandbytes stores it (Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs",
//! 2023, section 3): a 32-bit constant per block of 64 weights, half a bit per parameter. Double
//! quantization has 8-bit constants and a 32-bit one per 256 of those, 8/64 + 32/(64 x 256) = 0.127
//! bits. Plain 4-bit integers have a 16-bit scale per group of 128, as GPTQ and AWQ store them;
//! zero points are left out. MXFP4 has an 8-bit scale per 32. Of 8 bits a scale is that of a row or of
//! a whole matrix, and is left out; products read them as they are, where 4 bits are unpacked first.
//! Packed are the matrices of blocks; tables, head, norms and biases are not (bitsandbytes leaves
//! out the head, and replaces nothing but matrices; so do vLLM and the makers of checkpoints in FP8);
//! of gpt-oss the experts alone, as its makers publish them.
//! A matrix is packed by itself, also where a rank has a part of it.

use crate::limits::ShapeProblem;
use serde::Deserialize;

/// How weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packed {
    /// Quantiles of a normal distribution.
    Nf4 {
        /// Weights that share a constant.
        #[serde(default = "block")]
        group: u32,
        /// Whether constants are quantized too.
        #[serde(default)]
        double: bool,
    },
    /// Integers.
    Int4 {
        /// Weights that share a scale.
        #[serde(default = "group")]
        group: u32,
    },
    /// Floats of 4 bits (OCP Microscaling Formats 1.0, 2023): 32 share a scale of 8 bits.
    Mxfp4,
    /// Floats of 8 bits.
    Fp8,
    /// Integers of 8 bits.
    Int8,
}

/// Weights that share a scale in [`Packed::Mxfp4`].
const MX: u32 = 32;

/// Constants that share one where they are quantized too.
const CONSTANTS: u128 = 256;
/// The largest group.
const MOST: u32 = 1 << 20;

/// Weights of a block, unless it is said.
pub const fn block() -> u32 {
    64
}

/// Weights of a group of integers, unless it is said.
pub const fn group() -> u32 {
    128
}

/// Most ops that unpack weights in a pass through a block, one before each product; of so many
/// experts if it has any.
pub(crate) fn most_unpacked(packed: Option<Packed>, experts: Option<u128>) -> u128 {
    match (packed.filter(|packed| !packed.has_8_bits()), experts) {
        (None, _) => 0,
        (Some(_), None) => 7,
        (Some(_), Some(count)) => 9 + 2 * count,
    }
}

impl Packed {
    /// Weights that share a scale; 1 where scales are left out.
    pub const fn group(self) -> u32 {
        match self {
            Packed::Nf4 { group, .. } | Packed::Int4 { group } => group,
            Packed::Mxfp4 => MX,
            Packed::Fp8 | Packed::Int8 => 1,
        }
    }

    /// Whether products read them as they are, and compute in that: [`Format::read_as`].
    ///
    /// [`Format::read_as`]: super::format::Format::read_as
    pub const fn has_8_bits(self) -> bool {
        matches!(self, Packed::Fp8 | Packed::Int8)
    }

    /// Bytes of so many weights: of 8 bits as many. Of 4 bits ceil(n / 2), and of each of their ceil(n / group) groups a scale of
    /// 4 bytes, or 2 of integers, or 1 of floats; doubly quantized 1 byte each and 4 for every 256
    /// of them.
    ///
    /// # Panics
    /// If a group has no weights: see [`Packed::problem`].
    pub const fn bytes(self, numbers: u128) -> u128 {
        let groups = numbers.div_ceil(self.group() as u128);
        let scales = match self {
            Packed::Nf4 { double: false, .. } => 4 * groups,
            Packed::Nf4 { double: true, .. } => groups + 4 * groups.div_ceil(CONSTANTS),
            Packed::Int4 { .. } => 2 * groups,
            Packed::Mxfp4 => groups,
            Packed::Fp8 | Packed::Int8 => return numbers,
        };
        numbers.div_ceil(2) + scales
    }

    /// As on the command line: `nf4:64`, `nf4-double:64`, `int4:128`, `mxfp4`, `fp8` or `int8`.
    pub fn word(self) -> String {
        let word = match self {
            Packed::Mxfp4 => return "mxfp4".to_owned(),
            Packed::Fp8 => return "fp8".to_owned(),
            Packed::Int8 => return "int8".to_owned(),
            Packed::Nf4 { double: false, .. } => "nf4",
            Packed::Nf4 { double: true, .. } => "nf4-double",
            Packed::Int4 { .. } => "int4",
        };
        format!("{word}:{}", self.group())
    }

    /// The rule that it breaks, if it breaks one.
    pub fn problem(self) -> Option<ShapeProblem> {
        let group = self.group();
        (!(1..=MOST).contains(&group)).then(|| ShapeProblem {
            field: "formats.weights",
            rule: format!("`group` must lie between 1 and {MOST}, it is {group}"),
            remedy: "leave it out, or write 64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_per_parameter_are_those_of_the_paper() {
        let bits = |packed: Packed| packed.bytes(1 << 30) as f64 * 8.0 / f64::from(1 << 30);
        assert_eq!(bits(Packed::Nf4 { group: 64, double: false }), 4.5);
        let double = bits(Packed::Nf4 { group: 64, double: true });
        assert_eq!(double, 4.0 + 8.0 / 64.0 + 32.0 / (64.0 * 256.0));
        assert_eq!(bits(Packed::Int4 { group: 128 }), 4.125);
        assert_eq!(bits(Packed::Mxfp4), 4.25);
        assert_eq!([bits(Packed::Fp8), bits(Packed::Int8)], [8.0; 2]);
    }

    #[test]
    fn what_is_begun_is_whole() {
        // 65 weights: 33 bytes, 2 groups.
        assert_eq!(Packed::Nf4 { group: 64, double: false }.bytes(65), 33 + 8);
        assert_eq!(Packed::Nf4 { group: 64, double: true }.bytes(65), 33 + 2 + 4);
        // 257 groups of one weight: two constants for them.
        assert_eq!(Packed::Nf4 { group: 1, double: true }.bytes(257), 129 + 257 + 8);
        assert_eq!(Packed::Int4 { group: 7 }.bytes(15), 8 + 6);
        assert_eq!(Packed::Int4 { group: 7 }.bytes(0), 0);
    }
}
