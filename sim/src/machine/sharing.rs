//! Shared links: pieces become flows, which have max-min fair rates.
//!
//! Use in place flows beside them (`in_place`). A piece is one flow over all channels of its hop at
//! once and pays the set-up of each. A copy whose route is one hop is one piece; on any other route
//! each chunk is a flow of its own over each hop. A flow waits until it is first in line on each of
//! its channels and each has a place, then pays its set-up, which takes a place and no bandwidth,
//! and then its bytes go. Lines are joined on all channels at the same moment, so the oldest
//! waiting flow is first everywhere: none waits for ever.

use super::moment::Piece;
use super::timed::Timed;
use crate::audit::Used;
use crate::fair_share::ClassId;
use smallvec::SmallVec;
use tiersim_models::hardware::Hardware;
use tiersim_models::service::Discipline;
use tiersim_models::units::{Bandwidth, Bytes, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{Remembered, State, remember};

/// The channels of a flow.
pub(super) type Channels = SmallVec<[usize; 4]>;

/// What is under way as a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flight {
    pub(super) cargo: Cargo,
    pub(super) class: ClassId,
}

/// Whose bytes a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cargo {
    /// A piece of a copy.
    Piece(Piece),
    /// What an op uses in place (`in_place`).
    Use { op: Ticket, bytes: Bytes },
    /// What a device sends or receives in a collective (`collectives`).
    Sent { op: Ticket, bytes: Bytes },
}

remember! { Flight { cargo, class }; }

impl Remembered for Cargo {
    fn state(&self, out: &mut State) {
        match *self {
            Cargo::Piece(piece) => (0u8, piece).state(out),
            Cargo::Use { op, bytes } => (1u8, op, bytes).state(out),
            Cargo::Sent { op, bytes } => (2u8, op, bytes).state(out),
        }
    }
}

/// What the flows of a class cross.
#[derive(Debug)]
pub(super) struct Crossed {
    pub(super) channels: Channels,
    /// What ops use in place; `None` for copies.
    pub(super) used: Option<Used>,
}

// What a flow keeps in its class's heap, beside two counters.
const _: () = assert!(size_of::<Flight>() <= 64);

/// The flows of a machine, and what each class of them crosses.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) flows: Timed<Flight>,
    /// By link: the resource of both directions together, if it has one.
    pub(super) totals: Vec<Option<usize>>,
    /// By tier: the resources of its use in place, once it has been used so.
    pub(super) tiers: Vec<[Option<usize>; 2]>,
    /// By class: first those of others.
    pub(super) classes: Vec<Crossed>,
    /// How many classes are of others.
    pub(super) others: usize,
}

impl Sharing {
    /// `None` if no link is shared, which those of a machine with collectives are.
    pub(super) fn new(hardware: &Hardware) -> Option<Sharing> {
        let services = || hardware.links.iter().map(|link| link.service.as_ref());
        let is_fair = |discipline| discipline == Discipline::FairShare;
        if !services().flatten().any(|service| is_fair(service.discipline)) {
            return None;
        }
        // A resource per channel, then one for each total.
        let mut rates: Vec<Bandwidth> =
            hardware.channels().map(|channel| hardware.channel_law(channel).rate).collect();
        let mut add = |total| {
            rates.push(total);
            rates.len() - 1
        };
        let totals: Vec<Option<usize>> =
            services().map(|service| service?.total.map(&mut add)).collect();
        let mut flows = Timed::new(rates);
        let fair = &mut flows.fair;
        for channel in hardware.channels() {
            if let Some(service) = &hardware.links[channel.link.index()].service {
                fair.ramp(channel.index(), service.detail(channel.evicting));
            }
        }
        for (link, (service, &total)) in services().zip(&totals).enumerate() {
            if let (Some(service), Some(total)) = (service, total) {
                fair.mix(total, [2 * link, 2 * link + 1], service);
            }
        }
        let mut classes: Vec<Crossed> = Vec::new();
        for channel in hardware.channels() {
            let link = &hardware.links[channel.link.index()];
            let shared = link.service.as_ref().is_some_and(|service| is_fair(service.discipline));
            let demand = link.background[usize::from(channel.evicting)].filter(|_| shared);
            let Some(demand) = demand else { continue };
            let crossed = [Some(channel.index()), totals[channel.link.index()]];
            let resources: Channels = crossed.into_iter().flatten().collect();
            let class = fair.stand(&resources, demand);
            assert_eq!(usize::from(class.0), classes.len(), "one class per direction");
            classes
                .push(Crossed { channels: SmallVec::from_slice(&[channel.index()]), used: None });
        }
        let (others, tiers) = (classes.len(), vec![[None; 2]; hardware.tiers.len()]);
        Some(Sharing { flows, totals, tiers, classes, others })
    }

    /// The class of flows over these channels and, where they are of ops, a tier of this bandwidth.
    pub(super) fn class(&mut self, channels: &[usize], of: Option<(Used, Bandwidth)>) -> ClassId {
        let used = of.map(|(used, _)| used);
        let mut own = self.classes.iter().enumerate().skip(self.others);
        let same = |known: &Crossed| known.used == used && known.channels.as_slice() == channels;
        if let Some((known, _)) = own.find(|(_, known)| same(known)) {
            return ClassId(known as u16);
        }
        let totals = channels.iter().filter_map(|channel| self.totals[channel / 2]);
        let mut resources: SmallVec<[usize; 8]> = channels.iter().copied().chain(totals).collect();
        if let Some((used, rate)) = of {
            let resource = &mut self.tiers[used.tier.index()][usize::from(used.back)];
            resources.push(*resource.get_or_insert_with(|| self.flows.fair.resource(rate)));
        }
        let class = self.flows.fair.class(&resources);
        assert_eq!(usize::from(class.0), self.classes.len(), "one class per set of resources");
        self.classes.push(Crossed { channels: channels.into(), used });
        class
    }

    /// What is under way, the channels that it crosses, and the bytes of it that have not gone.
    pub(super) fn under_way(&self, now: Time) -> impl Iterator<Item = (&Flight, &Channels, Bytes)> {
        let flows = self.flows.fair.under_way(now);
        flows.map(|(flight, left)| (flight, &self.crossed(flight.class).channels, left))
    }

    pub(super) fn crossed(&self, class: ClassId) -> &Crossed {
        &self.classes[usize::from(class.0)]
    }
}

impl Remembered for Sharing {
    /// Classes and resources are only added, each when it is first needed, so the same number of
    /// them are the same.
    fn state(&self, out: &mut State) {
        remember!(out, self as Sharing { flows } skip { totals, tiers, classes, others });
        out.word(self.classes.len() as u64);
    }
}
