//! How scenarios spell `adam-state` and `gradient-aware`, kept or scored again.

use super::rescore::RescoredConfig;
use super::{AdamStateConfig, Count, Score};
use crate::entry::{Entry, Fault, Kind, Parameter, Params};
use crate::recipe::PolicyConfig;

const BY: Parameter = Parameter::optional("by", Kind::Word(&["modules", "bytes"]));
const TIERS: Parameter = Parameter::optional("tiers", Kind::ThreeTiers);
const KINDS: Parameter = Parameter::optional("kinds", Kind::Kinds);
const ACCESS: Parameter = Parameter::optional("access", Kind::Access);
const RESCORE: Parameter = Parameter::optional("rescore", Kind::Steps);

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "AdamState",
    about: "modules ranked by Adam statistics, the busiest in HBM",
    parameters: &[Parameter::required("cut", Kind::Cut), BY, TIERS, KINDS, ACCESS, RESCORE],
    make: |params| Ok(make(Score::Adam, params)),
};

/// How scenarios spell it with gradient norms.
pub const GRADIENT_AWARE: Entry = Entry {
    spelling: "GradientAware",
    about: "modules ranked by Adam statistics and gradient norms",
    parameters: &[
        Parameter::required("cut", Kind::Cut),
        Parameter::optional("adam", Kind::Number { least: 0.0, most: 1e12 }),
        Parameter::optional("gradient", Kind::Number { least: 0.0, most: 1e12 }),
        BY,
        TIERS,
        KINDS,
        ACCESS,
        RESCORE,
    ],
    make: |params| {
        let weight = |name| params.number(name).unwrap_or(1.0);
        let (adam, gradient) = (weight("adam"), weight("gradient"));
        if adam == 0.0 && gradient == 0.0 {
            return Err(Fault {
                parameter: "gradient",
                rule: "with both weights 0 every module has the same score".to_owned(),
                remedy: "give `adam` or `gradient` a weight above 0".to_owned(),
            });
        }
        Ok(make(Score::GradientAware { adam, gradient }, params))
    },
};

fn make(score: Score, params: &Params) -> PolicyConfig {
    let by = if params.word("by") == Some("bytes") { Count::Bytes } else { Count::Modules };
    let tiers = params.tiers("tiers").try_into().expect("three tiers");
    let cut = params.cut("cut").expect("required");
    let (kinds, access) = (params.kinds("kinds"), params.access("access"));
    let rule = AdamStateConfig { score, cut, by, tiers, kinds, access };
    match params.steps("rescore") {
        Some(every) => RescoredConfig { rule, every: every.into() }.into(),
        None => rule.into(),
    }
}
