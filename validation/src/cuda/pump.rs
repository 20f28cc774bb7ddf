//! What keeps a machine going: commands in, what has ended out.
//!
//! There is no thread of its own: whoever plans also enqueues, asks the device what it has passed
//! and hears the threads. What only waits for the device was enqueued when it was submitted, so the
//! device works on while nobody asks.
//! Invariant: a command's end is told after the ends of everything that it waited for.

use crate::cuda::allocations::Place;
use crate::cuda::entry::{Book, Entry, Files, MarkList, Own};
use crate::cuda::{Channel, Parts};
use crate::fault::{Fault, Result};
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::{Command, Ticket, Work};
use tiersim_policies::transit::BOUNCE;

impl Parts<'_> {
    /// Takes a command, and enqueues what can be.
    pub(super) fn submit(&mut self, command: Command) -> Result<()> {
        let began = self.floor.clock.now();
        let ticket = command.ticket;
        let (met, planned) = (self.run.written.meets(&command), self.run.planned(&command));
        let mut entry = Entry::new(command, met, began, Own { planned, ..Own::default() });
        let command = entry.command.clone();
        self.book.wait_for(&mut entry, command.after.iter().map(|edge| edge.ticket));
        for room in &command.allocates {
            let after = self.allocate(room, Book::is_under_way)?;
            self.book.wait_for(&mut entry, after);
        }
        match &command.work {
            Work::Compute { stream, touches, .. } => {
                let places = touches.iter().map(|touch| self.rooms.get(touch.object, touch.tier));
                entry.own.places = places.collect();
                let mut held = entry.own.places.iter().flatten();
                if held.any(|held| matches!(held.place, Place::File(_))) {
                    entry.own.files = Files::ToDo;
                }
                self.streams[usize::from(*stream)].waiting.push_back(ticket);
            }
            &Work::Copy { object, from, to, .. } => {
                entry.own.places.extend([from, to].map(|tier| self.rooms.get(object, tier)));
                let (transit, between) = self.run.transit(&command);
                entry.transit = transit;
                let none = |_| (0..BOUNCE).map(|_| None).collect();
                entry.own.bounces = (0..between).map(none).collect();
                self.channels[entry.transit().channel(0)].gate.push_back(ticket);
            }
            // Rooms are where the arena put them: nothing has to move.
            Work::Compact { .. } | Work::Release => {}
        }
        // Whoever is given this room from here on waits for this command.
        let freed = command.frees.iter().filter_map(|room| self.rooms.free(room, ticket));
        entry.own.freed = freed.collect();
        self.book.add(entry);
        self.start_due()?;
        if self.is_waiting_for_the_host() {
            self.poll()?;
        }
        self.run.submitted(self.floor.clock.now().since(began));
        Ok(())
    }

    /// Whether something can only go on if the host looks after it.
    fn is_waiting_for_the_host(&self) -> bool {
        self.channels.iter().any(|channel| !channel.gate.is_empty() || !channel.sent.is_empty())
            || self.channels.iter().any(|channel| channel.flights.iter().any(|flight| !flight.last))
            || self.streams.iter().any(|stream| !stream.waiting.is_empty())
    }

    /// Starts commands that nothing holds back any more.
    fn start_due(&mut self) -> Result<()> {
        while let Some(ticket) = self.book.due.pop() {
            let Some(entry) = self.book.entries.get(&ticket) else { continue };
            match entry.command.work {
                Work::Compute { stream, .. } => self.try_stream(usize::from(stream))?,
                Work::Copy { .. } => {
                    let transit = entry.transit.as_ref().expect("a copy has a route");
                    self.try_gate(transit.channel(0))?;
                }
                Work::Compact { .. } | Work::Release => {
                    let (unqueued, unended) = (entry.unqueued, entry.unended);
                    if !entry.queued && unqueued == 0 {
                        let mut marks: MarkList = self.book.waits(ticket).into_iter().collect();
                        marks.extend(self.guards(ticket)?);
                        self.book.marked(ticket, marks);
                    }
                    if unended == 0 {
                        self.loose.insert(ticket);
                    }
                }
            }
        }
        Ok(())
    }

    /// Hears what has ended and starts what that allows. Whether there was anything.
    pub(super) fn poll(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(mut done) = self.workers.done() {
            any = true;
            let checks = std::mem::replace(&mut done.checks, Ok(Vec::new()))?;
            self.book.note(checks);
            match self.book.entry(done.ticket).command.work {
                Work::Copy { .. } => self.piece_done(&done)?,
                _ => self.files_used(done.ticket, done.start, done.end)?,
            }
        }
        for stream in 0..self.streams.len() {
            while self.op_passed(stream)? {
                any = true;
            }
        }
        for channel in 0..self.channels.len() {
            while self.piece_passed(channel)? || self.check_passed(channel)? {
                any = true;
            }
        }
        self.start_due()?;
        while self.end_loose()? {
            any = true;
            self.start_due()?;
        }
        // What waits for more than a command: a thread, a check of an arrival.
        for stream in 0..self.streams.len() {
            self.try_stream(stream)?;
        }
        for channel in 0..self.channels.len() {
            self.try_gate(channel)?;
        }
        Ok(any)
    }

    /// Ends what is in no queue any more: releases, and copies that have arrived.
    fn end_loose(&mut self) -> Result<bool> {
        let mut any = false;
        for ticket in self.loose.clone() {
            let entry = self.book.entry(ticket);
            let over = entry.own.over.or_else(|| self.over_with_its_edges(ticket));
            let mut may = entry.unended == 0 && over.is_some();
            for mark in &entry.own.marks {
                may = may && mark.passed()?;
            }
            if let Some(end) = over.filter(|_| may) {
                any = true;
                self.loose.remove(&ticket);
                self.finish(ticket, end);
            }
        }
        Ok(any)
    }

    /// A command has ended: whoever waited for it may go, and what it gave back is free.
    pub(super) fn finish(&mut self, ticket: Ticket, end: Time) {
        for held in &self.book.entry(ticket).own.freed {
            self.rooms.ended(held, ticket);
        }
        self.book.finish(ticket, end);
    }

    /// A release ends with the last of what it waits for.
    fn over_with_its_edges(&self, ticket: Ticket) -> Option<Time> {
        let entry = self.book.entry(ticket);
        (matches!(entry.command.work, Work::Compact { .. } | Work::Release) && entry.queued)
            .then_some(entry.ready)
    }

    /// Waits for the next command to end.
    pub(super) fn next(&mut self) -> Result<Option<(Time, Ticket)>> {
        let mut since = self.floor.clock.now();
        loop {
            if let Some(ended) = self.book.ended.pop_front() {
                return Ok(Some(ended));
            }
            let idle =
                self.book.entries.is_empty() && self.channels.iter().all(Channel::has_checked);
            if idle {
                return Ok(None);
            }
            let now = self.floor.clock.now();
            if self.poll()? || self.enqueue_checks()? {
                since = now;
                continue;
            }
            // An op may last longer than patience does.
            let head = |ticket: &Ticket| {
                let planned = self.book.entry(*ticket).own.planned;
                planned.span + planned.delay
            };
            let heads = self.streams.iter().filter_map(|stream| stream.running.front());
            let longest = heads.map(head).max().unwrap_or(Span::ZERO);
            if now.since(since) > self.run.patience + longest {
                return Err(self.stuck(now.since(since)));
            }
            std::thread::yield_now();
        }
    }

    pub(super) fn stuck(&mut self, waited: Span) -> Fault {
        self.is_stuck = true;
        let first = self.book.entries.iter().next();
        let first = first.map_or_else(String::new, |(ticket, entry)| {
            let (work, state) = (entry.word(), if entry.queued { "enqueued" } else { "held back" });
            format!(", the first of them {} ({work}, {state})", ticket.0)
        });
        let (ms, count) = (waited.ps() / 1_000_000_000, self.book.entries.len());
        let found = format!("nothing has ended for {ms} ms; {count} commands are under way{first}");
        Fault::Device { call: "cuEventQuery", found }
    }
}
