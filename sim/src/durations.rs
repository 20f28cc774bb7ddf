//! How long every op of a run takes; of a collective only its launch, for the rest is up to the
//! links.
//!
//! A draw depends on the seed and on which op of the run it is, never on what came before, so every
//! case of a scenario sees the same draws: cases differ by policy, not by luck. Nothing is kept
//! per replay, so memory does not grow with their number.

use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use rand_distr::{Distribution, LogNormal};
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::OpId;
use tiersim_models::server::Cpu;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Op, Trace, Unit};
use tiersim_policies::scenario::{OpTime, WorkloadSpec};

/// Durations by op of the run.
#[derive(Clone, Debug)]
pub struct Durations {
    /// One replay of the trace, or all of them.
    base: Vec<Span>,
    /// The same with what collectives take on links that carry nothing else, if there are any.
    whole: Option<Vec<Span>>,
    jitter: Option<Jitter>,
    /// By op of the trace: the one whose draws it takes, of so many; its own where there is none.
    source: Option<(Vec<OpId>, u64)>,
    /// The draws of a replay are those of the one so many before it, where there is one.
    later: u64,
    /// Launch of an op on the device and on the host, as far as the durations tell it apart.
    launches: [Span; 2],
}

#[derive(Clone, Debug)]
struct Jitter {
    factor: LogNormal<f64>,
    seed: u64,
}

impl Durations {
    /// The same durations in every replay, or, if `spans` holds all of them, each its own.
    pub fn fixed(spans: Vec<Span>) -> Durations {
        let launches = [Span::ZERO; 2];
        Durations { base: spans, whole: None, jitter: None, source: None, launches, later: 0 }
    }

    /// What a scenario asks for; `cpu` is what ops on the CPU run on.
    ///
    /// Errors in words if the trace or the device lacks what that needs.
    pub fn new(
        trace: &Trace,
        spec: &WorkloadSpec,
        cpu: Option<&Cpu>,
        seed: u64,
    ) -> Result<Durations, String> {
        on_host(trace, cpu)?;
        let base = match &spec.time {
            OpTime::Priced { compute, precision } => {
                // What devices do together takes its time on the links.
                let time = |(op, time): (&Op, Option<Span>)| match (op.unit, cpu) {
                    (Unit::Idle, _) if waits_only(op) => Some(Span::ZERO),
                    (Unit::Network(of), _) => Some(compute.collective_launch(&of)),
                    (Unit::Cpu, Some(cpu)) => cpu.roofline(op.flops, op.bytes),
                    _ => time,
                };
                let times = compute.times(precision, &trace.ops);
                let spans: Option<Vec<Span>> = trace.ops.iter().zip(times).map(time).collect();
                spans.ok_or_else(|| {
                    format!("{} has no peak for {precision}, or an op takes for ever", compute.name)
                })?
            }
            OpTime::Recorded { scale } => {
                let time = |(row, op): (usize, &Op)| match op.unit {
                    Unit::Network(_) => Ok(Span::ZERO),
                    _ => Ok(op.duration.ok_or(row)?.scaled(*scale)),
                };
                let spans: Result<Vec<Span>, usize> =
                    trace.ops.iter().enumerate().map(time).collect();
                spans.map_err(|row| {
                    format!(
                        "op {row} of the trace has no recorded duration, as ops of generated traces have \
                         none: name the trace in a scenario with `time: roofline(...)` or `op_times(...)`"
                    )
                })?
            }
        };
        let jitter = (spec.jitter > 0.0).then(|| Jitter { factor: mean_one(spec.jitter), seed });
        let launches = match &spec.time {
            OpTime::Priced { compute, .. } => {
                [compute.launch, cpu.map_or(Span::ZERO, |cpu| cpu.launch)]
            }
            OpTime::Recorded { .. } => [Span::ZERO; 2],
        };
        Ok(Durations { jitter, launches, ..Durations::fixed(base) })
    }

    /// Those of a trace whose op i repeats op `source[i]` of this one, which has `ops` ops: the
    /// same time in every replay, with the same draws.
    pub fn repeating(&self, source: &[OpId], ops: usize) -> Durations {
        let repeated = |spans: &Vec<Span>| {
            let replays = spans.chunks(ops.max(1));
            replays.flat_map(|replay| source.iter().map(|op| replay[op.index()])).collect()
        };
        let draws = source.iter().map(|&op| match &self.source {
            Some((inner, _)) => inner[op.index()],
            None => op,
        });
        let ops = self.source.as_ref().map_or(ops as u64, |&(_, ops)| ops);
        Durations {
            base: repeated(&self.base),
            whole: self.whole.as_ref().map(repeated),
            source: Some((draws.collect(), ops)),
            ..self.clone()
        }
    }

    /// The same, and what collectives of the trace take at least between `ranks` devices.
    pub fn with_collectives(self, trace: &Trace, hardware: &Hardware, ranks: u32) -> Durations {
        if !trace.ops.iter().any(|op| matches!(op.unit, Unit::Network(_))) {
            return self;
        }
        let laws = hardware.collective_laws(ranks);
        let least = |op: &Op| match op.unit {
            Unit::Network(collective) => {
                collective.exchange(laws).span(laws.ways).unwrap_or(Span::ZERO)
            }
            _ => Span::ZERO,
        };
        let least: Vec<Span> = trace.ops.iter().map(least).collect();
        let whole = self.base.iter().zip(least.iter().cycle());
        let whole = Some(whole.map(|(&own, &least)| own + least).collect());
        Durations { whole, ..self }
    }

    /// No op of the trace shorter than its entry in `floors`, before jitter.
    pub fn at_least(&self, floors: &[Span]) -> Durations {
        let longer = |spans: &Vec<Span>| {
            spans.iter().zip(floors.iter().cycle()).map(|(span, floor)| *span.max(floor)).collect()
        };
        let (base, whole) = (longer(&self.base), self.whole.as_ref().map(longer));
        Durations { base, whole, ..self.clone() }
    }

    /// Without jitter, op by op.
    pub fn without_jitter(&self) -> Durations {
        Durations { jitter: None, ..self.clone() }
    }

    /// With draws that come so many replays later: what is put before a run changes none of its
    /// draws.
    pub fn later(&self, replays: u64) -> Durations {
        Durations { later: replays, ..self.clone() }
    }

    /// Without jitter, and with what collectives take at least; of one replay of the trace, or of
    /// all of them where each has its own.
    pub fn nominal(&self) -> &[Span] {
        self.whole.as_ref().unwrap_or(&self.base)
    }

    /// How long op `occurrence` of the run takes at least.
    pub fn least(&self, occurrence: u64) -> Span {
        let own = self.of(occurrence);
        let Some(whole) = &self.whole else { return own };
        let index = (occurrence % self.base.len() as u64) as usize;
        own + Span::from_ps(whole[index].ps() - self.base[index].ps())
    }

    /// How much of an op's time on the device is its launch; 0 where durations were recorded.
    pub fn launch(&self) -> Span {
        self.launches[0]
    }

    /// The same on the host's processors.
    pub fn launch_on_host(&self) -> Span {
        self.launches[1]
    }

    /// Whether every op of a trace takes the same time in every replay.
    pub fn are_the_same_in_every_replay_of(&self, trace: &Trace) -> bool {
        self.jitter.is_none() && self.base.len() == trace.ops.len()
    }

    /// How long each op of a trace takes, if that is the same in every replay.
    pub(crate) fn of_every_replay_of(&self, trace: &Trace) -> Option<&[Span]> {
        self.are_the_same_in_every_replay_of(trace).then_some(&*self.base)
    }

    /// How long op `occurrence` of the run takes.
    pub fn of(&self, occurrence: u64) -> Span {
        let span = self.base[(occurrence % self.base.len() as u64) as usize];
        match &self.jitter {
            None => span,
            Some(Jitter { factor, seed }) => {
                let mut own = ChaCha12Rng::seed_from_u64(*seed);
                let before = self.later * self.base.len() as u64;
                let drawn = occurrence.checked_sub(before).unwrap_or(occurrence);
                own.set_stream(self.draw_of(drawn));
                span.scaled(factor.sample(&mut own))
            }
        }
    }

    /// Which op of the run an op takes its draw from.
    fn draw_of(&self, occurrence: u64) -> u64 {
        let Some((source, ops)) = &self.source else { return occurrence };
        let own = source.len() as u64;
        occurrence / own * ops + u64::from(source[(occurrence % own) as usize].0)
    }
}

/// Whether an op stands for nothing but its release.
fn waits_only(op: &Op) -> bool {
    op.flops == 0 && op.bytes == Bytes::ZERO
}

/// Errors in words if an op runs on the host's processors and there are none.
fn on_host(trace: &Trace, cpu: Option<&Cpu>) -> Result<(), String> {
    let op = trace.ops.iter().position(|op| op.unit == Unit::Cpu).filter(|_| cpu.is_none());
    op.map_or(Ok(()), |row| {
        Err(format!(
            "op {row} {:?} of the trace runs on the host's processors, and the hardware has no `cpu`",
            trace.ops[row].name
        ))
    })
}

/// The log-normal distribution of mean 1 and standard deviation `deviation`:
/// sigma^2 = ln(1 + deviation^2), mu = -sigma^2 / 2.
fn mean_one(deviation: f64) -> LogNormal<f64> {
    let variance = (deviation * deviation).ln_1p();
    LogNormal::new(-variance / 2.0, variance.sqrt()).expect("the deviation is finite")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jittered(seed: u64) -> Durations {
        let jitter = Some(Jitter { factor: mean_one(0.2), seed });
        Durations { jitter, ..Durations::fixed(vec![Span::from_us(1)]) }
    }

    #[test]
    fn draws_depend_on_the_seed_and_the_op_only() {
        let one = jittered(1);
        let forwards: Vec<Span> = (0..100).map(|op| one.of(op)).collect();
        let backwards: Vec<Span> = (0..100).rev().map(|op| one.of(op)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(forwards[0], forwards[1]);
        assert_ne!(forwards[0], jittered(2).of(0));
    }

    #[test]
    fn a_repeated_op_takes_the_time_of_its_source_in_every_replay() {
        let spans = [1, 2, 3].map(Span::from_us).to_vec();
        let first = Durations { base: spans, ..jittered(4) };
        let source = [0, 1, 0, 2, 2].map(OpId).to_vec();
        let again = first.repeating(&source, 3);
        let of = |replay: u64, op: OpId| first.of(3 * replay + u64::from(op.0));
        for replay in 0..3 {
            for (at, &op) in source.iter().enumerate() {
                assert_eq!(again.of(5 * replay + at as u64), of(replay, op));
            }
        }
        // Of what repeats already.
        let twice = again.repeating(&[4, 3, 2].map(OpId), 5);
        assert_eq!([3, 4, 5].map(|at| twice.of(at)), [2, 2, 0].map(|op| of(1, OpId(op))));
        // Every replay its own.
        let each = Durations::fixed([1, 2, 3, 4].map(Span::from_us).to_vec());
        let again = each.repeating(&[1, 0, 1].map(OpId), 2);
        assert_eq!(again.nominal(), [2, 1, 2, 4, 3, 4].map(Span::from_us));
    }

    #[test]
    fn jitter_has_mean_one_and_the_stated_deviation() {
        let durations = jittered(3);
        let draws: Vec<f64> = (0..100_000).map(|op| durations.of(op).ps() as f64 / 1e6).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let deviation = (square / draws.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.003, "{mean}");
        assert!((deviation - 0.2).abs() < 0.003, "{deviation}");
    }
}
