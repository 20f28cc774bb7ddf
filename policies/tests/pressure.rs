//! The pure part of memory pressure: when a level is entered and left, and what micro-batch
//! follows.

use tiersim_models::ids::TierId;
use tiersim_models::random::SplitMix;
use tiersim_models::units::Bytes;
use tiersim_policies::pressure::{
    Gauge, HYSTERESIS, Level, MicroBatch, PressureConfig, StepPressure, Thresholds,
};

fn config(thresholds: Thresholds, hysteresis: u32) -> PressureConfig {
    PressureConfig {
        tier: TierId(0),
        thresholds,
        hysteresis,
        responses: Default::default(),
        spill: Vec::new(),
        micro_batch: Some(MicroBatch::between(2, 16)),
        clear_cache_frequency: None,
    }
}

fn balanced() -> PressureConfig {
    config(Thresholds::BALANCED, HYSTERESIS)
}

fn level(capacity: u64, used: u64) -> Level {
    Gauge::new(&balanced(), Bytes::new(capacity)).read(Bytes::new(used)).1
}

#[test]
fn a_level_is_entered_at_its_threshold_and_not_a_byte_below() {
    let entered = [
        (Level::Normal, Level::Target, 900_000),
        (Level::Target, Level::Warning, 920_000),
        (Level::Warning, Level::Critical, 950_000),
        (Level::Critical, Level::Emergency, 970_000),
    ];
    // The last has no byte at exactly the threshold, so the next one counts; a float would be off.
    for capacity in [100, 1_000_000, 80 << 30, u64::MAX, 1_000_003] {
        for (below, at, millionths) in entered {
            let bytes = (u128::from(capacity) * millionths).div_ceil(1_000_000) as u64;
            assert_eq!(level(capacity, bytes), at, "{bytes} of {capacity}");
            assert_eq!(level(capacity, bytes - 1), below, "{} of {capacity}", bytes - 1);
        }
        assert_eq!(level(capacity, 0), Level::Normal);
        assert_eq!(level(capacity, capacity), Level::Emergency);
    }
    assert_eq!((level(100, 95), level(100, 94)), (Level::Critical, Level::Warning));
}

#[test]
fn nothing_changes_between_a_threshold_and_the_hysteresis_below_it() {
    let mut gauge = Gauge::new(&balanced(), Bytes::new(100));
    assert_eq!(gauge.read(Bytes::new(95)), (Level::Normal, Level::Critical));
    for used in [94, 95, 93, 96, 93, 95] {
        assert_eq!(gauge.read(Bytes::new(used)), (Level::Critical, Level::Critical), "{used}");
    }
    // A byte below, it falls to the highest level that is not left: warning is, below 90.
    assert_eq!(gauge.read(Bytes::new(92)), (Level::Critical, Level::Warning));
    assert_eq!(gauge.read(Bytes::new(90)), (Level::Warning, Level::Warning));
    assert_eq!(gauge.read(Bytes::new(89)), (Level::Warning, Level::Target));
    assert_eq!(gauge.read(Bytes::new(88)), (Level::Target, Level::Target));
    assert_eq!(gauge.read(Bytes::new(87)), (Level::Target, Level::Normal));
    assert_eq!(gauge.read(Bytes::new(89)), (Level::Normal, Level::Normal));
}

#[test]
fn a_level_is_never_below_what_is_reached_nor_above_what_is_left() {
    let mut draw = SplitMix::new(7);
    for _ in 0..200 {
        let hysteresis = (draw.draw() % 100_000) as u32;
        let config = config(Thresholds::CONSERVATIVE, hysteresis);
        let mut gauge = Gauge::new(&config, Bytes::new(1_000_000));
        for _ in 0..200 {
            let used = 600_000 + draw.draw() % 400_001;
            let (from, to) = gauge.read(Bytes::new(used));
            let reached = |below: u32| {
                let Thresholds(at) = config.thresholds;
                let at = at.iter().filter(|&&at| used >= u64::from(at - below)).count();
                [Level::Normal, Level::Target, Level::Warning, Level::Critical, Level::Emergency]
                    [at]
            };
            assert!(reached(0) <= to && to <= reached(hysteresis), "{used}: {to:?}");
            assert!(to == from || to == reached(0) || to == reached(hysteresis));
        }
    }
}

#[test]
fn profiles_rise_and_differ_in_caution() {
    let profiles = [Thresholds::CONSERVATIVE, Thresholds::BALANCED, Thresholds::AGGRESSIVE];
    for Thresholds(at) in profiles {
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]));
    }
    for pair in profiles.windows(2) {
        assert!(pair[0].0.iter().zip(pair[1].0).all(|(low, high)| *low < high));
    }
    assert_eq!(Thresholds::AGGRESSIVE.0, [920_000, 940_000, 960_000, 980_000]);
    assert_eq!(Thresholds::BALANCED.0, [900_000, 920_000, 950_000, 970_000]);
    assert_eq!(Thresholds::CONSERVATIVE.0, [850_000, 880_000, 920_000, 950_000]);
}

fn next(now: u32, shrink: bool, peak: u64, rest: u64) -> u32 {
    let highest = level(1000, peak);
    let step = StepPressure { shrink, highest, peak: Bytes::new(peak), rest: Bytes::new(rest) };
    balanced().next_micro_batch(now, &step, Bytes::new(1000))
}

#[test]
fn a_micro_batch_is_halved_to_its_least_and_doubled_to_its_most() {
    assert_eq!([16, 8, 5, 3, 2].map(|now| next(now, true, 990, 400)), [8, 4, 3, 2, 2]);
    assert_eq!([2, 4, 8, 12, 16].map(|now| next(now, false, 500, 400)), [4, 8, 16, 16, 16]);
}

#[test]
fn a_micro_batch_is_restored_only_below_the_target_by_the_hysteresis() {
    // 400 stay and 239 come and go, with twice the samples 478: 878 of 1000, and 880 is too much.
    assert_eq!(next(4, false, 639, 400), 8);
    assert_eq!(next(4, false, 640, 400), 4);
    // To 16 only one and a half times as much.
    assert_eq!(next(11, false, 700, 400), 16);
}

/// Draws steps that are alike and follows the micro-batch over twelve of them. `next` gives the one
/// that comes after so many samples with such a peak and rest; in the end no peak is above `most`.
fn does_not_swing(seed: u64, (first, most): (u32, u64), next: impl Fn(u32, u64, u64, bool) -> u32) {
    let mut draw = SplitMix::new(seed);
    for round in 0..5000 {
        let (rest, sample) = (draw.draw() % 900, 1 + draw.draw() % 60);
        let mut batches = vec![if round % 2 == 0 { first } else { 2 }];
        for _ in 0..12 {
            let now = batches[batches.len() - 1];
            batches.push(next(now, rest + sample * u64::from(now), rest, round % 3 == 0));
        }
        let up = batches.windows(2).any(|pair| pair[0] < pair[1]);
        let down = batches.windows(2).any(|pair| pair[0] > pair[1]);
        assert!(!(up && down), "{rest} and {sample} per sample: {batches:?}");
        let last = u64::from(batches[12]);
        assert!(rest + sample * last <= most || last == 2, "{rest}, {sample}: {batches:?}");
    }
}

#[test]
fn a_micro_batch_does_not_swing_where_steps_are_alike() {
    does_not_swing(3, (16, 949), |now, peak, rest, _| next(now, peak >= 950, peak, rest));
    does_not_swing(5, (32, 800), |now, peak, rest, smooth| aimed(now, false, peak, rest, smooth));
}

fn aimed(now: u32, shrink: bool, peak: u64, rest: u64, smooth: bool) -> u32 {
    let mut config = balanced();
    let batch = MicroBatch { target: Some(800_000), smooth, ..MicroBatch::between(2, 32) };
    config.micro_batch = Some(batch);
    let highest = level(1000, peak);
    let step = StepPressure { shrink, highest, peak: Bytes::new(peak), rest: Bytes::new(rest) };
    config.next_micro_batch(now, &step, Bytes::new(1000))
}

#[test]
fn a_micro_batch_follows_its_target_utilisation_from_both_sides() {
    // 800 of 1000 are meant: a byte more is too much, no response has to say so.
    assert_eq!([800, 801].map(|peak| aimed(16, false, peak, 400, true)), [16, 8]);
    // 400 stay, 200 come and go, and twice as much is exactly what is meant.
    assert_eq!([600, 601].map(|peak| aimed(16, false, peak, 400, true)), [32, 16]);
    assert_eq!(aimed(2, false, 999, 990, true), 2);
}

#[test]
fn a_micro_batch_changes_by_one_notch_unless_it_may_jump() {
    // 25 a sample: 16 fit in 800 beside 400, and no more.
    assert_eq!([true, false].map(|smooth| aimed(2, false, 450, 400, smooth)), [4, 16]);
    // 50 a sample: 8 fit, from 32 that were too many (what left for them is not counted).
    assert_eq!([true, false].map(|smooth| aimed(32, true, 2000, 400, smooth)), [16, 8]);
    // Nothing fits, so it is the least; a response takes one notch at least.
    assert_eq!([true, false].map(|smooth| aimed(32, false, 999, 800, smooth)), [16, 2]);
    assert_eq!(aimed(32, true, 500, 400, false), 16);
}
