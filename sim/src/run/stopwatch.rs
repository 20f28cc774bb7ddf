//! Notices when steps end, and keeps the warm-up out of the figures.

mod later;

use crate::durations::Durations;
use crate::machine::meters::Meters;
use crate::machine::watched::Watched;
use crate::run::settle::Evidence;
use crate::run::step_log::StepLog;
use crate::run::turns::Turns;
use crate::run::walked::Walked;
use later::Later;
use std::collections::VecDeque;
use std::ops::Range;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::served::ServingFigures;
use tiersim_models::results::{
    Figures, PathPart, PressureRecord, Settled, ShownStep, Steadiness, Steps,
};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::planner::Planner;
use tiersim_policies::pressure::{MOST_EVENTS, PressureEvent};
use tiersim_policies::state::{State, remember};

/// Watches one run.
pub(crate) struct Stopwatch<'a> {
    workload: &'a Workload,
    /// Ops of each step of a replay.
    sizes: Vec<u32>,
    /// Steps of the run.
    all: u64,
    /// The first step of the run that has not ended.
    first_open: u64,
    /// Ops of each step from there on that have not ended; those missing have not begun to.
    open: VecDeque<u32>,
    /// The step that was asked for last, and the ops of the run that are its own.
    known: (u64, Range<u64>),
    warmup_steps: u64,
    first_measured_op: u64,
    last_end: Time,
    steps: Steps,
    at_warmup: Option<Meters>,
    /// Bytes that the warm-up copies, by channel.
    planned: Vec<Bytes>,
    /// When the last replay ended, and how long the last one took that does not count.
    last_replay: Time,
    before: Span,
    /// Picoseconds that a replay takes at least.
    least: u128,
    /// When the last op ended, and what was measured until then.
    at_end: Option<(Time, Meters)>,
    /// Whether the trace runs once: then its last step ends when nothing is under way any more.
    once: bool,
    timeline: bool,
    /// Since when a timeline is recorded, and its steps.
    shows_from: Option<Time>,
    shown: Vec<ShownStep>,
    turns: Option<Turns>,
    /// When each op of the run ended, where requests are served.
    op_ends: Vec<Time>,
    /// The critical path of the last replay, if it is asked for.
    pub(crate) walked: Option<Walked>,
    /// A line per step, if that is asked for.
    pub(crate) log: Option<StepLog>,
    /// How long the replays took that were left out, and how many steps they had.
    left_out: Span,
    steps_left_out: u64,
    /// How the run may go on, if it may.
    later: Option<Later<'a>>,
}

impl<'a> Stopwatch<'a> {
    /// `repeat` replays of the trace, the first `warmup` of which do not count.
    pub(crate) fn new(
        workload: &'a Workload,
        repeat: u32,
        warmup: u32,
        timeline: bool,
    ) -> Stopwatch<'a> {
        let ends = workload.step_ends();
        let starts = std::iter::once(0).chain(ends.iter().map(|end| end.0 + 1));
        let sizes: Vec<u32> =
            ends.iter().zip(starts).map(|(end, start)| end.0 + 1 - start).collect();
        let ops = workload.trace.ops.len() as u64;
        Stopwatch {
            workload,
            all: sizes.len() as u64 * u64::from(repeat),
            warmup_steps: sizes.len() as u64 * u64::from(warmup),
            sizes,
            first_open: 0,
            open: VecDeque::new(),
            known: (0, 0..0),
            first_measured_op: ops * u64::from(warmup),
            last_end: Time::ZERO,
            steps: Steps::default(),
            at_warmup: None,
            planned: Vec::new(),
            last_replay: Time::ZERO,
            before: Span::ZERO,
            least: 0,
            at_end: None,
            once: repeat == 1,
            timeline,
            shows_from: None,
            shown: Vec::new(),
            turns: None,
            op_ends: vec![Time::ZERO; workload.serving.as_ref().map_or(0, |_| ops as usize)],
            walked: None,
            log: None,
            left_out: Span::ZERO,
            steps_left_out: 0,
            later: None,
        }
    }

    /// What a replay takes at least: the ops of its busiest stream, one after the other.
    pub(crate) fn takes_at_least(&mut self, durations: &Durations) {
        let mut streams: Vec<u128> = Vec::new();
        for (index, op) in self.workload.trace.ops.iter().enumerate() {
            let span = durations.least(index as u64).ps();
            let stream = usize::from(op.stream);
            streams.resize(streams.len().max(stream + 1), 0);
            streams[stream] += u128::from(span);
        }
        self.least = streams.into_iter().max().unwrap_or(0);
    }

    /// Keeps the moments that [`Stopwatch::pressure`] tells.
    pub(crate) fn time_turns(&mut self) {
        self.turns = Some(Turns::default());
    }

    /// Before the first command: a run of one step shows all of it.
    pub(crate) fn begins(&mut self, machine: &mut impl Watched) {
        if self.timeline && self.all == 1 {
            machine.record_timeline();
            self.shows_from = Some(Time::ZERO);
        }
        if let Some(walked) = self.walked.as_mut().filter(|_| self.all == self.sizes.len() as u64) {
            walked.begin(machine);
        }
    }

    /// An op of the run has ended.
    pub(crate) fn op_ended(&mut self, occurrence: u64, at: Time, machine: &mut impl Watched) {
        let step = self.step_of(occurrence);
        if let Some(turns) = &mut self.turns {
            let ops = &self.workload.trace.ops;
            let op = &ops[(occurrence % ops.len() as u64) as usize];
            turns.op_ended(occurrence as usize, op.stream.into(), at);
        }
        if let Some(end) = self.op_ends.get_mut(occurrence as usize) {
            *end = at;
        }
        for step in self.ends(step) {
            self.step_ended(step, at, machine);
        }
    }

    fn step_ended(&mut self, step: u64, at: Time, machine: &mut impl Watched) {
        if let Some(turns) = &mut self.turns {
            turns.steps.push(at);
        }
        machine.step_ended();
        if let Some(log) = &mut self.log {
            let numbered = (step + self.steps_left_out, step >= self.warmup_steps);
            log.step_ended(numbered, at.since(self.last_end), machine);
        }
        if let Some(walked) = &mut self.walked {
            walked.step_ended(machine, self.all - step - 1 == self.sizes.len() as u64);
        }
        if step >= self.warmup_steps {
            self.steps.push(at.since(self.last_end));
        }
        self.last_end = at;
        if (step + 1).is_multiple_of(self.sizes.len() as u64) {
            let took = at.since(self.last_replay);
            self.last_replay = at;
            if step + 1 == self.warmup_steps {
                self.before = took;
                self.at_warmup = Some(machine.so_far());
            }
        }
        if self.first_open == self.all {
            self.at_end = Some((at, machine.so_far()));
        }
        if let Some(start) = self.shows_from {
            let (number, span) = (step + self.steps_left_out, at.since(start));
            self.shown.push(ShownStep { number, start, span });
        }
        // The last step is shown.
        if self.timeline && step + 2 == self.all {
            machine.record_timeline();
            self.shows_from = Some(at);
        }
    }

    /// The first op of the run that counts.
    pub(crate) fn first_measured_op(&self) -> u64 {
        self.first_measured_op
    }

    /// One more op of a step has ended: the steps that end with it. One whose ops have all ended
    /// before those of a step before it ends together with that.
    fn ends(&mut self, step: u64) -> Range<u64> {
        let first = self.first_open;
        let index = (step - self.first_open) as usize;
        while self.open.len() <= index {
            let next = (self.first_open + self.open.len() as u64) % self.sizes.len() as u64;
            self.open.push_back(self.sizes[next as usize]);
        }
        self.open[index] -= 1;
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first_open += 1;
        }
        first..self.first_open
    }

    /// Whether steps that end now count.
    pub(crate) fn is_warm(&self) -> bool {
        self.warmup_steps == 0 || self.at_warmup.is_some()
    }

    /// All ops of a replay have been planned, `planned` in all.
    pub(crate) fn replayed(&mut self, planned: u64, machine: &impl Watched) {
        let steps = planned / self.workload.trace.ops.len() as u64 * self.sizes.len() as u64;
        if steps == self.warmup_steps {
            self.planned = machine.meters().planned.clone();
        }
    }

    /// How many steps have been measured.
    pub(crate) fn measured(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Writes which steps have not ended, of a run of which op `planned` comes next.
    pub(crate) fn state(&self, out: &mut State) {
        remember!(out, self as Stopwatch { open, last_end } skip {
            workload, sizes, all, first_open, known, warmup_steps, first_measured_op, steps, at_warmup,
            planned, last_replay, before, least, at_end, once, timeline, shows_from, shown, turns,
            left_out, steps_left_out, walked, log, later,
            // Requests arrive once: such a trace is not replayed.
            op_ends
        });
        let replay = out.next_op() / self.workload.trace.ops.len() as u64;
        out.word(replay * self.sizes.len() as u64 - self.first_open);
    }

    /// Leaves replays out that are still to come, together `span` long. The last `measured` steps
    /// come again in their place, `times` over; none during the warm-up.
    pub(crate) fn leave_out(&mut self, replays: u64, span: Span, (measured, times): (u64, u64)) {
        let steps = replays * self.sizes.len() as u64;
        self.all -= steps;
        if !self.is_warm() {
            self.warmup_steps -= steps;
        }
        self.steps.repeat(measured, times);
        self.left_out += span;
        self.steps_left_out += steps;
    }

    fn step_of(&mut self, occurrence: u64) -> u64 {
        if self.known.1.contains(&occurrence) {
            return self.known.0;
        }
        let ops = self.workload.trace.ops.len() as u64;
        let (replay, op) = (occurrence / ops, OpId::at((occurrence % ops) as usize));
        let ends = self.workload.step_ends();
        let within = ends.partition_point(|&end| end < op);
        let last = replay * ops + u64::from(ends[within].0);
        let step = replay * self.sizes.len() as u64 + within as u64;
        self.known = (step, last + 1 - u64::from(self.sizes[within])..last + 1);
        step
    }

    /// What happened under pressure, with its moments if they were kept.
    pub(crate) fn pressure(
        &self,
        planner: &Planner<'_>,
        tier: TierId,
        capacity: Bytes,
    ) -> Option<PressureRecord> {
        let log = planner.pressure()?.clone();
        let none = Turns::default();
        let turns = self.turns.as_ref().unwrap_or(&none);
        let turn = |event: &PressureEvent| turns.ops.get(event.occurrence as usize).copied();
        let at = log.events.iter().map_while(turn).collect();
        let starts = std::iter::once(Time::ZERO).chain(turns.steps.iter().copied());
        let steps = starts.zip(&turns.steps).map(|(start, end)| (start, end.since(start)));
        let (tier, steps) = (tier.index(), steps.take(MOST_EVENTS).collect());
        Some(PressureRecord { tier, capacity, log, at, steps })
    }

    /// What tells whether the measured replays are alike, of what was measured until their end.
    fn evidence(&self, end: &Meters) -> Evidence {
        let zero = Meters::new(end.used.len(), end.moved.len());
        let start = self.at_warmup.as_ref().unwrap_or(&zero);
        let planned = if self.planned.is_empty() { &zero.planned } else { &self.planned };
        let of = |to: &[Bytes], from: &[Bytes]| -> Vec<i128> {
            let since =
                |(to, from): (&Bytes, &Bytes)| i128::from(to.get()) - i128::from(from.get());
            to.iter().zip(from).map(since).collect()
        };
        let copied = of(&end.copied, &start.copied);
        let unpaid = of(&end.planned, planned).into_iter().zip(copied);
        let each = self.sizes.len() as u64;
        Evidence {
            warmup: self.first_measured_op / self.workload.trace.ops.len() as u64,
            measured: self.measured() / each,
            before: self.before,
            least: self.least,
            unpaid: unpaid.map(|(planned, copied)| planned - copied).collect(),
        }
    }

    /// The figures of the measured steps, once nothing is under way any more.
    pub(crate) fn figures(
        mut self,
        hardware: &Hardware,
        planner: &Planner<'_>,
        machine: &mut impl Watched,
    ) -> Figures {
        let mut timeline = machine.take_timeline();
        let (at, mut end) = self.at_end.take().expect("every op has ended");
        let steadiness = if self.once {
            let left_over = machine.now().since(at);
            self.steps.lengthen_last(left_over);
            let before = std::mem::replace(&mut end, machine.meters().clone());
            // What the last step waits for then is the channel that carries most of it.
            let busy = end.busy.iter().zip(&before.busy);
            let busy = busy.map(|(end, before)| end.ps() - before.ps()).enumerate();
            let channel = busy.max_by_key(|&(channel, busy)| (busy, std::cmp::Reverse(channel)));
            let part = PathPart::Copy(channel.map_or(0, |(channel, _)| channel));
            let place = end.split.parts().index(part);
            let waited = &mut end.split.spans_mut()[place];
            *waited += left_over;
            Steadiness { settled: Settled::Once, left_over, ..Steadiness::default() }
        } else {
            timeline.slices.retain(|slice| slice.start < at);
            self.steadiness(&end, hardware)
        };
        timeline.steps = self.shown;
        timeline.delay(self.left_out);
        let zero = Meters::new(end.used.len(), end.moved.len());
        let peak = machine.meters().peak.clone();
        let start = self.at_warmup.unwrap_or(zero);
        let span = |end: &[Span], start: &[Span]| {
            let pairs = end.iter().zip(start);
            pairs.map(|(end, start)| Span::from_ps(end.ps() - start.ps())).collect()
        };
        let moved = end.moved.iter().zip(&start.moved).map(|(&end, &start)| end - start);
        let bytes = |end: &[u128], start: &[u128]| -> Vec<u128> {
            end.iter().zip(start).map(|(end, start)| end - start).collect()
        };
        let split = end.split.since(&start.split);
        let (parts, steps) = (u128::from(split.total().ps()), self.steps.total());
        assert_eq!(parts, steps, "the parts of steps are these steps");
        let counts = planner.counts();
        let plan = self.workload.serving.as_ref();
        let serving =
            plan.map(|plan| Box::new(ServingFigures::of(plan, &self.op_ends, planner.found())));
        Figures {
            serving,
            log: self.log.map(|log| log.lines).unwrap_or_default(),
            steady: steadiness,
            steps: self.steps,
            split,
            peak,
            moved: moved.collect(),
            busy: span(&end.busy, &start.busy),
            transfers: end.transfers.iter().zip(&start.transfers).map(|(a, b)| a - b).collect(),
            transfer_time: span(&end.transfer_time, &start.transfer_time),
            stall: span(&end.stall, &start.stall),
            in_place: span(&end.in_place, &start.in_place),
            compute: Span::from_ps(end.compute.ps() - start.compute.ps()),
            delay: Span::from_ps(end.delay.ps() - start.delay.ps()),
            allocating: Span::from_ps(end.allocating.ps() - start.allocating.ps()),
            read: bytes(&end.read, &start.read),
            written: bytes(&end.written, &start.written),
            active: Span::from_ps(end.active.ps() - start.active.ps()),
            hits: counts.hits,
            misses: counts.misses,
            events: machine.events(),
            timeline,
            memory: (0..end.used.len())
                .filter_map(|tier| Some((tier, planner.ledger().memory_use(TierId::at(tier))?)))
                .collect(),
        }
    }
}
