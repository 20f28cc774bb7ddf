//! Modules placed as a file of tier hints says; modules that no hint fits stay in HBM.

mod matching;

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::static_placement::StaticPlacement;
use matching::follow;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::results::hints::{HintMatch, HintMatches, How};
use tiersim_models::workload::{ObjectKind, Trace};

/// Parameters of `hints`.
#[derive(Clone, Debug, PartialEq)]
pub struct HintsConfig {
    /// Module name to tier kind, as in `tier_hints.json`; modules that none fits stay in HBM.
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

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        self.access.to_string()
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let modules = self.modules(trace, setting.hardware)?;
        Ok(Box::new(StaticPlacement::new(self.name(), trace, modules, &self.kinds, self.access)))
    }

    fn placement(&self, trace: &Trace, machine: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.modules(trace, machine).map(Some)
    }

    fn hint_matches(&self, trace: &Trace) -> Option<HintMatches> {
        Some(self.matches(trace))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }
}

impl HintsConfig {
    fn modules(&self, trace: &Trace, hardware: &Hardware) -> Result<Vec<TierId>, String> {
        let names: Vec<&str> = self.hints.keys().map(String::as_str).collect();
        let followed = follow(&trace.modules, &names);
        if followed.iter().all(Option::is_none)
            && let Some(name) = names.first()
        {
            return Err(format!(
                "the trace has no module {name:?}, nor a module that any other of {} hints fits",
                names.len()
            ));
        }
        let tier_of = |(name, kind): (&String, &TierKind)| {
            let tier = hardware.tiers.iter().position(|tier| tier.kind == *kind);
            let lacks = || {
                let word = kind.hint();
                format!("{name} is hinted to {word}, which {} does not have", hardware.name)
            };
            tier.map(TierId::at).ok_or_else(lacks)
        };
        let tiers = self.hints.iter().map(tier_of).collect::<Result<Vec<TierId>, String>>()?;
        let modules = followed.iter().map(|hint| hint.map_or(HBM, |(hint, _)| tiers[hint]));
        Ok(modules.collect())
    }

    fn matches(&self, trace: &Trace) -> HintMatches {
        let names: Vec<&str> = self.hints.keys().map(String::as_str).collect();
        let followed = follow(&trace.modules, &names);
        let unmatched =
            |name: &&str| HintMatch { hint: (*name).to_owned(), how: How::Nothing, modules: 0 };
        let mut hints: Vec<HintMatch> = names.iter().map(unmatched).collect();
        for (hint, how) in followed.iter().copied().flatten() {
            let hint = &mut hints[hint];
            hint.how = hint.how.min(how);
            hint.modules += 1;
        }
        let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
        let owners: BTreeSet<ModuleId> = weights.filter_map(|object| object.module).collect();
        let alone = owners.into_iter().filter(|module| followed[module.index()].is_none());
        let unhinted = alone.map(|module| trace.modules[module.index()].to_string()).collect();
        HintMatches { hints, unhinted }
    }
}
