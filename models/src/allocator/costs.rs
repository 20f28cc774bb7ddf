//! What an allocator's work takes of a program's time.
//!
//! A request that finds a cached block is answered by the program's thread alone, which runs ahead
//! of the device. To take a segment from the driver or to give one back, device and thread wait for
//! each other: the CUDA programming guide lists an allocation of device memory among what no two
//! commands run beside, and `cudaFree` waits for all that is under way.
//! Invariant: a span is a product of a count and a cost; nothing here depends on a clock.

use crate::units::Span;

/// What an allocator has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Requests that it met.
    pub hits: u64,
    /// Of these, those for which a larger block was split.
    pub splits: u64,
    /// Segments taken from the device, or growths of an expandable one.
    pub taken: u64,
    /// Segments given back, or parts of an expandable one.
    pub given: u64,
}

impl Calls {
    /// What was done since.
    pub fn since(self, before: Calls) -> Calls {
        Calls {
            hits: self.hits - before.hits,
            splits: self.splits - before.splits,
            taken: self.taken - before.taken,
            given: self.given - before.given,
        }
    }
}

/// What each of them takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To meet a request from what is cached.
    pub hit: Span,
    /// To split a block, beyond that.
    pub split: Span,
    /// To take a segment.
    pub take: Span,
    /// To give a segment back.
    pub give: Span,
}

impl Costs {
    /// Nothing.
    pub const NONE: Costs =
        Costs { hit: Span::ZERO, split: Span::ZERO, take: Span::ZERO, give: Span::ZERO };

    /// Medians of traces that PyTorch's profiler wrote, which are published with two tools:
    ///
    /// * `hit`: 4 us, `aten::empty` and `aten::empty_strided` in the four DLRM traces on V100s of
    ///   Chakra's (70 and 59 calls each; 6 us of 6,094 calls of a ResNet on an RTX 2080 Ti,
    ///   recorded with stacks). PyTorch's profiler does not tell splits apart, so they are in it
    ///   and `split` is 0.
    /// * `take`: 335 us, `cudaMalloc` in the ResNet's trace (33 calls, quartiles 108 and 526 us;
    ///   253 us of 13 calls in a trace beside it; on an A100 7.2 ms of 24, which looks like another
    ///   driver or a busy machine).
    /// * `give`: 1,389 us, `cudaFree` of cached segments in Holistic Trace Analysis' trace of an
    ///   AlexNet on an A100 (the last 11 calls, 1.1 to 4.0 ms; one call in another of its traces
    ///   took 347 us).
    pub const MEASURED: Costs = Costs {
        hit: Span::from_us(4),
        split: Span::ZERO,
        take: Span::from_us(335),
        give: Span::from_us(1389),
    };

    /// What one request may take in the long run: a segment is given back once at most.
    pub fn most(self) -> Span {
        [self.hit, self.split, self.take, self.give].into_iter().sum()
    }

    /// Time of the program's thread, and time in which the device waits too.
    pub fn of(self, calls: Calls) -> (Span, Span) {
        let times = |cost: Span, count: u64| Span::from_ps(cost.ps().saturating_mul(count));
        let thread = times(self.hit, calls.hits) + times(self.split, calls.splits);
        (thread, times(self.take, calls.taken) + times(self.give, calls.given))
    }
}

impl Default for Costs {
    fn default() -> Costs {
        Costs::MEASURED
    }
}
