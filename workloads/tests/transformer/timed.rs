//! What a step takes, by a schedule that shares nothing with the simulator.

use std::collections::BTreeMap;
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares};
use tiersim_models::hardware::Compute;
use tiersim_models::units::{Bandwidth, FlopRate, Span};
use tiersim_models::workload::{Mode, Phase, Trace, Unit};

/// A device that reaches its rates with everything.
pub(crate) fn device() -> Compute {
    let shares =
        Shares { points: vec![(1, 1_000_000)], interpolation: Interpolation::Interpolated };
    Compute {
        op_times: None,
        attention: None,
        name: "made up".to_owned(),
        flops: vec![("bf16".to_owned(), FlopRate::new(1_000_000_000_000).expect("not zero"))],
        memory: Bandwidth::new(1_000_000_000_000).expect("not zero"),
        launch: Span::from_ps(1000),
        efficiency: Efficiency { products: shares.clone(), memory: shares },
    }
}

/// Picoseconds to the end of the last op but those of the update, where each collective takes so
/// many: every op starts when the one before on its stream has ended, those that it names, and
/// those that wrote what it touches or read what it writes.
pub(crate) fn makespan(trace: &Trace, collective: u64) -> u128 {
    let (mut streams, mut ends) = (BTreeMap::new(), Vec::new());
    // By object: when it was written last, and when it was touched last.
    let mut touched = vec![(0u128, 0u128); trace.objects.len()];
    for (op, time) in trace.ops.iter().zip(device().times("bf16", &trace.ops)) {
        let takes = match op.unit {
            _ if op.phase == Phase::Optimizer => 0,
            Unit::Device | Unit::Idle => time.expect("a time").ps(),
            Unit::Network(_) => collective,
            Unit::Cpu => 0,
        };
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let data = uses.iter().map(|of| {
            let (written, any) = touched[of.object.index()];
            if of.mode == Mode::Read { written } else { any }
        });
        let named = op.after.iter().map(|before| ends[before.index()]);
        let before: u128 = data.chain(named).max().unwrap_or(0);
        let own = streams.entry(op.stream).or_insert(0u128);
        *own = before.max(*own) + u128::from(takes);
        for of in uses {
            let (written, any) = &mut touched[of.object.index()];
            *any = own.max(any).to_owned();
            if of.mode != Mode::Read {
                *written = *own;
            }
        }
        ends.push(*own);
    }
    ends.into_iter().max().unwrap_or(0)
}
