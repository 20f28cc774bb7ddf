//! A machine as text and as JSON: tiers, links, the routes that copies take, and every number with
//! its source.

use super::{gb_per_s, link_word, node_word, server, tier_word};
use crate::economics_summary::number;
use crate::sources::{AS_LISTED, in_words};
use crate::text_table::text_table;
use crate::words::{clean, elide};
use crate::{ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::hardware::{
    Capacity, Channel, DeviceRequests, Fact, Hardware, Law, Link, Profile, Tier, TierKind,
};
use tiersim_models::ids::TierId;
use tiersim_models::nodes::Node;
use tiersim_models::routes::Routes;
use tiersim_models::service::{Discipline, Service};

/// What the device asks for at once in a tier.
fn asked(tier: &Tier) -> String {
    let DeviceRequests { granule, depth } = tier.requests;
    let assumed = |stated| if stated { "" } else { " (assumed)" };
    let (bytes, most) = (tier.granule(), tier.depth());
    let (of, at_once) = (assumed(granule.is_some()), assumed(depth.is_some()));
    let most = if tier.depth_is_free() { "any number of".to_owned() } else { most.to_string() };
    format!("{most} requests{at_once} of {bytes}{of}")
}

/// Most characters of a value: tables of many points are in the file and in the JSON.
const MOST_VALUE: usize = 36;

/// One line per machine: its name, where it comes from, its tiers and how its numbers are sourced.
pub fn hardware_list(machines: &[(Hardware, &str)]) -> String {
    let row = |(machine, from): &(Hardware, &str)| {
        let kinds = |kind| machine.tiers.iter().any(|tier| tier.kind == kind);
        let words = [
            (TierKind::Hbm, "HBM"),
            (TierKind::Dram, "DRAM"),
            (TierKind::Cxl, "CXL"),
            (TierKind::Nvme, "NVMe"),
            (TierKind::Remote, "remote"),
        ];
        let tiers = words.into_iter().filter(|(kind, _)| kinds(*kind)).map(|(_, word)| word);
        vec![
            clean(&machine.name),
            clean(from),
            tiers.collect::<Vec<_>>().join(" "),
            in_words(machine, &AS_LISTED),
            elide(&machine.about, 90),
        ]
    };
    text_table(2, &[], &machines.iter().map(row).collect::<Vec<_>>())
}

/// The same for programs. A capacity of `null` is no limit.
pub fn hardware_list_json(machines: &[(Hardware, &str)]) -> Result<String, ChartError> {
    let object = |(machine, from): &(Hardware, &str)| {
        let tier = |tier: &Tier| {
            let capacity = tier.capacity.limit().map(|bytes| bytes.get());
            json!({ "name": tier.name, "kind": tier_word(tier.kind), "capacity": capacity })
        };
        json!({
            "name": machine.name,
            "from": from,
            "about": machine.about,
            "device": machine.compute.as_ref().map(|compute| &compute.name),
            "tiers": machine.tiers.iter().map(tier).collect::<Vec<Value>>(),
        })
    };
    pretty(&Value::from(machines.iter().map(object).collect::<Vec<_>>()))
}

/// The machine for people; `routes` are its own.
pub fn hardware_text(machine: &Hardware, routes: &Routes) -> String {
    let tiers = machine.tiers.iter().enumerate().map(|(index, tier)| {
        let Law { setup, rate } = tier.access;
        let capacity = match tier.capacity {
            Capacity::Unlimited => "no limit".to_owned(),
            Capacity::Limited(bytes) => bytes.to_string(),
        };
        let cost = format!("{setup} + bytes at {} GB/s", gb_per_s(rate));
        let asked = if index == 0 { String::new() } else { asked(tier) };
        let loaded = match &tier.loaded {
            Some(loaded) => format!("latency rises with load by up to {}", loaded.most()),
            None => String::new(),
        };
        vec![clean(&tier.name), tier_word(tier.kind).to_owned(), capacity, cost, asked, loaded]
    });
    let title = "tiers: capacity, and what an op pays that uses an object in place";
    let mut sections = vec![(title.to_owned(), tiers.collect::<Vec<_>>())];
    if !machine.nodes.is_empty() {
        let row = |node: &Node| vec![clean(&node.name), node_word(node.kind).to_owned()];
        let rows = machine.nodes.iter().map(row).collect();
        sections.push(("nodes without memory".to_owned(), rows));
    }
    if !machine.links.is_empty() {
        let links = machine.links.iter().map(|link| link_row(machine, link)).collect();
        sections.push(("links: GB/s towards the device / away from it".to_owned(), links));
        let title = "routes of copies to the device; the way back is the same unless shown";
        sections.push((title.to_owned(), route_rows(machine, routes)));
    }
    sections.extend(server::rows(machine));
    if let Some(compute) = &machine.compute {
        let rows = compute.flops.iter().map(|(name, rate)| {
            vec![clean(name), format!("{} TFLOP/s", gb_per_s_of_tera(rate.get()))]
        });
        let title = format!("device: {}, {} per kernel", clean(&compute.name), compute.launch);
        sections.push((title, rows.collect()));
    }
    if let Some(cpu) = &machine.cpu {
        let (flops, memory) = (gb_per_s_of_tera(cpu.flops.get()), gb_per_s(cpu.memory));
        let (name, launch) = (clean(&cpu.name), cpu.launch);
        let title =
            format!("host's processors: {name}, {launch} per op, {flops} TFLOP/s, {memory} GB/s");
        sections.push((title, Vec::new()));
    }
    if let Some(profile) = machine.pressure {
        let title = format!("memory pressure of cases that name no profile: {}", profile.word());
        sections.push((title, Vec::new()));
    }
    let facts = machine.facts.iter().map(|Fact { path, value, source, uncertainty }| {
        let (word, text) = (source.confidence().word(), source.text());
        let doubt = uncertainty.as_ref().map_or(String::new(), |of| format!(", {}", of.words()));
        vec![clean(path), elide(value, MOST_VALUE), format!("{word}{doubt}"), clean(text)]
    });
    let title = format!("numbers and their sources: {}", in_words(machine, &AS_LISTED));
    sections.push((title, facts.collect()));
    let mut out = format!("{}: {}\n", clean(&machine.name), clean(&machine.about));
    for (title, rows) in sections {
        out += &format!("\n{title}\n{}", text_table(2, &[], &rows));
    }
    out
}

fn gb_per_s_of_tera(flops: u64) -> String {
    crate::words::number(flops as f64 / 1e12)
}

fn link_row(machine: &Hardware, link: &Link) -> Vec<String> {
    let ends = [link.near, link.far].map(|node| clean(machine.node_name(node)));
    let kind = link.kind.map_or(String::new(), link_word);
    let rates = [link.read, link.write].map(|law| gb_per_s(law.rate)).join(" / ");
    let setups = match (link.read.setup, link.write.setup) {
        (read, write) if read == write => format!("after {read}"),
        (read, write) => format!("after {read} / {write}"),
    };
    vec![clean(&link.name), ends.join(" - "), kind, rates, setups, served(link)]
}

/// How a link serves, in words.
fn served(link: &Link) -> String {
    link.service.as_ref().map_or("one copy at a time".to_owned(), service)
}

fn service(service: &Service) -> String {
    let mut words = vec![match (service.discipline, service.max_in_flight) {
        (Discipline::Fifo, None) => "one copy at a time".to_owned(),
        (Discipline::Fifo, Some(copies)) => format!("{copies} at a time"),
        (Discipline::FairShare, None) => "shared".to_owned(),
        (Discipline::FairShare, Some(copies)) => format!("shared, {copies} at a time"),
    }];
    let both = service.total.map(|total| format!("both {} GB/s", gb_per_s(total)));
    words.extend(both);
    let details = [&service.read, &service.write];
    let any = |is: fn(&&&tiersim_models::service::Detail) -> bool| details.iter().any(|d| is(&d));
    for (there, word) in [
        (!service.mix.is_empty(), "by mix"),
        (any(|detail| !detail.sizes.is_empty()), "by size"),
        (any(|detail| !detail.depths.is_empty()), "by depth"),
        (any(|detail| detail.tail.is_some()), "with a tail"),
        (any(|detail| detail.cache.is_some()), "with a write cache"),
    ] {
        words.extend(there.then(|| word.to_owned()));
    }
    words.join(", ")
}

/// For each tier: the links to the device with where a copy is stored on the way, and what is the
/// narrowest of them; the way back only where it differs.
fn route_rows(machine: &Hardware, routes: &Routes) -> Vec<Vec<String>> {
    let device = TierId(0);
    let mut rows = Vec::new();
    for tier in machine.tier_ids().filter(|&tier| tier != device) {
        let (there, back) = (routes.between(tier, device), routes.between(device, tier));
        let mirrored = |channels: &[Channel]| -> Vec<_> {
            channels.iter().map(|channel| channel.link).collect()
        };
        let mut reversed = mirrored(back);
        reversed.reverse();
        rows.push(route_row(machine, routes, tier, device));
        if mirrored(there) != reversed {
            rows.push(route_row(machine, routes, device, tier));
        }
    }
    rows
}

fn route_row(machine: &Hardware, routes: &Routes, from: TierId, to: TierId) -> Vec<String> {
    let ends = [from, to].map(|tier| clean(&machine.tiers[tier.index()].name));
    let channels = routes.between(from, to);
    let narrowest = channels.iter().map(|&channel| machine.channel_law(channel).rate).min();
    let narrowest = narrowest.map_or(String::new(), |rate| format!("{} GB/s", gb_per_s(rate)));
    vec![ends.join(" -> "), narrowest, route_in_words(machine, routes, from, to)]
}

/// `nvme-bus, stored in dram, pcie`.
fn route_in_words(machine: &Hardware, routes: &Routes, from: TierId, to: TierId) -> String {
    let mut words = Vec::new();
    for hop in routes.hops(from, to) {
        if let (false, Some(&first)) = (words.is_empty(), hop.first()) {
            let node = machine.channel_ends(first).0;
            words.push(match machine.tier_of(node) {
                Some(_) => format!("stored in {}", clean(machine.node_name(node))),
                None => format!("in pieces at {}", clean(machine.node_name(node))),
            });
        }
        words.extend(hop.iter().map(|channel| clean(&machine.links[channel.link.index()].name)));
    }
    words.join(", ")
}

/// The machine for programs; `routes` are its own. A capacity of `null` is no limit.
pub fn hardware_json(machine: &Hardware, routes: &Routes) -> Result<String, ChartError> {
    let law = |law: Law| json!({ "setup_ps": law.setup.ps(), "bytes_per_s": law.rate.get() });
    let name = |tier: TierId| machine.tiers[tier.index()].name.as_str();
    let tiers = machine.tiers.iter().map(|tier| {
        let capacity = tier.capacity.limit().map(|bytes| bytes.get());
        let (kind, access) = (tier_word(tier.kind), law(tier.access));
        json!({ "name": tier.name, "kind": kind, "capacity": capacity, "access": access })
    });
    let nodes = machine.nodes.iter();
    let nodes = nodes.map(|node| json!({ "name": node.name, "kind": node_word(node.kind) }));
    let links = machine.links.iter().map(|link| {
        json!({
            "name": link.name,
            "near": machine.node_name(link.near),
            "far": machine.node_name(link.far),
            "kind": link.kind.map(link_word),
            "read": law(link.read),
            "write": law(link.write),
            "service": served(link),
        })
    });
    let pairs = machine.tier_ids().flat_map(|from| {
        machine.tier_ids().filter(move |&to| to != from).map(move |to| (from, to))
    });
    // A copy is stored between two hops, each of one or several links.
    let routes = pairs.map(|(from, to)| {
        let link = |channel: &Channel| machine.links[channel.link.index()].name.as_str();
        let hops = routes.hops(from, to).map(|hop| hop.iter().map(link).collect());
        json!({ "from": name(from), "to": name(to), "hops": hops.collect::<Vec<Vec<&str>>>() })
    });
    let all = [
        ("name", json!(machine.name)),
        ("about", json!(machine.about)),
        ("tiers", tiers.collect()),
        ("nodes", nodes.collect()),
        ("links", links.collect()),
        ("routes", routes.collect()),
        ("server", server::json(machine)),
        ("pressure", json!(machine.pressure.map(Profile::word))),
        ("numbers", machine.facts.iter().map(number).collect()),
    ];
    pretty(&all.into_iter().filter(|(_, value)| !value.is_null()).collect::<Value>())
}
