//! A case as the file of `accelerate config` for FSDP.
//!
//! FSDP has no batch and no optimizer in its settings: the program says these. Parameters are
//! offloaded with gradients and optimizer state, or nothing is.
//! Invariant: every part of the scenario that the file does not say is told.

use super::case::{self, machine, measuring};
use super::parts::{Ask, Back, Parts, quoted};
use super::training::{offload, precision, program, role, training};
use crate::guide::fsdp as keys;
use crate::guide::write::PREFETCH_OPS;
use std::fmt::Write;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::HBM;
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use tiersim_workloads::transformer::training::{Checkpointing, Optimizer, Training, Zero};

const NAME: &str = "FSDP";

/// Keys of a section with their values.
type Keys = Vec<(&'static str, String)>;

/// The file of a case.
///
/// # Errors
/// The workload is no training.
pub fn fsdp(ask: &Ask<'_>) -> Result<Back, Diagnostics> {
    let mut parts = Parts::new(ask);
    let training = training(&mut parts, NAME)?;
    let model = program(&mut parts, training);
    let host = machine(&mut parts, true);
    let base = precision(&mut parts, &training.formats);
    let mut top: Keys = vec![(keys::TYPE, "FSDP".to_owned())];
    let say = |parts: &mut Parts<'_>, to: &mut Keys, at: &str, part: String, key, value: String| {
        parts.said(at, part, format!("{key}: {value}"));
        to.push((key, value));
    };
    let word = keys::PRECISIONS.iter().find(|(_, known)| *known == base).map_or("no", |(w, _)| *w);
    say(&mut parts, &mut top, "workload.precision", base.into(), keys::PRECISION, word.into());
    let data = training.parallel.data.to_string();
    let at = "workload.mode.parallel.data";
    say(&mut parts, &mut top, at, data.clone(), keys::PROCESSES, data);
    batches(&mut parts, training);
    let mut inner: Keys = vec![(keys::WRAP, "TRANSFORMER_BASED_WRAP".to_owned())];
    parts.implied("workload.model", "blocks", format!("{}: TRANSFORMER_BASED_WRAP", keys::WRAP));
    let homes = offload(&mut parts, &ask.case.policy, NAME);
    let offloads = homes.is_some_and(|homes| offloaded(&mut parts, training, homes));
    sharding(&mut parts, &mut inner, training, offloads);
    let at = parts.of_case("policy");
    let part = if offloads { "optimizer and parameters" } else { "HBM" };
    say(&mut parts, &mut inner, &at, part.into(), keys::OFFLOAD, offloads.to_string());
    let full = training.checkpointing == Checkpointing::Full;
    let at = "workload.mode.checkpointing";
    if full || training.checkpointing == Checkpointing::None {
        let part = if full { "full" } else { "none" };
        say(&mut parts, &mut inner, at, part.into(), keys::CHECKPOINTING, full.to_string());
    } else {
        let why = "blocks are wrapped all or none: which are computed again is the program's code";
        parts.unsaid(at, training.checkpointing.word(), why);
    }
    case::case(&mut parts, NAME, case::Told::default());
    measuring(&mut parts);
    let Training { batch, micro_batch, sequence, .. } = training;
    let mut from = format!("tiersim from accelerate FILE --model {}", quoted(&model));
    from.push_str(&format!(" --device {}", quoted(&ask.scenario.hardware.name)));
    let steps = batch.div_ceil((*micro_batch).max(1));
    let size = format!(" --sequence {sequence} --micro-batch {micro_batch} --accumulation {steps}");
    from.push_str(&size);
    if let Some(gib) = host {
        from.push_str(&format!(" --host-memory {gib}"));
    }
    Ok(parts.back(yaml(&top, &inner), Some(from)))
}

fn yaml(top: &Keys, inner: &Keys) -> String {
    let mut text = String::new();
    for (key, value) in top {
        let _ = writeln!(text, "{key}: {}", scalar(value));
    }
    let _ = writeln!(text, "{}:", keys::SECTION);
    for (key, value) in inner {
        let key = key.rsplit('.').next().unwrap_or(key);
        let _ = writeln!(text, "  {key}: {}", scalar(value));
    }
    text
}

/// A word that YAML would take for a truth value is quoted.
fn scalar(value: &str) -> String {
    if value == "no" { "'no'".to_owned() } else { value.to_owned() }
}

/// What the program is asked in the place of the file.
fn batches(parts: &mut Parts<'_>, of: &Training) {
    let Training { batch, micro_batch, optimizer, .. } = of;
    let steps = batch.div_ceil((*micro_batch).max(1));
    let told = format!("per_device_train_batch_size={micro_batch} of the program");
    parts.asked("workload.mode.micro_batch", micro_batch, told);
    let told = format!("gradient_accumulation_steps={steps} of the program");
    parts.asked("workload.mode.batch", batch, told);
    let (at, name) = ("workload.mode.optimizer", optimizer.word());
    match optimizer {
        Optimizer::AdamW => parts.asked(at, name, "torch.optim.AdamW of the program"),
        _ => parts.unsaid(at, name, "the program's own optimizer, which is read as AdamW"),
    }
}

fn sharding(parts: &mut Parts<'_>, to: &mut Keys, of: &Training, offloads: bool) {
    let Zero { stage, host_update: _, bucket, prefetch, reshard, overlap } = of.zero;
    let at = |field: &str| format!("workload.mode.zero.{field}");
    // Of weights that stay for the backward pass FSDP offloads shards, as stage 3 has them.
    let stays = stage == 3 && !reshard;
    let means = if stays { 2 } else { stage };
    let found = keys::STRATEGIES.iter().find(|(_, known)| *known == means);
    let (word, _) = found.unwrap_or(&keys::STRATEGIES[1]);
    to.push((keys::SHARDING, (*word).to_owned()));
    if stays {
        let why =
            "without offload SHARD_GRAD_OP is read as stage 2: weights whole between steps too";
        parts.unless(offloads, &at("reshard"), reshard, why);
    }
    match found {
        Some(_) if stage == 2 && offloads => {
            let why = "FSDP offloads shards: with SHARD_GRAD_OP weights are gathered forward, as \
                       stage 3 without `reshard` has it";
            parts.unsaid(&at("stage"), stage, why);
        }
        Some(_) => parts.said(&at("stage"), stage, format!("{}: {word}", keys::SHARDING)),
        None => {
            let why = format!("FSDP partitions gradients with optimizer state: {word} is written");
            parts.unsaid(&at("stage"), stage, why);
        }
    }
    let ahead = prefetch.min(1);
    let word = keys::BACKWARD_PREFETCHES.iter().find(|(_, blocks)| *blocks == ahead);
    let word = word.map_or("NO_PREFETCH", |(word, _)| word);
    let told = format!("{}: {word}, {}: {}", keys::BACKWARD, keys::FORWARD, ahead > 0);
    to.push((keys::BACKWARD, word.to_owned()));
    to.push((keys::FORWARD, (ahead > 0).to_string()));
    match prefetch {
        0 | 1 => parts.said(&at("prefetch"), prefetch, told),
        _ => parts.unsaid(&at("prefetch"), prefetch, "FSDP gathers one block ahead: 1 is written"),
    }
    let usual = Zero::default();
    let rows = [
        ("bucket", bucket == usual.bucket, bucket.to_string(), "FSDP reduces block by block"),
        ("overlap", overlap, overlap.to_string(), "communication has a stream of its own there"),
    ];
    for (field, plain, value, why) in rows {
        parts.unless(plain, &at(field), value, why);
    }
}

/// Whether all of a case's state is offloaded, as FSDP does it.
fn offloaded(parts: &mut Parts<'_>, training: &Training, homes: &ZeroOffloadConfig) -> bool {
    let ZeroOffloadConfig {
        optimizer,
        parameters,
        gradients,
        activations,
        optimizer_share,
        parameters_share,
        prefetch_ops,
        prefetch_budget,
        relay,
        // FSDP2 has it so without a key.
        keep_root: _,
        spill,
    } = homes;
    let far = role(parts, "far");
    let [state, weights] = [(optimizer, optimizer_share), (parameters, parameters_share)]
        .map(|(tier, share)| Some(*tier) == far && *share >= 1.0);
    let all = state && weights;
    let field = |parts: &Parts<'_>, name: &str| parts.of_case(&format!("policy.{name}"));
    let why = "parameters, gradients and optimizer state go to the host's memory together and whole, \
               or stay";
    for (name, tier, share) in [
        ("optimizer", *optimizer, *optimizer_share),
        ("parameters", *parameters, *parameters_share),
    ] {
        let at = field(parts, name);
        let to = parts.ask.scenario.hardware.tiers[tier.index()].name.clone();
        parts.unless(all || tier == HBM, &at, format!("{share} in {to}"), why);
    }
    let rows = [
        ("gradients", !all || Some(*gradients) == far, why),
        ("activations", *activations == HBM, "activations stay on the card"),
        (
            "prefetch_ops",
            !all || *prefetch_ops == PREFETCH_OPS,
            "FSDP gathers by blocks, not by ops",
        ),
        ("prefetch_budget", prefetch_budget.is_none(), "FSDP gathers by blocks, not by bytes"),
        ("relay", relay.is_none(), "parameters come straight from the host's memory"),
        ("spill", spill.is_empty(), "FSDP ends where a home is full"),
    ];
    for (name, plain, why) in rows {
        let at = field(parts, name);
        parts.unless(plain, &at, "another", why);
    }
    let update = training.zero.host_update;
    let expected = if all { 1000 } else { 0 };
    let why = "FSDP updates on the processors what it offloads, and nothing else";
    let shown = f64::from(update) / 1000.0;
    parts.unless(update == expected, "workload.mode.zero.host_update", shown, why);
    all
}
