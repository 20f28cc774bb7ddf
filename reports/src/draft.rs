//! A file of a folder of results that is known but not made.
//!
//! Making a chart, its PNG before all, is most of the work of a short run, and no file needs
//! another: whoever has threads makes several at a time. Tables are written case by case and
//! summaries some cases at a time: those of a long sweep are never whole in memory.
//! Invariant: a draft makes the same file whenever and wherever it is made.

use crate::csv::write_results;
use crate::json::write_summary;
use crate::render::Chart;
use crate::workers::{Alone, Workers};
use crate::{Artefact, ChartError};
use std::borrow::Cow;
use std::io::Write;
use tiersim_models::results::RunRecord;

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    name: Cow<'a, str>,
    contents: Contents<'a>,
}

#[derive(Clone, Debug)]
enum Contents<'a> {
    Bytes(Cow<'a, [u8]>),
    Summary { of: &'a RunRecord, version: &'a str },
    Table { of: &'a RunRecord },
    Svg(Chart),
    Png(Chart),
}

/// Which kinds of pictures a chart is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pictures {
    /// SVG and PNG.
    #[default]
    Both,
    /// SVG alone.
    Svg,
}

impl<'a> From<Artefact> for Draft<'a> {
    fn from(Artefact { name, bytes }: Artefact) -> Draft<'a> {
        Draft { name: name.into(), contents: Contents::Bytes(bytes.into()) }
    }
}

impl<'a> From<&'a Artefact> for Draft<'a> {
    fn from(Artefact { name, bytes }: &'a Artefact) -> Draft<'a> {
        Draft { name: name.into(), contents: Contents::Bytes(bytes.into()) }
    }
}

impl<'a> Draft<'a> {
    /// `summary.json` of a record, by this version of tiersim.
    pub(crate) fn summary(name: &'a str, of: &'a RunRecord, version: &'a str) -> Draft<'a> {
        Draft { name: name.into(), contents: Contents::Summary { of, version } }
    }

    /// `results.csv` of a record.
    pub(crate) fn table(name: &'a str, of: &'a RunRecord) -> Draft<'a> {
        Draft { name: name.into(), contents: Contents::Table { of } }
    }

    /// The files of a chart, without their ending.
    pub(crate) fn of_chart(name: &str, chart: Chart, pictures: Pictures) -> Vec<Draft<'a>> {
        let png = match pictures {
            Pictures::Both => Some((format!("{name}.png"), Contents::Png(chart.clone()))),
            Pictures::Svg => None,
        };
        let svg = (format!("{name}.svg"), Contents::Svg(chart));
        let files = [Some(svg), png].into_iter().flatten();
        files.map(|(name, contents)| Draft { name: name.into(), contents }).collect()
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the file.
    ///
    /// # Errors
    /// As drawing and encoding do, nothing that depends on a record; and [`ChartError::Write`],
    /// [`ChartError::Json`] or [`ChartError::Csv`] where `to` takes no more.
    pub fn write(self, to: &mut dyn Write, workers: &impl Workers) -> Result<(), ChartError> {
        match self.contents {
            Contents::Bytes(bytes) => Ok(to.write_all(&bytes)?),
            Contents::Summary { of, version } => write_summary(of, version, to, workers),
            Contents::Table { of } => write_results(of, to),
            Contents::Svg(chart) => chart.write_svg(to),
            Contents::Png(chart) => Ok(to.write_all(&chart.png()?)?),
        }
    }

    /// Makes the file in memory.
    ///
    /// # Errors
    /// As [`Draft::write`].
    pub fn artefact(self) -> Result<Artefact, ChartError> {
        let (name, mut bytes) = (self.name.to_string(), Vec::new());
        self.write(&mut bytes, &Alone)?;
        Ok(Artefact { name, bytes })
    }
}
