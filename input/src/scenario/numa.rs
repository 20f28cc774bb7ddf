//! From what a scenario says about the nodes of DRAM to a [`NumaConfig`].
//!
//! `numa` and `pins` of the scenario hold for every case; what a case says of either replaces it.
//! Invariant: every node that is returned is a tier of kind dram.

use crate::scenario::policies::object_kinds;
use crate::scenario::raw::{RawNuma, RawPin};
use crate::scenario::resolver::Resolver;
use tiersim_models::hardware::{Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_policies::numa::{NumaConfig, Pin, Placement};

/// More than any sensible list of pins.
const MAX_PINS: usize = 100;
/// The longest pattern of module names, in bytes.
const MAX_PATTERN: usize = 200;

/// `base` with what stands in the fields `numa` and `pins` of the document's part `at` (`""` for
/// the scenario itself, else with a dot at its end).
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    (numa, pins): (Option<&RawNuma>, Option<&[RawPin]>),
    base: &NumaConfig,
    hardware: &Hardware,
) -> NumaConfig {
    let path = format!("{at}numa");
    let placement = match numa {
        None => base.placement,
        Some(_) if !hardware.tiers.iter().any(|tier| tier.kind == TierKind::Dram) => {
            let rule = "the hardware has no tier of kind dram, so there is no node to choose";
            resolver.lacks(&path, rule, "leave `numa` out, or choose other hardware");
            None
        }
        Some(RawNuma::NearGpu) => Some(Placement::NearGpu),
        Some(RawNuma::Interleave) => Some(Placement::Interleave),
        Some(RawNuma::FirstTouch { node }) => {
            resolver.node(&format!("{path}.node"), node, hardware).map(Placement::FirstTouch)
        }
    };
    let pins = match pins {
        None => base.pins.clone(),
        Some(raw) => resolver.pins(&format!("{at}pins"), raw, hardware),
    };
    NumaConfig { placement, pins }
}

impl Resolver<'_, '_> {
    /// A tier of kind dram.
    fn node(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<TierId> {
        let is_dram = |tier: TierId| hardware.tiers[tier.index()].kind == TierKind::Dram;
        let found = self.tier(path, name, hardware)?;
        if !is_dram(found) {
            let drams: Vec<&str> = hardware
                .tier_ids()
                .filter(|&tier| is_dram(tier))
                .map(|tier| hardware.tiers[tier.index()].name.as_str())
                .collect();
            let remedy = match drams.as_slice() {
                [] => "choose hardware that has one".to_owned(),
                drams => format!("the tiers of that kind are {}", drams.join(", ")),
            };
            self.check.fault(path, "a node is a tier of kind dram", remedy);
            return None;
        }
        Some(found)
    }

    fn pins(&mut self, at: &str, raw: &[RawPin], hardware: &Hardware) -> Vec<Pin> {
        let mut pins: Vec<Pin> = Vec::new();
        let raw = self.check.at_most(at, "pins", raw, MAX_PINS);
        for (index, raw) in raw.iter().enumerate() {
            let here = format!("{at}.{index}");
            let Some(pin) = self.pin(&here, raw, hardware) else { continue };
            let shares = |other: &Pin| {
                let of_kind = |kind| pin.kinds.is_empty() || pin.kinds.contains(kind);
                other.kinds.is_empty() || pin.kinds.is_empty() || other.kinds.iter().any(of_kind)
            };
            if pins.iter().any(|other| other.module == pin.module && shares(other)) {
                let rule = "these objects are pinned twice, and the first pin counts";
                self.check.fault(&here, rule, "keep one of them");
            }
            pins.push(pin);
        }
        pins
    }

    fn pin(&mut self, here: &str, raw: &RawPin, hardware: &Hardware) -> Option<Pin> {
        if raw.kinds.as_ref().map_or(raw.module.is_none(), Vec::is_empty) {
            let rule = "a pin says which objects it is for";
            self.check.fault(here, rule, "write `kinds: [...]`, `module: \"...\"` or both");
        }
        let long = |name: &String| name.is_empty() || name.len() > MAX_PATTERN;
        if raw.module.as_ref().is_some_and(long) {
            let rule = format!("the pattern of module names has 1 to {MAX_PATTERN} bytes");
            self.check.fault(&format!("{here}.module"), rule, "shorten it; `*` is any text");
        }
        let node = self.node(&format!("{here}.node"), &raw.node, hardware)?;
        let kinds = raw.kinds.as_deref().map(object_kinds).unwrap_or_default();
        Some(Pin { kinds, module: raw.module.clone(), node })
    }
}
