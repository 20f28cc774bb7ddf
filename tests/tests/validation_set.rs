//! The generated traces are what they are said to be.

use std::fs;
use std::path::{Path, PathBuf};
use tiersim_sim::trace::{Packing, read_trace, write_trace};
use tiersim_tests::tiny::tiny_train;
use tiersim_tests::varying::varying_sequence;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

#[test]
fn the_tiny_trace_is_what_its_generator_makes() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny-train");
    write_trace(&tiny_train(), &made, Packing::Plain).expect("the trace can be written");
    for file in ["trace.ron", "objects.csv", "ops.csv", "uses.csv"] {
        let shipped = fs::read(root().join("traces/tiny-train").join(file)).expect("it ships");
        let made = fs::read(made.join(file)).expect("it was written");
        assert!(shipped == made, "{file}: run the example tiny-train of tiersim-tests again");
    }
}

#[test]
fn the_varying_trace_is_what_its_generator_makes() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("varying-sequence");
    write_trace(&varying_sequence(), &made, Packing::Gzip).expect("the trace can be written");
    let (made, shipped) = (read_trace(&made), read_trace(&root().join("traces/varying-sequence")));
    let (made, shipped) = (made.expect("it reads"), shipped.expect("it ships"));
    assert!(made == shipped, "run the example varying-sequence of tiersim-tests again");
}
