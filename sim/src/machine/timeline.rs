//! What of the commands of the first device a timeline shows, and what its tiers hold meanwhile.

use super::collectives::Over;
use super::entry::Entry;
use super::meters::Meters;
use tiersim_models::ids::TierId;
use tiersim_models::results::{Slice, Timeline, Track};
use tiersim_models::units::{Bytes, Time};
use tiersim_models::workload::Trace;
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
            let op = &trace.ops[(occurrence % trace.ops.len() as u64) as usize];
            let module = op.module.map_or("", |module| &trace.modules[module.index()]);
            let detail = format!("{} {module}", op.phase.word());
            let (track, name) = (Track::Stream(stream), op.name.clone());
            let own = Slice { track, name, detail, start, span, bytes: Bytes::ZERO };
            let sent = over.iter().flat_map(|over| &over.sent).map(|&(channel, bytes, start)| {
                let (track, span) = (Track::Channel(kind(channel)), now.since(start));
                Slice { track, start, span, bytes, ..own.clone() }
            });
            std::iter::once(own.clone()).chain(sent).collect()
        }
        Work::Copy { object, .. } => {
            let span = entry.came_at(now).since(start);
            let object = &trace.objects[object.index()];
            let channels = entry.progress.iter().flat_map(|progress| progress.transit.carries());
            channels
                .map(|(channel, bytes)| {
                    let (name, detail) = (object.name.clone(), object.kind.word().to_owned());
                    Slice { track: Track::Channel(kind(channel)), name, detail, start, span, bytes }
                })
                .collect()
        }
        Work::Compact { bytes, ref objects, .. } => {
            let channels = entry.progress.iter().flat_map(|progress| progress.transit.channels());
            let detail = format!("{} objects", objects.len());
            let slice = |channel| Slice {
                track: Track::Channel(kind(channel)),
                name: "compaction".to_owned(),
                detail: detail.clone(),
                start,
                span,
                bytes,
            };
            channels.map(slice).collect()
        }
        Work::Release => Vec::new(),
    }
}
