//! What resolving a machine carries along, and the numbers that all parts of one read alike.

use super::read_times::ReadTimes;
use crate::project::Project;
use crate::text::check::Check;
use crate::text::quantity::{Limits, Meaning, Sourced};
use std::collections::BTreeMap;
use tiersim_models::energy::Economics;
use tiersim_models::hardware::{Fact, Source, Uncertainty};

/// More points than any measured curve has.
const MAX_POINTS: usize = 64;

/// One machine being resolved; each part of a machine adds methods of its own.
pub(super) struct Resolver<'d> {
    pub(super) check: Check<'d>,
    pub(super) facts: Vec<Fact>,
    pub(super) economics: Economics,
    /// The project that names the machine, if another file does.
    pub(super) project: Option<&'d Project>,
    /// Files of op times that were read for it before.
    pub(super) times: &'d ReadTimes,
    /// Whether all tiers are here.
    pub(super) whole: bool,
}

/// Where something stands in the file, and in listings of facts: `links.0.setup` there is
/// `links.pcie.setup` here.
pub(super) struct At {
    pub(super) path: String,
    pub(super) fact: String,
}

impl At {
    /// What stands under the same name in both.
    pub(super) fn both(path: &str) -> At {
        At { path: path.to_owned(), fact: path.to_owned() }
    }

    /// The entry of a list that is called `name`.
    pub(super) fn entry(list: &str, index: usize, name: &str) -> At {
        At { path: format!("{list}.{index}"), fact: format!("{list}.{name}") }
    }

    pub(super) fn field(&self, name: &str) -> At {
        At { path: format!("{}.{name}", self.path), fact: format!("{}.{name}", self.fact) }
    }
}

impl Resolver<'_> {
    /// A number and its source, which is noted; `None` if it is out of range.
    pub(super) fn number<D: Meaning>(
        &mut self,
        raw: &Sourced<D>,
        at: At,
        limits: Limits,
    ) -> Option<D::Value> {
        let (value, fact) = self.told(raw, at, limits);
        self.facts.push(fact);
        raw.quantity.value(&mut self.check, &value, limits)
    }

    /// Where a number stands, and what is known of it.
    fn told<D: Meaning>(&mut self, raw: &Sourced<D>, at: At, limits: Limits) -> (String, Fact) {
        let At { path, fact } = at;
        let value = format!("{path}.0");
        let mut fact = self.fact(&raw.source, format!("{path}.1"), &value, fact);
        fact.uncertainty = raw.uncertainty(&mut self.check, &path, limits).map(|uncertainty| {
            let document = self.check.document;
            let (file, place) = (document.file_of(&path), document.place(&path));
            let written = document.value(&path).unwrap_or_default();
            let origin = format!("{}:{}:{} {written}", file.display(), place.line, place.column);
            Uncertainty { origin, ..uncertainty }
        });
        (value, fact)
    }

    /// The same of a number that may be left out.
    pub(super) fn optional<D: Meaning>(
        &mut self,
        raw: &Option<Sourced<D>>,
        at: At,
        limits: Limits,
    ) -> Option<D::Value> {
        raw.as_ref().and_then(|raw| self.number(raw, at, limits))
    }

    /// What something draws or costs: its source is listed apart, because no time rests on it.
    pub(super) fn priced<D: Meaning>(
        &mut self,
        raw: &Option<Sourced<D>>,
        at: At,
        limits: Limits,
    ) -> Option<D::Value> {
        let raw = raw.as_ref()?;
        let (value, fact) = self.told(raw, at, limits);
        self.economics.facts.push(fact);
        raw.quantity.value(&mut self.check, &value, limits)
    }

    /// A curve with one source for all its points, which are read by `point` at the places of
    /// their two numbers; `None` if one is wrong. `what` a curve is called here.
    pub(super) fn curve<X, Y, P>(
        &mut self,
        (points, source): (&[(X, Y)], &Source),
        at: At,
        what: &str,
        mut point: impl FnMut(&mut Check<'_>, &(X, Y), [&str; 2]) -> Option<P>,
    ) -> Option<Vec<P>> {
        let path = format!("{}.points", at.path);
        let fact = self.fact(source, format!("{}.source", at.path), &path, at.fact);
        self.facts.push(fact);
        let points = self.check.at_most(&path, "points", points, MAX_POINTS);
        let mut each = Vec::new();
        for (index, raw) in points.iter().enumerate() {
            let [one, other] = [0, 1].map(|part| format!("{path}.{index}.{part}"));
            each.push(point(&mut self.check, raw, [&one, &other]));
        }
        let points: Vec<P> = each.into_iter().collect::<Option<_>>()?;
        if points.is_empty() {
            let remedy = format!("add one, or leave the {what} out");
            self.check.fault(&path, format!("a {what} has at least one point"), remedy);
        }
        Some(points)
    }

    /// Tells every entry of the list at `path` that must not follow the one before it.
    pub(super) fn in_order<P>(
        &mut self,
        path: &str,
        all: &[P],
        (rule, remedy): (&str, &str),
        wrong: impl Fn(&P, &P) -> bool,
    ) {
        for (index, pair) in all.windows(2).enumerate() {
            if wrong(&pair[0], &pair[1]) {
                self.check.fault(&format!("{path}.{}", index + 1), rule, remedy);
            }
        }
    }

    /// Names of a list may be used in paths, in file names and on charts, so they are plain; and
    /// unique.
    pub(super) fn names<'r>(
        &mut self,
        (list, what): (&str, &str),
        names: impl Iterator<Item = &'r String>,
    ) {
        let mut seen = BTreeMap::new();
        for (index, name) in names.enumerate() {
            let path = format!("{list}.{index}.name");
            if !is_plain(name) {
                let rule = format!("the name of a {what} has 1 to 40 of a-z, 0-9 and `-`");
                self.check.fault(&path, rule, "choose another name");
            }
            if let Some(first) = seen.insert(name, path.clone()) {
                let line = self.check.document.line_from(&first, &path);
                let rule = format!("two {what}s have the same name (the other in {line})");
                self.check.fault(&path, rule, "choose another name");
            }
        }
    }

    /// Where `name` is in the list of names that there are; a problem at `path` if it is not.
    pub(super) fn named(
        &mut self,
        path: &str,
        rule: &str,
        name: &str,
        known: &[&str],
    ) -> Option<usize> {
        let found = known.iter().position(|known| *known == name);
        if found.is_none() {
            self.check.unknown(path, rule, name, known);
        }
        found
    }

    /// What stands at `value` with its source, which says something.
    fn fact(&mut self, source: &Source, source_at: String, value: &str, path: String) -> Fact {
        let mut source = source.clone();
        let (Source::Datasheet(text)
        | Source::Measured(text)
        | Source::Announced(text)
        | Source::Assumed(text)) = &mut source;
        *text = text.trim().to_string();
        if text.is_empty() {
            let remedy = "say where the number stands, or why it was assumed";
            self.check.fault(&source_at, "a source may not be empty", remedy);
        }
        let value = self.check.document.value(value).unwrap_or_default().to_string();
        Fact::new(path, value, source)
    }
}

/// Whether a tier, a node or a link may have this name.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 40 && name.chars().all(plain)
}
