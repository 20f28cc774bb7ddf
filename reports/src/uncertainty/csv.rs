//! Draws as tables: the band of each case in `results.csv`, and every draw in `draws.csv`.

use super::{FIGURES, step};
use crate::ChartError;
use crate::csv::guarded;
use crate::csv_columns::{Columns, float, optional};
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::{Band, DrawnCase};

/// A percentile of a band.
type End = fn(Band) -> f64;

/// Adds the columns of bands, if there are draws.
pub(crate) fn columns<'r>(all: &mut Columns<'r>, record: &'r RunRecord) {
    let Some(of) = &record.uncertainty else { return };
    all.all.push(("draws_fit".to_owned(), Box::new(|case| of.fits(case).to_string())));
    for (name, figure) in FIGURES {
        if !(0..record.results.len()).any(|case| of.band(case, figure).is_some()) {
            continue;
        }
        let ends: [(&str, End); 3] =
            [("p5", |band| band.p5), ("p50", |band| band.p50), ("p95", |band| band.p95)];
        for (percentile, end) in ends {
            let cell = move |case: usize| optional(of.band(case, figure).map(end));
            all.all.push((format!("draws_{name}_{percentile}"), Box::new(cell)));
        }
    }
}

/// One row per draw: the numbers, then the mean step of each case, empty where it did not fit.
pub(crate) fn draws_csv(record: &RunRecord) -> Result<Option<Vec<u8>>, ChartError> {
    let Some(of) = &record.uncertainty else { return Ok(None) };
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let numbers = of.numbers.iter().map(|number| format!("{} ({})", number.name, number.unit));
    let cases = record.results.iter().map(|case| format!("step_ms {}", case.label));
    let head = std::iter::once("draw".to_owned()).chain(numbers).chain(cases);
    writer.write_record(head.map(|name| guarded(&name)))?;
    for draw in 0..of.draws {
        let numbers = of.numbers.iter().map(|number| float(number.values[draw]));
        let step = |case: &Vec<Option<DrawnCase>>| {
            optional(case[draw].as_ref().and_then(step).map(|ps| ps / 1e9))
        };
        let row = std::iter::once(draw.to_string()).chain(numbers);
        writer.write_record(row.chain(of.cases.iter().map(step)))?;
    }
    let written = writer.into_inner();
    Ok(Some(written.map_err(|error| ChartError::Csv(error.into_error().into()))?))
}
