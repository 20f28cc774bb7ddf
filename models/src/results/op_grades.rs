//! How near predicted times of single ops come to measured ones.

use crate::hardware::Hardware;
use crate::measured_op::MeasuredOp;
use crate::op_times::PricedBy;

/// One op, priced.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedOp {
    /// The line of the table.
    pub line: u64,
    /// Which kind of op.
    pub kind: &'static str,
    /// The precision of its products.
    pub precision: &'static str,
    /// Seconds that the machine takes.
    pub predicted: f64,
    /// How they are known.
    pub by: PricedBy,
    /// Seconds that it took, if the table says so.
    pub measured: Option<f64>,
}

/// All ops of a table on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct OpGrades {
    /// The machine.
    pub machine: String,
    /// Its device.
    pub device: String,
    /// The table.
    pub table: String,
    /// Its rows that could be priced.
    pub ops: Vec<PricedOp>,
    /// Rows that could not, for want of a peak of their precision or of a link to so many devices.
    pub unpriced: u64,
}

/// Errors of some ops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// How many.
    pub count: usize,
    /// Of |predicted / measured - 1|: the median and the 95th percentile, by nearest rank.
    pub median: f64,
    /// See `median`.
    pub p95: f64,
    /// Median of predicted / measured - 1.
    pub bias: f64,
}

impl Errors {
    /// Of pairs of predicted and measured seconds.
    pub fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Errors {
        let mut signed: Vec<f64> =
            pairs.map(|(predicted, measured)| predicted / measured - 1.0).collect();
        signed.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Errors {
            count: signed.len(),
            median: quantile(&sizes, 0.5),
            p95: quantile(&sizes, 0.95),
            bias: quantile(&signed, 0.5),
        }
    }
}

/// Errors of the ops of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OpGrade {
    /// Which kind.
    pub kind: &'static str,
    /// Which precision.
    pub precision: &'static str,
    /// Measured times from and up to, in seconds; `None` for all of a kind and precision.
    pub range: Option<(f64, f64)>,
    /// How far off they are.
    pub errors: Errors,
    /// The line of the op that is furthest off, and its error.
    pub worst: (u64, f64),
}

/// Bounds of the ranges of measured times.
const BOUNDS: [f64; 5] = [0.0, 1e-5, 1e-4, 1e-3, f64::INFINITY];

/// The value that a share of sorted values does not exceed (nearest rank); zero without values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

impl OpGrades {
    /// The ops of a table on a machine.
    pub fn of(hardware: &Hardware, table: &str, ops: &[MeasuredOp]) -> OpGrades {
        let device = hardware.compute.as_ref().map_or("", |compute| &compute.name).to_owned();
        let (machine, table) = (hardware.name.clone(), table.to_owned());
        let priced = Vec::with_capacity(ops.len());
        let mut graded = OpGrades { machine, device, table, ops: priced, unpriced: 0 };
        for op in ops {
            let (kind, line, precision) = (op.kind(), op.line, op.precision);
            match op.on(hardware) {
                Some((predicted, by)) => {
                    let measured = op.seconds;
                    graded.ops.push(PricedOp { line, kind, precision, predicted, by, measured });
                }
                None => graded.unpriced += 1,
            }
        }
        graded
    }

    /// How many ops were priced in this way.
    pub fn priced(&self, by: PricedBy) -> usize {
        self.ops.iter().filter(|op| op.by == by).count()
    }

    /// By kind and precision, all of them and then by range of measured time; kinds in the order
    /// of the table.
    pub fn grades(&self) -> Vec<OpGrade> {
        let mut groups: Vec<(&'static str, &'static str)> = Vec::new();
        for op in &self.ops {
            if op.measured.is_some() && !groups.contains(&(op.kind, op.precision)) {
                groups.push((op.kind, op.precision));
            }
        }
        let ranges = BOUNDS.windows(2).map(|pair| Some((pair[0], pair[1])));
        let ranges: Vec<Option<(f64, f64)>> = [None].into_iter().chain(ranges).collect();
        groups
            .into_iter()
            .flat_map(|group| ranges.iter().filter_map(move |&range| self.grade(group, range)))
            .collect()
    }

    fn grade(
        &self,
        (kind, precision): (&'static str, &'static str),
        range: Option<(f64, f64)>,
    ) -> Option<OpGrade> {
        let (from, to) = range.unwrap_or((0.0, f64::INFINITY));
        let of = self.ops.iter().filter(|op| op.kind == kind && op.precision == precision);
        let pairs = of.filter_map(|op| {
            let measured = op.measured.filter(|time| (from..to).contains(time))?;
            Some((op.line, op.predicted, measured))
        });
        let pairs: Vec<(u64, f64, f64)> = pairs.collect();
        let off =
            pairs.iter().map(|&(line, predicted, measured)| (line, predicted / measured - 1.0));
        let worst = off.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let errors =
            Errors::of(pairs.into_iter().map(|(_, predicted, measured)| (predicted, measured)));
        Some(OpGrade { kind, precision, range, errors, worst })
    }
}
