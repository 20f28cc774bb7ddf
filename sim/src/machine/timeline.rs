//! What of the commands of the first device a timeline shows, and what its tiers hold meanwhile.

use super::collectives::Over;
use super::entry::Entry;
use super::meters::Meters;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::results::{Slice, SliceDetail, Timeline, Track};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Name, Trace};
use tiersim_policies::command::Work;

/// A tier holds what the meters say from now on.
pub(super) fn holds(
    timeline: &mut Option<Box<Timeline>>,
    now: Time,
    tier: TierId,
    meters: &Meters,
) {
    if let Some(timeline) = timeline {
        timeline.holds(now, tier.index(), meters.used[tier.index()]);
    }
}

/// An op of the run on a stream, that started then and took so long.
pub(super) fn of_op(
    trace: &Trace,
    (occurrence, stream): (u64, u16),
    (start, span): (Time, Span),
) -> Slice {
    let op = &trace.ops[(occurrence % trace.ops.len() as u64) as usize];
    let module = op.module.map(|module| trace.modules[module.index()].clone());
    let detail = SliceDetail::Op(op.phase, module);
    let (track, name) = (Track::Stream(stream), op.name.clone());
    Slice { track, name, detail, start, span, bytes: Bytes::ZERO }
}

/// A copy of so many bytes of an object over a channel of one device.
pub(super) fn of_copy(
    trace: &Trace,
    object: ObjectId,
    (channel, bytes): (usize, Bytes),
    (start, span): (Time, Span),
) -> Slice {
    let object = &trace.objects[object.index()];
    let (name, detail) = (object.name.clone(), SliceDetail::Copy(object.kind));
    Slice { track: Track::Channel(channel), name, detail, start, span, bytes }
}

/// All that tiers hold, before anything is shown.
pub(super) fn begins(now: Time, meters: &Meters) -> Box<Timeline> {
    let mut timeline = Box::new(Timeline::default());
    let used = meters.used.iter().enumerate();
    used.for_each(|(tier, &bytes)| timeline.holds(now, tier, bytes));
    timeline
}

/// A command that ends now: one slice for an op, one for each channel of a copy or of a collective,
/// which is a channel of one device by `kind`.
pub(super) fn slices(
    entry: &Entry,
    trace: &Trace,
    over: Option<&Over>,
    kind: impl Fn(usize) -> usize,
    now: Time,
) -> Vec<Slice> {
    let (start, span) = (entry.start, now.since(entry.start));
    match entry.command.work {
        Work::Compute { occurrence, stream, .. } => {
            let own = of_op(trace, (occurrence, stream), (start, span));
            let sent = over.iter().flat_map(|over| &over.sent).map(|&(channel, bytes, start)| {
                let (track, span) = (Track::Channel(kind(channel)), now.since(start));
                Slice { track, start, span, bytes, ..own.clone() }
            });
            std::iter::once(own.clone()).chain(sent).collect()
        }
        Work::Copy { object, .. } => {
            let span = entry.came_at(now).since(start);
            let carries = entry.progress.iter().flat_map(|progress| progress.transit.carries());
            carries
                .map(|(channel, bytes)| {
                    of_copy(trace, object, (kind(channel), bytes), (start, span))
                })
                .collect()
        }
        Work::Compact { bytes, ref objects, .. } => {
            let channels = entry.progress.iter().flat_map(|progress| progress.transit.channels());
            let name = Name::new_static("compaction");
            let slice = |channel| Slice {
                track: Track::Channel(kind(channel)),
                name: name.clone(),
                detail: SliceDetail::Objects(objects.len()),
                start,
                span,
                bytes,
            };
            channels.map(slice).collect()
        }
        Work::Release => Vec::new(),
    }
}
