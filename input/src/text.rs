//! Text that people write: RON with places, quantities with units, and mistakes explained.
//!
//! `ron` alone gives typed values without places and stops at the first mistake. Here a scanner
//! knows where every value stands, so that rules on values can name line and column, `--set` can
//! replace a value, and one mistake does not hide the next.
//! Invariant: whatever the bytes, reading ends in time and memory linear in the file.

pub mod check;
pub mod choices;
pub mod condition;
pub mod quantity;
mod ron_laid;
pub(crate) mod ron_lex;
pub mod ron_scan;
pub mod ron_text;
pub mod ron_tree;
mod substitute;
pub mod typed;
pub(crate) mod value;
