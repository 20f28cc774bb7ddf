//! Predicted times of single ops against measured ones: a table, a file and a chart.

use crate::op_fit::fit_json;
use crate::text_table::{Side, cells, text_table};
use crate::words::{clean, count};
use crate::xy::{Axis, Band, Marks, XyChart};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::op_times::PricedBy;
use tiersim_models::results::op_fit::OpFit;
use tiersim_models::results::op_grades::{Errors, OpGrade, OpGrades, PricedOp};

/// Points of one series that a chart shows at most: more hide each other.
const SHOWN: usize = 1500;

/// What each way of pricing is called.
const WAYS: [(PricedBy, &str); 3] = [
    (PricedBy::Measurement, "measurement of this device"),
    (PricedBy::Inheritance, "inheritance from another device"),
    (PricedBy::Roofline, "roofline"),
];

fn way(by: PricedBy) -> &'static str {
    WAYS.iter().find(|(known, _)| *known == by).map_or("", |(_, word)| word)
}

/// A range of measured times in words.
fn range(of: Option<(f64, f64)>) -> String {
    let us = |seconds: f64| format!("{:.0}", seconds * 1e6);
    match of {
        None => "all".to_owned(),
        Some((from, to)) if from <= 0.0 => format!("below {} us", us(to)),
        Some((from, to)) if to.is_infinite() => format!("from {} us", us(from)),
        Some((from, to)) => format!("{} to {} us", us(from), us(to)),
    }
}

/// Counts and errors by kind, precision and size.
pub fn ops_text(of: &OpGrades) -> String {
    let mut text = format!(
        "{} on {} ({}): {}\n",
        clean(&of.table),
        clean(&of.machine),
        clean(&of.device),
        count(of.ops.len(), "op", "ops")
    );
    for (by, word) in WAYS {
        let ops = of.priced(by);
        if ops > 0 {
            text += &format!("  {ops} priced by {word}\n");
        }
    }
    if of.unpriced > 0 {
        text += &format!(
            "  {} left out: no peak of their precision, or no link to so many devices\n",
            of.unpriced
        );
    }
    let grades = of.grades();
    if grades.is_empty() {
        let sum: f64 = of.ops.iter().map(|op| op.predicted).sum();
        return text
            + &format!("  {:.3} us in all; without a column us nothing is graded\n", sum * 1e6);
    }
    let head =
        ["kind", "dtype", "measured", "ops", "median %", "p95 %", "bias %", "worst %", "line"];
    let mut rows = vec![cells(head)];
    let per_cent = |share: f64| format!("{:.1}", share * 100.0);
    rows.extend(grades.iter().map(|grade| {
        let OpGrade { kind, precision, errors, worst, .. } = grade;
        let Errors { count, median, p95, bias } = errors;
        vec![
            (*kind).to_owned(),
            (*precision).to_owned(),
            range(grade.range),
            count.to_string(),
            per_cent(*median),
            per_cent(*p95),
            format!("{:+.1}", bias * 100.0),
            format!("{:+.1}", worst.1 * 100.0),
            worst.0.to_string(),
        ]
    }));
    let sides = [[Side::Left; 3].as_slice(), &[Side::Right; 6]].concat();
    text + "\n" + &text_table(2, &sides, &rows)
}

/// The same as JSON.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn ops_json(of: &OpGrades, fit: Option<&OpFit>, version: &str) -> Result<String, ChartError> {
    let priced: serde_json::Map<String, Value> =
        WAYS.iter().map(|&(by, word)| (word.to_owned(), of.priced(by).into())).collect();
    let grades = of.grades().into_iter().map(|grade| {
        json!({
            "kind": grade.kind,
            "dtype": grade.precision,
            "measured": range(grade.range),
            "count": grade.errors.count,
            "median": grade.errors.median,
            "p95": grade.errors.p95,
            "bias": grade.errors.bias,
            "worst": grade.worst.1,
            "worst_line": grade.worst.0,
        })
    });
    let mut document = json!({
        "tiersim": version,
        "machine": of.machine,
        "device": of.device,
        "table": of.table,
        "ops": of.ops.len(),
        "unpriced": of.unpriced,
        "priced_by": priced,
        "grades": grades.collect::<Vec<Value>>(),
    });
    if let Some(fit) = fit {
        document["fits"] = fit_json(fit);
    }
    pretty(&document)
}

/// Files: every op, the grades, and the chart where there is something to compare.
///
/// # Errors
/// A number that JSON cannot hold, or a chart that cannot be drawn.
pub fn ops_artefacts(
    of: &OpGrades,
    fit: Option<&OpFit>,
    version: &str,
) -> Result<Vec<Artefact>, ChartError> {
    let us = |seconds: f64| format!("{:.6}", seconds * 1e6);
    let rows = of.ops.iter().map(|op| {
        [
            op.line.to_string(),
            op.kind.to_owned(),
            op.precision.to_owned(),
            us(op.predicted),
            op.measured.map(us).unwrap_or_default(),
            way(op.by).to_owned(),
        ]
    });
    let head = ["line", "kind", "dtype", "predicted_us", "measured_us", "priced_by"];
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(head)?;
    for row in rows {
        writer.write_record(&row)?;
    }
    let table = writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))?;
    let mut files = vec![
        Artefact::new("ops.csv", table),
        Artefact::new("ops.json", ops_json(of, fit, version)?),
    ];
    if let Some(chart) = chart(of, version) {
        files.extend(chart.chart().artefacts("predicted-vs-measured")?);
    }
    Ok(files)
}

/// Every op as a point; of very many every n-th.
fn chart(of: &OpGrades, version: &str) -> Option<XyChart> {
    let grades = of.grades();
    let all: Vec<&OpGrade> = grades.iter().filter(|grade| grade.range.is_none()).collect();
    let most = all.iter().map(|grade| grade.errors.count).max()?;
    let each = most.div_ceil(SHOWN).max(1);
    let thinned = if each > 1 { format!("; one op of {each} is drawn") } else { String::new() };
    let mut chart = XyChart {
        title: format!("{}: predicted against measured ops", of.device),
        notes: vec![
            format!(
                "{} on {}; error either way: median / 95th percentile{thinned}",
                clean(&of.table),
                clean(&of.machine)
            ),
            format!("tiersim {version}"),
        ],
        x: Axis::log("measured", "us"),
        y: Axis::log("predicted", "us"),
        bands: vec![Band::new("within 10 %", 0.1), Band::new("within 30 %", 0.3)],
        diagonal: true,
        ..XyChart::default()
    };
    for grade in all {
        let label = format!(
            "{} {}: {:.1} / {:.1} %",
            grade.kind,
            grade.precision,
            grade.errors.median * 100.0,
            grade.errors.p95 * 100.0
        );
        let own = |op: &&PricedOp| op.kind == grade.kind && op.precision == grade.precision;
        let points = of.ops.iter().filter(own).filter_map(|op| Some((op.measured?, op.predicted)));
        let points = points.step_by(each).map(|(x, y)| (x * 1e6, y * 1e6));
        chart.add(&label, Marks::Points, points);
    }
    Some(chart)
}
