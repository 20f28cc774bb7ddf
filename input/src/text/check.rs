//! Collects what is wrong with the values of a document.
//!
//! Resolving goes on after a problem: every rule that can still be checked is, and all problems
//! are reported together.

use crate::text::choices::choices;
use crate::text::ron_text::Document;
use tiersim_models::diagnostic::Diagnostics;

/// Most problems listed of one document: finding a place costs a look at the text before it, and
/// nobody reads more.
pub const MAX_PROBLEMS: usize = 100;

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
        if self.problems.0.len() < MAX_PROBLEMS {
            self.problems.0.push(self.document.problem(path, rule, remedy));
        }
    }

    /// The value at `path` names nothing: `rule`, and the names that exist.
    pub fn unknown(&mut self, path: &str, rule: &str, name: &str, known: &[&str]) {
        // Looking for a near name takes time, so it is not done for problems that nobody sees.
        if self.problems.0.len() < MAX_PROBLEMS {
            self.fault(path, rule, choices(name, known));
        }
    }

    /// `items`, cut to the first `most` with a problem at `path` if there are more.
    pub fn at_most<'i, T>(
        &mut self,
        path: &str,
        what: &str,
        items: &'i [T],
        most: usize,
    ) -> &'i [T] {
        if items.len() > most {
            let found = items.len().to_string();
            let rule = format!("at most {most} {what} are allowed");
            let remedy = "leave some out";
            self.problems.0.push(self.document.problem_found(path, rule, found, remedy));
        }
        &items[..items.len().min(most)]
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
