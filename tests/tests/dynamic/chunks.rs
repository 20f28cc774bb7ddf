//! Objects in chunks: a part of one may stay where the whole could not.

use crate::dynamic::{machine, play, traced};
use tiersim_models::workload::Mode::Read;
use tiersim_policies::chunks::chunked;
use tiersim_tests::prelude::*;

#[test]
fn the_part_that_fits_stays() {
    let ops: [(u64, &[_]); 4] =
        [(100, &[(0, Read)]), (100, &[(1, Read)]), (100, &[(0, Read)]), (100, &[(1, Read)])];
    let lru: PolicyConfig = DemandConfig::lru(vec![FAR]).into();
    let whole = || traced(&[1000, 1000], &ops);
    let ends = play(&machine(1500), whole(), &lru, 1).ends;
    assert_eq!(ends, [1100, 2200, 3300, 4400], "each object takes the other's place");
    let pieces = chunked(&Workload::new(whole().0), Bytes::new(250)).expect("few").expect("larger");
    let ends = play(&machine(1500), Traced(pieces.workload.trace), &lru, 1).ends;
    // Six pieces of 250 fit: two of the first object leave for the second, and two of the second
    // when the first comes back.
    assert_eq!(ends, [1100, 2200, 2800, 3400]);
}
