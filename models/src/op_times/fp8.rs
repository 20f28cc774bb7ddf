//! What products of 8-bit floats take.
//!
//! A kernel turns activations of 16 bits to 8; another multiplies. Which tile it has follows from
//! the shape by rules that an engine wrote down, so it is known and need not be found:
//!
//! launches + norm(ceil(parts) (step k + tile), bytes / memory) + the turning of rows
//!
//! A few tiles alone run at the peak that the maker states; where all processors work, their clock
//! is lower. Fitted to measured times of single operators,
//! <https://github.com/ai-dynamo/aiconfigurator> (Apache-2.0, NVIDIA CORPORATION & AFFILIATES);
//! tiles are those of vLLM 0.24 (`csrc/quantization`, `scaled_mm_sm90_fp8_dispatch` and
//! `scaled_mm_sm100_fp8_dispatch`, Apache-2.0).

use super::products::{ProductTimes, ROWS, TILES, WIDE};
use super::{norm_2, norm_4, numbers};
use crate::kernel::Product;

numbers! {
    /// Numbers of products of 8-bit floats with 16 bits in and out: activations are turned to 8
    /// bits by a kernel of their own, with one scale per row.
    Fp8Times {
        /// Which kernels run: those that vLLM has from CUTLASS for devices of compute capability
        /// 9.0 (90) and 10.0 (100), which it picks by m, n and k; the best of a few tiles (0).
        kernels: Code,
        /// Rate of products of processors that work alone.
        flops: Flops,
        /// The share of it that is left when all processors work, and the clock is lower.
        busy: Divisor,
        /// Rate of memory.
        memory: Memory,
        /// Parts of both matrices into one processor; infinite where they hide.
        fill: Local,
        /// Start and end of a tile.
        tile: Time,
        /// The same of a tile for up to 64 rows.
        small_tile: Time,
        /// Launch of the kernel that turns activations.
        launch: Time,
        /// The time of 2048 values of a row in it, of which the next follow.
        pass: Time,
        /// The least time of a row in it, where a processor has another before.
        row: Time,
        /// Bytes of activations per second in it.
        rate: Memory,
    }
}

/// A kernel's tile on one processor.
#[derive(Clone, Copy)]
struct Tile {
    /// Rows and columns of output.
    sides: [f64; 2],
    /// Tiles that run together along rows and columns; where there are fewer, some are empty.
    together: [f64; 2],
}

impl Tile {
    const fn of(rows: f64, columns: f64) -> Tile {
        Tile { sides: [rows, columns], together: [1.0, 1.0] }
    }

    const fn together(self, rows: f64, columns: f64) -> Tile {
        Tile { together: [rows, columns], ..self }
    }

    /// What vLLM 0.24 picks for a Hopper device (`sm90_fp8_config`). From m of 8192 and k of 6144
    /// on it has a tile of 256 rows, which the measured times do not tell from this one.
    const fn hopper(shape: &Product) -> Tile {
        match (shape.m, shape.n) {
            (..=16, _) | (..=64, ..=1280) => Tile::of(16.0, 64.0),
            (..=64, _) => Tile::of(64.0, 64.0),
            (..=128, _) => Tile::of(64.0, 128.0),
            _ => Tile::of(128.0, 128.0).together(2.0, 1.0),
        }
    }

    /// What vLLM 0.24 picks for a Blackwell device (`sm100_fp8_config`); two processors share a
    /// tile. At m of 64 and k below 4096 it has no groups, which the measured times do not tell
    /// either.
    const fn blackwell(shape: &Product) -> Tile {
        match shape.m {
            ..=16 => Tile::of(32.0, 128.0),
            17..=64 => Tile::of(64.0, 64.0).together(1.0, 8.0),
            65..=256 => Tile::of(64.0, 128.0).together(2.0, 1.0),
            _ => Tile::of(128.0, 128.0).together(2.0, 2.0),
        }
    }
}

impl Fp8Times {
    /// Seconds of a product, with its activations turned to 8 bits; its launch is that of products
    /// in 16 bits. `saved`: bytes that its weights have less than in 8 bits.
    pub fn seconds(
        &self,
        wide: &ProductTimes,
        processors: u32,
        shape: &Product,
        saved: f64,
    ) -> f64 {
        let processors = f64::from(processors.max(1));
        let of = |tile| self.tiled(processors, shape, tile, saved);
        let product = match self.kernels {
            90.0 => of(Tile::hopper(shape)),
            100.0 => of(Tile::blackwell(shape)),
            _ => TILES.iter().fold(f64::INFINITY, |best, &(rows, columns)| {
                let rows = rows.min((shape.m as f64 / ROWS).ceil() * ROWS);
                best.min(of(Tile::of(rows, columns)))
            }),
        };
        wide.launch + product + self.quantize(processors, shape.m as f64, shape.k as f64)
    }

    /// Seconds of a product by one kernel, without its launch.
    fn tiled(&self, processors: f64, shape: &Product, tile: Tile, saved: f64) -> f64 {
        let (m, n, k) = (shape.m as f64, shape.n as f64, shape.k as f64);
        let [rows, columns] = tile.sides;
        let [down, across] = tile.together;
        let tiles = (m / (rows * down)).ceil() * down * (n / (columns * across)).ceil() * across;
        let parts = tiles / processors;
        let rate = self.flops / processors * (1.0 - (1.0 - self.busy) * parts.min(1.0));
        let step = norm_4(2.0 * rows * columns / rate, (rows + columns) / self.fill);
        let (depth, ends) = match shape.m {
            ..=64 => (256.0, self.small_tile),
            _ => (128.0, self.tile),
        };
        let deep = (k / depth).ceil() * depth;
        let memory = (m * k + n * k + WIDE * (m * n) - saved) / self.memory;
        norm_4(parts.ceil() * (step * deep + ends), memory)
    }

    /// Seconds to turn so many rows of so many values.
    fn quantize(&self, processors: f64, rows: f64, values: f64) -> f64 {
        let row = norm_2(self.row, WIDE * values * processors / self.rate);
        self.launch
            + self.pass * (values / 2048.0).ceil()
            + ((rows / processors).ceil() - 1.0) * row
    }
}
