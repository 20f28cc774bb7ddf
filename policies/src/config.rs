//! What a scenario can ask for: one variant per policy, already resolved to ids.
//!
//! [`PolicyConfig::build`] is the one table of policies; adding a policy adds a file and a line.

use crate::access::Access;
use crate::adam_state::{self, AdamStateConfig, Count, Cut};
use crate::lru::{Lru, LruConfig};
use crate::placed::Placed;
use crate::policy::Policy;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::workload::{ObjectKind, Trace};

/// A policy and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyConfig {
    /// Everything in HBM; runs out of memory where it does not fit.
    AllHbm,
    /// Modules ranked by Adam statistics, the busiest in HBM.
    AdamState(AdamStateConfig),
    /// Modules placed as a hint file says.
    Hints(HintsConfig),
    /// Demand paging by object, least recently used first out.
    Lru(LruConfig),
}

/// Parameters of `hints`.
#[derive(Clone, Debug, PartialEq)]
pub struct HintsConfig {
    /// Module name to tier kind, as in `tier_hints.json`; modules not named stay in HBM.
    pub hints: BTreeMap<String, TierKind>,
    /// Kinds of a module's objects that follow its placement.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

impl PolicyConfig {
    /// The policy for a workload.
    ///
    /// Errors in words if the trace lacks what the policy needs.
    pub fn build(&self, trace: &Trace, hardware: &Hardware) -> Result<Box<dyn Policy>, String> {
        let placed = |name, modules, kinds: &[ObjectKind], access| -> Box<dyn Policy> {
            Box::new(Placed::new(name, trace, modules, kinds, access))
        };
        Ok(match self {
            PolicyConfig::AllHbm => Box::new(Placed::all_in_hbm(trace)),
            PolicyConfig::Lru(config) => Box::new(Lru::new(config, trace.objects.len())),
            PolicyConfig::AdamState(config) => {
                placed(self.name(), self.placement(trace, hardware)?, &config.kinds, config.access)
            }
            PolicyConfig::Hints(config) => {
                placed(self.name(), self.placement(trace, hardware)?, &config.kinds, config.access)
            }
        })
    }

    /// The policy's name in tables and charts.
    pub const fn name(&self) -> &'static str {
        match self {
            PolicyConfig::AllHbm => "all-hbm",
            PolicyConfig::AdamState(_) => "adam-state",
            PolicyConfig::Hints(_) => "hints",
            PolicyConfig::Lru(_) => "lru",
        }
    }

    /// Whether accesses are emulated, see [`Access::is_emulated`].
    pub const fn is_emulated(&self) -> bool {
        match self {
            PolicyConfig::AdamState(config) => config.access.is_emulated(),
            PolicyConfig::Hints(config) => config.access.is_emulated(),
            PolicyConfig::AllHbm | PolicyConfig::Lru(_) => false,
        }
    }

    /// The parameters in words, such as `shares 0.3/0.5 of modules, in place`.
    pub fn details(&self) -> String {
        match self {
            PolicyConfig::AllHbm => String::new(),
            PolicyConfig::AdamState(config) => {
                let by = match config.by {
                    Count::Modules => "modules",
                    Count::Bytes => "bytes",
                };
                let cut = match config.cut {
                    Cut::Shares { hbm, cpu } => format!("shares {hbm}/{cpu}"),
                    Cut::Cumulative { hbm, cpu } => format!("cumulative {hbm}/{cpu}"),
                };
                format!("{cut} of {by}, {}", config.access)
            }
            PolicyConfig::Hints(config) => config.access.to_string(),
            PolicyConfig::Lru(_) => "on demand".to_owned(),
        }
    }

    /// The tier of every module, by module id, for policies that place modules.
    pub fn placement(&self, trace: &Trace, hardware: &Hardware) -> Result<Vec<TierId>, String> {
        match self {
            PolicyConfig::AdamState(config) => adam_state::place(trace, config).map_err(|name| {
                format!("adam-state needs adam_m and adam_v of every weight; {name} has none")
            }),
            PolicyConfig::Hints(config) => hinted(trace, hardware, &config.hints),
            PolicyConfig::AllHbm | PolicyConfig::Lru(_) => Ok(vec![HBM; trace.modules.len()]),
        }
    }
}

fn hinted(
    trace: &Trace,
    hardware: &Hardware,
    hints: &BTreeMap<String, TierKind>,
) -> Result<Vec<TierId>, String> {
    let mut modules = vec![HBM; trace.modules.len()];
    for (name, kind) in hints {
        let module = trace.modules.iter().position(|module| module == name);
        let module = module.ok_or_else(|| format!("the trace has no module {name:?}"))?;
        let tier = hardware.tiers.iter().position(|tier| tier.kind == *kind);
        let tier = tier.ok_or_else(|| {
            format!("{name} is hinted to {}, which {} does not have", kind.hint(), hardware.name)
        })?;
        modules[module] = TierId::at(tier);
    }
    Ok(modules)
}
