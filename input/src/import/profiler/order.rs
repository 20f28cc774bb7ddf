//! Lanes, edges and gaps: when each item may start.
//!
//! A stream runs in order. Across streams a file with `cuda_sync` events says what waits for what:
//! streams for recorded events, launches for a host that waited. Without them every item comes
//! after all that had ended when it started. The rest of the time before an item is a gap, for the
//! host was late: an idle op of that length behind the last thing that it waits for, so that every
//! item starts when it did.
//! Invariant: played with the recorded durations and nothing to wait for but edges, every item
//! starts at its recorded time less the gaps that are dropped before it, to the picosecond.

use super::Gaps;
use super::items::Item;
use super::tables::{Call, NONE, Tables, Wait, Waiter};
use std::collections::BTreeMap;

/// At most so many items that ended late are looked at for edges of one.
const LOOKED_AT: usize = 64;
/// Items that a stream may run beside each other; devices run at most 128 kernels at once.
const MOST_BESIDE: usize = 128;

/// Where an item goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) lane: u16,
    /// When it starts, from the first item's start.
    pub(super) at: u64,
    /// Idle time on its lane before it, behind what it waits for.
    pub(super) idle: u64,
    /// Items of other lanes that it waits for.
    pub(super) after: Vec<u32>,
}

/// The places of all items.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) places: Vec<Place>,
    pub(super) lanes: u32,
    /// Time in which nothing ran, and the time in which anything did.
    pub(super) gaps: u64,
    pub(super) busy: u64,
    /// Edges from `cuda_sync` events, and from times.
    pub(super) synced: u64,
    pub(super) timed: u64,
    /// Items that ran beside others of their own stream.
    pub(super) beside: u64,
    /// Whether the file has `cuda_sync` events.
    pub(super) by_sync: bool,
}

/// Places the items.
///
/// # Errors
/// In words, if there are too many lanes.
pub(super) fn order(tables: &Tables, items: &[Item], gaps: Gaps) -> Result<Order, String> {
    let mut order = Order { by_sync: !tables.waits.is_empty(), ..Order::default() };
    order.places = vec![Place::default(); items.len()];
    let starts = compressed(items, gaps, &mut order);
    lanes(items, &mut order)?;
    let waits = if order.by_sync { synced(tables, items) } else { BTreeMap::new() };
    let mut by_end: Vec<u32> = (0..items.len() as u32).collect();
    by_end.sort_by_key(|&id| (items[id as usize].end(), id));
    let mut last: Vec<Option<u32>> = vec![None; order.lanes as usize];
    for (index, item) in items.iter().enumerate() {
        let lane = order.places[index].lane;
        let before = last[usize::from(lane)];
        let ended = |id: u32| items[id as usize].end();
        let mut after: Vec<u32> = match waits.get(&(index as u32)) {
            Some(waits) if order.by_sync => waits.clone(),
            _ if order.by_sync => Vec::new(),
            _ => timed(items, &order.places, &by_end, index, before),
        };
        after.retain(|&id| order.places[id as usize].lane != lane && ended(id) <= item.start);
        after.sort_unstable();
        after.dedup();
        match order.by_sync {
            true => order.synced += after.len() as u64,
            false => order.timed += after.len() as u64,
        }
        let end = |id: u32| starts[id as usize] + items[id as usize].span;
        let latest = after.iter().copied().chain(before).map(end).max().unwrap_or(0);
        let place = &mut order.places[index];
        place.at = starts[index];
        // What it waits for had ended, so this is no less than 0.
        place.idle = starts[index].saturating_sub(latest);
        place.after = after;
        last[usize::from(lane)] = Some(index as u32);
    }
    Ok(order)
}

/// When each item starts, counted from the first start, without the time in which nothing ran where
/// gaps are dropped.
fn compressed(items: &[Item], gaps: Gaps, order: &mut Order) -> Vec<u64> {
    let mut by_start: Vec<u32> = (0..items.len() as u32).collect();
    by_start.sort_by_key(|&id| (items[id as usize].start, id));
    let first = by_start.first().map_or(0, |&id| items[id as usize].start);
    let (mut end, mut idle) = (first, 0u64);
    let mut starts = vec![0; items.len()];
    for id in by_start {
        let item = &items[id as usize];
        if item.start > end {
            idle += end.abs_diff(item.start);
        }
        end = end.max(item.end());
        let dropped = if gaps == Gaps::Drop { idle } else { 0 };
        starts[id as usize] = first.abs_diff(item.start) - dropped;
    }
    (order.gaps, order.busy) = (idle, first.abs_diff(end) - idle);
    starts
}

/// The lane of each item: that of its stream, and more where a stream ran items beside each other.
fn lanes(items: &[Item], order: &mut Order) -> Result<(), String> {
    // By stream: its lanes with the end of each one's last item.
    let mut streams: BTreeMap<u32, Vec<(u16, i64)>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let lanes = streams.entry(item.stream).or_default();
        let busy = !lanes.is_empty();
        if lanes.len() > MOST_BESIDE {
            return Err(format!("a stream that runs more than {MOST_BESIDE} things at once"));
        }
        let free = lanes.iter_mut().find(|(_, end)| *end <= item.start);
        order.beside += u64::from(free.is_none() && busy);
        let lane = match free {
            Some((lane, end)) => {
                *end = item.end();
                *lane
            }
            None => {
                let Ok(lane) = u16::try_from(order.lanes) else {
                    return Err("more than 65536 streams".to_owned());
                };
                order.lanes += 1;
                lanes.push((lane, item.end()));
                lane
            }
        };
        order.places[index].lane = lane;
    }
    Ok(())
}

/// What had ended when an item started, on other lanes, as far as its lane does not wait for that
/// already.
fn timed(
    items: &[Item],
    places: &[Place],
    by_end: &[u32],
    index: usize,
    before: Option<u32>,
) -> Vec<u32> {
    let item = &items[index];
    let ended = by_end.partition_point(|&id| items[id as usize].end() <= item.start);
    let since = before.map_or(i64::MIN, |id| items[id as usize].start);
    let mut found: Vec<u32> = Vec::new();
    for &id in by_end[..ended].iter().rev().take(LOOKED_AT) {
        if items[id as usize].end() <= since {
            break;
        }
        let lane = places[id as usize].lane;
        // Only what was asked for before can be waited for; of a lane its last item is enough.
        let new = found.iter().all(|&other| places[other as usize].lane != lane);
        if (id as usize) < index && lane != places[index].lane && new {
            found.push(id);
        }
    }
    found
}

/// By item: what it waits for by `cuda_sync` events.
fn synced(tables: &Tables, items: &[Item]) -> BTreeMap<u32, Vec<u32>> {
    let mut calls: Vec<u32> = (0..tables.calls.len() as u32).collect();
    calls.sort_by_key(|&id| (tables.calls[id as usize].correlation, id));
    let call = |correlation: i64| -> Option<Call> {
        let of = |id: &u32| tables.calls[*id as usize].correlation;
        let at = calls.partition_point(|id| of(id) < correlation);
        let found = calls.get(at).filter(|id| of(id) == correlation && correlation != NONE)?;
        Some(tables.calls[*found as usize])
    };
    // Items by stream, in the order of launches.
    let mut streams: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    let mut threads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let stream = tables.streams.get(item.stream as usize).map_or(NONE, |stream| stream.1);
        streams.entry(stream).or_default().push(index as u32);
        threads.entry(item.thread).or_default().push(index as u32);
    }
    let launched = |id: &u32| items[*id as usize].launched;
    let before = |stream: i64, time: i64| -> Option<u32> {
        let list = streams.get(&stream)?;
        list[..list.partition_point(|id| launched(id) < time)].last().copied()
    };
    let mut waits: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut host: Vec<(u32, i64, Vec<u32>)> = Vec::new();
    for &Wait { waiter, correlation, stream, on_stream, record } in &tables.waits {
        let Some(asked) = call(correlation) else { continue };
        let recorded = call(record).map(|call| call.start);
        if waiter == Waiter::Host {
            let from: Vec<u32> = match streams.contains_key(&stream) {
                true => before(stream, recorded.unwrap_or(asked.start)).into_iter().collect(),
                // All streams.
                false => {
                    let all = streams.keys().take(LOOKED_AT);
                    all.filter_map(|&of| before(of, asked.start)).collect()
                }
            };
            host.push((asked.thread, asked.end, from));
            continue;
        }
        let Some(from) = before(on_stream, recorded.unwrap_or(asked.start)) else { continue };
        let Some(list) = streams.get(&stream) else { continue };
        if let Some(&to) = list.get(list.partition_point(|id| launched(id) < asked.start)) {
            waits.entry(to).or_default().push(from);
        }
    }
    // What a thread launches next after it waited, on each stream, comes after that.
    for (thread, time, from) in host {
        let Some(list) = threads.get(&thread) else { continue };
        let mut streams = Vec::new();
        let behind = list.partition_point(|id| launched(id) < time);
        for &to in list[behind..].iter().take(LOOKED_AT) {
            let stream = items[to as usize].stream;
            if !streams.contains(&stream) {
                streams.push(stream);
                waits.entry(to).or_default().extend(&from);
            }
        }
    }
    waits
}
