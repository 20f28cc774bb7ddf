//! From what a scenario file says to what it means: names become ids, defaults become values.
//!
//! Every rule of the format is here, in `workload.rs`, `policies.rs` or `expectations.rs`; all that
//! can be checked is checked before anything is reported.
//! Invariant: a returned scenario names only tiers, channels and cases that exist.

use crate::project::PathFault;
use crate::scenario::compression::Formats;
use crate::scenario::files::{Files, Lookup};
use crate::scenario::raw::{RawCase, RawScenario};
use crate::scenario::resolver::{MAX_ENTRIES, Resolver, reason};
use crate::scenario::spelling::{Spelled, read_all};
use crate::scenario::{
    Budget, Case, OpTime, Params, Said, Scenario, Terms, WorkloadSpec, labelled,
};
use crate::scenario::{
    allocators, compression, expectations, hidden, numa, policies, pressure, runtime,
};
use crate::text::check::Check;
use crate::text::choices::{SCHEMA, other_schema};
use crate::text::quantity::{Budget as BudgetUnit, CAPACITY, Quantity, Size};
use crate::text::ron_text::Document;
use crate::text::typed::Parsed;
use std::collections::BTreeMap;
use std::sync::Arc;
use tiersim_models::allocator::AllocatorSpec;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Fact, HBM, Hardware, Source};
use tiersim_models::hidden::Hidden;
use tiersim_models::printed::is_printable;
use tiersim_models::runtime::Runtime;
use tiersim_policies::entry::Entry;
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::zoo::Registry;

/// Most bytes of `about`: every point of a sweep carries it.
const MAX_ABOUT: usize = 1000;

/// What a scenario says of all cases.
struct Common {
    allocators: Vec<AllocatorSpec>,
    hidden: Vec<Hidden>,
    numa: NumaConfig,
    runtime: Runtime,
    formats: Formats,
}

/// Why a document is not a scenario.
#[derive(Debug)]
pub enum Failure {
    /// It does not parse, or a file that it names cannot be used; and the rules it breaks besides.
    Form(Diagnostics, Diagnostics),
    /// It is well formed and breaks rules on values.
    Meaning(Diagnostics),
}

impl Failure {
    /// A failure of form alone.
    pub fn form(problems: Diagnostics) -> Failure {
        Failure::Form(problems, Diagnostics::default())
    }

    /// The problems.
    pub fn into_problems(self) -> Diagnostics {
        match self {
            Failure::Meaning(problems) => problems,
            Failure::Form(mut form, meaning) => {
                form.0.extend(meaning.0);
                form.0.sort_by(|a, b| (&a.file, a.place).cmp(&(&b.file, b.place)));
                form
            }
        }
    }
}

/// A policy of the registry as written.
type SpelledPolicy = (&'static Entry, Spelled);

/// What [`RawScenario`] leaves out, element by element; `None` for those with problems.
struct Tables {
    policies: Vec<Option<SpelledPolicy>>,
    expect: Vec<Option<Spelled>>,
}

impl Tables {
    fn read(document: &Document, registry: &Registry, problems: &mut Diagnostics) -> Tables {
        let entries = registry.entries();
        let spellings = policies::spellings(entries);
        let list = ("policies", "policy");
        let policies = read_all(document, list, "a policy", &spellings, problems);
        let entry = |spelled: Spelled| (entries[spelled.index], spelled);
        let policies = policies.into_iter().map(|policy| policy.map(entry)).collect();
        let spellings = expectations::spellings();
        let expect = read_all(document, ("expect", ""), "an expectation", &spellings, problems);
        Tables { policies, expect }
    }
}

/// Where a scenario stands that is compared with others of the same file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'s> {
    /// The point of a sweep; empty without one.
    pub(crate) params: &'s Params,
    /// The labels of its machines, if it names several, and which of them this is.
    pub(crate) machines: Option<(&'s [String], usize)>,
}

/// A scenario, and what is said of it that is no part of it.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) scenario: Scenario,
    /// Cases that make no sense on this of several machines, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// Cases, by label, that are to be faster than others on another machine.
    pub(crate) across: Vec<[String; 2]>,
}

/// The scenario that `document` means.
pub(crate) fn resolve(
    document: &Document,
    name: &str,
    files: &mut Files,
    standing: Standing<'_>,
) -> Result<Resolved, Failure> {
    let mut problems = Diagnostics::default();
    let spelled = Tables::read(document, &files.registry, &mut problems);
    let Parsed { raw, problems: form } = match document.parse::<RawScenario>() {
        Ok(parsed) => parsed,
        Err(mut form) => {
            form.0.append(&mut problems.0);
            return Err(Failure::form(form));
        }
    };
    problems.0.extend(form.0);
    let check = Check::new(document);
    let (warnings, left_out, across) = Default::default();
    let mut resolver =
        Resolver { check, files, outside: problems, warnings, lacking: 0, left_out, across };
    let scenario = resolver.scenario(&raw, &spelled, name, standing);
    let Resolver { check, outside, left_out, across, .. } = resolver;
    match scenario {
        Some(scenario) if check.problems.0.is_empty() && outside.0.is_empty() => {
            Ok(Resolved { scenario, left_out, across })
        }
        _ if outside.0.is_empty() => Err(Failure::Meaning(check.problems)),
        _ => Err(Failure::Form(outside, check.problems)),
    }
}

impl Resolver<'_, '_> {
    fn scenario(
        &mut self,
        raw: &RawScenario,
        spelled: &Tables,
        name: &str,
        standing: Standing<'_>,
    ) -> Option<Scenario> {
        if raw.schema != SCHEMA {
            self.check.fault("schema", "unknown schema of a scenario", other_schema());
        }
        if raw.about.trim().is_empty() {
            let remedy = "say which question the scenario answers";
            self.check.fault("about", "`about` may not be empty", remedy);
        }
        if raw.about.len() > MAX_ABOUT {
            let rule = format!("`about` has at most {MAX_ABOUT} bytes");
            self.check.fault("about", rule, "write the rest as a comment");
        }
        let hardware = self.machine();
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
            let machine = Arc::make_mut(&mut hardware);
            machine.facts.all().extend(facts);
            machine.economics.take_device(&device.economics);
        }
        let time = workload.as_ref().map(|(spec, _)| &spec.time);
        if let Some(OpTime::Priced { compute, .. }) = time
            && let Some(times) = compute.op_times.as_ref().and_then(|of| of.collectives)
        {
            let server = &mut Arc::make_mut(&mut hardware).server;
            server.collective_times = Some(times.numbers);
        }
        // Numbers that no time of this scenario rests on are none of its facts.
        let priced =
            matches!(time, Some(OpTime::Priced { compute, .. }) if compute.op_times.is_some());
        let idle = |fact: &Fact| !priced && fact.path.contains("compute.op_times.");
        if hardware.facts.iter().any(idle) {
            let machine = Arc::make_mut(&mut hardware);
            machine.facts.all().retain(|fact| !idle(fact));
            machine.compute.iter_mut().for_each(|compute| compute.op_times = None);
        }
        let formats = compression::add(self, &mut hardware, &raw.compression);
        let hardware = self.files.shared(hardware);
        let said = (raw.numa.as_ref(), raw.pins.as_deref());
        let common = Common {
            allocators: allocators::resolve(self, "allocators", &raw.allocators, &[], &hardware),
            hidden: hidden::resolve(self, "hidden", &raw.hidden, &[], &hardware),
            numa: numa::resolve(self, "", said, &NumaConfig::default(), &hardware),
            runtime: runtime::resolve(self, "runtime", raw.runtime.as_ref(), None, &hardware),
            formats,
        };
        let spec = workload.as_ref().map(|(spec, _)| spec);
        let cases =
            self.cases((&raw.policies, &spelled.policies), (&common, spec), &hardware, standing);
        compression::used(self, &raw.compression, &raw.policies);
        let there: Option<Vec<bool>> =
            cases.as_ref().map(|cases| cases.iter().map(Option::is_some).collect());
        let mut cases: Option<Vec<Case>> = cases.map(|cases| cases.into_iter().flatten().collect());
        // Every point of a sweep keeps them.
        cases.iter_mut().for_each(Vec::shrink_to_fit);
        self.refuse_without(spec, cases.as_deref().unwrap_or_default());
        let there = there.unwrap_or_else(|| vec![true; raw.policies.len()]);
        let taken = self.files.taken.as_ref().map(|taken| (&*taken.labels, taken.own));
        let machines = standing.machines.map(|(labels, own)| (labels, Some(own))).or(taken);
        let known = expectations::Known::new(raw, &there, &hardware, machines);
        let expect = expectations::resolve(self, raw, &spelled.expect, &known);
        let about = raw.about.trim().to_owned();
        let said = Said { name: name.to_owned(), about, expect: expect? };
        Some(Scenario {
            said: self.files.shared_said(said),
            hardware,
            workload: self.files.shared_workload(workload?.0),
            cases: cases?,
            seed: raw.seed.unwrap_or(1),
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    /// The machine called `name` at `path` of the document.
    pub(crate) fn hardware(&mut self, path: &str, name: &str) -> Option<Arc<Hardware>> {
        let found = self.files.hardware(name);
        let machine = self.good(path, found)?;
        let uncertain = |fact: &Fact| fact.uncertainty.is_some();
        let facts = || machine.facts.iter().chain(&machine.economics.facts);
        if self.files.drawn.is_empty() || !facts().any(uncertain) {
            return Some(machine);
        }
        let text = self.files.machine_text(name);
        let drawn = self.good(path, text)?.drawn(&[], &self.files.drawn);
        let drawn = drawn.map_err(|problems| self.outside.0.extend(problems.0)).ok()?;
        Some(Arc::new(drawn))
    }

    /// What was found; a problem of the value at `path` or of the file otherwise.
    pub(crate) fn good<T>(&mut self, path: &str, found: Lookup<T>) -> Option<Arc<T>> {
        match found {
            Lookup::Good(value) => return Some(value),
            Lookup::Path(fault) => self.path_fault(path, fault),
            Lookup::Wrong(problems) => {
                for problem in problems.0 {
                    if !self.outside.0.contains(&problem) {
                        self.outside.0.push(problem);
                    }
                }
            }
        }
        None
    }

    pub(crate) fn path_fault(&mut self, path: &str, (rule, remedy): PathFault) {
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
                self.check.unknown(&path, &rule, tier, &known);
                continue;
            };
            let Some(bytes) = size.value(&mut self.check, &path, CAPACITY) else { continue };
            let value = self.check.document.value(&path).unwrap_or_default().to_string();
            let machine = Arc::make_mut(hardware);
            machine.tiers[id.index()].capacity = bytes.into();
            let fact = format!("tiers.{tier}.capacity");
            machine.facts.all().retain(|known| known.path != fact);
            // Nobody says that the machine has this much: it is the scenario's "what if".
            let source = Source::Assumed("the scenario's `capacity`".to_string());
            machine.facts.all().push(Fact::new(fact, value, source));
        }
    }

    fn cases(
        &mut self,
        (raw, spelled): (&[RawCase], &[Option<SpelledPolicy>]),
        (common, workload): (&Common, Option<&WorkloadSpec>),
        hardware: &Hardware,
        standing: Standing<'_>,
    ) -> Option<Vec<Option<Case>>> {
        if raw.is_empty() {
            self.check.fault("policies", "a scenario compares at least one policy", "add one");
        }
        let raw = self.check.at_most("policies", "policies", raw, MAX_ENTRIES);
        let mut seen = BTreeMap::new();
        let mut cases = Vec::new();
        for (index, case) in raw.iter().enumerate() {
            let here = format!("policies.{index}");
            let name = &case.name;
            if !is_name(name) {
                let rule = "the name of a policy has 1 to 80 bytes, all printable";
                self.check.fault(&format!("{here}.name"), rule, "choose another name");
            }
            if let Some(first) = seen.insert(name, index) {
                let line = self.check.document.place(&format!("policies.{first}.name")).line;
                let rule = format!("two policies have the same name (the other in line {line})");
                self.check.fault(&format!("{here}.name"), rule, "choose another name");
            }
            let (before, lacking) = (self.check.problems.0.len(), self.lacking);
            let policy = spelled.get(index).and_then(Option::as_ref);
            let case = self.case_at(&here, (case, policy), (common, workload), hardware, standing);
            // What makes no sense on one of several machines for want of a tier is left out there.
            let added = self.check.problems.0.len() - before;
            if standing.machines.is_some() && added > 0 && added == self.lacking - lacking {
                let why = self.check.problems.0.split_off(before);
                self.left_out.push((name.clone(), reason(&Diagnostics(why))));
                cases.push(Some(None));
                continue;
            }
            cases.push(case.map(Some));
        }
        let cases = cases.into_iter().collect::<Option<Vec<Option<Case>>>>()?;
        if let (true, Some((_, why))) = (cases.iter().all(Option::is_none), self.left_out.first()) {
            let rule = format!("no policy makes sense on {}: {why}", hardware.name);
            self.check.fault("policies", rule, "leave the machine out, or add a policy for it");
        }
        Some(cases)
    }

    /// One case, at `here`.
    fn case_at(
        &mut self,
        here: &str,
        (case, policy): (&RawCase, Option<&SpelledPolicy>),
        (common, workload): (&Common, Option<&WorkloadSpec>),
        hardware: &Hardware,
        standing: Standing<'_>,
    ) -> Option<Case> {
        let policy = policy.and_then(|(entry, spelled)| {
            policies::resolve(self, &format!("{here}.policy"), (entry, spelled), hardware)
        });
        let hbm = self.budget(&format!("{here}.hbm"), case.hbm.as_ref(), hardware);
        let chunk = case
            .chunk
            .as_ref()
            .and_then(|size| size.value(&mut self.check, &format!("{here}.chunk"), CAPACITY));
        let (micro_batch, pressure) = pressure::resolve(self, here, case, hardware, workload);
        let at = format!("{here}.allocators");
        let allocators =
            allocators::resolve(self, &at, &case.allocators, &common.allocators, hardware);
        let at = format!("{here}.hidden");
        let hidden = hidden::resolve(self, &at, &case.hidden, &common.hidden, hardware);
        let said = (case.numa.as_ref(), case.pins.as_deref());
        let numa = numa::resolve(self, &format!("{here}."), said, &common.numa, hardware);
        let (at, own) = (format!("{here}.runtime"), case.runtime.as_ref());
        let runtime = runtime::resolve(self, &at, own, Some(&common.runtime), hardware);
        let (at, own) = (format!("{here}.compress"), case.compress.as_ref());
        let compress = compression::choose(self, &at, own, &common.formats);
        let hbm = hbm?;
        let terms = Terms {
            hbm,
            allocators,
            hidden,
            numa,
            chunk,
            micro_batch,
            pressure,
            runtime,
            compress,
        };
        Some(Case {
            label: labelled(&case.name, standing.params),
            policy: policy?,
            params: standing.params.clone(),
            terms: self.files.shared_terms(terms),
        })
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
        let bytes = raw.value(&mut self.check, path, CAPACITY)?;
        let most = hardware.tiers[HBM.index()].capacity;
        if !most.holds(bytes) {
            let rule = format!("a policy cannot use more HBM than the hardware has: {most}");
            self.lacks(path, rule, "write less, or raise the scenario's `capacity`");
            return None;
        }
        Some(Budget::Bytes(bytes))
    }
}

/// Whether a text is a name that charts, tables and every point of a sweep can carry.
pub(crate) fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 80 && is_printable(text)
}
