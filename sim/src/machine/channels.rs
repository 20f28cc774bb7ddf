//! Channels: the directions of links, and how pieces of copies queue for them.
//!
//! A channel serves one piece after the other or, if its link takes several in flight, so many at
//! once, and its lines in turn (`lines`); or it shares its rate among all who are there
//! (`sharing`).
//! Invariant: a channel with one place is an in-order copy engine for each line, so its copies
//! enter as they were submitted; one with several places takes whoever is ready. No place is empty
//! while a piece waits.

use super::detail::Peculiar;
use super::lines::{LineName, Lines};
use super::moment::Piece;
use std::collections::VecDeque;
use tiersim_models::hardware::{self, HBM, Hardware, Law, Tier};
use tiersim_models::service::{Detail, Discipline};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{State, remember};

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) law: Law,
    /// What it has beyond the law, if anything.
    pub(super) peculiar: Option<Box<Peculiar>>,
    /// Whether those under way share the rate.
    pub(super) shared: bool,
    /// Pieces that may be under way at once.
    pub(super) at_once: u32,
    /// Copies that were not let in; and who waits and who is served, unless the channel is shared.
    pub(super) lines: Lines,
    /// Pieces to copy where it is shared, in the order in which they became ready.
    pub(super) ready: VecDeque<Piece>,
    /// Pieces under way.
    pub(super) busy: u32,
    /// Flows of collectives under way, which take no place.
    pub(super) crossing: u32,
    /// Up to when the time that it was busy is counted.
    pub(super) counted: Time,
    /// The copy whose turn ended last.
    pub(super) served: Option<Ticket>,
}

impl Channel {
    pub(super) fn new(hardware: &Hardware, channel: hardware::Channel) -> Channel {
        let link = &hardware.links[channel.link.index()];
        let service = link.service.as_ref();
        let plain = Detail::default();
        let detail = service.map_or(&plain, |service| service.detail(channel.evicting));
        Channel {
            peculiar: Peculiar::new(channel.index(), detail, link.raid0),
            shared: service.is_some_and(|s| s.discipline == Discipline::FairShare),
            at_once: service.map_or(1, |service| service.at_once()),
            ..Channel::plain(hardware.channel_law(channel))
        }
    }

    /// One that serves one piece after the other as its law says.
    fn plain(law: Law) -> Channel {
        Channel {
            law,
            peculiar: None,
            shared: false,
            at_once: 1,
            lines: Lines::default(),
            ready: VecDeque::new(),
            busy: 0,
            crossing: 0,
            counted: Time::ZERO,
            served: None,
        }
    }

    /// Every channel of a machine: two per link, then one per tier.
    pub(super) fn all(hardware: &Hardware) -> Vec<Channel> {
        let links = hardware.channels().map(|channel| Channel::new(hardware, channel));
        // A copy within the device is a kernel, and costs what one does before its bytes go.
        let launch = hardware.compute.as_ref().map_or(Span::ZERO, |compute| compute.launch);
        let least = |index| if index == HBM.index() { launch } else { Span::ZERO };
        let within = hardware.tiers.iter().enumerate();
        let within = within.map(|(index, tier)| Channel::within(tier, least(index)));
        links.chain(within).collect()
    }

    /// From a tier to itself: each byte is read and written, so half of the tier's rate, behind the
    /// tier's set-up, `least` at least.
    pub(super) fn within(tier: &Tier, least: Span) -> Channel {
        let half = Bandwidth::new((tier.access.rate.get() / 2).max(1)).expect("above zero");
        Channel::plain(Law { setup: tier.access.setup.max(least), rate: half })
    }

    /// Whether nothing about it is drawn.
    pub(super) fn may_repeat(&self) -> bool {
        self.peculiar.as_ref().is_none_or(|peculiar| peculiar.may_repeat())
    }

    /// Writes who is on it and who waits for it.
    pub(super) fn state(&self, history: impl Fn(Option<Ticket>, &mut State), out: &mut State) {
        remember!(out, self as Channel { peculiar, lines, ready, busy, crossing }
            skip { law, shared, at_once, counted, served });
        if *busy + *crossing > 0 {
            self.counted.state(out);
        }
        // Where nothing is shared, who waits has seen a turn end: whose turn ended before is no
        // matter any more.
        if self.shared {
            history(self.served, out);
        }
    }

    /// Whether copies enter as they were submitted, and not as they become ready.
    pub(super) fn is_in_order(&self) -> bool {
        self.at_once == 1
    }

    /// Who has not been let in: of one line, or of all where the channel is shared.
    pub(super) fn gate(&mut self, line: LineName) -> &mut VecDeque<Ticket> {
        let line = if self.shared { LineName { number: 0 } } else { line };
        self.lines.gate(line)
    }

    /// A piece starts.
    pub(super) fn start(&mut self, now: Time) {
        if self.busy + self.crossing == 0 {
            self.counted = now;
        }
        self.busy += 1;
    }

    /// A flow of a collective starts.
    pub(super) fn start_crossing(&mut self, now: Time) {
        self.start(now);
        self.busy -= 1;
        self.crossing += 1;
    }

    /// A flow of a collective ends; how long the channel was busy that was not counted before.
    pub(super) fn end_crossing(&mut self, now: Time) -> Span {
        self.crossing -= 1;
        now.since(std::mem::replace(&mut self.counted, now))
    }
}

/// How long a piece is served until so many of its bytes have crossed, whatever is paid before them
/// included.
pub(super) fn reach(
    law: Law,
    peculiar: Option<&Peculiar>,
    piece: &Piece,
    seed: u64,
    bytes: Bytes,
) -> Span {
    let fixed = peculiar.map_or(Span::ZERO, |peculiar| peculiar.fixed(piece, law.rate, seed));
    law.span_of(bytes) + fixed
}

/// Bytes that have crossed after so long, of which the `fixed` part comes before them.
pub(super) fn sent_by(law: Law, fixed: Span, passed: Span) -> Bytes {
    let sending = u128::from(passed.ps().saturating_sub(fixed.ps()));
    let sent = u128::from(law.rate.get()) * sending / u128::from(PS_PER_S);
    Bytes::new(u64::try_from(sent).unwrap_or(u64::MAX))
}

/// What is left after one part of a time.
pub(super) fn between(part: Span, whole: Span) -> Span {
    Span::from_ps(whole.ps().checked_sub(part.ps()).expect("more bytes take no less"))
}

/// The first boundary between chunks after so many bytes.
pub(super) fn next_border(crossed: Bytes, chunk: Bytes) -> Bytes {
    let chunks = crossed.get() / chunk.get() + 1;
    Bytes::new(chunks.saturating_mul(chunk.get()))
}
