//! A file of a folder of results that is known but not made.
//!
//! Making a chart, its PNG before all, is most of the work of a short run, and no file needs
//! another: whoever has threads makes several at a time. This crate starts none.
//! Invariant: a draft makes the same file whenever and wherever it is made.

use crate::render::Chart;
use crate::{Artefact, ChartError};

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Draft {
    name: String,
    contents: Contents,
}

#[derive(Clone, Debug)]
enum Contents {
    Bytes(Vec<u8>),
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

impl Draft {
    /// A file that is there already.
    pub(crate) fn made(file: Artefact) -> Draft {
        Draft { name: file.name, contents: Contents::Bytes(file.bytes) }
    }

    /// The files of a chart, without their ending.
    pub(crate) fn of_chart(name: &str, chart: Chart, pictures: Pictures) -> Vec<Draft> {
        let png = match pictures {
            Pictures::Both => Some((format!("{name}.png"), Contents::Png(chart.clone()))),
            Pictures::Svg => None,
        };
        let svg = (format!("{name}.svg"), Contents::Svg(chart));
        let files = [Some(svg), png].into_iter().flatten();
        files.map(|(name, contents)| Draft { name, contents }).collect()
    }

    /// Makes the file.
    ///
    /// # Errors
    /// As drawing and encoding do; nothing that depends on a record.
    pub fn artefact(self) -> Result<Artefact, ChartError> {
        let bytes = match self.contents {
            Contents::Bytes(bytes) => bytes,
            Contents::Svg(chart) => chart.svg()?.into_bytes(),
            Contents::Png(chart) => chart.png()?,
        };
        Ok(Artefact { name: self.name, bytes })
    }
}
