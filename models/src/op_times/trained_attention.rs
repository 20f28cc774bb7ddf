//! Time of attention and of its gradients as training runs them: no cache is written, and no prompt
//! goes on from tokens before it.
//!
//! The formula is that of prompts without splits: a tile of query rows goes through the keys that it
//! sees, and the gradients go through the same pairs at a pace of their own. The numbers are fitted
//! to PyTorch's `scaled_dot_product_attention`, 12 shapes on an H200 and on an H100, forward, and
//! forward and backward together (`validation/results/2026-11-27-nvidia-h200-kernels` and the folder
//! of the H100 beside it).

use super::attention::{Shape, makespan};
use super::{norm_4, numbers};
use crate::kernel::Attention;
use serde::Deserialize;

crate::words! {
    /// Which kernels attention to many new tokens runs on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AttentionKernel {
        /// FlashAttention 2: PyTorch's `SDPBackend.FLASH_ATTENTION`, transformers'
        /// `flash_attention_2`.
        #[serde(rename = "flash_attention_2")]
        FlashAttention2 = "flash_attention_2",
        /// FlashAttention 3, of Hopper.
        #[serde(rename = "flash_attention_3")]
        FlashAttention3 = "flash_attention_3",
        /// cuDNN's: what PyTorch 2.11's `scaled_dot_product_attention` chose on an H200
        /// (`validation/results/2026-11-26-nvidia-h200-frameworks`), and Transformer Engine's.
        Cudnn = "cudnn",
    }
}

numbers! {
    /// Numbers of one kernel of attention, and of its gradients, on one device.
    TrainedAttentionTimes {
        /// Rows of queries that a processor works on at once.
        rows: Code,
        /// Launch of the kernel.
        launch: Time,
        /// Start and end of one tile.
        tile: Time,
        /// Rate of the products in 16 bits.
        flops: Flops,
        /// Scores (query times key) per second of the softmax.
        scores: Flops,
        /// Rows that a processor works on at once for the gradients.
        gradient_rows: Code,
        /// Launch of the kernels of the gradients.
        gradient_launch: Time,
        /// Start and end of one of their tiles.
        gradient_tile: Time,
        /// Rate at which the gradients go through the FLOPs of the forward pass: they multiply two
        /// and a half times as many.
        gradient_flops: Flops,
        /// Scores per second, with what is made of them for the gradients.
        gradient_scores: Flops,
        /// Rate for what the gradients' kernels read and write once.
        gradient_memory: Memory,
    }
}

/// Keys in a block of any of these kernels.
const BLOCK: f64 = 128.0;

impl TrainedAttentionTimes {
    /// Seconds of the forward pass.
    pub fn forward(&self, processors: u32, op: &Attention) -> f64 {
        let shape = Shape::new(op);
        let pace =
            Pace { rows: self.rows, tile: self.tile, flops: self.flops, scores: self.scores };
        self.launch + pace.seconds(processors, op, &shape)
    }

    /// Seconds of the gradients of queries, keys and values.
    pub fn backward(&self, processors: u32, op: &Attention) -> f64 {
        let shape = Shape::new(op);
        let pace = Pace {
            rows: self.gradient_rows,
            tile: self.gradient_tile,
            flops: self.gradient_flops,
            scores: self.gradient_scores,
        };
        // Queries, outputs and the gradients of both in 2 bytes a number; the sum of a gradient of
        // queries in 4, made zero, added to and read; keys, values and the gradients of both.
        let queries = shape.new * shape.heads * (8.0 + 12.0);
        let keys = (shape.past + shape.new) * shape.kv * 8.0;
        let bytes = shape.batch * shape.dim * (queries + keys);
        self.gradient_launch + pace.seconds(processors, op, &shape) + bytes / self.gradient_memory
    }
}

/// How one pass goes through pairs of a query and a key.
struct Pace {
    rows: f64,
    tile: f64,
    flops: f64,
    scores: f64,
}

impl Pace {
    /// Seconds of all tiles. For a key a tile's products and its softmax overlap.
    fn seconds(&self, processors: u32, op: &Attention, s: &Shape) -> f64 {
        let Pace { rows, tile, flops, scores } = *self;
        let sms = f64::from(processors.max(1));
        let key = norm_4(4.0 * rows * s.dim / (flops / sms), rows / (scores / sms));
        let tiles = s.batch * s.heads * (s.new / rows).ceil();
        let (longest, mean) = s.keys(op.causal, rows, BLOCK);
        makespan(tile + longest * key, tiles * (tile + mean * key), tiles, sms)
    }
}
