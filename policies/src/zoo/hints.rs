//! Modules placed as a file of tier hints says; modules not named stay in HBM.

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::placed::Placed;
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::workload::{ObjectKind, Trace};

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

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Hints",
    about: "modules placed as a file of tier hints says",
    parameters: &[
        Parameter::required("file", Kind::Hints),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let hints = params.hints("file").expect("required");
        let (kinds, access) = (params.kinds("kinds"), params.access("access"));
        Ok(HintsConfig { hints, kinds, access }.into())
    },
};

impl Recipe for HintsConfig {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn details(&self) -> String {
        self.access.to_string()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let modules = self.modules(trace, setting.hardware)?;
        Ok(Box::new(Placed::new(self.name(), trace, modules, &self.kinds, self.access)))
    }

    fn placement(&self, trace: &Trace, machine: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.modules(trace, machine).map(Some)
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }
}

impl HintsConfig {
    fn modules(&self, trace: &Trace, hardware: &Hardware) -> Result<Vec<TierId>, String> {
        let mut modules = vec![HBM; trace.modules.len()];
        for (name, kind) in &self.hints {
            let module = trace.modules.iter().position(|module| module == name);
            let module = module.ok_or_else(|| format!("the trace has no module {name:?}"))?;
            let tier = hardware.tiers.iter().position(|tier| tier.kind == *kind);
            let tier = tier.ok_or_else(|| {
                format!(
                    "{name} is hinted to {}, which {} does not have",
                    kind.hint(),
                    hardware.name
                )
            })?;
            modules[module] = TierId::at(tier);
        }
        Ok(modules)
    }
}
