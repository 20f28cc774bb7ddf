//! A simulator on a page: the module and its files as text that no browser runs or shows, and the
//! place that the script fills with sliders.
//!
//! Blocks of data are `script` elements of a type that is no script's, which browsers leave alone.
//! Invariant: what stands in them is base64, which neither HTML nor XML can take for markup.

use super::script::base64;
use crate::words::escaped;
use std::fmt::Write;

/// What the script is given.
pub(crate) struct WhatIf<'w> {
    /// The module, packed with gzip.
    pub(crate) module: &'w [u8],
    /// The files, packed.
    pub(crate) files: &'w [u8],
    /// The page's own figures as JSON, a list for each case.
    pub(crate) nominal: &'w str,
}

impl WhatIf<'_> {
    /// The place and the data behind it.
    pub(super) fn write(&self, out: &mut String) {
        let nominal = escaped(self.nominal);
        let _ = writeln!(
            out,
            "<div class=\"what-if\" data-nominal=\"{nominal}\">\n<p class=\"said note\">Note: the \
             sliders need a browser that runs scripts and WebAssembly.</p>\n<svg \
             xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-hidden=\"true\" width=\"0\" \
             height=\"0\"/>\n</div>"
        );
        for (id, bytes) in [("what-if-module", self.module), ("what-if-files", self.files)] {
            let text = base64(bytes);
            let _ = writeln!(out, "<script type=\"text/plain\" id=\"{id}\">{text}</script>");
        }
    }
}
