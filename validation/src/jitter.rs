//! A machine with another legal timing, for tests: commands reach it late, ends are heard late.
//!
//! Both keep their order, so every edge still names something that was submitted before, and ops
//! of a stream still end in order. Nothing sleeps: lateness is counted in calls.

use crate::options::draw;
use std::collections::VecDeque;
use tiersim_models::units::Time;
use tiersim_policies::command::{Command, Machine, Ticket};

/// Most commands or ends that are held back at a time.
const HELD: usize = 8;

/// Delays what it is told and what it tells.
#[derive(Debug)]
pub struct JitterMachine<M> {
    /// The machine.
    pub machine: M,
    seed: u64,
    draws: u64,
    commands: VecDeque<Command>,
    ends: VecDeque<(Time, Ticket)>,
}

impl<M: Machine> JitterMachine<M> {
    /// `machine`, delayed at random.
    pub fn new(machine: M, seed: u64) -> JitterMachine<M> {
        let (commands, ends) = (VecDeque::new(), VecDeque::new());
        JitterMachine { machine, seed, draws: 0, commands, ends }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.draws += 1;
        (draw(self.seed, self.draws) % below as u64) as usize
    }

    fn pass_on(&mut self, keep: usize) -> Result<(), M::Fault> {
        while self.commands.len() > keep {
            let command = self.commands.pop_front().expect("there is one more than is kept");
            self.machine.submit(command)?;
        }
        Ok(())
    }
}

impl<M: Machine> Machine for JitterMachine<M> {
    type Fault = M::Fault;

    fn submit(&mut self, command: Command) -> Result<(), M::Fault> {
        self.commands.push_back(command);
        let keep = self.draw(HELD);
        self.pass_on(keep)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, M::Fault> {
        let keep = self.draw(HELD);
        self.pass_on(keep)?;
        let wanted = self.draw(HELD) + 1;
        while self.ends.len() < wanted {
            match self.machine.next()? {
                Some(end) => self.ends.push_back(end),
                None if self.commands.is_empty() => break,
                // Only what is held back can go on.
                None => self.pass_on(0)?,
            }
        }
        Ok(self.ends.pop_front())
    }
}
