//! What *happens*, and when.

pub mod diagnostic;
pub mod record;
pub mod scenario;
pub mod check;
pub mod quantity;
pub mod ron_error;
pub mod ron_text;
pub mod ron_tree;
pub mod hardware_file;
