//! What a framework adds to a run that links, memories and kernels do not say: work of the thread
//! that issues ops and copies, and passes over device memory behind a copy.
//!
//! A framework such as DeepSpeed runs one program per device. Its thread prepares every op and every
//! object that it fetches ([`Runtime::per_op`], [`Runtime::per_object`]), may do so ahead of the
//! device ([`Runtime::ahead`]), may wait for each copy ([`Runtime::blocking`],
//! [`Runtime::blocking_out`]), may name memory that is not pinned ([`Runtime::pageable`]), and what
//! has arrived may be put together on the device before it is used ([`Runtime::passes`]). None of
//! this is a property of hardware, so it belongs to a scenario; a real machine has its own.
//! Invariant: a runtime only adds. A run without one ([`Runtime::is_none`]) is as if nobody had
//! ever heard of it.

use crate::units::{Bandwidth, Bytes, Span};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most passes over a fetched object.
pub const MOST_PASSES: u32 = 64;

/// What a framework adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Host time before each op. Ops that only wait have none.
    pub per_op: Span,
    /// Host time for each object that comes into HBM, before its copy begins. The thread of a
    /// device sees to one object after the other.
    pub per_object: Span,
    /// How often each byte that has come into HBM is read or written there before it counts as
    /// come, one object after the other; a copy within the device is two passes.
    pub passes: u32,
    /// The thread waits until what it fetches into HBM has come: what the plan has behind that,
    /// ops and fetches, begins no sooner.
    pub blocking: bool,
    /// The same of what leaves HBM.
    pub blocking_out: bool,
    /// The thread asks for ops and copies ahead of the device: host time is felt only where the
    /// device would be sooner. Without this it is in series with the device.
    pub ahead: bool,
    /// Copies name pageable memory of the host, on links that say what that reaches.
    pub pageable: bool,
    /// Where the numbers come from.
    pub source: String,
}

impl Runtime {
    /// Whether nothing is added.
    pub fn is_none(&self) -> bool {
        let Runtime {
            per_op,
            per_object,
            passes,
            blocking,
            blocking_out,
            ahead,
            pageable,
            source: _,
        } = self;
        (*per_op, *per_object, *passes) == (Span::ZERO, Span::ZERO, 0)
            && ![blocking, blocking_out, ahead, pageable].into_iter().any(|&said| said)
    }

    /// How long an object of so many bytes is gone over in memory of this rate: `passes` times
    /// ceil(bytes / rate).
    pub fn passing(&self, bytes: Bytes, rate: Bandwidth) -> Span {
        let once = rate.span_of(bytes.get()).ps();
        Span::from_ps(once.saturating_mul(self.passes.into()))
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.per_op > Span::ZERO {
            words.push(format!("{} per op", self.per_op));
        }
        if self.per_object > Span::ZERO {
            words.push(format!("{} per object", self.per_object));
        }
        if self.passes > 0 {
            let plural = if self.passes == 1 { "pass" } else { "passes" };
            words.push(format!("{} {plural} over what is fetched", self.passes));
        }
        if self.blocking {
            words.push("blocking copies".to_owned());
        }
        if self.blocking_out {
            words.push("blocking copies out".to_owned());
        }
        if self.ahead {
            words.push("ahead of the device".to_owned());
        }
        if self.pageable {
            words.push("pageable memory".to_owned());
        }
        match words.as_slice() {
            [] => f.write_str("none"),
            words => f.write_str(&words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_is_added_and_nothing_is_none() {
        assert!(Runtime::default().is_none());
        assert_eq!(Runtime::default().to_string(), "none");
        let all = Runtime {
            per_op: Span::from_us(20),
            per_object: Span::from_us(700),
            passes: 4,
            blocking: true,
            blocking_out: true,
            ahead: true,
            pageable: true,
            source: "a test".to_owned(),
        };
        let words = "20.000 us per op, 700.000 us per object, 4 passes over what is fetched, \
                     blocking copies, blocking copies out, ahead of the device, pageable memory";
        assert_eq!(all.to_string(), words);
        assert!(!Runtime { passes: 1, ..Runtime::default() }.is_none());
    }

    #[test]
    fn a_pass_is_the_bytes_over_the_rate() {
        let rate = Bandwidth::new(500_000_000_000).expect("above zero");
        let runtime = Runtime { passes: 3, ..Runtime::default() };
        assert_eq!(runtime.passing(Bytes::new(7), rate), Span::from_ps(42));
    }
}
