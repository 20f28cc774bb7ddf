//! How long the devices of one server take for a collective, in latencies and rates.
//!
//! `bytes` is the whole buffer, as in NCCL's documentation: what an all-gather makes, what a
//! reduce-scatter takes, what an all-reduce takes and makes, what one rank of an all-to-all has. Of
//! n ranks each sends chunks of c = bytes / n to its neighbour in a ring, one in each of s steps:
//! n - 1, or 2 (n - 1) for an all-reduce.
//!
//! **Protocols.** NCCL has quick ones for small sizes (LL, LL128), which send flags beside the
//! data, and a slow one that uses the link well (Simple). Each takes a start, a latency per step,
//! and the bytes at a share of the link's rate. NCCL does not measure which is quicker: it compares
//! formulas with constants of its own (`src/graph/tuning.cc`), and changes to Simple long before
//! that pays. Times jump there, so the same comparison is made here; only the times are fitted.
//! **In the switch.** Where a switch can add, an all-reduce sends every byte up once and gets it
//! back once, and 1 / n of them the other way: (n + 1) c. Taken where quicker than the ring.
//! **All to all** sends n - 1 chunks at once, each as one stream of the quick protocol or, where
//! that is quicker, over all of the link.
//!
//! Within a server NCCL's tree is a chain with as many steps as the ring, so it has no part in
//! this. Fitted to 2, 4 and 8 devices and 512 B to 512 MiB on A100, H100 and B200.

use super::numbers;

numbers! {
    /// Numbers of collectives of the devices of one server.
    CollectiveTimes {
        /// Bytes per second that a device sends, and as much receives, as its maker states.
        link: Stated,
        /// Share of it that NCCL takes LL to reach, whether it does or not.
        said_low: Code,
        /// The same of LL128.
        said_mid: Code,
        /// The same of Simple.
        said_long: Code,
        /// The quick protocols, whatever the size.
        start: Time,
        /// Each of their steps.
        hop: Time,
        /// How much more both are once a step fills all threads of a channel.
        full: Plain,
        /// Share of the link's rate that the quick protocols reach.
        low: Divisor,
        /// The slow protocol, whatever the size.
        long_start: Time,
        /// Each of its steps.
        long_hop: Time,
        /// Share of the link's rate that it reaches.
        share: Divisor,
        /// The part that a rank only copies or adds, in chunks sent.
        tail: Plain,
        /// Sums in the switch, whatever the size; only where `switch_share` is above zero.
        switch_start: Time,
        /// Share of the link's rate that sums in the switch reach; 0 without such a switch.
        switch_share: Plain,
        /// All to all: quick protocol, whatever the size.
        pairs_start: Time,
        /// For each other rank.
        pairs_hop: Time,
        /// Bytes per second to one rank.
        pairs_low: Fixed,
        /// Slow protocol, whatever the size.
        pairs_long_start: Time,
        /// For each other rank.
        pairs_long_hop: Time,
        /// Share of the link's rate to all ranks.
        pairs_share: Divisor,
        /// The rank's own chunk, in chunks sent.
        pairs_tail: Plain,
    }
}

/// How a collective sends its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Once around: an all-gather, a reduce-scatter.
    Ring,
    /// Twice around, or through a switch that adds where that is said to work: an all-reduce.
    Sum {
        /// Whether the switch can add such numbers.
        in_switch: bool,
    },
    /// Everybody to everybody.
    Pairs,
}

/// Bytes of a chunk that fill all threads of a channel.
const FULL_CHUNK: f64 = 8192.0;

impl CollectiveTimes {
    /// Seconds of a pattern with `bytes` in all over `ranks` devices of a server.
    pub fn seconds(&self, pattern: Pattern, bytes: u64, ranks: u64) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let (ranks, chunk) = (ranks as f64, bytes as f64 / ranks as f64);
        let steps = match pattern {
            Pattern::Pairs => return self.pairs(ranks - 1.0, chunk),
            Pattern::Sum { .. } => 2.0 * (ranks - 1.0),
            Pattern::Ring => ranks - 1.0,
        };
        let edge = self.largest_low(steps);
        if chunk <= edge {
            return self.low(steps, chunk);
        }
        let sent = (steps + self.tail) * chunk;
        let mut long = self.long_start + steps * self.long_hop + sent / (self.share * self.link);
        let adds = pattern == Pattern::Sum { in_switch: true } && ranks > 2.0;
        if adds && self.switch_share > 0.0 {
            let sent = (ranks + 1.0) * chunk;
            long = long.min(self.switch_start + sent / (self.switch_share * self.link));
        }
        // More bytes never take less time.
        long.max(self.low(steps, edge))
    }

    /// Seconds with a quick protocol.
    fn low(&self, steps: f64, chunk: f64) -> f64 {
        let fuller = 1.0 + self.full * (chunk / FULL_CHUNK).min(1.0);
        let sent = (steps + 1.0) * chunk;
        (self.start + steps * self.hop) * fuller + sent / (self.low * self.link)
    }

    /// The largest chunk that NCCL sends with a quick protocol. Its constants: starts of 6.6, 14
    /// and 8.4 us, steps of 0.6, 1.9 and 3.4 us for LL, LL128 and Simple.
    fn largest_low(&self, steps: f64) -> f64 {
        let (low, mid, long) = (self.said_low, self.said_mid, self.said_long);
        let low = (1.8e-6 + 2.8e-6 * steps) / (1.0 / low - 1.0 / long);
        let mid = (1.5e-6 * steps - 5.6e-6) / (1.0 / mid - 1.0 / long);
        self.link * low.max(mid) / steps
    }

    fn pairs(&self, others: f64, chunk: f64) -> f64 {
        // Many streams fill the link.
        let sent = (chunk / self.pairs_low).max(others * chunk / (self.low * self.link));
        let low = self.pairs_start + others * self.pairs_hop + sent;
        let sent = (others + self.pairs_tail) * chunk;
        let start = self.pairs_long_start + others * self.pairs_long_hop;
        low.min(start + sent / (self.pairs_share * self.link))
    }
}
