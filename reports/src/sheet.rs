//! What a chart is drawn on: a page of a report, a slide, or a column of a paper.
//!
//! Sizes of type are the same number of pixels on every sheet; what differs is how many pixels
//! there are, and how large one of them is. A slide has 960 pixels by 540 and is shown at twice
//! that, so its type is large; a column of a paper is 84 mm wide, and 14 pixels are 8 points
//! there. A figure in a paper has its caption below it and no title in it: title, question and
//! provenance go into the description of its SVG.
//! Invariant: what is drawn depends on the sheet in its layout only, never in its numbers.

/// What charts are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A page on a screen: 1200 by 750 pixels.
    #[default]
    Screen,
    /// A slide of 16:9: 1920 by 1080 pixels, large type.
    Slide,
    /// One column of a paper: 84 mm wide, type of 8 points, thin lines, no title.
    Paper,
}

/// By which tiersim a chart is made, which it says, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made<'a> {
    /// Such as `0.1.0`.
    pub version: &'a str,
    /// What for.
    pub style: Style,
}

impl<'a> From<&'a str> for Made<'a> {
    fn from(version: &'a str) -> Made<'a> {
        Made { version, style: Style::Screen }
    }
}

/// Width of a column of a paper in millimetres.
const COLUMN_MM: f64 = 84.0;

/// The sheet of a chart, in pixels of its layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sheet {
    pub(crate) style: Style,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// To the left and right of texts.
    pub(crate) margin: f64,
}

impl Default for Sheet {
    fn default() -> Sheet {
        Sheet::of(Style::Screen)
    }
}

impl Sheet {
    pub(crate) const fn of(style: Style) -> Sheet {
        match style {
            Style::Screen => Sheet { style, width: 1200.0, height: 750.0, margin: 28.0 },
            Style::Slide => Sheet { style, width: 960.0, height: 540.0, margin: 24.0 },
            // 84 mm are 238 points; 14 pixels are to be 8 of them.
            Style::Paper => Sheet { style, width: 417.0, height: 330.0, margin: 4.0 },
        }
    }

    /// A title, a question and where numbers come from stand on the sheet itself.
    pub(crate) fn is_titled(&self) -> bool {
        self.style != Style::Paper
    }

    /// Everything that is plotted ends above this.
    pub(crate) fn floor(&self) -> f64 {
        if self.is_titled() { self.height - 62.0 } else { self.height - 4.0 }
    }

    /// Room beside a plot, of which a narrow sheet has less to give.
    pub(crate) fn aside(&self, wanted: f64) -> f64 {
        wanted.min(self.width * 0.3)
    }

    /// How many ticks along so many pixels, at most `wanted`.
    pub(crate) fn ticks(&self, wanted: usize, pixels: f64) -> usize {
        if self.style == Style::Screen {
            wanted
        } else {
            wanted.min((pixels / 55.0) as usize).max(2)
        }
    }

    /// What lines are as thick as, beside those of a screen.
    pub(crate) fn stroke(&self) -> f64 {
        if self.is_titled() { 1.0 } else { 0.75 }
    }

    /// Pixels drawn for each pixel of the layout, and how many of them become one of the picture.
    pub(crate) fn resolution(&self) -> (u32, u32) {
        match self.style {
            Style::Screen => (3, 3),
            Style::Slide => (4, 2),
            // 504 dots per inch.
            Style::Paper => (8, 2),
        }
    }

    /// Width and height of an SVG as it says them.
    pub(crate) fn said(&self, (width, height): (u32, u32)) -> (String, String) {
        let mm = |pixels: u32| format!("{:.1}mm", f64::from(pixels) * COLUMN_MM / self.width);
        let pixels = |by: u32| ((width * by).to_string(), (height * by).to_string());
        match self.style {
            Style::Screen => pixels(1),
            Style::Slide => pixels(2),
            Style::Paper => (mm(width), mm(height)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of labels, in pixels.
    const LABEL: f64 = 14.0;

    #[test]
    fn type_of_a_paper_has_eight_points_and_that_of_a_slide_is_larger_than_on_a_screen() {
        let points = LABEL / Sheet::of(Style::Paper).width * COLUMN_MM / 25.4 * 72.0;
        assert!((points - 8.0).abs() < 0.01, "{points}");
        let share = |style| LABEL / Sheet::of(style).width;
        assert!(share(Style::Slide) > 1.2 * share(Style::Screen));
        let slide = Sheet::of(Style::Slide);
        assert_eq!(slide.width * 9.0, slide.height * 16.0);
    }

    #[test]
    fn an_svg_says_its_size_in_pixels_or_millimetres() {
        let said = |style: Style| {
            let sheet = Sheet::of(style);
            sheet.said((sheet.width as u32, sheet.height as u32))
        };
        assert_eq!(said(Style::Screen), ("1200".to_owned(), "750".to_owned()));
        assert_eq!(said(Style::Slide), ("1920".to_owned(), "1080".to_owned()));
        assert_eq!(said(Style::Paper), ("84.0mm".to_owned(), "66.5mm".to_owned()));
    }
}
