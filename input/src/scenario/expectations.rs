//! From what a scenario expects of its run to indices of cases, lanes and tiers.
//!
//! A bound that can never hold or always holds is a mistake of the file, not a result of the run.

use crate::scenario::pressure::level;
use crate::scenario::raw::{RawExpectation, RawOver, RawScenario};
use crate::scenario::resolver::{MAX_ENTRIES, Resolver};
use crate::scenario::{Expectation, Over};
use crate::text::quantity::{BYTES, Duration, Quantity, Size, TIME};
use std::collections::BTreeMap;
use tiersim_models::hardware::{Hardware, Lane};
use tiersim_models::units::{Bytes, Span};

/// The expectations of `raw`, or `None` after problems.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    raw: &RawScenario,
    hardware: &Hardware,
) -> Option<Vec<Expectation>> {
    let names: Vec<&str> = raw.policies.iter().map(|case| case.name.as_str()).collect();
    let mut indices = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        indices.entry(*name).or_insert(index);
    }
    let names = &names[..names.len().min(MAX_ENTRIES)];
    let known = Known { names, indices, hardware };
    let all = resolver.check.at_most("expect", "expectations", &raw.expect, MAX_ENTRIES);
    let resolved: Vec<Option<Expectation>> = all
        .iter()
        .enumerate()
        .map(|(index, one)| resolver.expectation(&format!("expect.{index}"), one, &known))
        .collect();
    resolved.into_iter().collect()
}

/// What expectations may name.
struct Known<'k> {
    names: &'k [&'k str],
    indices: BTreeMap<&'k str, usize>,
    hardware: &'k Hardware,
}

/// The mean, unless another is named.
fn measure(raw: Option<&RawOver>) -> Over {
    match raw {
        None | Some(RawOver::Mean) => Over::Mean,
        Some(RawOver::Highest) => Over::Highest,
        Some(RawOver::End) => Over::End,
    }
}

impl Resolver<'_, '_> {
    fn expectation(
        &mut self,
        at: &str,
        raw: &RawExpectation,
        known: &Known<'_>,
    ) -> Option<Expectation> {
        let field = |name: &str| format!("{at}.{name}");
        Some(match raw {
            RawExpectation::Fits(case) => Expectation::Fits(self.case(&field("0"), case, known)?),
            RawExpectation::OutOfMemory(case) => {
                Expectation::OutOfMemory(self.case(&field("0"), case, known)?)
            }
            RawExpectation::Faster { case, than } => {
                let case = self.case(&field("case"), case, known);
                let than = self.case(&field("than"), than, known);
                if case.is_some() && case == than {
                    let rule = "a policy cannot be faster than itself";
                    self.check.fault(&field("than"), rule, "name two policies");
                }
                Expectation::Faster { case: case?, than: than? }
            }
            RawExpectation::StepTime { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let (at_least, at_most) = self.spans(at, at_least, at_most)?;
                Expectation::StepTime { case: case?, at_least, at_most }
            }
            RawExpectation::Ttft { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let (at_least, at_most) = self.spans(at, at_least, at_most)?;
                Expectation::FirstToken { case: case?, at_least, at_most }
            }
            RawExpectation::Tpot { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let (at_least, at_most) = self.spans(at, at_least, at_most)?;
                Expectation::PerToken { case: case?, at_least, at_most }
            }
            RawExpectation::Slowdown { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let limits = [*at_least, *at_most];
                let (at_least, at_most) = self.numbers(at, "a slowdown", limits, 1e9)?;
                Expectation::Slowdown { case: case?, at_least, at_most }
            }
            RawExpectation::Moved { case, lane, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let lane = self.lane(&field("lane"), lane, known.hardware);
                let (at_least, at_most) = self.bytes(at, at_least, at_most)?;
                Expectation::Moved { case: case?, lane: lane?, at_least, at_most }
            }
            RawExpectation::Fragmentation { case, tier, over, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let tier = self.tier(&field("tier"), tier, known.hardware);
                let (over, limits) = (measure(over.as_ref()), [*at_least, *at_most]);
                let (at_least, at_most) = self.numbers(at, "a share", limits, 1.0)?;
                Expectation::Fragmentation { case: case?, tier: tier?, over, at_least, at_most }
            }
            RawExpectation::Pressure { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let [low, high] = [at_least, at_most].map(|raw| raw.map(|raw| Some(level(raw))));
                let (at_least, at_most) = self.bounds(at, low, high)?;
                Expectation::Pressure { case: case?, at_least, at_most }
            }
            RawExpectation::MicroBatch { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let [low, high] = [at_least, at_most].map(|raw| raw.map(Some));
                let (at_least, at_most) = self.bounds(at, low, high)?;
                Expectation::MicroBatch { case: case?, at_least, at_most }
            }
            RawExpectation::Peak { case, tier, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let tier = self.tier(&field("tier"), tier, known.hardware);
                let (at_least, at_most) = self.bytes(at, at_least, at_most)?;
                Expectation::Peak { case: case?, tier: tier?, at_least, at_most }
            }
        })
    }

    fn spans(
        &mut self,
        at: &str,
        at_least: &Option<Quantity<Duration>>,
        at_most: &Option<Quantity<Duration>>,
    ) -> Option<(Option<Span>, Option<Span>)> {
        let [low, high] = [("at_least", at_least), ("at_most", at_most)].map(|(name, raw)| {
            raw.map(|raw| raw.span(&mut self.check, &format!("{at}.{name}"), TIME))
        });
        self.bounds(at, low, high)
    }

    /// Bounds that are numbers from 0 to `most`; `what` with its article.
    fn numbers(
        &mut self,
        at: &str,
        what: &str,
        [at_least, at_most]: [Option<f64>; 2],
        most: f64,
    ) -> Option<(Option<f64>, Option<f64>)> {
        let [low, high] = [("at_least", at_least), ("at_most", at_most)].map(|(name, raw)| {
            raw.map(|raw| self.check.number(&format!("{at}.{name}"), what, raw, 0.0, most))
        });
        self.bounds(at, low, high)
    }

    fn bytes(
        &mut self,
        at: &str,
        at_least: &Option<Quantity<Size>>,
        at_most: &Option<Quantity<Size>>,
    ) -> Option<(Option<Bytes>, Option<Bytes>)> {
        let [low, high] = [("at_least", at_least), ("at_most", at_most)].map(|(name, raw)| {
            raw.map(|raw| raw.bytes(&mut self.check, &format!("{at}.{name}"), BYTES))
        });
        self.bounds(at, low, high)
    }

    /// Both bounds if they are good: one at least, and in order.
    fn bounds<T: PartialOrd>(
        &mut self,
        at: &str,
        low: Option<Option<T>>,
        high: Option<Option<T>>,
    ) -> Option<(Option<T>, Option<T>)> {
        match (low, high) {
            (None, None) => {
                let rule = "an expectation without a bound always holds";
                self.check.fault(at, rule, "write `at_least`, `at_most` or both");
                None
            }
            (Some(Some(low)), Some(Some(high))) if low > high => {
                let rule = "`at_least` is above `at_most`, so this never holds";
                self.check.fault(at, rule, "swap them");
                None
            }
            (Some(None), _) | (_, Some(None)) => None,
            (low, high) => Some((low.flatten(), high.flatten())),
        }
    }

    fn case(&mut self, path: &str, name: &str, known: &Known<'_>) -> Option<usize> {
        let index = known.indices.get(name).copied();
        if index.is_none() {
            self.check.unknown(path, "no policy has this name", name, known.names);
        }
        index
    }

    fn lane(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<Lane> {
        let lane = hardware.lanes().find(|&lane| hardware.lane_name(lane) == name);
        if lane.is_none() {
            let known: Vec<String> =
                hardware.lanes().map(|lane| hardware.lane_name(lane)).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            self.check.unknown(path, "the hardware has no lane of this name", name, &known);
        }
        lane
    }
}
