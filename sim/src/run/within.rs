//! Channels from a tier to itself: compactions cross no link, so they have a channel of their own.
//!
//! The machine has one for every tier; a record names those of tiers that some case compacts.
//! Invariant: figures and slices of a record follow the order of its channels.

use std::collections::BTreeSet;
use tiersim_models::hardware::Hardware;
use tiersim_models::results::{CaseRecord, ChannelName, Figures, Track};
use tiersim_policies::scenario::Scenario;

/// The tiers, by index, that some case of the scenarios compacts.
pub(crate) fn compacted<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> BTreeSet<usize> {
    let cases = scenarios.into_iter().flat_map(|scenario| &scenario.cases);
    let specs = cases.flat_map(|case| case.allocators.iter().enumerate());
    specs.filter(|(_, spec)| spec.compaction.is_some()).map(|(tier, _)| tier).collect()
}

/// The names of the channels of a record: those of links, and those of the tiers in `compacted`.
pub(crate) fn channel_names(hardware: &Hardware, compacted: &BTreeSet<usize>) -> Vec<ChannelName> {
    let links = hardware.channels().map(|channel| ChannelName {
        ends: hardware.channel_name(channel),
        link: hardware.links[channel.link.index()].name.clone(),
    });
    // Another machine of the record may have more tiers.
    let within = compacted.iter().filter(|&&tier| tier < hardware.tiers.len()).map(|&tier| {
        let name = &hardware.tiers[tier].name;
        // A blank: no link can have this name.
        ChannelName { ends: format!("{name}->{name}"), link: format!("{name} compaction") }
    });
    links.chain(within).collect()
}

/// A case of this machine as a record has it: figures have the two channels of each link and then
/// one for each tier, and a record keeps those of tiers that some case compacts.
pub(crate) fn kept(
    mut case: CaseRecord,
    hardware: &Hardware,
    compacted: &BTreeSet<usize>,
) -> CaseRecord {
    if let Some(figures) = case.outcome.figures_mut() {
        keep(figures, hardware.links.len(), compacted);
    }
    case
}

/// Leaves the channels of other tiers out of figures. `links` is how many links there are.
pub(crate) fn keep(figures: &mut Figures, links: usize, compacted: &BTreeSet<usize>) {
    let first = 2 * links;
    let kept = |channel: usize| channel < first || compacted.contains(&(channel - first));
    fn only<T>(values: &mut Vec<T>, kept: impl Fn(usize) -> bool) {
        let mut channel = 0;
        values.retain(|_| {
            channel += 1;
            kept(channel - 1)
        });
    }
    only(&mut figures.moved, kept);
    only(&mut figures.busy, kept);
    only(&mut figures.transfers, kept);
    only(&mut figures.transfer_time, kept);
    only(&mut figures.stall, kept);
    for slice in &mut figures.timeline.slices {
        if let Track::Channel(channel) = &mut slice.track
            && let Some(tier) = channel.checked_sub(first)
        {
            *channel = first + compacted.range(..tier).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::{Slice, SliceDetail, Timeline};
    use tiersim_models::units::{Bytes, Span, Time};

    #[test]
    fn channels_of_tiers_that_are_not_compacted_leave_no_trace() {
        let slice = |channel| Slice {
            track: Track::Channel(channel),
            name: "a".into(),
            detail: SliceDetail::Objects(1),
            start: Time::ZERO,
            span: Span::ZERO,
            bytes: Bytes::ZERO,
        };
        // Two links, three tiers, the first and the last of which are compacted.
        let mut figures = Figures {
            moved: (0..7).map(Bytes::new).collect(),
            busy: vec![Span::ZERO; 7],
            transfers: vec![0; 7],
            transfer_time: vec![Span::ZERO; 7],
            stall: (0..7).map(Span::from_ps).collect(),
            timeline: Timeline {
                slices: vec![slice(3), slice(4), slice(6)],
                ..Timeline::default()
            },
            ..Figures::default()
        };
        keep(&mut figures, 2, &BTreeSet::from([0, 2]));
        assert_eq!(figures.moved, [0, 1, 2, 3, 4, 6].map(Bytes::new));
        assert_eq!((figures.busy.len(), figures.stall[5].ps()), (6, 6));
        let tracks: Vec<Track> = figures.timeline.slices.iter().map(|slice| slice.track).collect();
        assert_eq!(tracks, [3, 4, 5].map(Track::Channel));
    }
}
