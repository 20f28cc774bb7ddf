//! The drawing of a machine: boxes for tiers and nodes, lines with rates for links.
//!
//! Lines leave a box in the middle of its right side and enter each box to the right at a place of
//! their own, where their label stands, so no two labels can meet. A link within a column enters
//! its lower box in the same way, from the left side of the upper one.
//! Invariant: boxes stand apart and inside the canvas, whatever the machine.

use super::layout::{Columns, column_of, columns};
use super::{gb_per_s, link_word, node_word, tier_word};
use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::fit;
use crate::render::{CHART_SIZE, Chart};
use crate::sources::{AS_LISTED, in_words};
use crate::style::{FRAME, INK, LABEL, SMALL, SOFT_INK, SUBTITLE, TITLE, WHITE, series_color};
use crate::words::{clean, number};
use tiersim_models::energy::Confidence;
use tiersim_models::hardware::{Capacity, Hardware, Link, TierKind};
use tiersim_models::ids::NodeId;
use tiersim_models::units::shown::of_sizes;

const BOX: f64 = 216.0;
/// Left and right of the drawing.
const MARGIN: f64 = 28.0;
/// Between columns: the trunks of lines, then their labels.
const TRUNKS: f64 = 44.0;
const LABELS: f64 = 214.0;
const PITCH: f64 = BOX + TRUNKS + LABELS;
/// Room for one line's two labels.
const PORT: f64 = 44.0;
const ROW: f64 = 18.0;
const GAP: f64 = 26.0;
const HEAD: f64 = 92.0;
const FOOT: f64 = 62.0;
/// Pixels of a trunk beside the next.
const STEP: f64 = 7.0;

/// The machine, drawn; `version` is tiersim's own.
pub fn drawing(hardware: &Hardware, version: &str) -> Chart {
    let places = Places::new(hardware);
    let (width, height) = places.size;
    let mut canvas = Canvas::default();
    let room = f64::from(width) - 2.0 * MARGIN;
    canvas.text(&fit(&hardware.name, TITLE, room), (MARGIN, 36.0), TITLE, INK, Align::Left);
    let about = fit(&hardware.about, SUBTITLE, room);
    canvas.text(&about, (MARGIN, 60.0), SUBTITLE, SOFT_INK, Align::Left);
    for link in 0..hardware.links.len() {
        places.line(&mut canvas, link);
    }
    for node in hardware.node_ids() {
        place(&mut canvas, hardware, places.of(node), node);
    }
    let notes = [
        "rates in GB/s towards the device / away from it (both: together); \
         ? assumed, ! announced, otherwise datasheet or measured"
            .to_owned(),
        format!(
            "{} of {} numbers · tiersim {version}",
            in_words(hardware, &AS_LISTED),
            hardware.facts.len()
        ),
    ];
    for (note, up) in notes.iter().zip([30.0, 12.0]) {
        let at = (MARGIN, f64::from(height) - up);
        canvas.text(&fit(note, SMALL, room), at, SMALL, SOFT_INK, Align::Left);
    }
    Chart::sized(format!("{}: tiers and links", clean(&hardware.name)), canvas, places.size)
}

/// Where everything stands.
struct Places<'h> {
    hardware: &'h Hardware,
    columns: Columns,
    size: (u32, u32),
    /// By node.
    boxes: Vec<Rect>,
    /// By link: the height at which it enters its right or lower box.
    ports: Vec<f64>,
}

impl Places<'_> {
    fn new(hardware: &Hardware) -> Places<'_> {
        let columns = columns(hardware);
        let entering = |node| links_into(hardware, &columns, node);
        let high = |node: NodeId| {
            let text = lines(hardware, node).len() as f64 * ROW + 18.0;
            text.max(entering(node).len() as f64 * PORT)
        };
        let tall =
            |column: &Vec<NodeId>| column.iter().map(|&node| high(node) + GAP).sum::<f64>() - GAP;
        let tallest = columns.iter().map(tall).fold(0.0, f64::max);
        let wide = 2.0 * MARGIN + PITCH * (columns.len() - 1) as f64 + BOX;
        let least = f64::from(CHART_SIZE.0) * 0.75;
        let size = (wide.max(least).ceil() as u32, (HEAD + tallest + FOOT).ceil() as u32);
        let mut boxes = vec![Rect::new(0.0, 0.0, 0.0, 0.0); hardware.node_ids().count()];
        let mut ports = vec![0.0; hardware.links.len()];
        for (index, column) in columns.iter().enumerate() {
            let left = MARGIN + PITCH * index as f64;
            let mut top = HEAD + (tallest - tall(column)) / 2.0;
            for &node in column {
                let rect = Rect::new(left, top, left + BOX, top + high(node));
                let links = entering(node);
                let first = (rect.top + rect.bottom - PORT * (links.len() as f64 - 1.0)) / 2.0;
                for (nth, link) in links.into_iter().enumerate() {
                    ports[link] = first + PORT * nth as f64;
                }
                boxes[node.index()] = rect;
                top = rect.bottom + GAP;
            }
        }
        Places { hardware, columns, size, boxes, ports }
    }

    fn of(&self, node: NodeId) -> Rect {
        self.boxes[node.index()]
    }

    fn line(&self, canvas: &mut Canvas, index: usize) {
        let Places { hardware, columns, .. } = self;
        let link = &hardware.links[index];
        let [from, to] = ends(columns, link);
        let ((column, row), (other, _)) = (spot(columns, from), spot(columns, to));
        let (start, end, port) = (self.of(from), self.of(to), self.ports[index]);
        let points = if column == other {
            let (y, x) = (start.bottom - 8.0, end.left - 6.0 - STEP * (row % 3) as f64);
            vec![(start.left, y), (x, y), (x, port), (end.left, port)]
        } else {
            // Trunks of different boxes stand beside each other.
            let leads = |node: &&NodeId| {
                hardware.links.iter().any(|link| {
                    let [from, to] = ends(columns, link);
                    from == **node && spot(columns, to).0 != column
                })
            };
            let nth = columns[column][..row].iter().filter(leads).count() as f64;
            let all = columns[column].iter().filter(leads).count() as f64;
            let trunk = start.right + 10.0 + nth * STEP.min((TRUNKS - 14.0) / all);
            let middle = (start.top + start.bottom) / 2.0;
            vec![(start.right, middle), (trunk, middle), (trunk, port), (end.left, port)]
        };
        canvas.path(points, SOFT_INK, 2.0);
        let at = end.left - LABELS + 4.0;
        for (text, (y, ink)) in labels(hardware, link).iter().zip([(-5.0, INK), (15.0, SOFT_INK)]) {
            let text = fit(text, SMALL, LABELS - 28.0);
            canvas.text(&text, (at, port + y), SMALL, ink, Align::Left);
        }
    }
}

/// Column and position in it, from the top.
fn spot(columns: &Columns, node: NodeId) -> (usize, usize) {
    let column = column_of(columns, node);
    (column, columns[column].iter().position(|&there| there == node).unwrap_or(0))
}

/// The two ends of a link: that from which its line comes, and that which it enters.
fn ends(columns: &Columns, link: &Link) -> [NodeId; 2] {
    let mut ends = [link.near, link.far];
    ends.sort_by_key(|&node| spot(columns, node));
    ends
}

/// The links that enter a node, by where they come from: those of its own column first.
fn links_into(hardware: &Hardware, columns: &Columns, node: NodeId) -> Vec<usize> {
    let here = spot(columns, node).0;
    let links = hardware.links.iter().enumerate();
    let mut entering: Vec<_> = links
        .filter(|(_, link)| ends(columns, link)[1] == node)
        .map(|(index, link)| {
            let (column, row) = spot(columns, ends(columns, link)[0]);
            (column != here, row, index)
        })
        .collect();
    entering.sort_unstable();
    entering.into_iter().map(|(.., index)| index).collect()
}

/// A link's name and kind, and its rates.
fn labels(hardware: &Hardware, link: &Link) -> [String; 2] {
    let kind = link.kind.map(link_word);
    let set = link.raid0.as_ref().map(|set| set.drives);
    let kind = match (kind, set) {
        (Some(kind), None) => format!(" · {kind}"),
        (Some(kind), Some(drives)) => format!(" · {drives} × {kind}"),
        (None, Some(drives)) => format!(" · {drives} drives"),
        (None, None) => String::new(),
    };
    let mark = |field: &str| mark(hardware, &format!("links.{}.{field}", link.name));
    let rate = |rate, field| format!("{}{}", gb_per_s(rate), mark(field));
    let both = link.service.as_ref().and_then(|service| service.total);
    let both = both.map_or(String::new(), |both| format!(", both {}", rate(both, "total")));
    let rates = [rate(link.read.rate, "read"), rate(link.write.rate, "write")].join(" / ");
    [format!("{}{kind}", link.name), format!("{rates}{both}")]
}

/// What marks a number by the kind of its source.
fn mark(hardware: &Hardware, path: &str) -> &'static str {
    let fact = hardware.facts.iter().find(|fact| fact.path == path);
    match fact.map(|fact| fact.source.confidence()) {
        Some(Confidence::Assumed) => "?",
        Some(Confidence::Announced) => "!",
        _ => "",
    }
}

fn place(canvas: &mut Canvas, hardware: &Hardware, rect: Rect, node: NodeId) {
    let color = match hardware.tier_of(node).map(|tier| hardware.tiers[tier.index()].kind) {
        Some(TierKind::Hbm) => series_color(0).tint(0.22),
        Some(TierKind::Dram) => series_color(2).tint(0.22),
        Some(TierKind::Cxl) => series_color(3).tint(0.3),
        Some(TierKind::Nvme) => series_color(4).tint(0.3),
        Some(TierKind::Remote) => series_color(5).tint(0.3),
        None => WHITE,
    };
    canvas.rect(rect, color);
    canvas.frame(rect, FRAME, 1.5);
    let lines = lines(hardware, node);
    let mut y = (rect.top + rect.bottom - ROW * lines.len() as f64) / 2.0 + 13.0;
    for (nth, line) in lines.iter().enumerate() {
        let (size, ink) = if nth == 0 { (LABEL, INK) } else { (SMALL, SOFT_INK) };
        let text = fit(line, size, BOX - 20.0);
        canvas.text(&text, ((rect.left + rect.right) / 2.0, y), size, ink, Align::Centre);
        y += ROW;
    }
}

/// What stands in a node's box.
fn lines(hardware: &Hardware, node: NodeId) -> Vec<String> {
    let Some(tier) = hardware.tier_of(node) else {
        let node = &hardware.nodes[node.index() - hardware.tiers.len()];
        return vec![node.name.clone(), node_word(node.kind).to_owned()];
    };
    let tier = &hardware.tiers[tier.index()];
    let mark = |field: &str| mark(hardware, &format!("tiers.{}.{field}", tier.name));
    let mut lines = vec![
        tier.name.clone(),
        format!("{}, {}{}", tier_word(tier.kind), size(tier.capacity), mark("capacity")),
        format!("in place {} GB/s{}", gb_per_s(tier.access.rate), mark("bandwidth")),
    ];
    if let (TierKind::Hbm, Some(compute)) = (tier.kind, &hardware.compute) {
        lines.insert(1, compute.name.clone());
    }
    lines
}

/// A capacity as short as it can be.
fn size(capacity: Capacity) -> String {
    match capacity {
        Capacity::Unlimited => "no limit".to_owned(),
        Capacity::Limited(bytes) => {
            let (unit, size) = of_sizes(bytes.get() as f64);
            format!("{} {unit}", number(bytes.get() as f64 / size))
        }
    }
}
