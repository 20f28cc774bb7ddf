//! What ran, in the order in which it was asked for: activities of the device with their launches,
//! or, where there was no device, what the threads of the host did.
//!
//! An activity belongs to the call of the runtime with the same correlation. Where that call is not
//! in the file the activity is kept all the same, behind what its stream ran before it.
//! Invariant: items of one stream are in the order in which the stream ran them.

use super::host::{Host, NOWHERE};
use super::tables::{Activity, Kind, NONE, Tables, Work};
use std::collections::BTreeMap;

/// One op of the trace to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) start: i64,
    pub(super) span: u64,
    /// When the host asked for it.
    pub(super) launched: i64,
    /// When the call that asked for it ended, or [`NONE`].
    pub(super) asked: i64,
    /// The thread that did, or [`NOWHERE`].
    pub(super) thread: u32,
    /// The innermost range that it did so in, or [`NOWHERE`].
    pub(super) range: u32,
    pub(super) name: u32,
    /// The stream of the device, or the thread of the host.
    pub(super) stream: u32,
    pub(super) bytes: u64,
    pub(super) flops: u64,
    pub(super) work: Work,
}

impl Item {
    pub(super) fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.span)
    }
}

/// What ran, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) list: Vec<Item>,
    /// The device that they ran on; none where that is the host.
    pub(super) device: Option<i64>,
    /// Activities without a launch.
    pub(super) lost: u64,
    /// Activities of other devices.
    pub(super) elsewhere: u64,
}

/// What ran on a device: on the one that did the most, if no other is wanted.
pub(super) fn device_items(tables: &Tables, host: &Host, wanted: Option<i64>) -> Items {
    let device = wanted.unwrap_or_else(|| busiest(tables));
    let mut calls: Vec<u32> = (0..tables.calls.len() as u32).collect();
    calls.sort_by_key(|&id| (tables.calls[id as usize].correlation, id));
    let of = |activity: &Activity| {
        let wanted = activity.correlation;
        let at = calls.partition_point(|&id| tables.calls[id as usize].correlation < wanted);
        let call = calls.get(at).map(|&id| tables.calls[id as usize]);
        call.filter(|call| call.correlation == wanted && wanted != NONE)
    };
    let mut items = Items { device: Some(device), ..Items::default() };
    for activity in &tables.activities {
        if tables.streams[activity.stream as usize].0 != device {
            items.elsewhere += 1;
            continue;
        }
        let call = of(activity);
        items.lost += u64::from(call.is_none());
        let bytes = match activity.work {
            Work::Kernel => 0,
            // On ROCm only the launch says how much is copied.
            _ if activity.bytes == 0 => call.map_or(0, |call| call.bytes),
            _ => activity.bytes,
        };
        items.list.push(Item {
            start: activity.start,
            span: activity.span,
            launched: call.map_or(NONE, |call| call.start),
            asked: call.map_or(NONE, |call| call.end),
            thread: call.map_or(NOWHERE, |call| call.thread),
            range: NOWHERE,
            name: activity.name,
            stream: activity.stream,
            bytes,
            flops: 0,
            work: activity.work,
        });
    }
    order(&mut items.list);
    let moments: Vec<(u32, i64)> =
        items.list.iter().map(|item| (item.thread, item.launched)).collect();
    for (item, range) in items.list.iter_mut().zip(host.innermost(tables, &moments)) {
        item.range = if item.thread == NOWHERE { NOWHERE } else { range };
    }
    price(tables, host, &mut items.list);
    items
}

/// The device of the most activities; of as many, the one with the lowest number.
fn busiest(tables: &Tables) -> i64 {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for activity in &tables.activities {
        *counts.entry(tables.streams[activity.stream as usize].0).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|&(device, count)| (count, std::cmp::Reverse(device)));
    most.map_or(0, |(device, _)| *device)
}

/// Sorts by launch. A stream runs in order: an item without a launch is asked for with what its
/// stream ran before, and no item earlier than that.
fn order(items: &mut [Item]) {
    items.sort_by_key(|item| (item.stream, item.start, item.launched));
    for stream in items.chunk_by_mut(|one, next| one.stream == next.stream) {
        let known = stream.iter().map(|item| item.launched).find(|&at| at != NONE);
        let mut last = known.unwrap_or(stream[0].start).min(stream[0].start);
        for item in stream {
            last = if item.launched == NONE { last } else { last.max(item.launched) };
            item.launched = last;
        }
    }
    items.sort_by_key(|item| (item.launched, item.start, item.stream));
}

/// The FLOPs of an op go to the longest of the kernels that it launched itself.
fn price(tables: &Tables, host: &Host, items: &mut [Item]) {
    let mut longest: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.work == Work::Kernel) {
        let op = host.of(item.range).op;
        if op == NOWHERE || tables.ranges[op as usize].flops == 0 {
            continue;
        }
        let best = longest.entry(op).or_insert(index);
        if items[*best].span < item.span {
            *best = index;
        }
    }
    for (op, index) in longest {
        items[index].flops = tables.ranges[op as usize].flops;
    }
}

/// What the threads of the host did: the time of each op that is not within another op, in pieces
/// where other ops lie between. A piece in which memory is given after some was taken back is cut
/// there, so that within a piece all that is given comes first.
pub(super) fn host_items(tables: &Tables, host: &Host) -> Items {
    let mut changes: Vec<(u32, i64, i64, bool)> = tables
        .changes
        .iter()
        .filter(|change| change.host)
        .map(|change| (change.thread, change.at, change.index, change.bytes > 0))
        .collect();
    changes.sort_unstable();
    let mut sweep = Sweep { tables, changes, next: 0, open: Vec::new(), at: 0, list: Vec::new() };
    for &id in &host.order {
        sweep.enter(id);
    }
    sweep.close(u32::MAX, i64::MAX);
    let mut list = sweep.list;
    list.sort_by_key(|item| (item.launched, item.start, item.stream));
    price_host(tables, host, &mut list);
    Items { list, ..Items::default() }
}

/// The FLOPs of a product on the host go to the longest piece of it. What lies within a product
/// is part of it: its FLOPs count once.
fn price_host(tables: &Tables, host: &Host, items: &mut [Item]) {
    // By range: the outermost product that it lies in, itself among them.
    let mut product_of = vec![NOWHERE; tables.ranges.len()];
    for &id in &host.order {
        let outer = product_of.get(host.of(id).parent as usize).copied().unwrap_or(NOWHERE);
        let own = if tables.ranges[id as usize].flops > 0 { id } else { NOWHERE };
        product_of[id as usize] = if outer == NOWHERE { own } else { outer };
    }
    // By product: the piece, whether it is of the outermost or an inner product, and how long it is.
    let mut longest: BTreeMap<u32, (usize, (bool, u64))> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let product = product_of.get(item.range as usize).copied().unwrap_or(NOWHERE);
        if product == NOWHERE {
            continue;
        }
        let how = (tables.ranges[item.range as usize].flops > 0, item.span);
        let best = longest.entry(product).or_insert((index, how));
        if how > best.1 {
            *best = (index, how);
        }
    }
    for (product, (index, _)) in longest {
        items[index].flops = tables.ranges[product as usize].flops;
    }
}

struct Sweep<'a> {
    tables: &'a Tables,
    /// Thread, time, index, and whether memory is given.
    changes: Vec<(u32, i64, i64, bool)>,
    next: usize,
    open: Vec<u32>,
    /// Up to where the time of the open ranges is told.
    at: i64,
    list: Vec<Item>,
}

impl Sweep<'_> {
    fn enter(&mut self, id: u32) {
        let range = &self.tables.ranges[id as usize];
        let (thread, start) = (range.thread, range.start);
        self.close(thread, start);
        if let Some(&top) = self.open.last() {
            self.piece(top, start);
        }
        (self.at, _) = (start, self.open.push(id));
    }

    /// Closes what ends by a moment.
    fn close(&mut self, thread: u32, time: i64) {
        while let Some(&top) = self.open.last() {
            let range = &self.tables.ranges[top as usize];
            if range.thread == thread && range.end > time {
                return;
            }
            let end = range.end;
            self.piece(top, end);
            self.open.pop();
        }
    }

    /// The time of the innermost range up to `end`.
    fn piece(&mut self, id: u32, end: i64) {
        let range = &self.tables.ranges[id as usize];
        let (from, thread) = (self.at, range.thread);
        let end = end.max(from);
        self.at = end;
        if !matches!(range.kind, Kind::Op | Kind::Node | Kind::Accumulate) {
            return;
        }
        let (mut start, mut taken, mut any) = (from, false, false);
        while let Some(&(of, at, _, gives)) = self.changes.get(self.next) {
            if (of, at) < (thread, from) {
                self.next += 1;
                continue;
            }
            if (of, at) > (thread, end) {
                break;
            }
            self.next += 1;
            if gives && taken {
                self.push(id, start, at);
                (start, taken) = (at, false);
            }
            (taken, any) = (taken || !gives, true);
        }
        if any || end > start {
            self.push(id, start, end);
        }
    }

    fn push(&mut self, id: u32, start: i64, end: i64) {
        let range = &self.tables.ranges[id as usize];
        self.list.push(Item {
            start,
            span: start.abs_diff(end),
            launched: start,
            asked: NONE,
            thread: range.thread,
            range: id,
            name: range.name,
            stream: range.thread,
            bytes: 0,
            flops: 0,
            work: Work::Kernel,
        });
    }
}
