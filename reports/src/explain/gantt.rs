//! The step as a Gantt chart: the critical path on top, below it what every stream and channel did,
//! with what is on the path in its colour and all else in grey.
//!
//! A step has thousands of ops and a chart a thousand columns, so everything is drawn by columns: a
//! grey column says that something ran in it, a coloured one what the path was spent on most.
//! Invariant: as many shapes as rows and columns allow, whatever the trace.

use super::looks::{LOOKS, Look};
use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::fit_name;
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::render::Chart;
use crate::scale::Scale;
use crate::sheet::Made;
use crate::style::Color;
use crate::style::{FRAME, GRID, INK, LABEL, SMALL, SOFT_INK};
use crate::units::time;
use crate::words::elide;
use std::collections::BTreeMap;
use tiersim_models::results::explain::{Explanation, PathSegment};
use tiersim_models::results::{PathPart, Track};
use tiersim_models::units::shown::of_times;
use tiersim_models::workload::Phase;

/// Room for the names of rows.
const NAMES: f64 = 170.0;
/// Rows beside the path's; of more the busiest are drawn.
const MOST_ROWS: usize = 14;
/// Stretches of one phase that are marked at most.
const MOST_PHASES: usize = 14;
/// What is not on the path.
const BESIDE: Color = Color(200, 200, 200, 1.0);

/// The chart of the last explained step; `version` is tiersim's own.
pub(super) fn gantt(of: &Explanation, made: Made<'_>) -> Chart {
    let mut canvas = Canvas::of(made.style);
    let sheet = canvas.sheet;
    let title = "The step and its critical path".to_owned();
    let last = of.path.segments.last().map_or(0, |last| last.step);
    let path: Vec<&PathSegment> =
        of.path.segments.iter().filter(|segment| segment.step == last).collect();
    let start = path.first().map_or(0, |first| first.start.ps());
    let span = path.last().map_or(1, |last| last.start.ps() + last.span.ps() - start).max(1);
    let about = format!(
        "{}, case {}: a step of {}; on the path in colour, beside it in grey",
        elide(&of.record.scenario, 60),
        elide(&of.case().label, 60),
        time(span as f64)
    );
    let top = frame::header(&mut canvas, &title, &about);
    let used = |look: &&Look| path.iter().any(|segment| Look::of(segment.part) == **look);
    let entries = LOOKS.iter().filter(used).map(|look| look.entry()).collect();
    let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
        canvas.rect(Rect::new(x - 14.0, y - 7.0, x + 14.0, y + 7.0), BESIDE);
    };
    let beside = Entry { key: Box::new(key), text: "beside the path".to_owned() };
    let top = frame::legend(&mut canvas, top, entries, vec![beside], "") + 26.0;
    let right = sheet.width - sheet.margin;
    let area = Rect::new(sheet.margin + sheet.aside(NAMES), top, right, sheet.floor() - 46.0);
    let drawing = Drawing { of, area, path, start, span };
    drawing.axis(&mut canvas);
    drawing.phases(&mut canvas);
    drawing.rows(&mut canvas);
    canvas.frame(area, FRAME, 1.0);
    frame::footer(&mut canvas, &of.record, made.version);
    Chart::new(title, canvas)
}

struct Drawing<'r> {
    of: &'r Explanation,
    area: Rect,
    path: Vec<&'r PathSegment>,
    /// When the step began, on the clock of the path.
    start: u64,
    span: u64,
}

/// By column: time of each kind.
type Columns = BTreeMap<usize, BTreeMap<Look, f64>>;

impl Drawing<'_> {
    fn axis(&self, canvas: &mut Canvas) {
        let (unit, size) = of_times(self.span as f64);
        let (area, most) = (self.area, self.span as f64 / size);
        let x = Scale::linear(&[0.0, most], 0.0, area.left, area.right);
        for (value, text) in x.ticks(8) {
            canvas.line((x.at(value), area.top), (x.at(value), area.bottom), GRID, 1.0);
            canvas.text(&text, (x.at(value), area.bottom + 20.0), LABEL, INK, Align::Centre);
        }
        let centre = f64::midpoint(area.left, area.right);
        frame::x_title(canvas, &format!("time in the step ({unit})"), centre, area.bottom + 40.0);
    }

    /// The pixel of a moment of the step.
    fn at(&self, ps: u64) -> f64 {
        self.area.left + self.area.width() * (ps.min(self.span) as f64 / self.span as f64)
    }

    /// Where phases change, unless they do so all the time.
    fn phases(&self, canvas: &mut Canvas) {
        let mut runs: Vec<(Phase, u64, u64)> = Vec::new();
        for segment in &self.path {
            let from = segment.start.ps() - self.start;
            let to = from + segment.span.ps();
            match runs.last_mut() {
                Some((phase, _, end)) if *phase == segment.phase => *end = to,
                _ => runs.push((segment.phase, from, to)),
            }
        }
        if runs.len() > MOST_PHASES {
            return;
        }
        for (phase, from, to) in runs {
            let (left, right) = (self.at(from), self.at(to));
            canvas.line((left, self.area.top - 16.0), (left, self.area.bottom), SOFT_INK, 1.0);
            let name = phase.word();
            if text_width(name, SMALL) <= right - left - 8.0 {
                canvas.text(name, (left + 5.0, self.area.top - 5.0), SMALL, INK, Align::Left);
            }
        }
    }

    fn rows(&self, canvas: &mut Canvas) {
        let names = self.of.on().channel_names();
        let figures = self.of.case().outcome.figures();
        let slices = figures.map_or(&[][..], |figures| &figures.timeline.slices);
        let shown = figures.and_then(|figures| figures.timeline.steps.last());
        let shown = shown.map_or(0, |step| step.start.ps());
        let mut beside: BTreeMap<Track, Vec<(u64, u64)>> = BTreeMap::new();
        for slice in slices {
            let from = slice.start.ps().saturating_sub(shown);
            let to = (slice.start.ps() + slice.span.ps()).saturating_sub(shown).min(self.span);
            if from < to {
                beside.entry(slice.track).or_default().push((from, to));
            }
        }
        let mut on: BTreeMap<Option<Track>, Columns> = BTreeMap::new();
        for segment in &self.path {
            self.add(on.entry(None).or_default(), segment);
            if let Some(track) = self.track(segment) {
                beside.entry(track).or_default();
                self.add(on.entry(Some(track)).or_default(), segment);
            }
        }
        let mut tracks: Vec<Track> = beside.keys().copied().collect();
        if tracks.len() > MOST_ROWS {
            let time =
                |track: &Track| beside[track].iter().map(|(from, to)| to - from).sum::<u64>();
            tracks.sort_by_key(|track| std::cmp::Reverse(time(track)));
            tracks.truncate(MOST_ROWS);
            tracks.sort_unstable();
        }
        let row = (self.area.height() / (tracks.len() + 1) as f64).min(96.0);
        let all = std::iter::once(None).chain(tracks.into_iter().map(Some));
        for (index, track) in all.enumerate() {
            let middle = self.area.top + row * (index as f64 + 0.5);
            let half = row * 0.34;
            let name = match track {
                None => "critical path".to_owned(),
                Some(Track::Stream(stream)) => format!("stream {stream}"),
                Some(Track::Channel(channel)) => names[channel].clone(),
            };
            let name = fit_name(&name, LABEL, NAMES - 14.0);
            canvas.text(&name, (self.area.left - 10.0, middle + 5.0), LABEL, INK, Align::Right);
            if let Some(track) = &track {
                self.grey(canvas, &beside[track], (middle - half, middle + half));
            }
            if let Some(columns) = on.get(&track) {
                self.colours(canvas, columns, (middle - half, middle + half));
            }
        }
    }

    /// The row that a segment of the path is on; none for what no stream or channel does.
    fn track(&self, segment: &PathSegment) -> Option<Track> {
        match segment.part {
            PathPart::Copy(channel) | PathPart::Queue(channel) => Some(Track::Channel(channel)),
            PathPart::HostObjects | PathPart::HostPasses => None,
            _ => segment.op.map(|op| Track::Stream(self.of.path.ops[op].stream)),
        }
    }

    /// Adds a segment to the columns that it covers.
    fn add(&self, columns: &mut Columns, segment: &PathSegment) {
        let from = self.at(segment.start.ps() - self.start) - self.area.left;
        let to = self.at(segment.start.ps() + segment.span.ps() - self.start) - self.area.left;
        let look = Look::of(segment.part);
        for column in from as usize..=to as usize {
            let share = to.min(column as f64 + 1.0) - from.max(column as f64);
            if share > 0.0 {
                *columns.entry(column).or_default().entry(look).or_insert(0.0) += share;
            }
        }
    }

    fn grey(&self, canvas: &mut Canvas, spans: &[(u64, u64)], (top, bottom): (f64, f64)) {
        let mut spans = spans.to_vec();
        spans.sort_unstable();
        let mut drawn: Vec<(f64, f64)> = Vec::new();
        for (from, to) in spans {
            let (from, to) = (self.at(from), self.at(to));
            match drawn.last_mut() {
                // A gap of less than a column does not show.
                Some(last) if from <= last.1 + 0.5 => last.1 = last.1.max(to),
                _ => drawn.push((from, to)),
            }
        }
        for (from, to) in drawn {
            canvas.rect(Rect::new(from, top, to.max(from + 0.4), bottom), BESIDE);
        }
    }

    /// Columns as blocks of what has most of each.
    fn colours(&self, canvas: &mut Canvas, columns: &Columns, (top, bottom): (f64, f64)) {
        let mut blocks: Vec<(Look, usize, usize)> = Vec::new();
        for (&column, kinds) in columns {
            let most = kinds.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(look, _)| *look);
            let Some(look) = most.filter(|look| kinds[look] > 0.05) else { continue };
            match blocks.last_mut() {
                Some((last, _, end)) if (*last, *end) == (look, column) => *end = column + 1,
                _ => blocks.push((look, column, column + 1)),
            }
        }
        for (look, from, to) in blocks {
            let left = self.area.left + from as f64;
            let right = (self.area.left + to as f64).min(self.area.right);
            look.fill(canvas, Rect::new(left, top, right, bottom));
        }
    }
}
