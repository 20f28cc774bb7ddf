//! `quantization_config`: how a checkpoint's matrices are stored.
//!
//! Invariant: what is not known for certain is `None`, and is remarked.

use serde::Deserialize;
use std::collections::BTreeMap;
use tiersim_workloads::transformer::packed::{Packed, block, group};

/// What is read of it; each method has words of its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawQuantisation {
    quant_method: Option<String>,
    // AWQ and GPTQ.
    bits: Option<u32>,
    group_size: Option<i64>,
    // bitsandbytes.
    load_in_4bit: Option<bool>,
    load_in_8bit: Option<bool>,
    bnb_4bit_use_double_quant: Option<bool>,
    // compressed-tensors: each group of modules.
    config_groups: BTreeMap<String, RawGroup>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawGroup {
    weights: Option<RawNumbers>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNumbers {
    num_bits: Option<u32>,
    group_size: Option<i64>,
    r#type: Option<String>,
}

/// How matrices are stored whose rows have so many numbers.
pub(super) fn quantised(raw: &RawQuantisation, row: u32) -> Option<Packed> {
    match raw.quant_method.as_deref() {
        Some("awq" | "gptq") => integers(raw.bits.unwrap_or(4), raw.group_size, row),
        Some("fp8" | "fbgemm_fp8") => Some(Packed::Fp8),
        Some("mxfp4") => Some(Packed::Mxfp4),
        Some("bitsandbytes") | None => match (raw.load_in_8bit, raw.load_in_4bit) {
            (Some(true), _) => Some(Packed::Int8),
            (_, Some(true)) => {
                let double = raw.bnb_4bit_use_double_quant.unwrap_or(false);
                Some(Packed::Nf4 { group: block(), double })
            }
            _ => None,
        },
        Some("compressed-tensors") => {
            let numbers = |of: &RawGroup| {
                let of = of.weights.as_ref()?;
                match (of.r#type.as_deref()?, of.num_bits?) {
                    ("float", 8) => Some(Packed::Fp8),
                    ("int", bits) => {
                        // Unless groups are said, a scale is that of a row.
                        integers(bits, of.group_size.or(Some(-1)), row)
                    }
                    _ => None,
                }
            };
            let mut groups = raw.config_groups.values().map(numbers);
            let first = groups.next()??;
            groups.all(|other| other == Some(first)).then_some(first)
        }
        Some(_) => None,
    }
}

/// Integers, of which so many share a scale; -1 stands for a row.
fn integers(bits: u32, size: Option<i64>, row: u32) -> Option<Packed> {
    let group = match size {
        None => group(),
        Some(-1) => row,
        Some(size) => u32::try_from(size).ok()?,
    };
    match bits {
        8 => Some(Packed::Int8),
        4 => Some(Packed::Int4 { group }).filter(|it| it.problem().is_none()),
        _ => None,
    }
}
