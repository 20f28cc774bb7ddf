//! `mode: ...` of a model, as written, and what it means.
//!
//! Defaults are chosen here; rules on numbers are those of the work itself, whose fields are told
//! by their paths in the scenario. Requests are read where traces are, once for all cases and
//! points that serve the same ones.

use crate::import::serving::MOONCAKE_BLOCK;
use crate::scenario::raw::work::{
    RawGenerate, RawRouter, RawSemiseparable, RawServe, RawTrain, RawZero,
};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::{CAPACITY, TIME};
use tiersim_models::diagnostic::Warning;
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;
use tiersim_policies::scenario::ServingSource;
use tiersim_workloads::ShapeProblem;
use tiersim_workloads::memory::semiseparable::{Formats as Stored, Shape};
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::semiseparable::Semiseparable;
use tiersim_workloads::transformer::serving::{Serving, ServingProblem};
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Optimizer, Router, Training, TrainingRun, Zero,
};

/// Requests that run at a time, unless the scenario says otherwise.
const MAX_BATCH: u32 = 256;
/// Tokens of an iteration, unless the scenario says otherwise.
const MAX_TOKENS: u32 = 8192;

/// What work is of.
pub(crate) struct Setting {
    /// The model.
    pub(crate) card: Card,
    /// Whether the scenario spells the card out.
    pub(crate) is_spelled: bool,
    pub(crate) formats: Formats,
    /// The devices of one server.
    pub(crate) devices: u32,
}

/// Every mode is none after problems, of which all are told.
impl Resolver<'_, '_> {
    /// A training step, or what the steps of a run are but for their sequences.
    pub(crate) fn training(&mut self, raw: &RawTrain, setting: Setting) -> Option<Training> {
        let Setting { card, is_spelled, formats, devices } = setting;
        let sequence = match (raw.sequence, &raw.sequences) {
            (Some(sequence), None) => sequence,
            (None, Some(each)) => each.iter().copied().max().unwrap_or(0).into(),
            (said, _) => {
                let rule = "a step has either `sequence` tokens, or each step its own `sequences`";
                let at = ["workload.mode", "workload.mode.sequences"][usize::from(said.is_some())];
                self.check.fault(at, rule, "write one of them");
                return None;
            }
        };
        let router = self.router(raw.router, &card)?;
        let training = Training {
            card,
            batch: raw.batch,
            micro_batch: raw.micro_batch.unwrap_or(raw.batch),
            sequence,
            formats,
            optimizer: raw.optimizer.unwrap_or(Optimizer::AdamW),
            update: raw.update.unwrap_or_default(),
            checkpointing: raw.checkpointing.unwrap_or(Checkpointing::None),
            attention: raw.attention.unwrap_or(Attention::Flash),
            kernels: raw.kernels.unwrap_or_default(),
            optimizer_kernels: raw.optimizer_kernels,
            loss: raw.loss.unwrap_or_default(),
            dropout: raw.dropout.unwrap_or(false),
            parallel: raw.parallel.unwrap_or_default(),
            zero: raw.zero.as_ref().map_or(Some(Zero::default()), |raw| self.zero(raw))?,
            devices,
            router,
            loader: raw.loader,
            lora: raw.lora,
        };
        let selective = training.checkpointing == Checkpointing::Selective;
        if selective && training.attention == Attention::Flash {
            let reason = "attention in one kernel keeps nothing that could be computed again";
            self.without_effect("workload.mode.checkpointing", "selective", reason);
        }
        let problems = match &raw.sequences {
            Some(each) => {
                let run = TrainingRun::new(training.clone(), each.clone());
                // What the longest step breaks is told of all.
                let mut problems = run.problems(training.micro_batch);
                let of_step = problems.iter_mut().filter(|problem| problem.field == "sequence");
                of_step.for_each(|problem| problem.field = "sequences");
                problems
            }
            None => training.problems(),
        };
        self.unbroken(&problems, is_spelled).then_some(training)
    }

    fn zero(&mut self, raw: &RawZero) -> Option<Zero> {
        let default = Zero::default();
        let share = raw.host_update.unwrap_or(0.0);
        let at = "workload.mode.zero.host_update";
        let share = self.check.number(at, "`host_update`", share, 0.0, 1.0);
        let size = raw.bucket.as_ref();
        let at = "workload.mode.zero.bucket";
        let bucket = size.and_then(|size| size.value(&mut self.check, at, CAPACITY));
        if raw.reshard == Some(false) && raw.stage < 3 {
            let at = "workload.mode.zero.reshard";
            self.without_effect(at, "false", "weights are whole below stage 3");
        }
        Some(Zero {
            stage: raw.stage,
            // In parts per thousand.
            host_update: (share? * 1000.0).round() as u16,
            bucket: bucket.unwrap_or(default.bucket),
            prefetch: raw.prefetch.unwrap_or(default.prefetch),
            reshard: raw.reshard.unwrap_or(default.reshard),
            overlap: raw.overlap.unwrap_or(default.overlap),
        })
    }

    fn router(&mut self, raw: Option<RawRouter>, card: &Card) -> Option<Router> {
        let Some(RawRouter { seed, skew }) = raw else { return Some(Router::default()) };
        if card.experts.is_none() {
            let said = [seed.map(|of| format!("seed {of}")), skew.map(|of| format!("skew {of}"))];
            let found = said.into_iter().flatten().collect::<Vec<_>>().join(", ");
            self.without_effect("workload.mode.router", &found, "the model has no experts");
        }
        let (at, skew) = ("workload.mode.router.skew", skew.unwrap_or(0.0));
        let skew = self.check.number(at, "`skew`", skew, 0.0, 10.0)?;
        // In hundredths.
        Some(Router { seed: seed.unwrap_or(0), skew: (skew * 100.0).round() as u32 })
    }

    /// Warns of what the scenario says and nothing heeds.
    pub(crate) fn without_effect(&mut self, place: &str, found: &str, reason: &str) {
        self.warnings.push(Warning {
            rule: "setting-without-effect",
            place: place.to_owned(),
            found: found.to_owned(),
            reason: reason.to_owned(),
            remedy: "leave it out".to_owned(),
        });
    }

    /// Text generation.
    pub(crate) fn generation(&mut self, raw: &RawGenerate, setting: Setting) -> Option<Generation> {
        let Setting { card, is_spelled, formats, devices } = setting;
        let router = self.router(raw.router, &card)?;
        let generation = Generation {
            card,
            formats,
            batch: raw.batch,
            batches: raw.batches.unwrap_or(1),
            prompt: raw.prompt,
            tokens: raw.tokens,
            prefill: raw.prefill.unwrap_or(true),
            attention: raw.attention_on.unwrap_or(AttentionOn::Device),
            kernels: raw.kernels.unwrap_or_default(),
            kv_block: raw.kv_block,
            tensor: raw.tensor.unwrap_or(1),
            context: raw.context.unwrap_or(1),
            devices,
            router,
        };
        self.unbroken(&generation.problems(), is_spelled).then_some(generation)
    }

    /// Layers of structured operators in the place of a model.
    pub(crate) fn operators(
        &mut self,
        raw: &RawSemiseparable,
        precision: Option<&Format>,
        devices: u32,
    ) -> Option<Semiseparable> {
        let shape = match (raw.levels, raw.nested) {
            (Some(_), Some(true)) => {
                let rule = "nested operators have as many levels as there are";
                let remedy = "leave `levels` or `nested` out";
                self.check.fault("workload.mode.levels", rule, remedy);
                return None;
            }
            (None, Some(true)) => Shape::Nested,
            (levels, _) => Shape::Sum(levels.unwrap_or(1)),
        };
        let operators = Semiseparable {
            size: raw.size,
            layers: raw.layers,
            batch: raw.batch,
            shape,
            factors: precision.copied().unwrap_or(Stored::MIXED.factors),
            ranks: raw.ranks.unwrap_or(1),
            devices,
            overlap: raw.overlap.unwrap_or(true),
        };
        self.unbroken(&operators.problems(), false).then_some(operators)
    }

    /// Requests and a scheduler.
    pub(crate) fn serving(&mut self, raw: &RawServe, setting: Setting) -> Option<ServingSource> {
        let Setting { card, is_spelled, formats, devices } = setting;
        let requests = self.files.path(&raw.requests);
        let fault = |fault| self.path_fault("workload.mode.requests", fault);
        let requests = requests.map_err(fault).ok();
        if raw.first == Some(0) {
            let rule = "`first` must be 1 or more";
            self.check.fault("workload.mode.first", rule, "leave it out for all requests");
        }
        let at = "workload.mode.until";
        let until = raw.until.as_ref().and_then(|until| until.value(&mut self.check, at, TIME));
        let serving = Serving {
            card,
            formats,
            block_tokens: raw.block_tokens.unwrap_or(MOONCAKE_BLOCK),
            kv_blocks: raw.kv_blocks,
            max_batch: raw.max_batch.unwrap_or(MAX_BATCH),
            max_tokens_per_step: raw.max_tokens_per_step.unwrap_or(MAX_TOKENS),
            layer_groups: raw.layer_groups.unwrap_or(1),
            merge: raw.merge.unwrap_or(1),
            kernels: raw.kernels.unwrap_or(Kernels::Fused),
            tensor: raw.tensor.unwrap_or(1),
            devices,
        };
        let option = |problem| match problem {
            ServingProblem::Option(problem) => Some(problem),
            _ => None,
        };
        let problems = serving.problems(&ServingRequests::new(None)).into_iter();
        let good = self.unbroken(&problems.filter_map(option).collect::<Vec<_>>(), is_spelled);
        let until = until.map(|span| Time::from_ps(span.ps()));
        let source =
            ServingSource { requests: requests?, first: raw.first, until, serving, device: None };
        good.then_some(source)
    }

    /// Whether the work keeps its rules; says which it does not. What is not of the mode stands
    /// elsewhere.
    fn unbroken(&mut self, problems: &[ShapeProblem], is_spelled: bool) -> bool {
        !self.broken(problems, |field| match field.split('.').next() {
            Some("card") if is_spelled => format!("workload.{field}"),
            Some("card") => "workload.model".to_owned(),
            Some("formats") => format!("workload.{field}"),
            Some("devices") => "hardware".to_owned(),
            _ => format!("workload.mode.{field}"),
        })
    }
}
