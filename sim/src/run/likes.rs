//! What has run already, by what it came to.
//!
//! Invariant: of what is the same, the first to come runs, and all others wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Results by what they are of; one may be under way.
#[derive(Debug)]
pub(super) struct Likes<T>(pub(super) Mutex<BTreeMap<String, Arc<OnceLock<T>>>>);

impl<T> Default for Likes<T> {
    fn default() -> Likes<T> {
        Likes(Mutex::new(BTreeMap::new()))
    }
}
