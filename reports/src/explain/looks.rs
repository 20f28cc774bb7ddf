//! How kinds of time look on the charts of an explanation: one colour and one pattern each.
//!
//! Invariant: two kinds differ in colour and in pattern, so that they can be told apart in grey.

use crate::canvas::{Canvas, Rect};
use crate::frame::Entry;
use crate::style::{Color, series_color};
use tiersim_models::results::PathPart;

/// A kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    Compute,
    Copy,
    Line,
    InPlace,
    Collective,
    Cpu,
    Launch,
    Other,
}

/// Every kind, in the order of the legend.
pub(super) const LOOKS: [Look; 8] = [
    Look::Compute,
    Look::Copy,
    Look::Line,
    Look::InPlace,
    Look::Collective,
    Look::Cpu,
    Look::Launch,
    Look::Other,
];

impl Look {
    /// The kind of a part.
    pub(super) fn of(part: PathPart) -> Look {
        match part {
            PathPart::Compute(_) | PathPart::Recompute => Look::Compute,
            PathPart::Copy(_) => Look::Copy,
            PathPart::Queue(_) => Look::Line,
            PathPart::InPlace(_) => Look::InPlace,
            PathPart::Collective => Look::Collective,
            PathPart::Cpu => Look::Cpu,
            PathPart::Launch | PathPart::HostOps | PathPart::HostObjects | PathPart::HostPasses => {
                Look::Launch
            }
            PathPart::Allocator | PathPart::Delay | PathPart::Bubble | PathPart::Arrival => {
                Look::Other
            }
        }
    }

    /// Its name in a legend.
    pub(super) fn word(self) -> &'static str {
        match self {
            Look::Compute => "computing",
            Look::Copy => "copies waited for",
            Look::Line => "copies in line",
            Look::InPlace => "use in place",
            Look::Collective => "collectives",
            Look::Cpu => "ops on the CPU",
            Look::Launch => "launches and framework",
            Look::Other => "allocators, delays, other waits",
        }
    }

    fn color(self) -> Color {
        match self {
            Look::Compute => series_color(0),
            Look::Copy => series_color(1),
            Look::Line => series_color(1).tint(0.35),
            Look::InPlace => series_color(2),
            Look::Collective => series_color(4),
            Look::Cpu => series_color(3),
            Look::Launch => series_color(6).tint(0.6),
            Look::Other => series_color(7),
        }
    }

    /// Distance of its stripes and whether they lie; `None` for none.
    fn stripes(self) -> Option<(f64, bool)> {
        match self {
            Look::Compute | Look::Copy => None,
            Look::Line => Some((5.0, false)),
            Look::InPlace => Some((5.0, true)),
            Look::Collective => Some((10.0, false)),
            Look::Cpu => Some((9.0, true)),
            Look::Launch => Some((3.0, true)),
            Look::Other => Some((16.0, false)),
        }
    }

    /// How light it is.
    #[cfg(test)]
    pub(super) fn grey(self) -> f64 {
        self.color().luminance()
    }

    /// Its pattern.
    #[cfg(test)]
    pub(super) fn pattern(self) -> Option<(f64, bool)> {
        self.stripes()
    }

    /// Fills a rectangle.
    pub(super) fn fill(self, canvas: &mut Canvas, rect: Rect) {
        let (color, line) = (self.color(), self.color().shade());
        canvas.rect(rect, color);
        match self.stripes() {
            Some((every, false)) => {
                // Counted from the left edge of the page, so that neighbours go on.
                let mut at = (rect.left / every).ceil() * every;
                while at < rect.right {
                    canvas.line((at, rect.top), (at, rect.bottom), line, 1.0);
                    at += every;
                }
            }
            Some((every, true)) => {
                let mut at = rect.top + every / 2.0;
                while at < rect.bottom {
                    canvas.line((rect.left, at), (rect.right, at), line, 1.0);
                    at += every;
                }
            }
            None => {}
        }
        // Copies are as dark as computing in grey.
        if self == Look::Copy && rect.width() > 3.0 {
            canvas.frame(rect, line, 1.0);
        }
    }

    /// Its entry in a legend.
    pub(super) fn entry(self) -> Entry<'static> {
        let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
            self.fill(canvas, Rect::new(x - 14.0, y - 7.0, x + 14.0, y + 7.0));
        };
        Entry { key: Box::new(key), text: self.word().to_owned() }
    }
}
