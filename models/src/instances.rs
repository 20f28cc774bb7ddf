//! The links and tiers of several devices of a server, one by one.
//!
//! A hardware file describes the machine as one device sees it; here are all instances that so many
//! devices use. Device r uses instance r / k of what k devices share. Link instances are numbered
//! so that those of the first device come first and keep their numbers, and so are tiers.
//! Invariant: of one device, all is as the file says: same numbers, same machine.

use crate::hardware::{Hardware, Link};
use crate::ids::{NodeId, TierId};

/// What `ranks` devices of a server use.
#[derive(Clone, Debug)]
pub struct Instances {
    ranks: u32,
    hardware: Hardware,
    /// By rank, then by channel of one device: two per link, then one per tier.
    channels: Vec<Vec<usize>>,
    /// By rank, then by tier of one device.
    tiers: Vec<Vec<TierId>>,
    /// By channel: the channel of one device that it is an instance of.
    kinds: Vec<usize>,
}

/// Which instance each of `ranks` devices uses, by rank and thing; and what each instance is of.
fn numbered(sharers: &[u32], ranks: u32) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut of: Vec<usize> = (0..sharers.len()).collect();
    let mut by_rank = vec![of.clone()];
    for rank in 1..ranks as usize {
        let before = &by_rank[rank - 1];
        let own = sharers.iter().enumerate().map(|(thing, &sharers)| {
            if rank % sharers.max(1) as usize != 0 {
                return before[thing];
            }
            of.push(thing);
            of.len() - 1
        });
        let own = own.collect();
        by_rank.push(own);
    }
    (by_rank, of)
}

impl Instances {
    /// The instances of a machine for this many devices, at least one.
    pub fn new(hardware: &Hardware, ranks: u32) -> Instances {
        let ranks = ranks.max(1);
        let server = &hardware.server;
        let sharers: Vec<u32> =
            hardware.tier_ids().map(|tier| server.sharers_of_tier(tier)).collect();
        let (tiers, tier_of) = numbered(&sharers, ranks);
        let ids = (0..hardware.links.len()).map(crate::ids::LinkId::at);
        let sharers: Vec<u32> = ids.map(|link| server.sharers_of_link(link)).collect();
        let (links, link_of) = numbered(&sharers, ranks);
        let mut all = hardware.clone();
        all.tiers = tier_of.iter().map(|&tier| hardware.tiers[tier].clone()).collect();
        all.links = link_of.iter().map(|&link| hardware.links[link].clone()).collect();
        for (own, tiers) in links.iter().zip(&tiers) {
            // A link of several devices ends in the memory of the last of them.
            for (link, &instance) in hardware.links.iter().zip(own) {
                let end = |node: NodeId| match hardware.tier_of(node) {
                    Some(tier) => NodeId::at(tiers[tier.index()]),
                    None => NodeId::at(node.index() + tier_of.len() - hardware.tiers.len()),
                };
                let ends = (end(link.near), end(link.far));
                let Link { near, far, .. } = &mut all.links[instance];
                (*near, *far) = ends;
            }
        }
        let (channels, kinds) =
            channels((&links, &link_of), (&tiers, &tier_of), hardware.links.len());
        let tiers = tiers.iter().map(|own| own.iter().map(|&tier| TierId::at(tier)).collect());
        Instances { ranks, hardware: all, channels, tiers: tiers.collect(), kinds }
    }

    /// How many devices.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// All tiers and links, each as often as it is there. Only they are meant: routes, prescribed
    /// ways and what is shared are those of one device.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The instance of a channel that a device uses; a channel of one device is one of two per
    /// link, or of one per tier behind them.
    pub fn channel(&self, channel: usize, rank: u32) -> usize {
        self.channels[rank as usize][channel]
    }

    /// The channel of one device that an instance is of.
    pub fn kind(&self, instance: usize) -> usize {
        self.kinds[instance]
    }

    /// The tier of one device that an instance is of.
    pub fn tier_kind(&self, instance: usize) -> usize {
        let own_tiers = self.tiers.first().map_or(0, Vec::len);
        let own_links = (self.channels.first().map_or(0, Vec::len) - own_tiers) / 2;
        self.kinds[2 * self.hardware.links.len() + instance] - 2 * own_links
    }

    /// Whether the first device uses this instance of a channel.
    pub fn is_first(&self, instance: usize) -> bool {
        self.channels[0][self.kinds[instance]] == instance
    }

    /// The instance of a tier that a device uses.
    pub fn tier(&self, tier: TierId, rank: u32) -> TierId {
        self.tiers[rank as usize][tier.index()]
    }
}

/// Instances by rank, and what each instance is of.
type Numbered<'n> = (&'n [Vec<usize>], &'n [usize]);

fn channels(
    (links, link_of): Numbered<'_>,
    (tiers, tier_of): Numbered<'_>,
    own_links: usize,
) -> (Vec<Vec<usize>>, Vec<usize>) {
    let of_rank = |(links, tiers): (&Vec<usize>, &Vec<usize>)| {
        let directions = links.iter().flat_map(|link| [2 * link, 2 * link + 1]);
        directions.chain(tiers.iter().map(|tier| 2 * link_of.len() + tier)).collect()
    };
    let by_rank = links.iter().zip(tiers).map(of_rank).collect();
    let directions = link_of.iter().flat_map(|link| [2 * link, 2 * link + 1]);
    let kinds = directions.chain(tier_of.iter().map(|tier| 2 * own_links + tier)).collect();
    (by_rank, kinds)
}
