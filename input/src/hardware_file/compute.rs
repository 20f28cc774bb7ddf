//! Reads the device that computes, the host's processors, and what both draw and cost.
//!
//! Invariant: a device without `efficiency` behaves, prints and hashes as if that field did not
//! exist, and a device that works draws no less than one that does not.

use super::raw::{RawCompute, RawCpu, RawEfficiency, RawHost, RawOpTimesOf, RawShares};
use super::resolver::{At, Resolver};
use crate::project::{self, Named};
use crate::text::quantity::economics::{POWER, PRICE};
use crate::text::quantity::{BYTES, CAPACITY, Dimension, Limits, RATE, SETUP, WORK};
use std::collections::BTreeSet;
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares, WHOLE};
use tiersim_models::energy::{DeviceEconomics, HostEconomics};
use tiersim_models::hardware::{Compute, Fact, Source};
use tiersim_models::op_times::OpTimes;
use tiersim_models::server::Cpu;
use tiersim_models::units::{Bandwidth, FlopRate};

/// More than any device has.
const MAX_PRECISIONS: usize = 32;

impl Resolver<'_> {
    /// The device, if enough of it is right; `near` is the rate of its memory, which its own is
    /// unless another is stated.
    pub(super) fn compute(&mut self, raw: &RawCompute, near: Option<Bandwidth>) -> Option<Compute> {
        if raw.name.trim().is_empty() {
            self.check.fault("compute.name", "a device has a name", "name it");
        }
        let mut flops: Vec<Option<(String, FlopRate)>> = Vec::new();
        let mut seen = BTreeSet::new();
        let peaks = self.check.at_most("compute.flops", "precisions", &raw.flops, MAX_PRECISIONS);
        for (index, peak) in peaks.iter().enumerate() {
            let At { path, fact } = At::entry("compute.flops", index, &peak.precision);
            if !seen.insert(&peak.precision) {
                let rule = format!("`{}` is given twice", peak.precision);
                self.check.fault(&path, rule, "keep one of them");
            }
            let rate = self.number(&peak.rate, At { path: format!("{path}.rate"), fact }, RATE);
            flops.push(rate.map(|rate| (peak.precision.clone(), rate)));
        }
        let memory = match &raw.memory {
            Some(memory) => self.number(memory, At::both("compute.memory"), RATE),
            None => near,
        };
        let launch = self.number(&raw.launch, At::both("compute.launch"), SETUP);
        let efficiency = match &raw.efficiency {
            Some(raw) => self.efficiency(raw),
            None => Some(Efficiency::default()),
        };
        let idle = self.priced(&raw.idle, At::both("compute.idle"), POWER);
        let active = self.priced(&raw.active, At::both("compute.active"), POWER);
        if active.zip(idle).is_some_and(|(active, idle)| active < idle) {
            let rule = "a device that computes draws no less than an idle one";
            self.check.fault("compute.active.0", rule, "raise `active`, or lower `idle`");
        }
        let price = self.priced(&raw.price, At::both("compute.price"), PRICE);
        self.economics.device = DeviceEconomics { idle, active, price };
        let mut compute = Compute {
            name: raw.name.trim().to_string(),
            flops: flops.into_iter().collect::<Option<Vec<_>>>()?,
            memory: memory?,
            launch: launch?,
            efficiency: efficiency?,
            op_times: None,
            attention: None,
        };
        if let Some(raw) = &raw.op_times {
            compute.op_times = self.op_times(raw, &compute).map(|times| self.times.shared(times));
        }
        Some(compute)
    }

    /// What kernels take by measurement of this device or of one like it.
    fn op_times(&mut self, raw: &RawOpTimesOf, compute: &Compute) -> Option<OpTimes> {
        let RawOpTimesOf { of, processors, cache, collectives } = raw;
        let document = self.check.document;
        let at = "compute.op_times.of";
        let file = project::part(self.project, document.file_of(at), Named::OpTimes, of);
        let file = file.map_err(|(rule, remedy)| self.check.fault(at, rule, remedy)).ok()?;
        let read = self.times.read(&file);
        let times = read.map_err(|found| self.check.problems.0.extend(found.0)).ok()?;
        if processors.is_some_and(|count| !(1..=65_536).contains(&count)) {
            let rule = "a device has between 1 and 65536 processors";
            let remedy = "write its streaming multiprocessors";
            self.check.fault("compute.op_times.processors", rule, remedy);
            return None;
        }
        let cache = match cache {
            Some(size) => {
                Some(size.resolve(&mut self.check, "compute.op_times.cache", CAPACITY)?)
            }
            None => None,
        };
        let is_own = times.device == compute.name;
        let has = |section: &str| *collectives || section != "collectives";
        for (section, source, _) in times.fits.iter().filter(|fit| has(fit.0)) {
            let path = format!("compute.op_times.{section}");
            let (value, source) = match is_own {
                true => (format!("fitted to {}", times.device), source.clone()),
                false => {
                    let why = format!("scaled by the ratios of stated rates: {source:?}");
                    (format!("those of {}", times.device), Source::Assumed(why))
                }
            };
            self.facts.push(Fact::new(path, value, source));
        }
        let mut times = times.of(compute, *processors, cache);
        times.collectives = times.collectives.filter(|_| *collectives);
        Some(times)
    }

    fn efficiency(&mut self, raw: &RawEfficiency) -> Option<Efficiency> {
        if raw.products.is_none() && raw.memory.is_none() {
            let remedy = "write products or memory, or leave `efficiency` out";
            self.check.fault("compute.efficiency", "`efficiency` has at least one table", remedy);
        }
        let products = self.shares(&raw.products, "compute.efficiency.products", WORK);
        let memory = self.shares(&raw.memory, "compute.efficiency.memory", BYTES);
        Some(Efficiency { products: products?, memory: memory? })
    }

    fn shares<D: Dimension>(
        &mut self,
        raw: &Option<RawShares<D>>,
        path: &str,
        limits: Limits,
    ) -> Option<Shares> {
        let Some(RawShares { points, between, source }) = raw else {
            return Some(Shares::default());
        };
        let (between, at) = (*between, At::both(path));
        let points = (&points[..], source);
        let points = self.curve(points, at, "table", |check, (size, share), [first, second]| {
            let size = size.resolve(check, first, limits);
            let share = check.number(second, "a share", *share, 1.0 / f64::from(WHOLE), 1.0);
            // Shares are kept to parts per million: none is measured more finely.
            size.zip(share.map(|share| (share * f64::from(WHOLE)).round() as u32))
        })?;
        let path = format!("{path}.points");
        if between == Interpolation::Interpolated
            && points.first().is_some_and(|&(size, _)| size == 0)
        {
            let rule = "shares move with the logarithm of the size, and 0 has none";
            let remedy = "begin above 0, or write between: steps";
            self.check.fault(&format!("{path}.0.0"), rule, remedy);
        }
        let rule = "sizes rise along a table, each once";
        self.in_order(&path, &points, (rule, "put them in order"), |one, next| one.0 >= next.0);
        Some(Shares { points, interpolation: between })
    }

    /// The host's processors; `None` if a number of theirs breaks a rule.
    pub(super) fn cpu(&mut self, raw: &RawCpu) -> Option<Cpu> {
        if raw.name.trim().is_empty() {
            self.check.fault("cpu.name", "processors have a name", "name them");
        }
        let flops = self.number(&raw.flops, At::both("cpu.flops"), RATE);
        let memory = self.number(&raw.memory, At::both("cpu.memory"), RATE);
        let launch = self.number(&raw.launch, At::both("cpu.launch"), SETUP);
        let name = raw.name.trim().to_owned();
        Some(Cpu { name, flops: flops?, memory: memory?, launch: launch? })
    }

    /// What is neither device nor tier nor link.
    pub(super) fn host(&mut self, raw: &RawHost) {
        let power = self.priced(&raw.power, At::both("host.power"), POWER);
        let price = self.priced(&raw.price, At::both("host.price"), PRICE);
        self.economics.host = HostEconomics { power, price };
    }
}
