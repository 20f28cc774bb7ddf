//! Dynamic policies on traces that are small enough to work out by hand, and on random ones.

mod chunks;
mod faults;
mod hot_cold;
mod layers;
mod prediction;
mod worlds;

use tiersim_tests::play;
use tiersim_tests::prelude::*;

/// HBM of `bytes`, and a tier behind a link of a byte per ps without set-up.
pub(crate) fn machine(bytes: u64) -> Hardware {
    two_tiers(Bytes::new(bytes), law(0, 1_000_000_000_000))
}

/// A trace of one stream: objects that persist, and ops of so many ps that use them.
pub(crate) fn traced(objects: &[u64], ops: &[(u64, &[(u32, Mode)])]) -> Traced {
    let mut traced = Traced::new();
    for &bytes in objects {
        traced.object(bytes, true);
    }
    for (ps, uses) in ops {
        let uses: Vec<(ObjectId, Mode)> =
            uses.iter().map(|&(object, mode)| (ObjectId(object), mode)).collect();
        traced.op(0, 0, Span::from_ps(*ps), &uses);
    }
    traced
}

/// Runs a trace under audit.
pub(crate) fn play(
    hardware: &Hardware,
    traced: Traced,
    config: &PolicyConfig,
    repeat: u32,
) -> Played {
    let world = World::recorded(hardware.clone(), traced.0, repeat);
    let policy = policy_of(&world, config).expect("it needs nothing special");
    play::play(&world, policy).expect("it fits")
}
