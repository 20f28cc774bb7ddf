//! Reads what a device asks for at once in a tier, and the curves of latency over bandwidth.

use super::{RawTier, Resolver};
use crate::text::quantity::{Bandwidth, Duration, GRANULE, Quantity, SETUP, sourced};
use serde::Deserialize;
use tiersim_models::hardware::{DeviceRequests, Fact, Source};
use tiersim_models::loaded::{Curve, Loaded};

/// More curves, and more points of one, than anybody has measured.
const MAX_CURVES: usize = 16;
const MAX_POINTS: usize = 64;

/// One curve, with one source for all its points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Curve", deny_unknown_fields)]
pub(super) struct RawLoaded {
    reads: f64,
    points: Vec<(Quantity<Bandwidth>, Quantity<Duration>)>,
    source: Source,
}

impl Resolver<'_> {
    /// What the device asks for at once in a tier.
    pub(super) fn requests(&mut self, raw: &RawTier, here: &str, fact: &str) -> DeviceRequests {
        let granule = raw.granule.as_ref().and_then(|size| {
            self.fact(size, &format!("{here}.granule"), format!("{fact}.granule"));
            let path = format!("{here}.granule.0");
            size.quantity.bytes(&mut self.check, &path, GRANULE)
        });
        let depth = raw.depth.as_ref().and_then(|depth| {
            let path = format!("{here}.depth");
            self.fact(depth, &path, format!("{fact}.depth"));
            depth.quantity.count(&mut self.check, &format!("{path}.0"))
        });
        DeviceRequests { granule, depth }
    }

    /// The curves of a tier; `here` is its place in the file, `fact` its place in listings.
    pub(super) fn loaded(&mut self, raw: &[RawLoaded], here: &str, fact: &str) -> Option<Loaded> {
        let path = format!("{here}.loaded");
        let raw = self.check.at_most(&path, "curves", raw, MAX_CURVES);
        let curves: Vec<Option<Curve>> =
            raw.iter().enumerate().map(|(i, raw)| self.curve_of(raw, i, &path, fact)).collect();
        let curves: Vec<Curve> = curves.into_iter().collect::<Option<_>>()?;
        if curves.is_empty() {
            let remedy = "add a curve, or leave `loaded` out";
            self.check.fault(&path, "a loaded tier has at least one curve", remedy);
            return None;
        }
        for (index, pair) in curves.windows(2).enumerate() {
            if pair[0].reads >= pair[1].reads {
                let rule = "curves come by rising share of reads, each share once";
                let path = format!("{path}.{}.reads", index + 1);
                self.check.fault(&path, rule, "put them in order");
            }
        }
        Some(Loaded { curves })
    }

    fn curve_of(&mut self, raw: &RawLoaded, index: usize, path: &str, fact: &str) -> Option<Curve> {
        let here = format!("{path}.{index}");
        let reads = self.check.number(&format!("{here}.reads"), "a share", raw.reads, 0.0, 1.0);
        let source = sourced(&raw.source, &mut self.check, &format!("{here}.source"));
        let places = format!("{here}.points");
        let value = self.check.document.value(&places).unwrap_or_default().to_string();
        self.facts.push(Fact { path: format!("{fact}.loaded.{index}"), value, source });
        let points = self.check.at_most(&places, "points", &raw.points, MAX_POINTS);
        let mut read = Vec::new();
        for (index, (rate, span)) in points.iter().enumerate() {
            let rate = rate.rate(&mut self.check, &format!("{places}.{index}.0"));
            let span = span.span(&mut self.check, &format!("{places}.{index}.1"), SETUP);
            read.push(rate.zip(span));
        }
        let points: Vec<_> = read.into_iter().collect::<Option<_>>()?;
        if points.is_empty() {
            let remedy = "add one, or leave the curve out";
            self.check.fault(&places, "a curve has at least one point", remedy);
            return None;
        }
        for (index, pair) in points.windows(2).enumerate() {
            if pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1 {
                let rule = "bandwidth rises along a curve, and latency never falls";
                let remedy = "put the points in order, and cut the curve where bandwidth falls";
                self.check.fault(&format!("{places}.{}", index + 1), rule, remedy);
            }
        }
        // Shares are kept to the per cent: curves are not measured more finely.
        Some(Curve { reads: (reads? * 100.0).round() as u8, points })
    }
}
