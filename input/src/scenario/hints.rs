//! Reads `tier_hints.json`: `{"module": "HBM" | "CXL" | "CPU" | "SSD" | "REMOTE"}`, and beside the
//! modules the fingerprint of the run that they come from. A `device_map` of accelerate, whose words
//! are `0`, `"cpu"` and `"disk"`, says the same and is read as it is.
//!
//! The file comes from other programs, so it is plain JSON. JSON is close enough to RON for the
//! scanner to find the place of every entry; serde_json decides what is JSON.

use crate::json::Texts;
use crate::text::check::{Check, MAX_PROBLEMS};
use crate::text::ron_text::{Document, read_text};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::hardware::TierKind;
use tiersim_models::results::hints::FINGERPRINT;

/// A hint file.
#[derive(Clone, Debug)]
pub struct HintFile {
    /// Module name to tier kind.
    pub hints: BTreeMap<String, TierKind>,
    document: Document,
    /// Module names in the order of the file, and which entry each is.
    order: Vec<(usize, String)>,
}

/// Reads a hint file; refuses unknown words and modules that are named twice.
pub fn read_hints(path: &Path) -> Result<HintFile, Diagnostics> {
    let text = read_text(path)?;
    let Texts(entries) = serde_json::from_str(&text).map_err(|error| {
        let place = Place { line: error.line() as u64, column: error.column() as u64 };
        let remedy = "write {\"module\": \"HBM\" | \"CXL\" | \"CPU\" | \"SSD\"}";
        Diagnostics::one(path, Some(place), "not a JSON object of words", error.to_string(), remedy)
    })?;
    let document = Document::from_text(path, text)?;
    let mut check = Check::new(&document);
    let mut hints = BTreeMap::new();
    let mut order = Vec::new();
    for (index, (module, word)) in entries.into_iter().enumerate() {
        if check.problems.0.len() == MAX_PROBLEMS {
            break;
        }
        if module == FINGERPRINT {
            continue;
        }
        let mut fault = |rule: &str, found: &str, remedy: &str| {
            let place = Some(place_of(check.document, index));
            check.problems.push(path, place, rule, format!("`{found}`"), remedy);
        };
        match TierKind::from_hint(&word).or_else(|| of_device(&word)) {
            Some(kind) if hints.insert(module.clone(), kind).is_some() => {
                fault("a module is named twice", &module, "keep one of the lines");
            }
            Some(_) => {}
            None => fault("unknown tier", &word, "known: HBM, CXL, CPU, SSD, REMOTE"),
        }
        order.push((index, module));
    }
    let problems = check.problems;
    problems.into_result(())?;
    Ok(HintFile { hints, document, order })
}

impl HintFile {
    /// Problems for modules that are sent to a kind of tier that the machine lacks.
    pub fn missing(&self, has: impl Fn(TierKind) -> bool) -> Diagnostics {
        let mut problems = Diagnostics::default();
        for &(index, ref module) in &self.order {
            let kind = self.hints[module];
            if !has(kind) {
                let rule = format!("module `{module}` goes to a tier that the machine lacks");
                let place = Some(place_of(&self.document, index));
                let remedy = "choose other hardware or another tier";
                problems.push(self.document.file(), place, rule, kind.hint(), remedy);
            }
            if problems.0.len() == MAX_PROBLEMS {
                break;
            }
        }
        problems
    }
}

/// The tier that a word of a `device_map` means, where there is one device.
fn of_device(word: &str) -> Option<TierKind> {
    match word {
        "0" | "cuda" | "cuda:0" | "gpu" => Some(TierKind::Hbm),
        "cpu" => Some(TierKind::Dram),
        "disk" => Some(TierKind::Nvme),
        _ => None,
    }
}

fn place_of(document: &Document, entry: usize) -> Place {
    let tree = document.tree();
    let value = tree.children(tree.root()).nth(entry).unwrap_or(tree.root());
    tree.place(value)
}
