//! The memory that a case may use, what of it is hidden, and what it means to run out of it.

use super::{CaseRunner, RunError};
use tiersim_models::compression::Storing;
use tiersim_models::hardware::{Capacity, HBM, Memory};
use tiersim_models::hidden::{Hidden, of_tier, over};
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::results::{OutOfMemory, Outcome};
use tiersim_models::units::Bytes;
use tiersim_models::workload::Trace;
use tiersim_policies::buffers::of_machine;
use tiersim_policies::planner::PlanError;
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::scenario::{Budget, Case};

impl CaseRunner<'_> {
    /// How many devices share a tier: each has an equal part.
    fn sharers(&self, tier: TierId) -> u64 {
        self.hardware.server.sharers_of_tier(tier).into()
    }

    /// The memory of a case: one device's part of what devices share, the case's budget of HBM, and
    /// what of it is hidden. What all devices together have decides whether hidden memory is
    /// there, as parts are whole bytes.
    pub fn memory_of(&self, case: &Case) -> Result<Memory, RunError> {
        let tiers = &self.hardware.tiers;
        let part = |id: TierId| match tiers[id.index()].capacity {
            all if id == HBM => all,
            all => all.map(|all| all / self.sharers(id)),
        };
        let (shared, own) = (self.shared_hidden(case), self.hidden_of(case));
        let whole = Memory::of(self.hardware.tier_ids().map(part)).hiding(own.clone());
        let mut capacities = whole.capacities().to_vec();
        match case.hbm {
            Budget::Hardware => {}
            Budget::Bytes(bytes) => capacities[HBM.index()] = bytes.into(),
            Budget::ShareOfPeak(share) => {
                let bytes = self.share(case, share, whole.usable(HBM))?;
                capacities[HBM.index()] = (bytes + whole.hidden_in(HBM)).into();
            }
        }
        for (tier, id) in tiers.iter().zip(self.hardware.tier_ids()) {
            let hidden = of_tier(&shared, id);
            let capacity = if id == HBM { capacities[HBM.index()] } else { tier.capacity };
            if !capacity.holds(hidden) {
                return Err(RunError::Input(format!(
                    "case {:?}: hidden memory takes {hidden} of {}, which has {capacity}; raise its \
                     capacity, or write what it really takes in `hidden`",
                    case.label, tier.name
                )));
            }
        }
        let memory = Memory::of(capacities).hiding(own).with(&case.allocators);
        Ok(memory.storing(self.storing(case, self.workload)))
    }

    /// What the tiers of a case store packed of the objects of a workload.
    pub(super) fn storing(&self, case: &Case, workload: &Workload) -> Option<Storing> {
        if case.compress.is_none() {
            return None;
        }
        let trace = &workload.trace;
        let mut written = vec![false; trace.objects.len()];
        let writes = trace.uses.iter().filter(|used| used.mode.writes());
        writes.for_each(|used| written[used.object.index()] = true);
        let on = (self.hardware, &self.routes);
        Storing::new(&case.compress, on, trace.objects.iter(), |object| written[object.index()])
    }

    /// A share of the peak, which is for objects alone.
    fn share(&self, case: &Case, share: f64, has: Capacity) -> Result<Bytes, RunError> {
        let peak = self.baseline.peak[HBM.index()].get();
        let bytes = Bytes::new((peak as f64 * share).round() as u64);
        if has.holds(bytes) {
            return Ok(bytes);
        }
        Err(RunError::Input(format!(
            "case {:?}: share_of_peak({share}) is {bytes} and objects can have {has} of the HBM of \
             {}; lower the share, or leave `hbm` out to give the case all there is",
            case.label, self.hardware.name
        )))
    }

    /// That of all devices.
    fn shared_hidden(&self, case: &Case) -> Vec<Hidden> {
        over(&of_machine(self.hardware, &self.routes), &case.hidden)
    }

    /// One device's part of it, in whole bytes.
    fn hidden_of(&self, case: &Case) -> Vec<Hidden> {
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
        memory: &Memory,
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
        Ok(Outcome::OutOfMemory(Box::new(OutOfMemory {
            tier: self.hardware.tiers[tier.index()].name.clone(),
            capacity,
            need,
            free,
            largest,
            hidden: memory
                .hidden()
                .iter()
                .filter(|entry| entry.tier == tier)
                .map(|entry| (entry.what.word().into(), entry.bytes))
                .collect(),
            object: trace.objects[object.index()].name.to_string(),
            at,
            remedy: self.more_tiers(policy),
        })))
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
