//! The `tiersim` command with this policy in it.

use std::process::ExitCode;
use tiersim_policies::zoo::{Registry, TakenName};

fn main() -> Result<ExitCode, TakenName> {
    let registry = Registry::default().with(&[&newest_out::ENTRY])?;
    Ok(tiersim::main_with(&registry))
}
