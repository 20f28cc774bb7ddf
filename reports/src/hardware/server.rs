//! What a server has more than one of, as text and as JSON.

use crate::words::clean;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiersim_models::hardware::Hardware;
use tiersim_models::server::Server;

/// Title and rows; `None` for a machine of one device.
pub(super) fn rows(machine: &Hardware) -> Option<(String, Vec<Vec<String>>)> {
    let Server { devices, tiers, links, within, between, .. } = &machine.server;
    if *devices == 1 {
        return None;
    }
    let title = format!("server: {devices} devices; what is not listed each has for itself");
    let shared = |name: &str, by: &u32| vec![clean(name), format!("{by} devices share one")];
    let tiers = tiers.iter().map(|(tier, by)| shared(&machine.tiers[tier.index()].name, by));
    let links = links.iter().map(|(link, by)| shared(&machine.links[link.index()].name, by));
    let meet = [("in the server", within), ("between servers", between)];
    let meet = meet.into_iter().filter_map(|(who, node)| {
        Some(vec![clean(machine.node_name((*node)?)), format!("collectives {who} meet here")])
    });
    Some((title, tiers.chain(links).chain(meet).collect()))
}

/// The devices, and who shares what: names to numbers of devices; `null` for a machine of one.
pub(super) fn json(machine: &Hardware) -> Value {
    let Server { devices, tiers, links, within, between, .. } = &machine.server;
    if *devices == 1 {
        return Value::Null;
    }
    let name = |node: &Option<_>| Some(machine.node_name((*node)?));
    let tiers = tiers.iter().map(|&(tier, by)| (machine.tiers[tier.index()].name.as_str(), by));
    let links = links.iter().map(|&(link, by)| (machine.links[link.index()].name.as_str(), by));
    json!({
        "devices": devices,
        "within": name(within),
        "between": name(between),
        "tiers": tiers.collect::<BTreeMap<_, _>>(),
        "links": links.collect::<BTreeMap<_, _>>(),
    })
}
