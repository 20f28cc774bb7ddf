//! Max-min fair sharing of resources by flows that cross one or several of them.
//!
//! Progressive filling: every flow's rate grows with the others until a resource that it crosses is
//! full; its rate is then final. Flows over the same resources form a class and have the same rate,
//! so one counter says what each of them has sent since the class was last empty, and a flow ends
//! when the counter has grown by its size. A change of membership therefore costs the number of
//! classes and the logarithm of the flows, and rates change only then.
//!
//! Rounding: a rate is a whole number of [`GRAINS`]ths of a byte per second, rounded down, so no
//! resource is ever filled above its rate, and what is lost is below one grain per flow and
//! resource. Bytes sent are exact integers of grain picoseconds; nothing is rounded between two
//! changes. A flow ends at the first whole picosecond at which all its bytes have gone: alone on a
//! resource it takes `ceil(bytes * 10^12 / rate)` ps.
//!
//! A flow that stands ([`FairShare::stand`]) is traffic of others: it has its max-min fair share up
//! to what it asks for, and never ends.
//!
//! Invariant: at every moment each flow crosses a full resource on which none is faster.
//! Memory: one heap entry per flow and one counter per class.

use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tiersim_models::service::{Detail, Service};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span, Time};
use tiersim_policies::state::{Remembered, State, remember};

/// Rates are counted in this many parts of a byte per second.
pub const GRAINS: u32 = 1 << GRAIN_BITS;
const GRAIN_BITS: u32 = 20;

/// Names a set of resources that flows cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(pub u16);

impl Remembered for ClassId {
    fn state(&self, out: &mut State) {
        self.0.state(out);
    }
}

/// Resources, and the flows of type `T` that cross them.
#[derive(Debug)]
pub struct FairShare<T> {
    capacities: Vec<Bandwidth>,
    /// By resource: what is reached with how many flows, where that is not the same for all.
    varying: Vec<Option<Varying>>,
    classes: Vec<Class<T>>,
    /// Classes with flows, in the order of their numbers.
    active: Vec<u16>,
    now: Time,
    begun: u64,
    /// Flows came or went at `now`, and the rates do not know it yet.
    stale: bool,
    /// The same, and nobody has asked since when the next flow ends.
    changed: bool,
    /// By resource, while filling: grains that are left, and flows whose rate is not final.
    left: Vec<u128>,
    open: Vec<u64>,
    /// By resource whose rate depends on a mix: the share of fetches among the bytes, once it is
    /// known.
    shares: Vec<Option<u64>>,
}

/// The whole of a mix, and how near a share is found.
const WHOLE: u64 = 1 << 30;
const NEAR: u64 = 1 << 5;
/// By then a share is found, or is where it jumps.
const ROUNDS: u32 = 40;
/// How often each share is found again because others have moved.
const SWEEPS: u32 = 16;

/// What a rate depends on besides the hardware: who is there.
#[derive(Clone, Debug)]
enum Varying {
    /// How many.
    Depth(Box<Detail>),
    /// How much of what is sent crosses the one and the other resource.
    Mix { fetches: usize, evictions: usize, service: Box<Service> },
}

#[derive(Debug)]
struct Class<T> {
    resources: SmallVec<[u16; 4]>,
    /// Grains per second of each of its flows.
    rate: u128,
    /// Grain picoseconds per second that each flow has got since the class was last empty.
    reached: u128,
    flows: BinaryHeap<Flow<T>>,
    /// Whether one more flow is there that never ends.
    stands: bool,
    frozen: bool,
}

impl<T> Class<T> {
    /// How many flows it has.
    fn len(&self) -> usize {
        self.flows.len() + usize::from(self.stands)
    }
}

/// A flow ends when its class has reached `end`. The largest, which a heap gives first, ends first
/// and is the oldest of several.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow<T> {
    end: Reverse<u128>,
    begun: Reverse<u64>,
    item: T,
}

/// Bytes in the unit of [`Class::reached`].
fn work(bytes: Bytes) -> u128 {
    (u128::from(bytes.get()) * u128::from(PS_PER_S)) << GRAIN_BITS
}

/// Division that stays in 64 bits where it can: by far the most frequent case, and the faster one.
fn divided(left: u128, by: u64) -> u128 {
    match u64::try_from(left) {
        Ok(left) => u128::from(left / by),
        Err(_) => left / u128::from(by),
    }
}

impl<T: Ord> FairShare<T> {
    /// Resources of the given rates, and no flows.
    pub fn new(capacities: Vec<Bandwidth>) -> FairShare<T> {
        let resources = capacities.len();
        assert!(resources <= usize::from(u16::MAX), "fewer than 2^16 resources");
        FairShare {
            capacities,
            varying: vec![None; resources],
            classes: Vec::new(),
            active: Vec::new(),
            now: Time::ZERO,
            begun: 0,
            stale: false,
            changed: false,
            left: vec![0; resources],
            open: vec![0; resources],
            shares: vec![None; resources],
        }
    }

    /// Has the rate of a resource depend on how many flows cross it.
    pub fn ramp(&mut self, resource: usize, detail: &Detail) {
        let ramp = (!detail.depths.is_empty()).then(|| Varying::Depth(Box::new(detail.clone())));
        self.varying[resource] = ramp;
        self.stale = true;
    }

    /// Has the rate of a resource depend on the bytes that cross the one and the other of two.
    pub fn mix(&mut self, resource: usize, [fetches, evictions]: [usize; 2], service: &Service) {
        if service.mix.is_empty() {
            return;
        }
        let service = Box::new(service.clone());
        let mix = Varying::Mix { fetches, evictions, service };
        self.varying[resource] = Some(mix);
        self.stale = true;
    }

    /// The class of flows over these resources, which are different ones and at least one.
    pub fn class(&mut self, resources: &[usize]) -> ClassId {
        let mut sorted: SmallVec<[u16; 4]> = resources.iter().map(|&r| r as u16).collect();
        sorted.sort_unstable();
        assert!(!sorted.is_empty(), "a flow crosses something");
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "each resource once");
        assert!(usize::from(sorted[sorted.len() - 1]) < self.capacities.len(), "it exists");
        let known = self.classes.iter().position(|class| class.resources == sorted);
        let index = known.unwrap_or_else(|| {
            let flows = BinaryHeap::new();
            let (rate, reached, stands, frozen) = (0, 0, false, false);
            let class = Class { resources: sorted, rate, reached, flows, stands, frozen };
            self.classes.push(class);
            self.classes.len() - 1
        });
        ClassId(u16::try_from(index).expect("fewer than 2^16 classes"))
    }

    /// One more resource; its number.
    pub fn resource(&mut self, rate: Bandwidth) -> usize {
        let number = self.capacities.len();
        assert!(number < usize::from(u16::MAX), "fewer than 2^16 resources");
        self.capacities.push(rate);
        self.varying.push(None);
        self.left.push(0);
        self.open.push(0);
        self.shares.push(None);
        number
    }

    /// From now on, a flow over these resources never ends and asks for no more than `demand`; a
    /// class of its own, over a resource of its own as well.
    pub fn stand(&mut self, resources: &[usize], demand: Bandwidth) -> ClassId {
        let own = self.resource(demand);
        let resources: SmallVec<[usize; 8]> = resources.iter().copied().chain([own]).collect();
        let class = self.class(&resources);
        self.classes[usize::from(class.0)].stands = true;
        let position = self.active.partition_point(|&active| active < class.0);
        self.active.insert(position, class.0);
        (self.stale, self.changed) = (true, true);
        class
    }

    /// A flow of `bytes` begins.
    pub fn join(&mut self, class: ClassId, bytes: Bytes, item: T, now: Time) {
        self.advance(now);
        let flow = &mut self.classes[usize::from(class.0)];
        if flow.len() == 0 {
            let position = self.active.partition_point(|&active| active < class.0);
            self.active.insert(position, class.0);
        }
        let end = Reverse(flow.reached + work(bytes));
        flow.flows.push(Flow { end, begun: Reverse(self.begun), item });
        self.begun += 1;
        (self.stale, self.changed) = (true, true);
    }

    /// Takes the flows whose bytes have all gone by `now`, in the order in which they began.
    pub fn ended(&mut self, now: Time, ended: &mut Vec<T>) {
        self.advance(now);
        let mut gone: SmallVec<[(u64, T); 4]> = SmallVec::new();
        for &index in &self.active {
            let class = &mut self.classes[usize::from(index)];
            while class.flows.peek().is_some_and(|flow| flow.end.0 <= class.reached) {
                gone.extend(class.flows.pop().map(|flow| (flow.begun.0, flow.item)));
            }
            if class.flows.is_empty() {
                class.reached = 0;
            }
        }
        if !gone.is_empty() {
            (self.stale, self.changed) = (true, true);
            let classes = &self.classes;
            self.active.retain(|&index| classes[usize::from(index)].len() > 0);
            gone.sort_unstable_by_key(|&(begun, _)| begun);
            ended.extend(gone.into_iter().map(|(_, item)| item));
        }
    }

    /// When the next flow ends if none begins before; `None` without flows.
    pub fn next_end(&mut self) -> Option<Time> {
        self.settle();
        self.changed = false;
        let left = |&index: &u16| {
            let class = &self.classes[usize::from(index)];
            let first = class.flows.peek()?;
            Some(first.end.0.saturating_sub(class.reached).div_ceil(class.rate))
        };
        let least = self.active.iter().filter_map(left).min()?;
        let span = u64::try_from(least).expect("a flow ends within 213 days");
        Some(self.now + Span::from_ps(span))
    }

    /// Whether flows came or went since [`FairShare::next_end`] was last asked.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The classes that have flows, and the rate of each of their flows, in grains per second.
    pub fn rates(&mut self) -> impl Iterator<Item = (ClassId, u128)> + '_ {
        self.settle();
        self.active.iter().map(|&index| (ClassId(index), self.classes[usize::from(index)].rate))
    }

    /// The classes that have flows, and what all their flows send together, in bytes per second.
    pub fn sent_by_class(&mut self) -> impl Iterator<Item = (ClassId, u64)> + '_ {
        self.settle();
        self.active.iter().map(|&index| {
            let class = &self.classes[usize::from(index)];
            let grains = class.rate * class.len() as u128;
            (ClassId(index), (grains >> GRAIN_BITS) as u64)
        })
    }

    /// How many flows are under way, those that stand not counted.
    pub fn flows(&self) -> usize {
        self.active.iter().map(|&index| self.classes[usize::from(index)].flows.len()).sum()
    }

    /// What is under way at `now`, and how many bytes of it have not gone, rounded up.
    pub fn under_way(&self, now: Time) -> impl Iterator<Item = (&T, Bytes)> {
        let passed = now.since(self.now).ps();
        let settled = !self.stale || self.flows() == 0;
        assert!(passed == 0 || settled, "no time passes before rates are worked out");
        self.active.iter().flat_map(move |&index| {
            let class = &self.classes[usize::from(index)];
            let reached = class.reached + class.rate * u128::from(passed);
            class.flows.iter().map(move |flow| {
                let left = flow.end.0.saturating_sub(reached).div_ceil(work(Bytes::new(1)));
                (&flow.item, Bytes::new(left as u64))
            })
        })
    }

    /// Lets time pass at the rates that hold until `now`.
    fn advance(&mut self, now: Time) {
        let passed = now.since(self.now).ps();
        if passed > 0 {
            self.settle();
            for &index in &self.active {
                let class = &mut self.classes[usize::from(index)];
                if class.flows.is_empty() {
                    continue;
                }
                class.reached += class.rate * u128::from(passed);
            }
            self.now = now;
        }
    }

    /// Works the rates out afresh, if flows came or went.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.shares.fill(None);
        self.fill();
        if self.varying.iter().any(|varying| matches!(varying, Some(Varying::Mix { .. }))) {
            self.find_shares();
        }
    }

    /// Finds the mixes at which what is sent is what the rates were worked out for: one after the
    /// other while the others stand, until none moves any more.
    fn find_shares(&mut self) {
        for _ in 0..SWEEPS {
            let mut found = true;
            for resource in 0..self.shares.len() {
                found &= self.find_share(resource);
            }
            if found {
                break;
            }
        }
    }

    /// The same of one resource by bisection; whether it was right before. A first guess goes by
    /// the number of flows, which is right where nothing but the mix holds them back.
    fn find_share(&mut self, resource: usize) -> bool {
        let mut bracket = (0, WHOLE);
        for round in 0..ROUNDS {
            let Some((tried, sent)) = self.share(resource) else { return true };
            if tried.abs_diff(sent) <= NEAR {
                return round == 0;
            }
            *(if sent > tried { &mut bracket.0 } else { &mut bracket.1 }) = tried;
            let middle = bracket.0 + (bracket.1 - bracket.0) / 2;
            self.shares[resource] = Some(if round == 0 { sent } else { middle });
            self.fill();
        }
        false
    }

    /// Of a resource that depends on a mix of which there are both parts: the share of fetches that
    /// its rate was worked out for, and the one that is sent.
    fn share(&self, resource: usize) -> Option<(u64, u64)> {
        let Some(Varying::Mix { fetches, evictions, .. }) = self.varying[resource] else {
            return None;
        };
        let mut flows = [0u64; 2];
        let mut rates = [0u128; 2];
        for class in self.active.iter().map(|&index| &self.classes[usize::from(index)]) {
            for (way, channel) in [fetches, evictions].into_iter().enumerate() {
                if class.resources.contains(&(channel as u16)) {
                    flows[way] += class.len() as u64;
                    rates[way] += class.rate * class.len() as u128;
                }
            }
        }
        if flows.contains(&0) {
            return None;
        }
        let by_flows =
            || u128::from(flows[0]) * u128::from(WHOLE) / u128::from(flows[0] + flows[1]);
        let tried = self.shares[resource].unwrap_or_else(|| by_flows() as u64);
        let sent = rates[0] * u128::from(WHOLE) / (rates[0] + rates[1]).max(1);
        Some((tried, sent as u64))
    }

    /// Fills the resources, all open flows alike, until each flow is held back.
    fn fill(&mut self) {
        self.gather();
        let mut unfrozen = self.active.len();
        while unfrozen > 0 {
            let (full, share) = self.bottleneck();
            for &index in &self.active {
                let class = &mut self.classes[usize::from(index)];
                if class.frozen || !class.resources.contains(&full) {
                    continue;
                }
                class.frozen = true;
                class.rate = share;
                unfrozen -= 1;
                let flows = class.len() as u64;
                for &resource in &class.resources {
                    self.left[usize::from(resource)] -= share * u128::from(flows);
                    self.open[usize::from(resource)] -= flows;
                }
            }
        }
    }

    /// Empties every resource that is crossed and counts who crosses it.
    fn gather(&mut self) {
        self.open.fill(0);
        for &index in &self.active {
            let class = &mut self.classes[usize::from(index)];
            class.frozen = false;
            for &resource in &class.resources {
                self.open[usize::from(resource)] += class.len() as u64;
            }
        }
        for (resource, &capacity) in self.capacities.iter().enumerate() {
            let flows = self.open[resource];
            assert!(flows < u64::from(GRAINS), "every flow gets at least one grain");
            let rate = match &self.varying[resource] {
                Some(Varying::Depth(ramp)) if flows > 0 => ramp.rate_at(flows, capacity),
                Some(Varying::Mix { fetches, evictions, service }) if flows > 0 => {
                    let total = match self.shares[resource] {
                        None => service.total_of(self.open[*fetches], self.open[*evictions]),
                        Some(share) => service.total_of(share, WHOLE - share),
                    };
                    total.unwrap_or(capacity)
                }
                _ => capacity,
            };
            self.left[resource] = u128::from(rate.get()) << GRAIN_BITS;
        }
    }

    /// The resource that fills first as all open flows grow alike, the lowest number of several,
    /// and their rate by then.
    fn bottleneck(&self) -> (u16, u128) {
        let crossed = self.open.iter().enumerate().filter(|&(_, &open)| open > 0);
        let share = |(resource, &open)| (divided(self.left[resource], open), resource as u16);
        let (share, resource) = crossed.map(share).min().expect("an open flow crosses something");
        (resource, share)
    }
}

impl<T: Remembered + Ord> Remembered for FairShare<T> {
    /// Everything that decides when flows end.
    fn state(&self, out: &mut State) {
        remember!(out, self as FairShare { stale, changed } skip {
            capacities, varying, classes, active, now, begun,
            // Only while rates are worked out.
            left, open, shares
        });
        out.word(self.capacities.len() as u64);
        (self.flows() > 0).then_some(self.now).state(out);
        out.list(&self.active, |out, &index| {
            let class = &self.classes[usize::from(index)];
            remember!(out, class as Class { resources, stands }
                skip { rate, reached, flows, frozen });
            out.word(index.into());
            if !stale {
                out.wide(class.rate);
            }
            let mut flows: Vec<&Flow<T>> = class.flows.iter().collect();
            flows.sort_unstable_by_key(|flow| Reverse((flow.end, flow.begun)));
            out.list(flows, |out, flow| {
                remember!(out, flow as Flow { item } skip { end, begun });
                // One that has just got all its bytes may be behind what its class has reached.
                out.wide(flow.end.0.wrapping_sub(class.reached));
                out.word(self.begun - flow.begun.0);
            });
        });
    }
}
