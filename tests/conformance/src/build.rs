//! Small machines and traces, written out by hand in tests.

use crate::prelude::*;
use std::num::NonZeroU32;
use tiersim_models::hardware::Tier;
use tiersim_models::workload::{Object, Op, TraceMeta, Use};
use tiersim_policies::command::{Edge, ObjectAccess};

/// A byte per picosecond, in bytes per second.
pub const ONE: u64 = PS_PER_S;

/// The tier behind HBM.
pub const FAR: TierId = TierId(1);

/// Copies an object to HBM for the op that comes next.
pub fn fetch(object: ObjectId) -> Action {
    Action::Fetch { object, to: HBM }
}

/// Copies an object to HBM ahead of its use.
pub fn prefetch(object: ObjectId) -> Action {
    Action::Prefetch { object, to: HBM }
}

/// Bytes per picosecond.
pub fn rate(per_ps: u64) -> Bandwidth {
    Bandwidth::new(per_ps * ONE).expect("a rate above zero")
}

/// A tier without limits.
pub fn free(kind: TierKind) -> (TierKind, Capacity, Law) {
    (kind, Capacity::Unlimited, law(0, u64::MAX))
}

/// `setup` picoseconds plus bytes at `rate` bytes per second.
pub fn law(setup: u64, rate: u64) -> Law {
    Law { setup: Span::from_ps(setup), rate: Bandwidth::new(rate).expect("a rate above zero") }
}

/// A shared link's service: copies of a direction at once, and bytes per second of both together.
pub fn fair(max_in_flight: Option<u32>, total: Option<u64>) -> Option<Service> {
    let max_in_flight = max_in_flight.and_then(NonZeroU32::new);
    let total = total.and_then(Bandwidth::new);
    Some(Service { discipline: Discipline::FairShare, max_in_flight, total, ..Service::default() })
}

/// A machine of the given tiers (kind, capacity, access) and links (near, far, both directions).
pub fn hardware<C: Copy + Into<Capacity>>(
    tiers: &[(TierKind, C, Law)],
    links: &[(usize, usize, Law)],
) -> Hardware {
    let tier = |(index, &(kind, capacity, access)): (usize, &(TierKind, C, Law))| Tier {
        name: format!("t{index}"),
        kind,
        capacity: capacity.into(),
        access,
        loaded: None,
        requests: Default::default(),
    };
    let link = |(index, &(near, far, law)): (usize, &(usize, usize, Law))| {
        Link::new(format!("l{index}"), (NodeId::at(near), NodeId::at(far)), [law; 2])
    };
    Hardware {
        name: "test".to_owned(),
        about: String::new().into(),
        tiers: tiers.iter().enumerate().map(tier).collect(),
        nodes: Vec::new(),
        links: links.iter().enumerate().map(link).collect(),
        routes: Vec::new(),
        compute: None,
        chunk: Bytes::mib(4),
        hidden: Vec::new(),
        facts: Default::default(),
        economics: Default::default(),
        server: Default::default(),
        cpu: None,
        pressure: None,
    }
}

/// What an op does that takes no part in any plan: its place in the durations, its stream, what it
/// touches and what it is charged for.
pub fn computing(
    occurrence: u64,
    stream: u16,
    touches: impl IntoIterator<Item = ObjectAccess>,
    charges: impl IntoIterator<Item = (TierId, Bytes)>,
) -> Work {
    let (touches, charges) = (touches.into_iter().collect(), charges.into_iter().collect());
    let (delay, allocating) = (Span::ZERO, Default::default());
    Work::Compute { occurrence, stream, touches, charges, delay, allocating }
}

/// A command of no plan, which starts when another has ended, if one is named.
pub fn command(ticket: usize, work: Work, after: Option<usize>) -> Command {
    let edge = |ticket: usize| Edge { ticket: Ticket(ticket as u32), hazard: Hazard::IssueOrder };
    let after = after.into_iter().map(edge).collect();
    let (allocates, frees) = Default::default();
    Command { ticket: Ticket(ticket as u32), work, after, allocates, frees }
}

/// HBM of the given capacity, and an unlimited second tier behind one link of law `link`.
pub fn two_tiers(hbm: impl Into<Capacity>, link: Law) -> Hardware {
    let free = law(0, u64::MAX);
    let tiers = [(TierKind::Hbm, hbm.into(), free), (TierKind::Dram, Capacity::Unlimited, link)];
    hardware(&tiers, &[(0, 1, link)])
}

/// A trace under construction.
#[derive(Debug)]
pub struct Traced(pub Trace);

impl Default for Traced {
    fn default() -> Traced {
        Traced::new()
    }
}

impl Traced {
    /// Nothing yet.
    pub fn new() -> Traced {
        Traced(Trace {
            meta: TraceMeta {
                name: "test".to_owned(),
                about: String::new(),
                precision: "fp32".to_owned(),
                batch: 1,
                sequence: 1,
                ..TraceMeta::default()
            },
            modules: Vec::new(),
            objects: Vec::new(),
            ops: Vec::new(),
            uses: Vec::new(),
        })
    }

    /// Adds an object of a kind that goes with how long it lives.
    pub fn object(&mut self, bytes: u64, persistent: bool) -> ObjectId {
        let name = format!("o{}", self.0.objects.len());
        let kind = if persistent { ObjectKind::Weight } else { ObjectKind::Activation };
        let plain = Object::new(name, kind, Bytes::new(bytes));
        self.add(Object { dtype: "uint8".to_owned(), persistent, ..plain })
    }

    /// Adds any object.
    pub fn add(&mut self, object: Object) -> ObjectId {
        self.0.objects.push(object);
        ObjectId::at(self.0.objects.len() - 1)
    }

    /// Objects that persist, each read by an op of its own: one after the other, or each on a
    /// stream of its own.
    pub fn reads<const N: usize>(bytes: [u64; N], apart: bool) -> (Traced, [ObjectId; N]) {
        let mut traced = Traced::new();
        let objects = bytes.map(|bytes| traced.object(bytes, true));
        for (index, &object) in objects.iter().enumerate() {
            let stream = if apart { index as u16 } else { 0 };
            traced.op(0, stream, Span::ZERO, &[(object, Mode::Read)]);
        }
        (traced, objects)
    }

    /// Adds an op of step 0 on stream 0 that runs on `unit`, and `span` long.
    pub fn on(&mut self, unit: Unit, span: Span, uses: &[(ObjectId, Mode)]) -> OpId {
        let id = self.op(0, 0, span, uses);
        self.0.ops[id.index()].unit = unit;
        id
    }

    /// Adds an op that takes `span` by the recording's clock.
    pub fn op(&mut self, step: u32, stream: u16, span: Span, uses: &[(ObjectId, Mode)]) -> OpId {
        let name = format!("op{}", self.0.ops.len());
        let plain = Op::new(step, Phase::Other, name, 0..0);
        self.run(Op { stream, duration: Some(span), ..plain }, uses)
    }

    /// Adds any op.
    pub fn run(&mut self, op: Op, uses: &[(ObjectId, Mode)]) -> OpId {
        let at = |uses: usize| u32::try_from(uses).expect("a small trace");
        let start = at(self.0.uses.len());
        self.0.uses.extend(uses.iter().map(|&(object, mode)| Use::whole(object, mode)));
        self.0.ops.push(Op { uses: start..at(self.0.uses.len()), ..op });
        OpId::at(self.0.ops.len() - 1)
    }

    /// Bytes of all objects that are used.
    pub fn bytes(&self, uses: &[(ObjectId, Mode)]) -> Bytes {
        uses.iter().map(|(object, _)| self.0.objects[object.index()].bytes).sum()
    }
}
