//! Shared links: pieces become flows, which have max-min fair rates.
//!
//! Use in place flows beside them (`in_place`). A piece is one flow over all lanes of its hop at
//! once and pays the set-up of each. A copy whose route is one hop is one piece; on any other route
//! each chunk is a flow of its own over each hop. A flow waits until it is first in line on each of
//! its lanes and each has a place, then pays its set-up, which takes a place and no bandwidth, and
//! then its bytes go. Lines are joined on all lanes at the same moment, so the oldest waiting flow
//! is first everywhere: none waits for ever.
//! Invariant: one event is pending for the flow that ends next, and it is set anew only when flows
//! came or went.

use super::entry::Piece;
use super::lanes::Lane;
use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use crate::engine::EventId;
use crate::fair_share::{ClassId, FairShare};
use smallvec::SmallVec;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::TierId;
use tiersim_models::service::Discipline;
use tiersim_models::units::{Bandwidth, Bytes, Span, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::State;

/// The lanes of a flow.
pub(super) type Lanes = SmallVec<[usize; 4]>;

/// What is under way as a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) cargo: Cargo,
    pub(super) class: ClassId,
}

/// Whose bytes a flow carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cargo {
    /// A piece of a copy.
    Piece(Piece),
    /// What an op uses in place (`in_place`).
    Use { op: Ticket, bytes: Bytes },
    /// What a device sends or receives in a collective (`collectives`).
    Sent { op: Ticket, bytes: Bytes },
}

/// The bandwidth of a tier that ops use in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) tier: TierId,
    /// Whether it is of what is written beside what is read.
    pub(crate) back: bool,
}

/// What the flows of a class cross.
#[derive(Debug)]
struct Crossed {
    lanes: Lanes,
    /// What ops use in place; `None` for copies.
    used: Option<Used>,
}

// What a flow keeps in its class's heap, beside two counters.
const _: () = assert!(size_of::<Flight>() <= 64);

/// The flows of a machine, and what each class of them crosses.
#[derive(Debug)]
pub(super) struct Sharing {
    fair: FairShare<Flight>,
    /// By link: the resource of both directions together, if it has one.
    totals: Vec<Option<usize>>,
    /// By tier: the resources of its use in place, once it has been used so.
    tiers: Vec<[Option<usize>; 2]>,
    /// By class: first those of others.
    classes: Vec<Crossed>,
    /// How many classes are of others.
    others: usize,
    next_end: Option<EventId>,
    ended: Vec<Flight>,
}

impl Sharing {
    /// `None` if no link is shared, which those of a machine with collectives are.
    pub(super) fn new(hardware: &Hardware) -> Option<Sharing> {
        let services = || hardware.links.iter().map(|link| link.service.as_ref());
        let is_fair = |discipline| discipline == Discipline::FairShare;
        if !services().flatten().any(|service| is_fair(service.discipline)) {
            return None;
        }
        // A resource per lane, then one for each total.
        let mut rates: Vec<Bandwidth> =
            hardware.lanes().map(|lane| hardware.lane_law(lane).rate).collect();
        let mut add = |total| {
            rates.push(total);
            rates.len() - 1
        };
        let totals: Vec<Option<usize>> =
            services().map(|service| service?.total.map(&mut add)).collect();
        let mut fair = FairShare::new(rates);
        for lane in hardware.lanes() {
            if let Some(service) = &hardware.links[lane.link.index()].service {
                fair.ramp(lane.index(), service.detail(lane.evicting));
            }
        }
        for (link, (service, &total)) in services().zip(&totals).enumerate() {
            if let (Some(service), Some(total)) = (service, total) {
                fair.mix(total, [2 * link, 2 * link + 1], service);
            }
        }
        let mut classes: Vec<Crossed> = Vec::new();
        for lane in hardware.lanes() {
            let link = &hardware.links[lane.link.index()];
            let shared = link.service.as_ref().is_some_and(|service| is_fair(service.discipline));
            let demand = link.others[usize::from(lane.evicting)].filter(|_| shared);
            let Some(demand) = demand else { continue };
            let crossed = [Some(lane.index()), totals[lane.link.index()]];
            let resources: Lanes = crossed.into_iter().flatten().collect();
            let class = fair.stand(&resources, demand);
            assert_eq!(usize::from(class.0), classes.len(), "one class per direction");
            classes.push(Crossed { lanes: SmallVec::from_slice(&[lane.index()]), used: None });
        }
        let (others, next_end, ended) = (classes.len(), None, Vec::new());
        let tiers = vec![[None; 2]; hardware.tiers.len()];
        Some(Sharing { fair, totals, tiers, classes, others, next_end, ended })
    }

    /// The class of flows over these lanes and, where they are of ops, a tier of this bandwidth.
    pub(super) fn class(&mut self, lanes: &[usize], of: Option<(Used, Bandwidth)>) -> ClassId {
        let used = of.map(|(used, _)| used);
        let mut own = self.classes.iter().enumerate().skip(self.others);
        let same = |known: &Crossed| known.used == used && known.lanes.as_slice() == lanes;
        if let Some((known, _)) = own.find(|(_, known)| same(known)) {
            return ClassId(known as u16);
        }
        let totals = lanes.iter().filter_map(|lane| self.totals[lane / 2]);
        let mut resources: SmallVec<[usize; 8]> = lanes.iter().copied().chain(totals).collect();
        if let Some((used, rate)) = of {
            let resource = &mut self.tiers[used.tier.index()][usize::from(used.back)];
            resources.push(*resource.get_or_insert_with(|| self.fair.resource(rate)));
        }
        let class = self.fair.class(&resources);
        assert_eq!(usize::from(class.0), self.classes.len(), "one class per set of resources");
        self.classes.push(Crossed { lanes: lanes.into(), used });
        class
    }

    /// Writes the flows. Classes and resources are only added, each when it is first needed, so the
    /// same number of them are the same.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Sharing { fair, totals: _, tiers: _, classes, others: _, next_end, ended } = self;
        out.word(classes.len() as u64);
        out.flag(next_end.is_some());
        out.list(ended, |out, flight| moment.flight(flight, out));
        fair.state(moment.now, out, |out, flight| moment.flight(flight, out));
    }

    /// What is under way, the lanes that it crosses, and the bytes of it that have not gone.
    pub(super) fn under_way(&self, now: Time) -> impl Iterator<Item = (&Flight, &Lanes, Bytes)> {
        let flows = self.fair.under_way(now);
        flows.map(|(flight, left)| (flight, &self.crossed(flight.class).lanes, left))
    }

    fn crossed(&self, class: ClassId) -> &Crossed {
        &self.classes[usize::from(class.0)]
    }
}

impl SimMachine<'_> {
    pub(super) fn sharing(&mut self) -> &mut Sharing {
        self.sharing.as_mut().expect("a machine with shared lanes shares")
    }

    /// The lanes of a piece that is offered to `lane`.
    fn lanes_of(&mut self, piece: Piece) -> Lanes {
        SmallVec::from_slice(self.entries.progress(piece.ticket).transit.lanes_of(piece.part.hop))
    }

    /// A piece takes its place in the lines of its lanes.
    pub(super) fn queue(&mut self, piece: Piece, lane: usize) -> Result<(), Fault> {
        for lane in self.lanes_of(piece) {
            self.lanes[lane].ready.push_back(piece);
            let Piece { ticket, part } = piece;
            self.check(|audit, now| audit.piece_arrives(lane, ticket, part.bytes, now))?;
        }
        self.admit(SmallVec::from_slice(&[lane]))
    }

    /// Starts every piece that is first in all its lines and finds a place on all its lanes.
    ///
    /// `freed` are the lanes on which something has changed.
    fn admit(&mut self, mut freed: Lanes) -> Result<(), Fault> {
        while let Some(lane) = freed.pop() {
            while let Some(&piece) = self.lanes[lane].ready.front() {
                let lanes = self.lanes_of(piece);
                let may_start = |&lane: &usize| {
                    let Lane { ready, busy, at_once, .. } = &self.lanes[lane];
                    busy < at_once && ready.front().is_some_and(|first| first.is(piece))
                };
                if !lanes.iter().all(may_start) {
                    break;
                }
                self.take_off(piece, lane, &lanes)?;
                freed.extend(lanes.into_iter().filter(|&other| other != lane));
            }
        }
        Ok(())
    }

    /// Bytes per second of all copies and others over a lane, what is used in place not counted.
    pub(super) fn shared_rate(&mut self, lane: usize) -> u64 {
        let Sharing { fair, classes, .. } = &mut **self.sharing.as_mut().expect("it is shared");
        let over = |class: ClassId| {
            let Crossed { lanes, used } = &classes[usize::from(class.0)];
            used.is_none() && lanes.contains(&lane)
        };
        fair.sent_by_class().filter(|(class, _)| over(*class)).map(|(_, rate)| rate).sum()
    }

    /// A piece leaves its lines and starts.
    fn take_off(&mut self, piece: Piece, lane: usize, lanes: &Lanes) -> Result<(), Fault> {
        let now = self.engine.now();
        let mut setup = self.slowed(lanes, piece.part.bytes);
        for &lane in lanes {
            let lane = &mut self.lanes[lane];
            lane.ready.pop_front();
            lane.start(now);
            setup += lane.law.setup;
            if let Some(peculiar) = &lane.peculiar {
                setup += peculiar.fixed(&piece, lane.law.rate, self.seed);
            }
        }
        self.crosses(piece);
        self.begin_first(piece, lane)?;
        let class = self.sharing().class(lanes, None);
        let flight = Flight { cargo: Cargo::Piece(piece), class };
        if setup > Span::ZERO {
            self.engine.schedule_in(setup, ENDS, Event::Flows(flight));
            return Ok(());
        }
        self.flow(flight)
    }

    /// Bytes begin to go.
    pub(super) fn flow(&mut self, flight: Flight) -> Result<(), Fault> {
        let now = self.engine.now();
        let Flight { cargo, class } = flight;
        let (ticket, bytes, of) = match cargo {
            Cargo::Piece(Piece { ticket, part }) => (ticket, part.bytes, part.bytes),
            Cargo::Use { op, bytes } => (op, bytes, self.charge_under_way(op).1),
            Cargo::Sent { op, bytes } => (op, bytes, bytes),
        };
        self.sharing().fair.join(class, bytes, flight, now);
        if self.audit.is_none() {
            return Ok(());
        }
        let Crossed { ref lanes, used } = *self.sharing().crossed(class);
        let lanes = lanes.clone();
        let bytes = [bytes, of];
        self.check(|audit, now| audit.flow_begins((ticket, class), &lanes, used, bytes, now))
    }

    /// Sets the event of the next end, if flows came or went since it was set.
    pub(super) fn retime(&mut self) -> Result<(), Fault> {
        let Some(sharing) = &mut self.sharing else { return Ok(()) };
        if !sharing.fair.has_changed() {
            return Ok(());
        }
        if let Some(pending) = sharing.next_end.take() {
            self.engine.cancel(pending);
        }
        let next = sharing.fair.next_end();
        sharing.next_end = next.map(|at| self.engine.schedule_at(at, ENDS, Event::Landed));
        if let Some(audit) = &mut self.audit {
            let checked = audit.flows_retimed(sharing.fair.rates(), self.engine.now());
            checked.map_err(|breach| Fault::Audit { events: self.engine.events(), breach })?;
        }
        Ok(())
    }

    /// One or several flows have ended.
    pub(super) fn landed(&mut self) -> Result<(), Fault> {
        let now = self.engine.now();
        let sharing = self.sharing();
        sharing.next_end = None;
        let mut ended = std::mem::take(&mut sharing.ended);
        sharing.fair.ended(now, &mut ended);
        for Flight { cargo, class } in ended.drain(..) {
            let lanes = self.sharing().crossed(class).lanes.clone();
            match cargo {
                Cargo::Piece(piece) => self.piece_landed(piece, class, lanes)?,
                Cargo::Use { op, .. } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.use_landed(op)?;
                }
                Cargo::Sent { op, bytes } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.sent(op, &lanes, bytes)?;
                }
            }
        }
        self.sharing().ended = ended;
        Ok(())
    }

    fn piece_landed(&mut self, piece: Piece, class: ClassId, lanes: Lanes) -> Result<(), Fault> {
        self.check(|audit, now| audit.flow_ends(piece.ticket, class, now))?;
        for &lane in &lanes {
            self.leave(lane, piece)?;
        }
        self.arrived(piece)?;
        self.admit(lanes)
    }
}
