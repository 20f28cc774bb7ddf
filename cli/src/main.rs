//! The `tiersim` command with the policies that it ships.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiersim::main_with(&[])
}
