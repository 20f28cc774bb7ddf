//! A list of shapes in pixels: what a chart is before it is SVG or PNG.
//!
//! Charts are laid out by hand, because three things that they need are not in plotters' chart
//! builder: a second axis that is a ratio of the first, labels placed around data, and text whose
//! extent is known before it is drawn. The list is drawn once per format by [`crate::render`].
//! Invariant: coordinates are finite, in pixels of the canvas, with y growing downwards; text is
//! cleaned and placed by its baseline.

use crate::sheet::{Sheet, Style};
use crate::words::clean;
use std::collections::BTreeMap;

/// Red, green, blue and opacity (0 to 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8, pub(crate) f64);

impl Color {
    /// The same colour, let through.
    pub(crate) fn alpha(self, alpha: f64) -> Color {
        Color(self.0, self.1, self.2, alpha)
    }

    /// Half as light: visible on white whatever the colour.
    pub(crate) fn shade(self) -> Color {
        Color(self.0 / 2, self.1 / 2, self.2 / 2, self.3)
    }

    /// Mixed with white: 0 is white, 1 the colour itself.
    pub(crate) fn tint(self, share: f64) -> Color {
        let mix = |c: u8| (255.0 - (255.0 - f64::from(c)) * share).round() as u8;
        Color(mix(self.0), mix(self.1), mix(self.2), self.3)
    }

    /// Relative luminance as in WCAG 2, 0 to 1.
    pub(crate) fn luminance(self) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }
}

/// Where a text stands relative to its anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Starts at it.
    Left,
    /// Centred on it.
    Centre,
    /// Ends at it.
    Right,
}

/// One shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// A filled polygon.
    Polygon { points: Vec<(f64, f64)>, color: Color },
    /// An open line.
    Path { points: Vec<(f64, f64)>, color: Color, width: f64 },
    /// A filled circle.
    Disc { centre: (f64, f64), radius: f64, color: Color },
    /// A series' marker.
    Mark(Mark),
    /// Text by its baseline; `upward` is turned by a quarter to read from bottom to top.
    Text { text: Box<str>, at: (f64, f64), size: f64, color: Color, align: Align, upward: bool },
}

/// A series' marker, of which a chart of a sweep has one for each of its points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) look: u16,
    pub(crate) at: (f64, f64),
    pub(crate) radius: f64,
    pub(crate) opacity: f64,
    /// Whose it is, if it says so: of the look's series, and of this case.
    pub(crate) of: Option<Option<u32>>,
}

impl Mark {
    /// What it says of itself, if anything.
    fn tag(&self) -> Option<Tag> {
        let case = self.of?.map(|case| case as usize);
        let series = Some(usize::from(self.look));
        Some(Tag { series, case, name: None, at: Some(self.at) })
    }
}

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// What some items of a chart are about: an element of its own in an SVG, which says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tag {
    /// The series that they belong to.
    pub(crate) series: Option<usize>,
    /// The case that they belong to.
    pub(crate) case: Option<usize>,
    /// The name of the series, if they are its key in a legend.
    pub(crate) name: Option<String>,
    /// The middle of a marker or of a key.
    pub(crate) at: Option<(f64, f64)>,
}

/// Items that follow each other and have one tag.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tag: Tag,
}

/// How much a marker of the largest crowds covers of what is below it.
pub(crate) const MERGED: f64 = 0.25;

/// The most that many marks in one place cover of what is below them.
const MOST_OF_A_CROWD: f64 = 0.99;

/// Shapes in drawing order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Canvas {
    /// What it is laid out for.
    pub(crate) sheet: Sheet,
    /// What a sheet without titles says in its description.
    pub(crate) said: Vec<String>,
    pub(crate) items: Vec<Item>,
    /// Groups of them in the same order; they do not overlap.
    pub(crate) groups: Vec<Group>,
    /// Marks of crowds by look and place, in tenths of pixels: which items they are.
    crowds: BTreeMap<(u16, [i64; 2]), usize>,
}

impl Rect {
    pub(crate) fn new(left: f64, top: f64, right: f64, bottom: f64) -> Rect {
        Rect { left, top, right, bottom }
    }

    /// The square around a point.
    pub(crate) fn around(at: (f64, f64), radius: f64) -> Rect {
        Rect::new(at.0 - radius, at.1 - radius, at.0 + radius, at.1 + radius)
    }

    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Grown by `by` on every side.
    pub(crate) fn grown(&self, by: f64) -> Rect {
        Rect::new(self.left - by, self.top - by, self.right + by, self.bottom + by)
    }

    /// Does it hold all of `other`?
    pub(crate) fn holds(&self, other: &Rect) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && self.right >= other.right
            && self.bottom >= other.bottom
    }

    /// Area common to both.
    pub(crate) fn overlap(&self, other: &Rect) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }

    /// Does the segment from `a` to `b` touch it? (Liang and Barsky's clipping.)
    pub(crate) fn cut_by(&self, a: (f64, f64), b: (f64, f64)) -> bool {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0f64, 1.0f64);
        for (p, q) in [
            (-dx, a.0 - self.left),
            (dx, self.right - a.0),
            (-dy, a.1 - self.top),
            (dy, self.bottom - a.1),
        ] {
            if p == 0.0 {
                if q < 0.0 {
                    return false;
                }
            } else if p < 0.0 {
                enter = enter.max(q / p);
            } else {
                leave = leave.min(q / p);
            }
        }
        enter <= leave
    }
}

impl Canvas {
    /// An empty one for charts of a style.
    pub(crate) fn of(style: Style) -> Canvas {
        Canvas { sheet: Sheet::of(style), ..Canvas::default() }
    }

    /// Adds a marker. Those of the largest crowds that look alike in one place are one, which lets as
    /// much through as all of them one above the other: a sweep's points are many, and their places
    /// few.
    pub(crate) fn mark(&mut self, mark: Mark) {
        if mark.opacity <= MERGED {
            let place = [mark.at.0, mark.at.1].map(|to| (to * 10.0).round() as i64);
            let next = self.items.len();
            let there = *self.crowds.entry((mark.look, place)).or_insert(next);
            if let Some(Item::Mark(there)) = self.items.get_mut(there) {
                let through = (1.0 - there.opacity) * (1.0 - mark.opacity);
                // At 1 it would have a rim.
                there.opacity = (1.0 - through).min(MOST_OF_A_CROWD);
                return;
            }
        }
        self.items.push(Item::Mark(mark));
    }

    /// What `draw` adds has this tag.
    pub(crate) fn tagged(&mut self, tag: Tag, draw: impl FnOnce(&mut Canvas)) {
        let from = self.items.len();
        draw(self);
        let to = self.items.len();
        if to > from {
            self.groups.push(Group { from, to, tag });
        }
    }

    /// Gives all items in order to `take`, in pieces that have one tag or none.
    pub(crate) fn pieces<E>(
        &self,
        mut take: impl FnMut(&[Item], Option<&Tag>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        for group in &self.groups {
            apart(&self.items[at..group.from], &mut take)?;
            take(&self.items[group.from..group.to], Some(&group.tag))?;
            at = group.to;
        }
        apart(&self.items[at..], &mut take)
    }

    /// A filled rectangle.
    pub(crate) fn rect(&mut self, rect: Rect, color: Color) {
        let Rect { left, top, right, bottom } = rect;
        self.polygon(vec![(left, top), (right, top), (right, bottom), (left, bottom)], color);
    }

    /// The outline of a rectangle, as four bars: an open line would leave a notch at one corner.
    pub(crate) fn frame(&mut self, rect: Rect, color: Color, width: f64) {
        let (outer, inner) = (rect.grown(width / 2.0), rect.grown(-width / 2.0));
        self.rect(Rect { bottom: inner.top, ..outer }, color);
        self.rect(Rect { top: inner.bottom, ..outer }, color);
        self.rect(Rect { right: inner.left, top: inner.top, bottom: inner.bottom, ..outer }, color);
        self.rect(Rect { left: inner.right, top: inner.top, bottom: inner.bottom, ..outer }, color);
    }

    pub(crate) fn polygon(&mut self, points: Vec<(f64, f64)>, color: Color) {
        self.items.push(Item::Polygon { points, color });
    }

    pub(crate) fn path(&mut self, points: Vec<(f64, f64)>, color: Color, width: f64) {
        self.items.push(Item::Path { points, color, width });
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Color, width: f64) {
        self.path(vec![from, to], color, width);
    }

    /// An open line in dashes of `dash` pixels with gaps of `gap`, counted around its corners.
    pub(crate) fn dashed(
        &mut self,
        points: &[(f64, f64)],
        color: Color,
        width: f64,
        (dash, gap): (f64, f64),
    ) {
        // Where the next dash starts, or the one that is under way did, from the corner on.
        let mut start = 0.0f64;
        for ends in points.windows(2) {
            let (from, to) = (ends[0], ends[1]);
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy);
            let at = |d: f64| (from.0 + dx * d / length, from.1 + dy * d / length);
            while start < length {
                let end = (start + dash).min(length);
                if end > start.max(0.0) {
                    self.line(at(start.max(0.0)), at(end), color, width);
                }
                if start + dash > length {
                    break;
                }
                start += dash + gap;
            }
            start -= length;
        }
    }

    /// Text on one line; `at` is on its baseline.
    pub(crate) fn text(
        &mut self,
        text: &str,
        at: (f64, f64),
        size: f64,
        color: Color,
        align: Align,
    ) {
        let text = clean(text).into();
        self.items.push(Item::Text { text, at, size, color, align, upward: false });
    }

    /// Text that reads upwards, centred on `at`, which is on its baseline.
    pub(crate) fn text_upward(&mut self, text: &str, at: (f64, f64), size: f64, color: Color) {
        let (text, align) = (clean(text).into(), Align::Centre);
        self.items.push(Item::Text { text, at, size, color, align, upward: true });
    }
}

/// The same of items that are in no group: markers may have a tag of their own.
fn apart<E>(
    items: &[Item],
    take: &mut impl FnMut(&[Item], Option<&Tag>) -> Result<(), E>,
) -> Result<(), E> {
    let mut from = 0;
    for (index, item) in items.iter().enumerate() {
        let Item::Mark(mark) = item else { continue };
        let Some(tag) = mark.tag() else { continue };
        take(&items[from..index], None)?;
        take(&items[index..=index], Some(&tag))?;
        from = index + 1;
    }
    take(&items[from..], None)
}

#[cfg(test)]
impl Item {
    /// What a text covers, from the top of capitals to the baseline, and the text.
    pub(crate) fn text_place(&self) -> Option<(Rect, &str)> {
        let Item::Text { text, at, size, align, upward, .. } = self else { return None };
        let (width, height) = (crate::font::text_width(text, *size), 0.73 * size);
        let before = match align {
            Align::Left => 0.0,
            Align::Centre => width / 2.0,
            Align::Right => width,
        };
        let place = match upward {
            false => Rect::new(at.0 - before, at.1 - height, at.0 - before + width, at.1),
            true => Rect::new(at.0 - height, at.1 - before, at.0, at.1 - before + width),
        };
        Some((place, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_crowd_that_look_alike_in_one_place_are_one_as_dark_as_all() {
        let mut canvas = Canvas::default();
        let mut mark = |look, x, opacity, case| {
            let of = Some(Some(case));
            canvas.mark(Mark { look, at: (x, 5.0), radius: 3.0, opacity, of });
        };
        for case in 0..3 {
            mark(0, 1.0, MERGED, case);
            mark(0, 1.02, MERGED, 10 + case);
        }
        mark(0, 1.2, MERGED, 20);
        mark(1, 1.0, MERGED, 21);
        // Smaller crowds have a marker for each.
        (0..2).for_each(|case| mark(2, 1.0, 0.3, case));
        let marks = canvas.items.iter().map(|item| match item {
            Item::Mark(mark) => (mark.look, mark.of, mark.opacity),
            _ => panic!("a mark"),
        });
        let marks: Vec<_> = marks.collect();
        let cases: Vec<_> = marks.iter().map(|mark| (mark.0, mark.1.flatten())).collect();
        assert_eq!(cases, [(0, Some(0)), (0, Some(20)), (1, Some(21)), (2, Some(0)), (2, Some(1))]);
        let six = 1.0 - 0.75f64.powi(6);
        assert!((marks[0].2 - six).abs() < 1e-12 && marks[1].2 == MERGED, "{marks:?}");
    }

    #[test]
    fn a_segment_cuts_a_rectangle_only_where_it_passes() {
        let rect = Rect::new(10.0, 10.0, 20.0, 20.0);
        assert!(rect.cut_by((0.0, 0.0), (30.0, 30.0)));
        assert!(rect.cut_by((15.0, 15.0), (16.0, 15.0)));
        assert!(!rect.cut_by((0.0, 0.0), (30.0, 5.0)));
        assert!(!rect.cut_by((25.0, 0.0), (25.0, 30.0)));
    }
}
