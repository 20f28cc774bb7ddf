//! Requests of a block or page trace, and where they come from.

use crate::diagnostic::Diagnostics;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Which object.
    pub object: u64,
    /// Its size in bytes, 1 to [`MOST_BYTES`]; 1 where the trace does not say.
    pub bytes: u64,
    /// The request, counted from 0, with which the object is requested next, as the trace states
    /// it; [`NEVER`] if it is not, and in traces that do not say.
    pub next: u64,
}

/// [`Request::next`] of a last request.
pub const NEVER: u64 = u64::MAX;
/// The largest object: 16 TiB, above any block, page or tensor.
pub const MOST_BYTES: u64 = 1 << 44;
/// How many requests are handed out at a time, at most.
pub const BATCH: usize = 1024;

/// Requests in their order, a batch at a time.
pub trait Requests {
    /// Do requests say when their object is requested next?
    fn knows_next(&self) -> bool;

    /// Replaces what is in `batch` with the next requests, at most [`BATCH`] of them; none at the
    /// end.
    ///
    /// # Errors
    /// All problems that were found on the way, at the end or when they are many.
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Diagnostics>;
}
