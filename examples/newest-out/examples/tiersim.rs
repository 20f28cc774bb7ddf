//! The `tiersim` command with this policy in it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiersim::main_with(&[&newest_out::ENTRY])
}
