//! From what a scenario says about a policy to its [`PolicyConfig`].
//!
//! Policies are not known here by name: the registry says what each parameter is, and the policy's
//! own file makes its configuration of values that are already checked.

use crate::scenario::resolver::{Resolver, nearest_first};
use crate::scenario::spelling::{Field, Form, RawValue, Spelled, Spelling};
use crate::text::check::MAX_PROBLEMS;
use crate::text::quantity::{CAPACITY, SETUP};
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::access::Access;
use tiersim_policies::entry::{Entry, Every, Kind, Need, Parameter, Params, Value};
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::zoo::adam_state::Cut;

/// Room for rounding where shares are added up.
const ROUNDING: f64 = 1e-9;

/// How each of `policies` is spelled, in their order.
pub(crate) fn spellings(policies: &[&'static Entry]) -> Vec<Spelling> {
    let field = |parameter: &Parameter| Field {
        name: parameter.name,
        form: form(parameter.kind),
        required: parameter.need == Need::Required,
    };
    let spelling = |entry: &&Entry| Spelling {
        word: entry.spelling,
        fields: entry.parameters.iter().map(field).collect(),
    };
    policies.iter().map(spelling).collect()
}

fn form(kind: Kind) -> Form {
    match kind {
        Kind::Count { .. } => Form::Count,
        Kind::Number { .. } => Form::Number,
        Kind::Flag => Form::Flag,
        Kind::Size => Form::Size,
        Kind::Duration => Form::Duration,
        Kind::Word(words) => Form::Word(words),
        Kind::Tier | Kind::Hints | Kind::Weights(_) => Form::Name,
        Kind::Spill | Kind::HostTiers | Kind::MoreTiers | Kind::ThreeTiers => Form::Names,
        Kind::Kinds => Form::Kinds,
        Kind::Access => Form::Access,
        Kind::Cut => Form::Cut,
        Kind::Steps => Form::Every,
    }
}

/// The policy that stands at `at`, for `hardware`.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    (entry, raw): (&Entry, &Spelled),
    hardware: &Hardware,
) -> Option<PolicyConfig> {
    let mut values = Some(BTreeMap::new());
    for Parameter { name, kind, .. } in entry.parameters {
        let at = format!("{at}.{name}");
        let value = match raw.values.get(name) {
            Some(value) => resolver.written(&at, value, (*kind, entry), hardware).map(Some),
            None => resolver.default(&at, *kind, hardware),
        };
        match (value, &mut values) {
            (Some(Some(value)), Some(values)) => _ = values.insert(*name, value),
            (Some(None), _) | (Some(_), None) => {}
            (None, _) => values = None,
        }
    }
    let made = (entry.make)(&Params(values?));
    made.map_err(|fault| {
        resolver.check.fault(&format!("{at}.{}", fault.parameter), fault.rule, fault.remedy);
    })
    .ok()
}

impl Resolver<'_, '_> {
    /// A value that was written; `None` if it breaks a rule.
    fn written(
        &mut self,
        at: &str,
        raw: &RawValue,
        (kind, entry): (Kind, &Entry),
        hardware: &Hardware,
    ) -> Option<Value> {
        Some(match (kind, raw) {
            (Kind::Count { least, most }, RawValue::Count(count)) => {
                if !(least..=most).contains(count) {
                    let rule = format!("it must lie between {least} and {most}");
                    self.check.fault(at, rule, "write a whole number in that range");
                    return None;
                }
                Value::Count(*count)
            }
            (Kind::Number { least, most }, RawValue::Number(number)) => {
                Value::Number(self.check.number(at, "it", *number, least, most)?)
            }
            (Kind::Size, RawValue::Size(size)) => {
                Value::Size(size.value(&mut self.check, at, CAPACITY)?)
            }
            (_, RawValue::Flag(flag)) => Value::Flag(*flag),
            (_, RawValue::Duration(duration)) => {
                Value::Duration(duration.value(&mut self.check, at, SETUP)?)
            }
            (_, RawValue::Word(word)) => Value::Word(word),
            (Kind::Hints, RawValue::Name(file)) => self.hints(at, file, hardware)?,
            (Kind::Weights(_), RawValue::Name(file)) => self.weights(at, file, entry)?,
            (_, RawValue::Name(name)) => Value::Tier(self.tier(at, name, hardware)?),
            (Kind::ThreeTiers, RawValue::Names(names)) => {
                Value::Tiers(self.three_tiers(at, names, hardware)?.to_vec())
            }
            (_, RawValue::Names(names)) => Value::Tiers(self.spill_tiers(at, names, hardware)?),
            (_, RawValue::Kinds(kinds)) => Value::Kinds(self.resolve_kinds(at, kinds)?),
            (_, RawValue::Access(access)) => Value::Access(*access),
            (_, RawValue::Every(Every::Steps(0))) => {
                let rule = "every 0 steps is never";
                self.check.fault(at, rule, "write 1 or more, or leave it out");
                return None;
            }
            (_, RawValue::Every(Every::Steps(steps))) => Value::Steps(*steps),
            (_, RawValue::Cut(cut)) => Value::Cut(self.resolve_cut(at, *cut)?),
            (kind, raw) => unreachable!("{raw:?} was not read as {kind:?}"),
        })
    }

    /// What a parameter is that was left out, if its kind says so; `None` if the machine has none
    /// such.
    fn default(&mut self, at: &str, kind: Kind, hardware: &Hardware) -> Option<Option<Value>> {
        let state =
            [ObjectKind::Weight, ObjectKind::Gradient, ObjectKind::Optimizer, ObjectKind::Master];
        // What is left out has no place of its own.
        let at = at.rsplit_once('.').map_or(at, |(policy, _)| policy);
        Some(Some(match kind {
            Kind::Spill => Value::Tiers(self.default_spill(at, hardware)?),
            Kind::HostTiers => Value::Tiers(self.host_tiers(at, hardware)?),
            Kind::MoreTiers => Value::Tiers(Vec::new()),
            Kind::ThreeTiers => Value::Tiers(self.default_tiers(at, hardware)?.to_vec()),
            Kind::Kinds => Value::Kinds(state.to_vec()),
            Kind::Access => Value::Access(Access::Migrate { prefetch_ops: 0 }),
            _ => return Some(None),
        }))
    }

    fn hints(&mut self, at: &str, file: &str, hardware: &Hardware) -> Option<Value> {
        let found = self.files.hints(file);
        let hints = self.good(at, found)?;
        let has = |kind| hardware.tiers.iter().any(|tier| tier.kind == kind);
        if !hints.hints.values().all(|kind| has(*kind)) {
            if self.check.problems.0.len() < MAX_PROBLEMS {
                self.check.problems.0.extend(hints.missing(has).0);
            }
            return None;
        }
        Some(Value::Hints(hints.hints.clone()))
    }

    fn weights(&mut self, at: &str, file: &str, entry: &Entry) -> Option<Value> {
        let found = self.files.weights(file);
        let found = self.good(at, found)?;
        if found.policy != entry.spelling {
            let rule =
                format!("the weights are those of {}, not of {}", found.policy, entry.spelling);
            self.check.fault(at, rule, "name a file that was trained for this policy");
            return None;
        }
        Some(Value::Weights(found.weights.clone()))
    }

    fn resolve_cut(&mut self, at: &str, mut cut: Cut) -> Option<Cut> {
        let is_shares = matches!(cut, Cut::Shares { .. });
        let (Cut::Shares { hbm, cpu } | Cut::Cumulative { hbm, cpu }) = &mut cut;
        let [first, second] = [("hbm", *hbm), ("cpu", *cpu)].map(|(name, share)| {
            self.check.number(&format!("{at}.{name}"), "a share", share, 0.0, 1.0)
        });
        (*hbm, *cpu) = (first?, second?);
        if is_shares && *hbm + *cpu > 1.0 + ROUNDING {
            let rule = "the shares of `hbm` and `cpu` add up to more than 1";
            let remedy = "lower one of them, or write cumulative(...) if both count from the top";
            self.check.fault(at, rule, remedy);
            return None;
        }
        Some(cut)
    }

    fn three_tiers(
        &mut self,
        at: &str,
        names: &[String],
        hardware: &Hardware,
    ) -> Option<[TierId; 3]> {
        let [first, second, third] = names else {
            let rule = format!("`tiers` lists three tiers, not {}", names.len());
            self.check.fault(at, rule, "write [\"hbm\", \"dram\", \"nvme\"]");
            return None;
        };
        let [first, second, third] = [(0, first), (1, second), (2, third)]
            .map(|(index, name)| self.tier(&format!("{at}.{index}"), name, hardware));
        Some([first?, second?, third?])
    }

    /// The first tier, the first of kind dram, the first of kind nvme.
    fn default_tiers(&mut self, at: &str, hardware: &Hardware) -> Option<[TierId; 3]> {
        let first = |kind| hardware.tiers.iter().position(|tier| tier.kind == kind).map(TierId::at);
        match (first(TierKind::Dram), first(TierKind::Nvme)) {
            (Some(dram), Some(nvme)) => Some([HBM, dram, nvme]),
            _ => {
                let rule =
                    "the hardware has no tiers of kind dram and nvme to place the list's rest";
                self.lacks(at, rule, "write `tiers: [...]` with three names");
                None
            }
        }
    }

    fn spill_tiers(
        &mut self,
        at: &str,
        names: &[String],
        hardware: &Hardware,
    ) -> Option<Vec<TierId>> {
        if names.is_empty() {
            let rule = "evicted objects need a tier to go to";
            self.check.fault(at, rule, "name at least one tier");
            return None;
        }
        self.spill(at, names, HBM, hardware)
    }

    /// Every tier but the first; nearer kinds first.
    fn default_spill(&mut self, at: &str, hardware: &Hardware) -> Option<Vec<TierId>> {
        let spill = nearest_first(HBM, hardware);
        if spill.is_empty() {
            let rule = "the hardware has only one tier, so nothing can leave it";
            self.lacks(at, rule, "choose hardware with more tiers");
            return None;
        }
        Some(spill)
    }

    /// The tiers of [`Self::default_spill`] that a framework uses which nobody gave a drive or a peer.
    fn host_tiers(&mut self, at: &str, hardware: &Hardware) -> Option<Vec<TierId>> {
        let is_host =
            |id: &TierId| matches!(hardware.tiers[id.index()].kind, TierKind::Dram | TierKind::Cxl);
        let mut tiers = self.default_spill(at, hardware)?;
        tiers.retain(is_host);
        if tiers.is_empty() {
            let rule = "the policy moves objects to the host's memory, and the hardware has no \
                        tier of kind dram or cxl";
            self.lacks(at, rule, "write `spill: [...]` with the tiers that it may use");
            return None;
        }
        Some(tiers)
    }

    /// In the order of reports, each once: the order in the file has no meaning.
    fn resolve_kinds(&mut self, at: &str, raw: &[ObjectKind]) -> Option<Vec<ObjectKind>> {
        if raw.is_empty() {
            let rule = "a policy for no kind of object places nothing";
            self.check.fault(at, rule, "name a kind, or use AllHbm");
            return None;
        }
        Some(object_kinds(raw))
    }
}

/// In the order of reports, each once.
pub(crate) fn object_kinds(raw: &[ObjectKind]) -> Vec<ObjectKind> {
    let mut kinds = raw.to_vec();
    kinds.sort();
    kinds.dedup();
    kinds
}
