//! What *happens*, and when.

pub mod check;
pub mod diagnostic;
pub mod hardware_file;
pub mod quantity;
pub mod record;
pub mod ron_error;
mod ron_lex;
pub mod ron_scan;
pub mod ron_text;
pub mod ron_tree;
pub mod scenario;
