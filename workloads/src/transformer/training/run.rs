//! Training over several steps, each of another sequence length, in micro-batches.
//!
//! A step runs forward and backward for one micro-batch after the other, adds up the gradients
//! (the first micro-batch writes them, the others add) and ends with the optimizer. Fewer samples
//! per micro-batch need less memory for activations; weights are read and gradients are added to
//! more often, and that is what it costs. Every step is one of [`Training`], walked by the same
//! builder, with gradients of its own: those of the step before were given back.
//! Invariant: the micro-batches of a step cover its batch exactly once.

use super::begin::begun;
use super::step::step;
use super::{MAX_OPS, Training};
use crate::limits::ShapeProblem;
use tiersim_models::workload::Trace;

/// Most steps of one training.
pub const MAX_STEPS: usize = 1000;

/// A training run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrainingRun {
    /// What each step is, but for its sequences: it has the longest. Its micro-batches have at most
    /// `micro_batch` samples unless a case says otherwise.
    pub training: Training,
    /// Tokens per sequence of each step.
    pub sequences: Vec<u32>,
}

impl TrainingRun {
    /// Steps of these lengths, otherwise as `training` says.
    pub fn new(training: Training, sequences: Vec<u32>) -> TrainingRun {
        let sequence = sequences.iter().copied().max().unwrap_or(0).into();
        TrainingRun { training: Training { sequence, ..training }, sequences }
    }

    /// Every rule that it breaks; empty for one that makes a trace with any micro-batch of
    /// `least` samples and more. Fields are those of [`Training`], and `sequences`.
    pub fn problems(&self, least: u32) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let steps = self.sequences.len();
        if !(1..=MAX_STEPS).contains(&steps) {
            let rule = format!("a training has 1 to {MAX_STEPS} steps, this one {steps}");
            add("sequences", rule, "write one length per step");
        } else if self.sequences.contains(&0) {
            let rule = "a sequence has at least one token".to_owned();
            add("sequences", rule, "leave the empty steps out");
        }
        let Training { batch, micro_batch, .. } = self.training;
        if !(1..=batch).contains(&micro_batch) {
            let rule = format!("`micro_batch` must lie between 1 and `batch`, which is {batch}");
            add("micro_batch", rule, "write how many samples go through the model at once");
        }
        if found.is_empty() {
            found = self.amounts(least);
        }
        found
    }

    /// Every step amounts to no more than the longest, of as many micro-batches of `least` samples
    /// as the batch can be cut into.
    fn amounts(&self, least: u32) -> Vec<ShapeProblem> {
        let longest = Training {
            batch: self.training.batch.next_multiple_of(least.max(1)),
            micro_batch: least,
            ..self.training.clone()
        };
        let problems = longest.problems();
        if !problems.is_empty() {
            return problems;
        }
        let steps = self.sequences.len() as u128;
        let (ops, remedy) = (longest.most_ops() * steps, "take fewer steps, or a smaller shape");
        let mut found = Vec::new();
        let mut add = |rule, remedy| found.push(ShapeProblem { field: "sequences", rule, remedy });
        if ops > u128::from(MAX_OPS) {
            let rule = format!(
                "a generated trace has at most {MAX_OPS} ops, this one may have {ops} in \
                 micro-batches of {least}"
            );
            add(rule, "take fewer steps, or larger micro-batches");
        } else if !longest.is_small(steps)
            && let Some(rule) = step(&longest).problem_of(steps)
        {
            add(rule.to_owned(), remedy);
        }
        found
    }

    /// Tokens of a step: the mean over steps, rounded to the nearest.
    pub fn tokens_per_step(&self) -> u64 {
        let steps = self.sequences.len().max(1) as u64;
        let tokens: u64 = self.sequences.iter().map(|&sequence| u64::from(sequence)).sum();
        let Training { batch, parallel, .. } = &self.training;
        (tokens * u64::from(*batch) * u64::from(parallel.data) + steps / 2) / steps
    }

    /// Devices whose tokens these are.
    pub fn devices(&self) -> u64 {
        self.training.parallel.ranks()
    }

    /// The trace with the same micro-batch in every step.
    pub fn trace(&self) -> Trace {
        self.trace_of(&vec![self.training.micro_batch; self.sequences.len()])
    }

    /// The trace in which the micro-batches of step i have at most `micro_batches[i]` samples.
    /// Modules and persistent objects have the same ids for all of them.
    ///
    /// Panics if there is not one micro-batch per step. The run must have no
    /// [`TrainingRun::problems`] with micro-batches of these samples.
    pub fn trace_of(&self, micro_batches: &[u32]) -> Trace {
        assert_eq!(micro_batches.len(), self.sequences.len(), "one micro-batch per step");
        let each = self.sequences.iter().zip(micro_batches);
        let steps: Vec<Training> = each
            .map(|(&sequence, &micro_batch)| Training {
                sequence: sequence.into(),
                micro_batch,
                ..self.training.clone()
            })
            .collect();
        let (mut maker, model) = begun(&self.training);
        let loader = maker.loader();
        for (index, training) in steps.iter().enumerate() {
            let first = maker.build.trace.objects.len();
            (maker.shape, maker.build.step) = (training, index as u32);
            if index > 0 {
                maker.new_gradients();
            }
            maker.step(&model, loader);
            for object in &mut maker.build.trace.objects[first..] {
                object.name = format!("s{index}.{}", object.name).into();
            }
        }
        let mut trace = maker.build.trace;
        let Training { card, batch, .. } = &self.training;
        let steps = self.sequences.len();
        let mean = self.tokens_per_step() / u64::from(self.training.batch.max(1));
        trace.meta.sequence = (mean / u64::from(self.training.parallel.data)) as u32;
        trace.meta.about = format!(
            "generated from a model card: {steps} steps of batch {batch} of {}, in micro-batches; \
             no durations were recorded, and Adam's statistics are made up",
            card.name
        );
        trace
    }
}
