//! When copies and ops would end if everything took as long as planned.
//!
//! A model of the machine good enough to decide by: channels in order of submission, streams in
//! order, room given back when what holds it ends. It is fed with decisions only, never with what a
//! run measures, so that the same workload gives the same plan everywhere. Times are picoseconds.
//! Invariant: estimates change what is worth doing and when, never what is allowed.

use crate::recipe::Setting;
use crate::state::{Remembered, State};
use crate::visits::streams;
use std::collections::VecDeque;
use tiersim_models::hardware::Law;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;

/// Estimated times of what has been decided so far.
#[derive(Debug)]
pub(super) struct Estimate {
    spans: Vec<u64>,
    /// By stream: when its last op ends.
    streams: Vec<u64>,
    /// By op: when it ended last.
    ops: Vec<u64>,
    channels: Channels,
    room: Headroom,
    /// By object: when its contents in HBM are complete, when nobody uses them any more, and when
    /// the copy out that is under way ends.
    ready: Vec<u64>,
    used: Vec<u64>,
    copied: Vec<u64>,
    /// By tier: what use in place takes.
    in_place: Vec<Law>,
    /// What the op that is planned pays for that.
    delay: u64,
}

impl Remembered for Estimate {
    /// The times that are not over for every stream; those that are make no difference.
    fn state(&self, out: &mut State) {
        // An op waits for earlier ones of its own replay only, so when each ended is no matter.
        let Estimate { spans: _, streams, ops: _, channels, room, ready, used, copied, .. } = self;
        let now = streams.iter().copied().min().unwrap_or(0);
        for times in [streams, &channels.free, ready, used, copied] {
            times.iter().for_each(|&at| out.word(at.saturating_sub(now)));
        }
        // As the next op settles them.
        let mut room = room.clone();
        room.settle(now);
        out.word(room.ready);
        out.list(&room.credits, |out, &(bytes, at)| (bytes, at.saturating_sub(now)).state(out));
    }
}

impl Estimate {
    pub(super) fn new(setting: &Setting<'_>, room: Bytes) -> Result<Estimate, String> {
        let trace = &setting.workload.trace;
        let objects = trace.objects.len();
        Ok(Estimate {
            spans: setting.spans.iter().map(|span| span.ps()).collect(),
            streams: vec![0; streams(trace)],
            ops: vec![0; trace.ops.len()],
            channels: Channels::new(setting)?,
            room: Headroom { ready: room.get(), credits: VecDeque::new() },
            ready: vec![0; objects],
            used: vec![0; objects],
            copied: vec![0; objects],
            in_place: setting.hardware.tiers.iter().map(|tier| tier.access).collect(),
            delay: 0,
        })
    }

    /// An object is in HBM from the start.
    pub(super) fn start_inside(&mut self, bytes: Bytes) {
        self.room.allocate(bytes.get());
    }

    /// When the decisions of an op on this stream take effect.
    pub(super) fn turn(&mut self, stream: u16) -> u64 {
        let turn = self.streams[usize::from(stream)];
        self.room.settle(self.streams.iter().copied().min().unwrap_or(0));
        turn
    }

    /// When an op ends that needs these objects, unless it waits for room.
    pub(super) fn end(&self, op: usize, turn: u64, needs: impl Iterator<Item = ObjectId>) -> u64 {
        let arrived = needs.map(|object| self.ready[object.index()]);
        arrived.fold(turn, u64::max).saturating_add(self.spans[op]).saturating_add(self.delay)
    }

    /// When the copies of an object in HBM end that are under way, to it and from it.
    pub(super) fn settled(&self, object: ObjectId) -> u64 {
        self.copied[object.index()].max(self.ready[object.index()])
    }

    /// When a copy begins that waits for nothing but its channels.
    pub(super) fn begins(&self, turn: u64, from: TierId, to: TierId) -> u64 {
        let channels =
            self.channels.route(from, to).iter().map(|&(channel, _)| self.channels.free[channel]);
        channels.fold(turn, u64::max)
    }

    /// How long a copy takes that is alone.
    pub(super) fn span(&self, from: TierId, to: TierId, bytes: Bytes) -> u64 {
        let route = self.channels.route(from, to);
        route.iter().map(|(_, law)| law.span_of(bytes).ps()).max().unwrap_or(0)
    }

    /// How long a use of so many bytes takes where they are.
    pub(super) fn in_place(&self, tier: TierId, bytes: Bytes) -> u64 {
        self.in_place[tier.index()].span_of(bytes).ps()
    }

    /// The op that is planned uses so many bytes where they are.
    pub(super) fn delay(&mut self, tier: TierId, bytes: Bytes) {
        self.delay = self.delay.saturating_add(self.in_place(tier, bytes));
    }

    /// Copies an object out of HBM, where it stays.
    pub(super) fn copy_out(
        &mut self,
        object: ObjectId,
        from: TierId,
        to: TierId,
        bytes: Bytes,
        turn: u64,
    ) {
        let ready = turn.max(self.ready[object.index()]);
        self.copied[object.index()] = self.channels.copy(from, to, bytes, ready);
    }

    /// Brings an object into HBM.
    pub(super) fn bring(
        &mut self,
        object: ObjectId,
        from: TierId,
        to: TierId,
        bytes: Bytes,
        turn: u64,
    ) {
        let room = self.room.allocate(bytes.get());
        let ready = turn.max(room).max(self.copied[object.index()]);
        self.ready[object.index()] = self.channels.copy(from, to, bytes, ready);
    }

    /// Gives an object's room in HBM back, as soon as the copy out and its users have ended.
    pub(super) fn leave(&mut self, object: ObjectId, bytes: Bytes) {
        let at = self.settled(object).max(self.used[object.index()]);
        self.room.give_back(bytes.get(), at);
    }

    /// Runs an op: what it creates, uses and changes, and what ends with it.
    pub(super) fn run(&mut self, occurrence: u64, workload: &Workload) -> u64 {
        let id = OpId::at((occurrence % self.ops.len() as u64) as usize);
        let op = &workload.trace.ops[id.index()];
        let mut start = self.streams[usize::from(op.stream)];
        for &object in workload.births(id) {
            start =
                start.max(self.room.allocate(workload.trace.objects[object.index()].bytes.get()));
            let object = object.index();
            (self.ready[object], self.used[object], self.copied[object]) = (0, 0, 0);
        }
        for touched in workload.trace.uses_of(id) {
            let object = touched.object.index();
            start = start.max(self.ready[object]);
            if touched.mode.writes() {
                start = start.max(self.copied[object]).max(self.used[object]);
            }
        }
        start = op.after.iter().fold(start, |start, before| start.max(self.ops[before.index()]));
        let delay = std::mem::take(&mut self.delay);
        let end = start.saturating_add(self.spans[id.index()]).saturating_add(delay);
        (self.streams[usize::from(op.stream)], self.ops[id.index()]) = (end, end);
        for touched in workload.trace.uses_of(id) {
            let object = touched.object.index();
            self.used[object] = self.used[object].max(end);
            if touched.mode.writes() {
                self.ready[object] = end;
            }
        }
        for &object in workload.releases(id) {
            self.used[object.index()] = self.used[object.index()].max(end);
        }
        end
    }
}

/// Copies on their routes.
#[derive(Debug)]
struct Channels {
    tiers: usize,
    chunk: Bytes,
    /// By pair of tiers.
    routes: Vec<Vec<(usize, Law)>>,
    /// By channel: when what was submitted has left it.
    free: Vec<u64>,
}

impl Channels {
    fn new(setting: &Setting<'_>) -> Result<Channels, String> {
        let hardware = setting.hardware;
        let routes = hardware.routes().map_err(|none| none.to_string())?;
        let way = |from, to| {
            let channels = routes.between(from, to).iter();
            channels.map(|&channel| (channel.index(), hardware.channel_law(channel))).collect()
        };
        let pairs = hardware.tier_ids().flat_map(|a| hardware.tier_ids().map(move |b| (a, b)));
        Ok(Channels {
            tiers: hardware.tiers.len(),
            chunk: hardware.chunk,
            routes: pairs.map(|(from, to)| way(from, to)).collect(),
            free: vec![0; 2 * hardware.links.len()],
        })
    }

    fn route(&self, from: TierId, to: TierId) -> &[(usize, Law)] {
        &self.routes[from.index() * self.tiers + to.index()]
    }

    /// The end of a copy that is ready at some time. Copies enter their first channel in order, and
    /// on the others take what time they need among those that are there.
    fn copy(&mut self, from: TierId, to: TierId, bytes: Bytes, ready: u64) -> u64 {
        let route = &self.routes[from.index() * self.tiers + to.index()];
        let mut start = ready;
        let mut end = ready;
        for (hop, &(channel, law)) in route.iter().enumerate() {
            let free = &mut self.free[channel];
            let span = |bytes| law.span_of(bytes).ps();
            if hop == 0 {
                start = start.max(*free);
                *free = start.saturating_add(span(bytes));
                end = *free;
            } else {
                *free = ready.max(*free).saturating_add(span(bytes));
                end = end.max(start.saturating_add(span(bytes))).max(*free);
            }
            start = start.saturating_add(span(bytes.min(self.chunk)));
        }
        end
    }
}

/// Headroom in HBM: what was never used, and what is free at some time, oldest first.
#[derive(Clone, Debug)]
struct Headroom {
    ready: u64,
    credits: VecDeque<(u64, u64)>,
}

impl Headroom {
    fn settle(&mut self, now: u64) {
        while self.credits.front().is_some_and(|credit| credit.1 <= now) {
            let (bytes, _) = self.credits.pop_front().expect("there is a first credit");
            self.ready = self.ready.saturating_add(bytes);
        }
    }

    fn give_back(&mut self, bytes: u64, at: u64) {
        self.credits.push_back((bytes, at));
    }

    /// When so much is free. More than there is can be asked for where the tier's allocator
    /// rounds, or where something has left that was not decided here.
    fn allocate(&mut self, bytes: u64) -> u64 {
        let ready = bytes.min(self.ready);
        self.ready -= ready;
        let mut missing = bytes - ready;
        let mut at = 0;
        while missing > 0 {
            let Some(credit) = self.credits.front_mut() else { break };
            let part = missing.min(credit.0);
            at = at.max(credit.1);
            missing -= part;
            credit.0 -= part;
            if credit.0 == 0 {
                self.credits.pop_front();
            }
        }
        at
    }
}
