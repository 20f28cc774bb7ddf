//! What resolving a scenario carries along: the document's problems, and the files that it names.

use crate::scenario::files::Files;
use crate::text::check::Check;
use tiersim_models::diagnostic::{Diagnostics, Warning};
use tiersim_models::hardware::{Hardware, TierKind};
use tiersim_models::ids::TierId;
use tiersim_workloads::ShapeProblem;

/// Most policies or expectations of one file.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// One scenario being resolved; each part of a scenario adds methods of its own.
pub(crate) struct Resolver<'d, 'f> {
    pub(crate) check: Check<'d>,
    pub(crate) files: &'f mut Files,
    /// Mistakes of form, and problems with other files.
    pub(crate) outside: Diagnostics,
    /// What should be looked at in files that are right.
    pub(crate) warnings: Vec<Warning>,
}

impl Resolver<'_, '_> {
    /// The tier called `name`, a problem at `path` if there is none.
    pub(crate) fn tier(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<TierId> {
        let id = hardware.tier(name);
        if id.is_none() {
            let known: Vec<&str> = hardware.tiers.iter().map(|tier| tier.name.as_str()).collect();
            self.check.unknown(path, "the hardware has no tier of this name", name, &known);
        }
        id
    }

    /// Tiers that what leaves `from` may go to.
    pub(crate) fn spill(
        &mut self,
        at: &str,
        names: &[String],
        from: TierId,
        hardware: &Hardware,
    ) -> Option<Vec<TierId>> {
        let mut spill = Vec::new();
        for (index, name) in names.iter().take(hardware.tiers.len() + 1).enumerate() {
            let path = format!("{at}.{index}");
            let id = self.tier(&path, name, hardware)?;
            let rule = match id {
                id if id == from => "objects leave this tier, so it cannot take them",
                id if spill.contains(&id) => "a tier is listed twice",
                id => {
                    spill.push(id);
                    continue;
                }
            };
            self.check.fault(&path, rule, "leave it out");
            return None;
        }
        Some(spill)
    }

    /// Says which rules a generated workload breaks, at the paths of its fields.
    pub(crate) fn broken(
        &mut self,
        problems: &[ShapeProblem],
        path: impl Fn(&str) -> String,
    ) -> bool {
        for ShapeProblem { field, rule, remedy } in problems {
            self.check.fault(&path(field), rule.as_str(), *remedy);
        }
        !problems.is_empty()
    }
}

/// Every tier but `from`; nearer kinds first.
pub(crate) fn nearest_first(from: TierId, hardware: &Hardware) -> Vec<TierId> {
    let order = [TierKind::Hbm, TierKind::Dram, TierKind::Cxl, TierKind::Nvme, TierKind::Remote];
    let kind = |id: TierId| hardware.tiers[id.index()].kind;
    let mut tiers: Vec<TierId> = hardware.tier_ids().filter(|&id| id != from).collect();
    tiers.sort_by_key(|&id| order.iter().position(|known| *known == kind(id)));
    tiers
}
