//! A fingerprint of decisions, to compare two machines under the same plan.
//!
//! Hashed in order: what every op and every copy does and the room that it allocates. Room given
//! back is hashed without order between two ops, because whether an op gives it back itself or a
//! release does so after it depends on what has ended by then. `after` edges and tickets are left
//! out for the same reason: edges to commands that have ended are not written.
//! Invariant: the fingerprint depends on decisions only, never on time.

pub use tiersim_models::results::comparison::Decisions;
use tiersim_models::units::Time;
use tiersim_policies::command::{Allocation, Command, Machine, Ticket, Work};

/// A machine whose decisions are logged.
#[derive(Debug)]
pub struct Logged<M> {
    /// The machine.
    pub machine: M,
    decisions: Decisions,
}

const BASIS: u64 = 0xCBF2_9CE4_8422_2325;

impl<M> Logged<M> {
    /// Logs what `machine` is told.
    pub fn new(machine: M) -> Logged<M> {
        Logged { machine, decisions: Decisions { hash: BASIS, frees: 0, ops: 0, copies: 0 } }
    }

    /// What it was told so far.
    pub fn decisions(&self) -> Decisions {
        self.decisions
    }

    fn note(&mut self, command: &Command) {
        let log = &mut self.decisions;
        let mut said: Vec<u64> = Vec::new();
        match &command.work {
            Work::Compute { occurrence, stream, touches, charges, delay, allocating } => {
                log.ops += 1;
                said.extend([1, *occurrence, u64::from(*stream)]);
                for touch in touches {
                    let mode = u64::from(touch.mode.reads()) * 2 + u64::from(touch.mode.writes());
                    said.extend([u64::from(touch.object.0), u64::from(touch.tier.0), mode]);
                }
                said.extend(charges.iter().flat_map(|(t, bytes)| [u64::from(t.0), bytes.get()]));
                said.extend([delay, &allocating.thread, &allocating.device].map(|span| span.ps()));
            }
            Work::Copy { object, bytes, from, to } => {
                log.copies += 1;
                said.extend([2, u64::from(object.0), bytes.get()]);
                said.extend([from, to].map(|tier| u64::from(tier.0)));
            }
            Work::Compact { tier, bytes, objects } => {
                said.extend([3, u64::from(tier.0), bytes.get()]);
                said.extend(objects.iter().map(|object| u64::from(object.0)));
            }
            Work::Release => {}
        }
        said.extend(command.allocates.iter().flat_map(words));
        log.hash = said.into_iter().fold(log.hash, fnv);
        for room in &command.frees {
            let hash = words(room).into_iter().fold(fnv(BASIS, log.ops), fnv);
            log.frees = log.frees.wrapping_add(hash);
        }
    }
}

fn words(room: &Allocation) -> [u64; 3] {
    [u64::from(room.object.0), u64::from(room.tier.0), room.bytes.get()]
}

fn fnv(hash: u64, value: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    value.to_le_bytes().into_iter().fold(hash, step)
}

impl<M: Machine> Machine for Logged<M> {
    type Fault = M::Fault;

    fn submit(&mut self, command: Command) -> Result<(), M::Fault> {
        self.note(&command);
        self.machine.submit(command)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, M::Fault> {
        self.machine.next()
    }
}
