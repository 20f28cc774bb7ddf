//! From measured points to laws, and from laws to a spec of the machine.
//!
//! Which points make which number of a spec is decided here and nowhere else; each number carries
//! in words what it was made of, how far the points lie from it, how far those do that it never
//! saw, and how much they scatter.
//! Invariant: pure. Same points and date, same spec. No number of it is assumed but the capacities
//! of tiers that share one memory.

pub(super) mod numbers;

use crate::calibrate::fit::{self, Fit, Refusal};
use crate::calibrate::measure::{Point, quantiles};
use crate::calibrate::probe::{Access, Device, Kind, Precision, Start};
use numbers::{rate, share, source, span};
use std::num::NonZeroU32;
use tiersim_models::hardware::{Compute, Fact, Hardware, Law, Link, Source, Uncertainty};
use tiersim_models::results::calibration::{
    self, CalibrationRecord, Figure, Law as Fitted, Quantiles,
};
use tiersim_models::results::op_grades::quantile;
use tiersim_models::runtime::Runtime;
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bytes, Span};

/// A copy that takes so many times what the quickest take is one of its bytes' rate: below that,
/// copies back to back take what it takes to ask for them, which is no law of their size.
const LARGE: f64 = 4.0;
/// Points that a rate of large copies needs.
const ENOUGH: usize = 4;
/// Both directions together are slower than each alone if they fall short of the sum by more than
/// this, which is more than laws of one channel differ from day to day.
const SLOWER: f64 = 0.97;

/// Where `max_in_flight` comes from.
const ONE_EACH_WAY: &str =
    "copies of one direction were given to one queue, which does one at a time";

/// What a machine's calibration came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The machine, with its laws; every number with its source, but none written out.
    pub hardware: Hardware,
    /// What reports see of it.
    pub record: CalibrationRecord,
}

/// A number that a spec must have could not be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {refusal}; measure again on a quieter machine, or without --quick")]
pub struct NoSpec {
    /// Which number.
    pub what: String,
    /// Why.
    pub refusal: Refusal,
}

/// Fits every kind of measurement and fills in the machine's spec. `machine` is the word for its
/// kind, `date` a day, such as `2026-01-31`.
pub fn calibration(
    machine: &'static str,
    device: &Device,
    points: &[Point],
    figures: Vec<Figure>,
    name: &str,
    date: &str,
) -> Result<Calibration, NoSpec> {
    let mut kinds: Vec<Kind> = Vec::new();
    for point in points {
        let one_size = matches!(point.kind, Kind::File { .. } | Kind::Launch | Kind::Between);
        if !one_size && !kinds.contains(&point.kind) {
            kinds.push(point.kind);
        }
    }
    let law = |kind| fitted(points, &[kind]).map_err(|refusal| refusal.to_string());
    let laws = kinds.into_iter().map(|kind| (kind.probe(&device.skeleton), law(kind))).collect();
    let of_one_size = |kind: Kind| {
        let of = points.iter().filter(|point| point.kind == kind);
        let spans: Vec<Span> = of.flat_map(|point| point.spans.iter().copied()).collect();
        (!spans.is_empty()).then(|| quantiles(&spans))
    };
    let (launch, between) = (of_one_size(Kind::Launch), of_one_size(Kind::Between));
    let mut spec = Spec { points, date, facts: Vec::new() };
    let hardware = spec.hardware(device, name, launch)?;
    let runtime = waiting(points, device, between, date);
    let point = |of: &Point| calibration::Point {
        probe: of.kind.probe(&device.skeleton),
        size: of.size,
        work: of.work(),
        queue: of.kind.queue(),
        held_out: of.held_out,
        shown_only: of.shown_only,
        times: of.quantiles(),
        latencies: quantiles(&of.latencies),
    };
    let Device { name: computes, driver, clocks, notes, .. } = device.clone();
    let (name, date) = (name.to_owned(), date.to_owned());
    let points = points.iter().map(point).collect();
    let record = CalibrationRecord {
        machine,
        command: format!("calibrate --machine {machine}"),
        name,
        date,
        device: computes,
        driver,
        clocks,
        notes,
        laws,
        launch,
        runtime,
        points,
        figures,
        nodes: Vec::new(),
    };
    Ok(Calibration { hardware, record })
}

/// What waiting for one another adds to a run: between two ops, where who waits is a parked thread
/// that has to be woken, and before a copy that an op waits for. Nothing where either was not
/// measured.
///
/// A lone copy lies between two ops: what passes between these beyond its own time is both.
fn waiting(
    points: &[Point],
    device: &Device,
    between: Option<Quantiles>,
    date: &str,
) -> Option<Runtime> {
    if device.parks && between.is_none() {
        return None;
    }
    let channel = device.skeleton.channels().find(|channel| !channel.evicting)?;
    let medians = |start| {
        let of = points.iter().filter(move |p| p.kind == Kind::Channel { channel, start });
        of.map(|point| (point.size, point.quantiles().median)).collect::<Vec<_>>()
    };
    let own = medians(Start::Busy);
    let beyond = |&(size, alone): &(Bytes, f64)| {
        own.iter().find(|own| own.0 == size).map(|own| alone - own.1)
    };
    let mut beyond: Vec<f64> = medians(Start::Idle).iter().filter_map(beyond).collect();
    beyond.sort_by(f64::total_cmp);
    let (per_op, ops) = between.map_or((0.0, String::new()), |between| {
        let from = "from the end of an op to the start of the next, median of";
        (between.median, format!("{from} {}; ", between.count))
    });
    let count = beyond.len();
    let per_object = (*beyond.get(count / 2)? - per_op).max(0.0);
    let that = if device.parks { " and that" } else { "" };
    let source = format!(
        "measured: {ops}a lone copy beyond its own time{that}, median of {count} sizes; {date}"
    );
    let (per_op, per_object) = (span(per_op), span(per_object));
    Some(Runtime { per_op, per_object, source, ..Runtime::default() })
}

/// The law of all points of some kinds.
fn fitted(points: &[Point], kinds: &[Kind]) -> Result<Fitted, Refusal> {
    fitted_to(points.iter().filter(|p| kinds.contains(&p.kind) && !p.shown_only).collect())
}

/// The law of the points of a kind that are large: their rate is that of bytes. Where these are too
/// few, that of all points.
fn of_large(points: &[Point], kind: Kind) -> Result<Fitted, Refusal> {
    let of = points.iter().filter(|p| p.kind == kind && !p.shown_only).collect();
    fitted_to(large(of))
}

/// Those of some points that are large, or all where these are too few.
pub(super) fn large(of: Vec<&Point>) -> Vec<&Point> {
    let median = |point: &&Point| point.quantiles().median;
    let least = of.iter().map(median).fold(f64::INFINITY, f64::min);
    let large: Vec<&Point> =
        of.iter().copied().filter(|point| median(point) >= LARGE * least).collect();
    let seen = large.iter().filter(|point| !point.held_out).count();
    if seen >= ENOUGH { large } else { of }
}

fn fitted_to(of: Vec<&Point>) -> Result<Fitted, Refusal> {
    // Where nearly all points were disturbed, the few that were not may not span the sizes.
    fitted_by(&of, |seen, weights| fit::fit_weighted(seen, weights).or_else(|_| fit::fit(seen)))
}

/// Work and median seconds of the points that are held out, or of those that are not.
pub(super) fn halves(of: &[&Point], held_out: bool) -> Vec<(f64, f64)> {
    let half = of.iter().filter(|point| point.held_out == held_out);
    half.map(|point| (point.work(), point.quantiles().median)).collect()
}

/// The law that `fit` finds for the points that are not held out, of (work, seconds) and weights,
/// with how far off it is.
pub(super) fn fitted_by(
    of: &[&Point],
    fit: impl Fn(&[(f64, f64)], &[f64]) -> Result<Fit, Refusal>,
) -> Result<Fitted, Refusal> {
    let (seen, unseen) = (halves(of, false), halves(of, true));
    let trust = |point: &&&Point| {
        let of = point.quantiles();
        fit::weight(of.median, of.p5)
    };
    let weights: Vec<f64> = of.iter().filter(|point| !point.held_out).map(|p| trust(&p)).collect();
    let fit = fit(&seen, &weights)?;
    let mut spreads: Vec<f64> = of.iter().map(|point| point.quantiles().spread()).collect();
    spreads.sort_by(f64::total_cmp);
    let sizes = || of.iter().filter(|point| !point.held_out).map(|point| point.size);
    Ok(Fitted {
        setup: (fit.setup, fit.setup_error),
        rate: (fit.rate, fit.rate_error),
        error: fit::errors(&fit, &seen),
        held_out: fit::errors(&fit, &unseen),
        spread: quantile(&spreads, 0.5),
        points: (seen.len(), unseen.len()),
        repeats: of.iter().map(|point| point.spans.len()).sum(),
        sizes: (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default()),
    })
}

struct Spec<'a> {
    points: &'a [Point],
    date: &'a str,
    facts: Vec<Fact>,
}

impl Spec<'_> {
    fn hardware(
        &mut self,
        device: &Device,
        name: &str,
        launch: Option<Quantiles>,
    ) -> Result<Hardware, NoSpec> {
        let mut hardware = Hardware { name: name.to_owned(), ..device.skeleton.clone() };
        for tier in device.skeleton.tier_ids() {
            let index = tier.index();
            let place = format!("tiers.{}", hardware.tiers[index].name);
            self.fact(format!("{place}.capacity"), device.capacities[index].clone());
            let kinds = [false, true].map(|writes| Kind::InPlace { tier, writes });
            let what = "an op that reads or writes an object where it lies";
            let law = self.law(&kinds, &place)?;
            hardware.tiers[index].access = self.access(&law, &place, what);
        }
        for channel in device.skeleton.channels() {
            let place = format!("links.{}", device.skeleton.links[channel.link.index()].name);
            let of = |start| Kind::Channel { channel, start };
            let own = self.law(&[of(Start::Busy)], &place)?;
            let large =
                if device.parks { own.clone() } else { self.rate_law(of(Start::Busy), &place)? };
            let law = self.channel(&own, &large, &place, channel.evicting);
            let link = &mut hardware.links[channel.link.index()];
            *(if channel.evicting { &mut link.write } else { &mut link.read }) = law;
        }
        for link in &mut hardware.links {
            link.service = self.service(link, device)?;
        }
        hardware.compute = self.compute(device, launch)?.map(Into::into);
        hardware.facts = std::mem::take(&mut self.facts).into();
        Ok(hardware)
    }

    fn law(&self, kinds: &[Kind], what: &str) -> Result<Fitted, NoSpec> {
        named(fitted(self.points, kinds), what)
    }

    fn rate_law(&self, kind: Kind, what: &str) -> Result<Fitted, NoSpec> {
        named(of_large(self.points, kind), what)
    }

    /// One copy at a time in each direction, and what both reach together where that is less than
    /// the sum of what each reaches alone. Nothing where it is not, or was not measured.
    fn service(&mut self, link: &Link, device: &Device) -> Result<Option<Service>, NoSpec> {
        let place = format!("links.{}", link.name);
        let named = device.skeleton.links.iter().position(|other| other.name == link.name);
        let channels =
            device.skeleton.channels().filter(|channel| Some(channel.link.index()) == named);
        let kinds: Vec<Kind> =
            channels.map(|channel| Kind::Channel { channel, start: Start::Both }).collect();
        let measured = |kind: &Kind| self.points.iter().any(|point| point.kind == *kind);
        if kinds.len() != 2 || !kinds.iter().all(measured) {
            return Ok(None);
        }
        let both = [self.rate_law(kinds[0], &place)?, self.rate_law(kinds[1], &place)?];
        let together: f64 = both.iter().map(|law| law.rate.0).sum();
        let alone = (link.read.rate.get() + link.write.rate.get()) as f64;
        if together > SLOWER * alone {
            return Ok(None);
        }
        // A spec knows no link whose directions together reach less than one of them alone.
        let least = link.read.rate.max(link.write.rate);
        let total = rate(together).max(least);
        let raised = if total > rate(together) {
            format!(
                " (together {:.4}, below one way alone, whose rate stands here)",
                together / 1e9
            )
        } else {
            String::new()
        };
        let what = format!(
            "copies both ways at once{raised}, {:.4} GB/s of this away from the device; of the \
             other way",
            both[1].rate.0 / 1e9
        );
        let source = self.source(&what, &both[0]);
        self.fact(format!("{place}.max_in_flight"), Source::Measured(ONE_EACH_WAY.to_owned()));
        // The errors of both directions are independent. A total that may be below one direction
        // alone, which no spec can say, has no spread.
        let error = both[0].rate.1.hypot(both[1].rate.1);
        let apart = together - least.get() as f64 > 4.0 * error;
        let known = (together, if apart { error } else { 0.0 });
        self.known(format!("{place}.total"), source, known);
        Ok(Some(Service {
            discipline: Discipline::FairShare,
            max_in_flight: Some(NonZeroU32::MIN),
            total: Some(total),
            ..Service::default()
        }))
    }

    fn access(&mut self, law: &Fitted, place: &str, what: &str) -> Law {
        let source = self.source(what, law);
        self.known(format!("{place}.setup"), source.clone(), law.setup);
        self.known(format!("{place}.bandwidth"), source, law.rate);
        Law { setup: span(law.setup.0), rate: rate(law.rate.0) }
    }

    /// A law of copies' own times: its set-up from all of them, its rate from those whose bytes are
    /// most of it.
    fn channel(&mut self, setup: &Fitted, large: &Fitted, place: &str, evicting: bool) -> Law {
        let (setup_name, rate_name) =
            if evicting { ("write_setup", "write") } else { ("setup", "read") };
        const WHAT: &str = "copies back to back, from start to end";
        let (setup_source, rate_source) = (self.source(WHAT, setup), self.source(WHAT, large));
        self.known(format!("{place}.{setup_name}"), setup_source, setup.setup);
        self.known(format!("{place}.{rate_name}"), rate_source, large.rate);
        Law { setup: span(setup.setup.0), rate: rate(large.rate.0) }
    }

    fn compute(
        &mut self,
        device: &Device,
        launch: Option<Quantiles>,
    ) -> Result<Option<Compute>, NoSpec> {
        let has = |kind| self.points.iter().any(|point| point.kind == kind);
        let stream = Kind::Stream(Access::Copy);
        let fp32 = has(Kind::Gemm(Precision::Fp32));
        let Some(launch) = launch.filter(|_| fp32 && has(stream)) else {
            return Ok(None);
        };
        let mut flops = Vec::new();
        for precision in Precision::ALL.into_iter().filter(|of| has(Kind::Gemm(*of))) {
            let path = format!("compute.flops.{}", precision.word());
            let law = self.law(&[Kind::Gemm(precision)], &path)?;
            let what = format!("products of square matrices in {}", precision.word());
            let source = self.source(&what, &law);
            self.known(path, source, law.rate);
            flops.push((precision.word().to_owned(), rate(law.rate.0)));
        }
        let memory = self.law(&[stream], "compute.memory")?;
        let source =
            self.source("copies within the device's memory, read and written bytes", &memory);
        self.known("compute.memory".to_owned(), source, memory.rate);
        let words = format!(
            "ops without objects in a chain, from end to end: median of {} repeats, p5 {:.2} us, \
             p95 {:.2} us; {}",
            launch.count,
            launch.p5 * 1e6,
            launch.p95 * 1e6,
            self.date
        );
        self.fact("compute.launch".to_owned(), Source::Measured(words));
        Ok(Some(Compute {
            name: device.name.clone(),
            flops,
            memory: rate(memory.rate.0),
            launch: span(launch.median),
            efficiency: Default::default(),
            op_times: None,
            attention: None,
        }))
    }

    fn fact(&mut self, path: String, source: Source) {
        self.facts.push(Fact::new(path, String::new(), source));
    }

    /// A fitted number with its standard error, which is its spread.
    fn known(&mut self, path: String, source: Source, known: (f64, f64)) {
        let uncertainty = share(known).map(Uncertainty::share);
        self.facts.push(Fact { uncertainty, ..Fact::new(path, String::new(), source) });
    }

    fn source(&self, what: &str, law: &Fitted) -> Source {
        source(what, law, self.date)
    }
}

fn named(law: Result<Fitted, Refusal>, what: &str) -> Result<Fitted, NoSpec> {
    law.map_err(|refusal| NoSpec { what: what.to_owned(), refusal })
}

#[cfg(test)]
mod tests;
