//! Modules ranked by Adam statistics, and by the norm of their gradients.
//!
//! Score of a parameter = mean |exp_avg| + mean sqrt(exp_avg_sq); score of a module = mean over
//! the parameters that it owns itself; modules by falling score, ties by name. A module whose
//! parameters change most is taken to be the one worth keeping near.
//! Source: the hierarchical-tiering recipe that published tiering code uses.
//!
//! *Gradient-aware*: score of a parameter = `adam` x that score + `gradient` x grad_norm, as
//! recorded. The norm of a gradient is a sum over elements and usually far larger than the means of
//! Adam's state, so it decides unless its weight is small. Source: gradient norms as a measure of
//! how much a module still learns (Liu et al., "AutoFreeze", arXiv:2102.01386).
//! With `rescore: steps(N)` ranks follow the training ([`rescore`]).
//! Invariant: a statistic whose weight is 0 is not needed.

pub mod entries;
pub mod rescore;

use crate::access::Access;
pub use crate::entry::Cut;
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::residents::spill_through;
use crate::static_placement::StaticPlacement;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Statistics, Trace};

/// Parameters of `adam-state` and `gradient-aware`.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamStateConfig {
    /// What modules are ranked by.
    pub score: Score,
    /// Where the ranked list of modules is cut.
    pub cut: Cut,
    /// What a share counts.
    pub by: Count,
    /// The tiers of the first, second and third part of the list.
    pub tiers: [TierId; 3],
    /// Kinds of a module's objects that follow its placement; all others stay in HBM.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// What modules are ranked by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Adam statistics.
    Adam,
    /// Adam statistics and the norm of the gradient, each times its weight.
    GradientAware {
        /// Weight of the Adam score.
        adam: f64,
        /// Weight of the gradient's norm.
        gradient: f64,
    },
}

impl Recipe for AdamStateConfig {
    fn name(&self) -> &'static str {
        match self.score {
            Score::Adam => "adam-state",
            Score::GradientAware { .. } => "gradient-aware",
        }
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        let score = match self.score {
            Score::Adam => String::new(),
            Score::GradientAware { adam, gradient } => {
                format!("adam x {adam} + gradient x {gradient}, ")
            }
        };
        let by = match self.by {
            Count::Modules => "modules",
            Count::Bytes => "bytes",
        };
        let cut = match self.cut {
            Cut::Shares { hbm, cpu } => format!("shares {hbm}/{cpu}"),
            Cut::Cumulative { hbm, cpu } => format!("cumulative {hbm}/{cpu}"),
        };
        format!("{score}{cut} of {by}, {}", self.access)
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let (name, modules) = (self.name(), self.place(trace)?);
        let placed = StaticPlacement::new(name, trace, modules, &self.kinds, self.access);
        Ok(Box::new(match self.score {
            Score::Adam => placed,
            Score::GradientAware { .. } => {
                placed.spilling(&spill_through(&self.tiers, setting.hardware))
            }
        }))
    }

    fn placement(&self, trace: &Trace, _: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.place(trace).map(Some)
    }

    fn comes_to(&self, trace: &Trace) -> Result<Option<String>, String> {
        let AdamStateConfig { score, cut: _, by, tiers, kinds, access } = self;
        let parts = match by {
            // The order of modules is that of the score: how many there are of each is enough.
            Count::Modules => {
                let ranked = owners(trace);
                let (first, second) = self.ends();
                format!("{:?}", [first, second].map(|end| count_of(end, ranked).min(ranked)))
            }
            Count::Bytes => format!("{:?}", self.place(trace)?),
        };
        Ok(Some(format!("{parts} of {by:?}: {score:?} {tiers:?} {kinds:?} {access:?}")))
    }

    fn uses_statistics(&self) -> bool {
        true
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn nearest_first(&self) -> Option<&[TierId]> {
        (self.score == Score::Adam).then_some(&self.tiers)
    }

    fn empty_part(&self) -> Option<String> {
        match self.cut {
            // With all of the list in the first part nobody misses the second.
            Cut::Cumulative { hbm, cpu }
                if self.score == Score::Adam && cpu <= hbm && hbm < 1.0 =>
            {
                Some(format!("cumulative(hbm: {hbm}, cpu: {cpu})"))
            }
            _ => None,
        }
    }
}

impl AdamStateConfig {
    /// Where the first and the second part of the ranked list end, as shares of it.
    fn ends(&self) -> (f64, f64) {
        match self.cut {
            Cut::Shares { hbm, cpu } => (hbm, hbm + cpu),
            Cut::Cumulative { hbm, cpu } => (hbm, cpu),
        }
    }

    /// The tier of every module, by module id; modules without weights are in HBM.
    ///
    /// Errors in words if a weight lacks a statistic that counts.
    pub fn place(&self, trace: &Trace) -> Result<Vec<TierId>, String> {
        self.place_by(trace, |object| Some(object.statistics))
    }

    /// The same by these statistics of each weight.
    fn place_by(
        &self,
        trace: &Trace,
        statistics: impl Fn(&Object) -> Option<Statistics>,
    ) -> Result<Vec<TierId>, String> {
        let (adam, gradient) = match self.score {
            Score::Adam => (1.0, 0.0),
            Score::GradientAware { adam, gradient } => (adam, gradient),
        };
        let term = |weight: f64, value: Option<f64>| match value {
            _ if weight == 0.0 => Some(0.0),
            value => value.map(|value| weight * value),
        };
        let ranked = rank_by(trace, |object| {
            let found = statistics(object)?;
            let own = found.adam_m.zip(found.adam_v).map(|(m, v)| m + v);
            Some(term(adam, own)? + term(gradient, found.grad_norm)?)
        });
        let ranked = ranked.map_err(|name| {
            let needed = match (adam > 0.0, gradient > 0.0) {
                (true, true) => "adam_m, adam_v and grad_norm",
                (true, false) => "adam_m and adam_v",
                _ => "grad_norm",
            };
            let lacks = match self.score {
                Score::Adam => "has none",
                Score::GradientAware { .. } => {
                    "lacks one (a statistic is not needed where its weight is 0)"
                }
            };
            format!("{} needs {needed} of every weight; {name} {lacks}", self.name())
        })?;
        Ok(cut(trace, &ranked, self))
    }
}

/// What the shares of a [`Cut`] count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Modules, as the field's published code does.
    Modules,
    /// Bytes of their weights.
    Bytes,
}

/// A module that owns weights, with its score.
#[derive(Clone, Debug, PartialEq)]
struct Ranked {
    module: ModuleId,
    score: f64,
    /// Of its weights.
    bytes: Bytes,
}

/// Modules that own weights, highest score first, ties by name. The score of a module is the mean
/// over its own weights.
///
/// Errors with the name of the first weight without a score.
fn rank_by(
    trace: &Trace,
    score_of: impl Fn(&Object) -> Option<f64>,
) -> Result<Vec<Ranked>, String> {
    let mut sums = vec![(0.0, 0u32, Bytes::ZERO); trace.modules.len()];
    for object in trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight) {
        let Some(module) = object.module else { continue };
        let Some(own) = score_of(object) else { return Err(object.name.to_string()) };
        let (score, count, bytes) = &mut sums[module.index()];
        *score += own;
        *count += 1;
        *bytes += object.bytes;
    }
    let mut ranked: Vec<Ranked> = sums
        .into_iter()
        .enumerate()
        .filter(|(_, (_, count, _))| *count > 0)
        .map(|(index, (score, count, bytes))| Ranked {
            module: ModuleId::at(index),
            score: score / f64::from(count),
            bytes,
        })
        .collect();
    let name = |ranked: &Ranked| &trace.modules[ranked.module.index()];
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| name(a).cmp(name(b))));
    Ok(ranked)
}

/// How many modules own weights.
fn owners(trace: &Trace) -> usize {
    let mut owns = vec![false; trace.modules.len()];
    let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    weights.filter_map(|weight| weight.module).for_each(|module| owns[module.index()] = true);
    owns.iter().filter(|owns| **owns).count()
}

/// The tier of every module for a ranked list; modules that are not in it are in HBM.
fn cut(trace: &Trace, ranked: &[Ranked], config: &AdamStateConfig) -> Vec<TierId> {
    let (first, second) = config.ends();
    let total: Bytes = ranked.iter().map(|ranked| ranked.bytes).sum();
    let within = |share: f64, rank: usize, end: Bytes| match config.by {
        Count::Modules => rank < count_of(share, ranked.len()),
        Count::Bytes => end.get() as f64 <= share * total.get() as f64 * (1.0 + 1e-12),
    };
    let mut modules = vec![HBM; trace.modules.len()];
    let mut end = Bytes::ZERO;
    for (rank, entry) in ranked.iter().enumerate() {
        end += entry.bytes;
        let part = match () {
            () if within(first, rank, end) => 0,
            () if within(second, rank, end) => 1,
            () => 2,
        };
        modules[entry.module.index()] = config.tiers[part];
    }
    modules
}

/// `int(share * n)`, but 0.29 of 100 is 29 although the product is 28.999999999999996.
fn count_of(share: f64, n: usize) -> usize {
    (share * n as f64 + 1e-9) as usize
}
