//! Reads how many devices a server has, what they share, and where their collectives meet.
//!
//! Invariant: the routes of a returned machine's collectives cross shared links only and pass no
//! memory, and every number of sharers divides the number of devices, and that of the tier where a
//! link ends.

use super::raw::RawHardware;
use super::resolver::Resolver;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{LinkId, NodeId};
use tiersim_models::server::{MAX_DEVICES, Server};

impl Resolver<'_> {
    /// The server. Tiers that are joined to the device by themselves are shared with their links.
    pub(super) fn server(&mut self, raw: &RawHardware, hardware: &Hardware) -> Server {
        let mut server = Server::default();
        let shared = |devices: Option<u32>| devices.filter(|&devices| devices != 1);
        let tiers = raw.tiers.iter().zip(hardware.tier_ids());
        server.tiers = tiers.filter_map(|(tier, id)| Some((id, shared(tier.devices)?))).collect();
        for (index, link) in hardware.links.iter().enumerate() {
            let by = match raw.links.get(index) {
                Some(raw) => shared(raw.devices),
                None => hardware.tier_of(link.far).map(|tier| server.sharers_of_tier(tier)),
            };
            server.links.extend(by.filter(|&by| by != 1).map(|by| (LinkId::at(index), by)));
        }
        if let Some(own) = &raw.server {
            server.devices = own.devices;
            if !(1..=MAX_DEVICES).contains(&own.devices) {
                let rule = format!("a server has 1 to {MAX_DEVICES} devices");
                self.check.fault("server.devices", rule, "write how many it has");
            }
            server.within = self.meeting("server.within", own.within.as_deref(), raw, hardware);
            server.between = self.meeting("server.between", own.between.as_deref(), raw, hardware);
            if server.within.is_some() && server.within == server.between {
                let rule = "devices of one server and of several meet in different nodes";
                self.check.fault("server.between", rule, "name another node, or leave it out");
            }
        }
        if self.whole {
            self.sharer_rules(&server, hardware);
        }
        server
    }

    /// Where collectives meet.
    fn meeting(
        &mut self,
        path: &str,
        name: Option<&str>,
        raw: &RawHardware,
        hardware: &Hardware,
    ) -> Option<NodeId> {
        let node = self.end(path, name?, raw)?;
        let route = hardware.way_out(node).unwrap_or_default();
        if route.is_empty() {
            let rule = "no links lead from the device to where its collectives meet";
            self.check.fault(path, rule, "name another node, or add links to it");
            return None;
        }
        for &channel in &route {
            let (_, to) = hardware.channel_ends(channel);
            if to != node && hardware.tier_of(to).is_some() {
                let tier = hardware.node_name(to);
                let rule = format!("the route of collectives passes the memory of `{tier}`");
                self.check.fault(path, rule, "name a node before it, or add links beside it");
            }
            if !hardware.is_shared(channel) {
                let link = &hardware.links[channel.link.index()].name;
                let rule = format!("collectives share links, and `{link}` has copies in turn");
                self.check.fault(path, rule, "write `service: fair_share` at that link");
            }
        }
        Some(node)
    }

    fn sharer_rules(&mut self, server: &Server, hardware: &Hardware) {
        let divides = |by: u32, all: u32| by > 0 && all.is_multiple_of(by);
        for &(tier, by) in &server.tiers {
            let path = format!("tiers.{}.devices", tier.index());
            if tier == HBM {
                let remedy = "leave `devices` out here";
                self.check.fault(&path, "each device has its own first tier", remedy);
            } else if !divides(by, server.devices) {
                self.indivisible(&path, by, server.devices);
            }
        }
        for &(link, by) in &server.links {
            // One that was added with its tier is the tier's business.
            let path = format!("links.{}.devices", link.index());
            if self.check.document.value(&path).is_some() && !divides(by, server.devices) {
                self.indivisible(&path, by, server.devices);
            }
        }
        for (index, link) in hardware.links.iter().enumerate() {
            let by = server.sharers_of_link(LinkId::at(index));
            let ends = [link.near, link.far].into_iter().filter_map(|end| hardware.tier_of(end));
            for tier in ends.filter(|&tier| tier != HBM) {
                let all = server.sharers_of_tier(tier);
                if !divides(by, all) {
                    let name = &hardware.tiers[tier.index()].name;
                    let rule = format!(
                        "{by} devices share link `{}` and {all} share tier `{name}` at its end: the \
                         first number divides the second",
                        link.name
                    );
                    let remedy = "let no more devices share the link than the tier";
                    self.check.fault(&format!("links.{index}"), rule, remedy);
                }
            }
        }
    }

    fn indivisible(&mut self, path: &str, by: u32, devices: u32) {
        let rule =
            format!("{by} devices cannot share what {devices} devices of a server use alike");
        let remedy = "write a number that divides `devices` of `server`, which is 1 if left out";
        self.check.fault(path, rule, remedy);
    }
}
