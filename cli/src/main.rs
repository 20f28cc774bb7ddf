//! The `tiersim` command with the policies that it ships.

use std::process::ExitCode;
use tiersim_policies::zoo::Registry;

fn main() -> ExitCode {
    tiersim::main_with(&Registry::default())
}
