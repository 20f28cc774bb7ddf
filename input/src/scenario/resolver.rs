//! What resolving a scenario carries along: the document's problems, and the files that it names.

use crate::scenario::files::Files;
use crate::text::check::Check;
use tiersim_models::diagnostic::{Diagnostics, Warning};
use tiersim_models::hardware::{HBM, Hardware, TierKind};
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
    /// How many of the problems are what the machine lacks.
    pub(crate) lacking: usize,
    /// Cases that make no sense on this of several machines, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// Labels of two cases on different machines, the first of which is to be faster.
    pub(crate) across: Vec<[String; 2]>,
}

impl Resolver<'_, '_> {
    /// The tier that `name` means: its name, or what it is for (`near`, `far`, `drive`), or several
    /// of these, the first of which that is there (`cxl|far`). A problem at `path` if none is.
    pub(crate) fn tier(&mut self, path: &str, name: &str, hardware: &Hardware) -> Option<TierId> {
        let meant = |name: &str| hardware.tier(name).or_else(|| by_role(name, hardware));
        let id = name.split('|').find_map(|name| meant(name.trim()));
        if id.is_none() {
            let roles = ROLES.iter().filter(|(role, _)| by_role(role, hardware).is_some());
            let known = hardware.tiers.iter().map(|tier| tier.name.as_str());
            let known: Vec<&str> = known.chain(roles.map(|(role, _)| *role)).collect();
            let lacked = ROLES.iter().find(|(role, _)| *role == name.trim());
            let rule = lacked.map_or_else(
                || "the hardware has no tier of this name".to_owned(),
                |(_, what)| format!("this machine has no {what}"),
            );
            self.check.unknown(path, &rule, name, &known);
            self.lacking += 1;
        }
        id
    }

    /// The machine lacks what the value at `path` needs; on another one it may be right.
    pub(crate) fn lacks(&mut self, path: &str, rule: impl Into<String>, remedy: &str) {
        self.check.fault(path, rule, remedy);
        self.lacking += 1;
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

/// The first problem without its file and place, which are the same for every point.
pub(crate) fn reason(problems: &Diagnostics) -> String {
    let Some(first) = problems.0.first() else { return String::new() };
    let rule = first.rule.split(" [axis").next().unwrap_or(&first.rule);
    if first.found.is_empty() {
        rule.to_string()
    } else {
        format!("{rule} (found {})", first.found)
    }
}

/// What a tier is for, on whatever machine, and what that is.
const ROLES: [(&str, &str); 3] =
    [("near", "near memory"), ("far", "far memory"), ("drive", "drive")];

/// The tier that a role means: the device's own memory; the nearest memory outside it, the host's
/// before that behind CXL and that of another node; the first drive.
pub(crate) fn by_role(role: &str, hardware: &Hardware) -> Option<TierId> {
    let mut tiers = nearest_first(HBM, hardware).into_iter();
    let kind = |id: &TierId| hardware.tiers[id.index()].kind;
    match role {
        "near" => Some(HBM),
        "far" => tiers.find(|id| kind(id) != TierKind::Nvme),
        "drive" => tiers.find(|id| kind(id) == TierKind::Nvme),
        _ => None,
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
