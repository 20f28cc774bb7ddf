//! The GPU behind `--fit` and `--table`: a size, or a machine of the project with its rates.

use crate::hardware::machine;
use crate::output::Failure;
use crate::typed::size;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::results::memory_fit::{MemoryBudget, Rates};
use tiersim_models::shared::Shared;
use tiersim_reports::FitTarget;
use tiersim_workloads::transformer::format::Format;

/// What `option` names; products run in `format`.
pub(crate) fn target(option: &str, text: &str, format: Format) -> Result<FitTarget, Failure> {
    if let Ok(bytes) = size(text) {
        let budget = MemoryBudget { gpu: bytes.into(), cpu: None, nvme: None };
        return Ok(FitTarget {
            name: text.to_owned(),
            budget,
            rates: Rates::default(),
            device: None,
        });
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        let rule = format!("{option} takes a size with its unit or a machine");
        let remedy = "write 24GiB or gib(24), or a name of `tiersim hardware list`";
        return Err(Failure::Input(format!("{rule} (found {text:?}); {remedy}")));
    }
    let (_, machine) = machine(text)?;
    let rates = rates(&machine, format)?;
    let (name, budget) = (machine.name.clone(), budget(&machine));
    Ok(FitTarget { name, budget, rates, device: machine.compute.map(Shared::own) })
}

/// What is left of the tier after hidden memory; `None` for one without a limit.
fn left(machine: &Hardware, tier: TierId) -> Option<u128> {
    let budget = machine.memory().hiding(machine.hidden.clone()).usable(tier);
    budget.limit().map(|bytes| u128::from(bytes.get()))
}

/// The first tier of a kind.
fn first(machine: &Hardware, kind: TierKind) -> Option<TierId> {
    machine.tier_ids().find(|tier| machine.tiers[tier.index()].kind == kind)
}

fn budget(machine: &Hardware) -> MemoryBudget {
    // A machine without such a tier has no room there.
    let of = |kind| match first(machine, kind) {
        Some(tier) => left(machine, tier),
        None => Some(0),
    };
    let gpu = left(machine, HBM).unwrap_or(u128::MAX);
    MemoryBudget { gpu, cpu: of(TierKind::Dram), nvme: of(TierKind::Nvme) }
}

fn rates(machine: &Hardware, format: Format) -> Result<Rates, Failure> {
    let routes = machine.routes().map_err(|none| Failure::Internal(format!("{none:?}")))?;
    // The slower direction of the slowest link on the way.
    let way = |kind| {
        let tier = first(machine, kind)?;
        let channels = [routes.between(tier, HBM), routes.between(HBM, tier)].concat();
        channels.into_iter().map(|channel| machine.channel_law(channel).rate.get()).min()
    };
    let peak = |compute: &tiersim_models::hardware::Compute| {
        let of = |word: &str| compute.flops.iter().find(|(name, _)| name == word);
        of(format.word()).map(|(_, rate)| rate.get())
    };
    // Processors reach more in their own memory than the device does over a link: where they are
    // not stated, the device's rate makes the estimate too slow, never too quick.
    let dram = first(machine, TierKind::Dram);
    let beside = dram.map(|tier| machine.tiers[tier.index()].access.rate.get());
    let host_memory = machine.cpu.as_ref().map(|cpu| cpu.memory.get()).or(beside);
    let float = |rate: Option<u64>| rate.map(|rate| rate as f64);
    Ok(Rates {
        flops: float(machine.compute.as_deref().and_then(peak)),
        host: float(way(TierKind::Dram)),
        nvme: float(way(TierKind::Nvme)),
        host_memory: float(host_memory),
        memory: float(machine.compute.as_ref().map(|compute| compute.memory.get())),
    })
}
