//! From what a scenario file says to what it means: names become ids, defaults become values.
//!
//! Every rule of the format is here or in a file of the policies ([`super::policies`]); all that can
//! be checked is checked before anything is reported.
//! Invariant: a returned scenario names only tiers, lanes and cases that exist.

use crate::check::Check;
use crate::diagnostic::Diagnostics;
use crate::quantity::{BYTES, Budget as BudgetUnit, CAPACITY, Quantity, Size, TIME};
use crate::ron_error::choices;
use crate::ron_text::{Document, Parsed};
use crate::scenario::files::{Files, Found, PathFault};
use crate::scenario::policies;
use crate::scenario::raw::{RawCase, RawExpectation, RawScenario, RawTime, RawWorkload};
use crate::scenario::{AxisValue, Budget, Case, Expectation, OpTime, Scenario, WorkloadSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use tiersim_models::hardware::{Compute, Fact, HBM, Hardware, Lane, Source};
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// Version of the file format.
pub const SCHEMA: u32 = 1;
/// Most policies or expectations of one file.
const MAX_ENTRIES: usize = 1000;
/// Most replays of a trace.
const MAX_REPEAT: u32 = 10_000;

/// Why a document is not a scenario.
#[derive(Debug)]
pub enum Failure {
    /// It does not parse, or a file that it names cannot be used.
    Form(Diagnostics),
    /// It is well formed and breaks a rule on values.
    Meaning(Diagnostics),
}

impl Failure {
    /// The problems.
    pub fn into_problems(self) -> Diagnostics {
        let (Failure::Form(problems) | Failure::Meaning(problems)) = self;
        problems
    }
}

/// The scenario that `document` means, at the point `params` of a sweep (empty without one).
pub fn resolve(
    document: &Document,
    name: &str,
    files: &mut Files,
    params: &[(String, AxisValue)],
) -> Result<Scenario, Failure> {
    let Parsed { raw, document, problems } = document.parse().map_err(Failure::Form)?;
    let mut resolver = Resolver { check: Check::new(&document), files, outside: problems };
    let scenario = resolver.scenario(&raw, name, params);
    let Resolver { check, mut outside, .. } = resolver;
    match scenario {
        Some(scenario) if check.problems.0.is_empty() && outside.0.is_empty() => Ok(scenario),
        _ if outside.0.is_empty() => Err(Failure::Meaning(check.problems)),
        _ => {
            outside.0.extend(check.problems.0);
            outside.0.sort_by(|a, b| (&a.file, a.place).cmp(&(&b.file, b.place)));
            Err(Failure::Form(outside))
        }
    }
}

pub(crate) struct Resolver<'d, 'f> {
    pub(crate) check: Check<'d>,
    pub(crate) files: &'f mut Files,
    /// Mistakes of form, and problems with other files.
    pub(crate) outside: Diagnostics,
}

impl Resolver<'_, '_> {
    fn scenario(
        &mut self,
        raw: &RawScenario,
        name: &str,
        params: &[(String, AxisValue)],
    ) -> Option<Scenario> {
        if raw.schema != SCHEMA {
            let remedy = format!("this program reads schema {SCHEMA}");
            self.check.fault("schema", "unknown schema of a scenario", remedy);
        }
        if raw.about.trim().is_empty() {
            let remedy = "say which question the scenario answers";
            self.check.fault("about", "`about` may not be empty", remedy);
        }
        let hardware = self.hardware("hardware", &raw.hardware);
        let workload = self.workload(&raw.workload, hardware.as_ref());
        let mut hardware = hardware?;
        self.capacities(&mut hardware, &raw.capacity);
        if let Some((_, Some(device))) = &workload {
            let from = device.facts.iter().filter(|fact| fact.path.starts_with("compute."));
            let renamed = from.map(|fact| Fact {
                path: format!("device.{}.{}", device.name, fact.path),
                ..fact.clone()
            });
            let facts: Vec<Fact> = renamed.collect();
            Arc::make_mut(&mut hardware).facts.extend(facts);
        }
        let cases = self.cases(&raw.policies, &hardware, params);
        let expect = self.expectations(raw, &hardware);
        Some(Scenario {
            name: name.to_string(),
            about: raw.about.trim().to_string(),
            hardware,
            workload: workload?.0,
            cases: cases?,
            seed: raw.seed.unwrap_or(1),
            expect: expect?,
        })
    }

    /// The machine called `name` at `path` of the document.
    fn hardware(&mut self, path: &str, name: &str) -> Option<Arc<Hardware>> {
        let found = self.files.hardware(name);
        self.good(path, found)
    }

    /// What was found; a problem of the value at `path` or of the file otherwise.
    pub(crate) fn good<T>(&mut self, path: &str, found: Found<T>) -> Option<Arc<T>> {
        match found {
            Found::Good(value) => return Some(value),
            Found::Path(fault) => self.path_fault(path, fault),
            Found::Wrong(problems) => {
                for problem in problems.0 {
                    if !self.outside.0.contains(&problem) {
                        self.outside.0.push(problem);
                    }
                }
            }
        }
        None
    }

    fn path_fault(&mut self, path: &str, (rule, remedy): PathFault) {
        self.outside.0.push(self.check.document.problem(path, rule, remedy));
    }

    fn capacities(
        &mut self,
        hardware: &mut Arc<Hardware>,
        capacity: &BTreeMap<String, Quantity<Size>>,
    ) {
        let names: Vec<String> = hardware.tiers.iter().map(|tier| tier.name.clone()).collect();
        for (tier, size) in capacity {
            let path = format!("capacity.{tier}");
            let Some(id) = hardware.tier(tier) else {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                let rule = format!("the hardware has no tier `{tier}`");
                self.check.fault(&path, rule, choices(tier, &known));
                continue;
            };
            let Some(bytes) = size.bytes(&mut self.check, &path, CAPACITY) else { continue };
            let value = self.check.document.value(&path).unwrap_or_default().to_string();
            let machine = Arc::make_mut(hardware);
            machine.tiers[id.index()].capacity = bytes;
            let fact = format!("tiers.{tier}.capacity");
            machine.facts.retain(|known| known.path != fact);
            // Nobody says that the machine has this much: it is the scenario's "what if".
            let source = Source::Assumed("the scenario's `capacity`".to_string());
            machine.facts.push(Fact { path: fact, value, source });
        }
    }

    /// The workload, and the machine whose device computes if that is another one.
    fn workload(
        &mut self,
        raw: &RawWorkload,
        hardware: Option<&Arc<Hardware>>,
    ) -> Option<(WorkloadSpec, Option<Arc<Hardware>>)> {
        let RawWorkload::Trace { path, time, repeat, warmup, jitter } = raw;
        let trace = match self.files.path(path) {
            Ok(folder) if folder.is_dir() => Some(folder),
            Ok(_) => {
                let fault = ("a trace is a folder".into(), "name the folder".into());
                self.path_fault("workload.path", fault);
                None
            }
            Err(fault) => {
                self.path_fault("workload.path", fault);
                None
            }
        };
        let repeat = repeat.unwrap_or(3);
        if !(1..=MAX_REPEAT).contains(&repeat) {
            let rule = format!("`repeat` must lie between 1 and {MAX_REPEAT}");
            self.check.fault("workload.repeat", rule, "write how often the steps are replayed");
        }
        let warmup = warmup.unwrap_or(1.min(repeat.saturating_sub(1)));
        if warmup >= repeat {
            let rule = format!("`warmup` must be below `repeat`, which is {repeat}");
            self.check.fault("workload.warmup", rule, "leave at least one replay to measure");
        }
        let jitter = jitter.unwrap_or(0.0);
        let jitter = self.check.number("workload.jitter", "`jitter`", jitter, 0.0, 1.0);
        let time = self.op_time(time, hardware);
        let ((time, device), trace, jitter) = (time?, trace?, jitter?);
        Some((WorkloadSpec { trace, repeat, warmup, time, jitter }, device))
    }

    fn op_time(
        &mut self,
        raw: &RawTime,
        hardware: Option<&Arc<Hardware>>,
    ) -> Option<(OpTime, Option<Arc<Hardware>>)> {
        let (device, precision) = match raw {
            RawTime::Recorded { scale } => {
                let scale = scale.unwrap_or(1.0);
                let path = "workload.time.scale";
                let scale = self.check.number(path, "`scale`", scale, 1e-6, 1e6)?;
                return Some((OpTime::Recorded { scale }, None));
            }
            RawTime::Roofline { device, precision } => (device, precision),
        };
        let other = match device {
            Some(name) => Some(self.hardware("workload.time.device", name)?),
            None => None,
        };
        let machine = other.as_ref().or(hardware)?;
        let Some(compute) = machine.compute.clone() else {
            let rule = format!("`{}` has no `compute` to take op times from", machine.name);
            let remedy = "name another `device`, or use recorded(scale: 1.0)";
            self.check.fault("workload.time", rule, remedy);
            return None;
        };
        self.precision(&compute, precision)?;
        let other = other.filter(|other| hardware.is_none_or(|own| own.name != other.name));
        Some((OpTime::Roofline { compute, precision: precision.clone() }, other))
    }

    fn precision(&mut self, compute: &Compute, precision: &str) -> Option<()> {
        let known: Vec<&str> = compute.flops.iter().map(|(name, _)| name.as_str()).collect();
        if known.contains(&precision) {
            return Some(());
        }
        let rule = format!("`{}` has no peak for this precision", compute.name);
        self.check.fault("workload.time.precision", rule, choices(precision, &known));
        None
    }

    fn cases(
        &mut self,
        raw: &[RawCase],
        hardware: &Hardware,
        params: &[(String, AxisValue)],
    ) -> Option<Vec<Case>> {
        if raw.is_empty() {
            self.check.fault("policies", "a scenario compares at least one policy", "add one");
        }
        let raw = self.check.at_most("policies", "policies", raw, MAX_ENTRIES);
        let mut seen = BTreeMap::new();
        let mut cases = Vec::new();
        for (index, case) in raw.iter().enumerate() {
            let here = format!("policies.{index}");
            let name = &case.name;
            if name.trim().is_empty() || name.len() > 80 || name.chars().any(char::is_control) {
                let rule = "the name of a policy has 1 to 80 printable characters";
                self.check.fault(&format!("{here}.name"), rule, "choose another name");
            }
            if let Some(first) = seen.insert(name, index) {
                let line = self.check.document.place(&format!("policies.{first}.name")).line;
                let rule = format!("two policies have the same name (the other in line {line})");
                self.check.fault(&format!("{here}.name"), rule, "choose another name");
            }
            let policy =
                policies::resolve(self, &format!("{here}.policy"), &case.policy, hardware);
            let hbm = self.budget(&format!("{here}.hbm"), case.hbm.as_ref(), hardware);
            let label = label(name, params);
            let params = params.to_vec();
            cases.push((|| Some(Case { label, policy: policy?, hbm: hbm?, params }))());
        }
        cases.into_iter().collect()
    }

    fn budget(
        &mut self,
        path: &str,
        raw: Option<&Quantity<BudgetUnit>>,
        hardware: &Hardware,
    ) -> Option<Budget> {
        let Some(raw) = raw else { return Some(Budget::Hardware) };
        if let Some(share) = raw.share(&mut self.check, path)? {
            return Some(Budget::ShareOfPeak(share));
        }
        let bytes = raw.bytes(&mut self.check, path)?;
        let most = hardware.tiers[HBM.index()].capacity;
        if bytes > most {
            let rule = format!("a policy cannot use more HBM than the hardware has: {most}");
            self.check.fault(path, rule, "write less, or raise the scenario's `capacity`");
            return None;
        }
        Some(Budget::Bytes(bytes))
    }

    fn expectations(
        &mut self,
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
        let all = self.check.at_most("expect", "expectations", &raw.expect, MAX_ENTRIES);
        let resolved: Vec<Option<Expectation>> = all
            .iter()
            .enumerate()
            .map(|(index, one)| self.expectation(&format!("expect.{index}"), one, &known))
            .collect();
        resolved.into_iter().collect()
    }

    fn expectation(
        &mut self,
        at: &str,
        raw: &RawExpectation,
        known: &Known<'_>,
    ) -> Option<Expectation> {
        let field = |name: &str| format!("{at}.{name}");
        Some(match raw {
            RawExpectation::Fits(case) => Expectation::Fits(self.case(at, case, known)?),
            RawExpectation::OutOfMemory(case) => {
                Expectation::OutOfMemory(self.case(at, case, known)?)
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
                let [low, high] = [("at_least", at_least), ("at_most", at_most)].map(|(n, raw)| {
                    raw.map(|raw| raw.span(&mut self.check, &field(n), TIME))
                });
                let (at_least, at_most) = self.bounds(at, low, high)?;
                Expectation::StepTime { case: case?, at_least, at_most }
            }
            RawExpectation::Slowdown { case, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let [low, high] = [("at_least", at_least), ("at_most", at_most)].map(|(n, raw)| {
                    raw.map(|raw| self.check.number(&field(n), "a slowdown", raw, 0.0, 1e9))
                });
                let (at_least, at_most) = self.bounds(at, low, high)?;
                Expectation::Slowdown { case: case?, at_least, at_most }
            }
            RawExpectation::Moved { case, lane, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let lane = self.lane(&field("lane"), lane, known.hardware);
                let (at_least, at_most) = self.bytes(at, at_least, at_most)?;
                Expectation::Moved { case: case?, lane: lane?, at_least, at_most }
            }
            RawExpectation::Peak { case, tier, at_least, at_most } => {
                let case = self.case(&field("case"), case, known);
                let tier = self.tier(&field("tier"), tier, known.hardware);
                let (at_least, at_most) = self.bytes(at, at_least, at_most)?;
                Expectation::Peak { case: case?, tier: tier?, at_least, at_most }
            }
        })
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
            self.check.fault(path, "no policy has this name", choices(name, known.names));
        }
        index
    }

    /// The tier called `name`, a problem at `path` if there is none.
    pub(crate) fn tier(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<TierId> {
        let id = hardware.tier(name);
        if id.is_none() {
            let known: Vec<&str> = hardware.tiers.iter().map(|tier| tier.name.as_str()).collect();
            self.check.fault(path, "the hardware has no tier of this name", choices(name, &known));
        }
        id
    }

    fn lane(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<Lane> {
        let lane = hardware.lanes().find(|&lane| hardware.lane_name(lane) == name);
        if lane.is_none() {
            let known: Vec<String> =
                hardware.lanes().map(|lane| hardware.lane_name(lane)).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            self.check.fault(path, "the hardware has no lane of this name", choices(name, &known));
        }
        lane
    }
}

/// What expectations may name.
struct Known<'k> {
    names: &'k [&'k str],
    indices: BTreeMap<&'k str, usize>,
    hardware: &'k Hardware,
}

/// A case's name with the point it belongs to: `adam [hbm=0.3, access=in place]`.
fn label(name: &str, params: &[(String, AxisValue)]) -> String {
    if params.is_empty() {
        return name.to_string();
    }
    let words: Vec<String> = params.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    format!("{name} [{}]", words.join(", "))
}
