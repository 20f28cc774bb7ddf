//! The `tiersim` command.
fn main() {}
