//! What is peculiar to a channel: size tables, random delays and write caches, as time.
//!
//! Invariant: a delay depends on the seed, the channel and the place of the copy and the chunk in
//! the plan, never on what happened before, so the order of events cannot change it.

use super::moment::Piece;
use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use rand_distr::{Distribution, LogNormal};
use tiersim_models::hardware::Law;
use tiersim_models::raid0::Raid0;
use tiersim_models::service::{Cache, Detail, Tail};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span, Time};
use tiersim_policies::state::{Remembered, State, remember};

/// A channel that is more than its law.
#[derive(Debug)]
pub(super) struct Peculiar {
    pub(super) channel: usize,
    pub(super) detail: Detail,
    pub(super) raid0: Option<Raid0>,
    pub(super) tail: Option<(LogNormal<f64>, Span)>,
    pub(super) cache: Option<Filling>,
}

/// A cache, and how full it was when.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) cache: Cache,
    pub(super) level: Bytes,
    pub(super) at: Time,
}

remember! { Peculiar { cache } skip { channel, detail, raid0, tail }; }

impl Remembered for Filling {
    /// Empty is empty, since whenever it was.
    fn state(&self, out: &mut State) {
        let (Filling { cache, level, at }, now) = (self, out.now());
        let empty = *at <= now && drained(cache.drain, now.since(*at)) >= level.get();
        (!empty).then_some((*level, *at)).state(out);
    }
}

impl Peculiar {
    /// `None` if the law says it all. The ramp of a shared channel is the business of its flows.
    pub(super) fn new(
        channel: usize,
        detail: &Detail,
        raid0: Option<Raid0>,
    ) -> Option<Box<Peculiar>> {
        let Detail { sizes, depths: _, tail, cache } = detail;
        if sizes.is_empty() && tail.is_none() && cache.is_none() && raid0.is_none() {
            return None;
        }
        let tail = tail.as_ref().map(|tail: &Tail| {
            let (mu, sigma) = tail.parameters();
            (LogNormal::new(mu, sigma).expect("percentiles in order"), tail.most())
        });
        let filling = |cache| Filling { cache, level: Bytes::ZERO, at: Time::ZERO };
        let cache = cache.map(filling);
        Some(Box::new(Peculiar { channel, detail: detail.clone(), raid0, tail, cache }))
    }

    /// What a piece pays beside `setup + bytes / rate`, and whoever shares the channel.
    pub(super) fn fixed(&self, piece: &Piece, rate: Bandwidth, seed: u64) -> Span {
        let bytes = piece.part.bytes;
        let excess = match self.raid0 {
            Some(raid0) => {
                Span::from_ps(raid0.span(bytes, rate).ps() - rate.span_of(bytes.get()).ps())
            }
            None => self.detail.excess(bytes, rate),
        };
        excess + self.delay(piece, seed)
    }

    /// The whole time of a piece that starts `now` and has the channel to itself.
    pub(super) fn span(&mut self, piece: &Piece, law: Law, seed: u64, now: Time) -> Span {
        let fixed = law.setup + self.fixed(piece, law.rate, seed);
        let bytes = piece.part.bytes;
        let plain = law.rate.span_of(bytes.get());
        fixed + self.cache.as_mut().map_or(plain, |c| c.write(bytes, law.rate, now + fixed))
    }

    /// Whether how long a piece takes depends on what was written before: then it is not cut.
    pub(super) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Whether nothing is drawn.
    pub(super) fn may_repeat(&self) -> bool {
        self.tail.is_none()
    }

    /// From now on there are no random delays.
    pub(super) fn draw_nothing(&mut self) {
        self.tail = None;
    }

    pub(super) fn delay(&self, piece: &Piece, seed: u64) -> Span {
        let Some((law, most)) = &self.tail else { return Span::ZERO };
        let mut own = [0; 32];
        let names =
            [seed, self.channel as u64, u64::from(piece.ticket.0), piece.part.number.into()];
        for (slot, name) in own.chunks_exact_mut(8).zip(names) {
            slot.copy_from_slice(&name.to_le_bytes());
        }
        let drawn = law.sample(&mut ChaCha12Rng::from_seed(own));
        Span::from_ps(drawn.min(most.ps() as f64).ceil() as u64)
    }
}

/// Bytes that leave a cache in a time.
pub(super) fn drained(drain: Bandwidth, span: Span) -> u64 {
    let bytes = u128::from(drain.get()) * u128::from(span.ps()) / u128::from(PS_PER_S);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Filling {
    /// Time to write `bytes` from `now` on, by the fluid rule: the level rises with rate less drain
    /// until the cache is full, and then writing goes at the drain's rate.
    pub(super) fn write(&mut self, bytes: Bytes, rate: Bandwidth, now: Time) -> Span {
        let Cache { size, drain } = self.cache;
        let drained = |span| self::drained(drain, span);
        let level = self.level.get().saturating_sub(drained(now.since(self.at)));
        // Bytes written by the time that the cache is full: room * rate / (rate - drain).
        let room = u128::from(size.get() - level);
        let rise = u128::from(rate.get() - drain.get());
        let fast = u64::try_from(room * u128::from(rate.get()) / rise).unwrap_or(u64::MAX);
        let fast = fast.min(bytes.get());
        let span = rate.span_of(fast) + drain.span_of(bytes.get() - fast);
        let raised = u128::from(level) + u128::from(bytes.get());
        let raised = raised.saturating_sub(u128::from(drained(span)));
        self.level = Bytes::new(u64::try_from(raised).unwrap_or(u64::MAX).min(size.get()));
        self.at = now + span;
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::ids::LinkId;
    use tiersim_policies::command::Ticket;
    use tiersim_policies::transit::HopPiece;

    fn piece(ticket: u32, number: u32, bytes: u64) -> Piece {
        let part = HopPiece { hop: 0, number, from: Bytes::ZERO, bytes: Bytes::new(bytes) };
        Piece { ticket: Ticket(ticket), part }
    }

    fn law() -> Law {
        Law { setup: Span::from_ps(10), rate: Bandwidth::new(4 * PS_PER_S).expect("above zero") }
    }

    #[test]
    fn writing_slows_when_the_cache_is_full_and_recovers_when_it_has_drained() {
        let cache =
            Cache { size: Bytes::new(300), drain: Bandwidth::new(PS_PER_S).expect("above zero") };
        let detail = Detail { cache: Some(cache), ..Detail::default() };
        let mut channel = Peculiar::new(0, &detail, None).expect("it has a cache");
        let mut at =
            |ps: u64, bytes| channel.span(&piece(0, 0, bytes), law(), 1, Time::from_ps(ps)).ps();
        // 4 in, 1 out: full after 100 ps and 400 bytes.
        assert_eq!(at(0, 400), 10 + 100);
        // Full: one byte per ps. The set-up of 10 ps has drained 10: 13 bytes go fast.
        assert_eq!(at(110, 113), 10 + 4 + 100);
        // Half of it drained in 140 ps and 10 of set-up: 200 bytes fast, all of them.
        assert_eq!(at(364, 200), 10 + 50);
        // Empty after long: as at the start.
        assert_eq!(at(100_000, 400), 10 + 100);
    }

    #[test]
    fn delays_have_the_percentiles_that_were_asked_for() {
        let tail = Tail { p50: Span::from_us(68), p99: Span::from_us(82) };
        let detail = Detail { tail: Some(tail), ..Detail::default() };
        let channel = Peculiar::new(3, &detail, None).expect("it has a tail");
        let mut drawn: Vec<u64> = (0..100_000)
            .map(|request| channel.delay(&piece(request / 4, request % 4, 1), 7).ps())
            .collect();
        assert_eq!(
            drawn[5],
            channel.delay(&piece(1, 1, 999), 7).ps(),
            "the same name, the same delay"
        );
        assert_ne!(drawn[5], channel.delay(&piece(1, 1, 1), 8).ps(), "another seed");
        let other = Peculiar::new(LinkId(2).index() * 2, &detail, None).expect("it has a tail");
        assert_ne!(drawn[5], other.delay(&piece(1, 1, 1), 7).ps(), "another channel");
        drawn.sort_unstable();
        let percentile = |share: f64| drawn[(share * drawn.len() as f64) as usize] as f64 / 1e6;
        assert!((percentile(0.5) / 68.0 - 1.0).abs() < 0.002, "p50 {}", percentile(0.5));
        assert!((percentile(0.99) / 82.0 - 1.0).abs() < 0.004, "p99 {}", percentile(0.99));
    }
}
