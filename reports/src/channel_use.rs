//! How busy each channel is in the course of the last measured step: a panel for a case, a band for
//! a channel.
//!
//! A step is cut into equal parts; a channel's use of a part is the share of its time in which at
//! least one copy was under way on it. So a full band is a channel that nothing more goes
//! over, and a gap is time in which a better policy could have copied ahead.
//! Invariant: time that copies share is counted once; no use is above 100 %.

use crate::names::direct;
use crate::occupancy::{rest, shown, span, timeline, took, with_timeline};
use crate::panels::{Layer, Panel, Panels, Shared};
use crate::render::Charts;
use crate::series::looks_of_cases;
use crate::sheet::{Made, Style};
use tiersim_models::results::{RunRecord, Slice, Timeline, Track};

/// Height of a full band; the rest keeps bands apart.
const HIGH: f64 = 0.86;
/// Parts of a step.
const PARTS: usize = 100;
/// Channels that are drawn: the busiest of more.
const MOST_CHANNELS: usize = 6;

/// The chart of a record that has timelines with copies.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    // Of cases that copy nothing there is nothing to see.
    let copies = |slice: &Slice| matches!(slice.track, Track::Channel(_));
    let mut all = with_timeline(record);
    all.retain(|&case| timeline(record, case).slices.iter().any(copies));
    let cases = shown(record, &all);
    let channels = &record.base().channels;
    let uses: Vec<Vec<Vec<f64>>> = cases
        .iter()
        .map(|&case| {
            (0..channels.len()).map(|at| channel_use(timeline(record, case), at)).collect()
        })
        .collect();
    let sum = |channel: usize| uses.iter().flat_map(|case| &case[channel]).sum::<f64>();
    let mut drawn: Vec<usize> = (0..channels.len()).filter(|&at| sum(at) > 0.0).collect();
    if drawn.is_empty() {
        return Vec::new();
    }
    drawn.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    let used = drawn.len();
    drawn.truncate(MOST_CHANNELS);
    drawn.sort_unstable();
    let (labels, looks) = (direct(record, &cases), looks_of_cases(record));
    // Beside names of channels a column of a paper has room for the name of a case and no more.
    let narrow = made.style == Style::Paper;
    let panel = |((&case, label), uses): ((&usize, &String), &Vec<Vec<f64>>)| {
        let own = drawn.iter().enumerate().filter(|&(_, &at)| uses[at].iter().any(|u| *u > 0.0));
        let layer = |(row, &at): (usize, &usize)| Layer {
            look: row,
            area: band(&uses[at], (drawn.len() - 1 - row) as f64),
            ..Layer::default()
        };
        Panel {
            name: label.clone(),
            below: if narrow { String::new() } else { took(record, case) },
            look: Some(looks[case]),
            layers: own.map(layer).collect(),
            ..Panel::default()
        }
    };
    let panels = cases.iter().zip(&labels.names).zip(&uses).map(panel).collect();
    let name = |channel: usize| match narrow {
        true => channels[channel].ends.to_string(),
        false => format!("{} ({})", channels[channel].ends, channels[channel].link),
    };
    let more = used.saturating_sub(MOST_CHANNELS);
    let more = (more > 0).then(|| format!("{more} more channels are used less."));
    let what =
        "A band up to the line above its middle: the channel copies all the time.".to_owned();
    let notes = std::iter::once(what)
        .chain(labels.left_out)
        .chain(rest(record, &all, "cases that copy in it"))
        .chain(more);
    let named = lines(drawn.iter().rev().map(|&at| name(at)));
    let panels = Panels {
        record,
        title: format!("{}: how busy the channels are in the last measured step", record.scenario),
        about: record.about.clone(),
        x: Shared {
            range: Some((0.0, 100.0)),
            ..Shared::of("share of the step that has passed (%)")
        },
        y: Shared { range: Some((0.0, drawn.len() as f64)), named, ..Shared::of("") },
        keys: Vec::new(),
        panels,
        notes: notes.collect(),
        level: String::new(),
    };
    vec![("channel-use".to_owned(), panels.chart(made))]
}

/// The lines of each channel's row, from below: its name in the middle, and where a band is full.
fn lines(names: impl Iterator<Item = String>) -> Vec<(f64, String)> {
    let of = |(row, name)| [(row as f64 + HIGH / 2.0, name), (row as f64 + HIGH, String::new())];
    names.enumerate().flat_map(of).collect()
}

/// The share of each part of the step in which the channel copies.
fn channel_use(timeline: &Timeline, channel: usize) -> Vec<f64> {
    let (start, length) = span(timeline);
    let clip = |ps: u64| ps.clamp(start, start + length) - start;
    let own = timeline.slices.iter().filter(|slice| slice.track == Track::Channel(channel));
    let mut copies: Vec<(u64, u64)> = own
        .map(|slice| (clip(slice.start.ps()), clip(slice.start.ps() + slice.span.ps())))
        .filter(|(from, to)| from < to)
        .collect();
    copies.sort_unstable();
    let mut parts = vec![0.0; PARTS];
    let part = length as f64 / PARTS as f64;
    let mut done = 0;
    for (from, to) in copies {
        let (from, to) = (from.max(done) as f64, to.max(done) as f64);
        let first = (from / part) as usize;
        for (index, share) in parts.iter_mut().enumerate().skip(first) {
            let (low, high) = (index as f64 * part, (index + 1) as f64 * part);
            if low >= to {
                break;
            }
            *share += (to.min(high) - from.max(low)).max(0.0) / part;
        }
        done = done.max(to as u64);
    }
    parts
}

/// The outline of a channel's band, which begins at `base`: as high as its use.
fn band(parts: &[f64], base: f64) -> Vec<(f64, f64)> {
    let x = |index: usize| index as f64 * 100.0 / parts.len() as f64;
    let ends = |(index, share): (usize, &f64)| {
        let top = base + share.min(1.0) * HIGH;
        [(x(index), top), (x(index + 1), top)]
    };
    let top = parts.iter().enumerate().flat_map(ends);
    std::iter::once((0.0, base)).chain(top).chain([(100.0, base)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::{ShownStep, SliceDetail};
    use tiersim_models::units::{Bytes, Span, Time};

    fn copying(copies: &[(usize, u64, u64)]) -> Timeline {
        let of = |&(channel, from, to): &(usize, u64, u64)| Slice {
            track: Track::Channel(channel),
            name: "a".into(),
            detail: SliceDetail::Objects(1),
            start: Time::from_ps(from),
            span: Span::from_ps(to - from),
            bytes: Bytes::new(1),
        };
        let step = ShownStep { number: 1, start: Time::from_ps(500), span: Span::from_ps(1000) };
        Timeline { steps: vec![step], slices: copies.iter().map(of).collect(), held: Vec::new() }
    }

    #[test]
    fn a_channel_is_used_while_it_copies_and_two_copies_at_once_count_once() {
        // Parts are 10 ps long: from 100 to 125 of the step, twice over in the middle.
        let timeline = copying(&[(0, 600, 620), (0, 610, 625), (1, 0, 9000), (0, 1498, 1700)]);
        let used = channel_use(&timeline, 0);
        let expected = |index| match index {
            10 | 11 => 1.0,
            12 => 0.5,
            99 => 0.2,
            _ => 0.0,
        };
        for (index, share) in used.iter().enumerate() {
            assert!((share - expected(index)).abs() < 1e-9, "part {index}: {share}");
        }
        assert!(channel_use(&timeline, 1).iter().all(|share| (share - 1.0).abs() < 1e-9));
        assert!(channel_use(&timeline, 2).iter().all(|share| *share == 0.0));
    }

    #[test]
    fn a_band_is_as_wide_as_the_step_and_as_high_as_the_use() {
        let outline = band(&[0.5, 1.0], 3.0);
        let (half, whole) = (3.0 + HIGH / 2.0, 3.0 + HIGH);
        let top = [(0.0, half), (50.0, half), (50.0, whole), (100.0, whole)];
        assert_eq!(outline[0], (0.0, 3.0));
        assert_eq!(outline[1..5], top);
        assert_eq!(outline[5..], [(100.0, 3.0)]);
        // A full one reaches a line of its row.
        let rows = lines(["a", "b", "c", "d"].map(str::to_owned).into_iter());
        assert_eq!(rows[6..], [(half, "d".to_owned()), (whole, String::new())]);
    }
}
