//! Figures of two traces, side by side.
//!
//! Invariant: no figure is counted here; all are those of `trace info`.

use super::{Listed, Pair};
use crate::trace::info::{OpsInfo, StepInfo, TraceInfo};
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Of what: empty for the whole trace, else such as `weight`, `forward` or `all-gather 8x1`.
    pub of: String,
    /// Which.
    pub what: &'static str,
    /// Both.
    #[serde(flatten)]
    pub pair: Pair<u128>,
}

/// A step that is not the same; steps are counted from 0 in both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepDiff {
    /// Which step of the trace.
    pub step: usize,
    /// Ops.
    pub ops: Pair<u128>,
    /// Recorded time.
    pub duration_ns: Pair<u128>,
    /// Floating-point operations.
    pub flops: Pair<u128>,
    /// Bytes read and written.
    pub bytes: Pair<u128>,
    /// Sizes of the objects that it uses.
    pub touched_bytes: Pair<u128>,
}

/// Figures of the whole that a verdict names, and how.
pub(super) const MAIN: &[(&str, &str)] = &[
    ("recorded ns", "recorded time"),
    ("FLOPs", "FLOPs"),
    ("bytes read and written", "bytes read and written"),
    ("bytes at the peak", "peak"),
];

/// Figures in an order of their own, by what they are of and which.
type All = BTreeMap<(u8, String, u8), (&'static str, u128)>;

/// The figures that are not the same.
pub(super) fn figures(a: &TraceInfo, b: &TraceInfo) -> Vec<Figure> {
    let mut both: BTreeMap<(u8, String, u8), (&'static str, Pair<u128>)> = BTreeMap::new();
    for (key, (what, value)) in of(a) {
        both.entry(key).or_insert((what, Pair::default())).1.a = value;
    }
    for (key, (what, value)) in of(b) {
        both.entry(key).or_insert((what, Pair::default())).1.b = value;
    }
    let others = both.into_iter().filter(|(_, (_, pair))| pair.a != pair.b);
    others.map(|((_, of, _), (what, pair))| Figure { of, what, pair }).collect()
}

fn of(info: &TraceInfo) -> All {
    let mut all = All::new();
    let mut add = |rank: u8, of: &str, figures: &[(&'static str, u128)]| {
        for (place, &figure) in figures.iter().enumerate() {
            all.insert((rank, of.to_owned(), place as u8), figure);
        }
    };
    let sum = |of: fn(&OpsInfo) -> u128| info.phases.iter().map(|one| of(&one.all)).sum::<u128>();
    add(
        0,
        "",
        &[
            ("steps", info.steps.len() as u128),
            ("ops", info.ops as u128),
            ("objects", info.objects as u128),
            ("uses", info.uses as u128),
            ("inferred uses", info.inferred_uses.into()),
            ("unknown uses", info.unknown_uses.into()),
            ("modules", info.modules.len() as u128),
            ("batch", info.batch.into()),
            ("sequence", info.sequence.into()),
            ("recorded ns", sum(|all| all.duration_ns.into())),
            ("FLOPs", sum(|all| all.flops)),
            ("bytes read and written", sum(|all| all.bytes.into())),
            ("bytes at the peak", info.peak.bytes.into()),
        ],
    );
    for one in &info.kinds {
        add(
            1,
            one.kind,
            &[
                ("objects", one.objects.into()),
                ("bytes", one.bytes.into()),
                ("persistent bytes", one.persistent_bytes.into()),
                ("bytes at the peak", one.bytes_at_peak.into()),
            ],
        );
    }
    for one in &info.phases {
        add(
            2,
            one.phase,
            &[
                ("ops", one.all.ops.into()),
                ("recorded ns", one.all.duration_ns.into()),
                ("FLOPs", one.all.flops),
                ("bytes read and written", one.all.bytes.into()),
                ("bytes of objects read", one.read_bytes),
                ("bytes of objects written", one.written_bytes),
            ],
        );
    }
    for one in &info.units {
        let of = format!("{} {}", one.unit, one.group);
        let buffers = ("bytes of buffers", one.collective_bytes);
        add(3, of.trim_end(), &[("ops", one.ops.into()), buffers]);
    }
    all
}

/// The steps that are not the same, those with the largest change of recorded time, FLOPs and
/// bytes first.
pub(super) fn steps(a: &TraceInfo, b: &TraceInfo, top: usize) -> Listed<StepDiff> {
    let none = StepInfo::default();
    let mut rows = Vec::new();
    for step in 0..a.steps.len().max(b.steps.len()) {
        let [a, b] = [a, b].map(|info| info.steps.get(step).unwrap_or(&none));
        let pair = |of: fn(&StepInfo) -> u128| Pair { a: of(a), b: of(b) };
        let row = StepDiff {
            step,
            ops: pair(|one| one.all.ops.into()),
            duration_ns: pair(|one| one.all.duration_ns.into()),
            flops: pair(|one| one.all.flops),
            bytes: pair(|one| one.all.bytes.into()),
            touched_bytes: pair(|one| one.touched_bytes.into()),
        };
        if (&a.all, a.touched_bytes) != (&b.all, b.touched_bytes) {
            rows.push(row);
        }
    }
    let largest = |row: &StepDiff| {
        let all = [row.duration_ns, row.flops, row.bytes, row.touched_bytes, row.ops];
        std::cmp::Reverse(all.map(Pair::apart))
    };
    rows.sort_by_key(largest);
    Listed::of(rows, top)
}
