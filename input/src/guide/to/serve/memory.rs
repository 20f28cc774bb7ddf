//! How much of the card a server uses, and what of the weights is not on it.
//!
//! Shares and gigabytes are written as briefly as they are read back as what they were.

use super::Line;
use crate::guide::serve::names;
use crate::guide::serve::values::{share_of, usable, weights};
use crate::guide::to::case;
use crate::guide::to::training::role;
use tiersim_models::hardware::HBM;
use tiersim_policies::scenario::Budget;
use tiersim_policies::zoo::percentages::{PercentagesConfig, Six};
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use tiersim_workloads::memory::inference::{Kv, Sequences};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::Format;

/// The briefest number about `near` that is read as meant.
fn brief(near: f64, is_meant: impl Fn(f64) -> bool) -> Option<f64> {
    let written = (0..18).map(|decimals| format!("{near:.decimals$}"));
    written.filter_map(|text| text.parse().ok()).find(|&number| is_meant(number))
}

/// The share of the card; the bytes of it that the case has, if that is known.
pub(super) fn budget(of: &mut Line<'_, '_>) -> Option<u64> {
    let at = of.parts.of_case("hbm");
    let limit = of.parts.ask.scenario.hardware.tiers[HBM.index()].capacity.limit();
    let hbm = of.parts.ask.case.hbm;
    let (_, words) = case::budget(hbm);
    let bytes = match (hbm, limit) {
        (Budget::Hardware, Some(all)) => {
            let why = "some of a card is always taken, and no server starts with all of it: write \
                       less, as `hbm: gib(20)`";
            of.parts.unsaid(&at, words, why);
            return Some(all.get());
        }
        (Budget::Bytes(bytes), Some(all)) if bytes <= all => bytes,
        (Budget::ShareOfPeak(_), _) => {
            let why = "the peak is known when it has run: write bytes, as `hbm: gib(20)`";
            of.parts.unsaid(&at, words, why);
            return None;
        }
        (Budget::Hardware | Budget::Bytes(_), _) => {
            of.parts.unsaid(&at, words, "a share of the card is at most all of it");
            return None;
        }
    };
    let all = limit.map_or(0, |all| all.get());
    let near = bytes.get() as f64 / all as f64;
    match brief(near, |share| share > 0.0 && share <= 1.0 && usable(all, share) == bytes.get()) {
        Some(share) => of.say(&at, words, names::UTILIZATION, share),
        None => of.parts.unsaid(&at, words, "no share of the card is these bytes"),
    }
    Some(bytes.get())
}

/// Whether weights, and keys and values of so many tokens, are no more than the bytes of the card
/// that the case has.
pub(super) fn holds(
    of: &Line<'_, '_>,
    hbm: Option<u64>,
    of_model: (&Card, Format),
    tokens: u64,
) -> bool {
    let (card, kv) = of_model;
    // A block of tokens has keys and values of every layer, also behind a window.
    let kv = Kv { windows: None, ..Kv::of(card, kv.bytes()) };
    let all = Sequences { count: 1, tokens, page: 1, ranks: 1 };
    let cached = kv.of_rank(all, of.devices, 1).map_or(f64::INFINITY, |bytes| bytes as f64);
    hbm.is_some_and(|hbm| weights(card, of.weights, of.devices) + cached <= hbm as f64)
}

/// What of the weights is in the host's memory.
pub(super) fn offload(of: &mut Line<'_, '_>, card: &Card) {
    let policy = &of.parts.ask.case.policy;
    let at = of.parts.of_case("policy");
    if let Some(homes) = policy.get::<ZeroOffloadConfig>() {
        return homes_of(of, card, &homes.clone());
    }
    if let Some(PercentagesConfig { six: Some(Six([[gpu, cpu], cache, act])), access, .. }) =
        policy.get::<PercentagesConfig>()
    {
        if *cpu > 0.0 {
            gigabytes(of, card, cpu / 100.0);
        }
        let why = format!("{} says how much, not how: read back, weights are copied", of.name());
        of.parts.unsaid(&at, format!("{access}"), why);
        let rest = gpu + cpu >= 100.0 && cache[0] >= 100.0 && act[0] >= 100.0;
        let why = "keys, values and activations are on the card, weights there or with the host";
        of.parts.unless(rest, &at, policy.details(), why);
        return;
    }
    if policy.name() != "all-hbm" {
        let words = format!("{}({})", policy.name(), policy.details());
        let why = format!("{} keeps what it runs on the card, but for --cpu-offload-gb", of.name());
        of.parts.unsaid(&at, words, why);
    }
}

fn homes_of(of: &mut Line<'_, '_>, card: &Card, homes: &ZeroOffloadConfig) {
    let ZeroOffloadConfig {
        optimizer: _,
        parameters,
        gradients: _,
        activations,
        optimizer_share: _,
        parameters_share,
        prefetch_ops,
        prefetch_budget,
        relay,
        keep_root: _,
        spill,
    } = homes;
    let field = |of: &Line<'_, '_>, field: &str| of.parts.of_case(&format!("policy.{field}"));
    let far = role(of.parts, "far");
    if *parameters != HBM && Some(*parameters) == far {
        gigabytes(of, card, *parameters_share);
    } else if *parameters != HBM {
        let at = field(of, "parameters");
        of.parts.unsaid(&at, "another tier", "weights go to the host's memory only");
    }
    let plain = *parameters == HBM || *prefetch_ops == 0;
    let rows = [
        ("activations", *activations == HBM, "activations are on the card"),
        ("prefetch_ops", plain, "weights come when they are used"),
        ("prefetch_budget", prefetch_budget.is_none(), "weights come when they are used"),
        ("relay", relay.is_none(), "weights come straight from the host's memory"),
        ("spill", spill.is_empty(), "weights go to the host's memory only"),
    ];
    for (name, plain, why) in rows {
        let at = field(of, name);
        of.parts.unless(plain, &at, "another", why);
    }
}

/// `--cpu-offload-gb` of a share of the weights.
fn gigabytes(of: &mut Line<'_, '_>, card: &Card, share: f64) {
    let at = of.parts.of_case("policy.parameters_share");
    let all = weights(card, of.weights, of.devices);
    let near = share * all / (1_u64 << 30) as f64;
    match brief(near, |gib| share_of(gib, all) == share) {
        Some(gib) => of.say(&at, share, names::OFFLOAD, gib),
        None => {
            of.set(names::OFFLOAD, format!("{near:.4}"));
            let why = format!("--cpu-offload-gb {near:.4} is this to four decimals");
            of.parts.unsaid(&at, share, why);
        }
    }
}
