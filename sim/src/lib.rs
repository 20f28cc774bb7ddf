//! What *happens*, and when.

pub mod diagnostic;
pub mod scenario;
