//! Physics lint: what a machine's spec says that hardware seldom does.
//!
//! A rule of a reader refuses a file; a rule of this module warns, because there are machines that
//! break it for a reason. Pure: warnings follow from the resolved machine alone, so the
//! same input gives the same list, in the order of the rules and of the spec.
//! Invariant: a limit itself never warns; only what is beyond it does.

mod magnitude;
mod pageable;

use crate::diagnostic::Warning;
use crate::hardware::{Channel, Fact, HBM, Hardware, TierKind};
use crate::ids::TierId;
use crate::routes::Routes;
use crate::units::{Bandwidth, PS_PER_S, Span};
pub use pageable::carried;
use pageable::faster_than_pinned;

/// Every warning about a machine.
pub fn lint_hardware(hardware: &Hardware) -> Vec<Warning> {
    let mut found = Vec::new();
    // A machine whose tiers are not all joined does not pass its reader.
    if let Ok(routes) = hardware.routes() {
        for tier in hardware.tier_ids().filter(|&tier| tier != HBM) {
            found.extend(faster_than_bus(hardware, &routes, tier));
            found.extend(faster_than_nearer(hardware, &routes, tier));
        }
    }
    for tier in &hardware.tiers {
        found.extend(unit_of_capacity(hardware, &tier.name, tier.kind));
    }
    for channel in hardware.channels() {
        found.extend(too_shallow(hardware, channel));
    }
    let links = hardware.channels().filter(|channel| !channel.evicting);
    found.extend(links.filter_map(|read| total_never_binds(hardware, read)));
    for channel in hardware.channels() {
        found.extend(above_standard(hardware, channel));
        found.extend(faster_than_pinned(hardware, channel));
    }
    found.extend(magnitude::magnitudes(hardware));
    found
}

/// How many numbers are assumed, in words; `None` if all have a source. A note and no warning: an
/// assumption with its reason is no mistake, so nothing denies it.
pub fn assumed_note(hardware: &Hardware) -> Option<String> {
    let (assumed, all) = (hardware.assumed(), hardware.facts.len());
    let name = &hardware.name;
    (assumed > 0).then(|| format!("assumed: {assumed} of {all} numbers of {name} are assumed"))
}

/// `link-faster-than-bus`: use in place goes over links, and is no faster than the slowest.
///
/// Of flash and of another node's memory only the link that enters the device counts: direct
/// storage and direct RDMA pass host memory by, copies that bounce through it do not.
fn faster_than_bus(hardware: &Hardware, routes: &Routes, tier: TierId) -> Option<Warning> {
    let far = &hardware.tiers[tier.index()];
    let route = routes.between(tier, HBM);
    let skipped = match far.kind {
        TierKind::Nvme | TierKind::Remote => route.len() - 1,
        TierKind::Hbm | TierKind::Cxl | TierKind::Dram => 0,
    };
    let crossed = route[skipped..].iter();
    let slowest = crossed.min_by_key(|channel| carried(hardware, **channel))?;
    let limit = carried(hardware, *slowest);
    let link = &hardware.links[slowest.link.index()].name;
    (far.access.rate > limit).then(|| Warning {
        rule: "link-faster-than-bus",
        place: format!("tiers.{}.bandwidth", far.name),
        found: words(far.access.rate),
        reason: format!("use in place goes over link `{link}`, which carries {}", words(limit)),
        remedy: format!("lower it, or raise the rate of `{link}`"),
    })
}

/// `tier-faster-than-nearer`: memory further from the device is slower than what lies before it.
fn faster_than_nearer(hardware: &Hardware, routes: &Routes, tier: TierId) -> Option<Warning> {
    let mut passed =
        routes.between(tier, HBM).iter().map(|channel| hardware.channel_ends(*channel).1);
    let before = passed.find_map(|node| hardware.tier_of(node))?;
    let (far, near) = (&hardware.tiers[tier.index()], &hardware.tiers[before.index()]);
    let (field, found, limit) = if far.access.rate > near.access.rate {
        ("bandwidth", words(far.access.rate), words(near.access.rate))
    } else if far.access.setup < near.access.setup {
        ("setup", delay(far.access.setup), delay(near.access.setup))
    } else {
        return None;
    };
    Some(Warning {
        rule: "tier-faster-than-nearer",
        place: format!("tiers.{}.{field}", far.name),
        found,
        reason: format!("tier `{}` is nearer to the device and has {limit}", near.name),
        remedy: "check both numbers, and which tier the link should join".to_owned(),
    })
}

/// Sizes that memory modules and expanders are sold in, in GiB.
const MODULES: [u32; 17] =
    [8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
/// Sizes that flash is sold in, in units of 10^9 bytes.
const DRIVES: [f64; 15] = [
    240.0, 256.0, 480.0, 500.0, 512.0, 960.0, 1000.0, 1920.0, 2000.0, 3840.0, 4000.0, 7680.0,
    8000.0, 15360.0, 30720.0,
];

/// `gb-for-gib`: modules of DRAM hold powers of two, flash is sold by powers of ten.
///
/// HBM is not judged: its makers' datasheets say GB, what a card shows lies on either side of that,
/// and so both are honest. Nor is another node's memory: nobody sells it.
fn unit_of_capacity(hardware: &Hardware, name: &str, kind: TierKind) -> Option<Warning> {
    let place = format!("tiers.{name}.capacity");
    let fact = hardware.facts.iter().rfind(|fact| fact.path == place)?;
    let (unit, number) = written(fact)?;
    let (thousands, better) = match (kind, unit) {
        (TierKind::Dram | TierKind::Cxl, "gb") => (1.0, "gib"),
        (TierKind::Dram | TierKind::Cxl, "tb") => (1024.0, "tib"),
        (TierKind::Nvme, "gib") => (1.0, "gb"),
        (TierKind::Nvme, "tib") => (1000.0, "tb"),
        _ => return None,
    };
    let size = number * thousands;
    let (usual, reason) = match kind {
        TierKind::Nvme => (
            DRIVES.iter().any(|drive| (drive - size).abs() < 0.5),
            "drives of this size are sold in GB and TB of powers of ten",
        ),
        _ => (
            MODULES.iter().any(|&module| f64::from(module) == size),
            "memory modules of this size hold GiB of powers of two",
        ),
    };
    usual.then(|| Warning {
        rule: "gb-for-gib",
        place,
        found: fact.value.clone(),
        reason: reason.to_owned(),
        remedy: format!("write {better}({number})"),
    })
}

/// Unit and number of a value as written, such as `gib(80)`.
fn written(fact: &Fact) -> Option<(&str, f64)> {
    let (unit, rest) = fact.value.split_once('(')?;
    let number = rest.strip_suffix(')')?.trim().replace('_', "").parse().ok()?;
    Some((unit.trim(), number))
}

/// `depth-cannot-reach-rate`: Little's law. So many requests of one chunk as may be under way must
/// cover the bytes that the rated bandwidth moves in one latency.
///
/// Source: Little, "A Proof for the Queuing Formula L = lambda W", Operations Research 9(3), 1961.
/// Only links to flash and remote memory that state a depth: others do not queue for bandwidth.
fn too_shallow(hardware: &Hardware, channel: Channel) -> Option<Warning> {
    let link = &hardware.links[channel.link.index()];
    let ends = [link.near, link.far].map(|node| hardware.tier_of(node));
    let mut kinds = ends.iter().flatten().map(|tier| hardware.tiers[tier.index()].kind);
    if !kinds.any(|kind| matches!(kind, TierKind::Nvme | TierKind::Remote)) {
        return None;
    }
    let service = link.service.as_ref()?;
    let (law, detail) = (hardware.channel_law(channel), service.detail(channel.evicting));
    let ramp = detail.depths.last();
    let (depth, field) = match (ramp, service.max_in_flight) {
        (_, Some(channels)) => (channels.get(), "max_in_flight".to_owned()),
        (Some(&(deepest, _)), None) => (deepest, format!("{}_depths", direction(channel))),
        (None, None) => return None,
    };
    let latency = law.setup + detail.tail.map_or(Span::ZERO, |tail| tail.p50);
    let reach = u128::from(depth) * u128::from(hardware.chunk.get()) * u128::from(PS_PER_S);
    let need = u128::from(law.rate.get()) * u128::from(latency.ps());
    let (rated, size) = (words(law.rate), hardware.chunk);
    let reason = if reach < need {
        let latency = delay(latency);
        format!("{depth} requests of {size} in {latency} each do not reach the rated {rated}")
    } else {
        let short = detail.rate_at(u64::from(depth), law.rate);
        if short == law.rate {
            return None;
        }
        format!("{depth} copies at once reach {}, not the rated {rated}", words(short))
    };
    Some(Warning {
        rule: "depth-cannot-reach-rate",
        place: format!("links.{}.{field}", link.name),
        found: format!("{depth}"),
        reason,
        remedy: format!("allow more at once, or lower `{}`", direction(channel)),
    })
}

/// `both-ways-above-sum`: a total that no traffic can reach says nothing.
fn total_never_binds(hardware: &Hardware, read: Channel) -> Option<Warning> {
    let link = &hardware.links[read.link.index()];
    let total = link.service.as_ref()?.total?;
    let both = [read, Channel { evicting: true, ..read }];
    let [read, write] = both.map(|channel| carried(hardware, channel));
    let sum = u128::from(read.get()) + u128::from(write.get());
    let reason = if u128::from(total.get()) > sum {
        format!("`read` and `write` together are {} + {}", words(read), words(write))
    } else if total < read.max(write) {
        format!("one direction alone is said to reach {}", words(read.max(write)))
    } else {
        return None;
    };
    Some(Warning {
        rule: "both-ways-above-sum",
        place: format!("links.{}.total", link.name),
        found: words(total),
        reason,
        remedy: "write what both directions reach at the same time, or leave it out".to_owned(),
    })
}

/// `faster-than-standard`: no link carries more than its signalling does.
fn above_standard(hardware: &Hardware, channel: Channel) -> Option<Warning> {
    let link = &hardware.links[channel.link.index()];
    let (kind, rate) = (link.kind?, hardware.channel_law(channel).rate);
    // The rate is that of all drives of a set, each at the end of a bus of this kind.
    let drives = link.raid0.map_or(1, |set| u64::from(set.drives.get()));
    let limit = kind.limit().filter(|one| rate.get() > one.get().saturating_mul(drives))?;
    let each = if drives > 1 { format!(" to each of {drives} drives") } else { String::new() };
    Some(Warning {
        rule: "faster-than-standard",
        place: format!("links.{}.{}", link.name, direction(channel)),
        found: words(rate),
        reason: format!("`{kind}`{each} signals {} in one direction", words(limit)),
        remedy: format!("lower `{}`, or correct `kind`", direction(channel)),
    })
}

fn direction(channel: Channel) -> &'static str {
    if channel.evicting { "write" } else { "read" }
}

fn words(rate: Bandwidth) -> String {
    format!("{} GB/s", rate.get() as f64 / 1e9)
}

fn delay(span: Span) -> String {
    format!("{} us", span.ps() as f64 / 1e6)
}
