//! Numbers of a machine that are far from any machine known, or from each other.
//!
//! A slip of a unit is a factor of a thousand, and the results look like results: so what is far
//! beyond the best device known is worth a look, and names that device.
//! Invariant: no limit here is a law of physics; a file from the future may be right.

use super::{delay, words};
use crate::diagnostic::Warning;
use crate::hardware::{Compute, HBM, Hardware, Tier, TierKind};
use crate::units::{Bandwidth, Bytes, Span};

/// Two rates of one memory that differ by more than this are not of one memory.
const FAR: u64 = 8;
/// A link that is faster than what lies behind it by more than this can never be filled.
const FASTER: u64 = 64;
/// The most memory of one device announced, and who has it.
const MOST_HBM: (Bytes, &str) =
    (Bytes::new(1_024_000_000_000), "Rubin Ultra's 1 TB, announced 2025-03");
/// The fastest memory of one device announced.
const FASTEST_HBM: (Bandwidth, &str) =
    (Bandwidth::gb_per_s(32_000), "Rubin Ultra's 32 TB/s, announced 2025-03");
/// The longest launch measured of a device, an order of magnitude up.
const LONGEST_LAUNCH: Span = Span::from_us(1_000);
/// FLOP per second below which nothing that is called an accelerator lies.
const LEAST_FLOPS: u64 = 1_000_000_000;
/// The highest dense peak that one device may have by precision, in TFLOP/s: Rubin Ultra's 100
/// PFLOP/s in fp4 (announced 2025-03), and half as much for twice the bits. In fp32 and fp64
/// devices reach less than that.
const FLOPS: [(&str, u64); 14] = [
    ("fp64", 1_000),
    ("fp32", 2_000),
    ("tf32", 6_250),
    ("fp16", 25_000),
    ("bf16", 25_000),
    ("fp8", 50_000),
    ("fp6", 50_000),
    ("mxfp8", 50_000),
    ("int8", 50_000),
    ("fp4", 100_000),
    ("nvfp4", 100_000),
    ("mxfp4", 100_000),
    ("int4", 100_000),
    ("int1", 800_000),
];

/// Every warning of this module about a machine.
pub(super) fn magnitudes(hardware: &Hardware) -> impl Iterator<Item = Warning> {
    let near = &hardware.tiers[HBM.index()];
    let device = hardware.compute.iter().flat_map(move |compute| of_device(compute, near));
    let links = hardware.channels().filter_map(|channel| {
        let (from, _) = hardware.channel_ends(channel);
        let tier = &hardware.tiers[hardware.tier_of(from)?.index()];
        let rate = hardware.channel_law(channel).rate;
        let behind = tier.access.rate;
        // What a device reaches of flash and of another node's memory in place is not what a copy
        // does.
        let memory = matches!(tier.kind, TierKind::Hbm | TierKind::Dram | TierKind::Cxl);
        (memory && rate.get() / FASTER > behind.get()).then(|| Warning {
            rule: "link-outruns-tier",
            place: format!("links.{}", hardware.links[channel.link.index()].name),
            found: words(rate),
            reason: format!("copies come from tier `{}`, which gives {}", tier.name, words(behind)),
            remedy: format!(
                "check the units of both; copies never reach more than `{}` gives",
                tier.name
            ),
        })
    });
    above_known(near).into_iter().chain(device).chain(links).chain(no_setup(hardware))
}

fn above_known(near: &Tier) -> Vec<Warning> {
    let mut found = Vec::new();
    let known = |field: &str, found: String, record: &str| Warning {
        rule: "beyond-known-devices",
        place: format!("tiers.{}.{field}", near.name),
        found,
        reason: format!("no one device has that much; the most known is {record}"),
        remedy: "check the unit".to_owned(),
    };
    // Without a capacity there is no limit, which is no claim about a device.
    if near.capacity.limit().is_some_and(|bytes| bytes > MOST_HBM.0) {
        found.push(known("capacity", near.capacity.to_string(), MOST_HBM.1));
    }
    if near.access.rate > FASTEST_HBM.0 {
        found.push(known("bandwidth", words(near.access.rate), FASTEST_HBM.1));
    }
    found
}

fn of_device(compute: &Compute, near: &Tier) -> Vec<Warning> {
    let mut found = Vec::new();
    let (memory, tier) = (compute.memory, near.access.rate);
    if memory.get() / FAR > tier.get() || tier.get() / FAR > memory.get() {
        found.push(Warning {
            rule: "memory-rates-differ",
            place: "compute.memory".to_owned(),
            found: words(memory),
            reason: format!("tier `{}` is the same memory and has {}", near.name, words(tier)),
            remedy: "check the unit of both".to_owned(),
        });
    }
    if compute.launch > LONGEST_LAUNCH {
        found.push(Warning {
            rule: "long-launch",
            place: "compute.launch".to_owned(),
            found: delay(compute.launch),
            reason: "every op pays it; devices need 2 to 5 us, a host's threads some 20".to_owned(),
            remedy: "check the unit".to_owned(),
        });
    }
    for (precision, rate) in &compute.flops {
        let place = format!("compute.flops.{precision}");
        let known = FLOPS.iter().find(|(name, _)| name == precision);
        let Some(&(_, most)) = known else {
            let names: Vec<&str> = FLOPS.iter().map(|(name, _)| *name).collect();
            found.push(Warning {
                rule: "unknown-precision",
                place,
                found: precision.clone(),
                reason: "no device known has a rate of this name".to_owned(),
                remedy: format!("known are {}", names.join(", ")),
            });
            continue;
        };
        let shown = format!("{} TFLOP/s", rate.get() as f64 / 1e12);
        let reason = if rate.get() / 1_000_000_000_000 > most {
            format!("no one device reaches that; the most known is {most} TFLOP/s, of Rubin Ultra")
        } else if rate.get() < LEAST_FLOPS {
            "a core of a processor reaches more".to_owned()
        } else {
            continue;
        };
        let (rule, remedy) = ("beyond-known-devices", "check the unit".to_owned());
        found.push(Warning { rule, place, found: shown, reason, remedy });
    }
    found
}

/// `no-setup`: without set-up a million small copies are as quick as one large one.
fn no_setup(hardware: &Hardware) -> Option<Warning> {
    let channels = hardware.channels().map(|channel| hardware.channel_law(channel).setup);
    let setups = channels.chain(hardware.tiers.iter().skip(1).map(|tier| tier.access.setup));
    let mut setups = setups.peekable();
    (setups.peek().is_some() && setups.all(|setup| setup == Span::ZERO)).then(|| Warning {
        rule: "no-setup",
        place: "links".to_owned(),
        found: "0 us everywhere".to_owned(),
        reason: "each copy and each use in place costs something before its first byte".to_owned(),
        remedy: "write `setup`: a few us for a link of pinned memory, tens for flash".to_owned(),
    })
}
