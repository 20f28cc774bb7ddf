//! The text of `tiersim trace info`.

use super::{OpsInfo, PhaseInfo, StepInfo, TraceInfo};
use std::fmt;
use tiersim_models::printed::clean;
use tiersim_models::units::shown::{of_sizes, three_digits};

/// How many modules the text lists.
const TOP_MODULES: usize = 10;

fn mib(bytes: impl Into<u128>) -> f64 {
    bytes.into() as f64 / (1u64 << 20) as f64
}

impl fmt::Display for OpsInfo {
    /// Columns of which the first is as wide as it is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ops, f)?;
        let (ms, gflop) = (self.duration_ns as f64 / 1e6, self.flops as f64 / 1e9);
        write!(f, " {ms:>12.3} {gflop:>10.3} {:>19.1}", mib(self.bytes))
    }
}

impl fmt::Display for TraceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a trace says of itself may hold anything, as the program did that wrote it.
        writeln!(f, "{}: {}", clean(&self.name), clean(&self.about.replace('\n', " ")))?;
        let said = [&self.how, &self.when, &self.on].map(String::as_str);
        let said: Vec<&str> = said.into_iter().filter(|part| !part.is_empty()).collect();
        writeln!(f, "recorded: {}", clean(&said.join("; ")))?;
        let (batch, sequence) = (self.batch, self.sequence);
        writeln!(f, "{}, batch {batch} x {sequence} tokens", clean(&self.precision))?;
        let (ops, objects, uses) = (self.ops, self.objects, self.uses);
        writeln!(f, "{ops} ops, {objects} objects, {uses} uses, {} steps", self.steps.len())?;
        if self.inferred_uses + self.unknown_uses > 0 {
            let (inferred, unknown) = (self.inferred_uses, self.unknown_uses);
            writeln!(f, "of the uses {inferred} are inferred and {unknown} unknown")?;
        }
        writeln!(f, "\nphase          ops  recorded ms      GFLOP    MiB read+written")?;
        for PhaseInfo { phase, all, .. } in &self.phases {
            writeln!(f, "{phase:<10} {all:>7}")?;
        }
        if !self.units.is_empty() {
            writeln!(f, "\nunit               group          ops     MiB of buffers")?;
        }
        for u in &self.units {
            let mib = mib(u.collective_bytes);
            writeln!(f, "{:<14} {:>9} {:>12} {mib:>18.1}", u.unit, u.group, u.ops)?;
        }
        writeln!(f, "\nkind        objects        MiB  persistent  at the peak")?;
        for k in &self.kinds {
            let (all, kept, peak) = (mib(k.bytes), mib(k.persistent_bytes), mib(k.bytes_at_peak));
            writeln!(f, "{:<11} {:>7} {all:>10.1} {kept:>11.1} {peak:>12.1}", k.kind, k.objects)?;
        }
        writeln!(f, "\nstep      ops  recorded ms      GFLOP    MiB read+written  MiB touched")?;
        for StepInfo { step, all, touched_bytes } in &self.steps {
            writeln!(f, "{step:<4} {all:>8} {:>12.1}", mib(*touched_bytes))?;
        }
        let peak = &self.peak;
        write!(f, "\npeak: {:.1} MiB ({} bytes) alive", mib(peak.bytes), peak.bytes)?;
        let name = clean(&peak.name);
        writeln!(f, " at op {} ({name}, step {}, {})", peak.op, peak.step, peak.phase)?;
        let reuse = &self.reuse;
        write!(f, "used again: {} of {uses} uses, after other objects of", reuse.again)?;
        let (unit, size) = of_sizes(reuse.bytes_most as f64);
        let [p50, p90, p99, most] =
            [reuse.bytes_p50, reuse.bytes_p90, reuse.bytes_p99, reuse.bytes_most]
                .map(|bytes| three_digits(bytes as f64 / size));
        writeln!(f, " {p50} {unit} (p50), {p90} (p90), {p99} (p99), {most} (most)")?;
        writeln!(f, "\nmodule                                    MiB persistent  MiB passing")?;
        for m in self.modules.iter().take(TOP_MODULES) {
            let (kept, passing) = (mib(m.persistent_bytes), mib(m.passing_bytes));
            writeln!(f, "{:<40} {kept:>15.1} {passing:>12.1}", clean(&m.module))?;
        }
        let more = self.modules.len().saturating_sub(TOP_MODULES);
        if more > 0 {
            writeln!(f, "and {more} more")?;
        }
        Ok(())
    }
}
