//! What ops on the host's processors pay for memory that is further from them than their own: tiers
//! of kind `cxl` behind a link that is slower than what kernels reach in DRAM.
//!
//! An op's own duration has all its bytes at [`Cpu::memory`]. Of so many bytes in such a tier it
//! takes longer by the time that the links between there and DRAM need, less the time that the
//! duration has for them. What is read and what is written go at the same time, as far as a link
//! carries both.
//!
//! [`Cpu::memory`]: crate::server::Cpu::memory

use crate::hardware::{Channel, HBM, Hardware, TierKind};
use crate::ids::TierId;
use crate::routes::Routes;
use crate::service::Service;
use crate::units::{Bandwidth, Span};

/// How the host's processors reach a tier that is further than their DRAM.
#[derive(Clone, Debug)]
pub struct FarMemory {
    /// What the slowest link on the way carries, for reads and for writes.
    ways: [Bandwidth; 2],
    /// The links on the way, and whether reads leave the device over them.
    links: Vec<(Service, bool)>,
    /// What an op's duration counts with.
    memory: Bandwidth,
    /// Whether all devices of a server have one such tier, and not one each.
    pub is_shared: bool,
}

impl FarMemory {
    /// What an op takes longer that reads and writes so many bytes there.
    pub fn excess(&self, [read, written]: [u64; 2]) -> Span {
        let ways = self.ways.iter().zip([read, written]).map(|(rate, bytes)| rate.span_of(bytes));
        let both = self.links.iter().filter_map(|(service, turned)| match turned {
            true => service.total_of(written, read),
            false => service.total_of(read, written),
        });
        let all = read + written;
        let takes = ways.chain(both.map(|rate| rate.span_of(all))).max().unwrap_or(Span::ZERO);
        Span::from_ps(takes.ps().saturating_sub(self.memory.span_of(all).ps()))
    }
}

impl Hardware {
    /// The tiers of the host's memory that are further than its DRAM, and how its processors reach
    /// them. `routes` must be this machine's.
    pub fn far_memory(&self, routes: &Routes) -> Vec<(TierId, FarMemory)> {
        let is = |tier: TierId, kind| tier != HBM && self.tiers[tier.index()].kind == kind;
        let near = self.tier_ids().find(|&tier| is(tier, TierKind::Dram));
        let reach = |tier: TierId| {
            let (cpu, near) = (self.cpu.as_ref()?, near?);
            let there = |from, to| routes.between(from, to).iter();
            let rate = |&channel: &Channel| self.channel_law(channel).rate;
            let ways = [there(tier, near).map(rate).min()?, there(near, tier).map(rate).min()?];
            let links = there(tier, near).filter_map(|channel| {
                let link = &self.links[channel.link.index()];
                Some((link.service.clone()?, channel.evicting))
            });
            let (links, is_shared) = (links.collect(), self.server.sharers_of_tier(tier) > 1);
            Some((tier, FarMemory { ways, links, memory: cpu.memory, is_shared }))
        };
        self.tier_ids().filter(|&tier| is(tier, TierKind::Cxl)).filter_map(reach).collect()
    }
}
