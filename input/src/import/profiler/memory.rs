//! Objects from what the allocator gave and took back.
//!
//! An address is given and later taken back; between the two it is one object. Events of threads
//! are not in order in the file: time and the profiler's own count order them. A program asks for
//! memory before it asks for the kernel that fills it and gives it back after it asked for the one
//! that reads it last, so an object lives from the next item of the thread that asked to the last
//! item that anyone asked for before it was given back. On the host an op asks for memory while it
//! runs, and lives from it to the op that gives it back.
//! Invariant: births are no later than deaths, and all objects together with the memory that was
//! given before the file begins are what the allocator says, event by event.

use super::items::{Item, Items};
use super::tables::{Change, NONE, Tables};
use std::collections::BTreeMap;

/// An object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) bytes: u64,
    pub(super) birth: u32,
    pub(super) death: u32,
    /// The event that gave it, as far as it is in the file.
    pub(super) given: Option<u32>,
    /// The event that took it back, as far as it is in the file.
    pub(super) taken: Option<u32>,
}

/// All of the memory of what the items ran on.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) pieces: Vec<Piece>,
    /// The events, in order.
    pub(super) changes: Vec<Change>,
    /// Bytes that were given before the first event, without those that are taken back later.
    pub(super) before: u64,
    /// The most that the allocator says was given.
    pub(super) peak: u64,
    /// Events after which the allocator says another sum than the events make.
    pub(super) gaps: u64,
    /// Objects that no item lies within.
    pub(super) between: u64,
    /// Events of other memory.
    pub(super) elsewhere: u64,
}

impl Memory {
    pub(super) fn new(tables: &Tables, items: &Items) -> Memory {
        let mut memory = Memory { changes: tables.changes.clone(), ..Memory::default() };
        let main = memory_of(tables, items);
        memory.changes.retain(|change| (change.host, change.device) == main);
        memory.elsewhere = (tables.changes.len() - memory.changes.len()) as u64;
        memory.changes.sort_by_key(|change| (change.at, change.index));
        if !items.list.is_empty() {
            memory.pair(&Times::new(items));
        }
        memory
    }

    fn pair(&mut self, times: &Times<'_>) {
        let mut live: BTreeMap<(i64, u64), Vec<u32>> = BTreeMap::new();
        // Old profilers say no address: what is given back is the last of its size.
        let key = |change: &Change| match change.address {
            NONE => (NONE, change.bytes.unsigned_abs()),
            address => (address, 0),
        };
        let (mut sum, mut first) = (None::<i64>, None::<i64>);
        let mut earlier = 0u64;
        let end = times.items.len() as u32 - 1;
        for (index, change) in self.changes.iter().enumerate() {
            let index = index as u32;
            if change.total != NONE {
                let before = change.total.saturating_sub(change.bytes);
                first.get_or_insert(before.saturating_add_unsigned(earlier));
                self.gaps += u64::from(sum.is_some_and(|sum| sum != before));
                sum = Some(change.total);
                self.peak = self.peak.max(u64::try_from(change.total).unwrap_or(0));
            }
            if change.bytes > 0 {
                let bytes = change.bytes.unsigned_abs();
                let birth = times.birth(change).unwrap_or(end);
                let here = live.entry(key(change)).or_default();
                if let Some(lost) = here.pop_if(|_| change.address != NONE) {
                    // That it was given back is not in the file, but its address is given again.
                    let lost = &mut self.pieces[lost as usize];
                    lost.death = times.death(change).unwrap_or(0).max(lost.birth);
                }
                here.push(self.pieces.len() as u32);
                let piece = Piece { bytes, birth, death: end, given: Some(index), taken: None };
                self.pieces.push(piece);
                continue;
            }
            let death = times.death(change);
            let piece = match live.get_mut(&key(change)).and_then(Vec::pop) {
                Some(piece) => &mut self.pieces[piece as usize],
                None => {
                    // It was there before the file begins.
                    let bytes = change.bytes.unsigned_abs();
                    earlier = earlier.saturating_add(bytes);
                    let piece = Piece { bytes, birth: 0, death: 0, given: None, taken: None };
                    self.pieces.push(piece);
                    self.pieces.last_mut().expect("just pushed")
                }
            };
            piece.taken = Some(index);
            self.between += u64::from(death.is_none_or(|death| death < piece.birth));
            piece.death = death.unwrap_or(0).max(piece.birth);
        }
        let first = u64::try_from(first.unwrap_or(0)).unwrap_or(0);
        self.before = first.saturating_sub(earlier);
    }
}

/// Whose memory counts: the device's that the items ran on, as far as there are events of it.
fn memory_of(tables: &Tables, items: &Items) -> (bool, i64) {
    let mut counts: BTreeMap<(bool, i64), u64> = BTreeMap::new();
    for change in &tables.changes {
        *counts.entry((change.host, change.device)).or_default() += 1;
    }
    let host = items.device.is_none();
    let own = items.device.map(|device| (false, device)).filter(|own| counts.contains_key(own));
    let all = counts.iter().filter(|((of, _), _)| *of == host);
    let most = all.max_by_key(|&(of, count)| (count, std::cmp::Reverse(of)));
    own.or(most.map(|(of, _)| *of)).unwrap_or((host, NONE))
}

/// Items by the times at which they were asked for.
struct Times<'a> {
    items: &'a [Item],
    on_host: bool,
    /// By thread: its items.
    threads: BTreeMap<u32, Vec<u32>>,
}

impl Times<'_> {
    fn new(items: &Items) -> Times<'_> {
        let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, item) in items.list.iter().enumerate() {
            threads.entry(item.thread).or_default().push(index as u32);
        }
        Times { items: &items.list, on_host: items.device.is_none(), threads }
    }

    fn birth(&self, change: &Change) -> Option<u32> {
        let launched = |id: &u32| self.items[*id as usize].launched;
        let list = self.threads.get(&change.thread).map_or(&[][..], Vec::as_slice);
        if self.on_host {
            let behind = list.partition_point(|id| launched(id) <= change.at);
            let within = list[..behind].last().copied();
            let within = within.filter(|&id| self.items[id as usize].end() >= change.at);
            return within.or(list.get(behind).copied()).or_else(|| self.next(change.at));
        }
        let next = list.get(list.partition_point(|id| launched(id) < change.at)).copied();
        // A thread that asks for nothing more asked for others.
        next.or_else(|| self.next(change.at))
    }

    fn next(&self, time: i64) -> Option<u32> {
        let next = self.items.partition_point(|item| item.launched < time);
        (next < self.items.len()).then_some(next as u32)
    }

    fn death(&self, change: &Change) -> Option<u32> {
        if self.on_host {
            let list = self.threads.get(&change.thread).map_or(&[][..], Vec::as_slice);
            let launched = |id: &u32| self.items[*id as usize].launched;
            let behind = list.partition_point(|id| launched(id) <= change.at);
            let own = list[..behind].last().copied();
            if let Some(id) = own.filter(|&id| self.items[id as usize].end() >= change.at) {
                return Some(id);
            }
        }
        let behind = self.items.partition_point(|item| item.launched < change.at);
        behind.checked_sub(1).map(|id| id as u32)
    }
}
