//! Which collectives of several ranks are the same one.
//!
//! All ranks of a communicator call its collectives in the same order, or they would wait for each
//! other forever. So the first of one rank is the first of every other, and their kinds say whether
//! the recordings are of the same steps. A collective begins on each rank when that rank calls it
//! and ends on all at about the same time: of its recorded times the shortest is that of the rank
//! which all others waited for, and ends tell how far the clocks of two ranks are apart.
//! Invariant: what is tied is of one kind, and one op of every rank.

use super::Rank;
use tiersim_models::collective::{Collective, CollectiveKind, MAX_COLLECTIVE, MAX_GROUP};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Op, Unit};

/// Who takes part in all collectives.
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
}

/// One collective.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    pub(super) kind: CollectiveKind,
    /// The whole buffer, the largest that a rank says; none where no rank says it.
    pub(super) bytes: Option<Bytes>,
    /// By rank.
    pub(super) ops: Vec<OpId>,
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
    /// Collectives that a rank has beyond the last that all have.
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
    let counts = ranks.iter().map(|rank| rank.of.collectives.len());
    let common = counts.clone().min().unwrap_or(0);
    if common == 0 {
        let without = ranks.iter().find(|rank| rank.of.collectives.is_empty());
        let path = without.map_or(ranks[0].path, |rank| rank.path);
        let rule = "ranks of one run are tied together by collectives";
        let found = "no kernel of NCCL that is one";
        let remedy = "import each rank alone, or record steps in which ranks meet";
        return Err(Diagnostics::one(path, None, rule, found, remedy));
    }
    let left = counts.map(|count| (count - common) as u64).sum();
    let mut list = Vec::with_capacity(common);
    for index in 0..common {
        list.push(tie(ranks, group, index)?);
    }
    let (shift, apart) = clocks(ranks, &list);
    Ok(Ties { list, left, shift, apart })
}

fn tie(ranks: &[Rank<'_>], group: Group, index: usize) -> Result<Tie, Diagnostics> {
    let seen = ranks.iter().map(|rank| rank.of.collectives[index]);
    let kind = ranks[0].of.collectives[index].kind;
    if let Some(other) = ranks.iter().find(|rank| rank.of.collectives[index].kind != kind) {
        let rule = "ranks call the same collectives in the same order";
        let (word, its) = (kind.word(), other.of.collectives[index].kind.word());
        let first = ranks[0].path.display();
        let found = format!("collective {index} is of kind {its} here, and {word} in {first}");
        let remedy = "give recordings of the same steps, whose ranks are all in one group";
        return Err(Diagnostics::one(other.path, None, rule, found, remedy));
    }
    // A rank says what it puts in: of an all-gather its part.
    let parts = if kind == CollectiveKind::AllGather { u64::from(group.ranks()) } else { 1 };
    let bytes = seen.clone().map(|one| one.bytes.saturating_mul(parts)).max().unwrap_or(0);
    let bytes =
        Some(Bytes::new(bytes)).filter(|&bytes| bytes > Bytes::ZERO && bytes <= MAX_COLLECTIVE);
    let ops: Vec<OpId> = seen.map(|one| one.op).collect();
    let spans =
        || ops.iter().zip(ranks).map(|(op, rank)| span(&rank.of.imported.trace.ops[op.index()]));
    let least = spans().min().unwrap_or(0);
    let waited = spans().map(|span| span - least).fold(0, u64::saturating_add);
    let Group { within, servers, .. } = group;
    let unit = bytes.map_or(Unit::Device, |bytes| {
        Unit::Network(Collective { kind, bytes, within, servers, times: 1 })
    });
    Ok(Tie { kind, bytes, ops, span: Span::from_ps(least), waited, unit })
}

fn span(op: &Op) -> u64 {
    op.duration.map_or(0, Span::ps)
}

/// When an op ended, by the clock of its rank.
fn end(rank: &Rank<'_>, op: OpId) -> i128 {
    let op = &rank.of.imported.trace.ops[op.index()];
    op.at.map_or(0, |at| i128::from(at.ps())) + i128::from(span(op))
}

/// How far clocks are apart by the median of all ends, and the most that is left of it.
fn clocks(ranks: &[Rank<'_>], ties: &[Tie]) -> (Vec<u64>, u64) {
    let apart = |rank: usize| {
        let of = move |tie: &Tie| end(&ranks[0], tie.ops[0]) - end(&ranks[rank], tie.ops[rank]);
        ties.iter().map(of)
    };
    let median = |rank: usize| {
        let mut all: Vec<i128> = apart(rank).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let shift: Vec<i128> = (0..ranks.len()).map(median).collect();
    let most = (0..ranks.len()).flat_map(|rank| {
        let shift = shift[rank];
        apart(rank).map(move |one| (one - shift).unsigned_abs())
    });
    let most = most.max().unwrap_or(0);
    let least = shift.iter().copied().min().unwrap_or(0);
    // Times of a rank are below 2^62.
    let narrow = |time: u128| u64::try_from(time).unwrap_or(u64::MAX);
    (shift.iter().map(|&one| narrow((one - least).unsigned_abs())).collect(), narrow(most))
}
