//! What the file shows of the device beyond the trace: what launches take, and the shapes of
//! products.
//!
//! A kernel that the host had asked for while its stream was still at work starts as soon as the
//! device can; one that finds its stream idle starts as soon as the host's call has come through.
//! Invariant: a kernel of which the file has no launch is neither.

use super::host::Host;
use super::items::{Item, Items};
use super::tables::{NONE, Tables, Work};
use std::collections::BTreeMap;
use tiersim_models::kernel::Product;
use tiersim_models::recorded::Profile;
use tiersim_models::units::{Bytes, Span};

/// Of what ran on the device; nothing where there was none.
pub(super) fn profile(tables: &Tables, host: &Host, items: &Items) -> Profile {
    let Some(number) = items.device else { return Profile::default() };
    let device = tables.devices.get(&number);
    let device = device.map(|(name, memory)| (name.clone(), memory.map(Bytes::new)));
    let mut profile = Profile { device, ..Profile::default() };
    let mut list: Vec<&Item> = items.list.iter().collect();
    list.sort_by_key(|item| (item.stream, item.start, item.end()));
    for pair in list.windows(2).filter(|pair| pair[0].stream == pair[1].stream) {
        let (before, item) = (pair[0], pair[1]);
        let known = item.work == Work::Kernel && item.asked != NONE;
        if !known || item.start < before.end() {
            continue;
        }
        let span = |from: i64, to: i64| Span::from_ps(from.abs_diff(to));
        if before.work == Work::Kernel && item.asked <= before.end() {
            let gap = span(before.end(), item.start);
            profile.chained.push((gap, span(before.end(), item.end())));
        } else if item.launched >= before.end() && item.start >= item.launched {
            profile.late.push(span(item.launched, item.start));
        }
    }
    profile.products = products(tables, host, items);
    profile
}

/// Products with the time of all kernels that each launched itself, in the order of the file.
fn products(tables: &Tables, host: &Host, items: &Items) -> Vec<(&'static str, Product, Span)> {
    let mut times: BTreeMap<u32, u64> =
        tables.products.iter().map(|&(range, ..)| (range, 0)).collect();
    for item in items.list.iter().filter(|item| item.work == Work::Kernel) {
        if let Some(time) = times.get_mut(&host.of(item.range).op) {
            *time = time.saturating_add(item.span);
        }
    }
    let timed = tables.products.iter().filter(|(range, ..)| times[range] > 0);
    timed
        .map(|&(range, precision, shape)| (precision, shape, Span::from_ps(times[&range])))
        .collect()
}
