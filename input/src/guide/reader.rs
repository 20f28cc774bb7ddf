//! Reads the values of keys, whatever they are called.
//!
//! Invariant: every entry gets one row, and what is wrong is noted and does not stop the rest.

use super::words::UNKNOWN;
use super::yaml::Entry;
use super::{Fate, Row};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Where things go that are offloaded, by the words of frameworks; the first is written. Tiers are
/// those of a scenario, `None` being HBM.
pub(super) const PLACES: [(&[&str], Option<&str>); 3] = [
    (&["cpu", "true", "yes", "on"], Some("far")),
    (&["nvme", "disk"], Some("drive")),
    (&["none", "false", "no", "off", "null", "~", ""], None),
];

/// Reads values, and notes what is wrong with them.
pub(super) struct Reader<'a> {
    pub(super) file: &'a Path,
    pub(super) entries: &'a [Entry],
    /// The word by which a key counts.
    pub(super) word: fn(&[String]) -> String,
    pub(super) problems: Diagnostics,
    pub(super) rows: Vec<Option<Fate>>,
}

impl<'a> Reader<'a> {
    fn unread(file: &'a Path, entries: &'a [Entry], word: fn(&[String]) -> String) -> Reader<'a> {
        let rows = vec![None; entries.len()];
        Reader { file, entries, word, problems: Diagnostics::default(), rows }
    }

    /// Of these entries; two that say the same are a problem.
    pub(super) fn new(
        file: &'a Path,
        entries: &'a [Entry],
        word: fn(&[String]) -> String,
    ) -> Reader<'a> {
        let mut of = Reader::unread(file, entries, word);
        for (index, entry) in entries.iter().enumerate() {
            let same = |other: &&Entry| word(&other.path) == word(&entry.path);
            if let Some(first) = entries[..index].iter().find(same) {
                let (this, other) = (entry.path.join("."), first.path.join("."));
                let rule = format!("`{this}` says the same as `{other}`");
                let value = entry.value.as_deref().unwrap_or("");
                of.wrong(entry.place, &rule, value, "leave one out");
            }
        }
        of
    }

    /// Of a command line's flags: of two that say the same the last counts, as `argparse` has it.
    pub(super) fn of_flags(
        file: &'a Path,
        entries: &'a [Entry],
        word: fn(&[String]) -> String,
    ) -> Reader<'a> {
        let mut of = Reader::unread(file, entries, word);
        for (index, entry) in entries.iter().enumerate() {
            let key = word(&entry.path);
            let again = |other: &&Entry| word(&other.path) == key;
            let Some(last) = entries[index + 1..].iter().rfind(again) else { continue };
            match entry.path[0].as_str() {
                UNKNOWN => {}
                // Words that belong to no flag are as wrong for the program.
                "model" => {
                    let value = last.value.as_deref().unwrap_or("");
                    of.wrong(last.place, "a model is named once", value, "leave one out");
                }
                _ => {
                    let (path, line) = (last.path.join("."), last.place.line);
                    let why = format!("`{path}` of line {line} says it again, and the last counts");
                    of.rows[index] = Some(Fate::Ignored(why));
                }
            }
        }
        of
    }

    /// Notes variables that a script does not say, unless what they may hold says nothing here.
    pub(super) fn unknown(&mut self, says_nothing: impl Fn(&str) -> bool) {
        for (index, entry) in self.entries.iter().enumerate() {
            let Some((key, flags)) = entry.path.split_first().filter(|(key, _)| *key == UNKNOWN)
            else {
                continue;
            };
            if !flags.is_empty() && flags.iter().all(|flag| says_nothing(flag)) {
                let why = "a condition that cannot be told decides, and a step is the same";
                self.rows[index] = Some(Fate::Ignored(why.to_owned()));
                continue;
            }
            let rule = "what a variable stands for is said in the same script, under no condition";
            let value = entry.value.as_deref().unwrap_or(key);
            self.wrong(entry.place, rule, value, "write the flags in its place");
        }
    }

    /// What became of each key, unless something is wrong.
    pub(super) fn done(self) -> Result<Vec<Row>, Diagnostics> {
        let row = |(entry, fate): (&Entry, Option<Fate>)| Row {
            line: entry.place.line,
            key: entry.path.join("."),
            value: entry.value.clone().unwrap_or_else(|| "a list".to_owned()),
            fate: fate.unwrap_or_else(|| Fate::Ignored("unknown key".to_owned())),
        };
        let rows = self.entries.iter().zip(self.rows).map(row).collect();
        self.problems.into_result(rows)
    }

    pub(super) fn find(&self, key: &str) -> Option<(usize, &'a Entry)> {
        let found = |(_, entry): &(usize, &Entry)| (self.word)(&entry.path) == key;
        self.entries.iter().enumerate().rfind(found)
    }

    /// The one value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.find(key).and_then(|(_, entry)| entry.value.as_deref())
    }

    /// A key as it was written.
    pub(super) fn named(&self, key: &str) -> String {
        self.find(key).map_or(key.to_owned(), |(_, entry)| entry.path.join("."))
    }

    pub(super) fn wrong(&mut self, place: Place, rule: &str, found: &str, remedy: &str) {
        self.problems.push(self.file, Some(place), rule, found, remedy);
    }

    /// The text of a key; it is taken as what `told` makes of it.
    pub(super) fn text(
        &mut self,
        key: &str,
        told: impl FnOnce(&str) -> Fate,
    ) -> Option<(&'a str, Place)> {
        let (index, entry) = self.find(key)?;
        let Some(value) = entry.value.as_deref() else {
            self.wrong(
                entry.place,
                &format!("`{}` is one value", self.named(key)),
                "a list",
                "write one",
            );
            return None;
        };
        self.rows[index] = Some(told(value));
        Some((value, entry.place))
    }

    pub(super) fn number(&mut self, key: &str, range: [u64; 2], told: &str) -> Option<u64> {
        let (value, place) = self.text(key, |value| Fate::Taken(told.replace("{}", value)))?;
        let number =
            value.replace('_', "").parse().ok().filter(|n| (range[0]..=range[1]).contains(n));
        if number.is_none() {
            let rule = format!(
                "`{}` is a whole number from {} to {}",
                self.named(key),
                range[0],
                range[1]
            );
            self.wrong(place, &rule, value, "write such a number");
        }
        number
    }

    pub(super) fn flag(&mut self, key: &str, told: [&str; 2]) -> Option<bool> {
        let meaning = |value: &str| match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" | "none" | "null" | "~" | "" => Some(false),
            _ => None,
        };
        let (value, place) = self.text(key, |value| {
            Fate::Taken(told[usize::from(meaning(value) == Some(true))].to_owned())
        })?;
        if meaning(value).is_none() {
            self.wrong(
                place,
                &format!("`{}` is true or false", self.named(key)),
                value,
                "write one of these",
            );
        }
        meaning(value)
    }

    pub(super) fn share(&mut self, key: &str, told: &str) -> Option<f64> {
        let (value, place) = self.text(key, |value| Fate::Taken(told.replace("{}", value)))?;
        let share = value.parse().ok().filter(|share: &f64| (0.2..1.0).contains(share));
        if share.is_none() {
            let rule = format!("`{}` is a share from 0.2 to below 1", self.named(key));
            self.wrong(place, &rule, value, "write 0.9 for nine tenths");
        }
        share
    }

    /// Where something goes that a guide offloads.
    pub(super) fn place(&mut self, key: &str, what: &str) -> Option<&'static str> {
        let tier = |value: &str| {
            let value = value.to_ascii_lowercase();
            let place = PLACES.iter().find(|(words, _)| words.contains(&value.as_str()));
            place.map(|(_, tier)| *tier)
        };
        let (value, place) = self.text(key, |value| {
            Fate::Taken(match tier(value).flatten() {
                Some(tier) => format!("ZeroOffload({what}: \"{tier}\")"),
                None => format!("{what} in HBM"),
            })
        })?;
        let found = tier(value);
        if found.is_none() {
            let rule = format!("`{}` is `cpu`, `nvme` or `none`", self.named(key));
            self.wrong(place, &rule, value, "write one of these");
        }
        found.flatten()
    }

    pub(super) fn ignore(&mut self, key: &str, why: &str) {
        if let Some((index, _)) = self.find(key) {
            self.rows[index] = Some(Fate::Ignored(why.to_owned()));
        }
    }

    pub(super) fn missing(&mut self, key: &str, option: &str) {
        let rule = format!("the settings do not say `{key}`");
        self.problems.push(self.file, None, rule, "", format!("write {key}: ..., or {option}"));
    }
}

/// A default that is said, since bytes or time follow from it.
pub(super) fn not_said(rows: &mut Vec<Row>, key: &str, told: &str) {
    rows.push(Row::not_said(key, told));
}
