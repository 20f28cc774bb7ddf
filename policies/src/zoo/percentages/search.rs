//! Finds the six numbers: a linear program over how long the copies of one replay take.
//!
//! Minimised is the time of the busiest of: all ops together, and copies to HBM from the CPU's
//! tier, back to it, from the disk's and back to it, each one after the other; and then, a
//! thousandth of it, the time of all these copies together, so that of equally quick answers the
//! one that moves least is taken. Copies take what each takes alone. The limits: each group's share
//! of its peak bytes fits into what the tier has, in HBM beside the objects of every op and the
//! buffers.
//! Source: Sheng et al., "FlexGen", ICML 2023, section 4.3: the longest of five terms, linear in
//! the percentages; here with times of copies and sizes of the workload at hand.
//! Invariant: the model is linear in whole shares; that objects are whole is not part of it.

use super::six::{Group, Six};
use crate::access::Access;
use crate::recipe::Setting;
use crate::residents::Residents;
use crate::visits::{Moves, Visits, running};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::workload::{Object, ObjectKind, Trace};

/// How much less it counts how long all copies take than how long the busiest channel does.
const TIDY: f64 = 1e-3;

/// What the search knows of a workload on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentageModel {
    /// Time of all ops, in seconds.
    pub ops: f64,
    /// By group, and by tier (CPU, disk): seconds to HBM and back if all of the group is there.
    pub seconds: [[[f64; 2]; 2]; 3],
    /// The most bytes of each group that exist at once.
    pub bytes: [f64; 3],
    /// Bytes of the GPU, the CPU and the disk that the groups can have.
    pub room: [f64; 3],
}

/// The best six numbers of the model of this setting.
pub fn search(setting: &Setting<'_>, tiers: &[TierId; 3], access: Access) -> Six {
    PercentageModel::new(setting, tiers, access).solve()
}

impl PercentageModel {
    /// Of a workload on a machine.
    pub fn new(setting: &Setting<'_>, tiers: &[TierId; 3], access: Access) -> PercentageModel {
        let trace = &setting.workload.trace;
        let mut residents = Residents::new(setting, access, &[]);
        residents.keep_others(&[
            ObjectKind::Weight,
            ObjectKind::Gradient,
            ObjectKind::Optimizer,
            ObjectKind::Master,
            ObjectKind::Kv,
            ObjectKind::Activation,
        ]);
        let gpu = residents.free(0..residents.visits.ops());
        let mut seconds = [[[0.0; 2]; 2]; 3];
        for (index, object) in trace.objects.iter().enumerate() {
            let Some(group) = Group::of(object.kind) else { continue };
            let id = ObjectId::at(index);
            let Moves { fetches, write_backs } = residents.visits.accesses(id, access);
            for (part, &tier) in tiers[1..].iter().enumerate().filter(|(_, tier)| **tier != HBM) {
                let to_hbm = setting.copies.span(tier, HBM, object.bytes);
                let back = setting.copies.span(HBM, tier, object.bytes);
                let sums = &mut seconds[group as usize][part];
                sums[0] += fetches as f64 * to_hbm.ps() as f64 * 1e-12;
                sums[1] += write_backs as f64 * back.ps() as f64 * 1e-12;
            }
        }
        let memory = |part: usize| setting.memory.usable(tiers[part]).most().get() as f64;
        PercentageModel {
            ops: setting.spans.iter().map(|span| span.ps() as f64 * 1e-12).sum(),
            seconds,
            bytes: peaks(trace, &residents.visits),
            room: [gpu.get() as f64, memory(1), memory(2)],
        }
    }

    /// What is minimised, in seconds, for shares of the GPU and the CPU from 0 to 1.
    pub fn cost(&self, shares: &[[f64; 2]; 3]) -> f64 {
        let mut channels = [[0.0; 2]; 2];
        for (seconds, [gpu, cpu]) in self.seconds.iter().zip(shares) {
            for (part, share) in [*cpu, 1.0 - gpu - cpu].into_iter().enumerate() {
                for way in 0..2 {
                    channels[part][way] += share * seconds[part][way];
                }
            }
        }
        let channels = channels.as_flattened();
        channels.iter().fold(self.ops, |most, &channel| most.max(channel))
            + TIDY * channels.iter().sum::<f64>()
    }

    /// Whether the shares fit.
    pub fn fits(&self, shares: &[[f64; 2]; 3]) -> bool {
        let held = |share: &dyn Fn(&[f64; 2]) -> f64| -> f64 {
            shares.iter().zip(self.bytes).map(|(shares, bytes)| share(shares) * bytes).sum()
        };
        // The solver keeps to its limits within 1e-7 of all bytes.
        let slack = 1e-6 * self.bytes.iter().sum::<f64>();
        held(&|[gpu, _]| *gpu) <= self.room[0] + slack
            && held(&|[_, cpu]| *cpu) <= self.room[1] + slack
            && held(&|[gpu, cpu]| 1.0 - gpu - cpu) <= self.room[2] + slack
    }

    /// The best shares; where not even the disk has room for the rest, it is taken as large enough.
    pub fn shares(&self) -> [[f64; 2]; 3] {
        self.program(true).or_else(|| self.program(false)).unwrap_or([[0.0, 1.0]; 3])
    }

    fn program(&self, disk_is_limited: bool) -> Option<[[f64; 2]; 3]> {
        let longest = |sum: f64, seconds: &[[f64; 2]; 2]| {
            seconds.as_flattened().iter().fold(sum, |most, &channel| most.max(channel))
        };
        // Times are counted in the longest of them, bytes in those of all groups.
        let time = self.seconds.iter().fold(self.ops, longest).max(f64::MIN_POSITIVE);
        let all = self.bytes.iter().sum::<f64>().max(1.0);
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let busiest = problem.add_var(1.0, (self.ops / time, f64::INFINITY));
        let mut shares: Vec<[Variable; 3]> = Vec::new();
        for seconds in &self.seconds {
            let cost = |part: usize| TIDY * (seconds[part][0] + seconds[part][1]) / time;
            let mut share = |cost| problem.add_var(cost, (0.0, 1.0));
            let group = [share(0.0), share(cost(0)), share(cost(1))];
            problem.add_constraint(group.map(|share| (share, 1.0)), ComparisonOp::Eq, 1.0);
            shares.push(group);
        }
        for (part, way) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let channel = shares.iter().zip(&self.seconds);
            let mut row: Vec<(Variable, f64)> = channel
                .map(|(group, seconds)| (group[part + 1], seconds[part][way] / time))
                .filter(|(_, seconds)| *seconds > 1e-6)
                .collect();
            row.push((busiest, -1.0));
            problem.add_constraint(&row, ComparisonOp::Le, 0.0);
        }
        for tier in 0..if disk_is_limited { 3 } else { 2 } {
            let held =
                shares.iter().zip(self.bytes).map(|(group, bytes)| (group[tier], bytes / all));
            let row: Vec<(Variable, f64)> = held.filter(|(_, bytes)| *bytes > 1e-6).collect();
            problem.add_constraint(&row, ComparisonOp::Le, (self.room[tier] / all).min(2.0));
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let value = |variable: Variable| solution.var_value(variable).clamp(0.0, 1.0);
        Some([0, 1, 2].map(|group| [value(shares[group][0]), value(shares[group][1])]))
    }

    /// The best shares in percent, to a hundredth: less of the GPU rather than more, and nothing on
    /// disk that is only there by rounding.
    pub fn solve(&self) -> Six {
        Six(self.shares().map(|[gpu, cpu]| {
            let hundredths = |share: f64| (share * 1e4 + 1e-4).floor() / 100.0;
            let disk = hundredths(1.0 - gpu - cpu);
            let gpu = hundredths(gpu);
            [gpu, (100.0 - gpu - disk).max(0.0)]
        }))
    }
}

/// The most bytes of each group that exist at once.
fn peaks(trace: &Trace, visits: &Visits) -> [f64; 3] {
    [0, 1, 2].map(|group| {
        let own = |(_, object): &(ObjectId, &Object)| {
            Group::of(object.kind).is_some_and(|of| of as usize == group)
        };
        let objects = (0..).map(ObjectId).zip(&trace.objects).filter(own);
        let changes = objects.flat_map(|(id, object)| {
            let (life, bytes) = (visits.life(id), i128::from(object.bytes.get()));
            [(life.start, bytes), (life.end, -bytes)]
        });
        running(visits.ops() as usize, changes).into_iter().max().unwrap_or(0) as f64
    })
}
