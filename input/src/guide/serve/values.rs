//! What servers call formats and amounts: one table for who reads flags and who writes them.
//!
//! Invariant: what a flag's value means is said here alone; the first word of a row is written.

use super::Load;
use crate::scenario::raw::card::RawWeights;
use tiersim_workloads::memory::account;
use tiersim_workloads::memory::inference::{Kv, Sequences};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::packed::Packed;

/// Words of a flag for one meaning, the meaning, and how a report tells it.
pub(in crate::guide) type Choice<T> = (&'static [&'static str], T, &'static str);

/// `--dtype`, as the scenario's `precision`.
pub(in crate::guide) const DTYPES: [Choice<&str>; 3] = [
    (&["bfloat16", "auto"], "bf16", "precision: bf16"),
    (&["half", "float16"], "fp16", "precision: fp16"),
    (&["float", "float32"], "fp32", "precision: fp32"),
];

/// `--quantization`, as the format of weights.
pub(in crate::guide) const QUANTIZATIONS: [Choice<Option<&str>>; 6] = [
    (&["fp8", "fbgemm_fp8", "ptpc_fp8", "w8a8_fp8"], Some("fp8"), "formats: (weights: fp8)"),
    (&["w8a8_int8", "int8", "experts_int8"], Some("int8"), "formats: (weights: int8)"),
    (
        &["awq", "awq_marlin", "gptq", "gptq_marlin", "marlin"],
        Some("int4(group: 128)"),
        "formats: (weights: int4(group: 128))",
    ),
    (&["bitsandbytes"], Some("nf4(group: 64)"), "formats: (weights: nf4(group: 64))"),
    (&["mxfp4", "gpt_oss_mxfp4"], Some("mxfp4"), "formats: (weights: mxfp4)"),
    (&["none", "None"], None, "weights in the precision"),
];

/// `--kv-cache-dtype`, as the format of keys and values.
pub(in crate::guide) const KV_DTYPES: [Choice<Option<&str>>; 4] = [
    (&["auto"], None, "keys and values in the precision"),
    (&["fp8_e4m3", "fp8", "fp8_e5m2", "fp8_inc"], Some("fp8"), "formats: (kv: fp8)"),
    (&["bfloat16", "bf16"], Some("bf16"), "formats: (kv: bf16)"),
    (&["float16"], Some("fp16"), "formats: (kv: fp16)"),
];

/// The word that is written for a meaning.
pub(in crate::guide) fn written<T: PartialEq>(
    table: &[Choice<T>],
    meaning: &T,
) -> Option<&'static str> {
    table.iter().find(|(_, known, _)| known == meaning).map(|(words, ..)| words[0])
}

/// The share of a card that servers use unless they are told another.
pub(in crate::guide) const UTILIZATION: f64 = 0.9;

/// Bytes of a card that a share of it is.
pub(in crate::guide) fn usable(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

/// The scenario's word for how weights are packed.
pub(in crate::guide) fn packed_word(packed: Packed) -> String {
    match packed {
        Packed::Int4 { group } => format!("int4(group: {group})"),
        Packed::Nf4 { group, double: false } => format!("nf4(group: {group})"),
        Packed::Nf4 { group, double: true } => format!("nf4(group: {group}, double: true)"),
        Packed::Mxfp4 | Packed::Fp8 | Packed::Int8 => packed.word(),
    }
}

/// How weights are stored, by the scenario's words for the precision and for what is not in it.
pub(super) fn stored_as(precision: &str, word: Option<&str>) -> (Format, Option<Packed>) {
    let parts = |word| ron::from_str(word).map(RawWeights::parts).expect("a scenario's word");
    let (format, packed) = parts(word.unwrap_or(precision));
    (format.or(parts(precision).0).expect("a precision is a format"), packed)
}

/// Bytes of the weights that one of so many devices has, as `tiersim memory` counts them.
pub(in crate::guide) fn weights(
    card: &Card,
    (format, packed): (Format, Option<Packed>),
    devices: u64,
) -> f64 {
    let packed = packed.map(|packed| (packed, card));
    account::weights(card.parameters(), format, packed, [devices, 1])
        .map_or(f64::INFINITY, |bytes| bytes as f64)
}

/// Bytes of a device that a request's keys and values take, in blocks of `page` tokens.
pub(super) fn cached(card: &Card, kv: Format, load: &Load<'_>, page: u64, devices: u64) -> u64 {
    let tokens = load.prompt + load.tokens;
    let one = Sequences { count: 1, tokens, page, ranks: 1 };
    let bytes = Kv::of(card, kv.bytes()).of_rank(one, devices, 1);
    bytes.ok().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX).max(1)
}

/// The share that so many GiB are of `all` bytes, to four decimals.
pub(in crate::guide) fn share_of(gib: f64, all: f64) -> f64 {
    let share = if all > 0.0 { gib * (1_u64 << 30) as f64 / all } else { 0.0 };
    (share.min(1.0) * 1e4).round() / 1e4
}
