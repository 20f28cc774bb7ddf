//! A scenario and all files that it reads, as one piece of bytes for a page.
//!
//! One line of JSON that says what is inside, then the files one after the other, all packed at
//! once. Files keep the names that they have below their project, so that the readers find them
//! where the scenario names them; those that are packed there lie here as they unpack, since what
//! is packed twice is larger.
//! Invariant: what is read back is what was packed, or a sentence.

use crate::{Set, VERSION, packed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most bytes of all files together, unpacked: more are no page to send to anybody. The module
/// that unpacks them takes a little more, for the list.
pub const MOST_BYTES: u64 = 64 << 20;

/// A scenario with all that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The scenario's name among the files, such as `scenarios/a.ron`.
    pub scenario: String,
    /// What was set of it on the command line.
    pub set: Vec<Set>,
    /// What each file holds, by name.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    tiersim: String,
    scenario: String,
    set: Vec<Set>,
    files: Vec<(String, usize)>,
}

impl Bundle {
    /// Its bytes; the same for the same files.
    pub fn packed(&self) -> Vec<u8> {
        let head = Head {
            tiersim: VERSION.to_owned(),
            scenario: self.scenario.clone(),
            set: self.set.clone(),
            files: self.files.iter().map(|(name, held)| (name.clone(), held.len())).collect(),
        };
        let head = serde_json::to_string(&head).expect("texts and numbers are JSON");
        let parts = [head.as_bytes(), b"\n"].into_iter();
        let all: Vec<_> = parts.chain(self.files.values().map(Vec::as_slice)).collect();
        packed(&all.concat())
    }

    /// A bundle of what it unpacks to.
    ///
    /// # Errors
    /// In words, if the bytes are no bundle, or one of another version.
    pub fn of(all: &[u8]) -> Result<Bundle, String> {
        let damaged = |what: &str| format!("the scenario's files in this page are damaged: {what}");
        let end = all.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("no list"))?;
        let head: Head =
            serde_json::from_slice(&all[..end]).map_err(|error| damaged(&error.to_string()))?;
        if head.tiersim != VERSION {
            let of = head.tiersim;
            return Err(format!("the page is of tiersim {of} and its module of {VERSION}"));
        }
        let (mut files, mut rest) = (BTreeMap::new(), &all[end + 1..]);
        for (name, length) in head.files {
            let (held, more) = rest.split_at_checked(length).ok_or_else(|| damaged("cut off"))?;
            files.insert(name, held.to_vec());
            rest = more;
        }
        Ok(Bundle { scenario: head.scenario, set: head.set, files })
    }
}
