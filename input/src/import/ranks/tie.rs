//! Which collectives of several ranks are the same one.
//!
//! All ranks of a group call its collectives in the same order, or they would wait for each
//! other forever. So the first of one rank is the first of every other (`party`), and their kinds say
//! whether the recordings are of the same steps. A collective begins on each rank when that rank calls it
//! and ends on all at about the same time: of its recorded times the shortest is that of the rank
//! which all others waited for, and ends tell how far the clocks of two ranks are apart.
//! Invariant: what is tied is of one kind, and one op of every rank that takes part.

use super::Rank;
use super::party::{Meeting, Party, meetings};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::collective::{Collective, CollectiveKind, MAX_COLLECTIVE, MAX_GROUP};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Op, Unit};

/// Who takes part in collectives of which that is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) within: u32,
    pub(super) servers: u32,
    /// Whether the files say how many ranks there are.
    pub(super) said: bool,
}

impl Group {
    /// All ranks of the run, as many in each server as it has devices.
    pub(super) fn new(world: Option<u32>, ranks: &[Rank<'_>]) -> Group {
        let fits = |&world: &u32| world as usize >= ranks.len() && u64::from(world) <= MAX_GROUP;
        let said = world.filter(fits);
        let world = said.unwrap_or(ranks.len() as u32);
        let devices = ranks.iter().map(|rank| rank.of.devices).max().unwrap_or(0) as u32;
        let several = devices > 0 && devices < world && world.is_multiple_of(devices);
        let within = if several { devices } else { world };
        Group { within, servers: world / within, said: said.is_some() }
    }

    pub(super) fn ranks(self) -> u32 {
        self.within * self.servers
    }

    /// How many of a party are in each of how many servers.
    pub(super) fn of(self, party: &Party) -> (u32, u32) {
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let mut servers: BTreeMap<u32, u32> = BTreeMap::new();
        for rank in &party.ranks {
            *servers.entry(rank / self.within).or_default() += 1;
        }
        match (servers.first_key_value(), party.some) {
            (Some((_, &one)), _) if servers.values().all(|&other| other == one) => {
                (one, servers.len() as u32)
            }
            // A group has equally many in each server that it spans: so unlike a group all meet
            // where servers meet.
            (Some(_), _) => (1, party.ranks.len() as u32),
            // Neighbours, as most groups are of which only the size is said.
            (None, Some(size)) if size > u64::from(self.within) => {
                match size.is_multiple_of(u64::from(self.within)) {
                    true => (self.within, small(size / u64::from(self.within))),
                    false => (1, small(size)),
                }
            }
            (None, Some(size)) => (small(size), 1),
            (None, None) => (self.within, self.servers),
        }
    }
}

/// One collective.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    pub(super) kind: CollectiveKind,
    /// The whole buffer, the largest that a rank says; none where no rank says it.
    pub(super) bytes: Option<Bytes>,
    /// The place of each rank that takes part and was given, and its op.
    pub(super) ops: Vec<(usize, OpId)>,
    pub(super) party: Party,
    /// The time that it took the last rank to call it.
    pub(super) span: Span,
    /// What the others waited for that rank, together.
    pub(super) waited: u64,
    pub(super) unit: Unit,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Ties {
    pub(super) list: Vec<Tie>,
    /// By rank: the collectives that it takes part in, in its order, and the op of each.
    pub(super) of: Vec<Vec<(usize, OpId)>>,
    /// Collectives that are tied to none.
    pub(super) left: u64,
    /// By rank: what its clock is behind that of the earliest, in ps.
    pub(super) shift: Vec<u64>,
    /// The most by which two ranks end one collective at different times, clocks set right.
    pub(super) apart: u64,
}

/// Ties the collectives of all ranks.
///
/// # Errors
/// That they are none, or of different kinds.
pub(super) fn ties(ranks: &[Rank<'_>], group: Group) -> Result<Ties, Diagnostics> {
    let without = ranks.iter().find(|rank| rank.of.collectives.is_empty());
    let lonely = |path: &Path, found: &str| {
        let rule = "ranks of one run are tied together by collectives";
        let remedy = "import each rank alone, or record steps in which ranks meet";
        Err(Diagnostics::one(path, None, rule, found, remedy))
    };
    if let Some(rank) = without {
        return lonely(rank.path, "no kernel of NCCL that is one");
    }
    let found = meetings(ranks, u64::from(group.ranks()));
    if found.list.iter().all(|meeting| meeting.at.len() < 2) {
        return lonely(ranks[0].path, "none in which two of these ranks take part");
    }
    let mut list = Vec::with_capacity(found.list.len());
    let mut of = vec![Vec::new(); ranks.len()];
    for meeting in found.list {
        let tie = tie(ranks, group, meeting)?;
        tie.ops.iter().for_each(|&(place, op)| of[place].push((list.len(), op)));
        list.push(tie);
    }
    let (shift, apart) = clocks(ranks, &list, &of);
    Ok(Ties { list, of, left: found.left, shift, apart })
}

fn tie(ranks: &[Rank<'_>], group: Group, meeting: Meeting) -> Result<Tie, Diagnostics> {
    let Meeting { party, at } = meeting;
    let seen = at.iter().map(|&(place, index)| (place, ranks[place].of.collectives[index]));
    let (first, index) = at[0];
    let kind = ranks[first].of.collectives[index].kind;
    if let Some((place, other)) = seen.clone().find(|(_, other)| other.kind != kind) {
        let rule = "ranks call the same collectives in the same order";
        let (word, its) = (kind.word(), other.kind.word());
        let first = ranks[first].path.display();
        let found = format!("collective {index} is of kind {its} here, and {word} in {first}");
        let remedy = "give recordings of the same steps, whose ranks are all in one group";
        return Err(Diagnostics::one(ranks[place].path, None, rule, found, remedy));
    }
    let (within, servers) = group.of(&party);
    // A rank says what it puts in: of an all-gather its part.
    let all = u64::from(within) * u64::from(servers);
    let parts = if kind == CollectiveKind::AllGather { all } else { 1 };
    let bytes = seen.clone().map(|(_, one)| one.bytes.saturating_mul(parts)).max().unwrap_or(0);
    let bytes =
        Some(Bytes::new(bytes)).filter(|&bytes| bytes > Bytes::ZERO && bytes <= MAX_COLLECTIVE);
    let ops: Vec<(usize, OpId)> = seen.map(|(place, one)| (place, one.op)).collect();
    let spans =
        || ops.iter().map(|(place, op)| span(&ranks[*place].of.imported.trace.ops[op.index()]));
    let least = spans().min().unwrap_or(0);
    let waited = spans().map(|span| span - least).fold(0, u64::saturating_add);
    let unit = bytes.filter(|_| all <= MAX_GROUP).map_or(Unit::Device, |bytes| {
        Unit::Network(Collective { kind, bytes, within, servers, times: 1 })
    });
    Ok(Tie { kind, bytes, ops, party, span: Span::from_ps(least), waited, unit })
}

fn span(op: &Op) -> u64 {
    op.duration.map_or(0, Span::ps)
}

/// When an op ended, by the clock of its rank.
fn end(rank: &Rank<'_>, op: OpId) -> i128 {
    let op = &rank.of.imported.trace.ops[op.index()];
    op.at.map_or(0, |at| i128::from(at.ps())) + i128::from(span(op))
}

/// How far clocks are apart by the median of the ends that two ranks share, and the most that is left
/// of it. Ranks that share none with the first are set right by one that does; others stay as they are.
fn clocks(ranks: &[Rank<'_>], ties: &[Tie], of: &[Vec<(usize, OpId)>]) -> (Vec<u64>, u64) {
    let mut shift: Vec<Option<i128>> = vec![None; ranks.len()];
    for root in 0..ranks.len() {
        if shift[root].is_some() {
            continue;
        }
        shift[root] = Some(0);
        let mut known = vec![root];
        while let Some(place) = known.pop() {
            let mut apart: BTreeMap<usize, Vec<i128>> = BTreeMap::new();
            for &(id, op) in &of[place] {
                let own = end(&ranks[place], op);
                for &(other, op) in ties[id].ops.iter().filter(|(other, _)| shift[*other].is_none())
                {
                    apart.entry(other).or_default().push(own - end(&ranks[other], op));
                }
            }
            for (other, mut all) in apart {
                all.sort_unstable();
                shift[other] = shift[place].map(|own| own + all[all.len() / 2]);
                known.push(other);
            }
        }
    }
    let shift: Vec<i128> = shift.into_iter().map(|shift| shift.unwrap_or(0)).collect();
    let apart = |tie: &Tie| {
        let (first, op) = tie.ops[0];
        let own = end(&ranks[first], op) + shift[first];
        let others = tie.ops.iter();
        let others =
            others.map(|&(place, op)| (end(&ranks[place], op) + shift[place]).abs_diff(own));
        others.max().unwrap_or(0)
    };
    let most = ties.iter().map(apart).max().unwrap_or(0);
    let least = shift.iter().copied().min().unwrap_or(0);
    // Times of a rank are below 2^62.
    let narrow = |time: u128| u64::try_from(time).unwrap_or(u64::MAX);
    (shift.iter().map(|&one| narrow((one - least).unsigned_abs())).collect(), narrow(most))
}
