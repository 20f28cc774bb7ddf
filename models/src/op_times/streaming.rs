//! What kernels take that read and write memory once: norms, rotary positions, activations, sums,
//! look-ups, updates, copies.
//!
//! floor + bytes / rate x (missed + (1 - missed) / cached): a kernel has a floor, and then moves
//! its bytes at a rate. What the last cache holds goes quicker, if it is memory that holds the
//! kernel back: all of it up to half of the cache, less and less of it up to the whole.
//! Fitted to separate kernels of 2-byte numbers,
//! <https://github.com/microsoft/vidur> (MIT), of 1 to 32768 tokens. An engine that fuses kernels
//! has fewer of them, each with its own reads and writes.

use super::numbers;
use crate::kernel::Streaming;

numbers! {
    /// Numbers of the kernels of a device: of each kind a floor and the bytes per second that it
    /// reaches in memory.
    StreamingTimes {
        /// A norm of each token.
        norm_floor: Time,
        /// Its rate.
        norm_rate: Memory,
        /// Queries and keys turned in place.
        rotary_floor: Time,
        /// Its rate.
        rotary_rate: Memory,
        /// An activation times a gate.
        activation_floor: Time,
        /// Its rate.
        activation_rate: Memory,
        /// A sum of two; stands for dropout and copies too, and for what the device has no numbers
        /// of as an unfused kernel.
        sum_floor: Time,
        /// Its rate.
        sum_rate: Memory,
        /// Rows of a table.
        embedding_floor: Time,
        /// Its rate.
        embedding_rate: Memory,
        /// How much quicker norms and sums go in the cache.
        cached: Factor,
    }
}

impl StreamingTimes {
    /// Seconds of a kernel that reads and writes so many bytes, before a cache of `cache` bytes.
    pub fn seconds(&self, class: Streaming, bytes: f64, cache: f64) -> f64 {
        let (floor, rate, cached) = match class {
            // Operations of their own count with the kinds that they are of, where there are no
            // numbers of theirs.
            Streaming::Norm | Streaming::LayerNorm => {
                (self.norm_floor, self.norm_rate, self.cached)
            }
            Streaming::Rotary => (self.rotary_floor, self.rotary_rate, 1.0),
            Streaming::Activation => (self.activation_floor, self.activation_rate, 1.0),
            Streaming::Embedding => (self.embedding_floor, self.embedding_rate, 1.0),
            Streaming::ElementWise
            | Streaming::Softmax
            | Streaming::Optimizer
            | Streaming::Copy
            | Streaming::Vectorized
            | Streaming::Strided
            | Streaming::Reduction => (self.sum_floor, self.sum_rate, self.cached),
        };
        let half = 0.5 * cache;
        let missed = if bytes > half { ((bytes - half) / half).min(1.0) } else { 0.0 };
        floor + bytes / rate * (missed + (1.0 - missed) / cached)
    }
}
