//! What ran when, in the Chrome trace format, which Perfetto opens.
//!
//! One process per case, one thread per compute stream, and as many per channel as copies are under
//! way there at once: viewers drop slices of a thread that overlap in part. Steps have a thread
//! too, and what tiers hold is a counter. Times are written as exact decimals of microseconds from
//! integer picoseconds: a float would merge neighbours once a step is long. Each case starts at 0,
//! so that steps lie under one another for comparison; one in which a tier is watched shows all its
//! steps and what happened, at the times of the run.
//! Invariant: slices of one thread do not overlap; at most [`MOST_EVENTS`] slices and as many
//! samples of counters, and what was cut is said in the file.

use crate::trace_events::{Process, STEPS};
use crate::{ChartError, pressure};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use tiersim_models::results::{Residency, RunRecord, ShownStep, Slice, Track};
use tiersim_models::units::Time;

/// Perfetto stays quick up to here.
pub(crate) const MOST_EVENTS: usize = 200_000;
/// Numbers of threads that each channel has: more than copies are ever under way.
const MOST_SLOTS: usize = 10_000;

/// The last measured step of the baseline and of every case that ran; `version` is tiersim's own.
pub fn timeline_json(record: &RunRecord, version: &str) -> Result<String, ChartError> {
    capped(record, version, MOST_EVENTS)
}

fn capped(record: &RunRecord, version: &str, most: usize) -> Result<String, ChartError> {
    let channels = record.base().channel_names();
    let cases = record.results.iter().enumerate().filter_map(|(index, case)| {
        let figures = case.outcome.figures()?;
        Some((index + 1, case.label.clone(), &figures.timeline, case.pressure.as_ref()))
    });
    let baseline =
        (0, "baseline: unlimited HBM".to_owned(), &record.base().baseline.timeline, None);
    let mut events: Vec<String> = Vec::new();
    let (mut room, mut dropped) = (most, 0);
    let (mut samples, mut unsampled) = (most, 0);
    for (pid, name, timeline, pressure) in std::iter::once(baseline).chain(cases) {
        if timeline.is_empty() {
            continue;
        }
        let slices = &timeline.slices;
        let kept = slices.len().min(room);
        let cut = slices.len() - kept;
        room -= kept;
        dropped += cut;
        let mut process = Process { events: &mut events, pid };
        name_case(&mut process, &name, cut);
        let slots = slots(&slices[..kept]);
        name_tracks(&mut process, (&slices[..kept], &slots), &channels);
        let starts = slices.iter().map(|slice| slice.start);
        let starts = starts.chain(timeline.steps.iter().map(|step| step.start));
        let first = starts.min().unwrap_or_default();
        // Pressure builds up over the run, so there time is that of the run.
        let start = pressure.map_or(first, |_| Time::ZERO);
        if let Some(pressure) = pressure {
            pressure::events(&mut process, pressure, record);
        }
        // Where a tier is watched, all steps are there already.
        if pressure.is_none_or(|pressure| pressure.steps.is_empty()) {
            mark_steps(&mut process, &timeline.steps, start);
        }
        for (slice, &slot) in slices[..kept].iter().zip(&slots) {
            show(&mut process, (slice, slot), slice.start.since(start).ps());
        }
        let sampled = timeline.held.len().min(samples);
        samples -= sampled;
        unsampled += timeline.held.len() - sampled;
        for held in &timeline.held[..sampled] {
            count(&mut process, held, record.base().tier_name(held.tier), start);
        }
    }
    let other = json!({
        "scenario": record.scenario, "fingerprint": record.fingerprint, "tiersim": version,
        "hardware": record.base().hardware, "workload": record.base().workload,
        "seed": record.base().seed,
        "slices_cut": dropped, "samples_cut": unsampled,
    });
    let mut out = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[\n");
    out.push_str(&events.join(",\n"));
    out.push_str("\n]}\n");
    Ok(out)
}

fn name_case(process: &mut Process, name: &str, cut: usize) {
    process.describe(0, "process_name", json!({ "name": name }));
    process.describe(0, "process_sort_index", json!({ "sort_index": process.pid }));
    if cut > 0 {
        let labels = format!("{cut} slices cut: file limit");
        process.describe(0, "process_labels", json!({ "labels": labels }));
    }
}

fn name_tracks(process: &mut Process, (slices, slots): (&[Slice], &[usize]), channels: &[String]) {
    let tracks = slices.iter().zip(slots).map(|(slice, &slot)| (slice.track, slot));
    let mut tracks: Vec<(Track, usize)> = tracks.collect();
    tracks.sort_unstable();
    tracks.dedup();
    for (track, slot) in tracks {
        let mut name = match track {
            Track::Stream(stream) => format!("compute stream {stream}"),
            Track::Channel(channel) => {
                channels.get(channel).cloned().unwrap_or_else(|| format!("channel {channel}"))
            }
        };
        if slot > 0 {
            let _ = write!(name, ", copy {}", slot + 1);
        }
        process.name_thread(thread(track, slot), &name);
    }
}

/// By slice: which of the threads of its track it is on. Each is on the first that is free.
fn slots(slices: &[Slice]) -> Vec<usize> {
    let mut slots = vec![0; slices.len()];
    let mut by_start: Vec<usize> = (0..slices.len()).collect();
    by_start.sort_by_key(|&index| (slices[index].start, slices[index].span));
    let mut free: BTreeMap<Track, Vec<Time>> = BTreeMap::new();
    for index in by_start {
        let Slice { track, start, span, .. } = slices[index];
        let ends = free.entry(track).or_default();
        let slot = ends.iter().position(|&end| end <= start).unwrap_or(ends.len());
        if slot == ends.len() {
            ends.push(start);
        }
        ends[slot] = start + span;
        slots[index] = slot;
    }
    slots
}

/// Streams from 1 on, channels after the last possible stream, with the threads of one beside each
/// other.
fn thread(track: Track, slot: usize) -> usize {
    match track {
        Track::Stream(stream) => 1 + usize::from(stream),
        Track::Channel(channel) => 100_000 + channel * MOST_SLOTS + slot,
    }
}

/// Steps as slices of a thread of their own.
fn mark_steps(process: &mut Process, steps: &[ShownStep], start: Time) {
    if !steps.is_empty() {
        process.name_thread(STEPS, "steps");
    }
    for step in steps {
        let times = (step.start.since(start).ps(), step.span.ps());
        process.step(step.number, times, &json!({ "step": step.number }));
    }
}

/// Bytes that a tier holds from a moment on.
fn count(process: &mut Process, held: &Residency, tier: &str, start: Time) {
    // A run that is shown in part is sampled from the start of that part on.
    let at = held.at.ps().saturating_sub(start.ps());
    let (name, args) = (format!("{tier} held"), json!({ "bytes": held.bytes.get() }));
    process.event(0, (&name, "memory", "\"ph\":\"C\""), at, &args);
}

fn show(process: &mut Process, (slice, slot): (&Slice, usize), start: u64) {
    let category = match slice.track {
        Track::Stream(_) => "op",
        Track::Channel(_) => "copy",
    };
    let mut args = json!({ "detail": slice.detail.to_string() });
    if slice.bytes.get() > 0 {
        args["bytes"] = json!(slice.bytes.get());
    }
    let times = (start, slice.span.ps());
    process.slice(thread(slice.track, slot), (&slice.name, category), times, &args);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::{SliceDetail, Timeline};

    #[test]
    fn a_cut_is_said() {
        let slice = Slice {
            track: Track::Stream(0),
            name: "mm".into(),
            detail: SliceDetail::Objects(1),
            start: tiersim_models::units::Time::from_ps(7),
            span: tiersim_models::units::Span::from_ps(3),
            bytes: tiersim_models::units::Bytes::ZERO,
        };
        let mut record = crate::common::bare("empty");
        let timeline = &mut record.conditions[0].baseline.timeline;
        *timeline = Timeline { slices: vec![slice; 5], ..Timeline::default() };
        let json = capped(&record, "0", 2).unwrap();
        assert!(json.contains("\"slices_cut\":3") && json.contains("3 slices cut"));
        assert_eq!(json.matches("\"ph\":\"X\"").count(), 2);
        assert!(json.contains("\"ts\":0.000000,\"dur\":0.000003"));
    }
}
