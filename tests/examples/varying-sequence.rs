//! Writes the generated trace: `cargo run -p tiersim-tests --example varying-sequence -- FOLDER`.

use std::path::PathBuf;
use tiersim_input::trace::{Packing, write_trace};
use tiersim_tests::varying::varying_sequence;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).expect("the folder to write to");
    write_trace(&varying_sequence(), &folder, Packing::Gzip).expect("the trace can be written");
}
