//! What has run already, by what it came to.
//!
//! Invariant: of what is the same, the first to come runs, and all others wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Results by what they are of; one may be under way.
#[derive(Debug)]
pub(super) struct Likes<T, K = String>(pub(super) Mutex<BTreeMap<K, Arc<OnceLock<T>>>>);

impl<T, K> Default for Likes<T, K> {
    fn default() -> Likes<T, K> {
        Likes(Mutex::new(BTreeMap::new()))
    }
}
