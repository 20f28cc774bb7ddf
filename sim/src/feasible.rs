//! What can be said against a scenario and its trace together, before anything is simulated.
//!
//! Each of them is sound by itself, yet the scenario may ask for something that the trace lacks,
//! the trace may hold an object that no tier of the machine could ever take, or the run may be
//! longer than the clock counts. That is bad input and not a result, so it is found first: nothing
//! is simulated and nothing is written.
//! Invariant: a scenario without problems here can end out of memory, but never with bad input.

mod ranks;

use crate::durations::Durations;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};
use tiersim_models::hardware::{Capacity, HBM, Hardware, Law, Link};
use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Object, Op, Trace, Unit};
use tiersim_policies::cpu_ops::{self, has_cpu_ops};
use tiersim_policies::drive::WINDOW;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, OpTime, Scenario, TraceSource, WorkloadSpec};

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Seconds of simulated time that a run may take: half of what 64 bits of picoseconds hold.
const LONGEST_RUN: f64 = (u64::MAX / 2) as f64 / 1e12;
/// Most replays under memory pressure: all of them are simulated.
const MOST_WATCHED: u32 = 1_000_000;
/// How many objects that fit nowhere are listed one by one.
const MAX_LISTED: usize = 20;

/// Everything in `trace` that keeps the cases of `scenario` from being run at all.
///
/// The points of a sweep are only held to [`first_too_long`]: where an axis makes every tier small, that
/// a point runs out of memory is the answer to what the sweep asks.
pub fn problems(scenario: &Scenario, trace: &Trace) -> Diagnostics {
    let mut problems = Diagnostics::default();
    let source = &scenario.workload.trace;
    let place = source.place();
    let folder = place.as_path();
    oversized(source, trace, (&scenario.hardware, piece(scenario)), &mut problems);
    if let Some(endless) = too_long(scenario, trace) {
        problems.0.push(endless);
        return problems;
    }
    if scenario.workload.repeat > 1 && trace.ops.iter().any(|op| op.release.is_some()) {
        let rule = "a trace whose ops wait for arrivals runs once";
        let found = format!("repeat: {}", scenario.workload.repeat);
        let remedy = "write `repeat: 1, warmup: 0` in the workload: arrivals count from its start";
        problems.push(folder, None, rule, found, remedy);
    }
    // Once through the trace says whether every op has a time; how often it is replayed does not.
    let once = WorkloadSpec { repeat: 1, warmup: 0, jitter: 0.0, ..(*scenario.workload).clone() };
    let cpu = scenario.hardware.cpu.as_ref();
    if let Err(rule) = Durations::new(trace, &once, cpu, scenario.seed) {
        let remedy = match cpu {
            None if has_cpu_ops(trace) => {
                "write `cpu` in the hardware file, or choose other hardware"
            }
            _ => "choose another `time` in the scenario's workload",
        };
        problems.push(folder, None, rule, "", remedy);
    }
    for (rule, remedy) in ranks::problems(&scenario.hardware, scenario.workload.ranks, trace) {
        problems.push(folder, None, rule, "", remedy);
    }
    if let Err(rule) = cpu_ops::check(trace, &scenario.hardware) {
        let remedy = "choose hardware with memory of the host, or a trace without such ops";
        problems.push(folder, None, rule, "", remedy);
    }
    for case in &scenario.cases {
        if case.pressure.is_some() && scenario.workload.repeat > MOST_WATCHED {
            let rule = format!(
                "policy {:?}: a tier can be watched for {MOST_WATCHED} replays, not {}",
                case.label, scenario.workload.repeat
            );
            problems.push(folder, None, rule, "", "lower `repeat`, or leave `pressure` out");
        }
        if let Err(error) = case.policy.check(trace, &scenario.hardware) {
            let rule = format!("policy {:?}: {error}", case.label);
            problems.push(folder, None, rule, "", "choose another policy, or another trace");
        }
        if let Err(error) = case.numa.check(trace) {
            let rule = format!("policy {:?}: {error}", case.label);
            problems.push(folder, None, rule, "", "mend the pin's `module`; `*` is any text");
        }
    }
    problems
}

/// That a run of `scenario` could take longer than the clock counts.
pub fn too_long(scenario: &Scenario, trace: &Trace) -> Option<Diagnostic> {
    of_too_long(scenario, trace, computed(scenario, trace))
}

/// The same, where it is known how many seconds all ops compute.
fn of_too_long(scenario: &Scenario, trace: &Trace, computed: f64) -> Option<Diagnostic> {
    let [most, least] = longest(scenario, trace, computed);
    let [more, _] = in_least_batches(scenario);
    let longest = most.max(more).max(least);
    (longest > LONGEST_RUN).then(|| Diagnostic {
        file: scenario.workload.trace.place(),
        place: None,
        rule: format!(
            "the run may take {:.0} days of simulated time and the clock counts to {:.0}",
            longest / DAY,
            LONGEST_RUN / DAY
        ),
        found: String::new(),
        remedy: "lower `repeat` or `scale`, or check the units of the trace and the hardware"
            .into(),
    })
}

/// The first point of a sweep that is [`too_long`]. One that takes what the point before it takes
/// is not looked at again: most points differ in where things are, and the longest run has
/// everything everywhere.
pub fn first_too_long(sweep: &Sweep, traces: &Traces) -> Option<Diagnostic> {
    let points = &sweep.points;
    // Most points differ in something else.
    let base = (&sweep.base, &traces.of(&sweep.base).trace);
    let of_base = computed(base.0, base.1);
    let too_long = |scenario: &Scenario, trace: &Trace| {
        let workload = scenario.workload == base.0.workload;
        let same = workload && scenario.hardware.cpu == base.0.hardware.cpu;
        let known = same && std::ptr::eq(trace, base.1);
        of_too_long(scenario, trace, if known { of_base } else { computed(scenario, trace) })
    };
    (0..points.len()).into_par_iter().find_map_first(|index| {
        let scenario = &points[index].scenario;
        let last = index.checked_sub(1).map(|last| &points[last].scenario);
        let known = last.is_some_and(|last| as_long(last, scenario));
        (!known).then(|| too_long(scenario, &traces.of(scenario).trace))?
    })
}

/// Whether nothing that [`too_long`] looks at differs between two scenarios.
fn as_long(one: &Scenario, other: &Scenario) -> bool {
    let machine = Arc::ptr_eq(&one.hardware, &other.hardware) || one.hardware == other.hardware;
    let case = |one: &Case, other: &Case| {
        let of = |case: &Case| (case.chunk, case.micro_batch);
        let stated = |case: &&Case| case.policy.most_delay(Bytes::new(u64::MAX)) > Span::ZERO;
        let delays = [one, other].iter().any(stated);
        !delays
            && of(one) == of(other)
            && one.runtime == other.runtime
            && one.allocators == other.allocators
            && one.pressure == other.pressure
    };
    machine
        && one.workload == other.workload
        && one.cases.len() == other.cases.len()
        && one.cases.iter().zip(&other.cases).all(|(one, other)| case(one, other))
}

/// [`longest`] of the smallest micro-batches of any case; 0 if no case has its own.
fn in_least_batches(scenario: &Scenario) -> [f64; 2] {
    let TraceSource::Training(training) = &scenario.workload.trace else { return [0.0; 2] };
    let dynamic = |case: &Case| Some(case.pressure.as_ref()?.micro_batch?.min);
    let cases = scenario.cases.iter();
    let least = cases.filter_map(|case| case.micro_batch.or_else(|| dynamic(case))).min();
    least.map_or([0.0; 2], |least| {
        let batches = vec![least; training.sequences.len()];
        let trace = training.trace_of(&batches);
        longest(scenario, &trace, computed(scenario, &trace))
    })
}

/// Seconds that all ops of a replay compute.
fn computed(scenario: &Scenario, trace: &Trace) -> f64 {
    let (spec, hardware) = (&scenario.workload, &scenario.hardware);
    match &spec.time {
        OpTime::Recorded { scale } => {
            let recorded = trace.ops.iter().filter_map(|op| op.duration);
            recorded.map(|span| span.ps() as f64 / 1e12 * scale).sum()
        }
        OpTime::Priced { compute, precision } => {
            let seconds = |span: Option<Span>| span.map_or(f64::INFINITY, |s| s.ps() as f64 / 1e12);
            let time = |(op, time): (&Op, Option<Span>)| match (op.unit, &hardware.cpu) {
                // All ranks share the processors.
                (Unit::Cpu, Some(cpu)) => {
                    seconds(cpu.roofline(op.flops, op.bytes)) * f64::from(spec.ranks)
                }
                _ => seconds(time),
            };
            let times = compute.times(precision, &trace.ops);
            trace.ops.iter().zip(times).map(time).sum()
        }
    }
}

/// As many ops as may be under way, and a replay more, take no longer than the first many seconds
/// of simulated time: every use of an object pays for every link there and back, twice, and for
/// every tier, and nothing overlaps. What is used in place crosses links once, instead of a copy.
/// Every use pays what its policy states, too. The whole run takes no less than the second: ops of
/// one stream run one after the other. What lies between is found out while the run is simulated
/// ([`crate::run`]), which looks at the clock after every replay.
///
/// In floating point, so that a bound on what overflows does not overflow itself.
fn longest(scenario: &Scenario, trace: &Trace, computed: f64) -> [f64; 2] {
    let (hardware, piece) = (&scenario.hardware, piece(scenario).most());
    let slower = scenario.cases.iter().any(|case| case.runtime.pageable);
    let slower = slower.then(|| hardware.with_pageable());
    let hardware = slower.as_ref().unwrap_or(hardware);
    let framework = |seconds: &dyn Fn(&Runtime) -> f64| {
        scenario.cases.iter().map(|case| seconds(&case.runtime)).fold(0.0, f64::max)
    };
    let per_op = framework(&|runtime| runtime.per_op.ps() as f64 / 1e12);
    let per_object = framework(&|runtime| runtime.per_object.ps() as f64 / 1e12);
    let passes = framework(&|runtime| f64::from(runtime.passes));
    let device = hardware.tiers[HBM.index()].access.rate.get() as f64;
    let seconds = |law: &Law, pieces: f64, bytes: f64| {
        pieces * law.setup.ps() as f64 / 1e12 + bytes / law.rate.get() as f64
    };
    let channels: Vec<Law> = hardware.channels().map(|channel| hardware.slowest(channel)).collect();
    // Where both directions share a total, some resource is always full while anything is sent.
    let total = |link: &Link| Some(link.left_by_background(link.service.as_ref()?.least_total()?));
    let totals = hardware.links.iter().filter_map(total);
    let totals: Vec<f64> = totals.map(|total| total.get() as f64).collect();
    // Every room that is allocated takes a segment, and gives one back.
    let allocators = scenario.cases.iter().flat_map(|case| &case.allocators);
    let allocating = allocators.map(|spec| spec.costs().most().ps() as f64 / 1e12);
    // What moves within the device is launched, as a kernel is.
    let launch = hardware.compute.as_ref().map_or(0.0, |own| own.launch.ps() as f64 / 1e12);
    let allocating = allocating.fold(0.0, f64::max) + launch;
    // Others in a memory slow copies from and to it, too.
    let worst = hardware.tiers.iter().map(|tier| tier.worst()).fold(1.0, f64::max);
    let uses = hardware.tiers.iter().map(|tier| {
        let rise = tier.loaded.as_ref().map_or(0.0, |loaded| loaded.most().ps() as f64 / 1e12);
        (rise, Law { rate: tier.least_pace(), ..tier.access }, tier.granule().get() as f64)
    });
    let uses: Vec<(f64, Law, f64)> = uses.collect();
    let touch = |object: &Object| {
        let bytes = object.bytes.get() as f64;
        let pieces = (bytes / hardware.chunk.min(piece).get() as f64).ceil();
        let own = (bytes / piece.get() as f64).ceil();
        let copies: f64 = channels.iter().map(|law| seconds(law, pieces, bytes)).sum();
        let shared: f64 = totals.iter().map(|total| 2.0 * bytes / total).sum();
        let in_place =
            uses.iter().map(|(rise, law, granule)| rise + seconds(law, own, bytes + own * granule));
        let stated = scenario.cases.iter().map(|case| {
            let most = case.chunk.map_or(object.bytes, |chunk| object.bytes.min(chunk));
            own * case.policy.most_delay(most).ps() as f64 / 1e12
        });
        2.0 * (copies * worst + shared + own * (allocating + per_object) + passes * bytes / device)
            + in_place.sum::<f64>()
            + stated.fold(0.0, f64::max)
    };
    // Many objects are as large as others.
    let mut known: BTreeMap<Bytes, f64> = BTreeMap::new();
    let mut known = |object: &Object| *known.entry(object.bytes).or_insert_with(|| touch(object));
    let touches: Vec<f64> = trace.objects.iter().map(&mut known).collect();
    let touched: f64 = trace.uses.iter().map(|used| touches[used.object.index()]).sum();
    // Each piece of a part asks for one granule more than it has bytes.
    let parts = trace.uses.iter().filter_map(|used| used.part);
    let parts: f64 = parts.map(|part| f64::from(part.pieces.get())).sum();
    let granules = uses.iter().map(|(_, law, granule)| granule / law.rate.get() as f64);
    let touched = touched + parts * granules.sum::<f64>() + trace.ops.len() as f64 * per_op;
    let spec = &scenario.workload;
    // A draw of more than 200 times the mean takes more than six standard deviations; what ranks
    // share serves one after the other at worst.
    let together = ranks::longest(hardware, trace) + touched;
    let worst = computed * (1.0 + 200.0 * spec.jitter) + together * f64::from(spec.ranks);
    let streams: BTreeSet<u16> = trace.ops.iter().map(|op| op.stream).collect();
    let under_way = (WINDOW / trace.ops.len().max(1) as u64 + 2) as f64;
    let replays = f64::from(spec.repeat);
    // With draws the mean is all but certain, and half of it more than that.
    let sure = if spec.jitter > 0.0 { 0.5 } else { 1.0 };
    let releases = trace.ops.iter().filter_map(|op| op.release);
    let last = releases.max().map_or(0.0, |last| last.ps() as f64 / 1e12);
    let least = replays * sure * computed / streams.len().max(1) as f64;
    [last + replays.min(under_way) * worst, least]
}

/// The largest piece that objects come in where they are smallest.
fn piece(scenario: &Scenario) -> Capacity {
    let chunks = scenario.cases.iter().filter_map(|case| case.chunk);
    chunks.min().map_or(Capacity::Unlimited, Capacity::Limited)
}

/// Objects, or their pieces of so many bytes, that fit in no tier.
fn oversized(
    source: &TraceSource,
    trace: &Trace,
    (hardware, piece): (&Hardware, Capacity),
    problems: &mut Diagnostics,
) {
    let place = source.place();
    let folder = place.as_path();
    let tiers = hardware.tiers.iter();
    let largest = tiers.max_by_key(|tier| tier.capacity).unwrap_or(&hardware.tiers[HBM.index()]);
    let fits_nowhere = |bytes: Bytes| !largest.capacity.holds(bytes);
    let rows = trace.objects.iter().enumerate();
    let found: Vec<_> =
        rows.filter(|(_, object)| fits_nowhere(object.bytes.min(piece.most()))).collect();
    for &(row, object) in found.iter().take(MAX_LISTED) {
        let line = match source {
            TraceSource::Folder(_) => format!(" (line {} of objects.csv)", row + 2),
            _ => String::new(),
        };
        let rule = format!(
            "object {:?}{line} fits in no tier of {}: it needs {} ({} bytes) and \
             the largest tier, {}, has {} ({} bytes)",
            object.name,
            hardware.name,
            object.bytes,
            object.bytes.get(),
            largest.name,
            largest.capacity,
            largest.capacity.most().get()
        );
        let remedy = "raise the scenario's `capacity` of a tier, or choose larger hardware";
        problems.push(folder, None, rule, "", remedy);
    }
    if let Some(more) = found.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        let rule = format!("and {more} more objects that fit in no tier");
        problems.push(folder, None, rule, "", "mend the listed ones first");
    }
}

#[cfg(test)]
mod tests {
    use super::oversized;
    use std::path::PathBuf;
    use tiersim_models::diagnostic::Diagnostics;
    use tiersim_models::hardware::{Capacity, Hardware};
    use tiersim_models::units::Bytes;
    use tiersim_models::workload::{Object, ObjectKind, Trace, TraceMeta};
    use tiersim_policies::scenario::TraceSource;

    /// A machine of three tiers or fewer, with these capacities.
    fn machine(capacities: &[Capacity]) -> Hardware {
        let mut machine = crate::audit::tests::machine();
        machine.tiers.truncate(capacities.len());
        for (index, (tier, &capacity)) in machine.tiers.iter_mut().zip(capacities).enumerate() {
            (tier.name, tier.capacity) = (format!("t{index}"), capacity);
        }
        machine
    }

    fn trace(sizes: &[u64]) -> Trace {
        let object = |(index, &bytes): (usize, &u64)| Object {
            persistent: true,
            ..Object::new(format!("o{index}"), ObjectKind::Weight, Bytes::new(bytes))
        };
        Trace {
            meta: TraceMeta::default(),
            modules: Vec::new(),
            objects: sizes.iter().enumerate().map(object).collect(),
            ops: Vec::new(),
            uses: Vec::new(),
        }
    }

    fn found(capacities: &[Capacity], sizes: &[u64]) -> Diagnostics {
        let mut problems = Diagnostics::default();
        let source = TraceSource::Folder(PathBuf::from("folder"));
        oversized(
            &source,
            &trace(sizes),
            (&machine(capacities), Capacity::Unlimited),
            &mut problems,
        );
        problems
    }

    #[test]
    fn an_object_is_refused_only_if_it_is_larger_than_every_tier() {
        let tiers = [10, 30, 20].map(|bytes| Bytes::new(bytes).into());
        assert!(found(&tiers, &[10, 11, 20, 30]).0.is_empty());
        assert!(found(&[Bytes::new(1).into(), Capacity::Unlimited], &[u64::MAX]).0.is_empty());
        let text = found(&tiers, &[30, 31]).to_string();
        for piece in ["\"o1\" (line 3 of objects.csv)", "31 bytes", "largest tier, t1", "30 bytes"]
        {
            assert!(text.contains(piece), "{piece} in {text}");
        }
    }

    #[test]
    fn a_trace_of_giants_is_summed_up() {
        let problems = found(&[Bytes::new(1).into()], &[2; 1000]);
        assert_eq!(problems.0.len(), 21);
        assert!(problems.to_string().contains("and 980 more objects"));
    }
}
