//! `mode: generate(...)` of a model: text generation as written, and what it means.

use crate::scenario::raw::work::RawGenerate;
use crate::scenario::resolver::Resolver;
use crate::scenario::training::Setting;
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::training::Router;

/// What the value at `path` means; every rule that it breaks is told otherwise.
pub(crate) fn generation(
    resolver: &mut Resolver<'_, '_>,
    path: &str,
    raw: &RawGenerate,
    setting: Setting<'_>,
) -> Option<Generation> {
    let router = match raw.router {
        Some(raw) => raw.meaning(resolver, &format!("{path}.router"))?,
        None => Router::default(),
    };
    let generation = Generation {
        card: setting.card.clone(),
        formats: setting.formats,
        batch: raw.batch,
        batches: raw.batches.unwrap_or(1),
        prompt: raw.prompt,
        tokens: raw.tokens,
        prefill: raw.prefill.unwrap_or(true),
        attention: raw.attention_on.unwrap_or(AttentionOn::Device),
        kv_block: raw.kv_block,
        tensor: raw.tensor.unwrap_or(1),
        devices: setting.devices,
        router,
    };
    let broken = resolver.broken(&generation.problems(), |field| format!("{path}.{field}"));
    (!broken).then_some(generation)
}
