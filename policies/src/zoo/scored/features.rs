//! What a score is made of.
//!
//! Times, sizes and counts enter by their logarithm: in a workload whose objects are all twice as
//! large, or whose ops come twice as often, every object's score shifts by the same amount, and the
//! order of leaving stays. Statistics enter by rank for the same reason. So weights that were found
//! on one trace mean the same on another.
//! The logarithm is the piecewise linear one between powers of two: it uses no function that
//! machines round differently.

use std::fmt;
use tiersim_models::workload::{Object, ObjectKind, Statistics, Trace};

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// One property of an object that HBM holds, as a number from 0 to about 1.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        /// How the features are spelled, in their order.
        pub const NAMES: &[&str] = &[$($word,)*];

        impl Feature {
            /// All of them, by name.
            pub const ALL: [Feature; NAMES.len()] = [$(Feature::$name,)*];
        }
    };
}

features! {
    /// Rank of the Adam statistic `adam_m` among the trace's objects, 0 to 1; the mean of its
    /// module's where the object has none, 0 where that has none.
    AdamM = "adam_m";
    /// The same of `adam_v`.
    AdamV = "adam_v";
    /// Uses of any objects since the last use of this one: log2(1 + uses) / 16.
    Age = "age";
    /// 1 if it has changed since it came, so that it must be written back.
    Changed = "changed";
    /// Its uses so far: log2(1 + uses) / 8.
    Count = "count";
    /// How far the moment is, ahead or behind, at which the last interval between uses will have
    /// passed again: log2(1 + uses of any objects) / 16; 0 before the second use.
    Due = "due";
    /// Rank of `grad_norm`, as `adam_m`.
    GradNorm = "grad_norm";
    /// 1 for activations.
    IsActivation = "is_activation";
    /// 1 for buffers.
    IsBuffer = "is_buffer";
    /// 1 for gradients.
    IsGradient = "is_gradient";
    /// 1 for keys and values of past tokens.
    IsKv = "is_kv";
    /// 1 for master weights.
    IsMaster = "is_master";
    /// 1 for optimizer state.
    IsOptimizer = "is_optimizer";
    /// 1 for weights.
    IsWeight = "is_weight";
    /// Ops to the next use: log2(1 + ops) / 16; 4 if there is none. Knows the future.
    Next = "next";
    /// 1 before the second use: there is no interval yet.
    Once = "once";
    /// The last interval between two uses: log2(1 + uses of any objects) / 16; 0 before the second.
    Reuse = "reuse";
    /// log2(1 + bytes) / 32.
    Size = "size";
}

impl Feature {
    /// How it is spelled.
    pub fn word(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The feature of that name.
    pub fn from_word(word: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.word() == word)
    }

    /// Whether it is known before the run and never changes.
    fn is_fixed(self) -> bool {
        use Feature::{Age, Changed, Count, Due, Next, Once, Reuse};
        !matches!(self, Age | Changed | Count | Due | Next | Once | Reuse)
    }
}

/// A weight for every feature, all finite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights([f64; NAMES.len()]);

impl Weights {
    /// That of one feature.
    pub fn get(&self, feature: Feature) -> f64 {
        self.0[feature as usize]
    }

    /// Gives a feature another weight.
    ///
    /// # Panics
    /// If it is not finite.
    pub fn set(&mut self, feature: Feature, weight: f64) {
        assert!(weight.is_finite(), "{} weighs {weight}", feature.word());
        self.0[feature as usize] = weight;
    }
}

/// Those that are not 0, such as `age -1, size 0.5`.
impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heavy = Feature::ALL.into_iter().filter(|&feature| self.get(feature) != 0.0);
        let words: Vec<String> =
            heavy.map(|feature| format!("{} {}", feature.word(), self.get(feature))).collect();
        f.write_str(if words.is_empty() { "no weights" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

/// log2(1 + x), linear between powers of two; strictly rising up to 2^46.
pub(crate) fn log(x: u64) -> f64 {
    let x = x.saturating_add(1);
    let power = x.ilog2();
    let floor = 1u64 << power;
    f64::from(power) + (x - floor) as f64 / floor as f64
}

/// A time in uses or ops as a feature.
pub(super) fn time(x: u64) -> f64 {
    log(x) / 16.0
}

/// Uses so far as a feature.
pub(super) fn count(x: u64) -> f64 {
    log(x) / 8.0
}

/// By object: the part of its score that is known before the run.
pub fn fixed(trace: &Trace, weights: &Weights) -> Vec<f64> {
    let mut scores = vec![0.0; trace.objects.len()];
    for feature in Feature::ALL.into_iter().filter(|&f| f.is_fixed() && weights.get(f) != 0.0) {
        for (score, value) in scores.iter_mut().zip(values(trace, feature)) {
            *score += weights.get(feature) * value;
        }
    }
    scores
}

/// Features that can tell two objects of a trace apart. A weight of any other changes nothing.
pub fn telling(trace: &Trace) -> Vec<Feature> {
    let tells = |&feature: &Feature| {
        !feature.is_fixed() || values(trace, feature).windows(2).any(|pair| pair[0] != pair[1])
    };
    Feature::ALL.into_iter().filter(tells).collect()
}

/// A fixed feature, by object.
fn values(trace: &Trace, feature: Feature) -> Vec<f64> {
    let is = |kind: ObjectKind| each(trace, |object| f64::from(u8::from(object.kind == kind)));
    match feature {
        Feature::AdamM => ranks(trace, |statistics| statistics.adam_m),
        Feature::AdamV => ranks(trace, |statistics| statistics.adam_v),
        Feature::GradNorm => ranks(trace, |statistics| statistics.grad_norm),
        Feature::IsActivation => is(ObjectKind::Activation),
        Feature::IsBuffer => is(ObjectKind::Buffer),
        Feature::IsGradient => is(ObjectKind::Gradient),
        Feature::IsKv => is(ObjectKind::Kv),
        Feature::IsMaster => is(ObjectKind::Master),
        Feature::IsOptimizer => is(ObjectKind::Optimizer),
        Feature::IsWeight => is(ObjectKind::Weight),
        Feature::Size => each(trace, |object| log(object.bytes.get()) / 32.0),
        other => unreachable!("{} changes over a run", other.word()),
    }
}

fn each(trace: &Trace, value: impl Fn(&Object) -> f64) -> Vec<f64> {
    trace.objects.iter().map(value).collect()
}

/// The share of the objects with the statistic that do not have more of it.
fn ranks(trace: &Trace, statistic: impl Fn(&Statistics) -> Option<f64>) -> Vec<f64> {
    let of = |object: &Object| statistic(&object.statistics);
    let mut sorted: Vec<f64> = trace.objects.iter().filter_map(of).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: f64| {
        let below = sorted.partition_point(|&other| other.total_cmp(&value).is_le());
        below as f64 / sorted.len() as f64
    };
    let mut modules = vec![(0.0, 0u32); trace.modules.len()];
    for object in &trace.objects {
        if let (Some(module), Some(value)) = (object.module, of(object)) {
            let (sum, ranked) = &mut modules[module.index()];
            *sum += rank(value);
            *ranked += 1;
        }
    }
    let of_module = |object: &Object| match object.module.map(|module| modules[module.index()]) {
        Some((sum, ranked)) if ranked > 0 => sum / f64::from(ranked),
        _ => 0.0,
    };
    each(trace, |object| of(object).map_or_else(|| of_module(object), rank))
}

#[cfg(test)]
mod tests {
    use super::{Feature, NAMES, Weights, log, telling, values};
    use crate::replacement::NEVER;
    use tiersim_models::ids::ModuleId;
    use tiersim_models::units::Bytes;
    use tiersim_models::workload::{Object, ObjectKind, Recorded, Statistics, Trace, TraceMeta};

    #[test]
    fn names_are_in_order_and_found_again() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        assert!(Feature::ALL.into_iter().all(|f| Feature::from_word(f.word()) == Some(f)));
        assert_eq!(Feature::from_word("ages"), None);
        assert_eq!(Weights::default().to_string(), "no weights");
    }

    #[test]
    fn the_logarithm_rises_and_is_exact_at_powers_of_two() {
        for power in 0..46 {
            let x = 1u64 << power;
            assert_eq!(log(x - 1), f64::from(power));
            assert!(log(x - 1) < log(x), "{x}");
            assert!(log(2 * x - 2) < log(2 * x - 1) || x == 1, "{x}");
        }
        assert!((log(5) - 6f64.log2()).abs() < 0.09);
        assert_eq!(log(NEVER), 64.0);
    }

    fn trace(objects: &[(ObjectKind, u64, Option<u32>, Option<f64>)]) -> Trace {
        let meta = TraceMeta {
            name: String::new(),
            about: String::new(),
            precision: String::new(),
            batch: 1,
            sequence: 1,
            recorded: Recorded::default(),
        };
        let object =
            |&(kind, bytes, module, adam_m): &(ObjectKind, u64, Option<u32>, Option<f64>)| Object {
                persistent: true,
                module: module.map(ModuleId),
                statistics: Statistics { adam_m, ..Statistics::default() },
                ..Object::new(String::new(), kind, Bytes::new(bytes))
            };
        let objects = objects.iter().map(object).collect();
        let (ops, uses) = Default::default();
        Trace { meta, modules: vec!["a".into(), "b".into()], objects, ops, uses }
    }

    #[test]
    fn statistics_enter_by_rank_and_are_their_modules_where_an_object_has_none() {
        use ObjectKind::{Buffer, Optimizer, Weight};
        let trace = trace(&[
            (Weight, 3, Some(0), Some(1e-9)),
            (Weight, 3, Some(0), Some(1e9)),
            (Weight, 3, Some(1), Some(2e-9)),
            (Weight, 3, Some(1), Some(2e-9)),
            (Optimizer, 3, Some(0), None),
            (Buffer, 3, None, None),
        ]);
        assert_eq!(values(&trace, Feature::AdamM), [0.25, 1.0, 0.75, 0.75, 0.625, 0.0]);
        assert_eq!(values(&trace, Feature::AdamV), [0.0; 6]);
        assert_eq!(values(&trace, Feature::Size), [2.0 / 32.0; 6]);
        let telling = telling(&trace);
        let tells = |feature| telling.contains(&feature);
        assert!(tells(Feature::AdamM) && tells(Feature::IsBuffer) && tells(Feature::Age));
        assert!(!tells(Feature::Size) && !tells(Feature::AdamV) && !tells(Feature::IsKv));
    }
}
