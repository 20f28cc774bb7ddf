//! Links that state rates for memory that is not pinned.
//!
//! Pageable memory is copied into pinned buffers first, and those go over the wire: the wire
//! carries what is stated for pinned memory, whichever of the two a machine's copies use. So limits
//! of the wire are judged by the stated rates, which a machine's facts keep, and not by those in
//! use.

use super::{direction, words, written};
use crate::diagnostic::Warning;
use crate::hardware::{Channel, Hardware, Link};
use crate::units::Bandwidth;
use crate::units::written::Dimension;

/// The rate that a spec states at a place, such as `links.pcie.pageable.read`.
fn stated(hardware: &Hardware, place: &str) -> Option<Bandwidth> {
    let fact = hardware.facts.iter().rfind(|fact| fact.path == place)?;
    let (word, number) = written(fact)?;
    let unit = Bandwidth::UNIT.words.iter().position(|&known| known == word)?;
    Bandwidth::new((number * Bandwidth::UNIT.factors[unit]).round() as u64)
}

fn link(hardware: &Hardware, channel: Channel) -> &Link {
    &hardware.links[channel.link.index()]
}

/// What copies of pageable memory reach, if the spec says so.
fn pageable(hardware: &Hardware, channel: Channel) -> Option<Bandwidth> {
    let (name, way) = (&link(hardware, channel).name, direction(channel));
    stated(hardware, &format!("links.{name}.pageable.{way}"))
}

/// What a link carries in one direction: the rate of pinned memory.
pub fn carried(hardware: &Hardware, channel: Channel) -> Bandwidth {
    let pinned = pageable(hardware, channel).and_then(|_| {
        let (name, way) = (&link(hardware, channel).name, direction(channel));
        stated(hardware, &format!("links.{name}.{way}"))
    });
    pinned.unwrap_or_else(|| hardware.channel_law(channel).rate)
}

/// `pageable-faster-than-pinned`: one more copy does not make it faster.
///
/// Source: NVIDIA, CUDA C++ Best Practices Guide, "Pinned Memory": page-locked memory attains the
/// highest bandwidth between host and device.
pub(super) fn faster_than_pinned(hardware: &Hardware, channel: Channel) -> Option<Warning> {
    let (found, limit) = (pageable(hardware, channel)?, carried(hardware, channel));
    (found > limit).then(|| Warning {
        rule: "pageable-faster-than-pinned",
        place: format!("links.{}.pageable.{}", link(hardware, channel).name, direction(channel)),
        found: words(found),
        reason: format!(
            "copies of pinned memory are the fastest, and `{}` says {}",
            direction(channel),
            words(limit)
        ),
        remedy: "check both numbers, and which memory each was measured with".to_owned(),
    })
}
