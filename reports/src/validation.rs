//! What came of the same plans on the simulated and on a real machine: text, JSON, CSV, a chart and
//! a page, all of the same [`Compared`].

mod chart;
mod csv;
mod json;
mod page;
mod spec;
mod text;

use crate::{Artefact, ChartError};
use tiersim_models::results::comparison::Compared;

/// All that is shown together, and where it was measured.
#[derive(Clone, Copy, Debug)]
pub struct Validation<'a> {
    /// One or several scenarios.
    pub compared: &'a [Compared],
    /// The word for the real machine, such as `host`.
    pub machine: &'a str,
    /// What a sentence calls it, such as `the host`.
    pub place: &'a str,
    /// Version of tiersim.
    pub version: &'a str,
}

/// For people.
pub fn validation_text(of: Validation) -> String {
    text::text(of)
}

/// The files, in a fixed order.
pub fn validation_artefacts(of: Validation) -> Result<Vec<Artefact>, ChartError> {
    let scatter = chart::scatter(of);
    let mut files = vec![
        Artefact::new("validation.json", crate::pretty(&json::json(of))?),
        Artefact::new("validation.csv", csv::csv(of.compared)),
    ];
    files.extend(scatter.artefacts("predicted-vs-measured")?);
    files.push(Artefact::new("report.html", page::page(of, &scatter)?));
    Ok(files)
}
