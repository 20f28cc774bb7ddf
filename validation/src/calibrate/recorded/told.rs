//! From what a recording shows to the numbers of a machine, on top of another machine's.
//!
//! A number is told where the recording shows it and the machine has a word for it; what depends on
//! it (a table of rates by size, a total of both directions) follows it, and everything else is the
//! base machine's and says so. Why a number is kept is said as well.
//! Invariant: pure. Every path is told once.

mod launch;
mod settle;

use super::{Fitted, all, seat};
use crate::calibrate::measure::{Point, quantiles};
use crate::calibrate::spec::numbers::{rate, share, source, span};
use crate::op_fit::fit_ops;
use tiersim_models::hardware::{HBM, Hardware, Source};
use tiersim_models::measured_op::MeasuredOp;
use tiersim_models::recorded::{HostMemory, Profile, ShownCopies, Told, Value, Way};
use tiersim_models::results::calibration::{self, CalibrationRecord, Law, Probe, ProbeKind};
use tiersim_models::results::op_fit::OpFit;
use tiersim_models::workload::Trace;

/// The machine that everything comes from which the recording does not show.
#[derive(Clone, Copy, Debug)]
pub struct Base<'b> {
    /// The machine.
    pub hardware: &'b Hardware,
    /// Whether it has another device than the recording.
    pub another: bool,
}

impl Base<'_> {
    /// What stands before the source of a number that is kept.
    pub fn mark(&self) -> String {
        let another = if self.another { ", which has another device" } else { "" };
        format!("kept from {}{another}: ", self.hardware.name)
    }

    /// The source of a number that is kept: what is true of another device is assumed of this one.
    fn kept(&self, source: &Source) -> Source {
        let text = self.mark() + source.text();
        if self.another { Source::Assumed(text) } else { source.with(text) }
    }
}

/// What a recording makes of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct FromTrace {
    /// The numbers.
    pub told: Vec<Told>,
    /// What reports see: laws, points, and in the notes what was kept and why.
    pub record: CalibrationRecord,
    /// What its products make of the base's op times, where they are enough.
    pub op_fit: Option<OpFit>,
}

/// A recording that tells no number of a machine; each with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct NothingTold(pub Vec<String>);

/// What a recording tells of a machine. `file` is its name for sources, `name` the machine's to be,
/// `command` what was asked, `date` today.
///
/// # Errors
/// No number is told.
pub fn from_trace(
    (trace, profile): (&Trace, &Profile),
    base: Base<'_>,
    [file, name, command, date]: [&str; 4],
) -> Result<FromTrace, NothingTold> {
    let (told, notes) = (Vec::new(), Vec::new());
    let mut telling = Telling { base, file, date, told, notes };
    let all = all(trace);
    if all.is_empty() {
        let base = &base.hardware.name;
        telling.notes.push(format!("copies: the trace has none; kept from {base}"));
    }
    all.iter().for_each(|fitted| telling.copies(&fitted.shown));
    telling.launch(profile);
    let op_fit = telling.products(profile);
    if telling.told.is_empty() && op_fit.is_none() {
        let kept = format!("; kept from {}", base.hardware.name);
        let why = telling.notes.iter().map(|note| note.replace(&kept, ""));
        return Err(NothingTold(why.collect()));
    }
    telling.settle();
    telling.device(profile);
    telling.of_one_drive();
    let Telling { told, notes, .. } = telling;
    let computes = base.hardware.compute.as_ref().map(|compute| compute.name.clone());
    let device = profile.device.as_ref().map(|device| device.0.clone()).or(computes);
    let record = CalibrationRecord {
        machine: "trace",
        command: command.to_owned(),
        name: name.to_owned(),
        date: date.to_owned(),
        device: device.unwrap_or_default(),
        driver: format!("fitted from {file}"),
        clocks: Vec::new(),
        notes,
        laws: all.iter().map(|fitted| (probe(fitted), fitted.shown.law.clone())).collect(),
        launch: None,
        runtime: None,
        points: all.iter().flat_map(points).collect(),
        figures: Vec::new(),
        nodes: Vec::new(),
    };
    Ok(FromTrace { told, record, op_fit })
}

fn probe(fitted: &Fitted) -> Probe {
    let name = fitted.shown.road.short().to_owned();
    Probe { name: name.clone(), kind: ProbeKind::Busy(name) }
}

fn points(fitted: &Fitted) -> impl Iterator<Item = calibration::Point> + '_ {
    fitted.points.iter().map(|point: &Point| calibration::Point {
        probe: probe(fitted),
        size: point.size,
        work: point.work(),
        queue: None,
        held_out: point.held_out,
        shown_only: point.shown_only,
        times: point.quantiles(),
        latencies: quantiles(&[]),
    })
}

/// What is told so far.
struct Telling<'b> {
    base: Base<'b>,
    file: &'b str,
    date: &'b str,
    told: Vec<Told>,
    notes: Vec<String>,
}

impl Telling<'_> {
    /// A fitted number, unless its place is told already.
    fn tell(&mut self, path: String, value: Value, source: Source, known: (f64, f64)) {
        if self.told.iter().all(|told| told.path != path) {
            self.told.push(Told { path, value, source, spread: share(known) });
        }
    }

    /// A number that follows from what is told.
    fn follow(&mut self, path: String, value: Value, why: String) {
        self.tell(path, value, Source::Assumed(why), (1.0, 0.0));
    }

    /// Whether the base's file says a number.
    fn has(&self, path: &str) -> bool {
        self.base.hardware.facts.iter().any(|fact| fact.path == path)
    }

    fn copies(&mut self, shown: &ShownCopies) {
        let (road, base) = (shown.road, &self.base.hardware.name);
        let law = match &shown.law {
            Ok(law) => law,
            Err(why) => return self.notes.push(format!("copies {road}: {why}; kept from {base}")),
        };
        // A link that a file does not write is made of the tier behind it.
        let is_written = |path: &str| {
            let own =
                path.rsplit_once('.').map_or("", |(link, _)| link.trim_end_matches(".pageable"));
            path == "compute.memory" || self.has(&format!("{own}.read"))
        };
        let seat = seat(self.base.hardware, road).filter(|seat| is_written(&seat.path));
        let Some(seat) = seat else {
            let why = format!("copies {road}: {base} has no link of its own for them; only shown");
            return self.notes.push(why);
        };
        let source = self.source(shown, law);
        let known = (law.rate.0 * seat.times, law.rate.1 * seat.times);
        let number = Value::Rate(rate(known.0));
        let Some(channel) = seat.channel else {
            return self.tell(seat.path, number, source, known);
        };
        let link = &self.base.hardware.links[channel.link.index()];
        let place = format!("links.{}", link.name);
        let direction = if channel.evicting { "write" } else { "read" };
        if road.memory == HostMemory::Pageable {
            let path = format!("{place}.pageable.{direction}");
            let only = "a link has one set-up, that of pinned memory";
            self.notes.push(format!("copies {road}: only the rate is taken, for {only}"));
            return self.tell(path, number, source, known);
        }
        self.tell(seat.path, number, source.clone(), known);
        if road.way == Way::Between {
            // A recording does not say which of two devices a copy came from.
            self.tell(format!("{place}.write"), Value::Rate(rate(known.0)), source.clone(), known);
        }
        if !shown.has_setup {
            let few = format!("copies {road}: set-up and rate cannot be told apart");
            return self.notes.push(format!("{few}: the set-up is kept from {base}"));
        }
        let field = if channel.evicting { "write_setup" } else { "setup" };
        let (setup, error) = law.setup;
        let own = (setup - self.others(channel)).max(0.0);
        self.tell(format!("{place}.{field}"), Value::Time(span(own)), source, (own, error));
    }

    /// Set-ups of the other links that a copy over a channel between host and device passes, in
    /// seconds: the law has them all.
    fn others(&self, channel: tiersim_models::hardware::Channel) -> f64 {
        let hardware = self.base.hardware;
        let Ok(routes) = hardware.routes() else { return 0.0 };
        let passes = |tier| {
            let (from, to) = if channel.evicting { (HBM, tier) } else { (tier, HBM) };
            let route = routes.between(from, to);
            route.contains(&channel).then_some(route)
        };
        let route = hardware.tier_ids().skip(1).find_map(passes).unwrap_or_default();
        let others = route.iter().filter(|other| **other != channel);
        others.map(|other| hardware.channel_law(*other).setup.ps() as f64 / 1e12).sum()
    }

    fn source(&self, shown: &ShownCopies, law: &Law) -> Source {
        let twice = if shown.road.way == Way::Within { ", read and written bytes" } else { "" };
        let what = format!("fitted from {}: copies {}{twice}", self.file, shown.road);
        if shown.has_setup {
            return source(&what, law, self.date);
        }
        let (least, most) = law.sizes;
        let Law { repeats, error, spread, .. } = law;
        Source::Measured(format!(
            "{what}: median rate by bytes of {repeats} of {} copies, of {least} to {most}, set-up not told \
             apart; error median {:.1} % p95 {:.1} %; spread {:.1} %; {}",
            shown.copies,
            error.0 * 100.0,
            error.1 * 100.0,
            spread * 100.0,
            self.date
        ))
    }

    /// Numbers of the base's op times that the trace's products fit, if they are enough.
    fn products(&mut self, profile: &Profile) -> Option<OpFit> {
        let base = &self.base.hardware.name;
        let start = self.base.hardware.compute.as_ref()?.op_times.as_deref();
        if profile.products.is_empty() {
            let why = "no op of the trace has a product whose shapes are recorded";
            self.notes.push(format!("op times: {why} (record_shapes); kept from {base}"));
            return None;
        }
        let Some(start) = start else {
            self.notes.push(format!("op times: {base} has none to fit"));
            return None;
        };
        let ops: Vec<MeasuredOp> = (1..)
            .zip(&profile.products)
            .map(|(line, &(precision, shape, span))| {
                let bytes = if precision == "fp32" { 4 } else { 2 };
                let seconds = span.ps() as f64 / 1e12;
                MeasuredOp::product(line, (precision, bytes), shape, Some(seconds))
            })
            .collect();
        match fit_ops(&ops, start) {
            Ok(fit) => Some(fit),
            Err(why) => {
                self.notes.push(format!("op times: {why}; kept from {base}"));
                None
            }
        }
    }

    /// The device's own name and memory.
    fn device(&mut self, profile: &Profile) {
        let Some((name, memory)) = &profile.device else { return };
        let hardware = self.base.hardware;
        if let Some(memory) = memory.filter(|memory| memory.get() >= 1 << 20) {
            let path = format!("tiers.{}.capacity", hardware.tiers[HBM.index()].name);
            let words = format!("fitted from {}: totalGlobalMem of {name}", self.file);
            self.tell(path, Value::Size(memory), Source::Measured(words), (1.0, 0.0));
        }
        if self.base.another && hardware.compute.is_some() && !name.trim().is_empty() {
            let source = Source::Measured(self.file.to_owned());
            self.tell("compute.name".to_owned(), Value::Name(name.clone()), source, (1.0, 0.0));
        }
    }
}
