//! What *happens*, and when.

pub mod diagnostic;
pub mod import;
pub mod record;
pub mod scenario;
pub mod trace;
