//! What frameworks have in common: the model, the machine, how a case is measured, and what of a
//! case none of them says.
//!
//! Invariant: every field of a scenario, a workload and a case is told here, or by who asks.

use super::parts::{Parts, quoted};
use tiersim_models::energy::Economics;
use tiersim_models::hardware::{Capacity, Hardware};
use tiersim_policies::scenario::{Budget, Case, OpTime, Said, Scenario, Terms, WorkloadSpec};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::Formats;
use tiersim_workloads::transformer::known::known;

/// The name by which a command takes the model.
pub(super) fn model(parts: &mut Parts<'_>, card: &Card) -> String {
    let at = "workload.model";
    let written = parts.ask.model.filter(|name| name.ends_with(".json"));
    if let Some(name) = written {
        parts.asked(at, name, format!("--model {}", quoted(name)));
        return name.to_owned();
    }
    let Some(known) = known(&card.name) else {
        parts.unsaid(at, &card.name, "the model is spelled out, and no command takes a card");
        parts.is_named = false;
        return "MODEL".to_owned();
    };
    parts.asked(at, known.name, format!("--model {}", known.name));
    if known.card() != *card {
        let why = "the scenario has other numbers than the model of this name";
        parts.unsaid("workload.tied", card.tied, why);
    }
    known.name.to_owned()
}

/// The machine's name, and GiB of host memory where the scenario has other and a command takes it.
pub(super) fn machine(parts: &mut Parts<'_>, takes_host: bool) -> Option<u64> {
    let own = &*parts.ask.scenario.hardware;
    let name = &own.name;
    let Some(known) = parts.ask.machine else {
        parts.unsaid("hardware", name, "no machine of this name is known beside the scenario");
        parts.is_named = false;
        return None;
    };
    parts.asked("hardware", name, format!("--device {}", quoted(name)));
    let mut host = None;
    for (tier, usual) in own.tiers.iter().zip(&known.tiers) {
        if tier.capacity == usual.capacity {
            continue;
        }
        let at = format!("capacity.{}", tier.name);
        let Capacity::Limited(bytes) = tier.capacity else {
            parts.unsaid(&at, "unlimited", "memory is what the computer has");
            continue;
        };
        if takes_host && tier.name == "dram" && bytes.get() % (1 << 30) == 0 {
            let gib = bytes.get() >> 30;
            parts.asked(&at, bytes, format!("--host-memory {gib}"));
            host = Some(gib);
        } else {
            parts.unsaid(&at, bytes, "memory is what the computer has: name another machine");
        }
    }
    if plain(own, known) != plain(known, known) {
        let why = "the scenario changes numbers of the machine: no framework says any";
        parts.unsaid("hardware", name, why);
    }
    host
}

/// A machine without what is said of it elsewhere: capacities, prices, and where numbers come from.
fn plain(of: &Hardware, like: &Hardware) -> Hardware {
    let mut plain = Hardware {
        facts: Default::default(),
        about: String::new().into(),
        economics: Economics::default().into(),
        ..of.clone()
    };
    // These are there only where ops of the scenario are priced by them.
    plain.compute.iter_mut().for_each(|compute| compute.op_times = None);
    plain.server.collective_times = None;
    for (tier, usual) in plain.tiers.iter_mut().zip(&like.tiers) {
        tier.capacity = usual.capacity;
    }
    plain
}

/// What is asked of the simulator, and no setting of anything.
pub(super) fn measuring(parts: &mut Parts<'_>) {
    let Scenario { said, hardware: _, workload, cases: _, seed, warnings: _ } = parts.ask.scenario;
    let Said { name: _, about: _, expect } = &**said;
    let WorkloadSpec { trace: _, repeat, warmup, horizon, time, jitter, ranks: _, statistics: _ } =
        &**workload;
    let value = format!(
        "{repeat} replays, {warmup} of warm-up, jitter {jitter}, seed {seed}, {} expectations",
        expect.len()
    );
    let at = "workload.repeat, warmup, jitter, seed, expect";
    parts.aside(at, value, "how it is measured, not what is run");
    if let Some(horizon) = horizon {
        parts.aside("workload.horizon", horizon, "how it is measured, not what is run");
    }
    let words = match time {
        OpTime::Priced { compute, precision } => format!("{} in {precision}", compute.name),
        OpTime::Recorded { scale } => format!("recorded x {scale}"),
    };
    parts.aside("workload.time", words, "how long ops take is the card's");
}

/// What of a case is told by who asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) hbm: bool,
    pub(super) runtime: bool,
}

/// What of a case no framework says.
pub(super) fn case(parts: &mut Parts<'_>, framework: &str, told: Told) {
    let Case { params, terms, .. } = parts.ask.case;
    let Terms { hbm, runtime, .. } = &**terms;
    if !told.hbm {
        let (plain, words) = budget(*hbm);
        let why = format!("{framework} takes what the card has, and no budget");
        parts.unless(plain, &parts.of_case("hbm"), words, &why);
    }
    if !told.runtime {
        let why = format!("what {framework}'s own code takes comes with it, and is no setting");
        parts.unless(runtime.is_none(), &parts.of_case("runtime"), runtime, &why);
    }
    for (field, plain, value, why) in beyond(parts.ask.case) {
        parts.unless(plain, &parts.of_case(field), value, why);
    }
    if !params.is_empty() {
        let why = "a point of a sweep: values are those of this point";
        parts.aside(&parts.of_case("params"), format!("{} axes", params.len()), why);
    }
}

/// Fields of a case that no framework has: whether it is plain, in words, and why there is none.
fn beyond(case: &Case) -> [(&'static str, bool, String, &'static str); 7] {
    let Case { label: _, policy: _, params: _, terms } = case;
    let Terms {
        hbm: _,
        allocators,
        numa,
        hidden,
        chunk,
        micro_batch,
        pressure,
        runtime: _,
        compress,
    } = &**terms;
    let count = |number: usize, what: &str| format!("{number} {what}");
    [
        (
            "allocators",
            allocators.is_empty(),
            count(allocators.len(), "tiers"),
            "how memory is handed out is the allocator's: PYTORCH_CUDA_ALLOC_CONF says it",
        ),
        (
            "numa",
            numa.placement.is_none() && numa.pins.is_empty(),
            "a placement".to_owned(),
            "nodes of memory are the operating system's: numactl says them",
        ),
        (
            "hidden",
            hidden.is_empty(),
            count(hidden.len(), "parts"),
            "memory that is hidden is so whether anybody says it",
        ),
        (
            "chunk",
            chunk.is_none(),
            chunk.map_or(String::new(), |bytes| bytes.to_string()),
            "objects are whole there",
        ),
        (
            "micro_batch",
            micro_batch.is_none(),
            micro_batch.unwrap_or(0).to_string(),
            "the micro-batch is the workload's, and one for a run",
        ),
        (
            "pressure",
            pressure.is_none(),
            "a tier is watched".to_owned(),
            "nothing changes while it runs",
        ),
        (
            "compress",
            compress.is_none(),
            count(compress.formats.len(), "formats"),
            "tiers store what they are given",
        ),
    ]
}

/// Whether a budget is all that the card has, and in words.
pub(super) fn budget(hbm: Budget) -> (bool, String) {
    match hbm {
        Budget::Hardware => (true, "all".to_owned()),
        Budget::Bytes(bytes) => (false, bytes.to_string()),
        Budget::ShareOfPeak(share) => (false, format!("share_of_peak({share})")),
    }
}

/// The formats in one word, as scenarios have it.
pub(super) fn formats(of: &Formats) -> String {
    let Formats { weights, packed, gradients, activations, kv } = of;
    let packed = packed.map_or(String::new(), |packed| format!(" packed as {}", packed.word()));
    let [weights, gradients, activations, kv] =
        [weights, gradients, activations, kv].map(|format| format.word());
    format!("weights {weights}{packed}, gradients {gradients}, activations {activations}, kv {kv}")
}
