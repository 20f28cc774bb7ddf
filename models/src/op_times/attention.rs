//! Time of one attention operator (prefill or decode) from its shape and a few device numbers.
//!
//! The formula follows what the kernels of three families do: tiles of queries over blocks of
//! keys, tiles on the multiprocessors, splits of the keys with a merge, the write of new keys and
//! values to the cache. The numbers are fitted to the operator times in
//! <https://github.com/ai-dynamo/aiconfigurator> (Apache-2.0, Copyright NVIDIA CORPORATION &
//! AFFILIATES): A100 with vLLM 0.14.0, H100 and B200 with vLLM 0.24.0, no tokens in the cache
//! before a prefill. Queries and outputs have 2 bytes per element. Only + - * / min max ceil and
//! sqrt are used, so every computer gets the same bits.

use super::{AttentionKernel, norm_4, numbers};
use crate::kernel::Attention;

/// Which kernels run, which fixes tile shapes and what may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernels {
    /// Ampere and Ada: prefill is not split; decode is split only where query heads share keys and
    /// there is no window.
    FlashAttention2,
    /// Hopper: query heads that share keys are packed in one tile; prefill and decode are split.
    FlashAttention3,
    /// Blackwell (the TensorRT-LLM kernels): large tiles; prefill is not split, decode is.
    TrtllmGen,
}

numbers! {
    /// Numbers of attention on one device.
    AttentionTimes {
        /// The family of kernels: 2 or 3 for FlashAttention 2 or 3, 4 for those of Blackwell.
        family: Code,
        /// Bytes of keys and values that the last cache keeps from before; 0 where none can be.
        l2_bytes: Code,
        /// Rate of the products in 16 bits.
        flops: Flops,
        /// The same with an 8-bit cache.
        flops_fp8: Flops,
        /// Scores (query times key) per second of the softmax.
        scores: Flops,
        /// The same with an 8-bit cache.
        scores_fp8: Flops,
        /// A block of 512 threads writes one token to the cache.
        write: Time,
        /// The same with an 8-bit cache.
        write_fp8: Time,
        /// Prompts: launch of the kernels.
        prefill_launch: Time,
        /// More of it with an 8-bit cache, at a head of 128, in proportion to it.
        prefill_launch_fp8: Time,
        /// Start and end of one tile.
        prefill_tile: Time,
        /// Rate for queries, outputs, keys and values.
        prefill_memory: Memory,
        /// How much quicker one tile runs alone than under full load, at least 1.
        prefill_lone_speedup: Factor,
        /// Launch of the merge where keys are split.
        prefill_merge: Time,
        /// FlashAttention 3: more of a tile whose query rows are loaded one by one.
        prefill_rows: Time,
        /// Rate for the new keys and values that the write of the cache reads.
        prefill_write: Memory,
        /// Single tokens: launch of the kernels.
        decode_launch: Time,
        /// More of it with an 8-bit cache, at a head of 128, in proportion to it.
        decode_launch_fp8: Time,
        /// More of it with heads of more than 64.
        decode_head: Time,
        /// Start and end of one unit of work: a sequence, a KV head, a part of its keys.
        decode_unit: Time,
        /// Rate of a tile, of that of a tile of a prompt.
        decode_efficiency: Divisor,
        /// Rate of memory.
        decode_memory: Memory,
        /// Rate where keys and values are in the last cache.
        decode_l2: Memory,
        /// Launch of the merge where keys are split.
        decode_merge: Time,
        /// Merge of one more part of the keys.
        decode_part: Time,
        /// FlashAttention 2: the two copies that swap query heads and tokens.
        decode_copy: Time,
        /// Blackwell: the kernels for more than 8 query heads per KV head.
        decode_wide: Time,
        /// Scheduling of one more sequence, of at most 992.
        decode_sequence: Time,
    }
}

/// Into how many parts the keys may be split.
const SPLITS: [f64; 14] =
    [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0];
/// vLLM lets FlashAttention 3 make no more parts than this (its setting for graphs).
const FLASH3_SPLITS: f64 = 32.0;
/// Query heads per KV head for which FlashAttention 3 loads a tile of queries at once: one, where
/// nothing is packed, and by the measured times 4, 8 and 16, for which vLLM's build of it must have
/// kernels of their own.
const FLASH3_COPIED: [f64; 4] = [1.0, 4.0, 8.0, 16.0];
/// Sequences that one block of FlashAttention 3's scheduling kernel plans: 31 for each of 32 warps
/// (`prepare_varlen_num_blocks`). Larger batches are cut evenly and planned by several blocks at
/// once.
const SCHEDULED: f64 = 992.0;
/// Threads that one multiprocessor can hold, and the most that the cache write uses for a token.
const SM_THREADS: f64 = 2048.0;
const WRITE_THREADS: f64 = 512.0;

/// `x` rounded up to whole blocks of `n`.
fn up(x: f64, n: f64) -> f64 {
    (x / n).ceil() * n
}

/// Time until `units` of work are done on `sms` multiprocessors: at least the longest unit, and
/// the even share plus the half of a longest unit that sticks out where the multiprocessors do not
/// get equally many.
pub(super) fn makespan(longest: f64, total: f64, units: f64, sms: f64) -> f64 {
    longest.max(total / sms + 0.5 * longest * (1.0 - sms / units).max(0.0))
}

/// The shape in doubles.
pub(super) struct Shape {
    pub(super) batch: f64,
    pub(super) new: f64,
    pub(super) past: f64,
    pub(super) heads: f64,
    pub(super) kv: f64,
    /// Query heads per KV head.
    group: f64,
    pub(super) dim: f64,
    window: Option<f64>,
    kv_bytes: f64,
    fp8: bool,
}

impl Shape {
    pub(super) fn new(op: &Attention) -> Self {
        let (heads, kv) = (f64::from(op.heads), f64::from(op.kv_heads));
        Self {
            batch: op.batch as f64,
            new: op.new as f64,
            past: op.past as f64,
            heads,
            kv,
            group: (heads / kv).max(1.0),
            dim: f64::from(op.head_dim),
            window: (op.window > 0).then_some(f64::from(op.window)),
            kv_bytes: f64::from(op.kv_bytes),
            fp8: op.kv_bytes < 2,
        }
    }

    /// Keys that the tile of a sequence sees which sees most, and that one sees in the mean, where a
    /// tile holds the queries of `span` tokens and goes through whole blocks of keys. A window caps
    /// both.
    pub(super) fn keys(&self, causal: bool, span: f64, block: f64) -> (f64, f64) {
        let last = up(self.past + self.new, block);
        let first = up(self.past + span, block).min(last);
        match self.window.map(|w| up(w + span, block)) {
            Some(cap) if first >= cap => (cap.min(last), cap),
            Some(cap) if cap < last => {
                let ramp = (cap - first) / (last - first);
                (cap, ramp * (first + cap) / 2.0 + (1.0 - ramp) * cap)
            }
            _ if !causal => (last, last),
            _ => (last, (first + last) / 2.0),
        }
    }
}

impl AttentionTimes {
    fn family(&self) -> Kernels {
        match self.family {
            family if family < 3.0 => Kernels::FlashAttention2,
            family if family < 4.0 => Kernels::FlashAttention3,
            _ => Kernels::TrtllmGen,
        }
    }

    /// The kernel of prompts, if it has a name that others know it by.
    pub fn kernel(&self) -> Option<AttentionKernel> {
        match self.family() {
            Kernels::FlashAttention2 => Some(AttentionKernel::FlashAttention2),
            Kernels::FlashAttention3 => Some(AttentionKernel::FlashAttention3),
            Kernels::TrtllmGen => None,
        }
    }

    /// Seconds of the operator, with its cache write. One new token takes the decode kernels, so
    /// two tokens may take less than one.
    pub fn seconds(&self, processors: u32, op: &Attention, warm: bool) -> f64 {
        let sms = f64::from(processors.max(1));
        if op.new <= 1 { self.decode(sms, op, warm) } else { self.prefill(sms, op) }
    }

    /// Seconds with the prefill kernels.
    fn prefill(&self, sms: f64, op: &Attention) -> f64 {
        let s = Shape::new(op);
        let packed = self.family() == Kernels::FlashAttention3;
        // Rows of queries in a tile, and keys in a block.
        let (rows, block) = match self.family() {
            Kernels::FlashAttention2 => (128.0, 64.0),
            Kernels::FlashAttention3 => (if s.dim <= 64.0 { 192.0 } else { 128.0 }, 128.0),
            Kernels::TrtllmGen => (if s.dim <= 128.0 { 256.0 } else { 128.0 }, 128.0),
        };
        // Packed tiles hold the query heads of one KV head, so they cover fewer tokens.
        let (span, tiles) = if packed {
            (rows / s.group, s.batch * s.kv * (s.new * s.group / rows).ceil())
        } else {
            (rows, s.batch * s.heads * (s.new / rows).ceil())
        };
        let (longest, mean) = s.keys(op.causal, span, block);
        let key_s = self.key(sms, rows, &s);
        let loaded = packed && !FLASH3_COPIED.contains(&s.group);
        let tile_s = self.prefill_tile + if loaded { self.prefill_rows } else { 0.0 };
        let (mut best, mut fewer) = (f64::INFINITY, 1.0);
        for parts in SPLITS {
            if parts > 1.0 && (!packed || parts > FLASH3_SPLITS || fewer * block >= longest) {
                break;
            }
            let lone = (tile_s + (longest / parts).max(block) * key_s) / self.prefill_lone_speedup;
            let total = tiles * (parts * tile_s + mean * key_s);
            let mut t = makespan(lone, total, tiles * parts, sms);
            if parts > 1.0 {
                // Every part writes its outputs in 4 bytes, and the merge reads them.
                t += self.prefill_merge
                    + parts * s.batch * s.new * s.heads * s.dim * 8.0 / self.prefill_memory;
            }
            best = best.min(t);
            fewer = parts;
        }
        // Queries in, outputs out; an fp8 cache needs the queries in fp8 too: one more pass.
        let rows_bytes = s.new * s.heads * s.dim * if s.fp8 { 6.0 } else { 4.0 };
        let kv_bytes = 2.0 * (s.past + s.new) * s.kv * s.dim * s.kv_bytes;
        let launch =
            self.prefill_launch + if s.fp8 { self.prefill_launch_fp8 * s.dim / 128.0 } else { 0.0 };
        launch
            + best
            + s.batch * (rows_bytes + kv_bytes) / self.prefill_memory
            + self.written(sms, &s, self.prefill_write)
    }

    /// Seconds with the decode kernels (one new token for each sequence).
    fn decode(&self, sms: f64, op: &Attention, warm: bool) -> f64 {
        let s = Shape { new: 1.0, ..Shape::new(op) };
        let length = s.past + 1.0;
        let flash2 = self.family() == Kernels::FlashAttention2;
        let flash3 = self.family() == Kernels::FlashAttention3;
        let rows = 64.0;
        let block = if self.family() == Kernels::TrtllmGen { 256.0 } else { 128.0 };
        // FlashAttention 3 also visits keys around the window that the tile's empty rows would see.
        let edge = match flash3 {
            true if s.dim <= 64.0 || s.fp8 => 192.0,
            true => 64.0,
            false => 0.0,
        };
        let all = up(length, block);
        let keys = s.window.map_or(all, |w| up(w + edge, block).min(all));
        let seen = s.window.map_or(length, |w| w.min(length));
        // FlashAttention 2 turns query heads that share keys into rows of one tile, and may then
        // split the keys, only without a window. Else every query head is a unit.
        let swapped = s.group > 1.0 && s.window.is_none();
        let units = if flash2 && !swapped {
            s.batch * s.heads
        } else {
            s.batch * s.kv * (s.group / rows).ceil()
        };
        let key_s = self.key(sms, rows, &s) / self.decode_efficiency;
        let cache = 2.0 * s.batch * s.kv * seen * s.dim * s.kv_bytes;
        let rate = if warm && cache <= self.l2_bytes {
            self.decode_l2.max(self.decode_memory)
        } else {
            self.decode_memory
        };
        let memory_s = (cache + 4.0 * s.batch * s.heads * s.dim) / rate;
        // TrtllmGen: the times look like kernels for up to 8, 16 and 64 query heads per KV head, of
        // which the last also need more time for every unit.
        let wide_s = if self.family() == Kernels::TrtllmGen { self.decode_wide } else { 0.0 };
        let unit_s = self.decode_unit + if s.group > 16.0 { wide_s } else { 0.0 };
        let (mut best, mut fewer) = (f64::INFINITY, 1.0);
        for parts in SPLITS {
            let barred = (flash2 && !swapped) || (flash3 && parts > FLASH3_SPLITS);
            if parts > 1.0 && (barred || fewer * block >= keys) {
                break;
            }
            let unit = unit_s + up(keys / parts, block) * key_s;
            let n = units * parts;
            let mut t = norm_4(makespan(unit, n * unit, n, sms), memory_s);
            if parts > 1.0 {
                t += self.decode_merge + parts * self.decode_part;
            }
            best = best.min(t);
            fewer = parts;
        }
        let planned = if s.batch <= SCHEDULED { s.batch } else { 0.0 };
        let mut t = self.decode_launch
            + best
            + planned * self.decode_sequence
            + self.written(sms, &s, self.decode_memory);
        if s.fp8 {
            t += self.decode_launch_fp8 * s.dim / 128.0;
        }
        if s.dim > 64.0 {
            t += self.decode_head;
        }
        if flash2 && swapped && s.batch > 1.0 && s.kv > 1.0 {
            // Queries and outputs are copied, read and written in 2 bytes, twice each.
            t += self.decode_copy + 16.0 * s.batch * s.heads * s.dim / self.decode_memory;
        }
        if s.group > 8.0 {
            t += wide_s;
        }
        t
    }

    /// Seconds that a tile of `rows` queries needs for one key on one multiprocessor: the products
    /// and the softmax overlap.
    fn key(&self, sms: f64, rows: f64, s: &Shape) -> f64 {
        let flops = if s.fp8 { self.flops_fp8 } else { self.flops };
        let scores = if s.fp8 { self.scores_fp8 } else { self.scores };
        norm_4(4.0 * rows * s.dim / (flops / sms), rows / (scores / sms))
    }

    /// Seconds of the kernel that writes new keys and values to the cache, before the attention: a
    /// block of a thread per element and at most 512 for each token, as many blocks at once as the
    /// multiprocessors hold, and the reads.
    fn written(&self, sms: f64, s: &Shape, memory: f64) -> f64 {
        let block_s = match (s.fp8, self.family()) {
            (false, _) => self.write,
            // The times look like one warp that converts a head, so 16 heads at once.
            (true, Kernels::TrtllmGen) => self.write_fp8 * (s.kv / 16.0).ceil(),
            (true, _) => self.write_fp8,
        };
        let tokens = s.batch * s.new;
        let threads = (s.kv * s.dim).min(WRITE_THREADS);
        tokens * threads / SM_THREADS * block_s / sms + 4.0 * tokens * s.kv * s.dim / memory
    }
}
