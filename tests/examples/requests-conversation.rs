//! Prints the generated requests:
//! `cargo run -p tiersim-tests --example requests-conversation > FILE`.

use std::io::Write;
use tiersim_tests::conversations::requests;

fn main() {
    let text = requests(1);
    std::io::stdout().write_all(text.as_bytes()).expect("somebody reads it");
}
