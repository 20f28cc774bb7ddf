//! What ships inside the command: machines, their parts, scenarios, and the traces that these read.
//!
//! A crate of its own, as a package of a registry holds only files below its manifest: this one's
//! is the project's, beside the folders where these files lie. For WebAssembly the list is empty.
//! Invariant: the list is in the order of its names.

/// Names, below the project's folder and with `/` on every system, and what the files hold; in the
/// order of the names.
pub static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
