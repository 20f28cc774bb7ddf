//! Modules ranked by Adam statistics and by the norm of their gradients.
//!
//! Score of a parameter = `adam` x (mean |exp_avg| + mean sqrt(exp_avg_sq)) + `gradient` x
//! grad_norm, as recorded; modules, cuts and ties as in `adam-state`. The norm of a gradient is a
//! sum over elements and usually far larger than the means of Adam's state, so it decides unless
//! its weight is small. Source: the rule of [`crate::zoo::adam_state`], and gradient norms as a
//! measure of how much a module still learns (Liu et al., "AutoFreeze", arXiv:2102.01386).
//! Invariant: a statistic whose weight is 0 is not needed.

use crate::access::Access;
use crate::entry::{Entry, Fault, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::residents::spill_through;
use crate::static_placement::StaticPlacement;
use crate::zoo::adam_state::{self, AdamStateConfig};
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::TierId;
use tiersim_models::workload::Trace;

/// Parameters of `gradient-aware`.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientAwareConfig {
    /// Weight of the Adam score.
    pub adam: f64,
    /// Weight of the gradient's norm.
    pub gradient: f64,
    /// Cut, tiers and the rest.
    pub modules: AdamStateConfig,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "GradientAware",
    about: "modules ranked by Adam statistics and gradient norms",
    parameters: &[
        Parameter::required("cut", Kind::Cut),
        Parameter::optional("adam", Kind::Number { least: 0.0, most: 1e12 }),
        Parameter::optional("gradient", Kind::Number { least: 0.0, most: 1e12 }),
        Parameter::optional("by", Kind::Word(&["modules", "bytes"])),
        Parameter::optional("tiers", Kind::ThreeTiers),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let modules = adam_state::make(params);
        let weight = |name| params.number(name).unwrap_or(1.0);
        let (adam, gradient) = (weight("adam"), weight("gradient"));
        if adam == 0.0 && gradient == 0.0 {
            return Err(Fault {
                parameter: "gradient",
                rule: "with both weights 0 every module has the same score".to_owned(),
                remedy: "give `adam` or `gradient` a weight above 0".to_owned(),
            });
        }
        Ok(GradientAwareConfig { adam, gradient, modules }.into())
    },
};

impl Recipe for GradientAwareConfig {
    fn name(&self) -> &'static str {
        "gradient-aware"
    }

    fn details(&self) -> String {
        format!("adam x {} + gradient x {}, {}", self.adam, self.gradient, self.modules.details())
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let AdamStateConfig { tiers, kinds, access, .. } = &self.modules;
        let placed = StaticPlacement::new(self.name(), trace, self.place(trace)?, kinds, *access);
        Ok(Box::new(placed.spilling(&spill_through(tiers, setting.hardware))))
    }

    fn placement(&self, trace: &Trace, _: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.place(trace).map(Some)
    }

    fn uses_statistics(&self) -> bool {
        true
    }

    fn access(&self) -> Option<Access> {
        Some(self.modules.access)
    }
}

impl GradientAwareConfig {
    /// The tier of every module, by module id; modules without weights are in HBM.
    ///
    /// Errors in words if a weight lacks a statistic that counts.
    pub fn place(&self, trace: &Trace) -> Result<Vec<TierId>, String> {
        let term = |weight: f64, value: Option<f64>| match value {
            _ if weight == 0.0 => Some(0.0),
            value => value.map(|value| weight * value),
        };
        let ranked = adam_state::rank_by(trace, |object| {
            let found = &object.statistics;
            let adam = found.adam_m.zip(found.adam_v).map(|(m, v)| m + v);
            Some(term(self.adam, adam)? + term(self.gradient, found.grad_norm)?)
        });
        let ranked = ranked.map_err(|name| {
            let needed = match (self.adam > 0.0, self.gradient > 0.0) {
                (true, true) => "adam_m, adam_v and grad_norm",
                (true, false) => "adam_m and adam_v",
                _ => "grad_norm",
            };
            format!(
                "gradient-aware needs {needed} of every weight; {name} lacks one (a statistic is \
                 not needed where its weight is 0)"
            )
        })?;
        Ok(adam_state::cut(trace, &ranked, &self.modules))
    }
}
