//! What an importer returns: a native trace, and what is known of it.

use std::fmt::Display;
use tiersim_models::workload::Trace;

/// A native trace, and what was seen, inferred and left out on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported<A> {
    /// The trace.
    pub trace: Trace,
    /// What is known of it, and how.
    pub account: A,
}

impl<A: Display> Imported<A> {
    /// The same, with the account in words.
    pub(crate) fn in_words(self) -> Imported<String> {
        Imported { trace: self.trace, account: self.account.to_string() }
    }
}
