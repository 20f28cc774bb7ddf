//! `mode: serve(...)` of a model: requests and a scheduler as written, and what they mean.
//!
//! The requests are read where traces are, once for all cases and points that serve the same ones.

use crate::diagnostic::Diagnostics;
use crate::import::serving::{MOONCAKE_BLOCK, read_requests};
use crate::scenario::resolve::Resolver;
use crate::scenario::training::{RawWork, Setting};
use crate::text::quantity::TIME;
use std::path::PathBuf;
use tiersim_models::hardware::Compute;
use tiersim_models::lifetime::Workload;
use tiersim_models::requests::Requests;
use tiersim_models::transformer::serving::{Serving, ServingProblem};
use tiersim_models::units::{Bytes, Time};

/// Requests that run at a time, unless the scenario says otherwise.
const MAX_BATCH: u32 = 256;
/// Tokens of an iteration, unless the scenario says otherwise.
const MAX_TOKENS: u32 = 8192;

/// Requests that a model serves on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServingSource {
    /// The trace of requests.
    pub requests: PathBuf,
    /// Only so many of them, the first ones.
    pub first: Option<u64>,
    /// Only those that arrive before.
    pub until: Option<Time>,
    /// How they are served.
    pub serving: Serving,
    /// What estimates iterations: a device, and which of its peaks.
    pub device: Option<(Compute, String)>,
}

impl Resolver<'_, '_> {
    pub(crate) fn serving(
        &mut self,
        path: &str,
        raw: &RawWork,
        setting: Setting<'_>,
    ) -> Option<ServingSource> {
        let RawWork::Serve {
            requests,
            first,
            until,
            block_tokens,
            kv_blocks,
            max_batch,
            max_tokens_per_step,
            layer_groups,
            merge,
        } = raw
        else {
            return None;
        };
        let requests = match self.files.path(requests) {
            Ok(requests) => Some(requests),
            Err(fault) => {
                self.path_fault(&format!("{path}.requests"), fault);
                None
            }
        };
        if *first == Some(0) {
            let at = format!("{path}.first");
            self.check.fault(&at, "`first` must be 1 or more", "leave it out for all requests");
        }
        let at = format!("{path}.until");
        let until = until.as_ref().map(|until| until.span(&mut self.check, &at, TIME));
        let serving = Serving {
            card: setting.card.clone(),
            formats: setting.formats,
            block_tokens: block_tokens.unwrap_or(MOONCAKE_BLOCK),
            kv_blocks: *kv_blocks,
            max_batch: max_batch.unwrap_or(MAX_BATCH),
            max_tokens_per_step: max_tokens_per_step.unwrap_or(MAX_TOKENS),
            layer_groups: layer_groups.unwrap_or(1),
            merge: merge.unwrap_or(1),
        };
        let problems = serving.problems(&Requests::new(None));
        for problem in &problems {
            if let ServingProblem::Option(problem) = problem {
                let at = format!("{path}.{}", problem.field);
                self.check.fault(&at, problem.rule.as_str(), problem.remedy);
            }
        }
        let until = match until {
            Some(span) => Some(Time::from_ps(span?.ps())),
            None => None,
        };
        let source =
            ServingSource { requests: requests?, first: *first, until, serving, device: None };
        problems.is_empty().then_some(source)
    }
}

impl ServingSource {
    /// The requests, and the trace that serves them.
    ///
    /// # Errors
    /// What is wrong with the file of requests, or keeps them from being served.
    pub fn workload(&self) -> Result<Workload, Diagnostics> {
        let mut requests = read_requests(&self.requests, self.serving.block_tokens)?;
        if let Some(until) = self.until {
            requests.keep_before(until);
        }
        if let Some(first) = self.first {
            requests.keep_first(usize::try_from(first).unwrap_or(usize::MAX));
        }
        let refused =
            |rule: String, remedy: &str| Diagnostics::one(&self.requests, None, rule, "", remedy);
        if requests.list.is_empty() {
            let rule = "no request arrives that early".to_owned();
            return Err(refused(rule, "raise `until`, or leave it out"));
        }
        let Some((compute, precision)) = &self.device else {
            let rule = "serving has no device to estimate iterations on".to_owned();
            return Err(refused(rule, "write `time: roofline(precision: \"bf16\")`"));
        };
        let pace = |flops: u64, bytes: Bytes| compute.roofline(precision, flops, bytes);
        let served = self.serving.serve(&requests, &pace);
        let served = served.map_err(|problem| refused(problem.to_string(), problem.remedy()))?;
        Ok(Workload::serving(served))
    }
}
