//! The memory that a case may use, what of it is hidden, and what it means to run out of it.

use super::{Bench, RunError};
use tiersim_models::hardware::HBM;
use tiersim_models::hidden::{Hidden, of_tier, over};
use tiersim_models::ids::TierId;
use tiersim_models::results::{OutOfMemory, Outcome};
use tiersim_models::units::Bytes;
use tiersim_models::workload::Trace;
use tiersim_policies::buffers::of_machine;
use tiersim_policies::planner::PlanError;
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::scenario::{Budget, Case};

/// What objects can have of each tier, as the auditor works it out.
pub(super) fn left(capacities: &[Bytes], hidden: &[Hidden]) -> Vec<Bytes> {
    let left = |(tier, &capacity): (usize, &Bytes)| match capacity {
        Bytes::MAX => capacity,
        _ => Bytes::new(capacity.get().saturating_sub(of_tier(hidden, TierId::at(tier)).get())),
    };
    capacities.iter().enumerate().map(left).collect()
}

impl Bench<'_> {
    /// How many devices share a tier: each has an equal part.
    fn sharers(&self, tier: TierId) -> u64 {
        self.hardware.server.sharers_of_tier(tier).into()
    }

    /// HBM that a case may use; a share of the peak is for objects alone.
    fn budget(&self, case: &Case) -> Result<Bytes, RunError> {
        match case.hbm {
            Budget::Hardware => Ok(self.hardware.tiers[HBM.index()].capacity),
            Budget::Bytes(bytes) => Ok(bytes),
            Budget::ShareOfPeak(share) => {
                let peak = self.baseline.peak[HBM.index()].get();
                let bytes = Bytes::new((peak as f64 * share).round() as u64);
                let has =
                    left(&[self.hardware.tiers[HBM.index()].capacity], &self.all_hidden(case));
                if bytes > has[0] {
                    return Err(RunError::Input(format!(
                        "case {:?}: share_of_peak({share}) is {bytes} and objects can have {} of the \
                         HBM of {}; lower the share, or leave `hbm` out to give the case all there \
                         is",
                        case.label, has[0], self.hardware.name
                    )));
                }
                Ok(bytes)
            }
        }
    }

    /// Capacity of each tier for a case, hidden memory included: one device's part of it.
    pub fn capacities_of(&self, case: &Case) -> Result<Vec<Bytes>, RunError> {
        let part = |id: TierId| match self.hardware.tiers[id.index()].capacity {
            Bytes::MAX => Bytes::MAX,
            capacity => Bytes::new(capacity.get() / self.sharers(id)),
        };
        let mut capacities: Vec<Bytes> = self.hardware.tier_ids().map(part).collect();
        let budget = self.budget(case)?;
        capacities[HBM.index()] = match case.hbm {
            Budget::Hardware | Budget::Bytes(_) => budget,
            Budget::ShareOfPeak(_) => budget + of_tier(&self.all_hidden(case), HBM),
        };
        Ok(capacities)
    }

    /// Memory that no object of a case can have: one device's part of it. What all devices together
    /// have decides whether it is there, as parts are whole bytes.
    pub fn hidden_of(&self, case: &Case) -> Result<Vec<Hidden>, RunError> {
        let (all, parts) = (self.shared_hidden(case), self.capacities_of(case)?);
        for (id, part) in self.hardware.tier_ids().zip(parts) {
            let own = of_tier(&all, id);
            let tier = &self.hardware.tiers[id.index()];
            let capacity = if id == HBM { part } else { tier.capacity };
            if own > capacity {
                return Err(RunError::Input(format!(
                    "case {:?}: hidden memory takes {own} of {}, which has {capacity}; raise its \
                     capacity, or write what it really takes in `hidden`",
                    case.label, tier.name
                )));
            }
        }
        Ok(self.all_hidden(case))
    }

    /// That of all devices.
    fn shared_hidden(&self, case: &Case) -> Vec<Hidden> {
        over(&of_machine(self.hardware, &self.routes), &case.hidden)
    }

    fn all_hidden(&self, case: &Case) -> Vec<Hidden> {
        let mut hidden = self.shared_hidden(case);
        for entry in &mut hidden {
            entry.bytes = Bytes::new(entry.bytes.get().div_ceil(self.sharers(entry.tier)));
        }
        hidden
    }

    /// A full tier is a result; anything else is a mistake, said in words.
    pub(super) fn out_of_memory(
        &self,
        error: PlanError,
        hidden: &[Hidden],
        (trace, policy): (&Trace, &PolicyConfig),
    ) -> Result<Outcome, String> {
        let PlanError::OutOfMemory {
            tier, capacity, need, free, largest, object, occurrence, ..
        } = error
        else {
            return Err(error.to_string());
        };
        let at = match occurrence {
            None => "before the first op".to_owned(),
            Some(occurrence) => {
                let index = (occurrence % trace.ops.len() as u64) as usize;
                let op = &trace.ops[index];
                format!("step {}, op {index} {}", op.step, op.name)
            }
        };
        Ok(Outcome::OutOfMemory(OutOfMemory {
            tier: self.hardware.tiers[tier.index()].name.clone(),
            capacity,
            need,
            free,
            largest,
            hidden: hidden
                .iter()
                .filter(|entry| entry.tier == tier)
                .map(|entry| (entry.what.word(), entry.bytes))
                .collect(),
            object: trace.objects[object.index()].name.clone(),
            at,
            remedy: self.more_tiers(policy),
        }))
    }

    /// What lets a policy use the tiers that its framework does not use, if there are any.
    fn more_tiers(&self, policy: &PolicyConfig) -> Option<String> {
        let kept = policy.keeps_to()?;
        let others = self.hardware.tier_ids().filter(|tier| *tier != HBM && !kept.contains(tier));
        let names = others.map(|tier| format!("{:?}", self.hardware.tiers[tier.index()].name));
        let names: Vec<String> = names.collect();
        let named =
            || format!("`spill: [{}]` lets {} use more tiers", names.join(", "), policy.name());
        (!names.is_empty()).then(named)
    }
}
