//! `mode: generate(...)` of a model: text generation as written, and what it means.

use crate::scenario::resolve::Resolver;
use crate::scenario::training::Setting;
use serde::Deserialize;
use tiersim_models::layered::ShapeProblem;
use tiersim_models::transformer::generation::{AttentionOn, Generation};

/// As written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Generate", deny_unknown_fields)]
pub(crate) struct RawGenerate {
    batch: u32,
    batches: Option<u32>,
    prompt: u64,
    tokens: u32,
    prefill: Option<bool>,
    attention_on: Option<RawAttentionOn>,
    kv_block: Option<u64>,
    tensor: Option<u32>,
    router: Option<RawRouter>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "AttentionOn", rename_all = "snake_case")]
enum RawAttentionOn {
    Device,
    Host,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Router", deny_unknown_fields)]
struct RawRouter {
    seed: Option<u64>,
    skew: Option<f64>,
}

/// The largest exponent of the router's law.
const MAX_SKEW: f64 = 4.0;

/// What the value at `path` means; every rule that it breaks is told otherwise.
pub(crate) fn generation(
    resolver: &mut Resolver<'_, '_>,
    path: &str,
    raw: &RawGenerate,
    setting: Setting<'_>,
) -> Option<Generation> {
    let router = raw.router.unwrap_or(RawRouter { seed: None, skew: None });
    let (at, skew) = (format!("{path}.router.skew"), router.skew.unwrap_or(0.0));
    let skew = resolver.check.number(&at, "`skew`", skew, 0.0, MAX_SKEW)?;
    let generation = Generation {
        card: setting.card.clone(),
        formats: setting.formats,
        batch: raw.batch,
        batches: raw.batches.unwrap_or(1),
        prompt: raw.prompt,
        tokens: raw.tokens,
        prefill: raw.prefill.unwrap_or(true),
        attention: match raw.attention_on {
            None | Some(RawAttentionOn::Device) => AttentionOn::Device,
            Some(RawAttentionOn::Host) => AttentionOn::Host,
        },
        kv_block: raw.kv_block,
        tensor: raw.tensor.unwrap_or(1),
        devices: setting.devices,
        seed: router.seed.unwrap_or(1),
        // In hundredths.
        skew: (skew * 100.0).round() as u32,
    };
    let problems = generation.problems();
    for ShapeProblem { field, rule, remedy } in &problems {
        resolver.check.fault(&format!("{path}.{field}"), rule.as_str(), *remedy);
    }
    problems.is_empty().then_some(generation)
}
