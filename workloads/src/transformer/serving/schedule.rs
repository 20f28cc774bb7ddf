//! The scheduler: which requests each iteration works for, and when it would begin.
//!
//! 1. Requests wait in the order of arrival. Each running request whose prompt is done decodes one
//!    token per iteration; the prompt under way, and then the head of the queue again and again,
//!    get what is left of the budget of tokens.
//! 2. The head is admitted if fewer than `max_batch` run and there is room for the blocks of its
//!    prompt that are not there, and for all of its answer. Nobody overtakes it.
//! 3. At the end of an iteration every request in it that has no more prompt has one token more.
//!
//! Invariant: the estimated clock moves by the roofline of the ops and to arrivals, by nothing
//! else.

use super::cost::{Cost, Load};
use super::emit::{Emit, Touched};
use super::pool::{BlockId, Pool};
use super::{Pace, Serving, ServingProblem};
use std::cmp::Reverse;
use tiersim_models::ids::OpId;
use tiersim_models::requests::{Request, ServingRequests};
use tiersim_models::serving_plan::{Course, Plan, Reuse, Served};
use tiersim_models::units::{Span, Time};
use tiersim_models::workload::{Mode, Phase};

/// A request that has been admitted.
#[derive(Debug)]
struct Running {
    /// Which request.
    index: usize,
    /// Tokens of the prompt that need no more work.
    done: u32,
    /// Tokens of the answer.
    produced: u32,
    /// Of the prompt, then of the answer.
    blocks: Vec<BlockId>,
    /// Blocks of the prompt, and those that were there.
    prompt_blocks: u32,
    hits: u32,
    /// Whether no op has worked for it.
    is_new: bool,
}

struct Scheduler<'a> {
    job: &'a Serving,
    requests: &'a ServingRequests,
    pace: Pace<'a>,
    cost: Cost,
    pool: Pool,
    emit: Emit<'a>,
    plan: Plan,
    now: Time,
    /// The head of the queue.
    next: usize,
    running: Vec<Running>,
}

pub(super) fn serve(
    job: &Serving,
    requests: &ServingRequests,
    pace: Pace<'_>,
) -> Result<Served, ServingProblem> {
    let cost = Cost::new(job);
    let mut scheduler = Scheduler {
        emit: Emit::new(job, &cost)?,
        job,
        requests,
        pace,
        cost,
        pool: Pool::new(job.kv_blocks),
        plan: Plan::default(),
        now: Time::ZERO,
        next: 0,
        running: Vec::new(),
    };
    while scheduler.iterate()? {}
    let Scheduler { emit, mut plan, now, pool, .. } = scheduler;
    plan.estimate = now;
    Ok(Served { trace: emit.finish(pool.kept()), plan })
}

impl Scheduler<'_> {
    /// One iteration, or several alike; `false` at the end.
    fn iterate(&mut self) -> Result<bool, ServingProblem> {
        if self.running.is_empty() {
            let Some(head) = self.requests.list.get(self.next) else { return Ok(false) };
            self.now = self.now.max(head.arrival);
        }
        let chunks = self.chunks();
        let release = self.running.iter().filter(|running| running.is_new);
        let release = release.map(|running| self.request(running).arrival).max();
        let prefills = chunks.iter().any(|&chunk| chunk > 0);
        let (times, load) = if prefills { (1, self.load(&chunks)) } else { self.merged()? };
        let phase = if prefills { Phase::Prefill } else { Phase::Decode };
        let touched = self.touched(&chunks, times);
        let ops = self.emit.iteration(phase, release, &load, &mut self.cost, &touched)?;
        self.now = self.after(&load)?;
        self.advance(&chunks, times, ops);
        Ok(true)
    }

    fn request(&self, running: &Running) -> &Request {
        &self.requests.list[running.index]
    }

    /// Tokens of each running request's prompt that this iteration works on, 0 for those that
    /// decode; admits what there is room and budget for.
    fn chunks(&mut self) -> Vec<u32> {
        let waits = |running: &&Running| running.done < self.request(running).prompt;
        let prompts = self.running.iter().filter(waits).count();
        let mut budget = self.job.max_tokens_per_step - (self.running.len() - prompts) as u32;
        let mut chunks = Vec::with_capacity(self.running.len() + 1);
        for running in &self.running {
            let chunk = (self.request(running).prompt - running.done).min(budget);
            budget -= chunk;
            chunks.push(chunk);
        }
        while budget > 0 && self.running.len() < self.job.max_batch as usize {
            let Some(admitted) = self.admit() else { break };
            let chunk = (self.request(&admitted).prompt - admitted.done).min(budget);
            budget -= chunk;
            chunks.push(chunk);
            self.running.push(admitted);
        }
        chunks
    }

    /// Whether the head of the queue would be admitted once it has arrived, and when that is.
    fn head(&self) -> Option<(Time, Vec<BlockId>)> {
        let head = self.requests.list.get(self.next)?;
        let kept = self.pool.found(self.requests.names_of(head));
        let new = self.job.blocks_of(head.prompt, head.output) - kept.len() as u64;
        self.pool.fits(&kept, new).then_some((head.arrival, kept))
    }

    fn admit(&mut self) -> Option<Running> {
        let arrived = self.requests.list.get(self.next).is_some_and(|one| one.arrival <= self.now);
        let (_, kept) = self.head().filter(|_| arrived)?;
        let index = self.next;
        self.next += 1;
        let head = &self.requests.list[index];
        let names = self.requests.names_of(head);
        let prompt_blocks = head.prompt.div_ceil(self.job.block_tokens);
        let hits = kept.len() as u32;
        let answer = (head.output - 1).div_ceil(self.job.block_tokens);
        self.pool.keep(&kept);
        let gone = self.pool.reserve(u64::from(prompt_blocks - hits), u64::from(answer));
        gone.into_iter().for_each(|id| self.emit.forget(id));
        let mut blocks = kept;
        for at in hits as usize..prompt_blocks as usize {
            blocks.push(self.pool.make(names.get(at).copied()));
        }
        // The last token of a prompt is always worked on: its successor is drawn from it.
        let there = u64::from(hits) * u64::from(self.job.block_tokens);
        let done = there.min(u64::from(head.prompt) - 1) as u32;
        let [first, token, last] = [OpId(0); 3];
        self.plan.requests.push(Course {
            arrival: head.arrival,
            prompt: head.prompt,
            output: head.output,
            blocks: prompt_blocks,
            hits,
            hit_tokens: done,
            first,
            token,
            last,
        });
        Some(Running { index, done, produced: 0, blocks, prompt_blocks, hits, is_new: true })
    }

    /// What each running request's next tokens stand behind, and how many they are.
    fn stretch(&self, running: &Running, chunk: u32, times: u32) -> (u64, u64) {
        match chunk {
            0 => {
                let before = self.request(running).prompt + running.produced - 1;
                (u64::from(before), u64::from(times))
            }
            _ => (u64::from(running.done), u64::from(chunk)),
        }
    }

    /// The work of one iteration.
    fn load(&self, chunks: &[u32]) -> Load {
        let mut load = Load::of(1);
        for (running, &chunk) in self.running.iter().zip(chunks) {
            let waits = running.done < self.request(running).prompt;
            if waits && chunk == 0 {
                continue;
            }
            let (before, new) = self.stretch(running, chunk, 1);
            let ends = running.done + chunk == self.request(running).prompt;
            load.add(self.job.card.window, before, new, ends);
        }
        load
    }

    /// How many iterations decode the same requests, and the work of all of them.
    fn merged(&mut self) -> Result<(u32, Load), ServingProblem> {
        let left = self.running.iter().map(|one| self.request(one).output - one.produced);
        let most = left.min().unwrap_or(1).min(self.job.merge);
        // Whoever has arrived and fits has been admitted.
        let waits_for_time = self.running.len() < self.job.max_batch as usize;
        let head = self.head().filter(|_| waits_for_time).map(|(arrival, _)| arrival);
        let mut load = Load::default();
        for times in 0..most {
            load.iterations += 1;
            for running in &self.running {
                let (before, _) = self.stretch(running, 0, 1);
                load.add(self.job.card.window, before + u64::from(times), 1, true);
            }
            let admits = match head {
                Some(arrival) => arrival <= self.after(&load)?,
                None => false,
            };
            if admits {
                return Ok((times + 1, load));
            }
        }
        Ok((most, load))
    }

    /// When an iteration that begins now ends.
    fn after(&mut self, load: &Load) -> Result<Time, ServingProblem> {
        let mut at = self.now.ps();
        for group in 0..self.cost.groups.len() {
            let span: Option<Span> = (self.pace)(&self.cost.of(load, group));
            let end = span.and_then(|span| at.checked_add(span.ps()));
            at = end.ok_or(ServingProblem::Overflow)?;
        }
        Ok(Time::from_ps(at))
    }

    /// The blocks that an iteration touches, once each, and how.
    fn touched(&mut self, chunks: &[u32], times: u32) -> Vec<Touched> {
        let (size, card) = (u64::from(self.job.block_tokens), &self.job.card);
        let has_full = card.windows().is_none_or(|windows| windows.full_in(0..card.layers) > 0);
        let mut all = Vec::new();
        for (at, &chunk) in chunks.iter().enumerate() {
            let prompt = self.request(&self.running[at]).prompt;
            let decodes = self.running[at].done == prompt;
            if chunk == 0 && !decodes {
                continue;
            }
            let (before, new) = self.stretch(&self.running[at], chunk, times);
            let running = &mut self.running[at];
            let (prompt, prompt_blocks) = (u64::from(prompt), running.prompt_blocks as usize);
            let last = if decodes {
                prompt_blocks + (before + new - prompt).div_ceil(size) as usize
            } else {
                (before + new).div_ceil(size) as usize
            };
            while running.blocks.len() < last {
                running.blocks.push(self.pool.make_promised());
            }
            let from =
                card.window.map_or(0, |window| (before + 1).saturating_sub(u64::from(window)));
            for (index, &block) in running.blocks[..last].iter().enumerate() {
                // Where the block ends; answers start in a block of their own.
                let (start, end) = match index.checked_sub(prompt_blocks) {
                    None => (index as u64 * size, ((index as u64 + 1) * size).min(prompt)),
                    Some(index) => {
                        let start = prompt + index as u64 * size;
                        (start, start + size)
                    }
                };
                let is_hit = index < running.hits as usize;
                let is_near = end > from;
                if end > before && !is_hit {
                    let (mode, reused) = (Mode::ReadWrite, false);
                    let fresh = end.min(before + new) - start.max(before);
                    all.push(Touched { block, mode, fresh, is_near, reused });
                } else if is_near || has_full {
                    let (mode, fresh) = (Mode::Read, 0);
                    let reused = running.is_new && is_hit;
                    all.push(Touched { block, mode, fresh, is_near, reused });
                }
            }
        }
        // Requests with the same start share blocks; one that writes speaks for all, and of those
        // that read one whose window reaches it.
        let order =
            |one: &Touched| (one.block, one.mode == Mode::Read, Reverse(one.fresh), !one.is_near);
        all.sort_by_key(order);
        all
    }

    /// Brings everybody forward to the end of an iteration with these first and last ops.
    fn advance(&mut self, chunks: &[u32], times: u32, (first, last): (OpId, OpId)) {
        self.plan.reuses.extend(self.emit.reuses().map(|(op, object)| Reuse { op, object }));
        for (running, &chunk) in self.running.iter_mut().zip(chunks) {
            let request = &self.requests.list[running.index];
            let course = &mut self.plan.requests[running.index];
            let decodes = running.done == request.prompt;
            if chunk == 0 && !decodes {
                continue;
            }
            if running.is_new {
                (running.is_new, course.first) = (false, first);
            }
            running.done += chunk;
            if decodes {
                running.produced += times;
            } else if running.done == request.prompt {
                (running.produced, course.token) = (1, last);
            }
            if running.produced == request.output {
                course.last = last;
            }
        }
        let requests = &self.requests.list;
        let pool = &mut self.pool;
        self.running.retain(|running| {
            let goes_on = running.produced < requests[running.index].output;
            if !goes_on {
                pool.give_back(&running.blocks);
            }
            goes_on
        });
    }
}
