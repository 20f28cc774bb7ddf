//! A case's placement of weights as a `device_map` of Hugging Face accelerate.
//!
//! A module gets `0`, `"cpu"` or `"disk"`; one entry stands for all that is below a name where all of
//! it lies together, as accelerate writes its own maps. `max_memory` is another argument, and so
//! another file.
//! Invariant: every module with weights is below exactly one entry that is nearest to its name.

use super::parts::{Ask, Back, Parts};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{HBM, Memory, TierKind};
use tiersim_models::ids::{ModuleId, ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Trace};
use tiersim_policies::scenario::Budget;
use tiersim_policies::zoo::device_map::{DeviceMapConfig, Limit};
use tiersim_policies::zoo::percentages::{PercentagesConfig, homes};
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;

/// Parts of a module's name beyond this many count as one.
const MOST_DEPTH: usize = 32;

/// The parts of a module's name, with its device.
type Named<'a> = (Vec<&'a str>, Device);

fn parted((name, device): &(String, Device)) -> Named<'_> {
    (name.splitn(MOST_DEPTH, '.').collect(), *device)
}

/// Where accelerate puts a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Device {
    Card,
    Cpu,
    Disk,
}

impl Device {
    fn of(kind: TierKind) -> Option<Device> {
        match kind {
            TierKind::Hbm => Some(Device::Card),
            TierKind::Dram | TierKind::Cxl => Some(Device::Cpu),
            TierKind::Nvme => Some(Device::Disk),
            TierKind::Remote => None,
        }
    }

    fn value(self) -> Value {
        match self {
            Device::Card => json!(0),
            Device::Cpu => json!("cpu"),
            Device::Disk => json!("disk"),
        }
    }
}

/// The map of a case whose policy gives weights a place, or the `max_memory` that goes with it.
///
/// # Errors
/// The policy moves weights as ops need them, or puts some where accelerate has no device.
pub fn device_map(
    ask: &Ask<'_>,
    trace: &Trace,
    memory: &Memory,
    max_memory: bool,
) -> Result<Back, Diagnostics> {
    let mut parts = Parts::new(ask);
    let Some(homes) = placed(&parts, trace, memory)? else {
        let policy = &ask.case.policy;
        let found = format!("{}({})", policy.name(), policy.details());
        let remedy = "choose a case of DeviceMap, Percentages, ZeroOffload, AdamState or Hints";
        return parts.refused("weights have a place that does not change", &found, remedy);
    };
    let devices = modules(&mut parts, trace, &homes)?;
    let mut map = Map::new();
    collapsed(&mut map, 0, devices.iter().map(parted).collect());
    let at = parts.of_case("policy");
    let count = |which| devices.iter().filter(|(_, device)| *device == which).count();
    let words = format!(
        "{} modules on the card, {} with the host, {} on disk",
        count(Device::Card),
        count(Device::Cpu),
        count(Device::Disk)
    );
    let policy = format!("{}({})", ask.case.policy.name(), ask.case.policy.details());
    parts.said(&at, policy, format!("device_map: {words}"));
    let limits = limits(&mut parts, memory);
    told(&mut parts);
    let text = format!("{:#}\n", Value::Object(if max_memory { limits } else { map }));
    Ok(parts.back(text, None))
}

/// The tier of every object, for policies that leave weights where they are.
fn placed(
    parts: &Parts<'_>,
    trace: &Trace,
    memory: &Memory,
) -> Result<Option<Vec<TierId>>, Diagnostics> {
    let policy = &parts.ask.case.policy;
    if let Some(map) = policy.get::<DeviceMapConfig>() {
        return Ok(Some(map.homes(trace, memory)));
    }
    if let Some(of) = policy.get::<ZeroOffloadConfig>() {
        return Ok(Some(of.homes(trace)));
    }
    if let Some(PercentagesConfig { six: Some(six), sep_layer, tiers, .. }) =
        policy.get::<PercentagesConfig>()
    {
        return Ok(Some(homes(trace, six, *sep_layer, tiers)));
    }
    if policy.name() == "all-hbm" {
        return Ok(Some(vec![HBM; trace.objects.len()]));
    }
    let by_module = match policy.placement(trace, &parts.ask.scenario.hardware) {
        Ok(found) => found,
        Err(why) => return parts.refused(&why, "", "name a trace that has it"),
    };
    let home = |tiers: &Vec<TierId>, module: Option<ModuleId>| {
        module.map_or(HBM, |module| tiers[module.index()])
    };
    Ok(by_module
        .map(|tiers| trace.objects.iter().map(|object| home(&tiers, object.module)).collect()))
}

/// Every module that has weights, with its device, in the order of the trace; and modules that use
/// what another has, such as a head that is tied to the table of tokens.
fn modules(
    parts: &mut Parts<'_>,
    trace: &Trace,
    homes: &[TierId],
) -> Result<Vec<(String, Device)>, Diagnostics> {
    let tiers = &parts.ask.scenario.hardware.tiers;
    let mut devices: BTreeMap<usize, Device> = BTreeMap::new();
    let mut split = Vec::new();
    for (object, home) in trace.objects.iter().zip(homes) {
        let (ObjectKind::Weight, Some(module)) = (object.kind, object.module) else { continue };
        let tier = &tiers[home.index()];
        let Some(device) = Device::of(tier.kind) else {
            let remedy =
                "accelerate knows the card, the host's memory and a disk: name these tiers";
            return parts.refused("a module's tier is one that accelerate has", &tier.name, remedy);
        };
        match devices.insert(module.index(), device) {
            Some(other) if other != device => {
                devices.insert(module.index(), other.max(device));
                split.push(module.index());
            }
            _ => {}
        }
    }
    split.sort_unstable();
    split.dedup();
    let at = parts.of_case("policy");
    for module in &split {
        let why = "a module is on one device: the furthest of its tensors' is written";
        parts.unsaid(&at, &trace.modules[*module], why);
    }
    let tied = borrowed(trace, &devices);
    devices.extend(tied);
    Ok(devices.into_iter().map(|(module, of)| (trace.modules[module].to_string(), of)).collect())
}

/// Modules without weights whose ops use weights of one other module in the forward pass.
fn borrowed(trace: &Trace, devices: &BTreeMap<usize, Device>) -> Vec<(usize, Device)> {
    let mut found: BTreeMap<usize, Device> = BTreeMap::new();
    for op in &trace.ops {
        let Some(module) = op.module.filter(|of| !devices.contains_key(&of.index())) else {
            continue;
        };
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let weight = |object: ObjectId| {
            let object = &trace.objects[object.index()];
            object.module.filter(|_| object.kind == ObjectKind::Weight)
        };
        let owners = uses.iter().filter_map(|used| weight(used.object));
        let device = owners.filter_map(|owner| devices.get(&owner.index())).max();
        if let Some(device) = device {
            found.entry(module.index()).or_insert(*device);
        }
    }
    found.into_iter().collect()
}

/// Entries of modules that begin alike for so many parts of their names: one where all are on one
/// device.
fn collapsed(map: &mut Map<String, Value>, depth: usize, modules: Vec<Named<'_>>) {
    let Some((first, device)) = modules.first() else { return };
    // A map names modules: no entry is for the whole model.
    if depth > 0 && modules.iter().all(|(_, other)| other == device) {
        map.insert(first[..depth.min(first.len())].join("."), device.value());
        return;
    }
    // In the order of the model, as accelerate writes maps.
    let mut groups: Vec<(usize, Vec<Named<'_>>)> = Vec::new();
    let mut known: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for (name, device) in modules {
        let part = name.get(depth).copied();
        let group = *known.entry(part).or_insert_with(|| {
            // What stands at this very name is beside what is below it.
            groups.push((depth + usize::from(part.is_some()), Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push((name, device));
    }
    for (depth, group) in groups {
        collapsed(map, depth, group);
    }
}

/// `max_memory`, in bytes.
fn limits(parts: &mut Parts<'_>, memory: &Memory) -> Map<String, Value> {
    let hardware = &parts.ask.scenario.hardware;
    let dram = hardware.tier_ids().find(|id| hardware.tiers[id.index()].kind == TierKind::Dram);
    let usable = |tier: TierId| memory.usable(tier).limit();
    let capacity =
        |tier: TierId| format!("hardware.tiers.{}.capacity", hardware.tiers[tier.index()].name);
    let all = match parts.ask.case.hbm {
        Budget::Hardware => capacity(HBM),
        Budget::Bytes(_) | Budget::ShareOfPeak(_) => parts.of_case("hbm"),
    };
    let mut card = (all, usable(HBM));
    let mut cpu = dram.map(|tier| (capacity(tier), usable(tier)));
    if let Some(map) = parts.ask.case.policy.get::<DeviceMapConfig>() {
        card = match (map.hbm, card) {
            (Limit::Bytes(bytes), (at, Some(all))) if all < bytes => (at, Some(all)),
            (Limit::Bytes(bytes), _) => (parts.of_case("policy.hbm"), Some(bytes)),
            (Limit::Reserve(share), (at, all)) => {
                (at, all.map(|all| Bytes::new((all.get() as f64 * (1.0 - share)) as u64)))
            }
        };
        cpu = Some(match map.cpu {
            Some(bytes) => (parts.of_case("policy.cpu"), Some(bytes)),
            None => (capacity(map.tiers[1]), usable(map.tiers[1])),
        });
    }
    let mut limits = Map::new();
    for (name, limit) in [("0", Some(card)), ("cpu", cpu)] {
        if let Some((at, Some(bytes))) = limit {
            parts.said(&at, bytes, format!("max_memory[{name}]: {}", bytes.get()));
            limits.insert(name.to_owned(), json!(bytes.get()));
        }
    }
    limits
}

/// What a map does not say.
fn told(parts: &mut Parts<'_>) {
    let policy = parts.of_case("policy");
    if let Some(access) = parts.ask.case.policy.access() {
        let why = "accelerate copies a module's weights before its pass, and drops them behind it";
        parts.unsaid(&policy, access, why);
    }
    parts.aside(
        "workload",
        "model, mode, numbers",
        "a map is of modules; the program says the rest",
    );
}
