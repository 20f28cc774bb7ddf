//! Writes the generated trace: `cargo run -p tiersim-tests --example tiny-train -- FOLDER`.

use std::path::PathBuf;
use tiersim_input::trace::{Packing, write_trace};
use tiersim_tests::tiny::tiny_train;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).expect("the folder to write to");
    write_trace(&tiny_train(), &folder, Packing::Plain).expect("the trace can be written");
}
