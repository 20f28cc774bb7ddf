//! A scenario and all files that it reads, as one piece of bytes for a page.
//!
//! Packed with gzip: one line of JSON that says what is inside, then the files one after the other.
//! Files keep the names that they have below their project, so that the readers find them where
//! the scenario names them.
//! Invariant: what is read back is what was packed, or a sentence; no more than [`MOST_BYTES`] are
//! ever unpacked.

use crate::{Set, VERSION};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// The most bytes of all files together: more are no page to send to anybody.
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
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let parts = [head.as_bytes(), b"\n"].into_iter();
        for part in parts.chain(self.files.values().map(Vec::as_slice)) {
            gzip.write_all(part).expect("a vector takes all");
        }
        gzip.finish().expect("a vector takes all")
    }

    /// What was packed.
    ///
    /// # Errors
    /// In words, if the bytes are no bundle, or one of another version.
    pub fn unpacked(bytes: &[u8]) -> Result<Bundle, String> {
        let damaged = |what: &str| format!("the scenario's files in this page are damaged: {what}");
        let mut all = Vec::new();
        let read = GzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut all);
        read.map_err(|error| damaged(&error.to_string()))?;
        if all.len() as u64 > MOST_BYTES {
            return Err(damaged("they are too large"));
        }
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
