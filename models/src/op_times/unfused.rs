//! What kernels take that a framework without a compiler runs for one operation each, its softmax
//! and its optimizer's update.
//!
//! floor + bytes / rate. A kernel whose inputs and result are alike goes through memory in vectors
//! of 16 bytes. One that has to find out where each element lies does not: its rate is the
//! processors', and no higher than that of the first.
//! Fitted to single kernels of PyTorch 2.11, `validation/results/2026-11-27-nvidia-h200-kernels`,
//! none of which found anything in the last cache.

use super::numbers;
use crate::kernel::Streaming;

numbers! {
    /// Numbers of the kernels of a device: of each kind a floor and the bytes per second that it
    /// reaches.
    UnfusedTimes {
        /// An operation of elements that lie alike.
        vectorized_floor: Time,
        /// Its rate.
        vectorized_rate: Memory,
        /// One of elements that do not.
        strided_floor: Time,
        /// Its rate, of one of the device's processors.
        strided_rate: Local,
        /// A sum or mean.
        reduction_floor: Time,
        /// Its rate.
        reduction_rate: Memory,
        /// A norm in one kernel.
        layer_norm_floor: Time,
        /// Its rate.
        layer_norm_rate: Memory,
        /// Softmax of rows, its logarithm, and their gradients.
        softmax_floor: Time,
        /// Its rate.
        softmax_rate: Memory,
        /// The update of parameters in one kernel.
        update_floor: Time,
        /// Its rate.
        update_rate: Memory,
    }
}

impl UnfusedTimes {
    /// Seconds of a kernel that reads and writes so many bytes, on so many processors; `None` of
    /// what is no such kernel.
    pub fn seconds(&self, class: Streaming, bytes: f64, processors: u32) -> Option<f64> {
        let (floor, rate) = match class {
            Streaming::Vectorized => (self.vectorized_floor, self.vectorized_rate),
            Streaming::Strided => {
                let own = self.strided_rate * f64::from(processors);
                (self.strided_floor, own.min(self.vectorized_rate))
            }
            Streaming::Reduction => (self.reduction_floor, self.reduction_rate),
            Streaming::LayerNorm => (self.layer_norm_floor, self.layer_norm_rate),
            Streaming::Softmax => (self.softmax_floor, self.softmax_rate),
            Streaming::Optimizer => (self.update_floor, self.update_rate),
            _ => return None,
        };
        Some(floor + bytes / rate)
    }

    /// Whether these numbers price such a kernel.
    pub fn has(&self, class: Streaming) -> bool {
        self.seconds(class, 0.0, 1).is_some()
    }
}
