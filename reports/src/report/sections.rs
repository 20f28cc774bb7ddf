//! The sections of the page in their order. Another one is a file beside this one and a line here.

use super::folder::Report;
use super::{about, basis, cases, chart, charts, draws, figures, pieces, verdict, what_if, why};
use crate::ChartError;
use crate::html::Page;

/// Adds a section, if the report has what it is about.
type Section = fn(&mut Page, &Report) -> Result<(), ChartError>;

pub(super) const SECTIONS: [Section; 11] = [
    verdict::section,
    chart::section,
    draws::section,
    what_if::section,
    why::section,
    basis::section,
    figures::section,
    charts::section,
    pieces::section,
    cases::section,
    about::section,
];
