//! The auditor's own account of flows over shared links.
//!
//! It is told who begins, who ends, and which rates the machine works with; what may be sent where
//! it takes from the hardware. It follows every flow by itself, where the machine keeps one counter
//! for all flows of a class, and checks after every change: no resource above its rate, every flow
//! held back by a full resource on which none is faster (that is max-min fairness), and at the end
//! of a flow all its bytes sent, and not yet so a picosecond before. Flows of ops cross the tier
//! that they use, too, and by the end of an op the bytes of all its charges that flow have gone.

use super::Breach;
use crate::fair_share::{ClassId, GRAINS};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Channel, HBM, Hardware};
use tiersim_models::ids::TierId;
use tiersim_models::instances::Instances;
use tiersim_models::service::{Detail, Discipline, Service};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Time};
use tiersim_policies::command::Ticket;

/// The bandwidth of a tier that ops use in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) tier: TierId,
    /// Whether it is of what is written beside what is read.
    pub(crate) back: bool,
}

/// The flows under way, by command and class.
#[derive(Debug)]
pub(super) struct Flows {
    /// By channel: its rate, and what is peculiar to it.
    channels: Vec<(Bandwidth, Detail)>,
    /// By link.
    services: Vec<Service>,
    /// By tier: its bandwidth, and the channels to and from each of its devices if what is used
    /// there flows.
    tiers: Vec<(Bandwidth, Option<Vec<Vec<usize>>>)>,
    /// Bytes of flows of ops that have ended, by op and tier.
    used: BTreeMap<(Ticket, TierId), u128>,
    flows: BTreeMap<(Ticket, ClassId), Flow>,
    /// Those of others, which never end, and what each asks for: a resource of its own.
    others: Vec<(Flow, Bandwidth)>,
    now: Time,
}

#[derive(Debug)]
struct Flow {
    class: ClassId,
    resources: SmallVec<[usize; 4]>,
    /// What of a tier an op uses.
    used: Option<Used>,
    rate: u128,
    /// Its rate in the last picosecond that passed.
    last: u128,
    sent: u128,
    bytes: Bytes,
    /// Of an op: the charge of which these are what goes one way.
    of: Bytes,
}

impl Flows {
    /// `one` is the machine as one device sees it.
    pub(super) fn new(one: &Hardware, instances: &Instances) -> Flows {
        let hardware = instances.hardware();
        let channels = hardware.channels().map(|channel| {
            let service = hardware.links[channel.link.index()].service.as_ref();
            let detail = service.map(|service| service.detail(channel.evicting).clone());
            (hardware.channel_law(channel).rate, detail.unwrap_or_default())
        });
        let links = hardware.links.iter();
        let services: Vec<Service> =
            links.map(|link| link.service.clone().unwrap_or_default()).collect();
        let (channels, flows, now) = (channels.collect(), BTreeMap::new(), Time::ZERO);
        let (tiers, used) = (tiers(one, instances), BTreeMap::new());
        let mut account = Flows { channels, services, tiers, used, flows, others: Vec::new(), now };
        for channel in hardware.channels() {
            let link = channel.link.index();
            let shared = account.services[link].discipline == Discipline::FairShare;
            let demand = hardware.links[link].background[usize::from(channel.evicting)];
            let Some(demand) = demand.filter(|_| shared) else { continue };
            let own = account.others.len();
            let bytes = [Bytes::MAX; 2];
            let mut flow = account.flow(ClassId(own as u16), &[channel.index()], None, bytes);
            flow.resources.push(account.first_tier() + 2 * account.tiers.len() + own);
            account.others.push((flow, demand));
        }
        account
    }

    /// Grains per second that may be sent over each channel, and then over each link in both
    /// directions together, by so many flows over each that send `used`.
    fn most(&self, count: &[u64], used: &[u128]) -> Vec<u128> {
        let channels = self.channels.iter().zip(count);
        let channels = channels.map(|((rate, detail), &flows)| detail.rate_at(flows, *rate).get());
        let totals = self.services.iter().enumerate().map(|(link, service)| {
            let [fetched, evicted] = [used[2 * link], used[2 * link + 1]];
            let whole = (fetched + evicted).max(1);
            let share = |part: u128| (part << 30).div_ceil(whole) as u64;
            service.total_of(share(fetched), share(evicted)).map_or(0, Bandwidth::get)
        });
        // What is read, or written alone, and what is written beside that.
        let tiers = || self.tiers.iter().map(|(rate, _)| rate.get());
        let tiers = tiers().chain(tiers());
        let others = self.others.iter().map(|(_, demand)| demand.get());
        let rates = channels.chain(totals).chain(tiers).chain(others);
        rates.map(|rate| u128::from(rate) * u128::from(GRAINS)).collect()
    }

    /// The first resource that is a tier; before come channels, and links in both directions
    /// together.
    fn first_tier(&self) -> usize {
        self.channels.len() + self.services.len()
    }

    pub(super) fn begins(
        &mut self,
        (ticket, class): (Ticket, ClassId),
        channels: &[usize],
        used: Option<Used>,
        bytes: [Bytes; 2],
    ) -> Result<(), Breach> {
        if let Some(Used { tier, .. }) = used {
            let ways = self.tiers[tier.index()].1.as_ref();
            let leads = ways.is_some_and(|ways| ways.iter().any(|way| way == channels));
            rule!(
                leads,
                "{ticket:?} uses {tier:?} over channels {channels:?}, which do not lead there"
            );
        }
        let flow = self.flow(class, channels, used, bytes);
        let before = self.flows.insert((ticket, class), flow);
        rule!(before.is_none(), "{ticket:?} sends twice at once over channels {channels:?}");
        Ok(())
    }

    fn flow(
        &self,
        class: ClassId,
        channels: &[usize],
        used: Option<Used>,
        [bytes, of]: [Bytes; 2],
    ) -> Flow {
        let links = channels.iter().map(|channel| channel / 2);
        let limited = links.filter(|&link| self.services[link].total.is_some());
        let totals = limited.map(|link| self.channels.len() + link);
        let tiers = self.tiers.len();
        let crossed = used.map(|Used { tier, back }| {
            self.first_tier() + tier.index() + if back { tiers } else { 0 }
        });
        let resources = channels.iter().copied().chain(totals).chain(crossed).collect();
        Flow { class, resources, used, rate: 0, last: 0, sent: 0, bytes, of }
    }

    /// The rates that hold from now on.
    pub(super) fn retimed(
        &mut self,
        rates: impl Iterator<Item = (ClassId, u128)>,
    ) -> Result<(), Breach> {
        let rates: BTreeMap<ClassId, u128> = rates.collect();
        let resources = self.first_tier() + 2 * self.tiers.len() + self.others.len();
        let mut used = vec![0u128; resources];
        let mut fastest = vec![0u128; resources];
        let mut count = vec![0u64; resources];
        let others = self.others.iter_mut().map(|(flow, _)| flow);
        for flow in self.flows.values_mut().chain(others) {
            let rate = rates.get(&flow.class).copied();
            flow.rate = rate.ok_or_else(|| Breach(format!("{:?} has no rate", flow.class)))?;
            for &resource in &flow.resources {
                used[resource] += flow.rate;
                fastest[resource] = fastest[resource].max(flow.rate);
                count[resource] += 1;
            }
        }
        let most = self.most(&count, &used);
        let mixed = |resource: usize| {
            let link = resource.checked_sub(self.channels.len());
            link.and_then(|link| self.services.get(link)).is_some_and(|one| !one.mix.is_empty())
        };
        // Where the rates of links follow from what is sent, they are found to a part in 1000.
        let near = |resource: usize| if mixed(resource) { most[resource] / 1000 } else { 0 };
        for (resource, &used) in used.iter().enumerate() {
            let most = most[resource] + near(resource);
            rule!(
                used <= most || used == 0,
                "resource {resource} carries {used} of {most} grains/s"
            );
        }
        for flow in self.flows.values().chain(self.others.iter().map(|(flow, _)| flow)) {
            let holds_back = |&resource: &usize| {
                let sent = used[resource] + u128::from(count[resource]) + near(resource);
                let full = sent > most[resource];
                full && flow.rate == fastest[resource]
            };
            let held_back = flow.resources.iter().any(holds_back);
            let class = flow.class;
            rule!(held_back, "a flow of {class:?} could be faster without slowing a slower one");
        }
        Ok(())
    }

    /// A flow has ended: exactly its bytes have gone.
    pub(super) fn ends(&mut self, ticket: Ticket, class: ClassId) -> Result<(), Breach> {
        let flow = self.flows.remove(&(ticket, class));
        let flow = flow.ok_or_else(|| Breach(format!("flow {ticket:?} ends and never began")))?;
        let Flow { sent, last, bytes, of, used, .. } = flow;
        let work = u128::from(bytes.get()) * u128::from(PS_PER_S) * u128::from(GRAINS);
        rule!(sent >= work, "flow {ticket:?} ends before its {bytes} have gone");
        rule!(sent - last < work, "flow {ticket:?} ends after its {bytes} have gone");
        rule!(bytes <= of, "flow {ticket:?} carries {bytes} of a charge of {of}");
        if let Some(Used { tier, back: false }) = used {
            *self.used.entry((ticket, tier)).or_default() += u128::from(of.get());
        }
        Ok(())
    }

    /// An op has ended: all that it uses in place over shared links has gone.
    pub(super) fn op_ends(
        &mut self,
        op: Ticket,
        charges: &[(TierId, Bytes)],
    ) -> Result<(), Breach> {
        let mut left = self.flows.range((op, ClassId(0))..=(op, ClassId(u16::MAX)));
        rule!(left.next().is_none(), "{op:?} ends before what it sends has gone");
        for tier in (0..self.tiers.len()).map(TierId::at) {
            let charged = charges.iter().filter(|charge| charge.0 == tier);
            let charged: u128 = charged.map(|charge| u128::from(charge.1.get())).sum();
            let wanted = if self.tiers[tier.index()].1.is_some() { charged } else { 0 };
            let gone = self.used.remove(&(op, tier)).unwrap_or(0);
            rule!(gone == wanted, "{op:?} used {gone} bytes of {tier:?} in place, not {wanted}");
        }
        Ok(())
    }

    /// Lets time pass at the rates told last.
    pub(super) fn tick(&mut self, now: Time) {
        let passed = u128::from(now.since(self.now).ps());
        self.now = now;
        if passed > 0 {
            for flow in self.flows.values_mut() {
                flow.sent += flow.rate * passed;
                flow.last = flow.rate;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

/// By tier: its bandwidth, and the channels over which what its devices use there flows.
fn tiers(one: &Hardware, instances: &Instances) -> Vec<(Bandwidth, Option<Vec<Vec<usize>>>)> {
    let routes = one.routes().ok();
    let all = instances.hardware().tiers.iter();
    let mut tiers: Vec<_> = all.map(|tier| (tier.access.rate, None)).collect();
    for tier in one.tier_ids() {
        let routes = routes.as_ref().filter(|routes| one.uses_flow(routes, tier));
        let Some(routes) = routes else { continue };
        for rank in 0..instances.ranks() {
            let channel = |channel: &Channel| instances.channel(channel.index(), rank);
            let channels = |from, to| routes.between(from, to).iter().map(channel).collect();
            let ways: &mut Option<_> = &mut tiers[instances.tier(tier, rank).index()].1;
            ways.get_or_insert_with(Vec::new).extend([channels(tier, HBM), channels(HBM, tier)]);
        }
    }
    tiers
}
