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
pub mod products;
pub mod streaming;
pub mod throttle;
pub mod unfused;

#[cfg(test)]
mod tests;

use crate::kernel::{Kernel, Work};
use attention::AttentionTimes;
use collectives::CollectiveTimes;
use experts::ExpertTimes;
use products::ProductTimes;
use streaming::StreamingTimes;
pub use throttle::Throttle;
use unfused::UnfusedTimes;

/// What a number of a formula is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Seconds.
    Time,
    /// FLOP per second of the device.
    Flops,
    /// Bytes per second of the device's memory.
    Memory,
    /// Bytes per second of one of the device's processors; as quick as it computes.
    Local,
    /// Bytes per second of something that is the same on every device.
    Fixed,
    /// Bytes per second that the device's maker states; no measurement changes it.
    Stated,
    /// A part of something, a count, a cost against another; zero where there is none of it.
    Plain,
    /// A share of a rate, which divides, and so lies above zero.
    Divisor,
    /// A share from 0 to 1.
    Share,
    /// A factor of at least 1.
    Factor,
    /// Which kernels run, or what their makers wrote into them; no measurement changes it.
    Code,
    /// A share of a rate that is left where something holds it back; a file may leave it out, which
    /// is 1. No fit moves it: tables of single operators do not tell it, or not apart from the rate.
    Left,
}

impl Dimension {
    /// The least and the most that a number of this dimension may be.
    pub const fn range(self) -> (f64, f64) {
        match self {
            Dimension::Time | Dimension::Plain | Dimension::Code => (0.0, f64::MAX),
            Dimension::Flops | Dimension::Memory | Dimension::Fixed | Dimension::Stated => {
                (1.0, f64::MAX)
            }
            // What hides behind something else has a rate without end.
            Dimension::Local => (1.0, f64::INFINITY),
            Dimension::Divisor => (1e-6, f64::MAX),
            Dimension::Left => (1e-6, 1.0),
            Dimension::Share => (0.0, 1.0),
            Dimension::Factor => (1.0, f64::MAX),
        }
    }

    /// Whether measurements tell such a number.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Dimension::Stated | Dimension::Code | Dimension::Left)
    }
}

/// Declares the numbers of a formula, each with its dimension: a struct of doubles, and a list of
/// them for whoever reads, writes, scales or fits them.
macro_rules! numbers {
    ($(#[$of_all:meta])* $name:ident { $($(#[$of_one:meta])* $field:ident: $dimension:ident,)+ }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name {
            $($(#[$of_one])* pub $field: f64,)+
        }

        impl $crate::op_times::Numbers for $name {
            fn each(&mut self, see: &mut dyn FnMut(&'static str, $crate::op_times::Dimension, &mut f64)) {
                $(see(stringify!($field), $crate::op_times::Dimension::$dimension, &mut self.$field);)+
            }
        }

        impl $name {
            const fn bits(&self) -> [u64; [$(stringify!($field)),+].len()] {
                [$(self.$field.to_bits()),+]
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.bits() == other.bits()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &$name) -> std::cmp::Ordering {
                self.bits().cmp(&other.bits())
            }
        }
    };
}
pub(crate) use numbers;

/// The numbers of a formula.
pub trait Numbers {
    /// Shows each of them: its name, its dimension, and itself in base units.
    fn each(&mut self, see: &mut dyn FnMut(&'static str, Dimension, &mut f64));
}

/// Attention's gradients to its forward pass, five products for two. Median of 24 measured pairs, of
/// which half lie within 9 per cent of it and all between 2.5 and 4.4: two libraries, twelve shapes,
/// `validation/results/2026-11-27-nvidia-h200-kernels`.
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

impl OpTimes {
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
            Work::Product(shape) if wide => {
                let of = self.products?;
                let throttle = around.throttle();
                Some((of.numbers.seconds(self.processors, shape, throttle), of.by()))
            }
            Work::Product(shape) if precision == "fp8" => {
                let (wide, of) = (self.products?, self.fp8?);
                let seconds = of.numbers.seconds(&wide.numbers, self.processors, shape);
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
                Some((of.numbers.seconds(self.on(), shape), of.by()))
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
    pub const SECTIONS: [&str; 10] = [
        "products",
        "fp8",
        "attention",
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
                    Dimension::Local => r.flops / r.processors,
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
