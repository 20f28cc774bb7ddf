//! Files of trained weights: `Weights(policy: "Scored", weights: {"age": -1.0}, ...)`.
//!
//! `tiersim train-policy` writes them, people may edit them, and scenarios name them. The registry
//! of policies says which features a policy weighs, so another policy that learns needs no line
//! here.
//! Invariant: what [`weights_text`] says reads back as the same file; weights that were read are
//! finite and name features of their policy.

use crate::text::check::Check;
use crate::text::ron_text::{Document, quoted};
use crate::text::typed::Parsed;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::entry::{Entry, Kind, MAX_WEIGHT};
use tiersim_policies::scenario::weights::{Trained, WeightFile};
use tiersim_policies::zoo::Registry;

/// Version of the file format.
const SCHEMA: u32 = 1;
/// Most that a mean slowdown can be.
const MAX_SLOWDOWN: f64 = 1e9;

#[derive(Debug, Deserialize)]
#[serde(rename = "Weights", deny_unknown_fields)]
struct RawWeights {
    /// Version of this format.
    ///
    /// Values: 1.
    schema: u32,
    /// Spelling of the policy that the weights are for.
    policy: String,
    /// What they are for.
    ///
    /// Values: not empty.
    about: String,
    /// Features that are not named weigh 0; unknown ones are errors.
    ///
    /// Values: -10^6 to 10^6.
    weights: BTreeMap<String, f64>,
    /// How they were found.
    trained: Option<Trained>,
}

/// Whether a document is a file of weights.
pub fn is_weights(document: &Document) -> bool {
    document.value("weights").is_some()
}

/// Reads a file of weights.
///
/// Errors name the place of what is not a policy that learns, a feature of it, or a finite number
/// within bounds.
pub fn read_weights(path: &Path, registry: &Registry) -> Result<WeightFile, Diagnostics> {
    let document = Document::read(path)?;
    let Parsed { raw, mut problems } = document.parse::<RawWeights>()?;
    let mut check = Check::new(&document);
    let file = resolve(&mut check, raw, registry);
    problems.0.append(&mut check.problems.0);
    problems.into_result(())?;
    Ok(file.expect("what gives nothing has a problem"))
}

fn resolve(check: &mut Check<'_>, raw: RawWeights, registry: &Registry) -> Option<WeightFile> {
    if raw.schema != SCHEMA {
        let remedy = format!("this program reads schema {SCHEMA}");
        check.fault("schema", "unknown schema of a file of weights", remedy);
    }
    if raw.about.trim().is_empty() {
        check.fault("about", "`about` may not be empty", "say what the weights are for");
    }
    if let Some(trained) = &raw.trained {
        for (name, value) in [("before", trained.before), ("after", trained.after)] {
            check.number(&format!("trained.{name}"), "a slowdown", value, 0.0, MAX_SLOWDOWN);
        }
    }
    let entries = registry.entries().iter();
    let learners = || entries.clone().filter_map(|entry| Some((entry, features(entry)?)));
    let Some((entry, features)) = learners().find(|(entry, _)| entry.spelling == raw.policy) else {
        let known: Vec<&str> = learners().map(|(entry, _)| entry.spelling).collect();
        check.unknown("policy", "no policy of this name has weights", &raw.policy, &known);
        return None;
    };
    let mut weights = BTreeMap::new();
    for (name, weight) in &raw.weights {
        let at = format!("weights.{name}");
        let Some(feature) = features.iter().find(|feature| *feature == name) else {
            let rule = format!("{} has no feature `{name}`", entry.spelling);
            check.unknown(&at, &rule, name, features);
            continue;
        };
        if let Some(weight) = check.number(&at, "a weight", *weight, -MAX_WEIGHT, MAX_WEIGHT) {
            weights.insert(*feature, weight);
        }
    }
    let RawWeights { about, trained, .. } = raw;
    Some(WeightFile { policy: entry.spelling, about: about.trim().to_owned(), weights, trained })
}

/// The features that a policy weighs, if it does.
fn features(entry: &Entry) -> Option<&'static [&'static str]> {
    entry.parameters.iter().find_map(|parameter| match parameter.kind {
        Kind::Weights(features) => Some(features),
        _ => None,
    })
}

/// The text of a file of weights.
pub fn weights_text(file: &WeightFile) -> String {
    let WeightFile { policy, about, weights, trained } = file;
    let mut text = format!(
        "Weights(\n    schema: {SCHEMA},\n    policy: {policy:?},\n    about: {},\n    weights: {{\n",
        quoted(about)
    );
    for (feature, weight) in weights {
        let _ = writeln!(text, "        {feature:?}: {weight:?},");
    }
    text += "    },\n";
    if let Some(trained) = trained {
        let Trained { scenario, fingerprint, workload, cases, .. } = trained;
        let Trained { seed, generations, population, before, after, .. } = trained;
        let cases: Vec<String> = cases.iter().map(|case| quoted(case)).collect();
        text += "    trained: (\n";
        let words = [("scenario", scenario), ("fingerprint", fingerprint), ("workload", workload)];
        for (name, word) in words {
            let _ = writeln!(text, "        {name}: {},", quoted(word));
        }
        let _ = writeln!(text, "        cases: [{}],", cases.join(", "));
        let _ = writeln!(text, "        seed: {seed},\n        generations: {generations},");
        let _ = writeln!(text, "        population: {population},");
        let _ = writeln!(text, "        before: {before:?},\n        after: {after:?},\n    ),");
    }
    text + ")\n"
}
