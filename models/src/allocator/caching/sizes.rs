//! How the caching allocator rounds requests and chooses the size of a segment.
//!
//! Invariant: a rounded size is a multiple of [`MIN_BLOCK`], and rounding it again changes nothing.

use crate::allocator::caching::{MIN_BLOCK, MIN_LARGE, ROUND_LARGE, SMALL, SMALL_SEGMENT};
use crate::allocator::pool::round_up;

/// Sizes that `roundup_power2_divisions` tells apart: below 2 MiB, below 4, and so on by powers of
/// two; the last from 32 GiB up.
pub const INTERVALS: usize = 16;

/// The interval of a size: `AcceleratorAllocatorConfig::roundup_power2_divisions`.
pub(super) fn interval(bytes: u64) -> usize {
    let log = bytes.checked_ilog2().unwrap_or(0);
    (log.saturating_sub(SMALL.ilog2()) as usize).min(INTERVALS - 1)
}

/// `round_size`.
pub(super) fn round_size(bytes: u64, divisions: u64) -> u64 {
    if bytes < MIN_BLOCK {
        MIN_BLOCK
    } else if divisions > 1 && bytes > MIN_BLOCK * divisions {
        next_division(bytes, divisions)
    } else {
        round_up(bytes, MIN_BLOCK)
    }
}

/// `roundup_power2_next_division`: up to the next of so many equal steps between powers of two.
pub(super) fn next_division(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1 << bytes.ilog2();
    let division = floor >> divisions.ilog2();
    if division == 0 { floor << 1 } else { round_up(bytes, division) }
}

/// `get_allocation_size`; `large` is `large_segment_size`.
pub(super) fn segment_size(size: u64, large: u64) -> u64 {
    if size <= SMALL {
        SMALL_SEGMENT
    } else if size < MIN_LARGE {
        large
    } else {
        round_up(size, ROUND_LARGE)
    }
}
