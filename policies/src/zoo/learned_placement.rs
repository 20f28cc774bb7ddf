//! A placement whose rule is learned: a tier for every module, by a linear score of what is known
//! of it before the run.
//!
//! Modules by falling score stay in HBM, each with all of its objects or none, as long as every op
//! still has room; the others go to the first tier of `spill` with room, the highest score first. The
//! score is a sum of features ([`Feature`]), each times a weight that is written in the scenario or
//! comes from a file that `tiersim train-policy` made. Sizes, counts and spans enter by their
//! logarithm, times of a replay as shares of it: so a model whose modules are all twice as large
//! has the same order, and what was learned on one model says something of another.
//! Without any weight the score is the density of [`crate::zoo::residents`], module by module.
//! Invariant: what stays leaves every op its room ([`Residents`]).

mod features;

use crate::access::Access;
use crate::entry::{Entry, Kind, MAX_WEIGHT, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{Learned, Origin, PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, policy_of};
pub use features::{Feature, NAMES};
use features::{Seen, telling};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::ObjectKind;

/// A weight for every feature, by [`NAMES`].
pub type Weights = [f64; NAMES.len()];

/// Parameters of `learned-placement`.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedPlacementConfig {
    /// What each feature counts.
    pub weights: Weights,
    /// Whether they were written or learned.
    pub origin: Origin,
    /// Where modules live that do not stay: the first of these with room.
    pub spill: Vec<TierId>,
    /// Kinds of a module's objects that follow it; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

const fn weight(name: &'static str) -> Parameter {
    Parameter::optional(name, Kind::Number { least: -MAX_WEIGHT, most: MAX_WEIGHT })
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "LearnedPlacement",
    about: "a tier for every module, by a score whose weights can be trained",
    parameters: &[
        Parameter::optional("weights", Kind::Weights(NAMES)),
        weight("bytes"),
        weight("first"),
        weight("gradients"),
        weight("hidden"),
        weight("idle"),
        weight("last"),
        weight("optimizer"),
        weight("saved"),
        weight("uses"),
        weight("weight_bytes"),
        weight("written"),
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| Ok(make(params).into()),
};

/// A file's weights, with what is written in the scenario in their place; density where neither
/// says anything.
fn make(params: &Params) -> LearnedPlacementConfig {
    let file = params.weights("weights");
    let origin = if file.is_some() { Origin::Learned } else { Origin::Written };
    let mut weights = [0.0; NAMES.len()];
    let mut said = file.is_some();
    let file = file.unwrap_or_default();
    for (name, weight) in NAMES.iter().zip(&mut weights) {
        let written = params.number(name);
        said |= written.is_some();
        *weight = written.or(file.get(name).copied()).unwrap_or(0.0);
    }
    if !said {
        // Bytes saved, per byte held and op idled: a quotient is a difference of logarithms. Both
        // sizes are in 32nds, times in 16ths.
        weights[Feature::Saved as usize] = 1.0;
        weights[Feature::Bytes as usize] = -1.0;
        weights[Feature::Idle as usize] = -0.5;
    }
    let (spill, kinds, access) =
        (params.tiers("spill"), params.kinds("kinds"), params.access("access"));
    LearnedPlacementConfig { weights, origin, spill, kinds, access }
}

impl Recipe for LearnedPlacementConfig {
    fn name(&self) -> &'static str {
        "learned-placement"
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        let rule = match self.origin {
            Origin::Learned => "trained".to_owned(),
            Origin::Written => words(&self.weights),
        };
        format!("{rule}, {}", self.access)
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(policy_of((self.name(), self.homes(setting)), self.access, &self.spill, setting))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(LearnedPlacementConfig { spill, ..self.clone() }.into())
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn learned(&self) -> Option<Learned> {
        let weights = self.weights.to_vec();
        Some(Learned { spelling: ENTRY.spelling, features: NAMES, weights })
    }

    fn with_weights(&self, weights: &[f64]) -> Option<PolicyConfig> {
        let weights = weights.try_into().ok()?;
        Some(LearnedPlacementConfig { weights, ..self.clone() }.into())
    }

    fn trainable(&self, workload: &Workload) -> Vec<usize> {
        telling(workload, &self.kinds, self.access)
    }
}

/// Those that are not 0, such as `bytes -1, saved 1`.
fn words(weights: &Weights) -> String {
    let heavy = NAMES.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
    let words: Vec<String> = heavy.map(|(name, weight)| format!("{name} {weight}")).collect();
    if words.is_empty() { "no weights".to_owned() } else { words.join(", ") }
}

impl LearnedPlacementConfig {
    /// The home of every object, by object id.
    pub fn homes(&self, setting: &Setting<'_>) -> Vec<TierId> {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        let units = features::units(&setting.workload.trace, &residents.of_kinds(&self.kinds));
        let seen = Seen::of(setting, &residents, self.access, &self.spill);
        let score = |unit: &Vec<ObjectId>| {
            let features = seen.features(unit);
            self.weights.iter().zip(features).map(|(weight, value)| weight * value).sum::<f64>()
        };
        let mut ranked: Vec<(f64, Vec<ObjectId>)> =
            units.into_iter().map(|unit| (score(&unit), unit)).collect();
        // Equal ones in the order of the trace's table.
        ranked.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
        let away: Vec<&Vec<ObjectId>> =
            ranked.iter().map(|(_, unit)| unit).filter(|unit| !residents.keep_all(unit)).collect();
        away.into_iter().flatten().for_each(|&object| residents.send(object));
        residents.homes()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, NAMES, make};
    use crate::entry::{Params, Value};
    use crate::recipe::{Origin, Recipe};
    use std::collections::BTreeMap;
    use tiersim_models::ids::TierId;
    use tiersim_models::workload::ObjectKind;

    fn params(values: &[(&'static str, Value)]) -> Params {
        let rest = [
            ("spill", Value::Tiers(vec![TierId(1)])),
            ("kinds", Value::Kinds(vec![ObjectKind::Weight])),
            ("access", Value::Access(crate::access::Access::Migrate { prefetch_ops: 0 })),
        ];
        Params(values.iter().cloned().chain(rest).collect())
    }

    #[test]
    fn every_feature_has_a_parameter() {
        let names: Vec<&str> = ENTRY.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names[1..=NAMES.len()], *NAMES);
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn what_is_written_takes_the_place_of_what_was_learned() {
        let file = Value::Weights(BTreeMap::from([("bytes", -0.5), ("saved", 2.0)]));
        let learned = make(&params(&[("weights", file), ("saved", Value::Number(3.0))]));
        assert_eq!(super::words(&learned.weights), "bytes -0.5, saved 3");
        assert_eq!(learned.origin, Origin::Learned);
        assert_eq!(learned.details(), "trained, migrate on demand");
        let written = make(&params(&[]));
        assert_eq!(written.details(), "bytes -1, idle -0.5, saved 1, migrate on demand");
        let again = written.with_weights(&learned.weights).expect("as many");
        assert_eq!(again.learned().expect("it learns").weights, learned.weights);
        assert!(written.with_weights(&[1.0]).is_none());
    }
}
