//! Every measured step as a point: predicted against measured.

use super::{Validation, spec};
use crate::render::Chart;
use crate::words::{count, short_fingerprint};
use crate::xy::{Axis, Band, Marks, XyChart};
use tiersim_models::results::comparison::{Compared, InPlace};
use tiersim_models::units::Span;
use tiersim_models::units::shown::of_times;

/// The scatter chart of the steps of all cases, one series per policy and mode.
pub(super) fn scatter(of: Validation) -> Chart {
    let compared = of.compared;
    let longest = compared.iter().flat_map(Compared::ran).flat_map(|(_, ran)| {
        ran.modes().flat_map(|mode| ran.step_pairs(mode)).map(|(p, m)| p.max(m))
    });
    let (unit, size) = of_times(longest.max().unwrap_or(Span::ZERO).ps() as f64);
    let value = |span: Span| span.ps() as f64 / size;
    let mut chart = XyChart {
        title: title(of),
        notes: notes(of),
        x: Axis::log("measured step", unit),
        y: Axis::log("predicted step", unit),
        bands: vec![Band::new("within 5 %", 0.05), Band::new("within 10 %", 0.1)],
        diagonal: true,
        ..XyChart::default()
    };
    for (result, ran) in compared.iter().flat_map(Compared::ran) {
        for mode in ran.modes() {
            let label = match mode {
                InPlace::Real => format!("{}, real use in place", result.policy),
                _ => result.policy.clone(),
            };
            let pairs = ran.step_pairs(mode).into_iter();
            let points = pairs.map(|(predicted, measured)| (value(measured), value(predicted)));
            chart.add(&label, Marks::Points, points);
        }
    }
    chart.chart()
}

/// What was compared, as a title.
pub(super) fn title(of: Validation) -> String {
    let what = match of.compared {
        [only] => only.scenario.clone(),
        several => count(several.len(), "scenario", "scenarios"),
    };
    format!("{what}: predicted against measured ({})", of.machine)
}

fn notes(of: Validation) -> Vec<String> {
    let about = match of.compared {
        [only] => only.about.clone(),
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.scenario.as_str()).collect();
            names.join(", ")
        }
    };
    let mut specs: Vec<String> = Vec::new();
    let mut stamps: Vec<String> = Vec::new();
    for Compared { hardware, fingerprint, .. } in of.compared {
        let spec = format!("{} ({})", hardware.name, spec::counted(hardware));
        if !specs.contains(&spec) {
            specs.push(spec);
        }
        stamps.push(short_fingerprint(fingerprint));
    }
    let specs = format!("predicted for {} · measured on {}", specs.join(", "), of.place);
    let whence = format!("tiersim {} · {}", of.version, stamps.join(" "));
    vec![about, specs, whence]
}
