//! Settings as a scenario.
//!
//! Invariant: its one case is as the settings say; a run's baseline has everything in HBM.

use super::settings::{Block, Generate, Settings};
use super::{Guide, Row};
use std::fmt::Write;

/// How many ops ahead parameters are fetched in training: frameworks count bytes instead.
pub(super) const PREFETCH_OPS: u32 = 16;

/// The scenario of settings, and what became of each.
pub(super) fn guide(from: &str, of: &Settings, told: [&str; 2], mut rows: Vec<Row>) -> Guide {
    let (hardware, peak) = (of.hardware.clone(), peak(of));
    rows.extend(of.told.iter().cloned());
    let stored = of.generate.as_ref().is_some_and(|text| text.weights.as_deref() == Some("fp8"));
    let in_fp8 = stored || of.fp8_products;
    let by_pytorch = of.generate.is_none() && of.ranks.is_none() && !of.eager_attention;
    Guide { scenario: scenario(from, of, told), hardware, peak, in_fp8, by_pytorch, rows }
}

/// The text of a scenario; `from` is the file's name, `case` what the case of the settings is
/// called, and `by` the command that makes it.
fn scenario(from: &str, of: &Settings, [case, by]: [&str; 2]) -> String {
    let from: String = from.chars().filter(|c| !c.is_control()).take(100).collect();
    let mut out = String::new();
    let _ = writeln!(out, "// From {from}, by `{by}`, which says what became of each key.");
    let _ = writeln!(out, "Scenario(\n    schema: 2,");
    let about = format!("{} on {}: what do the settings of {from} come to?", of.model, of.hardware);
    let _ = writeln!(out, "    about: {about:?},\n    hardware: {:?},", of.hardware);
    let host = of.host_gib.map(|gib| format!("gib({gib})"));
    if let Some(size) = host.or(of.host_bytes.map(|bytes| format!("b({bytes})"))) {
        let _ = writeln!(out, "    capacity: {{\"dram\": {size}}},");
    }
    match &of.generate {
        Some(text) => generation(&mut out, of, text),
        None => workload(&mut out, of),
    }
    out.push_str("    policies: [\n");
    let offload = offload(of);
    let policy = offload.map_or("AllHbm".to_owned(), |words| format!("ZeroOffload({words})"));
    let policy =
        of.generate.as_ref().and_then(|text| text.block).map_or(policy, |block| percent(&block));
    let policy = of.policy.clone().unwrap_or(policy);
    case_of(&mut out, of, [case, &policy, &from]);
    let _ = writeln!(out, "    ],\n    expect: [\n        fits({case:?}),\n    ],\n)");
    out
}

/// The case: in one line, unless something of it needs more.
fn case_of(out: &mut String, of: &Settings, [case, policy, from]: [&str; 3]) {
    let pressure = pressure(of).map(|words| format!("pressure: (\n{words}            )"));
    let runtime = runtime(of, from);
    let is_long = policy.contains('\n') || runtime.is_some() || pressure.is_some();
    let hbm =
        of.generate.as_ref().and_then(|text| text.hbm).map(|bytes| format!("hbm: b({bytes})"));
    let first = [format!("name: {case:?}"), format!("policy: {policy}")];
    let fields = first.into_iter().chain(hbm).chain(runtime).chain(pressure);
    if is_long {
        let lines: String = fields.map(|field| format!("            {field},\n")).collect();
        let _ = writeln!(out, "        (\n{lines}        ),");
    } else {
        let _ = writeln!(out, "        ({}),", fields.collect::<Vec<_>>().join(", "));
    }
}

/// What the framework adds to copies.
fn runtime(of: &Settings, from: &str) -> Option<String> {
    let pageable = of.pageable.then_some("copies: pageable");
    let waits = of.hooks.map(|_| "blocking: true, ahead: true");
    let words: Vec<&str> = waits.into_iter().chain(pageable).collect();
    let source = of.hooks.unwrap_or(from);
    let words = (!words.is_empty()).then(|| words.join(", "))?;
    Some(format!("runtime: ({words}, source: {source:?})"))
}

fn generation(out: &mut String, of: &Settings, text: &Generate) {
    let _ = writeln!(out, "    workload: Model(\n        model: {:?},", of.model);
    let _ = writeln!(out, "        precision: {},", of.precision);
    let of_kind = |kind: &str, word: Option<&str>| word.map(|word| format!("{kind}: {word}"));
    let formats = [of_kind("weights", text.weights.as_deref()), of_kind("kv", text.kv)];
    let formats: Vec<String> = formats.into_iter().flatten().collect();
    if !formats.is_empty() {
        let _ = writeln!(out, "        formats: ({}),", formats.join(", "));
    }
    let Generate { batch, prompt, tokens, .. } = text;
    let _ = writeln!(out, "        mode: generate(\n            batch: {batch},");
    let _ = writeln!(out, "            prompt: {prompt},\n            tokens: {tokens},");
    match text.block {
        Some(block) => {
            let _ = writeln!(out, "            batches: {},", block.batches);
            if block.host_attention {
                out.push_str("            attention_on: host,\n");
            }
        }
        // The prompt's pass is another thing than the pace of tokens that is asked for.
        None => out.push_str("            prefill: false,\n            kernels: fused,\n"),
    }
    if of.devices > 1 {
        let _ = writeln!(out, "            tensor: {},", of.devices);
    }
    let peak = peak(of);
    let _ = writeln!(out, "        ),\n        time: roofline(precision: {peak:?}),");
    // A prompt and its answer are one run; the pace of tokens is that of steps which repeat.
    let [repeat, warmup] = if text.block.is_some() { [1, 0] } else { [2, 1] };
    let _ = writeln!(out, "        repeat: {repeat},\n        warmup: {warmup},\n    ),");
}

/// FlexGen's percentages.
fn percent(of: &Block) -> String {
    let names = ["weights_gpu", "weights_cpu", "cache_gpu", "cache_cpu", "act_gpu", "act_cpu"];
    let six: Vec<String> =
        names.iter().zip(of.percent).map(|(name, share)| format!("{name}: {share}")).collect();
    let pairs: Vec<String> = six.chunks(2).map(|pair| pair.join(", ")).collect();
    let on_drive = of.percent.chunks(2).any(|pair| pair[0] + pair[1] < 100);
    // A machine without a drive can run what puts nothing there.
    let last = if on_drive { "drive" } else { "far" };
    let deep = " ".repeat(16);
    format!(
        "Percentages(\n{deep}{},\n{deep}sep_layer: {},\n{deep}tiers: [\"near\", \"far\", {last:?}],\n\
         {deep}access: migrate(prefetch_ops: {}),\n            )",
        pairs.join(&format!(",\n{deep}")),
        of.sep_layer,
        of.ahead
    )
}

fn workload(out: &mut String, of: &Settings) {
    let ranks = of.ranks.as_ref();
    let _ = match ranks.and_then(|ranks| ranks.card.as_ref()) {
        Some(card) => {
            writeln!(out, "    workload: Model(\n        card: (\n            {card},\n        ),")
        }
        None => writeln!(out, "    workload: Model(\n        model: {:?},", of.model),
    };
    let _ = writeln!(out, "        precision: {},", of.precision);
    if let Some(format) = of.gradients {
        let _ = writeln!(out, "        formats: (gradients: {format}),");
    }
    out.push_str("        mode: train(\n");
    let batch = of.micro_batch * of.accumulation;
    let _ =
        writeln!(out, "            batch: {batch},\n            micro_batch: {},", of.micro_batch);
    match of.least {
        // A micro-batch changes between steps that a trace tells apart.
        Some(_) => {
            let _ = writeln!(out, "            sequences: [{0}, {0}, {0}],", of.sequence);
        }
        None => {
            let _ = writeln!(out, "            sequence: {},", of.sequence);
        }
    }
    let full = of.checkpointing.then_some("full");
    if let Some(kept) = ranks.and_then(|ranks| ranks.checkpointing.as_deref()).or(full) {
        let _ = writeln!(out, "            checkpointing: {kept},");
    }
    if of.eager_attention {
        out.push_str("            attention: eager,\n");
    }
    if ranks.is_some_and(|ranks| ranks.dropout) {
        out.push_str("            dropout: true,\n");
    }
    let replicas = (of.devices > 1).then(|| format!("data: {}", of.devices));
    let parallel = ranks.map(|ranks| ranks.parallel.join(", ")).or(replicas).unwrap_or_default();
    if !parallel.is_empty() {
        let _ = writeln!(out, "            parallel: ({parallel}),");
    }
    if let Some(update) = of.update {
        let _ = writeln!(out, "            optimizer: {update},");
    }
    if ranks.is_some_and(|ranks| ranks.passes) {
        out.push_str("            optimizer_kernels: mixed_precision,\n");
    }
    let mut zero = Vec::new();
    if of.optimizer.is_some() {
        zero.push(format!("host_update: {:?}", of.optimizer_share.unwrap_or(1.0)));
    }
    zero.extend(of.bucket.map(|bytes| format!("bucket: b({bytes})")));
    zero.extend(of.ahead.map(|blocks| format!("prefetch: {blocks}")));
    if of.keeps_gathered {
        zero.push("reshard: false".to_owned());
    }
    if of.one_stream {
        zero.push("overlap: false".to_owned());
    }
    if of.zero_stage > 0 || !zero.is_empty() {
        zero.insert(0, format!("stage: {}", of.zero_stage));
        let _ = writeln!(out, "            zero: ({}),", zero.join(", "));
    }
    if let Some((workers, prefetch)) = of.loader {
        let _ = writeln!(out, "            loader: (workers: {workers}, prefetch: {prefetch}),");
    }
    let peak = peak(of);
    let _ = writeln!(out, "        ),\n        time: roofline(precision: {peak:?}),");
    // Where the micro-batch changes, the steps are those of the list, once.
    let repeat = if of.least.is_some() { 1 } else { 2 };
    let _ = writeln!(out, "        repeat: {repeat},\n        warmup: 0,\n    ),");
}

/// What products run in: 32-bit floats are multiplied whole unless somebody lets them be cut, as
/// PyTorch has it.
fn peak(of: &Settings) -> &'static str {
    if of.precision == "fp32" && of.tf32 { "tf32" } else { of.precision }
}

fn offload(of: &Settings) -> Option<String> {
    let mut words = Vec::new();
    if let Some(tier) = of.optimizer {
        words.push(format!("optimizer: {tier:?}"));
        // Gradients that are not partitioned stay whole where they are made, and the host's update
        // is handed the rank's own part alone (DeepSpeed, stage_1_and_2.py: "partition only
        // optimizer state"); Megatron's buffers of gradients stay so as well.
        if of.zero_stage == 1 || of.zero_stage == 0 && of.ranks.is_some() {
            words.push("gradients: \"near\"".to_owned());
        } else if tier == "drive" {
            words.push("gradients: \"far\"".to_owned());
        }
        words.extend(of.optimizer_share.map(|share| format!("optimizer_share: {share:?}")));
    }
    if let (Some(tier), Some(text)) = (of.parameters, &of.generate) {
        words.push(format!("parameters: {tier:?}, parameters_share: {:?}", text.share));
        words.push("prefetch_ops: 0".to_owned());
    } else if let (Some(tier), Some(0)) = (of.parameters, of.prefetch) {
        words.push(format!("parameters: {tier:?}, prefetch_ops: 0"));
    } else if let Some(tier) = of.parameters {
        words.push(format!("parameters: {tier:?}, prefetch_ops: {PREFETCH_OPS}"));
        if tier == "drive" && of.prefetch.is_some() {
            words.push("relay: \"far\"".to_owned());
        }
        words.extend(of.prefetch.map(|bytes| format!("prefetch_budget: b({bytes})")));
    }
    words.extend(of.activations.map(|tier| format!("activations: {tier:?}")));
    (!words.is_empty()).then(|| words.join(", "))
}

/// A line for each field.
fn pressure(of: &Settings) -> Option<String> {
    let mut words = Vec::new();
    let (tier, share) = match (of.threshold, of.least) {
        (None, None) => return None,
        (None, Some(_)) => ("near", None),
        (Some((tier, share)), _) => (tier, Some(share)),
    };
    words.push(format!("tier: {tier:?}"));
    if let Some(share) = share {
        // What happens at the guide's threshold is `critical`; the other levels lie around it.
        let round = |share: f64| (share * 1e4).round() / 1e4;
        let [target, warning] = [0.1, 0.05].map(|below| round(share - below));
        let (critical, emergency) = (round(share), round((1.0 + share) / 2.0));
        words.push(format!(
            "thresholds: (target: {target}, warning: {warning}, critical: {critical}, \
             emergency: {emergency})"
        ));
    }
    if let Some(least) = of.least {
        words.push(format!("micro_batch: (min: {least})"));
    }
    Some(words.iter().map(|word| format!("                {word},\n")).collect())
}
