//! `mode: generate(...)` of a model: text generation as written, and what it means.

use crate::scenario::raw::work::RawWork;
use crate::scenario::resolver::Resolver;
use crate::scenario::training::Setting;
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::training::Router;

/// What the value at `path` means; every rule that it breaks is told otherwise.
pub(crate) fn generation(
    resolver: &mut Resolver<'_, '_>,
    path: &str,
    raw: &RawWork,
    setting: Setting<'_>,
) -> Option<Generation> {
    let RawWork::Generate {
        batch,
        batches,
        prompt,
        tokens,
        prefill,
        attention_on,
        kv_block,
        tensor,
        router,
    } = raw
    else {
        return None;
    };
    let router = match router {
        Some(raw) => raw.meaning(resolver, &format!("{path}.router"))?,
        None => Router::default(),
    };
    let generation = Generation {
        card: setting.card.clone(),
        formats: setting.formats,
        batch: *batch,
        batches: batches.unwrap_or(1),
        prompt: *prompt,
        tokens: *tokens,
        prefill: prefill.unwrap_or(true),
        attention: attention_on.unwrap_or(AttentionOn::Device),
        kv_block: *kv_block,
        tensor: tensor.unwrap_or(1),
        devices: setting.devices,
        router,
    };
    let broken = resolver.broken(&generation.problems(), |field| format!("{path}.{field}"));
    (!broken).then_some(generation)
}
