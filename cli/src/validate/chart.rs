//! Every measured step as a point: predicted against measured.

use crate::validate::grade::{Compared, InPlace};
use crate::validate::spec;
use tiersim_models::units::Span;
use tiersim_models::units::shown::of_times;
use tiersim_reports::words::{count, short_fingerprint};
use tiersim_reports::{Axis, Band, Chart, Marks, Series, XyChart};
use tiersim_validation::real::Kind;

/// The scatter chart of the steps of all cases, one series per policy and mode.
pub(crate) fn scatter(compared: &[Compared], kind: Kind) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let longest = compared.iter().flat_map(Compared::ran).flat_map(|(_, ran)| {
        ran.modes().flat_map(|mode| ran.step_pairs(mode)).map(|(p, m)| p.max(m))
    });
    let (unit, size) = of_times(longest.max().unwrap_or(Span::ZERO).ps() as f64);
    let value = |span: Span| span.ps() as f64 / size;
    for (result, ran) in compared.iter().flat_map(Compared::ran) {
        for mode in ran.modes() {
            let label = match mode {
                InPlace::Real => format!("{}, real use in place", result.policy),
                _ => result.policy.clone(),
            };
            let pairs = ran.step_pairs(mode).into_iter();
            let points = pairs.map(|(predicted, measured)| (value(measured), value(predicted)));
            match series.iter_mut().find(|series| series.label == label) {
                Some(known) => known.points.extend(points),
                None => {
                    let points = points.collect();
                    series.push(Series { label, marks: Marks::Points, points });
                }
            }
        }
    }
    let axis = |label: &str| Axis { label: label.to_owned(), unit: unit.to_owned(), log: true };
    let band = |label: &str, share| Band { label: label.to_owned(), share };
    XyChart {
        title: title(compared, kind),
        notes: notes(compared, kind),
        x: axis("measured step"),
        y: axis("predicted step"),
        series,
        bands: vec![band("within 5 %", 0.05), band("within 10 %", 0.1)],
        diagonal: true,
        ..XyChart::default()
    }
    .chart()
}

/// What was compared, as a title.
pub(crate) fn title(compared: &[Compared], kind: Kind) -> String {
    let what = match compared {
        [only] => only.scenario.name.clone(),
        _ => count(compared.len(), "scenario", "scenarios"),
    };
    format!("{what}: predicted against measured ({})", kind.word())
}

fn notes(compared: &[Compared], kind: Kind) -> Vec<String> {
    let about = match compared {
        [only] => only.scenario.about.clone(),
        _ => {
            let names: Vec<&str> = compared.iter().map(|one| one.scenario.name.as_str()).collect();
            names.join(", ")
        }
    };
    let mut specs: Vec<String> = Vec::new();
    let mut stamps: Vec<String> = Vec::new();
    for Compared { scenario, stamp, .. } in compared {
        let spec = format!("{} ({})", scenario.hardware.name, spec::counted(&scenario.hardware));
        if !specs.contains(&spec) {
            specs.push(spec);
        }
        stamps.push(short_fingerprint(stamp));
    }
    let specs = format!("predicted for {} · measured on {}", specs.join(", "), kind.place());
    let whence = format!("tiersim {} · {}", env!("CARGO_PKG_VERSION"), stamps.join(" "));
    vec![about, specs, whence]
}
