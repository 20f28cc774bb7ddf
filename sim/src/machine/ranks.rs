//! Several devices of one server: the same plan, carried out by each at the same time.
//!
//! A command of the plan is one entry per rank, ticket times ranks plus rank, with edges to entries
//! of the same rank. Behind the way of a copy everything works on instances of channels and tiers
//! ([`Instances`]); what k devices share is one instance, and so they contend. The last rank to end
//! ends the command. Meters are those of the first rank, by channel and tier of one device: bytes
//! and stalls are its own, and the channels that it uses are busy with whatever crosses them.
//! Invariant: one rank is the machine of the file, ticket for ticket and event for event.

use std::collections::BTreeMap;
use tiersim_models::hardware::{Hardware, MAX_TIERS};
use tiersim_models::ids::TierId;
use tiersim_models::instances::Instances;
use tiersim_policies::command::{Command, Ticket};
use tiersim_policies::state::remember;

/// The devices, and how far each command has come on them.
#[derive(Debug)]
pub(super) struct Ranks {
    count: u32,
    pub(super) instances: Instances,
    /// Ranks on which a command has not ended; empty if there is only one.
    open: BTreeMap<Ticket, u32>,
}

remember! { Ranks { open } skip { count, instances }; }

impl Ranks {
    pub(super) fn new(hardware: &Hardware, count: u32) -> Ranks {
        let instances = Instances::new(hardware, count);
        Ranks { count: instances.ranks(), instances, open: BTreeMap::new() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// All instances of links and tiers.
    pub(super) fn hardware(&self) -> &Hardware {
        self.instances.hardware()
    }

    /// The rank of an entry.
    pub(super) fn rank(&self, entry: Ticket) -> u32 {
        if self.count == 1 { 0 } else { entry.0 % self.count }
    }

    /// Whether an entry is of the device that is measured.
    pub(super) fn is_first(&self, entry: Ticket) -> bool {
        self.rank(entry) == 0
    }

    /// The entry of the first rank for the same command.
    pub(super) fn first(&self, entry: Ticket) -> Ticket {
        Ticket(entry.0 - self.rank(entry))
    }

    /// The entries of all ranks for the command of `entry`, and the rank of each.
    pub(super) fn all(&self, entry: Ticket) -> impl Iterator<Item = (Ticket, u32)> + use<> {
        let first = self.first(entry);
        (0..self.count).map(move |rank| (Ticket(first.0 + rank), rank))
    }

    /// A command has been submitted.
    pub(super) fn submitted(&mut self, command: Ticket) {
        self.open.insert(command, self.count);
    }

    /// The first rank's entry of a command.
    pub(super) fn first_of(&self, command: Ticket) -> Ticket {
        let first = command.0.checked_mul(self.count);
        Ticket(first.expect("fewer than 2^32 commands of all ranks"))
    }

    /// A rank's part of a command.
    pub(super) fn of(&self, command: &Command, rank: u32) -> Command {
        let mut own = command.clone();
        let entry = |ticket: Ticket| Ticket(self.first_of(ticket).0 + rank);
        own.ticket = entry(own.ticket);
        own.after.iter_mut().for_each(|edge| edge.ticket = entry(edge.ticket));
        own
    }

    /// An entry has ended: the command, if it has now ended on all ranks.
    pub(super) fn ended(&mut self, entry: Ticket) -> Option<Ticket> {
        if self.count == 1 {
            return Some(entry);
        }
        let command = Ticket(entry.0 / self.count);
        let open = self.open.get_mut(&command).expect("it was submitted");
        *open -= 1;
        if *open > 0 {
            return None;
        }
        self.open.remove(&command);
        Some(command)
    }

    /// The stream of the first rank among those of all ranks.
    pub(super) fn first_stream(&self, stream: u16) -> usize {
        usize::from(stream) * self.count as usize
    }

    /// The stream of an entry among those of all ranks.
    pub(super) fn stream(&self, stream: u16, entry: Ticket) -> usize {
        self.first_stream(stream) + self.rank(entry) as usize
    }

    /// The instance of a channel that an entry's device uses.
    pub(super) fn channel(&self, entry: Ticket, channel: usize) -> usize {
        self.instances.channel(channel, self.rank(entry))
    }

    /// The number of the line that copies of an entry's device from one tier to another form.
    pub(super) fn line(&self, entry: Ticket, from: TierId, to: TierId) -> u32 {
        let way = from.index() * MAX_TIERS + to.index();
        u32::try_from(way).expect("few tiers") * self.count + self.rank(entry)
    }

    /// The instances of these channels.
    pub(super) fn channels<L: FromIterator<usize>>(&self, entry: Ticket, channels: &[usize]) -> L {
        channels.iter().map(|&channel| self.channel(entry, channel)).collect()
    }

    /// The instance of a tier that an entry's device uses.
    pub(super) fn tier(&self, entry: Ticket, tier: TierId) -> TierId {
        self.instances.tier(tier, self.rank(entry))
    }

    /// The tier of one device that an instance is of.
    pub(super) fn tier_kind(&self, instance: usize) -> usize {
        self.instances.tier_kind(instance)
    }

    /// The channel of one device that an instance is of.
    pub(super) fn kind(&self, instance: usize) -> usize {
        self.instances.kind(instance)
    }
}
