//! The law that accesses and copies follow.

use crate::units::{Bandwidth, Bytes, Span};

/// How long moving b bytes takes: `setup + ceil(b * 10^12 / rate)` picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Cost of one access or copy, whatever its size.
    pub setup: Span,
    /// Bytes per second after that.
    pub rate: Bandwidth,
}

impl Law {
    /// Time for `bytes`.
    #[inline]
    pub fn span_of(&self, bytes: Bytes) -> Span {
        self.setup + self.rate.span_of(bytes.get())
    }
}
