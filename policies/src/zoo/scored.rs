//! Demand paging under a linear score whose weights can be learned.
//!
//! Of the objects that HBM holds and the op does not use, the one with the lowest score leaves. The
//! score is a sum of features, each times a weight ([`features`]); the weights are
//! written in the scenario, or come from a file that `tiersim train-policy` made. Which copies
//! follow is the business of [`Demand`], as for every other order of leaving.
//! Invariant: the future is asked for only if the weight of `next` is not 0, and then declared.

pub mod features;
mod rule;

use crate::entry::{Entry, Kind, MAX_WEIGHT, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{Learned, Origin, PolicyConfig, Recipe, Setting};
use crate::visits::Visits;
use crate::zoo::demand::executor::Demand;
use features::{Feature, NAMES, Weights, fixed, telling};
use rule::Rule;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;

/// Parameters of `scored`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredConfig {
    /// What each feature counts.
    pub weights: Weights,
    /// Whether they were written or learned.
    pub origin: Origin,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}

const fn weight(name: &'static str) -> Parameter {
    Parameter::optional(name, Kind::Number { least: -MAX_WEIGHT, most: MAX_WEIGHT })
}

/// How scenarios spell it: `Scored(weights: "file.ron")` or `Scored(age: -1.0, size: 0.5)`.
pub const ENTRY: Entry = Entry {
    spelling: "Scored",
    about: "demand paging by object, lowest score first out, with weights that can be trained",
    parameters: &[
        Parameter::optional("weights", Kind::Weights(NAMES)),
        weight("adam_m"),
        weight("adam_v"),
        weight("age"),
        weight("changed"),
        weight("count"),
        weight("due"),
        weight("grad_norm"),
        weight("is_activation"),
        weight("is_buffer"),
        weight("is_gradient"),
        weight("is_kv"),
        weight("is_master"),
        weight("is_optimizer"),
        weight("is_weight"),
        weight("next"),
        weight("once"),
        weight("reuse"),
        weight("size"),
        Parameter::optional("spill", Kind::Spill),
    ],
    make: |params| Ok(make(params).into()),
};

/// A file's weights, with what is written in the scenario in their place; least recently used first
/// out where neither says anything.
fn make(params: &Params) -> ScoredConfig {
    let file = params.weights("weights");
    let origin = if file.is_some() { Origin::Learned } else { Origin::Written };
    let mut weights = Weights::default();
    let mut said = file.is_some();
    for (name, value) in file.unwrap_or_default() {
        weights.set(Feature::from_word(name).expect("the reader knows the names"), value);
    }
    for feature in Feature::ALL {
        if let Some(value) = params.number(feature.word()) {
            weights.set(feature, value);
            said = true;
        }
    }
    if !said {
        weights.set(Feature::Age, -1.0);
    }
    ScoredConfig { weights, origin, spill: params.tiers("spill") }
}

impl ScoredConfig {
    /// Whether the score needs to know what comes.
    fn foresees(&self) -> bool {
        self.weights.get(Feature::Next) != 0.0
    }
}

impl Recipe for ScoredConfig {
    fn name(&self) -> &'static str {
        "scored"
    }

    fn details(&self) -> String {
        match self.origin {
            Origin::Learned => "on demand, trained".to_owned(),
            Origin::Written => format!("on demand, {}", self.weights),
        }
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let (fixed, objects) = (fixed(trace, &self.weights), trace.objects.len());
        let (name, spill, weights) = (self.name(), &self.spill, &self.weights);
        if self.foresees() {
            let future = Some((Visits::new(setting.workload), setting.repeat.into()));
            let rule = Rule::<true>::new(weights, fixed);
            return Ok(Box::new(Demand::named(name, spill, rule, objects, future)));
        }
        let rule = Rule::<false>::new(weights, fixed);
        Ok(Box::new(Demand::named(name, spill, rule, objects, None)))
    }

    fn uses_statistics(&self) -> bool {
        [Feature::AdamM, Feature::AdamV, Feature::GradNorm]
            .into_iter()
            .any(|feature| self.weights.get(feature) != 0.0)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ScoredConfig { spill, ..self.clone() }.into())
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn learned(&self) -> Option<Learned> {
        let weights = Feature::ALL.into_iter().map(|feature| self.weights.get(feature)).collect();
        Some(Learned { spelling: ENTRY.spelling, features: NAMES, weights })
    }

    fn with_weights(&self, weights: &[f64]) -> Option<PolicyConfig> {
        let mut own = Weights::default();
        for (feature, &weight) in Feature::ALL.into_iter().zip(weights) {
            own.set(feature, weight);
        }
        let weights = own;
        Some(ScoredConfig { weights, ..self.clone() }.into())
    }

    /// Nothing learns to look ahead that did not before.
    fn trainable(&self, workload: &Workload) -> Vec<usize> {
        let may = |feature: &Feature| *feature != Feature::Next || self.foresees();
        let telling = telling(&workload.trace).into_iter();
        telling.filter(may).map(|feature| feature as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::features::NAMES;
    use super::{ENTRY, make};
    use crate::entry::{Params, Value};
    use crate::recipe::{Origin, Recipe};
    use std::collections::BTreeMap;
    use tiersim_models::ids::TierId;

    fn params(values: &[(&'static str, Value)]) -> Params {
        let spill = ("spill", Value::Tiers(vec![TierId(1)]));
        Params(values.iter().cloned().chain([spill]).collect())
    }

    #[test]
    fn every_feature_has_a_parameter() {
        let names: Vec<&str> = ENTRY.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names[1..names.len() - 1], *NAMES);
        assert_eq!((names[0], names[names.len() - 1]), ("weights", "spill"));
    }

    #[test]
    fn what_is_written_takes_the_place_of_what_was_learned() {
        let file = Value::Weights(BTreeMap::from([("age", -0.5), ("size", 2.0)]));
        let learned = make(&params(&[("weights", file), ("size", Value::Number(3.0))]));
        assert_eq!(learned.weights.to_string(), "age -0.5, size 3");
        assert_eq!(learned.origin, Origin::Learned);
        assert_eq!(learned.details(), "on demand, trained");
        let written = make(&params(&[("size", Value::Number(3.0))]));
        assert_eq!(
            (written.weights.to_string().as_str(), written.origin),
            ("size 3", Origin::Written)
        );
        assert_eq!(make(&params(&[])).details(), "on demand, age -1");
    }
}
