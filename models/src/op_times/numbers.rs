//! The numbers of a formula, each with its name and dimension, for whoever reads, writes, scales or
//! fits them.

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
