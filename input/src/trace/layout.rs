//! Tables that do not name their columns, or not as we do.
//!
//! Invariant: what such a table is, is said before it is opened: nothing is guessed from its rows.

/// How many fields the rows of a table have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// As many as the header.
    Header(usize),
    /// So many, in a table that names no columns.
    Of(usize),
    /// As many as the first.
    First,
    /// Each its own number.
    Any,
}

/// How a table is laid out that does not name its columns, or not as we do.
pub(crate) struct Layout {
    /// What they are called here, in messages too.
    pub(crate) columns: &'static str,
    /// Where each is, from 0 on.
    pub(crate) places: Vec<Option<usize>>,
    pub(crate) width: Width,
    pub(crate) delimiter: u8,
    /// Whether a line of something else stands before the rows.
    pub(crate) header: bool,
    /// Whether `"` begins and ends a field; the source must know it too.
    pub(crate) quotes: bool,
}
