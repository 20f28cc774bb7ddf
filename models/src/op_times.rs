//! What kernels take on a device, by formulas of a few numbers that were fitted to measurements.
//!
//! A formula says what a kernel of any shape takes: products, attention, experts, kernels that
//! stream, collectives. Its numbers are data (`hardware-specs/op-times`): one set per device, with
//! the source of the measurements and the errors of the fit. A device without measurements of its
//! own takes those of another: rates are scaled by the ratio of what both devices state, times and
//! shares stay ([`OpTimes::scaled`]). What has no formula, or no numbers, is left to the roofline.
//! Invariant: formulas use additions, products, quotients, square roots and comparisons only, so
//! every computer gives the same bits.

pub mod attention;
pub mod collectives;
pub mod experts;
pub mod fp8;
pub mod numbers;
pub mod products;
pub mod streaming;
pub mod throttle;
pub mod trained_attention;
pub mod unfused;

#[cfg(test)]
mod tests;

use crate::kernel::{Kernel, Product, Work};
use crate::units::Bytes;
use attention::AttentionTimes;
use collectives::CollectiveTimes;
use experts::ExpertTimes;
pub(crate) use numbers::numbers;
pub use numbers::{Dimension, Numbers};
use products::ProductTimes;
use streaming::StreamingTimes;
pub use throttle::Throttle;
pub use trained_attention::AttentionKernel;
use trained_attention::TrainedAttentionTimes;
use unfused::UnfusedTimes;

/// Attention's gradients to its forward pass, five products for two, where no kernel of training has
/// numbers. Median of 24 measured pairs, of which half lie within 9 per cent of it and all between
/// 2.5 and 4.4: two libraries, twelve shapes, `validation/results/2026-11-27-nvidia-h200-kernels`.
const GRADIENTS: f64 = 3.0;

/// How a kernel was priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PricedBy {
    /// By numbers fitted to the device.
    Measurement,
    /// By numbers of another device, scaled.
    Inheritance,
    /// By the device's peak and memory rate.
    Roofline,
}

/// Numbers of one formula, and whether they were measured on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fitted<T> {
    /// The numbers.
    pub numbers: T,
    /// Whether they are another device's.
    pub inherited: bool,
}

impl<T> Fitted<T> {
    /// How what these numbers price is known.
    pub const fn by(&self) -> PricedBy {
        if self.inherited { PricedBy::Inheritance } else { PricedBy::Measurement }
    }
}

/// What two devices state, as a ratio: the one that is wanted to the one that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Of rates of products in 16 bits.
    pub flops: f64,
    /// Of rates of products in 8 bits; that of 16 bits where one of them states none.
    pub fp8: f64,
    /// Of rates of memory.
    pub memory: f64,
    /// Of numbers of processors.
    pub processors: f64,
}

/// What goes on around a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Around {
    /// It runs again and again on the same data, as in a measurement of single operators.
    Itself,
    /// A step: the last cache has other things by then, and the device's limit of power may have
    /// lowered its clock.
    Step(Throttle),
}

impl Around {
    fn throttle(self) -> Throttle {
        match self {
            Around::Itself => Throttle::NONE,
            Around::Step(throttle) => throttle,
        }
    }
}

/// What kernels take on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpTimes {
    /// The file that the numbers come from.
    pub name: String,
    /// The device's processors: streaming multiprocessors.
    pub processors: u32,
    /// Bytes of its last cache.
    pub cache: u64,
    /// Products in 16 bits.
    pub products: Option<Fitted<ProductTimes>>,
    /// Products in 8 bits.
    pub fp8: Option<Fitted<fp8::Fp8Times>>,
    /// Attention of prompts and of single tokens.
    pub attention: Option<Fitted<AttentionTimes>>,
    /// Attention of many new tokens and its gradients by FlashAttention 2, without a cache.
    pub flash_attention_2: Option<Fitted<TrainedAttentionTimes>>,
    /// The same by cuDNN.
    pub cudnn: Option<Fitted<TrainedAttentionTimes>>,
    /// Experts of a layer in 16 bits.
    pub experts: Option<Fitted<ExpertTimes>>,
    /// The same in 8 bits.
    pub experts_fp8: Option<Fitted<ExpertTimes>>,
    /// Experts on one device, and their width, for which the kernel of experts in 16 bits has a table
    /// of tiles that were tuned.
    pub tuned_experts: Vec<(u64, u64)>,
    /// Large experts, of which a token goes through one or two, where other kernels run them.
    pub experts_few: Option<Fitted<ExpertTimes>>,
    /// The same in 8 bits.
    pub experts_few_fp8: Option<Fitted<ExpertTimes>>,
    /// Kernels that are bound by memory.
    pub streaming: Option<Fitted<StreamingTimes>>,
    /// Those that run for one operation each.
    pub unfused: Option<Fitted<UnfusedTimes>>,
    /// Collectives within a server.
    pub collectives: Option<Fitted<CollectiveTimes>>,
}

/// Whether numbers have 16 bits.
fn is_wide(precision: &str) -> bool {
    matches!(precision, "bf16" | "fp16")
}

/// A matrix with a side of fewer numbers stays in 16 bits where others are multiplied in 8, as routers
/// and adapters do: turning its input to 8 bits would take longer than that saves.
const LEAST_IN_8_BITS: u64 = 128;

/// Whether the weight of a product is so small, or its gradient.
fn is_small(shape: &Product) -> bool {
    let rows = if shape.transposed { shape.m } else { u64::MAX };
    shape.n.min(shape.k).min(rows) < LEAST_IN_8_BITS
}

/// Bytes that a product's matrices have less than in `width` bytes a number, where weights are stored
/// in a narrower format and multiplied in this one, or more, where all three are stored in a wider
/// one: by what the kernel reads and writes in all. Of a kernel that says no bytes nothing is known.
fn saved(kernel: &Kernel, shape: &Product, width: f64) -> f64 {
    if kernel.bytes == Bytes::ZERO {
        return 0.0;
    }
    let (m, n, k) = (shape.m as f64, shape.n as f64, shape.k as f64);
    let all = width * (m * k + m * n + n * k);
    let saved = all - kernel.bytes.get() as f64;
    // Formats of 8 bits and fewer save half and more; one that is as wide again doubles all. Between
    // them lie results of 32 bits and sums that are added to. Weights save no more than all that
    // they have: more is of an input that is kept in 8 bits.
    let weights = width * n * k;
    let narrower = saved > 0.25 * weights && saved < weights;
    if narrower || saved < -0.999 * all { saved } else { 0.0 }
}

impl OpTimes {
    /// As [`OpTimes::seconds`], where attention of many new tokens and its gradients run on another
    /// kernel than the engine's, if one is named.
    pub fn seconds_on(
        &self,
        attention: Option<AttentionKernel>,
        precision: &str,
        kernel: &Kernel,
        around: Around,
    ) -> Option<(f64, PricedBy)> {
        let attended = attention.and_then(|on| self.attended(on, precision, kernel));
        attended.or_else(|| self.seconds(precision, kernel, around))
    }

    /// Seconds of one kernel whose products have this precision, and how that is known; `None` for
    /// what has no formula or no numbers.
    pub fn seconds(
        &self,
        precision: &str,
        kernel: &Kernel,
        around: Around,
    ) -> Option<(f64, PricedBy)> {
        let warm = around == Around::Itself;
        let wide = is_wide(precision);
        match &kernel.work {
            Work::Product(shape) if wide || (precision == "fp8" && !warm && is_small(shape)) => {
                let of = self.products?;
                let throttle = around.throttle();
                let saved = saved(kernel, shape, 2.0);
                Some((of.numbers.seconds(self.processors, shape, throttle, saved), of.by()))
            }
            Work::Product(shape) if precision == "fp8" => {
                let (wide, of) = (self.products?, self.fp8?);
                let saved = saved(kernel, shape, 1.0);
                let seconds = of.numbers.seconds(&wide.numbers, self.processors, shape, saved);
                Some((seconds, of.by().max(wide.by())))
            }
            Work::Attention(shape) if wide || precision == "fp8" => {
                let of = self.attention?;
                Some((of.numbers.seconds(self.processors, shape, warm), of.by()))
            }
            Work::AttentionBackward(shape) if wide || precision == "fp8" => {
                let of = self.attention?;
                let forward = of.numbers.seconds(self.processors, shape, warm);
                Some((GRADIENTS * forward, PricedBy::Inheritance))
            }
            Work::Experts(shape) if wide || precision == "fp8" => {
                let of = self.experts_of(precision == "fp8", shape.top_k.into())?;
                let bytes = kernel.bytes.get() as f64;
                Some((of.numbers.seconds(self.on(), shape, bytes), of.by()))
            }
            Work::Streaming(class) => {
                let bytes = kernel.bytes.get() as f64;
                let unfused = self.unfused.and_then(|of| {
                    Some((of.numbers.seconds(*class, bytes, self.processors)?, of.by()))
                });
                unfused.or_else(|| {
                    let of = self.streaming?;
                    Some((of.numbers.seconds(*class, bytes, self.cache as f64), of.by()))
                })
            }
            _ => None,
        }
    }

    /// The kernels of attention that it has numbers for: those of a section of their own, and those
    /// that prompts of its engine run on.
    pub fn attention_kernels(&self) -> impl Iterator<Item = AttentionKernel> {
        let engine = self.attention.and_then(|of| of.numbers.kernel());
        let has = move |kernel: &AttentionKernel| {
            self.trained(*kernel).is_some() || engine == Some(*kernel)
        };
        AttentionKernel::ALL.into_iter().filter(has)
    }

    /// What is told of a kernel of attention that it has no numbers for: the rule and the remedy.
    pub fn without(&self, kernel: AttentionKernel) -> Option<(String, String)> {
        let known: Vec<&str> = self.attention_kernels().map(AttentionKernel::word).collect();
        if known.contains(&kernel.word()) {
            return None;
        }
        let rule = format!("its op times have no numbers for {}", kernel.word());
        let remedy = match known.is_empty() {
            true => "leave it out: they have one kind of attention".to_owned(),
            false => format!("write {}, or leave it out", known.join(" or ")),
        };
        Some((rule, remedy))
    }

    /// The numbers of one kernel of attention, if it has a section of its own.
    fn trained(&self, kernel: AttentionKernel) -> Option<Fitted<TrainedAttentionTimes>> {
        match kernel {
            AttentionKernel::FlashAttention2 => self.flash_attention_2,
            AttentionKernel::FlashAttention3 => None,
            AttentionKernel::Cudnn => self.cudnn,
        }
    }

    /// Seconds of a kernel where attention of many new tokens and its gradients run on `attention`,
    /// and how that is known; `None` for all other kernels, and without numbers of that one.
    pub fn attended(
        &self,
        attention: AttentionKernel,
        precision: &str,
        kernel: &Kernel,
    ) -> Option<(f64, PricedBy)> {
        let of = self.trained(attention).filter(|_| is_wide(precision) || precision == "fp8")?;
        let seconds = match &kernel.work {
            // A cache of fewer bits is read by kernels that no training runs.
            Work::Attention(shape) if shape.new > 1 && shape.kv_bytes >= 2 => {
                of.numbers.forward(self.processors, shape)
            }
            Work::AttentionBackward(shape) => of.numbers.backward(self.processors, shape),
            _ => return None,
        };
        Some((seconds, of.by()))
    }

    /// Whether products of this precision have numbers.
    pub fn multiplies(&self, precision: &str) -> bool {
        match precision {
            "fp8" => self.products.is_some() && self.fp8.is_some(),
            _ => self.products.is_some() && is_wide(precision),
        }
    }

    /// The device, for experts.
    pub fn on(&self) -> experts::On<'_> {
        let OpTimes { processors, cache, .. } = *self;
        experts::On { processors, cache, tuned: &self.tuned_experts }
    }

    /// The rate of products of this precision if a long run of them has less.
    pub fn held_back(&self, precision: &str) -> Option<f64> {
        let numbers = self.products.filter(|_| is_wide(precision))?.numbers;
        (numbers.sustained < 1.0).then_some(numbers.flops)
    }

    /// The numbers of experts, of which a token goes through `top_k`.
    pub fn experts_of(&self, fp8: bool, top_k: u64) -> Option<Fitted<ExpertTimes>> {
        let (few, all) = match fp8 {
            true => (self.experts_few_fp8, self.experts_fp8),
            false => (self.experts_few, self.experts),
        };
        if top_k <= 2 { few.or(all) } else { all }
    }

    /// Sections that a file of op times may have, in its order.
    pub const SECTIONS: [&str; 12] = [
        "products",
        "fp8",
        "attention",
        "flash_attention_2",
        "cudnn",
        "experts",
        "experts_fp8",
        "experts_few",
        "experts_few_fp8",
        "streaming",
        "unfused",
        "collectives",
    ];

    /// The numbers of a section of the file, and whether they are another device's; `None` where it
    /// has no such section.
    pub fn section(&mut self, name: &str) -> Option<(&mut dyn Numbers, &mut bool)> {
        fn of<T: Numbers>(of: &mut Option<Fitted<T>>) -> Option<(&mut dyn Numbers, &mut bool)> {
            of.as_mut().map(|Fitted { numbers, inherited }| (numbers as _, inherited))
        }
        match name {
            "products" => of(&mut self.products),
            "fp8" => of(&mut self.fp8),
            "attention" => of(&mut self.attention),
            "flash_attention_2" => of(&mut self.flash_attention_2),
            "cudnn" => of(&mut self.cudnn),
            "experts" => of(&mut self.experts),
            "experts_fp8" => of(&mut self.experts_fp8),
            "experts_few" => of(&mut self.experts_few),
            "experts_few_fp8" => of(&mut self.experts_few_fp8),
            "streaming" => of(&mut self.streaming),
            "unfused" => of(&mut self.unfused),
            "collectives" => of(&mut self.collectives),
            _ => None,
        }
    }

    /// The numbers for another device: rates by the ratio of what both state, all else as it is.
    pub fn scaled(&self, ratios: Ratios) -> OpTimes {
        fn scale<T: Numbers + Copy>(of: Option<Fitted<T>>, r: Ratios) -> Option<Fitted<T>> {
            let Fitted { mut numbers, .. } = of?;
            numbers.each(&mut |_, dimension, number| {
                *number *= match dimension {
                    Dimension::Flops => r.flops,
                    Dimension::Memory => r.memory,
                    // Processors that multiply more slowly, as those of cards for games, load as fast.
                    Dimension::Local => (r.flops / r.processors).max(1.0),
                    _ => 1.0,
                };
            });
            Some(Fitted { numbers, inherited: true })
        }
        OpTimes {
            name: self.name.clone(),
            processors: self.processors,
            cache: self.cache,
            products: scale(self.products, ratios),
            fp8: scale(self.fp8, Ratios { flops: ratios.fp8, ..ratios }),
            attention: scale(self.attention, ratios),
            flash_attention_2: scale(self.flash_attention_2, ratios),
            cudnn: scale(self.cudnn, ratios),
            experts: scale(self.experts, ratios),
            experts_fp8: scale(self.experts_fp8, Ratios { flops: ratios.fp8, ..ratios }),
            // Tables are made for a device by its name.
            tuned_experts: Vec::new(),
            experts_few: scale(self.experts_few, ratios),
            experts_few_fp8: scale(self.experts_few_fp8, Ratios { flops: ratios.fp8, ..ratios }),
            streaming: scale(self.streaming, ratios),
            unfused: scale(self.unfused, ratios),
            collectives: scale(self.collectives, ratios),
        }
    }
}

/// The p-norm of two times for p = 2.
pub(crate) fn norm_2(a: f64, b: f64) -> f64 {
    // Scaled by the larger time, so that no power can overflow.
    let top = a.max(b);
    if top <= 0.0 || !top.is_finite() {
        return top;
    }
    let (x, y) = (a / top, b / top);
    top * (x * x + y * y).sqrt()
}

/// The p-norm of two times for p = 4.
pub(crate) fn norm_4(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top <= 0.0 || !top.is_finite() {
        return top;
    }
    let (x, y) = (a / top, b / top);
    let (x, y) = (x * x, y * y);
    top * (x * x + y * y).sqrt().sqrt()
}
