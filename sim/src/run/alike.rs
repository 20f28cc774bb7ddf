//! Cases that come to the same run: simulated once.
//!
//! Points of a sweep differ by what is written, and a machine by what is where: a share of 30 % and
//! one of 31 % are one placement where modules are whole. What a recipe comes to is what it says
//! itself ([`Recipe::comes_to`]); what else a case has must be equal as it stands.
//! Invariant: what is told of a case does not depend on which of its like has run.
//!
//! [`Recipe::comes_to`]: tiersim_policies::recipe::Recipe::comes_to

use super::{CaseRunner, Options, RunError, within};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use tiersim_models::results::CaseRecord;
use tiersim_models::workload::Trace;
use tiersim_policies::scenario::{Case, Terms};

impl CaseRunner<'_> {
    /// Runs one case, unless one that comes to the same has run with the same options; the record
    /// keeps the channels of tiers that are `compacted`.
    pub(crate) fn run_once(
        &self,
        case: &Case,
        options: Options,
        compacted: &BTreeSet<usize>,
    ) -> Result<CaseRecord, RunError> {
        let run = || Ok(within::kept(self.run(case, options)?, self.hardware, compacted));
        let key = if options.share { comes_to(case, &self.workload.trace)? } else { None };
        let Some(key) = key else { return run() };
        let ran = {
            let mut all = self.alike.0.lock().expect("nobody panics with it");
            all.entry(Sha256::digest(key).into()).or_default().clone()
        };
        // Whoever comes second waits for the first. What went wrong names the case.
        let Ok(like) = ran.get_or_init(run) else { return run() };
        let like = like.clone();
        let details = self.details(case, &case.policy, like.placement.as_ref());
        let (label, params) = (case.label.clone(), case.params.clone());
        Ok(CaseRecord { label, params, details, ..like })
    }
}

/// What a case comes to with this trace on a machine, if its policy says so.
pub(crate) fn comes_to(case: &Case, trace: &Trace) -> Result<Option<String>, RunError> {
    let Some(policy) = case.policy.comes_to(trace).map_err(RunError::Input)? else {
        return Ok(None);
    };
    let Terms { hbm, allocators, numa, hidden, .. } = &*case.terms;
    let Terms { chunk, micro_batch, pressure, runtime, compress, .. } = &*case.terms;
    let rest = (hbm, allocators, numa, hidden, chunk, micro_batch, pressure, runtime, compress);
    Ok(Some(format!("{} {policy} {rest:?}", case.policy.name())))
}
