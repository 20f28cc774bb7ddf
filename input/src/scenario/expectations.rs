//! From what a scenario expects of its run to indices of cases, channels and tiers.
//!
//! A bound that can never hold or always holds is a mistake of the file, not a result of the run.

use crate::scenario::raw::RawScenario;
use crate::scenario::resolver::{MAX_ENTRIES, Resolver};
use crate::scenario::spelling::{Field, Form, ONLY, RawValue, Spelled, Spelling};
use crate::scenario::{AxisValue, labelled};
use crate::text::quantity::{BYTES, TIME};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{Channel, Hardware};
use tiersim_models::ids::TierId;
use tiersim_policies::pressure::Level;
use tiersim_policies::scenario::expectation::{Choice, Expectation, Figure, METRICS, Over, Unit};
use tiersim_policies::scenario::sweep::MACHINE;

/// What `raw` expects, as `spelled`; `None` after problems.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    raw: &RawScenario,
    spelled: &[Option<Spelled>],
    known: &Known<'_>,
) -> Option<Vec<Expectation>> {
    resolver.check.at_most("expect", "expectations", &raw.expect, MAX_ENTRIES);
    let one = |(index, one): (usize, &Option<Spelled>)| {
        let (one, at) = (one.as_ref()?, format!("expect.{index}"));
        match resolver.elsewhere(&at, one, known) {
            true => Some(None),
            false => resolver.expectation(&at, one, known).map(Some),
        }
    };
    let resolved: Vec<Option<Option<Expectation>>> = spelled.iter().enumerate().map(one).collect();
    let resolved: Option<Vec<Option<Expectation>>> = resolved.into_iter().collect();
    let here: Vec<Expectation> = resolved?.into_iter().flatten().collect();
    if resolver.files.taken.is_some() && here.len() < raw.expect.len() {
        resolver.warnings.push(Warning {
            rule: "expectations-of-other-machines",
            place: "expect".to_owned(),
            found: format!("{} of {}", raw.expect.len() - here.len(), raw.expect.len()),
            reason: "these are of machines that --set hardware did not take, and are left out"
                .to_owned(),
            remedy: "run the scenario without it to have them judged".to_owned(),
        });
    }
    Some(here)
}

/// What expectations may name.
pub(crate) struct Known<'k> {
    names: Vec<String>,
    indices: BTreeMap<String, usize>,
    /// Names of cases that are elsewhere: left out here, or on another machine.
    elsewhere: BTreeSet<String>,
    hardware: &'k Hardware,
}

impl<'k> Known<'k> {
    /// The cases of a file, of which some are `there` on its machine; with the labels of all its
    /// machines and which of them this is, if it has several, or another than these. `name` means a
    /// case on each of them, `name on label` that on one.
    pub(crate) fn new(
        raw: &RawScenario,
        there: &[bool],
        hardware: &'k Hardware,
        machines: Option<(&[String], Option<usize>)>,
    ) -> Known<'k> {
        let (names, indices, elsewhere) = Default::default();
        let mut known = Known { names, indices, elsewhere, hardware };
        let mut index = 0;
        for (case, &there) in raw.policies.iter().zip(there) {
            known.add(case.name.clone(), there.then_some(index));
            let (labels, own) = machines.unwrap_or_default();
            for (machine, label) in labels.iter().enumerate() {
                let label = on_machine(&case.name, label);
                known.add(label, (there && Some(machine) == own).then_some(index));
            }
            index += usize::from(there);
        }
        known
    }

    fn add(&mut self, name: String, index: Option<usize>) {
        match index {
            Some(index) => _ = self.indices.entry(name.clone()).or_insert(index),
            None => _ = self.elsewhere.insert(name.clone()),
        }
        if self.names.len() < MAX_ENTRIES {
            self.names.push(name);
        }
    }
}

/// The label of a case on one of several machines.
pub(crate) fn on_machine(case: &str, machine: &str) -> String {
    labelled(case, &[(MACHINE.to_owned(), AxisValue::Text(machine.to_owned()))])
}

/// Which of the spellings compares two cases.
const FASTER: usize = 2;

/// How expectations are spelled: those that are no metric first, then [`METRICS`].
pub(crate) fn spellings() -> Vec<Spelling> {
    let field = |name, form, required| Field { name, form, required };
    let name = |name| field(name, Form::Name, true);
    let metric = |(word, unit, choice): (&'static str, Unit, Choice)| {
        let over = || field("over", Form::Word(&["mean", "highest", "end"]), false);
        let mut fields = vec![name("case")];
        fields.extend(match choice {
            Choice::Nothing(_) => vec![],
            Choice::Channel(_) => vec![name("channel")],
            Choice::Tier(_) => vec![name("tier")],
            Choice::TierOver(_) => vec![name("tier"), over()],
        });
        let form = match unit {
            Unit::Time => Form::Duration,
            Unit::Size => Form::Size,
            Unit::Number { .. } => Form::Number,
            Unit::Count => Form::Count,
            Unit::Level => Form::Word(Level::WORDS),
        };
        fields.extend(["at_least", "at_most"].map(|bound| field(bound, form, false)));
        Spelling { word, fields }
    };
    let others = [
        Spelling { word: "fits", fields: vec![name(ONLY)] },
        Spelling { word: "out_of_memory", fields: vec![name(ONLY)] },
        Spelling { word: "faster", fields: vec![name("case"), name("than")] },
    ];
    others.into_iter().chain(METRICS.map(metric)).collect()
}

impl Resolver<'_, '_> {
    /// Whether an expectation is of a case that is not here; one that compares two machines is
    /// noted where its first case is.
    fn elsewhere(&mut self, at: &str, raw: &Spelled, known: &Known<'_>) -> bool {
        let names = [ONLY, "case", "than"].map(|field| raw.name(field));
        let names: Vec<&str> = names.into_iter().flatten().collect();
        let away = |name: &&str| known.elsewhere.contains(*name);
        if !names.iter().any(away) {
            return false;
        }
        if let [case, than] = names[..]
            && raw.index == FASTER
            && [case, than].iter().all(|name| known.names.iter().any(|known| known == name))
            && !away(&case)
        {
            self.across.push([case, than].map(str::to_owned));
        }
        for (field, name) in ["case", "than", ONLY].map(|field| (field, raw.name(field))) {
            if let Some(name) =
                name.filter(|name| !away(name) && !known.indices.contains_key(*name))
            {
                let names: Vec<&str> = known.names.iter().map(String::as_str).collect();
                let path = format!("{at}.{field}");
                self.check.unknown(&path, "no policy has this name", name, &names);
            }
        }
        true
    }

    fn expectation(&mut self, at: &str, raw: &Spelled, known: &Known<'_>) -> Option<Expectation> {
        match raw.index {
            0 => return Some(Expectation::Fits(self.case(at, ONLY, raw, known)?)),
            1 => return Some(Expectation::OutOfMemory(self.case(at, ONLY, raw, known)?)),
            FASTER => {
                let case = self.case(at, "case", raw, known);
                let than = self.case(at, "than", raw, known);
                if case.is_some() && case == than {
                    let rule = "a policy cannot be faster than itself";
                    self.check.fault(&format!("{at}.than"), rule, "name two policies");
                }
                return Some(Expectation::Faster { case: case?, than: than? });
            }
            _ => {}
        }
        let (_, unit, choice) = METRICS[raw.index - 3];
        let case = self.case(at, "case", raw, known);
        let metric = match choice {
            Choice::Nothing(metric) => Some(metric),
            Choice::Channel(metric) => self.channel(at, raw, known.hardware).map(metric),
            Choice::Tier(metric) => self.tier_of(at, raw, known.hardware).map(metric),
            Choice::TierOver(metric) => {
                let over = match raw.values.get("over") {
                    Some(RawValue::Word("highest")) => Over::Highest,
                    Some(RawValue::Word("end")) => Over::End,
                    _ => Over::Mean,
                };
                self.tier_of(at, raw, known.hardware).map(|tier| metric(tier, over))
            }
        };
        let [at_least, at_most] = ["at_least", "at_most"].map(|name| {
            let value = raw.values.get(name)?;
            self.figure(&format!("{at}.{name}"), unit, value)
        });
        if !["at_least", "at_most"].iter().any(|name| raw.values.contains_key(name)) {
            let rule = "an expectation without a bound always holds";
            self.check.fault(at, rule, "write `at_least`, `at_most` or both");
        }
        if at_least.zip(at_most).is_some_and(|(low, high)| low > high) {
            let rule = "`at_least` is above `at_most`, so this never holds";
            self.check.fault(at, rule, "swap them");
        }
        Some(Expectation::Within { metric: metric?, case: case?, at_least, at_most })
    }

    fn figure(&mut self, at: &str, unit: Unit, raw: &RawValue) -> Option<Figure> {
        let check = &mut self.check;
        match (unit, raw) {
            (_, RawValue::Duration(time)) => time.value(check, at, TIME).map(Figure::Time),
            (_, RawValue::Size(size)) => size.value(check, at, BYTES).map(Figure::Size),
            (Unit::Number { what, most }, RawValue::Number(number)) => {
                check.number(at, what, *number, 0.0, most).map(Figure::Number)
            }
            (_, RawValue::Count(count)) => {
                let count = u32::try_from(*count).map(Figure::Count);
                let rule = format!("it must lie between 0 and {}", u32::MAX);
                count.map_err(|_| check.fault(at, rule, "write a smaller one")).ok()
            }
            (_, RawValue::Word(word)) => Level::from_word(word).map(Figure::Level),
            (unit, raw) => unreachable!("{raw:?} was not read as {unit:?}"),
        }
    }

    fn case(&mut self, at: &str, field: &str, raw: &Spelled, known: &Known<'_>) -> Option<usize> {
        let name = raw.name(field)?;
        let index = known.indices.get(name).copied();
        if index.is_none() {
            let path = format!("{at}.{field}");
            let names: Vec<&str> = known.names.iter().map(String::as_str).collect();
            self.check.unknown(&path, "no policy has this name", name, &names);
        }
        index
    }

    fn tier_of(&mut self, at: &str, raw: &Spelled, hardware: &Hardware) -> Option<TierId> {
        self.tier(&format!("{at}.tier"), raw.name("tier")?, hardware)
    }

    fn channel(&mut self, at: &str, raw: &Spelled, hardware: &Hardware) -> Option<Channel> {
        let name = raw.name("channel")?;
        let channel = hardware.channels().find(|&channel| hardware.channel_name(channel) == name);
        if channel.is_none() {
            let known: Vec<String> =
                hardware.channels().map(|channel| hardware.channel_name(channel)).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let path = format!("{at}.channel");
            self.check.unknown(&path, "the hardware has no channel of this name", name, &known);
        }
        channel
    }
}
