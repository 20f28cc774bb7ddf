//! The ops of a trace that do not run on the device.

use serde::Serialize;
use std::collections::BTreeMap;
use tiersim_models::workload::{Collective, Trace, Unit};

/// Ops of one unit and, of collectives, one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitInfo {
    /// The word of `unit` in `ops.csv`.
    pub unit: &'static str,
    /// Ranks within a server x servers, such as `8x64`; empty where it is no collective.
    pub group: String,
    /// How many ops.
    pub ops: u64,
    /// The buffers of collectives together.
    pub collective_bytes: u128,
}

/// By unit and group; empty where all is on the device.
pub(super) fn units(trace: &Trace) -> Vec<UnitInfo> {
    let mut all: BTreeMap<(&'static str, u32, u32), (u64, u128)> = BTreeMap::new();
    for op in &trace.ops {
        let (name, bytes) = match op.unit {
            Unit::Device => continue,
            Unit::Cpu => (("cpu", 0, 0), 0),
            Unit::Idle => (("idle", 0, 0), 0),
            Unit::Network(Collective { kind, bytes, within, servers }) => {
                ((kind.word(), within, servers), bytes.get())
            }
        };
        let (ops, sum) = all.entry(name).or_default();
        *ops += 1;
        *sum += u128::from(bytes);
    }
    let info = |((unit, within, servers), (ops, collective_bytes))| {
        let group = if within == 0 { String::new() } else { format!("{within}x{servers}") };
        UnitInfo { unit, group, ops, collective_bytes }
    };
    all.into_iter().map(info).collect()
}
