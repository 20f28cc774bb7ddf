//! What collectives of the devices of a machine have to themselves of its links.

use crate::hardware::{Channel, Hardware, Law};
use crate::op_times::collectives::CollectiveTimes;
use crate::units::{Bandwidth, Span};

/// What collectives of a group have of the links between their devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveLaws {
    /// One step within the server and between servers, and what a device has while all send.
    pub ways: [Law; 2],
    /// What collectives within a server take by measurement.
    pub times: Option<CollectiveTimes>,
}

impl Hardware {
    /// What one step of a collective takes within the server and between servers, and the bytes per
    /// second that each of `ranks` devices has while all of them send; free where there is no
    /// route.
    ///
    /// The set-up is that of all links from one device to where they meet and to the next device.
    /// With them what collectives within the server take by measurement, if that is asked for.
    pub fn collective_laws(&self, ranks: u32) -> CollectiveLaws {
        let ways = self.meetings().map(|node| {
            let mut law = Law { setup: Span::ZERO, rate: Bandwidth::MAX };
            for channel in node.and_then(|node| self.way_out(node)).unwrap_or_default() {
                let by = self.server.sharers_of_link(channel.link).min(ranks).max(1);
                for channel in [channel, Channel { evicting: !channel.evicting, ..channel }] {
                    let own = self.channel_law(channel);
                    law.setup += own.setup;
                    // Rounded up: nothing ends sooner than these laws say.
                    let rate = Bandwidth::new(own.rate.get().div_ceil(by.into()));
                    law.rate = law.rate.min(rate.expect("above zero"));
                }
            }
            law
        });
        CollectiveLaws { ways, times: self.server.collective_times }
    }
}
