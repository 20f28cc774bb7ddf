//! What an import of a profiler's trace saw, what it inferred and what it cannot know.

use super::modules::From;
use super::order::Order;
use super::steps::{Marks, Steps};
use super::tables::Source;
use std::collections::BTreeMap;
use std::fmt;
use tiersim_models::recorded::Profile;

/// Counts of the file and of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Events of the file.
    pub events: u64,
    /// Tables that an export could have and has not.
    pub missing: Vec<&'static str>,
    /// Activities of other processes, left out.
    pub processes: u64,
    /// Places in it that were no JSON and were mended.
    pub mended: u64,
    /// Events without a usable time.
    pub timeless: u64,
    /// Copies and fills whose bytes cannot be read.
    pub sizeless: u64,
    /// Whether the trace is of a device; else of the host's threads.
    pub device: Option<String>,
    /// Kernels (or pieces of ops on the host) and their time in ps.
    pub kernels: (u64, u64),
    /// Copies and fills by name: how many, bytes, time in ps.
    pub copies: BTreeMap<String, (u64, u64, u64)>,
    /// Activities without a launch in the file.
    pub lost: u64,
    /// Activities of other devices, left out.
    pub elsewhere: u64,
    /// Steps of the trace.
    pub steps: u64,
    /// How steps and phases were told apart, in words.
    pub told_by: String,
    /// Lanes of the trace, and items that ran beside others of their stream.
    pub lanes: (u64, u64),
    /// Edges between streams, and what they come from.
    pub edges: (u64, &'static str),
    /// Time in which anything ran, and in which nothing did, in ps.
    pub busy: u64,
    /// See `busy`.
    pub gaps: u64,
    /// Idle ops that stand for waits.
    pub idle_ops: u64,
    /// Objects that the allocator gave and took back within the file, and their bytes.
    pub objects: (u64, u64),
    /// Of these, such that were there before the file begins.
    pub from_before: u64,
    /// Of these, such that nothing ran within the life of.
    pub between: u64,
    /// The most that the allocator says was given.
    pub peak: u64,
    /// Given before the file begins, and not taken back in it.
    pub before: u64,
    /// Allocator events whose sum is not the one before and their bytes.
    pub sum_gaps: u64,
    /// Allocator events of other memory.
    pub other_memory: u64,
    /// Parameters: how many, bytes.
    pub parameters: (u64, u64),
    /// Where their sizes come from, in words.
    pub parameters_by: &'static str,
    /// Parameters that do not fit in what was there before the file begins.
    pub parameters_left_out: u64,
    /// Gradients that stay from step to step: bytes.
    pub gradients: u64,
    /// Optimizer state: bytes, and the optimizer's name.
    pub optimizer: (u64, String),
    /// What was there before the file begins of which nothing else is known.
    pub unknown: u64,
    /// Uses that are seen, inferred, unknown.
    pub uses: [u64; 3],
    /// Inferred uses that recorded times contradict, left out.
    pub contradicted: u64,
    /// Rows of an execution trace that were found again, all of them, and by what.
    pub joined: Option<(u64, u64, &'static str)>,
    /// Objects of the execution trace, and their bytes.
    pub tensors: (u64, u64),
    /// Where modules come from.
    pub modules: &'static str,
    /// What the file shows of the device beyond the trace.
    pub profile: Profile,
}

impl Account {
    pub(super) fn order(&mut self, order: &Order, source: Source) {
        self.lanes = (u64::from(order.lanes), order.beside);
        self.edges = match order.by_sync {
            true => (order.synced, source.of("cuda_sync events", "synchronization events")),
            false => (order.timed, "times"),
        };
        (self.busy, self.gaps) = (order.busy, order.gaps);
    }

    pub(super) fn steps(&mut self, steps: &Steps, source: Source) {
        let mut all = steps.step.clone();
        all.dedup();
        self.steps = all.len() as u64;
        let step = match steps.marks {
            Marks::Profiler => source.of("steps by ProfilerStep", "steps by the program's ranges"),
            Marks::Optimizer => "steps by the optimizer's",
            Marks::Nothing => "one step, for nothing marks any",
        };
        let phase = match steps.named {
            true => "phases by the program's ranges, the backward graph and the optimizer",
            false => "phases by the backward graph and the optimizer",
        };
        self.told_by = format!("{step}; {phase}");
    }

    pub(super) fn modules(&mut self, from: From) {
        self.modules = match from {
            From::Calls => "by recorded calls of nn.Module",
            From::Ranges => "by the program's ranges; calls of nn.Module are not recorded",
            From::Nothing => "none: neither calls of nn.Module nor ranges are recorded",
        };
    }
}

/// Picoseconds as milliseconds.
fn ms(ps: u64) -> f64 {
    ps as f64 / 1e9
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen(f)?;
        self.inferred(f)?;
        self.unknown(f)
    }
}

impl Account {
    fn seen(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seen: {} events", self.events)?;
        let (count, time) = self.kernels;
        match &self.device {
            Some(name) => writeln!(f, "  {count} kernels of {:.3} ms on {name}", ms(time))?,
            None => writeln!(f, "  no device: {count} pieces of host ops of {:.3} ms", ms(time))?,
        }
        for (name, (count, bytes, time)) in &self.copies {
            writeln!(f, "  {count} {name}: {bytes} bytes, {:.3} ms", ms(*time))?;
        }
        writeln!(f, "  {} steps ({})", self.steps, self.told_by)?;
        let (busy, gaps) = (ms(self.busy), ms(self.gaps));
        writeln!(f, "  anything ran for {busy:.3} ms, nothing for {gaps:.3} ms")?;
        let (objects, bytes) = self.objects;
        if let Some((found, all, by)) = self.joined {
            let (tensors, bytes) = self.tensors;
            writeln!(f, "  {found} of {all} rows of the execution trace, by {by}")?;
            writeln!(f, "  {tensors} objects of {bytes} bytes in it, which make the trace")?;
        }
        if objects > 0 {
            writeln!(f, "  {objects} objects of {bytes} bytes, at most {} bytes given", self.peak)?;
            writeln!(f, "  {} bytes given before the file begins", self.before)?;
        }
        Ok(())
    }

    fn inferred(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "inferred:")?;
        let ((lanes, beside), (edges, by)) = (self.lanes, self.edges);
        writeln!(f, "  {lanes} streams, {edges} edges between them from {by}")?;
        writeln!(f, "  {} idle ops for waits that no edge explains", self.idle_ops)?;
        let (count, bytes) = self.parameters;
        if count > 0 {
            writeln!(f, "  {count} parameters of {bytes} bytes, from {}", self.parameters_by)?;
        }
        if self.gradients > 0 {
            writeln!(f, "  gradients that stay: {} bytes", self.gradients)?;
        }
        if self.optimizer.0 > 0 {
            writeln!(f, "  state of {}: {} bytes", self.optimizer.1, self.optimizer.0)?;
        }
        let [seen, inferred, unknown] = self.uses;
        writeln!(f, "  uses: {seen} seen, {inferred} inferred, {unknown} unknown")?;
        writeln!(f, "  modules {}", self.modules)?;
        for (count, what) in [
            (self.lost, "activities without a launch, kept in the order of their streams"),
            (beside, "activities beside others of their stream, on streams of their own"),
            (self.between, "objects that nothing ran within the life of"),
            (self.from_before, "objects from before the file begins that are given back in it"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }

    fn unknown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not known:")?;
        let kernels = "which kernel uses which memory: objects are written where they begin and read \
                       where they end";
        if self.joined.is_some() {
            writeln!(
                f,
                "  when memory is given back: an object lives to its last use; what kernels"
            )?;
            writeln!(f, "    use that were launched outside of ops of the execution trace")?;
        } else if self.objects.0 > 0 {
            writeln!(f, "  {kernels}")?;
        } else {
            writeln!(
                f,
                "  any object that is made and freed: the profiler was not asked for memory"
            )?;
        }
        if self.unknown > 0 {
            let unknown = self.unknown;
            writeln!(
                f,
                "  what {unknown} bytes from before the file hold (kind `state`): no op is"
            )?;
            writeln!(f, "    taken to use them, so policies may move them for nothing")?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "  what tables would say that the export has not:")?;
            for some in self.missing.chunks(2) {
                writeln!(f, "    {}", some.join(", "))?;
            }
        }
        for (count, what) in [
            (self.parameters_left_out, "parameters that do not fit in what was there before"),
            (self.contradicted, "inferred uses that recorded times contradict, left out"),
            (self.sum_gaps, "allocator events that do not add up: some are missing"),
            (self.elsewhere, "activities of other devices, left out"),
            (self.processes, "activities of other processes, left out"),
            (self.other_memory, "allocator events of other memory, left out"),
            (self.timeless, "events without a usable time, left out"),
            (self.sizeless, "copies and fills whose bytes cannot be read, left out"),
            (self.mended, "places that were no JSON, mended"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        let tokens = "batch and sequence: both are taken as 1, so throughput counts steps";
        write!(f, "  FLOPs and bytes of most kernels: use `time: recorded()`\n  {tokens}")
    }
}
