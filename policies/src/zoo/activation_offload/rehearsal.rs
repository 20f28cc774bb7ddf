//! How long a plan would take: the whole of it, on a machine of the laws alone.
//!
//! The planner plans the run with the policy, as it will, and every command ends as soon as what it
//! waits for has ended and its stream or its channels are free. So what hides under compute, what
//! waits for room, and what all layers make of the idle time of one link is counted, not assumed.
//! Channels serve in the order of submission; queues, sharing and jitter are left to the simulator.
//! Invariant: the figure depends on the setting only.

use crate::command::{Command, Ticket, Work};
use crate::cpu_ops;
use crate::planner::Planner;
use crate::policy::Policy;
use crate::recipe::Setting;
use crate::visits::streams;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tiersim_models::hardware::Memory;
use tiersim_models::ids::TierId;
use tiersim_models::routes::Routes;
use tiersim_models::units::Bytes;

/// At most so many replays are rehearsed; the time of the last one counts.
pub(super) const REPLAYS: u32 = 2;

/// Picoseconds of the last rehearsed replay; `None` if it does not fit into memory.
pub(super) fn time(setting: &Setting<'_>, routes: &Routes, policy: Box<dyn Policy>) -> Option<u64> {
    let replays = setting.repeat.clamp(1, REPLAYS);
    let exact = Memory::of(setting.memory.all_usable().iter().copied());
    let policy = cpu_ops::around(policy, setting.workload, setting.hardware);
    let mut planner = Planner::new(setting.workload, policy, &exact, replays).ok()?;
    planner.fetch_the_quickest(setting.copies.clone());
    let mut clock = Clock::new(setting, routes);
    let mut commands: Vec<Command> = Vec::new();
    let ops = setting.workload.trace.ops.len() as u64;
    let (mut begun, mut ended) = (0, 0);
    loop {
        if planner.planned() == ops * u64::from(replays - 1) {
            begun = ended;
        }
        if !planner.plan_next(&mut commands).ok()? {
            return Some(ended - begun);
        }
        for command in commands.drain(..) {
            let at = clock.run(&command);
            if matches!(command.work, Work::Compute { .. }) {
                ended = ended.max(at);
            }
        }
        clock.tell(&mut planner);
    }
}

/// When everything ends.
struct Clock<'a> {
    setting: &'a Setting<'a>,
    routes: &'a Routes,
    /// By ticket.
    ends: Vec<u64>,
    /// By stream, when its last op ends.
    streams: Vec<u64>,
    /// By channel, when it has carried what was submitted.
    channels: Vec<u64>,
    /// What the planner does not know to have ended, the earliest first.
    under_way: BinaryHeap<Reverse<(u64, Ticket)>>,
}

impl<'a> Clock<'a> {
    fn new(setting: &'a Setting<'a>, routes: &'a Routes) -> Clock<'a> {
        Clock {
            setting,
            routes,
            ends: Vec::new(),
            streams: vec![0; streams(&setting.workload.trace)],
            channels: vec![0; 2 * setting.hardware.links.len()],
            under_way: BinaryHeap::new(),
        }
    }

    fn run(&mut self, command: &Command) -> u64 {
        let ends = command.after.iter().map(|edge| self.ends[edge.ticket.0 as usize]);
        // Edges to what ended before the turn of any op to come are left out.
        let ready = ends.max().unwrap_or(0).max(self.turn());
        let end = match &command.work {
            Work::Compute { occurrence, stream, delay, .. } => {
                let stream = usize::from(*stream);
                let op = (occurrence % self.setting.spans.len() as u64) as usize;
                let span = self.setting.spans[op].ps().saturating_add(delay.ps());
                let end = ready.max(self.streams[stream]).saturating_add(span);
                self.streams[stream] = end;
                end
            }
            Work::Copy { bytes, from, to, .. } => self.copy(*bytes, *from, *to, ready),
            Work::Compact { .. } | Work::Release => ready,
        };
        self.ends.push(end);
        self.under_way.push(Reverse((end, command.ticket)));
        end
    }

    /// No op to come begins before this, on any stream.
    fn turn(&self) -> u64 {
        self.streams.iter().copied().min().unwrap_or(0)
    }

    /// A copy begins when its first channel is free, and holds every channel for the channel's own
    /// time.
    fn copy(&mut self, bytes: Bytes, from: TierId, to: TierId, ready: u64) -> u64 {
        let mut end = ready;
        for (hop, &channel) in self.routes.between(from, to).iter().enumerate() {
            let span = self.setting.hardware.channel_law(channel).span_of(bytes).ps();
            let free = &mut self.channels[channel.index()];
            let begins = ready.max(*free);
            *free = begins.saturating_add(span);
            let alone =
                if hop == 0 { self.setting.copies.span(from, to, bytes).ps() } else { span };
            end = end.max(begins.saturating_add(alone));
        }
        end
    }

    /// Tells the planner what has ended.
    fn tell(&mut self, planner: &mut Planner<'_>) {
        let turn = self.turn();
        while let Some(&Reverse((end, ticket))) = self.under_way.peek()
            && end <= turn
        {
            self.under_way.pop();
            planner.ended(ticket);
        }
    }
}
