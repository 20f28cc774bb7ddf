//! What a policy is made from: the trait that a policy's parameters implement.
//!
//! A recipe is what a scenario asks for, resolved to ids. It knows the policy's name and words, and
//! builds the policy for a workload on a machine. All that is particular to one policy is in that
//! policy's file: its parameters with their spelling ([`crate::entry::Entry`]), its recipe and its
//! decisions.

use crate::access::Access;
use crate::policy::Policy;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::ids::{OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::hints::HintMatches;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Trace;

/// What a policy is built for. All of it is known before the first op: estimates, no clock.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The workload that is planned.
    pub workload: &'a Workload,
    /// The machine.
    pub hardware: &'a Hardware,
    /// Its memory, as the case may use it.
    pub memory: &'a Memory,
    /// How long each op of the trace takes where nothing holds it up, without jitter.
    pub spans: &'a [Span],
    /// How long a copy takes that is alone, with its route.
    pub copies: &'a CopyTimes,
    /// How often the trace is replayed.
    pub repeat: u32,
}

/// Whether a policy's rule was written or learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Somebody wrote the rule.
    #[default]
    Written,
    /// Its numbers were found by training on a workload.
    Learned,
}

/// The weights of a policy that learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// How scenarios spell the policy.
    pub spelling: &'static str,
    /// What is weighed, by name.
    pub features: &'static [&'static str],
    /// As many finite numbers.
    pub weights: Vec<f64>,
}

/// Another workload in the place of the one that a policy is asked to run, with the same results:
/// larger objects in pieces, or ops that run again what was not kept.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The workload.
    pub workload: Workload,
    /// For each of its ops the op of the original that it repeats, whose time it takes.
    pub source: Vec<OpId>,
    /// The policy that runs it, where that is not the one that was asked: one that knows what was
    /// decided.
    pub policy: Option<PolicyConfig>,
}

impl Rewrite {
    /// The workload as it is.
    pub fn none(workload: &Workload) -> Rewrite {
        let source = (0..workload.trace.ops.len()).map(OpId::at).collect();
        Rewrite { workload: workload.clone(), source, policy: None }
    }

    /// Whether some op runs more than once.
    pub fn repeats(&self, workload: &Workload) -> bool {
        self.source.len() > workload.trace.ops.len()
    }
}

/// Mean step of a run with these parameters on the setting at hand; `None` if it runs out of memory.
pub type Judge<'a> = &'a mut dyn FnMut(&PolicyConfig) -> Option<Span>;

/// The parameters of a policy.
pub trait Recipe: Any + fmt::Debug + Send + Sync {
    /// The policy's name in tables and charts, such as `lru`.
    fn name(&self) -> &'static str;

    /// The parameters in words, such as `on demand`; empty where there are none.
    fn details(&self) -> String;

    /// The policy for a setting.
    ///
    /// Errors in words if the trace or the machine lacks what the policy needs.
    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String>;

    /// Errors in words if the trace lacks what the policy needs. For questions that are asked
    /// before there are capacities and times.
    fn check(&self, trace: &Trace, hardware: &Hardware) -> Result<(), String> {
        self.placement(trace, hardware).map(|_| ())
    }

    /// Whether decisions may depend on how fast the machine or the ops are: on rates and set-ups of
    /// links and tiers, on [`Setting::spans`] or [`Setting::copies`]. Runs that differ in these
    /// alone share the plan of a policy that says `false`.
    fn knows_times(&self) -> bool {
        true
    }

    /// The tier of every module, by module id, for policies that place modules.
    fn placement(&self, _: &Trace, _: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        Ok(None)
    }

    /// In words, what these parameters come to with a trace: two recipes of one name that say the
    /// same build the same policy, whatever was written. `None` for what is only itself.
    ///
    /// Errors in words if the trace lacks what the policy needs.
    fn comes_to(&self, _: &Trace) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// What became of each hint, for policies that follow hints.
    fn hint_matches(&self, _: &Trace) -> Option<HintMatches> {
        None
    }

    /// Whether it ranks by statistics of training ([`tiersim_models::workload::Statistics`]).
    fn uses_statistics(&self) -> bool {
        false
    }

    /// How objects outside HBM are touched, for policies that let the scenario choose.
    fn access(&self) -> Option<Access> {
        None
    }

    /// The only tiers outside HBM that objects go to, for policies of frameworks that use no other
    /// unless `spill` names it.
    fn keeps_to(&self) -> Option<Vec<TierId>> {
        None
    }

    /// Where objects go that leave HBM, in order, for policies that let the scenario choose.
    fn spill(&self) -> Option<&[TierId]> {
        None
    }

    /// Tiers that are meant to be named from near to far: those of [`Recipe::spill`], or of a
    /// placement.
    fn nearest_first(&self) -> Option<&[TierId]> {
        self.spill()
    }

    /// In words, a part of a placement that no module can go to, although it was written down.
    fn empty_part(&self) -> Option<String> {
        None
    }

    /// Whether the policy says beforehand what lives outside HBM, to be fetched or used there whenever an
    /// op uses it.
    fn has_homes_outside(&self) -> bool {
        false
    }

    /// In words, a share that was asked for and that whole objects of a trace come nowhere near.
    fn missed_share(&self, _: &Trace) -> Option<String> {
        None
    }

    /// The same with other tiers in the place of [`Recipe::spill`].
    fn with_spill(&self, _: Vec<TierId>) -> Option<PolicyConfig> {
        None
    }

    /// The most that the policy states as a delay for one use of an object of so many bytes: more
    /// for more bytes, or as much.
    fn most_delay(&self, _: Bytes) -> Span {
        Span::ZERO
    }

    /// Whether the rule was written or learned.
    fn origin(&self) -> Origin {
        Origin::Written
    }

    /// The weights of a policy that learns.
    fn learned(&self) -> Option<Learned> {
        None
    }

    /// The same with other weights, as many as [`Recipe::learned`] has.
    fn with_weights(&self, _: &[f64]) -> Option<PolicyConfig> {
        None
    }

    /// Which of the weights can change what becomes of a workload, and may be trained on it.
    fn trainable(&self, _: &Workload) -> Vec<usize> {
        Vec::new()
    }

    /// The same with what is found by trying it, for policies that are found so. Asked with the
    /// setting that `judge` runs on; the policy is then built from what comes back, if something
    /// does.
    fn searched(&self, _: &Setting<'_>, _: Judge<'_>) -> Option<PolicyConfig> {
        None
    }

    /// The workload that the policy runs instead, if it is another one. Asked with the setting of
    /// the original; the policy is then built for the new one.
    fn rewrite(&self, _: &Setting<'_>) -> Result<Option<Rewrite>, String> {
        Ok(None)
    }
}

/// A policy and its parameters, as a scenario's case has them.
#[derive(Clone)]
pub struct PolicyConfig(Arc<dyn Recipe>);

impl PolicyConfig {
    /// The parameters, if they are of this policy.
    pub fn get<R: Recipe>(&self) -> Option<&R> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Whether accesses are emulated, see [`Access::is_emulated`].
    pub fn is_emulated(&self) -> bool {
        self.0.access().is_some_and(Access::is_emulated)
    }
}

impl<R: Recipe> From<R> for PolicyConfig {
    fn from(recipe: R) -> PolicyConfig {
        PolicyConfig(Arc::new(recipe))
    }
}

impl std::ops::Deref for PolicyConfig {
    type Target = dyn Recipe;

    fn deref(&self) -> &(dyn Recipe + 'static) {
        &*self.0
    }
}

impl fmt::Debug for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Two configurations are the same if all that they print is: a recipe prints every parameter.
impl PartialEq for PolicyConfig {
    fn eq(&self, other: &PolicyConfig) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}
