//! Modules ranked by Adam statistics.
//!
//! Score of a parameter = mean |exp_avg| + mean sqrt(exp_avg_sq); score of a module = mean over
//! the parameters that it owns itself; modules by falling score, ties by name. A module whose
//! parameters change most is taken to be the one worth keeping near.
//! Source: the hierarchical-tiering recipe that published tiering code uses.

use crate::access::Access;
pub use crate::entry::Cut;
use crate::entry::{Entry, Kind, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::static_placement::StaticPlacement;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Trace};

/// Parameters of `adam-state`.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamStateConfig {
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

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "AdamState",
    about: "modules ranked by Adam statistics, the busiest in HBM",
    parameters: &[
        Parameter::required("cut", Kind::Cut),
        Parameter::optional("by", Kind::Word(&["modules", "bytes"])),
        Parameter::optional("tiers", Kind::ThreeTiers),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| Ok(make(params).into()),
};

/// What this policy and its kin have in common.
pub(crate) fn make(params: &Params) -> AdamStateConfig {
    let by = if params.word("by") == Some("bytes") { Count::Bytes } else { Count::Modules };
    let tiers = params.tiers("tiers").try_into().expect("three tiers");
    let cut = params.cut("cut").expect("required");
    let (kinds, access) = (params.kinds("kinds"), params.access("access"));
    AdamStateConfig { cut, by, tiers, kinds, access }
}

impl Recipe for AdamStateConfig {
    fn name(&self) -> &'static str {
        "adam-state"
    }

    fn details(&self) -> String {
        let by = match self.by {
            Count::Modules => "modules",
            Count::Bytes => "bytes",
        };
        let cut = match self.cut {
            Cut::Shares { hbm, cpu } => format!("shares {hbm}/{cpu}"),
            Cut::Cumulative { hbm, cpu } => format!("cumulative {hbm}/{cpu}"),
        };
        format!("{cut} of {by}, {}", self.access)
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let modules = self.modules(trace)?;
        Ok(Box::new(StaticPlacement::new(self.name(), trace, modules, &self.kinds, self.access)))
    }

    fn placement(&self, trace: &Trace, _: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.modules(trace).map(Some)
    }

    fn uses_statistics(&self) -> bool {
        true
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn nearest_first(&self) -> Option<&[TierId]> {
        Some(&self.tiers)
    }

    fn empty_part(&self) -> Option<String> {
        match self.cut {
            // With all of the list in the first part nobody misses the second.
            Cut::Cumulative { hbm, cpu } if cpu <= hbm && hbm < 1.0 => {
                Some(format!("cumulative(hbm: {hbm}, cpu: {cpu})"))
            }
            _ => None,
        }
    }
}

impl AdamStateConfig {
    fn modules(&self, trace: &Trace) -> Result<Vec<TierId>, String> {
        place(trace, self).map_err(|name| {
            format!("adam-state needs adam_m and adam_v of every weight; {name} has none")
        })
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
pub struct Ranked {
    /// Which.
    pub module: ModuleId,
    /// Its score.
    pub score: f64,
    /// Bytes of its weights.
    pub bytes: Bytes,
}

/// Modules that own weights, highest score first, ties by name.
///
/// Errors with the name of the first weight without Adam statistics.
pub fn rank(trace: &Trace) -> Result<Vec<Ranked>, String> {
    rank_by(trace, |object| Some(object.statistics.adam_m? + object.statistics.adam_v?))
}

/// As [`rank`] by another score of a weight: that of a module is the mean over its own.
///
/// Errors with the name of the first weight without a score.
pub fn rank_by(
    trace: &Trace,
    score_of: impl Fn(&Object) -> Option<f64>,
) -> Result<Vec<Ranked>, String> {
    let mut sums = vec![(0.0, 0u32, Bytes::ZERO); trace.modules.len()];
    for object in trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight) {
        let Some(module) = object.module else { continue };
        let Some(own) = score_of(object) else { return Err(object.name.clone()) };
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

/// The tier of every module, by module id; modules without weights are in HBM.
pub fn place(trace: &Trace, config: &AdamStateConfig) -> Result<Vec<TierId>, String> {
    Ok(cut(trace, &rank(trace)?, config))
}

/// The tier of every module for a ranked list; modules that are not in it are in HBM.
pub fn cut(trace: &Trace, ranked: &[Ranked], config: &AdamStateConfig) -> Vec<TierId> {
    let (first, second) = match config.cut {
        Cut::Shares { hbm, cpu } => (hbm, hbm + cpu),
        Cut::Cumulative { hbm, cpu } => (hbm, cpu),
    };
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
