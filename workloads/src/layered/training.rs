//! Training over several steps, each of another sequence length, in micro-batches.
//!
//! A step runs forward and backward for one micro-batch after the other, adds up the gradients
//! (the first micro-batch writes them, the others add) and ends with the optimizer. Fewer samples
//! per micro-batch need less memory for activations; weights are read and gradients are added to
//! more often, and that is what it costs. Everything else is as in `passes`.
//! Invariant: the micro-batches of a step cover its `shape.batch` samples exactly once.

use super::build::GraphBuilder;
use super::limits::{MAX_OPS, ShapeProblem};
use super::passes::Pass;
use super::{Layered, Mode};
use tiersim_models::workload::{Phase, Trace};

/// Most steps of one training.
pub const MAX_STEPS: usize = 1000;

/// A training run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Training {
    /// The model. Its batch is the samples of one step, its mode the longest sequence.
    pub shape: Layered,
    /// Tokens per sequence of each step.
    pub sequences: Vec<u32>,
    /// Most samples of a micro-batch, unless a case says otherwise.
    pub micro_batch: u32,
}

/// How many samples each micro-batch of a step has: as few micro-batches as hold `batch` samples
/// with at most `most` each, and these as equal as whole samples allow, the larger ones first.
pub fn split(batch: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = batch.div_ceil(most.max(1)).max(1);
    (0..count).map(move |index| batch / count + u32::from(index < batch % count))
}

impl Training {
    /// Every rule that it breaks; empty for one that makes a trace with any micro-batch of
    /// `least` samples and more.
    pub fn problems(&self, least: u32) -> Vec<ShapeProblem> {
        let mut found = self.shape.problems();
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let steps = self.sequences.len();
        if !(1..=MAX_STEPS).contains(&steps) {
            let rule = format!("a training has 1 to {MAX_STEPS} steps, this one {steps}");
            add("mode.sequences", rule, "write one length per step");
        }
        if self.sequences.contains(&0) {
            let rule = "a sequence has at least one token".to_owned();
            add("mode.sequences", rule, "leave the empty steps out");
        }
        let batch = self.shape.batch;
        if !(1..=batch).contains(&self.micro_batch) {
            let rule = format!("`micro_batch` must lie between 1 and `batch`, which is {batch}");
            add("mode.micro_batch", rule, "write how many samples go through the model at once");
        }
        if found.is_empty() {
            self.amounts(least, &mut found);
        }
        found
    }

    fn amounts(&self, least: u32, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let ops = self.ops(least);
        if ops > MAX_OPS {
            let rule = format!(
                "a generated trace has at most {MAX_OPS} ops, this one {ops} in micro-batches \
                 of {least}"
            );
            add("mode.sequences", rule, "take fewer steps, or larger micro-batches");
            return;
        }
        // No micro-batch touches more than the longest step of all samples does.
        let passes = u128::from(self.passes(least)) + self.sequences.len() as u128;
        if self.shape.most_touched() * passes > u128::from(u64::MAX) {
            let rule = "the bytes that all ops touch must stay below 2^64".to_owned();
            add("mode.sequences", rule, "take fewer steps, or a smaller shape");
        }
        if self.shape.flops() * self.sequences.len() as u128 > u128::from(u64::MAX) {
            let rule = "the FLOPs of all ops must stay below 2^64".to_owned();
            add("mode.sequences", rule, "take fewer steps, or a smaller shape");
        }
    }

    /// Micro-batches of the whole run if all have at most `most` samples.
    fn passes(&self, most: u32) -> u64 {
        let per_step = self.shape.batch.div_ceil(most.max(1));
        self.sequences.len() as u64 * u64::from(per_step)
    }

    /// Ops of the trace if every micro-batch has at most `most` samples.
    pub fn ops(&self, most: u32) -> u64 {
        let (both, optimizer) = self.shape.ops_of_training();
        self.passes(most) * both + self.sequences.len() as u64 * optimizer
    }

    /// Tokens of a step: the mean over steps, rounded to the nearest.
    pub fn tokens_per_step(&self) -> u64 {
        let steps = self.sequences.len().max(1) as u64;
        let tokens: u64 = self.sequences.iter().map(|&sequence| u64::from(sequence)).sum();
        (tokens * u64::from(self.shape.batch) + steps / 2) / steps
    }

    /// The trace with the same micro-batch in every step.
    pub fn trace(&self) -> Trace {
        self.trace_of(&vec![self.micro_batch; self.sequences.len()])
    }

    /// The trace in which the micro-batches of step i have at most `micro_batches[i]` samples.
    /// Modules and persistent objects have the same ids for all of them.
    ///
    /// Panics if there are [`Training::problems`], or not one micro-batch per step.
    pub fn trace_of(&self, micro_batches: &[u32]) -> Trace {
        let least = micro_batches.iter().copied().min().unwrap_or(1);
        let problems = self.problems(least);
        assert!(problems.is_empty(), "a training with problems: {problems:?}");
        assert_eq!(micro_batches.len(), self.sequences.len(), "one micro-batch per step");
        let mut maker = GraphBuilder::new(&self.shape);
        let mut model = maker.model();
        let steps = self.sequences.iter().zip(micro_batches).enumerate();
        for (step, (&sequence, &most)) in steps {
            if step > 0 {
                maker.new_gradients(&mut model, &format!("s{step}."));
            }
            let step = step as u32;
            for (index, samples) in split(self.shape.batch, most).enumerate() {
                let prefix = format!("s{step}.m{index}.");
                let mut pass = Pass::training(prefix, samples.into(), sequence.into());
                pass.accumulates = index > 0;
                maker.micro_batch(&model, &pass, step);
            }
            maker.build.phase = Phase::Optimizer;
            maker.adam(&mut model);
        }
        let mut trace = maker.build.trace;
        let (steps, shape) = (self.sequences.len(), &self.shape);
        let mean = self.tokens_per_step() / u64::from(shape.batch.max(1));
        trace.meta.sequence = mean as u32;
        trace.meta.about = format!(
            "generated from the shape of a transformer with {} parameters: {steps} steps of batch \
             {}, in micro-batches; no durations were recorded, and Adam's statistics are made up",
            shape.parameters(),
            shape.batch
        );
        trace
    }
}

impl Training {
    /// The longest of the sequences as the mode of a shape.
    pub fn longest(sequences: &[u32]) -> Mode {
        Mode::Train { sequence: sequences.iter().copied().max().unwrap_or(0) }
    }
}
