//! The font of every chart, which ships with the crate, and how wide texts are in it.

use crate::ChartError;
use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::OnceLock;

/// The font's name, and what a viewer without it should take: Verdana has the same widths.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
const FONT: &[u8] = include_bytes!("../assets/DejaVuSans.ttf");
/// Ascent plus descent of the font over its em: `ab_glyph` counts sizes by height.
pub(crate) const HEIGHT_OVER_EM: f64 = (1901.0 + 483.0) / 2048.0;

/// The font in plotters' size.
pub(crate) fn of_size(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::Name(FAMILY), size, FontStyle::Normal)
}

/// Width of `text` in a font of `size` pixels per em, before it is drawn.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    // Plotters rounds down to whole pixels: measure large.
    const LARGE: f64 = 512.0;
    let known = font().ok().and_then(|()| of_size(LARGE * HEIGHT_OVER_EM).box_size(text).ok());
    match known {
        Some((width, _)) => f64::from(width) / LARGE * size,
        // Drawing will report the missing font; layout may go on with a guess.
        None => text.chars().count() as f64 * size * 0.6,
    }
}

/// Registers the font, once per process.
pub(crate) fn font() -> Result<(), ChartError> {
    static READY: OnceLock<bool> = OnceLock::new();
    let ready = READY.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FONT).is_ok());
    if *ready { Ok(()) } else { Err(ChartError::Font) }
}
