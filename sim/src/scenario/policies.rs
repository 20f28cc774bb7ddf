//! From what a scenario says about a policy to its [`PolicyConfig`].
//!
//! One function per policy; a new policy adds a variant in `raw.rs`, a line in [`resolve`] and its
//! function here.

use crate::scenario::raw::{RawAccess, RawCharge, RawCount, RawCut, RawObjectKind, RawPolicy};
use crate::scenario::resolve::Resolver;
use crate::text::check::MAX_PROBLEMS;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::access::{Access, Charge};
use tiersim_policies::adam_state::{AdamStateConfig, Count, Cut};
use tiersim_policies::config::{HintsConfig, PolicyConfig};
use tiersim_policies::lru::LruConfig;

/// Room for rounding where shares are added up.
const ROUNDING: f64 = 1e-9;

/// The policy that stands at `at`, for `hardware`.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: &RawPolicy,
    hardware: &Hardware,
) -> Option<PolicyConfig> {
    match raw {
        RawPolicy::AllHbm => Some(PolicyConfig::AllHbm),
        RawPolicy::AdamState { cut, by, tiers, kinds, access } => {
            let cut = resolve_cut(resolver, &format!("{at}.cut"), cut);
            let by = match by {
                None | Some(RawCount::Modules) => Count::Modules,
                Some(RawCount::Bytes) => Count::Bytes,
            };
            let tiers = match tiers {
                Some(names) => three_tiers(resolver, &format!("{at}.tiers"), names, hardware),
                None => default_tiers(resolver, at, hardware),
            };
            let kinds = resolve_kinds(resolver, at, kinds.as_deref());
            let access = resolve_access(*access);
            Some(PolicyConfig::AdamState(AdamStateConfig {
                cut: cut?,
                by,
                tiers: tiers?,
                kinds: kinds?,
                access,
            }))
        }
        RawPolicy::Hints { file, kinds, access } => {
            let found = resolver.files.hints(file);
            let hints = resolver.good(&format!("{at}.file"), found);
            let kinds = resolve_kinds(resolver, at, kinds.as_deref());
            let hints = hints?;
            let has = |kind| hardware.tiers.iter().any(|tier| tier.kind == kind);
            if !hints.hints.values().all(|kind| has(*kind)) {
                if resolver.check.problems.0.len() < MAX_PROBLEMS {
                    resolver.check.problems.0.extend(hints.missing(has).0);
                }
                return None;
            }
            let (hints, access) = (hints.hints.clone(), resolve_access(*access));
            Some(PolicyConfig::Hints(HintsConfig { hints, kinds: kinds?, access }))
        }
        RawPolicy::Lru { spill } => {
            let spill = match spill {
                Some(names) => spill_tiers(resolver, &format!("{at}.spill"), names, hardware),
                None => default_spill(resolver, at, hardware),
            };
            Some(PolicyConfig::Lru(LruConfig { spill: spill? }))
        }
    }
}

fn resolve_cut(resolver: &mut Resolver<'_, '_>, at: &str, raw: &RawCut) -> Option<Cut> {
    let (RawCut::Shares { hbm, cpu } | RawCut::Cumulative { hbm, cpu }) = raw;
    let [hbm, cpu] = [("hbm", *hbm), ("cpu", *cpu)].map(|(name, share)| {
        resolver.check.number(&format!("{at}.{name}"), "a share", share, 0.0, 1.0)
    });
    let (hbm, cpu) = (hbm?, cpu?);
    match raw {
        RawCut::Shares { .. } if hbm + cpu > 1.0 + ROUNDING => {
            let rule = "the shares of `hbm` and `cpu` add up to more than 1";
            let remedy = "lower one of them, or write cumulative(...) if both count from the top";
            resolver.check.fault(at, rule, remedy);
            None
        }
        RawCut::Shares { .. } => Some(Cut::Shares { hbm, cpu }),
        RawCut::Cumulative { .. } => Some(Cut::Cumulative { hbm, cpu }),
    }
}

fn three_tiers(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    names: &[String],
    hardware: &Hardware,
) -> Option<[TierId; 3]> {
    let [first, second, third] = names else {
        let rule = format!("`tiers` lists three tiers, not {}", names.len());
        resolver.check.fault(at, rule, "write [\"hbm\", \"dram\", \"nvme\"]");
        return None;
    };
    let [first, second, third] = [(0, first), (1, second), (2, third)]
        .map(|(index, name)| resolver.tier(&format!("{at}.{index}"), name, hardware));
    Some([first?, second?, third?])
}

/// The first tier, the first of kind dram, the first of kind nvme.
fn default_tiers(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    hardware: &Hardware,
) -> Option<[TierId; 3]> {
    let first = |kind| hardware.tiers.iter().position(|tier| tier.kind == kind).map(TierId::at);
    match (first(TierKind::Dram), first(TierKind::Nvme)) {
        (Some(dram), Some(nvme)) => Some([HBM, dram, nvme]),
        _ => {
            let rule = "the hardware has no tiers of kind dram and nvme to place the list's rest";
            resolver.check.fault(at, rule, "write `tiers: [...]` with three names");
            None
        }
    }
}

fn spill_tiers(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    names: &[String],
    hardware: &Hardware,
) -> Option<Vec<TierId>> {
    if names.is_empty() {
        let rule = "evicted objects need a tier to go to";
        resolver.check.fault(at, rule, "name at least one tier");
        return None;
    }
    let mut spill = Vec::new();
    for (index, name) in names.iter().take(hardware.tiers.len() + 1).enumerate() {
        let path = format!("{at}.{index}");
        let id = resolver.tier(&path, name, hardware)?;
        if id == HBM || spill.contains(&id) {
            let rule = if id == HBM {
                "objects leave the first tier, so it cannot take them"
            } else {
                "a tier is listed twice"
            };
            resolver.check.fault(&path, rule, "leave it out");
            return None;
        }
        spill.push(id);
    }
    Some(spill)
}

/// Every tier but the first; nearer kinds first.
fn default_spill(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    hardware: &Hardware,
) -> Option<Vec<TierId>> {
    let order = [TierKind::Hbm, TierKind::Dram, TierKind::Cxl, TierKind::Nvme, TierKind::Remote];
    let mut spill: Vec<TierId> = hardware.tier_ids().skip(1).collect();
    spill.sort_by_key(|id| order.iter().position(|kind| *kind == hardware.tiers[id.index()].kind));
    if spill.is_empty() {
        let rule = "the hardware has only one tier, so nothing can leave it";
        resolver.check.fault(at, rule, "choose hardware with more tiers");
        return None;
    }
    Some(spill)
}

/// In the order of reports, each once: the order in the file has no meaning.
fn resolve_kinds(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: Option<&[RawObjectKind]>,
) -> Option<Vec<ObjectKind>> {
    let Some(raw) = raw else {
        return Some(vec![
            ObjectKind::Weight,
            ObjectKind::Gradient,
            ObjectKind::Optimizer,
            ObjectKind::Master,
        ]);
    };
    if raw.is_empty() {
        let rule = "a policy for no kind of object places nothing";
        resolver.check.fault(&format!("{at}.kinds"), rule, "name a kind, or use AllHbm");
        return None;
    }
    Some(object_kinds(raw))
}

/// In the order of reports, each once.
pub(crate) fn object_kinds(raw: &[RawObjectKind]) -> Vec<ObjectKind> {
    let mut kinds: Vec<ObjectKind> = raw
        .iter()
        .map(|kind| match kind {
            RawObjectKind::Weight => ObjectKind::Weight,
            RawObjectKind::Gradient => ObjectKind::Gradient,
            RawObjectKind::Optimizer => ObjectKind::Optimizer,
            RawObjectKind::Master => ObjectKind::Master,
            RawObjectKind::Activation => ObjectKind::Activation,
            RawObjectKind::Kv => ObjectKind::Kv,
            RawObjectKind::Buffer => ObjectKind::Buffer,
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

fn resolve_access(raw: Option<RawAccess>) -> Access {
    match raw {
        None => Access::Migrate { prefetch_ops: 0 },
        Some(RawAccess::Migrate { prefetch_ops }) => {
            Access::Migrate { prefetch_ops: prefetch_ops.unwrap_or(0) }
        }
        Some(RawAccess::InPlace { charge }) => Access::InPlace(match charge {
            RawCharge::ModuleOutput => Charge::ModuleOutput,
            RawCharge::ModuleWeights => Charge::ModuleWeights,
            RawCharge::EveryUse => Charge::EveryUse,
        }),
    }
}
