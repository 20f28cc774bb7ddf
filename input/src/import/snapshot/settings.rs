//! `allocator_settings` of a snapshot: `PYTORCH_CUDA_ALLOC_CONF` as the allocator had read it.
//!
//! Rules as in `c10/core/AllocatorConfig.cpp` and `c10/cuda/CUDAAllocatorConfig.cpp`. Settings that
//! change where blocks go and that no model here knows are named in [`Settings::ignored`].

use crate::import::snapshot::tree::{Item, Problem, Tree};
use tiersim_models::results::snapshot::Settings;

/// Settings that change nothing about blocks and segments.
const HARMLESS: [&str; 14] = [
    "expandable_segments",
    "large_segment_size_mb",
    "max_split_size_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "max_non_split_rounding_mb",
    "per_process_memory_fraction",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "graph_capture_record_stream_reuse",
];

pub(super) fn read(tree: &Tree, found: Option<Item>) -> Result<Settings, Problem> {
    let mut settings = Settings::default();
    let Some(item) = found.filter(|&item| item != Item::None) else { return Ok(settings) };
    let bad = |key: &str, found: String| Problem {
        rule: format!("allocator_settings: {key:?}"),
        found,
        remedy: "give the value that PyTorch wrote",
    };
    if !tree.is_dict(item) {
        return Err(bad("is a dict", tree.describe(item)));
    }
    settings.expandable_segments = tree.get(item, "expandable_segments") == Some(Item::Bool(true));
    settings.max_split = match tree.get(item, "max_split_size") {
        // The largest size_t, for no limit, is written as -1.
        Some(Item::Int(bytes)) if bytes > 0 => Some(bytes as u64),
        _ => None,
    };
    match tree.get(item, "garbage_collection_threshold") {
        None => {}
        Some(Item::Float(share)) if (0.0..=1.0).contains(&share) => {
            settings.garbage_collection_threshold = share;
        }
        Some(Item::Int(share @ 0..=1)) => settings.garbage_collection_threshold = share as f64,
        Some(other) => {
            let rule = "garbage_collection_threshold is from 0 to 1";
            return Err(bad(rule, tree.describe(other)));
        }
    }
    if let Some(divisions) = tree.get(item, "roundup_power2_divisions") {
        for (place, count) in settings.divisions.iter_mut().enumerate() {
            let key = (1_u32 << place).to_string();
            match tree.get(divisions, &key) {
                None => {}
                Some(Item::Int(0)) => *count = 0,
                Some(Item::Int(value))
                    if value > 0 && value < 1 << 20 && (value as u64).is_power_of_two() =>
                {
                    *count = value as u32;
                }
                Some(other) => {
                    let rule = "roundup_power2_divisions are powers of two";
                    return Err(bad(rule, tree.describe(other)));
                }
            }
        }
    }
    let text = tree.get(item, "PYTORCH_CUDA_ALLOC_CONF").and_then(|text| tree.text(text));
    read_text(&mut settings, text.unwrap_or_default());
    Ok(settings)
}

/// What only the text of the environment variable says: `name:value`, commas between them.
fn read_text(settings: &mut Settings, text: &str) {
    let mut depth = 0_u32;
    let mut parts = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("there is always a part").push(letter);
    }
    for part in &parts {
        let (name, value) = part.split_once(':').unwrap_or((part.as_str(), ""));
        let (name, value) = (name.trim(), value.trim());
        if name == "max_non_split_rounding_mb" {
            settings.rounding_limit = value.parse().ok().and_then(mib);
        }
        if name == "large_segment_size_mb"
            && let Some(bytes) = value.parse().ok().and_then(mib)
        {
            settings.large_segment = Some(bytes);
        }
        let native = name == "backend" && value == "native";
        if !name.is_empty() && !native && !HARMLESS.contains(&name) {
            settings.ignored.push(part.trim().to_owned());
        }
    }
}

/// Bytes of so many MiB, up to a TiB.
fn mib(count: u64) -> Option<u64> {
    (1..=1 << 20).contains(&count).then_some(count << 20)
}
