//! `mode: serve(...)` of a model: requests and a scheduler as written, and what they mean.
//!
//! The requests are read where traces are, once for all cases and points that serve the same ones.

use crate::import::serving::MOONCAKE_BLOCK;
use crate::scenario::raw::work::RawServe;
use crate::scenario::resolver::Resolver;
use crate::scenario::training::Setting;
use crate::text::quantity::TIME;
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;
use tiersim_policies::scenario::ServingSource;
use tiersim_workloads::transformer::serving::{Serving, ServingProblem};

/// Requests that run at a time, unless the scenario says otherwise.
const MAX_BATCH: u32 = 256;
/// Tokens of an iteration, unless the scenario says otherwise.
const MAX_TOKENS: u32 = 8192;

impl Resolver<'_, '_> {
    pub(crate) fn serving(
        &mut self,
        path: &str,
        raw: &RawServe,
        setting: Setting<'_>,
    ) -> Option<ServingSource> {
        let requests = self.files.path(&raw.requests);
        let requests =
            requests.map_err(|fault| self.path_fault(&format!("{path}.requests"), fault)).ok();
        if raw.first == Some(0) {
            let at = format!("{path}.first");
            self.check.fault(&at, "`first` must be 1 or more", "leave it out for all requests");
        }
        let at = format!("{path}.until");
        let until = raw.until.as_ref().and_then(|until| until.value(&mut self.check, &at, TIME));
        let serving = Serving {
            card: setting.card.clone(),
            formats: setting.formats,
            block_tokens: raw.block_tokens.unwrap_or(MOONCAKE_BLOCK),
            kv_blocks: raw.kv_blocks,
            max_batch: raw.max_batch.unwrap_or(MAX_BATCH),
            max_tokens_per_step: raw.max_tokens_per_step.unwrap_or(MAX_TOKENS),
            layer_groups: raw.layer_groups.unwrap_or(1),
            merge: raw.merge.unwrap_or(1),
        };
        let problems = serving.problems(&ServingRequests::new(None));
        for problem in &problems {
            if let ServingProblem::Option(problem) = problem {
                let at = format!("{path}.{}", problem.field);
                self.check.fault(&at, problem.rule.as_str(), problem.remedy);
            }
        }
        let until = until.map(|span| Time::from_ps(span.ps()));
        let source =
            ServingSource { requests: requests?, first: raw.first, until, serving, device: None };
        problems.is_empty().then_some(source)
    }
}
