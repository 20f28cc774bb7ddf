//! What ran when, in the Chrome trace format, which Perfetto opens.
//!
//! One process per case, one thread per compute stream and per lane. Times are written as exact
//! decimals of microseconds from integer picoseconds: a float would merge neighbours once a step
//! is long. Each case starts at 0, so that steps lie under one another for comparison; one in which
//! a tier is watched shows all its steps and what happened, at the times of the run.
//! Invariant: at most [`MOST_EVENTS`] slices; what was cut is said in the file.

use crate::words::lane_names;
use crate::{ChartError, pressure};
use serde_json::json;
use std::fmt::Write;
use tiersim_models::units::Time;
use tiersim_sim::record::{RunRecord, Slice, Track};

/// Perfetto stays quick up to here.
pub(crate) const MOST_EVENTS: usize = 200_000;

/// The last measured step of the baseline and of every case that ran; `version` is tiersim's own.
pub fn timeline_json(record: &RunRecord, version: &str) -> Result<String, ChartError> {
    capped(record, version, MOST_EVENTS)
}

fn capped(record: &RunRecord, version: &str, most: usize) -> Result<String, ChartError> {
    let lanes = lane_names(record);
    let cases = record.results.iter().enumerate().filter_map(|(index, case)| {
        let figures = case.outcome.figures()?;
        Some((index + 1, case.label.clone(), &figures.timeline, case.pressure.as_ref()))
    });
    let baseline =
        (0, "baseline: unlimited HBM".to_owned(), &record.base().baseline.timeline, None);
    let mut events: Vec<String> = Vec::new();
    let (mut room, mut dropped) = (most, 0);
    for (pid, name, slices, pressure) in std::iter::once(baseline).chain(cases) {
        if slices.is_empty() {
            continue;
        }
        let kept = slices.len().min(room);
        let cut = slices.len() - kept;
        room -= kept;
        dropped += cut;
        name_case(&mut events, pid, &name, cut)?;
        name_tracks(&mut events, pid, &slices[..kept], &lanes)?;
        let first = slices.iter().map(|slice| slice.start).min().unwrap_or_default();
        // Pressure builds up over the run, so there time is that of the run.
        let start = pressure.map_or(first, |_| Time::ZERO);
        if let Some(pressure) = pressure {
            pressure::events(&mut events, pid, pressure, record)?;
        }
        for slice in &slices[..kept] {
            events.push(event(pid, slice, slice.start.since(start).ps())?);
        }
    }
    let other = json!({
        "scenario": record.scenario, "fingerprint": record.fingerprint, "tiersim": version,
        "hardware": record.base().hardware, "workload": record.base().workload,
        "seed": record.base().seed,
        "slices_cut": dropped,
    });
    let mut out = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[\n");
    out.push_str(&events.join(",\n"));
    out.push_str("\n]}\n");
    Ok(out)
}

fn name_case(
    events: &mut Vec<String>,
    pid: usize,
    name: &str,
    cut: usize,
) -> Result<(), ChartError> {
    let mut meta = |what: &str, args: serde_json::Value| -> Result<(), ChartError> {
        let event = json!({"name": what, "ph": "M", "pid": pid, "tid": 0, "args": args});
        events.push(serde_json::to_string(&event)?);
        Ok(())
    };
    meta("process_name", json!({ "name": name }))?;
    meta("process_sort_index", json!({ "sort_index": pid }))?;
    if cut > 0 {
        meta("process_labels", json!({ "labels": format!("{cut} slices cut: file limit") }))?;
    }
    Ok(())
}

fn name_tracks(
    events: &mut Vec<String>,
    pid: usize,
    slices: &[Slice],
    lanes: &[String],
) -> Result<(), ChartError> {
    let mut tracks: Vec<Track> = slices.iter().map(|slice| slice.track).collect();
    tracks.sort_unstable();
    tracks.dedup();
    for track in tracks {
        let name = match track {
            Track::Stream(stream) => format!("compute stream {stream}"),
            Track::Lane(lane) => lanes.get(lane).cloned().unwrap_or_else(|| format!("lane {lane}")),
        };
        let tid = thread(track);
        for (what, args) in [
            ("thread_name", json!({ "name": name })),
            ("thread_sort_index", json!({ "sort_index": tid })),
        ] {
            let event = json!({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args});
            events.push(serde_json::to_string(&event)?);
        }
    }
    Ok(())
}

/// Streams from 1 on, lanes after the last possible stream.
fn thread(track: Track) -> usize {
    match track {
        Track::Stream(stream) => 1 + usize::from(stream),
        Track::Lane(lane) => 100_000 + lane,
    }
}

fn event(pid: usize, slice: &Slice, start: u64) -> Result<String, ChartError> {
    let category = match slice.track {
        Track::Stream(_) => "op",
        Track::Lane(_) => "copy",
    };
    let mut args = json!({ "detail": slice.detail });
    if slice.bytes.get() > 0 {
        args["bytes"] = json!(slice.bytes.get());
    }
    let mut out = String::with_capacity(160);
    // The numbers are written by hand: serde_json would make floats of them.
    let _ = write!(
        out,
        "{{\"name\":{},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{args}}}",
        serde_json::to_string(&slice.name)?,
        thread(slice.track),
        microseconds(start),
        microseconds(slice.span.ps()),
    );
    Ok(out)
}

/// Picoseconds as a decimal number of microseconds, exactly.
pub(crate) fn microseconds(ps: u64) -> String {
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picoseconds_are_exact() {
        assert_eq!(microseconds(1), "0.000001");
        assert_eq!(microseconds(u64::MAX), "18446744073709.551615");
    }

    #[test]
    fn a_cut_is_said() {
        let slice = Slice {
            track: Track::Stream(0),
            name: "mm".to_owned(),
            detail: String::new(),
            start: tiersim_models::units::Time::from_ps(7),
            span: tiersim_models::units::Span::from_ps(3),
            bytes: tiersim_models::units::Bytes::ZERO,
        };
        let mut record = crate::json::tests::empty();
        record.conditions[0].baseline.timeline = vec![slice; 5];
        let json = capped(&record, "0", 2).unwrap();
        assert!(json.contains("\"slices_cut\":3") && json.contains("3 slices cut"));
        assert_eq!(json.matches("\"ph\":\"X\"").count(), 2);
        assert!(json.contains("\"ts\":0.000000,\"dur\":0.000003"));
    }
}
