//! Collectives: what the devices of a group do together over the links between them.
//!
//! Sizes are those of the whole buffer, as NCCL's documentation has them: what an all-gather makes,
//! what a reduce-scatter takes, what an all-reduce takes and makes, what one rank of an all-to-all
//! has, what a broadcast and a stage of a pipeline sends.
//!
//! **Ring** over n ranks (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", JPDC 2009): n - 1 steps of B / n each for an all-gather or a reduce-scatter,
//! twice that for an all-reduce, so every joint of the ring carries T = B (n - 1) / n, or 2 B
//! (n - 1) / n. A broadcast is pipelined along the ring: T = B. With g ranks in each of m servers
//! there are g rings, as NCCL has one per network adapter, each with 1 / g of the bytes and one way
//! out of the server and one into it. A device sends to a neighbour in its server in g - 1 of the
//! rings, and out of the server in its own: T (g - 1) / g within, T / g between. Of the n - 1 steps
//! that follow one another m - 1 lead to another server (NCCL, `src/graph/tuning.cc`).
//! **Tree** (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
//! and scan", Parallel Computing 2009), for an all-reduce: up and down two binary trees with half
//! the bytes each, 2 ceil(log2 n) steps, and the busiest rank sends 2 B (B of two). Over servers,
//! what NCCL does: the devices of a server sum among themselves, 2 B (g - 1) / g each, and each
//! adapter has a pair of trees for 1 / g of the bytes.
//! **All to all** goes in pairs: n - 1 steps of B / n, n - g of them to other servers.
//!
//! All ranks of a group, and other groups of the same servers, do the same at the same time.
//! Invariant: a group has at least one rank, and every server that it spans has equally many.

use crate::hardware::{CollectiveLaws, Law};
use crate::op_times::collectives::{CollectiveTimes, Pattern};
use crate::units::{Bytes, Span};

crate::words! {
    /// Which of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CollectiveKind {
        /// Everybody gets everybody's part.
        AllGather = "all-gather",
        /// Parts are summed, and everybody gets one part of the sum.
        ReduceScatter = "reduce-scatter",
        /// Everything is summed, and everybody gets the sum.
        AllReduce = "all-reduce",
        /// Everybody sends a part to everybody.
        AllToAll = "all-to-all",
        /// One sends to the next, as stages of a pipeline do.
        SendRecv = "send-recv",
        /// One sends to all.
        Broadcast = "broadcast",
    }
}

/// One collective, as an op of a trace says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// The whole buffer.
    pub bytes: Bytes,
    /// Ranks of the group in each server that it spans.
    pub within: u32,
    /// Servers that the group spans.
    pub servers: u32,
    /// How many such follow one another, 1 or more: those of several layers are one op.
    pub times: u32,
}

/// Most ranks of one group.
pub const MAX_GROUP: u64 = 1 << 20;

/// Most bytes of one collective: 1 EiB.
pub const MAX_COLLECTIVE: Bytes = Bytes::new(1 << 60);

/// What one device of a group sends, and as much receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Over the way to where the devices of its server meet, and over the one to where servers
    /// meet.
    pub bytes: [Bytes; 2],
    /// Messages that follow one another: within servers, and between them.
    pub steps: [u64; 2],
    /// What passes before the bytes go, where that was measured; else the set-ups of all steps.
    pub latency: Option<Span>,
}

impl Collective {
    /// A single one, within one server.
    pub const fn within(kind: CollectiveKind, bytes: Bytes, ranks: u32) -> Collective {
        Collective { kind, bytes, within: ranks, servers: 1, times: 1 }
    }

    /// Ranks of the group.
    pub const fn ranks(&self) -> u64 {
        self.within as u64 * self.servers as u64
    }

    /// Whether anything is sent.
    pub const fn sends(&self) -> bool {
        self.ranks() > 1
    }

    /// As a ring, or in pairs where all send to all.
    pub fn ring(&self) -> Exchange {
        if !self.sends() {
            return Exchange::default();
        }
        let (g, n) = (u64::from(self.within), self.ranks());
        // How often each joint of a ring carries B / n.
        let (times, rounds) = match self.kind {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (n - 1, 1),
            CollectiveKind::AllReduce => (2 * (n - 1), 2),
            CollectiveKind::Broadcast => (n, 1),
            CollectiveKind::AllToAll => {
                let steps = [g - 1, n - g];
                return Exchange::new(steps.map(|to| self.share(to, n)), steps);
            }
            CollectiveKind::SendRecv => {
                let steps = if self.servers == 1 { [1, 0] } else { [0, 1] };
                return Exchange::new(steps.map(|once| self.share(once, 1)), steps);
            }
        };
        let hops = u64::from(self.servers) - 1;
        let steps = [rounds * (n - 1 - hops), rounds * hops];
        let bytes = match hops {
            0 => [self.share(times, n), Bytes::ZERO],
            _ => [self.share(times * (g - 1), n * g), self.share(times, n * g)],
        };
        Exchange::new(bytes, steps)
    }

    /// As two trees; `None` for what has none.
    pub fn tree(&self) -> Option<Exchange> {
        if self.kind != CollectiveKind::AllReduce || !self.sends() {
            return None;
        }
        let g = u64::from(self.within);
        let busiest = |parties: u32| u64::from(parties.min(3)) - 1;
        let levels = |parties: u32| 2 * u64::from(parties.next_power_of_two().trailing_zeros());
        let bytes = match self.servers {
            1 => [self.share(busiest(self.within), 1), Bytes::ZERO],
            servers => [self.share(2 * (g - 1), g), self.share(busiest(servers), g)],
        };
        Some(Exchange::new(bytes, [levels(self.within), levels(self.servers)]))
    }

    /// What all of them together send. Each is the quicker of ring and tree where nothing else is
    /// sent, as NCCL chooses, and the ring of two that are equal; or what was measured, where the
    /// laws say so.
    pub fn exchange(&self, laws: CollectiveLaws) -> Exchange {
        self.once(laws).repeated(self.times)
    }

    fn once(&self, laws: CollectiveLaws) -> Exchange {
        let ring = self.ring();
        let seconds = laws.times.and_then(|times| self.measured(&times, true));
        if let Some(seconds) = seconds.filter(|_| self.sends()) {
            return ring.lasting((seconds * 1e12).round(), laws.ways);
        }
        let ways = laws.ways;
        let alone = ring.span(ways).unwrap_or(Span::from_ps(u64::MAX));
        let quicker = |tree: &Exchange| tree.span(ways).is_some_and(|span| span < alone);
        self.tree().filter(quicker).unwrap_or(ring)
    }

    /// Seconds within a server by measurement; `None` of one that spans servers, or of a kind that
    /// was not measured. `summable` says whether the switch can add such numbers: floats of 16 and
    /// 32 bits, not bytes.
    pub fn measured(&self, times: &CollectiveTimes, summable: bool) -> Option<f64> {
        let pattern = match self.kind {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => Pattern::Ring,
            CollectiveKind::AllReduce => Pattern::Sum { in_switch: summable },
            CollectiveKind::AllToAll => Pattern::Pairs,
            CollectiveKind::SendRecv | CollectiveKind::Broadcast => return None,
        };
        (self.servers == 1).then(|| times.seconds(pattern, self.bytes.get(), self.ranks()))
    }

    /// So many n-ths of the bytes, rounded up.
    fn share(&self, times: u64, parts: u64) -> Bytes {
        let bytes = u128::from(self.bytes.get()) * u128::from(times);
        // Below 2^62, for no rank sends more than twice the bytes of a collective.
        Bytes::new(u64::try_from(bytes.div_ceil(u128::from(parts))).unwrap_or(u64::MAX))
    }
}

impl Exchange {
    /// So many of them, one after the other; what does not fit 64 bits is cut.
    fn repeated(self, times: u32) -> Exchange {
        let of = |once: u64| once.saturating_mul(times.into());
        Exchange {
            bytes: self.bytes.map(|once| Bytes::new(of(once.get()))),
            steps: self.steps.map(of),
            latency: self.latency.map(|once| Span::from_ps(of(once.ps()))),
        }
    }

    fn new(bytes: [Bytes; 2], steps: [u64; 2]) -> Exchange {
        Exchange { bytes, steps, latency: None }
    }

    /// The same, taking so many picoseconds over ways that carry nothing else: what the bytes do
    /// not need passes before they go. A link may be slower than the measurement says; then no
    /// more bytes go than it carries in that time.
    fn lasting(self, ps: f64, ways: [Law; 2]) -> Exchange {
        let most = (ps * 1e-12 * ways[0].rate.get() as f64).floor();
        let bytes = Bytes::new(self.bytes[0].get().min(most as u64));
        let sending = ways[0].rate.checked_span_of(bytes.get()).map_or(0, Span::ps);
        let latency = Span::from_ps((ps as u64).saturating_sub(sending));
        Exchange { bytes: [bytes, Bytes::ZERO], latency: Some(latency), ..self }
    }

    /// The set-ups that follow one another; `None` if they outlast the clock.
    pub fn latency(&self, setups: [Span; 2]) -> Option<Span> {
        if self.latency.is_some() {
            return self.latency;
        }
        let [within, between] = [0, 1].map(|way| setups[way].ps().checked_mul(self.steps[way]));
        within?.checked_add(between?).map(Span::from_ps)
    }

    /// How long it takes over ways that carry nothing else: all set-ups, and then the way that
    /// takes longer; `None` if that outlasts the clock.
    pub fn span(&self, ways: [Law; 2]) -> Option<Span> {
        let [within, between] =
            [0, 1].map(|way| ways[way].rate.checked_span_of(self.bytes[way].get()));
        let latency = self.latency(ways.map(|way| way.setup))?;
        latency.ps().checked_add(within?.max(between?).ps()).map(Span::from_ps)
    }
}
