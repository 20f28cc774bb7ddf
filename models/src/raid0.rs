//! Sets of equal drives that a copy is striped over.
//!
//! Stripes are dealt round robin, the first of every copy or chunk to the first drive; a copy has
//! ended when its busiest drive has.
//! Invariant: a set is never faster than all its drives together.

use crate::units::{Bandwidth, Bytes, Span};
use std::num::NonZeroU32;

/// A set of equal drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid0 {
    /// How many; the rates of a link with such a set are those of all of them together.
    pub drives: NonZeroU32,
    /// Bytes that go to one drive before the next has its turn; above zero.
    pub stripe: Bytes,
}

impl Raid0 {
    /// The bytes of a copy that its busiest drive holds.
    pub fn busiest(&self, bytes: Bytes) -> Bytes {
        let (stripe, drives) = (self.stripe.get(), u64::from(self.drives.get()));
        let (whole, rest) = (bytes.get() / stripe, bytes.get() % stripe);
        let (rounds, over) = (whole / drives, whole % drives);
        // The first drive is as busy as any: it has a stripe of the last round, whole or not.
        let last = if over > 0 { stripe } else { rest };
        Bytes::new(rounds * stripe + last)
    }

    /// Time of `bytes` over drives that reach `rate` together, without set-up:
    /// `ceil(busiest * 10^12 / (rate / drives))` ps. `rate` is a multiple of the number of drives.
    pub fn span(&self, bytes: Bytes, rate: Bandwidth) -> Span {
        self.drive(rate).span_of(self.busiest(bytes).get())
    }

    /// The rate of one drive of a set that reaches `rate`.
    pub fn drive(&self, rate: Bandwidth) -> Bandwidth {
        let drive = rate.get() / u64::from(self.drives.get());
        Bandwidth::new(drive.max(1)).expect("above zero")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::ChaCha12Rng;
    use rand::{RngExt, SeedableRng};

    /// Deals stripe by stripe.
    fn dealt(drives: u32, stripe: u64, bytes: u64) -> u64 {
        let mut shares = vec![0; drives as usize];
        let (mut left, mut turn) = (bytes, 0);
        while left > 0 {
            let piece = left.min(stripe);
            shares[turn] += piece;
            left -= piece;
            turn = (turn + 1) % shares.len();
        }
        shares.into_iter().max().expect("a drive")
    }

    #[test]
    fn the_busiest_drive_is_that_of_stripes_dealt_one_by_one() {
        let mut rng = ChaCha12Rng::seed_from_u64(5);
        for _ in 0..20_000 {
            let (drives, stripe) = (rng.random_range(1..9), rng.random_range(1..40));
            let bytes = rng.random_range(0..2000);
            let raid = Raid0 {
                drives: NonZeroU32::new(drives).expect("above zero"),
                stripe: Bytes::new(stripe),
            };
            let share = dealt(drives, stripe, bytes);
            assert_eq!(raid.busiest(Bytes::new(bytes)), Bytes::new(share));
            let drive = rng.random_range(1..1u64 << 40);
            let rate = Bandwidth::new(drive * u64::from(drives)).expect("above zero");
            let exact = (u128::from(share) * 1_000_000_000_000).div_ceil(u128::from(drive));
            assert_eq!(u128::from(raid.span(Bytes::new(bytes), rate).ps()), exact);
            assert!(raid.span(Bytes::new(bytes), rate) >= rate.span_of(bytes));
        }
    }
}
