//! What became of each part of a scenario.
//!
//! Invariant: a part that cannot be read back is never called said.

use std::fmt::Display;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;
use tiersim_policies::scenario::{Case, Scenario};

/// Which case is written.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The scenario's file, which problems name.
    pub file: &'a Path,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// One of its cases.
    pub case: &'a Case,
    /// The model as the file names it, if it names one.
    pub model: Option<&'a str>,
    /// The machine of the scenario's name without what the scenario changes of it, if there is one.
    pub machine: Option<&'a Hardware>,
}

/// What became of a part of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is written as this, which is read back.
    Said(String),
    /// This is written since every scenario means it; nothing is read back of it.
    Implied(String),
    /// It is written as this, which is not read back.
    OneWay(String),
    /// The program or the command says it, in these words.
    Asked(String),
    /// The framework has no words for it, for this reason.
    Unsaid(String),
    /// It is a question to the simulator, not a setting.
    Aside(String),
}

/// A part of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its path in the scenario, as `--set` takes it.
    pub at: String,
    /// Its value.
    pub value: String,
    /// What became of it.
    pub told: Told,
}

/// A case in the words of a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// The file, or the command line.
    pub text: String,
    /// What became of each part of the scenario.
    pub parts: Vec<Part>,
    /// The command that reads it back, if there is one and model and machine have names; `FILE` stands for what was written.
    pub from: Option<String>,
}

impl Back {
    /// Whether reading it back gives the same case.
    pub fn is_whole(&self) -> bool {
        let is_lost = |part: &Part| matches!(part.told, Told::OneWay(_) | Told::Unsaid(_));
        !self.parts.iter().any(is_lost)
    }
}

/// Parts that are being collected.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) ask: &'a Ask<'a>,
    pub(super) all: Vec<Part>,
    /// Whether model and machine have names that a command takes.
    pub(super) is_named: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn new(ask: &'a Ask<'a>) -> Parts<'a> {
        Parts { ask, all: Vec::new(), is_named: true }
    }

    /// The path of a field of the case.
    pub(super) fn of_case(&self, field: &str) -> String {
        format!("policies.{}.{field}", self.ask.case.name())
    }

    fn add(&mut self, at: &str, value: impl Display, told: Told) {
        self.all.push(Part { at: at.to_owned(), value: value.to_string(), told });
    }

    pub(super) fn said(&mut self, at: &str, value: impl Display, told: impl Into<String>) {
        self.add(at, value, Told::Said(told.into()));
    }

    pub(super) fn implied(&mut self, at: &str, value: impl Display, told: impl Into<String>) {
        self.add(at, value, Told::Implied(told.into()));
    }

    pub(super) fn one_way(&mut self, at: &str, value: impl Display, told: impl Into<String>) {
        self.add(at, value, Told::OneWay(told.into()));
    }

    pub(super) fn asked(&mut self, at: &str, value: impl Display, told: impl Into<String>) {
        self.add(at, value, Told::Asked(told.into()));
    }

    pub(super) fn unsaid(&mut self, at: &str, value: impl Display, why: impl Into<String>) {
        self.add(at, value, Told::Unsaid(why.into()));
    }

    pub(super) fn aside(&mut self, at: &str, value: impl Display, why: impl Into<String>) {
        self.add(at, value, Told::Aside(why.into()));
    }

    /// A part that the framework cannot say, unless it is as it is without being written.
    pub(super) fn unless(&mut self, plain: bool, at: &str, value: impl Display, why: &str) {
        if !plain {
            self.unsaid(at, value, why);
        }
    }

    /// All of them, with what was written and how it is read back.
    pub(super) fn back(self, text: String, from: Option<String>) -> Back {
        Back { text, from: from.filter(|_| self.is_named), parts: self.all }
    }

    /// What was found to have no form at all.
    pub(super) fn refused<T>(
        &self,
        rule: &str,
        found: &str,
        remedy: &str,
    ) -> Result<T, Diagnostics> {
        Err(Diagnostics::one(self.ask.file, None, rule, found, remedy))
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_reach_a_program_as_they_are() {
        assert_eq!(quoted("a/b-1.5"), "a/b-1.5");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
