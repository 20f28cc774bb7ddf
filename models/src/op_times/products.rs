//! What products of matrices take.
//!
//! A product is cut into tiles of its output, one for each processor at a time, and the inner
//! dimension of a tile may be split over several. The formula takes the best of a few tiles and
//! splits:
//!
//! launch + min over tiles and splits of norm(waves (step k / split + store), bytes / memory)
//! \+ split
//!
//! where `step` is the p-norm of what the tile's products take for one value of k and of what its
//! loads take. Of a tile that is higher than the output only the rows that are there are multiplied,
//! in instructions of 16, and weights that are stored in fewer bits are loaded so. Tables of single
//! operators are measured with matrices of zeros or in short bursts.
//! A device that multiplies real numbers for long draws so much power that it lowers its clock
//! (Horace He, "Strangely, Matrix Multiplications on GPUs Run Faster When Given Predictable Data",
//! 2024), and a share of the rate is left, `sustained`; how much of that a step feels depends on
//! how much of it is products ([`Throttle`]). The numbers were fitted to measured times of single
//! operators, <https://github.com/ai-dynamo/aiconfigurator> (Apache-2.0, NVIDIA CORPORATION &
//! AFFILIATES).

use super::{Throttle, norm_2, norm_4, numbers};
use crate::kernel::Product;

/// Rows and columns of output of one tile.
pub(super) const TILES: [(f64, f64); 6] =
    [(64.0, 64.0), (64.0, 128.0), (64.0, 256.0), (128.0, 64.0), (128.0, 128.0), (128.0, 256.0)];

/// Rows of one instruction that multiplies.
pub(super) const ROWS: f64 = 16.0;

/// Parts that the inner dimension of a tile may be split into.
const SPLITS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// Bytes of a number of 16 bits.
pub(super) const WIDE: f64 = 2.0;

numbers! {
    /// Numbers of products in 16 bits.
    ProductTimes {
        /// Launch and first latency.
        launch: Time,
        /// Rate of products.
        flops: Flops,
        /// Rate of memory.
        memory: Memory,
        /// Parts of both matrices into one processor: gives small tiles a lower rate, and sets the
        /// time of a long chain over k.
        fill: Local,
        /// The sum of the parts of a split.
        split: Time,
        /// The output of a tile that nothing hides; infinite where all of it is hidden.
        store: Local,
        /// The idle end of the last wave that is won back, from 0 to 1.
        tail: Share,
        /// The cost of a byte written against one read.
        write: Plain,
        /// How well loads hide behind products: p of the norm that joins them, 2 or 4.
        overlap: Code,
        /// The share of `flops` that is left when real numbers are multiplied for long and nothing
        /// else is done.
        sustained: Left,
        /// The share of `flops` that is left where a row of a matrix is a multiple of 4 or 8 bytes
        /// and not of 16, which the quickest kernels cannot load.
        rows_of_4_bytes: Left,
        /// The same where a row is a multiple of 2 bytes alone.
        rows_of_2_bytes: Left,
    }
}

impl ProductTimes {
    /// Seconds of a product on a device with so many processors. `saved`: bytes that its matrices
    /// have less than in 16 bits, all of it in the weights.
    pub fn seconds(&self, processors: u32, shape: &Product, throttle: Throttle, saved: f64) -> f64 {
        let flops = self.flops * throttle.left(self.sustained) * self.aligned(shape);
        self.launch + self.best(processors, shape, flops, saved)
    }

    /// The share of the rate of products that the alignment of a product's rows leaves.
    fn aligned(&self, shape: &Product) -> f64 {
        match shape.alignment(WIDE as u64) {
            16.. => 1.0,
            4.. => self.rows_of_4_bytes,
            _ => self.rows_of_2_bytes,
        }
    }

    /// Seconds of the best tile and split, without the launch.
    fn best(&self, processors: u32, shape: &Product, flops: f64, saved: f64) -> f64 {
        let (m, n, k) = (shape.m as f64, shape.n as f64, shape.k as f64);
        let processors = f64::from(processors.max(1));
        let bytes = WIDE * (m * k + n * k) + self.write * (WIDE * m * n);
        let memory = (bytes - saved) / self.memory;
        let weight = WIDE - saved.max(0.0) / (n * k);
        let rows = (m / ROWS).ceil() * ROWS;
        let mut best = f64::INFINITY;
        for (tile_m, tile_n) in TILES {
            let tiles = (m / tile_m).ceil() * (n / tile_n).ceil();
            let products = 2.0 * tile_m.min(rows) * tile_n / (flops / processors);
            let step = norm_4(products, (WIDE * tile_m + weight * tile_n) / self.fill);
            let store = WIDE * tile_m * tile_n / self.store;
            for split in SPLITS {
                let parts = tiles * split / processors;
                let waves = self.tail * parts + (1.0 - self.tail) * parts.ceil();
                let busy = waves.max(1.0) * (step * (k / split).ceil() + store);
                let joined = match self.overlap < 4.0 {
                    true => norm_2(busy, memory),
                    false => norm_4(busy, memory),
                };
                best = best.min(if split > 1.0 { joined + self.split } else { joined });
            }
        }
        best
    }
}
