//! What a case offloads, in DeepSpeed's sections `offload_optimizer` and `offload_param`.
//!
//! Invariant: what DeepSpeed refuses (no stage, fp32, NVMe below stage 3) is not written.

use super::drives::drives;
use super::{Config, Home};
use crate::guide::deepspeed::keys;
use crate::guide::reader::PLACES;
use crate::guide::to::training::role;
use crate::guide::write::PREFETCH_OPS;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::TierId;
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;

/// Whether activations have a home outside HBM.
pub(super) fn activations(of: &ZeroOffloadConfig) -> bool {
    of.activations != HBM
}

fn place(of: &Config<'_, '_>, tier: TierId) -> Home {
    PLACES.iter().find_map(|(words, tiers)| {
        let name = (*tiers)?;
        (role(of.parts, name) == Some(tier)).then_some((words[0], name))
    })
}

/// The home of what is offloaded, if DeepSpeed has it.
fn home(of: &mut Config<'_, '_>, what: &str, tier: TierId) -> Home {
    if tier == HBM {
        return None;
    }
    let found = place(of, tier);
    if found.is_none() {
        let name = of.parts.ask.scenario.hardware.tiers[tier.index()].name.clone();
        let at = of.parts.of_case(&format!("policy.{what}"));
        of.parts.unsaid(&at, name, "DeepSpeed offloads to `cpu` and `nvme`: it stays in HBM");
    }
    found
}

/// The stage that is written: offloading needs one.
pub(super) fn stage(of: &mut Config<'_, '_>, homes: Option<&ZeroOffloadConfig>) -> u8 {
    let at = "workload.mode.zero.stage";
    let said = of.training.zero.stage;
    let kind = |tier: TierId| place(of, tier).map(|(word, _)| word);
    let least = homes.map_or(0, |homes| {
        let state = homes.optimizer_share > 0.0 && of.precision != "fp32";
        match (kind(homes.optimizer).filter(|_| state), kind(homes.parameters)) {
            (Some("nvme"), _) | (_, Some(_)) => 3,
            (Some(_), None) => 2,
            (None, None) => 0,
        }
    });
    // Stage 1 offloads optimizer state as well.
    let stage = if said == 1 && least == 2 { 1 } else { said.max(least) };
    if stage == said {
        of.say(at, said, keys::STAGE, said);
    } else {
        let why = format!(
            "DeepSpeed offloads this in stage {stage}, which is written; one device has nothing \
             to divide"
        );
        of.parts.unsaid(at, said, why);
        of.set(keys::STAGE, stage);
    }
    stage
}

/// Writes what is offloaded; whether the case's `runtime` was told on the way.
pub(super) fn offload(
    of: &mut Config<'_, '_>,
    homes: Option<&ZeroOffloadConfig>,
    stage: u8,
) -> bool {
    let none = ZeroOffloadConfig {
        optimizer: HBM,
        parameters: HBM,
        gradients: HBM,
        activations: HBM,
        optimizer_share: 1.0,
        parameters_share: 1.0,
        prefetch_ops: 4,
        prefetch_budget: None,
        relay: None,
        keep_root: false,
        spill: Vec::new(),
    };
    let homes = homes.unwrap_or(&none);
    let state = optimizer(of, homes, stage);
    let parameters = home(of, "parameters", homes.parameters);
    if let Some((word, _)) = parameters {
        let at = of.parts.of_case("policy.parameters");
        of.say(&at, word, &keys::within(keys::OFFLOADED[1], "device"), word);
        let why = "DeepSpeed offloads parameters whole: all of them";
        let at = of.parts.of_case("policy.parameters_share");
        of.parts.unless(homes.parameters_share >= 1.0, &at, homes.parameters_share, why);
    }
    for (section, found) in keys::OFFLOADED.into_iter().zip([state, parameters]) {
        if found.is_none() && stage > 0 {
            of.set(&keys::within(section, "device"), PLACES[2].0[0]);
        }
    }
    ahead(of, homes, parameters);
    drives(of, state, parameters);
    let gradients = match state {
        // What is not partitioned stays where it is made.
        Some(_) if stage == 1 => HBM,
        Some((_, "drive")) => role(of.parts, "far").unwrap_or(HBM),
        Some(_) => homes.optimizer,
        None => homes.gradients,
    };
    let rows = [
        ("gradients", homes.gradients == gradients, "gradients live where DeepSpeed updates"),
        ("spill", homes.spill.is_empty(), "DeepSpeed ends where a home is full"),
    ];
    for (field, plain, why) in rows {
        let at = of.parts.of_case(&format!("policy.{field}"));
        of.parts.unless(plain, &at, "another", why);
    }
    pinned(of, [state.is_some(), parameters.is_some()])
}

fn optimizer(of: &mut Config<'_, '_>, homes: &ZeroOffloadConfig, stage: u8) -> Home {
    let ZeroOffloadConfig { optimizer, optimizer_share: share, .. } = *homes;
    let update = of.training.zero.host_update;
    let (at, at_update) = (of.parts.of_case("policy.optimizer"), "workload.mode.zero.host_update");
    let shown = f64::from(update) / 1000.0;
    let found = if share > 0.0 { home(of, "optimizer", optimizer) } else { None };
    let Some((word, role)) = found else {
        let why = "DeepSpeed updates on the processors what it offloads, and nothing else";
        of.parts.unless(update == 0, at_update, shown, why);
        return None;
    };
    if of.precision == "fp32" {
        of.parts.unsaid(&at, word, keys::MASTER);
        return None;
    }
    of.say(&at, word, &keys::within(keys::OFFLOADED[0], "device"), word);
    let at_share = of.parts.of_case("policy.optimizer_share");
    if share < 1.0 && stage < 3 {
        of.parts.unsaid(&at_share, share, keys::RATIO_OF_STAGE_3);
    } else if share < 1.0 {
        of.say(&at_share, share, keys::RATIO, share);
    }
    // Kept in parts per thousand.
    if update == (share * 1000.0).round() as u16 {
        of.parts.said(at_update, shown, "what is offloaded is updated on the processors");
    } else {
        let why = format!("DeepSpeed updates what it offloads on the processors: {share}");
        of.parts.unsaid(at_update, shown, why);
    }
    Some((word, role))
}

/// How far ahead parameters come.
fn ahead(of: &mut Config<'_, '_>, homes: &ZeroOffloadConfig, parameters: Home) {
    let ZeroOffloadConfig { prefetch_ops, prefetch_budget, relay, keep_root, .. } = homes;
    let at = of.parts.of_case("policy.keep_root");
    let why = "DeepSpeed has no root module: what is in no block comes and goes like the rest";
    of.parts.unless(!keep_root, &at, keep_root, why);
    let [ops, budget, by] = ["prefetch_ops", "prefetch_budget", "relay"]
        .map(|field| of.parts.of_case(&format!("policy.{field}")));
    let usual = if parameters.is_some() { PREFETCH_OPS } else { 4 };
    let why = "DeepSpeed looks ahead by elements, not by ops: stage3_prefetch_bucket_size";
    // Nothing ahead is nothing by either count.
    let nothing = parameters.is_some() && *prefetch_ops == 0 && prefetch_budget.is_none();
    match nothing {
        true => of.say(&ops, prefetch_ops, keys::PREFETCH, 0),
        false => of.parts.unless(*prefetch_ops == usual, &ops, prefetch_ops, why),
    }
    let expected = match (parameters, prefetch_budget) {
        (Some((_, "drive")), Some(_)) => role(of.parts, "far"),
        _ => None,
    };
    let why = "parameters come by way of the host's memory from a drive, and only from there";
    let name = |tier: TierId| of.parts.ask.scenario.hardware.tiers[tier.index()].name.clone();
    let shown = relay.map_or("none".to_owned(), name);
    of.parts.unless(*relay == expected, &by, shown, why);
    match (parameters, prefetch_budget) {
        (None, None) => {}
        (None, Some(bytes)) => {
            let why = "no parameters are offloaded, and nothing is fetched ahead of them";
            of.parts.unsaid(&budget, bytes, why);
        }
        (Some(_), None) => stay(of, None),
        (Some(_), Some(bytes)) => {
            let elements = of.elements(&budget, bytes.get());
            of.say(&budget, bytes, keys::PREFETCH, elements);
            stay(of, Some(elements));
        }
    }
}

/// What every scenario means of parameters that come and go.
fn stay(of: &mut Config<'_, '_>, ahead: Option<u64>) {
    let at = of.parts.of_case("policy.parameters");
    let key = "zero_optimization.stage3_param_persistence_threshold";
    of.set(key, 0);
    of.parts.implied(&at, "of every size", format!("{key}: 0"));
    let Some(ahead) = ahead else { return };
    // What lies ahead, and the block that is at work.
    let card = &of.training.card;
    let live = ahead.saturating_add(card.parameters() / u64::from(card.layers).max(1));
    for key in ["stage3_max_live_parameters", "stage3_max_reuse_distance"] {
        let key = format!("zero_optimization.{key}");
        of.set(&key, live);
        of.parts.implied(&at, "ahead and in use", format!("{key}: {live}"));
    }
}

/// Whether the case's `runtime` is told: it says which memory copies name.
fn pinned(of: &mut Config<'_, '_>, offloaded: [bool; 2]) -> bool {
    if !offloaded.contains(&true) {
        return false;
    }
    let mut rest = of.parts.ask.case.runtime.clone();
    let (pageable, at) = (rest.pageable, of.parts.of_case("runtime"));
    for (section, _) in keys::OFFLOADED.into_iter().zip(offloaded).filter(|(_, is)| *is) {
        let copies = if pageable { "pageable" } else { "pinned" };
        of.say(&at, copies, &keys::within(section, "pin_memory"), !pageable);
    }
    rest.pageable = false;
    let why = "what DeepSpeed's own code takes comes with it, and is no setting";
    of.parts.unless(rest.is_none(), &at, &rest, why);
    true
}
