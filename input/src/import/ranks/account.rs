//! What an import of several ranks saw, what it inferred and what it cannot know.

use super::Rank;
use super::party::Party;
use super::tie::{Group, Ties};
use crate::import::profiler;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of all files and of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// By rank: its number, what it adds to the clock of the earliest in ps, and its own account.
    pub ranks: Vec<(i64, u64, profiler::Account)>,
    /// Ranks of a collective in a server, servers, and whether the files say how many ranks are.
    pub group: (u32, u32, bool),
    /// Groups that the files name: name, ranks where they are listed, ranks in a server, servers, and
    /// how many collectives are among them.
    pub groups: Vec<(String, Vec<u32>, u32, u32, u64)>,
    /// Collectives by kind: how many, and the bytes of their buffers.
    pub collectives: BTreeMap<&'static str, (u64, u64)>,
    /// Of these, such of which nothing says who takes part.
    pub everybody: u64,
    /// Of these, such whose bytes no rank says.
    pub sizeless: u64,
    /// Collectives that not all ranks have, and other kernels of the library.
    pub alone: (u64, u64),
    /// What ranks waited for the last to call a collective, and what these took then, in ps.
    pub waited: (u64, u64),
    /// The most by which two ranks end a collective apart, in ps.
    pub apart: u64,
    /// Collectives of all ranks whose group only their execution traces say.
    pub lent: u64,
    /// Streams of all ranks.
    pub streams: u32,
}

impl Account {
    pub(super) fn new(ranks: &[Rank<'_>], group: Group, ties: &Ties) -> Account {
        let mut collectives: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        let mut waited = (0u64, 0u64);
        for tie in &ties.list {
            let of = collectives.entry(tie.kind.word()).or_default();
            let bytes = tie.bytes.map_or(0, |bytes| bytes.get());
            *of = (of.0 + 1, of.1.saturating_add(bytes));
            waited = (waited.0.saturating_add(tie.waited), waited.1.saturating_add(tie.span.ps()));
        }
        let mut counts: BTreeMap<&Party, u64> = BTreeMap::new();
        for tie in &ties.list {
            *counts.entry(&tie.party).or_default() += 1;
        }
        let named = counts.iter().filter(|(party, _)| ***party != Party::default());
        let groups = named.map(|(party, &count)| {
            let (within, servers) = group.of(party);
            (party.name.clone(), party.ranks.clone(), within, servers, count)
        });
        let of = |(rank, &shift): (&Rank<'_>, &u64)| {
            (rank.number, shift, rank.of.imported.account.clone())
        };
        Account {
            ranks: ranks.iter().zip(&ties.shift).map(of).collect(),
            group: (group.within, group.servers, group.said),
            groups: groups.collect(),
            everybody: ties.list.iter().filter(|tie| tie.party == Party::default()).count() as u64,
            collectives,
            sizeless: ties.list.iter().filter(|tie| tie.bytes.is_none()).count() as u64,
            alone: (ties.left, ranks.iter().map(|rank| rank.of.others).sum()),
            waited,
            apart: ties.apart,
            lent: ranks.iter().map(|rank| rank.of.lent).sum(),
            streams: 0,
        }
    }
}

/// Groups and ranks that are listed; the rest is counted.
const LISTED: usize = 16;

impl Account {
    fn groups(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, ranks, within, servers, count) in self.groups.iter().take(LISTED) {
            let some: Vec<String> = ranks.iter().take(LISTED).map(u32::to_string).collect();
            let more = if ranks.len() > LISTED { ", ..." } else { "" };
            let who = match (&some[..], self.group.0 * self.group.1 == within * servers) {
                ([], true) => "all ranks".to_owned(),
                ([], false) => "ranks that are not said".to_owned(),
                _ => format!("ranks {}{more}", some.join(", ")),
            };
            writeln!(
                f,
                "  group {name:?} of {who}, {within} in each of {servers} servers: {count}\n    \
                 collectives"
            )?;
        }
        if self.groups.len() > LISTED {
            writeln!(f, "  {} groups more", self.groups.len() - LISTED)?;
        }
        Ok(())
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ps: u64| ps as f64 / 1e9;
        writeln!(f, "{} ranks as one trace, on {} streams", self.ranks.len(), self.streams)?;
        writeln!(f, "seen:")?;
        for (kind, (count, bytes)) in &self.collectives {
            writeln!(f, "  {count} {kind} of {bytes} bytes, each one op of all ranks in it")?;
        }
        let (waited, took) = self.waited;
        writeln!(f, "  they took {:.3} ms once all ranks had called them;", ms(took))?;
        writeln!(f, "    ranks had waited for others for {:.3} ms", ms(waited))?;
        self.groups(f)?;
        if self.lent > 0 {
            writeln!(f, "  of {} calls the group is that of the execution trace", self.lent)?;
        }
        writeln!(f, "inferred:")?;
        writeln!(f, "  which collectives are the same: the first of all ranks, the second, ...")?;
        let (within, servers, said) = self.group;
        let by = if said { "the files say how many ranks there are" } else { "one per file" };
        if self.everybody > 0 {
            let each = if self.groups.is_empty() { "each" } else { "those of no group" };
            writeln!(
                f,
                "  all ranks take part in {each}: {within} in each of {servers} servers ({by})"
            )?;
        }
        for (rank, shift, _) in self.ranks.iter().filter(|(_, shift, _)| *shift > 0) {
            writeln!(
                f,
                "  rank {rank} began {:.3} ms after the first, by the ends of",
                ms(*shift)
            )?;
            writeln!(f, "    collectives")?;
        }
        writeln!(f, "  ends of a collective are at most {:.3} ms apart", ms(self.apart))?;
        writeln!(f, "not known:")?;
        writeln!(
            f,
            "  which memory is whose: one device stands for those of all ranks. Give it the"
        )?;
        writeln!(f, "    memory and the links to the host of as many")?;
        for (count, what) in [
            (self.sizeless, "collectives without recorded shapes: they keep their recorded time"),
            (
                self.alone.0,
                "collectives that not all of their ranks have: each is an op of its rank",
            ),
            (self.alone.1, "other kernels of NCCL, such as sends: each is an op of its rank"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        for (rank, _, account) in &self.ranks {
            write!(f, "\nrank {rank}\n{account}")?;
        }
        Ok(())
    }
}
