//! Collects what is wrong with the values of a document.
//!
//! Resolving goes on after a problem: every rule that can still be checked is, and all problems
//! are reported together.

use crate::diagnostic::Diagnostics;
use crate::ron_text::Document;

/// A document being resolved and the problems found so far.
#[derive(Debug)]
pub struct Check<'d> {
    /// What is being resolved.
    pub document: &'d Document,
    /// What is wrong with it.
    pub problems: Diagnostics,
}

impl<'d> Check<'d> {
    /// Nothing found yet.
    pub fn new(document: &'d Document) -> Check<'d> {
        Check { document, problems: Diagnostics::default() }
    }

    /// The value at `path` breaks `rule`; the value itself is shown.
    pub fn fault(&mut self, path: &str, rule: impl Into<String>, remedy: impl Into<String>) {
        self.problems.0.push(self.document.problem(path, rule, remedy));
    }

    /// `number` if it lies within `least..=most` (never NaN), a problem at `path` otherwise.
    pub fn number(
        &mut self,
        path: &str,
        what: &str,
        number: f64,
        least: f64,
        most: f64,
    ) -> Option<f64> {
        if number >= least && number <= most {
            // -0.0 would print with its sign.
            return Some(number + 0.0);
        }
        let rule = format!("{what} must lie between {least} and {most}");
        self.fault(path, rule, "write a number in that range");
        None
    }
}
