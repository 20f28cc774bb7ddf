//! A canvas as SVG and as PNG, through plotters' two backends and the font of this crate.
//!
//! Both are drawn from the same list. The SVG is drawn at ten units per pixel, because plotters
//! counts in whole units; the PNG at three pixels per pixel and averaged, because plotters fills
//! polygons without smoothing their edges. The backends disagree on what a font size is and on
//! where text hangs, so text is placed here by its baseline with one factor per backend.
//! Items with a tag become one `<g>` of the SVG with `data-series`, `data-case`, `data-name`, and
//! `data-x` and `data-y` in pixels, so that a page knows which mark is whose without asking twice.
//! Invariant: no system font, no file, no clock: the same canvas gives the same bytes.

use crate::canvas::{Align, Canvas, Color, Item, Tag};
use crate::font::{HEIGHT_OVER_EM, font, of_size};
use crate::words::escaped;
use crate::{Artefact, ChartError};
use plotters::coord::Shift;
use plotters::prelude::{
    BitMapBackend, Circle, DrawingArea, DrawingBackend, IntoDrawingArea, PathElement, Polygon,
    RGBAColor, SVGBackend, ShapeStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, TextStyle};
use std::io::Write;

/// Width and height of a chart in pixels; only drawings of machines have other sizes.
pub const CHART_SIZE: (u32, u32) = (1200, 750);

/// Units per pixel of the SVG.
const SVG_SCALE: u32 = 10;

/// Items that are drawn at once into an SVG.
const MOST_DRAWN: usize = 1000;

/// Charts with the names of their files, without the ending.
pub(crate) type Charts = Vec<(String, Chart)>;

/// A chart, laid out and ready to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    title: String,
    canvas: Canvas,
    size: (u32, u32),
}

/// What the two backends do differently.
#[derive(Clone, Copy)]
struct Dialect {
    scale: f64,
    /// Plotters' font size for a font of 1 pixel per em.
    font: f64,
    /// From the anchor of text hung by its top to its baseline, in em.
    baseline: f64,
    /// Does the backend draw thick lines itself?
    strokes: bool,
    /// What widths of lines are multiplied by.
    thick: f64,
}

impl Chart {
    pub(crate) fn new(title: String, canvas: Canvas) -> Chart {
        let size = (canvas.sheet.width as u32, canvas.sheet.height as u32);
        Chart::sized(title, canvas, size)
    }

    /// A drawing that needs another size.
    pub(crate) fn sized(title: String, mut canvas: Canvas, size: (u32, u32)) -> Chart {
        // All charts of a long sweep are there before the first is written.
        canvas.items.shrink_to_fit();
        Chart { title, canvas, size }
    }

    /// The chart as a self-contained SVG document.
    pub fn svg(&self) -> Result<String, ChartError> {
        let mut svg = Vec::new();
        self.write_svg(&mut svg)?;
        Ok(String::from_utf8(svg).expect("an SVG is text"))
    }

    /// Writes it piece by piece: that of a long sweep is never whole in memory.
    pub(crate) fn write_svg(&self, to: &mut dyn Write) -> Result<(), ChartError> {
        font()?;
        let (width, height) = self.size;
        let size = (width * SVG_SCALE, height * SVG_SCALE);
        let (thick, said) = (self.canvas.sheet.stroke(), self.canvas.sheet.said(self.size));
        let dialect = Dialect {
            scale: f64::from(SVG_SCALE),
            font: 1.24,
            baseline: 0.76,
            strokes: true,
            thick,
        };
        write!(
            to,
            "<svg width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" \
             xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n<title>{}</title>\n",
            said.0,
            said.1,
            size.0,
            size.1,
            escaped(&self.title)
        )?;
        if !self.canvas.said.is_empty() {
            writeln!(to, "<desc>{}</desc>", escaped(&self.canvas.said.join(" · ")))?;
        }
        let add = |to: &mut dyn Write, items: &[Item], first: bool| {
            let mut drawn = String::new();
            draw(items, first, SVGBackend::with_string(&mut drawn, size), dialect)?;
            add_elements(to, &drawn)
        };
        add(to, &[], true)?;
        self.canvas.pieces(|items, tag| {
            if let Some(tag) = tag {
                to.write_all(opening(tag).as_bytes())?;
            }
            for items in items.chunks(MOST_DRAWN) {
                add(to, items, false)?;
            }
            if tag.is_some() {
                to.write_all(b"</g>\n")?;
            }
            Ok::<_, ChartError>(())
        })?;
        Ok(to.write_all(b"</svg>\n")?)
    }

    /// The chart as files of this name, as SVG and as PNG.
    pub fn artefacts(&self, name: &str) -> Result<[Artefact; 2], ChartError> {
        let svg = Artefact::new(format!("{name}.svg"), self.svg()?);
        Ok([svg, Artefact::new(format!("{name}.png"), self.png()?)])
    }

    /// The chart as an RGB PNG.
    pub fn png(&self) -> Result<Vec<u8>, ChartError> {
        font()?;
        let (width, height) = self.size;
        let (drawn, averaged_of) = self.canvas.sheet.resolution();
        let thick = self.canvas.sheet.stroke();
        let (wide, high) = (width * drawn, height * drawn);
        let (width, height) = (wide / averaged_of, high / averaged_of);
        // White.
        let mut large = vec![0xffu8; (wide * high * 3) as usize];
        let dialect = Dialect {
            scale: f64::from(drawn),
            font: HEIGHT_OVER_EM,
            baseline: HEIGHT_OVER_EM / 2.0,
            strokes: false,
            thick,
        };
        let backend = BitMapBackend::with_buffer(&mut large, (wide, high));
        draw(&self.canvas.items, false, backend, dialect)?;
        let pixels = averaged(&large, width as usize, height as usize, averaged_of as usize);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_filter(png::FilterType::Up);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// Opens an element that says what is in it; places are in pixels.
fn opening(tag: &Tag) -> String {
    let Tag { series, case, name, at } = tag;
    let mut open = "<g".to_owned();
    let mut say = |what: &str, value: Option<String>| {
        open += &value.map_or(String::new(), |value| format!(" data-{what}=\"{value}\""));
    };
    say("series", series.map(|series| series.to_string()));
    say("case", case.map(|case| case.to_string()));
    say("name", name.as_deref().map(escaped));
    say("x", at.map(|(x, _)| format!("{x:.1}")));
    say("y", at.map(|(_, y)| format!("{y:.1}")));
    open + ">\n"
}

/// Adds what was drawn, one element to a line. Plotters puts it into an element of its own, whose
/// size is in units, and a line break into every text.
fn add_elements(to: &mut dyn Write, drawn: &str) -> Result<(), ChartError> {
    let mut in_text = false;
    for line in drawn.lines().skip(1).filter(|line| *line != "</svg>") {
        to.write_all(line.as_bytes())?;
        in_text = line.starts_with("<text ") || (in_text && line != "</text>");
        if !in_text {
            to.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Draws items, on white if they are the first.
fn draw<B: DrawingBackend>(
    items: &[Item],
    first: bool,
    backend: B,
    by: Dialect,
) -> Result<(), ChartError> {
    let area = backend.into_drawing_area();
    if first {
        area.fill(&plotters::style::WHITE).map_err(|e| failed(&e))?;
    }
    for item in items {
        match item {
            Item::Mark(mark) => {
                mark.drawn().try_for_each(|shape| draw_item(&area, &shape, by))?;
            }
            other => draw_item(&area, other, by)?,
        }
    }
    area.present().map_err(|e| failed(&e))
}

fn failed(error: &dyn std::fmt::Display) -> ChartError {
    ChartError::Draw(error.to_string())
}

/// Draws an item that is no marker.
fn draw_item<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    item: &Item,
    by: Dialect,
) -> Result<(), ChartError> {
    let units = |v: f64| (v * by.scale).round() as i32;
    let place = |points: &[(f64, f64)]| -> Vec<(i32, i32)> {
        points.iter().map(|&(x, y)| (units(x), units(y))).collect()
    };
    {
        match item {
            Item::Mark(_) => unreachable!("a marker is drawn by its shapes"),
            Item::Polygon { points, color } => {
                let shape = Polygon::new(place(points), filled(*color));
                area.draw(&shape).map_err(|e| failed(&e))?;
            }
            Item::Disc { centre, radius, color } => {
                let at = (units(centre.0), units(centre.1));
                let shape = Circle::new(at, units(*radius), filled(*color));
                area.draw(&shape).map_err(|e| failed(&e))?;
            }
            Item::Path { points, color, width } if by.strokes => {
                let width = units(*width * by.thick).max(1) as u32;
                let style = filled(*color).stroke_width(width);
                area.draw(&PathElement::new(place(points), style)).map_err(|e| failed(&e))?;
            }
            Item::Path { points, color, width } => {
                for quad in
                    points.windows(2).filter_map(|ends| stroke(ends[0], ends[1], *width * by.thick))
                {
                    let shape = Polygon::new(place(&quad), filled(*color));
                    area.draw(&shape).map_err(|e| failed(&e))?;
                }
            }
            Item::Text { text, at, size, color, align, upward } => {
                let style = text_style(*size, *color, *align, *upward, by);
                let drop = by.baseline * size;
                let (x, y) = if *upward { (at.0 - drop, at.1) } else { (at.0, at.1 - drop) };
                area.draw_text(text, &style, (units(x), units(y))).map_err(|e| failed(&e))?;
            }
        }
    }
    Ok(())
}

fn text_style(
    size: f64,
    color: Color,
    align: Align,
    upward: bool,
    by: Dialect,
) -> TextStyle<'static> {
    let turn = if upward { FontTransform::Rotate270 } else { FontTransform::None };
    let font = of_size(size * by.font * by.scale);
    let side = match align {
        Align::Left => HPos::Left,
        Align::Centre => HPos::Center,
        Align::Right => HPos::Right,
    };
    font.transform(turn).color(&rgba(color)).pos(Pos::new(side, VPos::Top))
}

fn rgba(color: Color) -> RGBAColor {
    RGBAColor(color.0, color.1, color.2, color.3)
}

fn filled(color: Color) -> ShapeStyle {
    ShapeStyle { color: rgba(color), filled: true, stroke_width: 1 }
}

/// The rectangle that a thick segment covers, with its ends drawn out so that corners close.
fn stroke(a: (f64, f64), b: (f64, f64), width: f64) -> Option<[(f64, f64); 4]> {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return None;
    }
    let half = width / 2.0;
    let (ux, uy) = (dx / length * half, dy / length * half);
    let cap = 0.5;
    let (a, b) = ((a.0 - ux * cap, a.1 - uy * cap), (b.0 + ux * cap, b.1 + uy * cap));
    Some([(a.0 - uy, a.1 + ux), (a.0 + uy, a.1 - ux), (b.0 + uy, b.1 - ux), (b.0 - uy, b.1 + ux)])
}

/// Each pixel as the mean of the `scale` by `scale` pixels drawn for it.
fn averaged(large: &[u8], width: usize, height: usize, scale: usize) -> Vec<u8> {
    match scale {
        2 => means::<2>(large, width, height),
        3 => means::<3>(large, width, height),
        _ => unreachable!("sheets average 2 or 3 pixels"),
    }
}

/// Most blocks are of one row like the next, so rows are added up first, all bytes of one beside
/// those of the other, and then the pixels of a block.
fn means<const SCALE: usize>(large: &[u8], width: usize, height: usize) -> Vec<u8> {
    let (row, count) = (width * SCALE * 3, (SCALE * SCALE) as u16);
    let mut pixels = vec![0u8; width * height * 3];
    let mut sums = vec![0u16; row];
    for (rows, line) in large.chunks_exact(row * SCALE).zip(pixels.chunks_exact_mut(width * 3)) {
        sums.fill(0);
        for one in rows.chunks_exact(row) {
            sums.iter_mut().zip(one).for_each(|(sum, &byte)| *sum += u16::from(byte));
        }
        for (block, pixel) in sums.chunks_exact(3 * SCALE).zip(line.chunks_exact_mut(3)) {
            for (channel, byte) in pixel.iter_mut().enumerate() {
                let sum: u16 = (0..SCALE).map(|at| block[3 * at + channel]).sum();
                *byte = ((sum + count / 2) / count) as u8;
            }
        }
    }
    pixels
}

#[cfg(test)]
impl Chart {
    /// All that is drawn; a test gives no memory back.
    pub(crate) fn items(&self) -> &'static [Item] {
        let mut all = Vec::new();
        for item in &self.canvas.items {
            match item {
                Item::Mark(mark) => all.extend(mark.drawn()),
                other => all.push(other.clone()),
            }
        }
        all.leak()
    }

    /// Nothing leaves the page, no text is small, and texts cover at most so many square pixels of
    /// one another.
    pub(crate) fn assert_legible(&self, most: f64) {
        use crate::canvas::Rect;
        let page = Rect::new(0.0, 0.0, f64::from(self.size.0), f64::from(self.size.1));
        let mut texts: Vec<(Rect, &str)> = Vec::new();
        for item in self.items() {
            let corners = match item {
                Item::Mark(_) => unreachable!("markers are drawn by their shapes"),
                Item::Polygon { points, .. } | Item::Path { points, .. } => points.clone(),
                Item::Disc { centre, .. } => vec![*centre],
                Item::Text { size, .. } => {
                    let (place, text) = item.text_place().expect("it is a text");
                    assert!(*size >= 13.0, "{}: {text} is small", self.title);
                    for (other, known) in &texts {
                        let clear = place.overlap(other) <= most;
                        assert!(clear, "{}: {text:?} covers {known:?}", self.title);
                    }
                    texts.push((place, text));
                    vec![(place.left, place.top), (place.right, place.bottom)]
                }
            };
            for (x, y) in corners {
                let inside = page.holds(&Rect::around((x, y), 0.0));
                assert!(inside, "{}: ({x}, {y}) of {item:?}", self.title);
            }
        }
    }
}
