//! Values as they are typed: counts with suffixes, shares, sizes, names.
//!
//! Invariant: decimals are read digit by digit and never through a float, so 7.5e9 is
//! exactly 7500000000.

use tiersim_input::text::quantity::{Dimension, Size};
use tiersim_models::results::memory_account::Place;
use tiersim_workloads::memory::optimizer::NAMES;
use tiersim_workloads::memory::semiseparable::Shape;
use tiersim_workloads::memory::zero::MILLION;
use tiersim_workloads::transformer::adapters::{Target, Targets};
use tiersim_workloads::transformer::card::Family;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::packed::{self, Packed};
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, OptimizerKernels, UpdateTime,
};

/// Most of anything that is counted.
const MOST: u128 = 1 << 60;

/// Millionths of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Millionths(pub(crate) u64);

/// A decimal number times `scale`, if that is whole and below 2^60.
fn decimal(text: &str, scale: u128) -> Option<u64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<u32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    let plain = !whole.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !plain || digits.len() > 30 || exponent > 30 {
        return None;
    }
    let up = 10u128.checked_pow(exponent)?.checked_mul(scale)?;
    let down = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let all = digits.parse::<u128>().ok()?.checked_mul(up)?;
    let number = all.is_multiple_of(down).then_some(all / down)?;
    u64::try_from(number).ok().filter(|&number| u128::from(number) <= MOST)
}

/// A whole number above zero: 7500000000, 7.5e9 or 7.5B.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let scales = [("K", 1_000), ("M", 1_000_000), ("B", 1_000_000_000), ("T", 1_000_000_000_000)];
    let suffixed =
        scales.iter().find_map(|&(suffix, scale)| Some((text.strip_suffix(suffix)?, scale)));
    let (digits, scale) = suffixed.unwrap_or((text, 1));
    decimal(digits, scale).filter(|&number| number > 0).ok_or_else(|| {
        "write a whole number from 1 to 2^60, such as 7500000000, 7.5e9 or 7.5B (K, M, B, T)"
            .to_owned()
    })
}

/// A number with at most six places.
pub(crate) fn millionths(text: &str) -> Result<Millionths, String> {
    let number = decimal(text, MILLION.into()).filter(|&number| number <= 1_000_000_000_000);
    number.map(Millionths).ok_or_else(|| {
        "write a number from 0 to 1000000 with at most six places, such as 0.5".to_owned()
    })
}

/// Bytes with a unit of those that files have, as there or behind the number: gib(24), 24GiB.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let units = || Size::UNIT.words.iter().zip(Size::UNIT.factors);
    let found = units().find_map(|(word, &factor)| {
        let as_in_files = text.strip_prefix(word).and_then(|rest| rest.strip_prefix('('));
        let digits = match as_in_files {
            Some(rest) => rest.strip_suffix(')')?,
            None => text.strip_suffix(&symbol(word))?,
        };
        decimal(digits, factor as u128)
    });
    found.ok_or_else(|| {
        let symbols: Vec<String> = units().map(|(word, _)| symbol(word)).collect();
        format!(
            "write a number of whole bytes, at most 2^60, with one of {}, such as 24GiB or gib(24)",
            symbols.join(", ")
        )
    })
}

/// Room for something: at least a byte.
pub(crate) fn capacity(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("write at least 1B, such as 80GiB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A unit of files as people write it behind a number: GiB for gib, kB for kb.
fn symbol(word: &str) -> String {
    let prefix = word.trim_end_matches('b');
    let large = if prefix == "k" { prefix.to_owned() } else { prefix.to_uppercase() };
    format!("{}B", large.replace('I', "i"))
}

/// A part of one.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share from 0 to 1, such as 0.01".to_owned())
}

/// One of `all` by its word.
fn choice<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(word, _)| *word == text);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        format!("choose from {}", words.join(", "))
    })
}

pub(crate) fn optimizer(text: &str) -> Result<Optimizer, String> {
    choice(text, &NAMES)
}

pub(crate) fn format(text: &str) -> Result<Format, String> {
    choice(text, &Format::ALL.map(|format| (format.word(), format)))
}

pub(crate) fn place(text: &str) -> Result<Place, String> {
    choice(text, &Place::ALL.map(|place| (place.word(), place)))
}

/// Which kernels a step runs.
pub(crate) fn kernels(text: &str) -> Result<Kernels, String> {
    choice(text, &Kernels::ALL.map(|kernels| (kernels.word(), kernels)))
}

/// Which of them update weights.
pub(crate) fn optimizer_kernels(text: &str) -> Result<OptimizerKernels, String> {
    choice(text, &OptimizerKernels::ALL.map(|kernels| (kernels.word(), kernels)))
}

pub(crate) fn attention(text: &str) -> Result<Attention, String> {
    choice(text, &[("eager", Attention::Eager), ("flash", Attention::Flash)])
}

pub(crate) fn loss(text: &str) -> Result<Loss, String> {
    choice(text, &[("eager", Loss::Eager), ("fused", Loss::Fused)])
}

pub(crate) fn update(text: &str) -> Result<UpdateTime, String> {
    choice(text, &[("after", UpdateTime::After), ("in-backward", UpdateTime::InBackward)])
}

/// `nf4`, `nf4-double` or `int4`, with the weights of a group behind, or `mxfp4`, `fp8` or `int8`.
pub(crate) fn packed(text: &str) -> Result<Packed, String> {
    let (word, group) = text.split_once(':').map_or((text, None), |(word, g)| (word, Some(g)));
    let group = group.map(|group| {
        let remedy = "write a whole number of weights behind the colon, such as nf4:64";
        group.parse().map_err(|_| remedy.to_owned())
    });
    let group = group.transpose()?;
    let nf4 = |double| Packed::Nf4 { group: group.unwrap_or(packed::block()), double };
    let int4 = Packed::Int4 { group: group.unwrap_or(packed::group()) };
    let words = [
        ("nf4", nf4(false)),
        ("nf4-double", nf4(true)),
        ("int4", int4),
        ("mxfp4", Packed::Mxfp4),
        ("fp8", Packed::Fp8),
        ("int8", Packed::Int8),
    ];
    let packed = choice(word, &words)?;
    match (packed, group) {
        (Packed::Mxfp4, Some(_)) => return Err("mxfp4 has groups of 32; write mxfp4".to_owned()),
        (Packed::Fp8 | Packed::Int8, Some(_)) => {
            return Err(format!("{word} has no groups; write {word}"));
        }
        _ => {}
    }
    packed.problem().map_or(Ok(packed), |wrong| Err(format!("{}; {}", wrong.rule, wrong.remedy)))
}

/// Matrices of a block, such as q,v.
pub(crate) fn targets(text: &str) -> Result<Targets, String> {
    let all = Target::ALL.map(|target| (target.word(), target));
    let found: Result<Vec<Target>, String> =
        text.split(',').map(|word| choice(word, &all)).collect();
    found.map(Targets::from)
}

pub(crate) fn family(text: &str) -> Result<Family, String> {
    choice(text, &Family::ALL.map(|family| (family.word(), family)))
}

/// A number of levels, or `nested`.
pub(crate) fn levels(text: &str) -> Result<Shape, String> {
    if text == "nested" {
        return Ok(Shape::Nested);
    }
    let most = text.parse().ok().filter(|&most: &u32| (1..=64).contains(&most));
    most.map(Shape::Sum).ok_or_else(|| "write a number from 1 to 64, or nested".to_owned())
}

/// `none`, `selective`, `full`, `every:K` or `layers:N`.
pub(crate) fn checkpointing(text: &str) -> Result<Checkpointing, String> {
    let counted = |word: &str| {
        let blocks = text.strip_prefix(word)?.parse().ok().filter(|&blocks: &u32| blocks > 0);
        let remedy = "write a whole number of blocks from 1 behind";
        Some(blocks.ok_or_else(|| format!("{remedy} {word}, such as {word}4")))
    };
    if let Some(blocks) = counted("every:") {
        return blocks.map(Checkpointing::Every);
    }
    if let Some(blocks) = counted("layers:") {
        return blocks.map(Checkpointing::Layers);
    }
    let all = [
        ("none", Checkpointing::None),
        ("selective", Checkpointing::Selective),
        ("full", Checkpointing::Full),
    ];
    choice(text, &all).map_err(|error| error + ", every:K, layers:N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact() {
        for (text, number) in [
            ("7500000000", 7_500_000_000),
            ("7.5e9", 7_500_000_000),
            ("7.5B", 7_500_000_000),
            ("1T", 1_000_000_000_000),
            ("100M", 100_000_000),
            ("0.000001e6", 1),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in
            ["0", "-1", "1.5", "7.5e0", "1e99", "B", "", "1e", ".5B", "nan", "inf", "1_000", "2e18"]
        {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_sizes_are_exact() {
        assert_eq!(millionths("0.3"), Ok(Millionths(300_000)));
        assert_eq!(millionths("12"), Ok(Millionths(12_000_000)));
        assert!(millionths("0.0000001").is_err());
        for (text, bytes) in [
            ("24GiB", 24 << 30),
            ("gib(24)", 24 << 30),
            ("80GB", 80_000_000_000),
            ("gb(1.5)", 1_500_000_000),
            ("1TiB", 1 << 40),
            ("64kB", 64_000),
            ("0.5KiB", 512),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["24", "gib 24", "gib(24", "-1GB", "0.5B", "1PB", "8Gb", "GiB(8)"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
