//! What kernels take by measurement: the shipped numbers, files of them, and tables of ops.

mod files;
mod machines;
mod shapes;
mod tables;
mod values;

use std::path::Path;
use tiersim_input::op_times::{DeviceTimes, read_op_times};

/// Devices whose numbers ship.
const DEVICES: [&str; 3] = ["a100", "h100", "b200"];

/// The shipped numbers of a device.
fn shipped(device: &str) -> DeviceTimes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs/op-times");
    read_op_times(&folder.join(format!("{device}.ron"))).unwrap_or_else(|found| panic!("{found}"))
}
