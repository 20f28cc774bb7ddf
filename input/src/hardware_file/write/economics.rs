//! Writes what a machine draws and costs, as it was written: these numbers keep their text.

use super::{Unwritable, Writer, source};
use tiersim_models::hardware::{Fact, Hardware};

impl Writer<'_> {
    /// The numbers of a place such as `tiers.dram`, and what is included in others' numbers.
    pub(super) fn economics(
        &mut self,
        place: &str,
        depth: usize,
        fields: &[&str],
        included: [bool; 2],
    ) -> Result<(), Unwritable> {
        for field in fields {
            let Some(fact) = self.hardware.economics.fact(&format!("{place}.{field}")) else {
                continue;
            };
            if fact.value.is_empty() {
                return Err(Unwritable::NoSource(fact.path.clone()));
            }
            let line = format!("{field}: ({}, {}),", fact.value, source(&fact.source));
            self.economics.push(fact.clone());
            self.line(depth, &line);
        }
        let words = ["power", "price"].into_iter().zip(included);
        let words: Vec<&str> = words.filter_map(|(word, is)| is.then_some(word)).collect();
        if !words.is_empty() {
            self.line(depth, &format!("included: [{}],", words.join(", ")));
        }
        Ok(())
    }

    /// What is neither device nor tier nor link.
    pub(super) fn host(&mut self) -> Result<(), Unwritable> {
        if self.hardware.economics.facts.iter().any(|fact| fact.path.starts_with("host.")) {
            self.line(1, "host: (");
            self.economics("host", 2, &["power", "price"], [false; 2])?;
            self.line(1, "),");
        }
        Ok(())
    }
}

/// The first number that no file has, or that stands there twice.
pub(super) fn stray(hardware: &Hardware, written: &[Fact]) -> Option<Unwritable> {
    let facts = &hardware.economics.facts;
    let count = |of: &[Fact], path: &str| of.iter().filter(|fact| fact.path == path).count();
    let bad = |fact: &&Fact| count(facts, &fact.path) != 1 || count(written, &fact.path) != 1;
    facts.iter().find(bad).map(|fact| Unwritable::Stray(fact.path.clone()))
}
