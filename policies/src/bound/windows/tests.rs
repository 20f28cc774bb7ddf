//! The best windows without counting all of them, against counting all of them.

use super::super::splits;
use super::*;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, PartialUse, Phase, Trace, TraceMeta, Unit, Use,
};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::Training;

/// A sequence of numbers from a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }

    fn workload(&mut self) -> Workload {
        let meta = TraceMeta::default();
        let (modules, objects, ops, uses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut trace = Trace { meta, modules, objects, ops, uses };
        let mut born = Vec::new();
        for index in 0..3 + self.below(12) {
            let bytes = Bytes::new(1 + self.below(100));
            let kind = ObjectKind::ALL[self.below(7) as usize];
            let persistent = self.below(2) == 0;
            born.push(persistent);
            let object = Object::new(format!("{index}"), kind, bytes);
            trace.objects.push(Object { persistent, ..object });
        }
        let on_host = self.below(2) == 0;
        for _ in 0..5 + self.below(40) {
            let start = trace.uses.len() as u32;
            let first = self.below(trace.objects.len() as u64);
            let step = 1 + self.below(3);
            for index in 0..1 + self.below(3) {
                let at = ((first + index * step) % trace.objects.len() as u64) as usize;
                let object = ObjectId::at(at);
                let known = &trace.uses[start as usize..];
                if known.iter().any(|touched| touched.object == object) {
                    continue;
                }
                let mode = [Mode::Read, Mode::Write, Mode::ReadWrite][self.below(3) as usize];
                let mode = if born[at] { mode } else { Mode::Write };
                born[at] = true;
                let bytes = trace.objects[at].bytes;
                let part = PartialUse::of(1, 1 + u128::from(self.below(100)), bytes);
                let part = part.filter(|_| self.below(3) == 0);
                trace.uses.push(Use { part, ..Use::whole(object, mode) });
            }
            let end = trace.uses.len() as u32;
            let unit = if on_host && self.below(3) == 0 { Unit::Cpu } else { Unit::Device };
            trace.ops.push(Op { unit, ..Op::new(0, Phase::Forward, "op", start..end) });
        }
        Workload::new(trace)
    }

    fn pieces(&mut self, ops: u64, replays: u64) -> Pieces {
        let (from, to) = (ops, ops * (1 + replays));
        let mut splits: Vec<u64> = (0..10).map(|_| from + self.below(to - from)).collect();
        splits.extend([from, to]);
        splits.sort_unstable();
        splits.dedup();
        let mut computed = vec![0];
        let pace = [1, 40, 400][self.below(3) as usize];
        for _ in 1..splits.len() {
            computed.push(computed[computed.len() - 1] + u128::from(self.below(50 * pace)));
        }
        Pieces { splits, computed, streams: 1 }
    }

    fn cuts(&mut self, all: u64) -> Vec<Cut> {
        let cut = |depth: u64, dice: &mut Dice| {
            let inside = (0..=depth).map(|tier| TierId(tier as u8)).collect();
            let capacity = u128::from(dice.below(all) * (1 + depth) / 2);
            // Picoseconds per byte.
            let rates = [1, 1, 1 + dice.below(2)].map(|r| u128::from(r) * 1_000_000_000_000 / 10);
            let mut in_place = || u128::from(dice.below(3)) * 10_000_000_000;
            let (flowing, aside) = (in_place(), in_place());
            Cut { inside, capacity, rates, in_place: flowing.max(aside), flowing, aside }
        };
        (0..1 + self.below(2)).map(|depth| cut(depth, self)).collect()
    }
}

impl Windows {
    /// Counts every window.
    fn all(&self, cuts: &[Cut]) -> Table {
        let last = self.pieces.splits.len() - 1;
        let mut counters: Vec<Option<Traffic<'_>>> = cuts.iter().map(|_| None).collect();
        let mut table = self.unknown(cuts.len());
        (0..last).for_each(|first| self.count(cuts, &mut counters, (first, last), &mut table));
        table
    }
}

#[test]
fn the_best_windows_are_those_of_counting_all() {
    let (mut split, mut saved) = (0, 0);
    for seed in 1..=3000u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let workload = dice.workload();
        let all = workload.trace.objects.iter().map(|object| object.bytes.get()).sum();
        let replays = 1 + dice.below(3);
        let pieces = dice.pieces(workload.trace.ops.len() as u64, replays);
        let (windows, cuts) = (Windows::new(&workload, pieces.clone()), dice.cuts(all));
        let table = windows.all(&cuts);
        let path = windows.longest(&table);
        let expected = sum(path.iter().filter_map(|&(first, last)| table[first][last].exact));
        let own = Windows::new(&workload, pieces.clone());
        let (found, passes) = own.counted(&cuts);
        assert_eq!(found, expected, "seed {seed}");
        // What was counted at other rates is as good as what is counted anew.
        let quicker = |cut: &Cut| Cut { rates: cut.rates.map(|rate| rate * 3), ..cut.clone() };
        let cuts: Vec<Cut> = cuts.iter().map(quicker).collect();
        let anew = Windows::new(&workload, pieces).best(&cuts);
        assert_eq!([own.best(&cuts), windows.best(&cuts)], [anew; 2], "seed {seed}");
        split += u32::from(path.len() > 1);
        saved += u32::from(passes + 1 < windows.pieces.splits.len() - 1);
    }
    assert!(split > 500 && saved > 1000, "{split} with several windows, {saved} cut short");
}

#[test]
fn no_pass_counts_more_than_earlier_ones_allow() {
    let mut equal = 0;
    for seed in 1..=1000u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let workload = dice.workload();
        let all = workload.trace.objects.iter().map(|object| object.bytes.get()).sum();
        let replays = 1 + dice.below(3);
        let pieces = dice.pieces(workload.trace.ops.len() as u64, replays);
        let (windows, cut) = (Windows::new(&workload, pieces), &dice.cuts(all)[..1]);
        let (future, _) = windows.count_of(0);
        let mut counter = Traffic::new(future, windows.objects, cut[0].capacity);
        let splits = &windows.pieces.splits;
        let passes: Vec<_> =
            (0..splits.len() - 1).map(|first| counter.count(&splits[first..])).collect();
        for early in 0..passes.len() {
            for first in early + 1..passes.len() {
                for last in first + 1..splits.len() {
                    let of = |split: usize| &passes[early][split - early - 1];
                    let limit = windows.count_of(0).1.at_most((first, last), of(first), of(last));
                    let own = passes[first][last - first - 1].crossing;
                    let all = |of: &Crossing| [of.strict, of.loose].concat();
                    for (limit, own) in all(&limit).iter().zip(&all(&own)) {
                        assert!(limit >= own, "seed {seed}: {limit} < {own} in {first}..{last}");
                        equal += u32::from(limit == own && *own > 0);
                    }
                    assert_eq!(limit.in_place, own.in_place);
                    assert_eq!(limit.unread, own.unread);
                }
            }
        }
    }
    assert!(equal > 10_000, "{equal} limits are exact");
}

#[test]
fn few_windows_of_a_training_run_are_counted() {
    let card = known("gpt2").expect("it is known").card();
    let workload = Workload::new(Training::new(card, 256).trace());
    let ops = workload.trace.ops.len() as u64;
    let splits = splits(&workload, (ops, 3 * ops));
    // Ops that write gradients and states are short, others compute.
    let own = |at: u64| 1_000_000 + u128::from(at * 7919 % 97) * 3_000_000;
    let computed = splits.iter().map(|&split| (ops..split).map(own).sum()).collect();
    let windows = Windows::new(&workload, Pieces { splits, computed, streams: 1 });
    let all: u64 = workload.trace.objects.iter().map(|object| object.bytes.get()).sum();
    let mut passes = Vec::new();
    for part in 0..12 {
        let capacity = u128::from(all) * part / 24;
        let (rates, in_place) = ([64, 64, 128].map(|rate| rate * 1_000_000_000), 50_000_000_000);
        let (inside, flowing, aside) = (vec![TierId(0)], 0, in_place);
        let cut = Cut { inside, capacity, rates, in_place, flowing, aside };
        passes.push(windows.counted(&[cut]).1);
    }
    let every = windows.pieces.splits.len() - 1;
    assert!(passes.iter().sum::<usize>() < passes.len() * every / 2, "{passes:?} of {every}");
}
