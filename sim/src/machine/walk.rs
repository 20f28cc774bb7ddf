//! What a machine keeps of itself so that its steps can be explained: who spent the stretches of
//! the critical path ([`super::trail`]), and when channels were busy.
//!
//! Invariant: without [`SimMachine::record_path`] nothing in here does anything, and no time
//! depends on it.

use super::moment::Piece;
use super::trail::{Doing, Source, Trail, UsedInPlace, WalkedStep};
use super::{SimMachine, in_place};
use tiersim_models::ids::OpId;
use tiersim_models::units::{Span, Time};
use tiersim_models::workload::Use;
use tiersim_policies::command::{Ticket, Work};

impl SimMachine<'_> {
    /// From now on, remembers the critical path of every step; at the end of a step, or before the
    /// first command.
    pub fn record_path(&mut self) {
        self.paths.trail = Some(Box::new(Trail::new(self.meters.busy.len())));
    }

    /// The path of the step that has ended last, once; `None` if no path is recorded, or the step
    /// took no time.
    pub fn take_walked(&mut self) -> Option<WalkedStep> {
        self.paths.trail.as_mut()?.walked.take()
    }

    /// The step ends now whose path was told last.
    pub(super) fn walk(&mut self, now: Time) {
        if self.paths.trail.is_none() {
            return;
        }
        let busy = self.channels.iter().enumerate().filter(|(index, channel)| {
            channel.busy + channel.crossing > 0 && self.ranks.instances.is_first(*index)
        });
        let busy: Vec<(usize, Time)> =
            busy.map(|(index, channel)| (self.ranks.kind(index), channel.counted)).collect();
        let (tip, since) = (self.paths.told.tip, self.paths.since);
        let trail = self.paths.trail.as_mut().expect("looked at above");
        busy.into_iter().for_each(|(kind, counted)| trail.was_busy(kind, (counted, now)));
        trail.close(tip, (since, now), &self.workload.trace);
    }

    /// A channel of the first device was busy up to now, for so long.
    pub(super) fn was_busy(&mut self, channel: usize, busy: Span) {
        let now = self.engine.now();
        if let Some(trail) = &mut self.paths.trail {
            trail.was_busy(channel, (Time::from_ps(now.ps() - busy.ps()), now));
        }
    }

    /// Who spends the stretches of an entry, where that is kept.
    pub(super) fn source(&mut self, ticket: Ticket) -> Option<Source> {
        let trail = self.paths.trail.as_mut()?;
        let trace = &self.workload.trace;
        let (mut used, setup) = ((0, 0), Span::ZERO);
        let doing = match self.entries.get(ticket).command.work {
            Work::Compute { occurrence, ref touches, .. } => {
                let op = OpId::at((occurrence % trace.ops.len() as u64) as usize);
                let charges = in_place::charges(&self.entries.get(ticket).command.work);
                if !charges.is_empty() {
                    let paid = |tier| charges.iter().any(|charge| charge.0 == tier);
                    let touches = touches.iter().filter(|touch| paid(touch.tier));
                    used = trail.uses(touches.map(|touch| -> UsedInPlace {
                        let whole = Use::whole(touch.object, touch.mode);
                        let part = trace.uses_of(op).iter();
                        let part = part.clone().find(|used| used.object == touch.object);
                        let bytes = trace.objects[touch.object.index()].bytes;
                        let bytes = part.unwrap_or(&whole).charged(bytes);
                        (touch.object, touch.tier.index(), bytes)
                    }));
                }
                Doing::Op(op)
            }
            Work::Copy { object, bytes, from, to } => Doing::Copy { object, bytes, from, to },
            Work::Compact { tier, bytes, .. } => Doing::Compact { tier, bytes },
            // It takes no time.
            Work::Release => return None,
        };
        // Ranks carry out one plan: what one of them waited for is the same on all.
        Some(Source { ticket, doing, setup, used })
    }

    /// The same of a piece that has crossed its hop, with what that took beside its bytes.
    pub(super) fn source_of_piece(&mut self, piece: Piece) -> Option<Source> {
        let source = self.source(piece.ticket)?;
        let (now, hop) = (self.engine.now(), piece.part.hop);
        let progress = self.entries.progress(piece.ticket);
        let leg = &progress.legs[hop];
        // It is paid once, in the first turn, and as far as that came.
        let (paid, crossed) = (leg.again, now.since(leg.began));
        let channels = progress.transit.channels_of(hop).iter();
        let fixed = channels.map(|&channel| {
            let channel = &self.channels[channel];
            let peculiar = channel.peculiar.as_ref();
            let beside = peculiar.map(|own| own.fixed(&piece, channel.law.rate, self.seed));
            channel.law.setup + beside.unwrap_or(Span::ZERO)
        });
        let setup = if paid { Span::ZERO } else { fixed.sum::<Span>().min(crossed) };
        let (source, began) = (Source { setup, ..source }, leg.began);
        let trail = self.paths.trail.as_mut().expect("it has a source");
        for &channel in progress.transit.channels_of(hop) {
            if self.ranks.instances.is_first(channel) {
                trail.crossed(self.ranks.kind(channel), (began, now), &source);
            }
        }
        Some(source)
    }
}
