//! Structured operators against dense ones and attention: tables, files and two charts.

use crate::text_table::{Side, text_table};
use crate::words::{clean, count};
use crate::xy::{Axis, Marks, XyChart};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Map, Value, json};
use tiersim_models::op_times::PricedBy;
use tiersim_models::results::operators::{OperatorTimes, WayTaken};

/// The way that all others are held against.
const OWN: &str = "structured";
/// Of factorisations.
const OWN_SOLVE: &str = "structured solve";

/// From which size on the structured operator is quicker than each other way.
fn wins(of: &OperatorTimes) -> Vec<(&'static str, Option<u64>)> {
    let own = |way: &str| if way.ends_with("solve") { OWN_SOLVE } else { OWN };
    let others = of.ways.iter().filter(|way| **way != own(way));
    others.map(|way| (*way, of.wins_from(own(way), way))).collect()
}

fn by_word(by: Option<PricedBy>) -> &'static str {
    match by {
        Some(PricedBy::Measurement) => "measurement of this device",
        Some(PricedBy::Inheritance) => "inheritance from another device",
        Some(PricedBy::Roofline) => "roofline",
        None => "",
    }
}

/// A time in four digits or so.
fn us(way: &WayTaken) -> String {
    match way.seconds.map(|seconds| seconds * 1e6) {
        None => "-".to_owned(),
        Some(us) if us >= 1000.0 => format!("{us:.0}"),
        Some(us) => format!("{us:.1}"),
    }
}

fn table(of: &OperatorTimes, cell: impl Fn(&WayTaken) -> String) -> String {
    let mut rows =
        vec![["N", "rank"].into_iter().chain(of.ways.iter().copied()).map(str::to_owned)]
            .into_iter()
            .map(Iterator::collect)
            .collect::<Vec<Vec<String>>>();
    rows.extend(of.sizes.iter().map(|size| {
        let head = [size.size.to_string(), size.rank.to_string()];
        head.into_iter().chain(size.taken.iter().map(&cell)).collect()
    }));
    text_table(2, &vec![Side::Right; 2 + of.ways.len()], &rows)
}

/// Times and bytes by size, and from where on the structured operator is quicker.
pub fn operators_text(of: &OperatorTimes) -> String {
    let mut text = format!(
        "N tokens meet each other on {} ({}), {} vectors of N numbers, {}, products in {}\n\nmicroseconds\n",
        clean(&of.machine),
        clean(&of.device),
        of.vectors,
        count(of.heads as usize, "head", "heads"),
        of.precision,
    );
    text += &table(of, us);
    text += "\nMiB of what stands for the matrix\n";
    text += &table(of, |way| format!("{:.3}", way.bytes as f64 / (1u64 << 20) as f64));
    text += "\n";
    for (way, from) in wins(of) {
        text += &match from {
            Some(size) => format!("  quicker than {way} from N = {size} on\n"),
            None => format!("  not quicker than {way} at the largest N\n"),
        };
    }
    text
}

/// The same as JSON.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn operators_json(of: &OperatorTimes, version: &str) -> Result<String, ChartError> {
    let way = |way: &WayTaken| {
        json!({
            "bytes": u64::try_from(way.bytes).ok(),
            "flops": u64::try_from(way.flops).ok(),
            "kernels": way.kernels,
            "us": way.seconds.map(|seconds| seconds * 1e6),
            "priced_by": by_word(way.by),
        })
    };
    let sizes: Vec<Value> = of
        .sizes
        .iter()
        .map(|size| {
            let ways = of.ways.iter().zip(&size.taken);
            let ways: Map<String, Value> =
                ways.map(|(name, taken)| ((*name).to_owned(), way(taken))).collect();
            json!({"size": size.size, "rank": size.rank, "ways": ways})
        })
        .collect();
    let wins: Map<String, Value> =
        wins(of).into_iter().map(|(way, from)| (way.to_owned(), json!(from))).collect();
    pretty(&json!({
        "schema": 1,
        "tiersim": version,
        "machine": of.machine,
        "device": of.device,
        "vectors": of.vectors,
        "heads": of.heads,
        "precision": of.precision,
        "sizes": sizes,
        "quicker_from": wins,
    }))
}

/// `operators.json`, `operators.csv`, and charts of time and of bytes against size.
///
/// # Errors
/// A number that JSON cannot hold, or a chart that cannot be drawn.
pub fn operators_artefacts(of: &OperatorTimes, version: &str) -> Result<Vec<Artefact>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(["size", "rank", "way", "bytes", "flops", "kernels", "us", "priced_by"])?;
    for size in &of.sizes {
        for (name, way) in of.ways.iter().zip(&size.taken) {
            writer.write_record([
                size.size.to_string(),
                size.rank.to_string(),
                (*name).to_owned(),
                way.bytes.to_string(),
                way.flops.to_string(),
                way.kernels.to_string(),
                way.seconds.map(|seconds| format!("{:.6}", seconds * 1e6)).unwrap_or_default(),
                by_word(way.by).to_owned(),
            ])?;
        }
    }
    let csv = writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))?;
    let mut files = vec![
        Artefact::new("operators.csv", csv),
        Artefact::new("operators.json", operators_json(of, version)?),
    ];
    let time = chart(of, version, ("time", "us"), |way| Some(way.seconds? * 1e6));
    files.extend(time.chart().artefacts("operators-time")?);
    let mib = |way: &WayTaken| Some(way.bytes as f64 / (1u64 << 20) as f64);
    let bytes = chart(of, version, ("what stands for the matrix", "MiB"), mib);
    files.extend(bytes.chart().artefacts("operators-memory")?);
    Ok(files)
}

fn chart(
    of: &OperatorTimes,
    version: &str,
    (label, unit): (&str, &str),
    value: impl Fn(&WayTaken) -> Option<f64>,
) -> XyChart {
    let mut chart = XyChart {
        title: format!("{}: structured operators, dense ones and attention", of.device),
        notes: vec![
            format!(
                "{}: {} vectors of N numbers, {}, {}",
                clean(&of.machine),
                of.vectors,
                count(of.heads as usize, "head", "heads"),
                of.precision
            ),
            format!("tiersim {version}"),
        ],
        x: Axis::log("N, tokens that meet each other", ""),
        y: Axis::log(label, unit),
        ..XyChart::default()
    };
    for (index, way) in of.ways.iter().enumerate() {
        let points =
            of.sizes.iter().filter_map(|size| Some((size.size as f64, value(&size.taken[index])?)));
        chart.add(way, Marks::LineAndPoints, points);
    }
    chart
}
