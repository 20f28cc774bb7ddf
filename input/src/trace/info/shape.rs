//! The curves behind the charts of `tiersim trace info`.
//!
//! The working set of so many ops in a row is the bytes of the objects that they use, each counted
//! once (Denning, 1968). Its mean over all beginnings follows from how long each object is left alone
//! (Denning and Schwartz, 1972), so that no window is looked at for it; the most is looked for.
//! Invariant: reads the trace only; memory and time grow with its tables, not with their squares.

use super::{lives, reuse};
use std::collections::BTreeMap;
use tiersim_models::recorded::{Road, ShownCopies, copies};
use tiersim_models::results::op_grades::quantile;
use tiersim_models::results::trace_shape::{Distribution, Reached, RoadShape, TraceShape, Window};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{ObjectKind, Trace};

/// Points along the ops, and sizes of a road.
const MOST_POINTS: usize = 600;
const MOST_SIZES: usize = 200;
/// Points of a distribution.
const MOST_STEPS: usize = 1000;

/// The curves of a trace that has passed [`Trace::problems`]; `shown` is what its copies show.
pub fn shape(trace: &Trace, shown: &[ShownCopies]) -> TraceShape {
    let recorded = &trace.meta.recorded;
    let said = [&recorded.how, &recorded.when, &recorded.on].map(String::as_str);
    let said: Vec<&str> = said.into_iter().filter(|part| !part.is_empty()).collect();
    let (alive, at) = alive(trace);
    let rows = copies(trace);
    TraceShape {
        name: trace.meta.name.clone(),
        recorded: said.join("; "),
        ops: trace.ops.len() as u64,
        alive,
        at,
        windows: windows(trace),
        reuse: by_uses_and_bytes(reuse::distances(trace)),
        roads: shown.iter().map(|shown| road(shown, &rows)).collect(),
    }
}

/// Bytes alive by kind, at the ops of the most in each stretch.
fn alive(trace: &Trace) -> (Vec<(&'static str, Vec<u64>)>, Vec<u32>) {
    let ops = trace.ops.len();
    let mut changes = vec![Vec::new(); ops + 1];
    for (object, life) in trace.objects.iter().zip(lives(trace)) {
        if let Some((from, to)) = life.filter(|_| ops > 0) {
            let bytes = i128::from(object.bytes.get());
            changes[from].push((object.kind, bytes));
            changes[to + 1].push((object.kind, -bytes));
        }
    }
    let place = |kind: ObjectKind| ObjectKind::ALL.iter().position(|other| *other == kind);
    let stretch = ops.div_ceil(MOST_POINTS).max(1);
    let mut now = [0i128; ObjectKind::ALL.len()];
    let (mut all, mut at): (Vec<[i128; ObjectKind::ALL.len()]>, Vec<u32>) = Default::default();
    for (op, changes) in changes.iter().take(ops).enumerate() {
        for (kind, bytes) in changes {
            now[place(*kind).expect("all are listed")] += bytes;
        }
        let sum = |of: &[i128]| of.iter().sum::<i128>();
        match all.last_mut() {
            Some(most) if op % stretch > 0 => {
                if sum(&now) > sum(most) {
                    (*most, at[op / stretch]) = (now, op as u32);
                }
            }
            _ => {
                all.push(now);
                at.push(op as u32);
            }
        }
    }
    let of = |(place, kind): (usize, &ObjectKind)| {
        let narrow = |of: &[i128; _]| u64::try_from(of[place]).unwrap_or(u64::MAX);
        let line: Vec<u64> = all.iter().map(narrow).collect();
        line.iter().any(|&bytes| bytes > 0).then(|| (kind.word(), line))
    };
    (ObjectKind::ALL.iter().enumerate().filter_map(of).collect(), at)
}

/// What 1, 2, 4, ... and all ops in a row use.
fn windows(trace: &Trace) -> Vec<Window> {
    let ops = trace.ops.len();
    if ops == 0 || trace.uses.is_empty() {
        return Vec::new();
    }
    let powers = (0..usize::BITS).map(|power| 1usize << power).take_while(|&size| size < ops);
    let sizes: Vec<usize> = powers.chain([ops]).collect();
    let means = means(trace, &sizes);
    let one =
        |(&size, mean): (&usize, f64)| Window { ops: size as u64, mean, most: most(trace, size) };
    sizes.iter().zip(means).map(one).collect()
}

/// Of each size the mean: an object of which no window of so many ops is left alone is in all.
fn means(trace: &Trace, sizes: &[usize]) -> Vec<f64> {
    let ops = trace.ops.len();
    // By length: bytes of the objects that so many ops in a row do not use, before and behind uses.
    let mut alone = vec![0u128; ops + 1];
    // By object: one more than the op that used it last, 0 before its first.
    let mut last = vec![0usize; trace.objects.len()];
    let mut used = 0u128;
    for (index, op) in trace.ops.iter().enumerate() {
        for one in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
            let object = one.object.index();
            let bytes = u128::from(trace.objects[object].bytes.get());
            used += if last[object] == 0 { bytes } else { 0 };
            if last[object] <= index {
                alone[index - last[object]] += bytes;
                last[object] = index + 1;
            }
        }
    }
    for (object, &last) in trace.objects.iter().zip(&last).filter(|(_, last)| **last > 0) {
        alone[ops - last] += u128::from(object.bytes.get());
    }
    let mean = |&size: &usize| {
        let windows = (ops - size + 1) as f64;
        let missed = (size..=ops).map(|gap| alone[gap] as f64 * (gap - size + 1) as f64);
        used as f64 - missed.sum::<f64>() / windows
    };
    sizes.iter().map(mean).collect()
}

/// The most bytes that so many ops in a row use.
fn most(trace: &Trace, size: usize) -> u64 {
    let mut uses = vec![0u32; trace.objects.len()];
    let (mut now, mut most) = (0u64, 0u64);
    for (index, op) in trace.ops.iter().enumerate() {
        if let Some(gone) = index.checked_sub(size) {
            let gone = &trace.ops[gone].uses;
            for one in &trace.uses[gone.start as usize..gone.end as usize] {
                let object = one.object.index();
                uses[object] -= 1;
                if uses[object] == 0 {
                    now -= trace.objects[object].bytes.get();
                }
            }
        }
        for one in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
            let object = one.object.index();
            if uses[object] == 0 {
                now += trace.objects[object].bytes.get();
            }
            uses[object] += 1;
        }
        most = most.max(now);
    }
    most
}

/// Distances with the bytes that are used again, as shares of uses and of those bytes.
fn by_uses_and_bytes(mut distances: Vec<(u64, u64)>) -> [Distribution; 2] {
    distances.sort_unstable();
    [
        distribution(distances.iter().map(|&(distance, _)| (distance, 1))),
        distribution(distances.iter().map(|&(distance, bytes)| (distance, bytes))),
    ]
}

/// The distribution of ascending values, each so many times; of many those that are most evenly apart.
pub(crate) fn distribution(values: impl Iterator<Item = (u64, u64)> + Clone) -> Distribution {
    let all: u128 = values.clone().map(|(_, times)| u128::from(times)).sum();
    let (mut sum, mut curve) = (0u128, Distribution::new());
    // The share that the last point but one has: what lies nearer to it is taken together.
    let mut below = 0.0;
    for (value, times) in values.filter(|(_, times)| *times > 0) {
        sum += u128::from(times);
        let share = sum as f64 / all as f64;
        let near = curve.len() > 1 && share - below < 1.0 / MOST_STEPS as f64;
        match curve.last_mut() {
            Some(last) if last.0 == value => last.1 = share,
            Some(last) if near => *last = (value, share),
            last => {
                below = last.map_or(0.0, |last| last.1);
                curve.push((value, share));
            }
        }
    }
    curve
}

/// The copies of a road by size; of many sizes those that lie next to each other are one.
fn road(shown: &ShownCopies, rows: &BTreeMap<Road, Vec<(Bytes, Span)>>) -> RoadShape {
    let rows = rows.get(&shown.road).map_or(&[][..], Vec::as_slice);
    let told = rows.iter().filter(|(bytes, span)| *bytes > Bytes::ZERO && *span > Span::ZERO);
    let mut told: Vec<(u64, f64)> = told
        .map(|(bytes, span)| (bytes.get(), bytes.get() as f64 * 1e12 / span.ps() as f64))
        .collect();
    told.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let distinct = told.chunk_by(|one, next| one.0 == next.0).count();
    let (least, most) = match (told.first(), told.last()) {
        (Some(first), Some(last)) => ((first.0 as f64).ln(), (last.0 as f64).ln()),
        _ => (0.0, 0.0),
    };
    let step = (most - least) / MOST_SIZES as f64;
    let near = |one: u64, other: u64| match distinct > MOST_SIZES && step > 0.0 {
        true => {
            let bin = |size: u64| (((size as f64).ln() - least) / step) as usize;
            bin(one) == bin(other)
        }
        false => one == other,
    };
    let reached = |of: &[(u64, f64)]| {
        let mut rates: Vec<f64> = of.iter().map(|one| one.1).collect();
        rates.sort_by(f64::total_cmp);
        Reached {
            bytes: of[(of.len() - 1) / 2].0,
            copies: of.len() as u64,
            rate: [0.05, 0.5, 0.95].map(|share| quantile(&rates, share)),
        }
    };
    let sizes = told.chunk_by(|one, next| near(one.0, next.0)).map(reached).collect();
    RoadShape { shown: shown.clone(), sizes }
}

#[cfg(test)]
mod tests {
    use super::super::unnamed;
    use super::*;
    use tiersim_models::ids::ObjectId;
    use tiersim_models::workload::{Mode, Object, Op, Phase, Use};

    /// A trace of ops that use these objects, of 1, 10, 100, ... bytes.
    fn of_uses(ops: &[&[usize]]) -> Trace {
        let meta = unnamed();
        let object = |at: u32| {
            let bytes = Bytes::new(10u64.pow(at));
            Object::new(at.to_string(), ObjectKind::ALL[at as usize % 2], bytes)
        };
        let (mut uses, mut rows) = (Vec::new(), Vec::new());
        for objects in ops {
            let start = uses.len() as u32;
            let of = |&object: &usize| Use::whole(ObjectId::at(object), Mode::Read);
            uses.extend(objects.iter().map(of));
            rows.push(Op::new(0, Phase::Other, "op", start..uses.len() as u32));
        }
        Trace { meta, modules: Vec::new(), objects: (0..6).map(object).collect(), ops: rows, uses }
    }

    /// The definition, window by window.
    fn naive(trace: &Trace, size: usize) -> (f64, u64) {
        let bytes = |ops: &[Op]| -> u64 {
            let uses = ops.iter().flat_map(|op| op.uses.clone());
            let mut all: Vec<usize> =
                uses.map(|at| trace.uses[at as usize].object.index()).collect();
            all.sort_unstable();
            all.dedup();
            all.into_iter().map(|object| trace.objects[object].bytes.get()).sum()
        };
        let all: Vec<u64> = trace.ops.windows(size).map(bytes).collect();
        (all.iter().sum::<u64>() as f64 / all.len() as f64, all.into_iter().max().unwrap_or(0))
    }

    #[test]
    fn working_sets_are_those_of_the_definition() {
        let (mut state, mut ops) = (1u64, Vec::new());
        for _ in 0..77 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let of = |shift: u32| (state >> shift) as usize % (1 + (state >> 60) as usize % 6);
            let all = [of(33), of(38), of(43)];
            ops.push(all[..(state >> 50) as usize % 4].to_vec());
        }
        let ops: Vec<&[usize]> = ops.iter().map(Vec::as_slice).collect();
        let trace = of_uses(&ops);
        let found = windows(&trace);
        let sizes: Vec<u64> = found.iter().map(|one| one.ops).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 77]);
        for one in found {
            let (mean, most) = naive(&trace, one.ops as usize);
            assert!((one.mean - mean).abs() < 1e-6, "{one:?} {mean}");
            assert_eq!(one.most, most, "{one:?}");
        }
        assert!(windows(&of_uses(&[])).is_empty() && windows(&of_uses(&[&[], &[]])).is_empty());
    }

    #[test]
    fn what_is_alive_is_there_from_first_use_to_last_and_the_peak_is_kept() {
        let trace = of_uses(&[&[0], &[1, 2], &[1], &[], &[2, 3]]);
        let (alive, at) = alive(&trace);
        assert_eq!(at, [0, 1, 2, 3, 4]);
        let [even, odd] = [0, 1].map(|at| ObjectKind::ALL[at].word());
        assert_eq!(alive, [(even, vec![1, 100, 100, 100, 100]), (odd, vec![0, 10, 10, 0, 1000])]);
        // Of many ops those of the most are left.
        let mut ops: Vec<&[usize]> = vec![&[0]; 4000];
        ops[1234] = &[0, 5];
        let (many, at) = super::alive(&of_uses(&ops));
        assert!(at.len() <= MOST_POINTS && at.contains(&1234));
        assert_eq!(many[1].1.iter().max(), Some(&100_000));
    }

    #[test]
    fn a_distribution_keeps_its_ends_and_is_thinned_between() {
        let few = distribution([(3, 1), (3, 1), (8, 2)].into_iter());
        assert_eq!(few, [(3, 0.5), (8, 1.0)]);
        let many = distribution((0..100_000).map(|value| (value, 1)));
        // Every two steps are further apart than that.
        assert!(many.len() <= 2 * MOST_STEPS + 2, "{}", many.len());
        assert_eq!((many[0].0, many.last()), (0, Some(&(99_999, 1.0))));
        let at_most = |&(value, share): &(u64, f64)| (value + 1) as f64 / 100_000.0 - share;
        assert!(many.iter().all(|point| at_most(point).abs() < 1e-9));
        assert!(distribution([].into_iter()).is_empty());
    }
}
