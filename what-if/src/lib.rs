//! The simulator inside a page: a scenario again, with other numbers, at once.
//!
//! The command gathers the files that a scenario reads into a [`Bundle`]; a page hands it to this
//! crate, compiled to WebAssembly, which reads it with the readers of the command and answers each
//! [`Session::run`] with the simulator of the command. Nothing is interpolated and nothing is
//! written twice: what a slider sets is an override as `--set` takes it. The command has the same
//! session for the page that `tiersim serve` shows, with the files where they lie.
//! Invariant: the answer to overrides is what `tiersim run` with the same `--set` says, to the last
//! digit; a test holds both against each other.

mod answer;
mod bundle;
mod gather;
mod knobs;
mod module;
mod packed;
#[cfg(target_family = "wasm")]
mod page;
mod session;

pub use answer::{Answer, CaseAnswer, Figure};
pub use bundle::{Bundle, MOST_BYTES};
pub use gather::gather;
pub use knobs::{Knob, Knobs, Stop, knobs};
pub use module::{bare, checked, stamped};
pub use packed::packed;
pub use session::{Part, Ready, Refusal, Session};

/// The version of tiersim, which a bundle, a module and a page must share.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An override, as `--set` takes it: path and text of the value.
pub type Set = (String, String);
