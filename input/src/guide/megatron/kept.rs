//! What a block keeps for the backward pass, by Megatron's arguments.
//!
//! Invariant: a default that changes bytes has a row.

use super::super::reader::{Reader, not_said};
use super::super::settings::Settings;
use super::super::{Fate, Row};

/// Whether scores are tensors: unless a fused kernel attends.
pub(super) fn attention(of: &mut Reader<'_>, settings: &mut Settings, defaults: &mut Vec<Row>) {
    let told = ["attention: eager", "attention: flash"];
    let flash = of.flag("use-flash-attn", told).unwrap_or(false);
    let local = of
        .text("transformer-impl", |word| match word {
            "local" => Fate::Taken("attention: eager, unless --use-flash-attn".to_owned()),
            _ => Fate::Taken("attention: flash, unless a backend is named".to_owned()),
        })
        .map(|(word, _)| word == "local");
    // Transformer Engine lets products of 32-bit floats cut them, which Megatron's own layers do not.
    if settings.precision == "fp32" && local != Some(true) {
        settings.tf32 = true;
        let told = "time: roofline(precision: \"tf32\"), as Transformer Engine multiplies 32 bits";
        not_said(defaults, "bf16", told);
    }
    let key = "attention-backend";
    let eager = of
        .text(key, |word| match word {
            "unfused" | "local" => Fate::Taken(told[0].to_owned()),
            _ => Fate::Taken(told[1].to_owned()),
        })
        .map(|(word, place)| (matches!(word, "unfused" | "local"), word, place));
    if let Some((_, word, place)) = eager
        && !["auto", "flash", "fused", "unfused", "local"].contains(&word)
    {
        let rule = format!("`{key}` is auto, flash, fused, unfused or local");
        of.wrong(place, &rule, word, "write one of these");
    }
    settings.eager_attention = match (eager, flash, local) {
        (_, true, _) => false,
        (Some((eager, ..)), ..) => eager,
        (None, false, local) => local.unwrap_or(false),
    };
    if !flash && eager.is_none() && local.is_none() {
        let told = "attention: flash, today's default; of older programs --transformer-impl local";
        not_said(defaults, "attention-backend", told);
    }
}

/// Masks are kept unless both rates are 0; each is 0.1 by default.
pub(super) fn dropout(of: &mut Reader<'_>, defaults: &mut Vec<Row>) -> bool {
    let mut any = false;
    for key in ["hidden-dropout", "attention-dropout"] {
        let told = |value: &str| match value.parse::<f64>() {
            Ok(0.0) => Fate::Taken("dropout: false, if both rates are 0".to_owned()),
            _ => Fate::Taken("dropout: true".to_owned()),
        };
        match of.text(key, told) {
            Some((value, place)) => match value.parse::<f64>() {
                Ok(rate) if (0.0..1.0).contains(&rate) => any |= rate > 0.0,
                _ => {
                    let rule = format!("`{key}` is a rate from 0 to below 1");
                    of.wrong(place, &rule, value, "write 0 or 0.1");
                }
            },
            None => {
                not_said(defaults, key, "dropout: true, Megatron's default is 0.1");
                any = true;
            }
        }
    }
    any
}

/// What is kept of a block, as the scenario's word.
pub(super) fn checkpoints(of: &mut Reader<'_>) -> Option<String> {
    let old = of.flag("checkpoint-activations", ["", "checkpointing: full"]).unwrap_or(false);
    let short = of.flag("recompute-activations", ["", "checkpointing: selective"]).unwrap_or(false);
    let layers = of.number("recompute-num-layers", [1, 1 << 16], "").unwrap_or(1);
    let method = of.text("recompute-method", |word| Fate::Taken(word.to_owned()));
    let said = of.text("recompute-granularity", |word| Fate::Taken(word.to_owned()));
    let granularity = match said {
        Some((word @ "full", place)) => {
            if method.is_none() {
                let rule =
                    "`recompute-granularity full` has a `recompute-method`, or Megatron refuses it";
                of.wrong(place, rule, word, "add --recompute-method uniform, or block");
            }
            Some("full")
        }
        Some(("selective", _)) => Some("selective"),
        Some((word, place)) => {
            let rule = "`recompute-granularity` is full or selective";
            of.wrong(place, rule, word, "write one of these");
            None
        }
        // Before there was a granularity, a method alone was all of it.
        None if old || method.is_some() => Some("full"),
        None => short.then_some("selective"),
    };
    let word = match (granularity, method) {
        (Some("full"), Some(("block", _))) => Some(format!("layers({layers})")),
        (Some("full"), Some(("uniform", _)) | None) if layers == 1 => Some("full".to_owned()),
        (Some("full"), Some(("uniform", _)) | None) => Some(format!("every({layers})")),
        (Some("full"), Some((word, place))) => {
            let rule = "`recompute-method` is uniform or block";
            of.wrong(place, rule, word, "write one of these");
            None
        }
        (Some(_), _) => Some("selective".to_owned()),
        (None, _) => None,
    };
    let told = word
        .as_deref()
        .map_or("everything is kept".to_owned(), |word| format!("checkpointing: {word}"));
    for key in ["recompute-granularity", "recompute-method", "recompute-num-layers"] {
        of.text(key, |_| Fate::Taken(told.clone()));
    }
    if granularity == Some("selective") {
        for key in ["recompute-method", "recompute-num-layers"] {
            of.ignore(key, "of --recompute-granularity full");
        }
    }
    of.text("recompute-modules", |word| match word {
        "core_attn" => Fate::Taken(told.clone()),
        _ => Fate::Ignored("only the core of attention is computed again selectively".to_owned()),
    });
    word
}
