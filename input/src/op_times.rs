//! Reads `hardware-specs/op-times/*.ron`: the numbers of formulas that say what kernels take.
//!
//! A file holds one device: what it states of itself, and for each kind of kernel the numbers with
//! the source of the measurements and the errors of the fit. A machine names it in
//! `compute.op_times`. Where that machine's device has another name, the numbers are scaled by the
//! ratio of what both state.
//! Invariant: every number but a share that is left is there, finite where its formula needs that, and not negative.

use crate::text::check::Check;
use crate::text::choices::{SCHEMA, choices, other_schema};
use crate::text::quantity::{CAPACITY, Duration, Quantity, RATE, Size};
use crate::text::ron_text::Document;
use crate::text::typed::Parsed;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Compute, Source};
use tiersim_models::op_times::{Dimension, Fitted, Numbers, OpTimes, Ratios};
use tiersim_models::units::written::{Dimension as Written, in_base};
use tiersim_models::units::{Bandwidth, FlopRate};

/// The numbers of one device.
#[derive(Clone, Debug)]
pub struct DeviceTimes {
    /// The name of the device as its machine has it.
    pub device: String,
    /// Its numbers.
    pub times: OpTimes,
    /// FLOP per second that it states in 16 and, if it does, in 8 bits, and bytes per second.
    stated: (f64, Option<f64>, f64),
    /// By kind of kernel: where the measurements come from, and the errors of the fit.
    pub fits: Vec<(&'static str, Source, Vec<Fit>)>,
}

/// Errors of a fit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Which rows.
    pub rows: String,
    /// How many, where it was counted.
    pub count: Option<u64>,
    /// Median of abs(predicted / measured - 1), in per cent.
    pub median: f64,
    /// Its 95th percentile.
    pub p95: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "OpTimes", deny_unknown_fields)]
struct RawOpTimes {
    /// Version of the format.
    ///
    /// Values: 2.
    schema: u32,
    /// What this is; not empty.
    about: String,
    /// The `name` of the `compute` that was measured.
    device: String,
    /// Its streaming multiprocessors.
    ///
    /// Values: 1 to 65536.
    processors: u32,
    /// Its last cache.
    cache: Quantity<Size>,
    /// The rates that its machine states, which other devices are compared with.
    stated: RawStated,
    /// Products of matrices in `bf16` and `fp16`.
    products: Option<RawFormula>,
    /// Products in `fp8` of activations in 16 bits; their launch is that of `products`.
    fp8: Option<RawFormula>,
    /// Attention with the write of the cache, of prompts and of single tokens.
    attention: Option<RawFormula>,
    /// Attention of many new tokens without a cache, and its gradients, by FlashAttention 2.
    flash_attention_2: Option<RawFormula>,
    /// The same by cuDNN.
    cudnn: Option<RawFormula>,
    /// The experts of a layer, in 16 and in 8 bits.
    experts: Option<RawFormula>,
    /// Experts on one device, and their width, for which the kernel in 16 bits has a table of tiles
    /// that were tuned; `untuned` and `spilled` of `experts` are of all others.
    #[serde(default)]
    tuned_experts: Vec<(u64, u64)>,
    /// The experts of a layer, in 16 and in 8 bits.
    experts_fp8: Option<RawFormula>,
    /// The same where a token goes through one or two experts and other kernels run these.
    experts_few: Option<RawFormula>,
    /// The same where a token goes through one or two experts and other kernels run these.
    experts_few_fp8: Option<RawFormula>,
    /// Norms, rotary positions, activations, sums, look-ups: what memory alone holds back.
    streaming: Option<RawFormula>,
    /// What a framework without a compiler runs for one operation each, softmax, the optimizer's
    /// update.
    unfused: Option<RawFormula>,
    /// Collectives of the devices of one server.
    collectives: Option<RawFormula>,
}

/// What the device's own part says, which others are compared with.
#[derive(Debug, Deserialize)]
#[serde(rename = "Stated", deny_unknown_fields)]
struct RawStated {
    /// FLOP per second of products in 16 bits.
    bf16: Quantity<FlopRate>,
    /// FLOP per second of products in 8 bits.
    fp8: Option<Quantity<FlopRate>>,
    /// Bytes per second of its memory.
    memory: Quantity<Bandwidth>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Formula", deny_unknown_fields)]
struct RawFormula {
    /// Where the measurements come from.
    source: Source,
    /// Whether the numbers are another device's, scaled already.
    #[serde(default)]
    inherited: bool,
    /// Errors: which ops, how many (may be left out), median and 95th percentile of abs(predicted /
    /// measured - 1) in per cent.
    #[serde(default)]
    fits: Vec<Fit>,
    /// All of them, each with its unit: times in `us`, rates of products in `tflops`, of bytes in
    /// `gb_per_s`, others plain.
    ///
    /// Type: the numbers of the formula.
    #[serde(rename = "numbers")]
    _numbers: IgnoredAny,
}

/// Whether the file calls itself a file of op times.
pub fn is_op_times(document: &Document) -> bool {
    document.tree().written(document.tree().root()).starts_with("OpTimes")
}

/// Reads and checks one file.
pub fn read_op_times(path: &Path) -> Result<DeviceTimes, Diagnostics> {
    resolve_op_times(&Document::read(path)?)
}

/// Checks a document.
pub fn resolve_op_times(document: &Document) -> Result<DeviceTimes, Diagnostics> {
    let Parsed { raw, mut problems } = document.parse::<RawOpTimes>()?;
    let mut reader = Reader { check: Check::new(document), fits: Vec::new() };
    let check = &mut reader.check;
    if raw.schema != SCHEMA {
        check.fault("schema", "unknown schema of a file of op times", other_schema());
    }
    for (field, text) in [("about", &raw.about), ("device", &raw.device)] {
        if text.trim().is_empty() {
            check.fault(field, format!("`{field}` may not be empty"), "say which device this is");
        }
    }
    if !(1..=65_536).contains(&raw.processors) {
        let rule = "a device has between 1 and 65536 processors";
        check.fault("processors", rule, "write its streaming multiprocessors");
    }
    let cache = raw.cache.resolve(check, "cache", CAPACITY);
    let bf16 = raw.stated.bf16.resolve(check, "stated.bf16", RATE);
    let fp8 = raw.stated.fp8.as_ref().map(|rate| rate.resolve(check, "stated.fp8", RATE));
    let memory = raw.stated.memory.resolve(check, "stated.memory", RATE);
    let times = OpTimes {
        name: stem(document.file()),
        processors: raw.processors,
        cache: cache.unwrap_or(1),
        products: reader.formula("products", &raw.products),
        fp8: reader.formula("fp8", &raw.fp8),
        attention: reader.formula("attention", &raw.attention),
        flash_attention_2: reader.formula("flash_attention_2", &raw.flash_attention_2),
        cudnn: reader.formula("cudnn", &raw.cudnn),
        experts: reader.formula("experts", &raw.experts),
        tuned_experts: raw.tuned_experts.clone(),
        experts_fp8: reader.formula("experts_fp8", &raw.experts_fp8),
        experts_few: reader.formula("experts_few", &raw.experts_few),
        experts_few_fp8: reader.formula("experts_few_fp8", &raw.experts_few_fp8),
        streaming: reader.formula("streaming", &raw.streaming),
        unfused: reader.formula("unfused", &raw.unfused),
        collectives: reader.formula("collectives", &raw.collectives),
    };
    let Reader { check, fits } = reader;
    problems.0.extend(check.problems.0);
    let rate = |rate: Option<u64>| rate.unwrap_or(1) as f64;
    let stated = (rate(bf16), fp8.map(rate), rate(memory));
    problems.into_result(DeviceTimes { device: raw.device.trim().to_owned(), times, stated, fits })
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

struct Reader<'d> {
    check: Check<'d>,
    fits: Vec<(&'static str, Source, Vec<Fit>)>,
}

impl Reader<'_> {
    /// The numbers of one formula; those that are wrong are told and stand as 1.
    fn formula<T: Numbers + Default>(
        &mut self,
        section: &'static str,
        raw: &Option<RawFormula>,
    ) -> Option<Fitted<T>> {
        let RawFormula { source, inherited, fits, .. } = raw.as_ref()?;
        self.fits.push((section, source.clone(), fits.clone()));
        let mut numbers = T::default();
        let mut known = Vec::new();
        let path = format!("{section}.numbers");
        numbers.each(&mut |name, dimension, number| {
            known.push(name);
            *number = self.number(&path, name, dimension);
        });
        let tree = self.check.document.tree();
        if let Some(all) = tree.find(&path) {
            let strange = tree.names(all).into_iter().find(|name| !known.contains(name));
            if let Some(name) = strange {
                let rule = format!("`{name}` is no number of this formula");
                let remedy = choices(name, &known);
                self.check.fault(&format!("{path}.{name}"), rule, remedy);
            }
        }
        Some(Fitted { numbers, inherited: *inherited })
    }

    /// A number in base units of its formula.
    fn number(&mut self, section: &str, name: &str, dimension: Dimension) -> f64 {
        let path = format!("{section}.{name}");
        let Some(text) = self.check.document.value(&path) else {
            if dimension == Dimension::Left {
                return 1.0;
            }
            let rule = format!("the formula needs `{name}`");
            self.check.fault(section, rule, format!("add {name}: {}", sample(dimension)));
            return 1.0;
        };
        let read = match dimension {
            Dimension::Time => in_base::<Duration>(&text).map(|ps| ps * 1e-12),
            Dimension::Flops => in_base::<FlopRate>(&text),
            Dimension::Memory | Dimension::Local | Dimension::Fixed | Dimension::Stated => {
                in_base::<Bandwidth>(&text)
            }
            _ => text.trim().parse::<f64>().ok(),
        };
        let (least, most) = dimension.range();
        if let Some(number) = read.filter(|number| (least..=most).contains(number)) {
            return number;
        }
        let rule = match dimension {
            Dimension::Share => "a share lies between 0 and 1",
            Dimension::Left => "a share of a rate lies above 0, and is 1 at most",
            Dimension::Factor => "a factor is a number of at least 1",
            Dimension::Divisor => "a share of a rate is a number above 0",
            Dimension::Plain | Dimension::Code => "a number of a formula is finite, not negative",
            Dimension::Time => "a time of a formula is finite, not negative, and has its unit",
            _ => "a rate of a formula is at least 1 per second, and has its unit",
        };
        self.check.fault(&path, rule, format!("write {}", sample(dimension)));
        1.0
    }
}

/// How to write a number of a dimension.
fn sample(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Time => Duration::UNIT.sample,
        Dimension::Flops => FlopRate::UNIT.sample,
        Dimension::Memory | Dimension::Local | Dimension::Fixed | Dimension::Stated => {
            Bandwidth::UNIT.sample
        }
        Dimension::Factor | Dimension::Code => "1",
        _ => "0.5",
    }
}

impl DeviceTimes {
    /// The numbers for a device: as they are for the one that was measured, scaled for others and
    /// for one whose rates are not those that it has,
    /// which may have another number of processors and another cache.
    pub fn of(&self, compute: &Compute, processors: Option<u32>, cache: Option<u64>) -> OpTimes {
        let peak = |names: &[&str]| {
            let of = |name: &&str| compute.flops.iter().find(|(known, _)| known == name);
            names.iter().find_map(of).map(|(_, rate)| rate.get() as f64)
        };
        let (bf16, fp8, memory) = self.stated;
        let flops = peak(&["bf16", "fp16"]).map_or(1.0, |peak| peak / bf16);
        let count = processors.unwrap_or(self.times.processors);
        let ratios = Ratios {
            flops,
            fp8: peak(&["fp8"]).zip(fp8).map_or(flops, |(peak, of)| peak / of),
            memory: compute.memory.get() as f64 / memory,
            processors: f64::from(count) / f64::from(self.times.processors),
        };
        // The device itself, unless somebody changed its rates.
        let own = ratios.flops == 1.0 && ratios.memory == 1.0 && ratios.processors == 1.0;
        if own && ratios.fp8 == 1.0 && compute.name == self.device {
            return self.times.clone();
        }
        let cache = cache.unwrap_or(self.times.cache);
        OpTimes { processors: count, cache, ..self.times.scaled(ratios) }
    }
}
