//! `new`: a scenario to start from, which runs wherever it is written.
//!
//! Invariant: a file that is there stays as it is.

use crate::output::{Failure, print, write};
use clap::Args;
use std::path::Path;

/// What is written, with `NAME` for the scenario's.
const SCENARIO: &str = include_str!("new/scenario.ron");

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The scenario's name: NAME.ron is written into the current folder.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Writes the scenario and says what to do with it.
pub(crate) fn new(args: &NewArgs) -> Result<(), Failure> {
    let name = args.name.strip_suffix(".ron").unwrap_or(&args.name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !(1..=60).contains(&name.len()) || name.starts_with(['.', '-']) || !name.chars().all(plain) {
        return Err(Failure::Input(format!(
            "{name:?}: a scenario is called by 1 to 60 letters, digits, `-`, `_` and `.`, the first a \
             letter, a digit or `_`; choose another name"
        )));
    }
    let file = format!("{name}.ron");
    if Path::new(&file).symlink_metadata().is_ok() {
        return Err(Failure::Input(format!(
            "{file}: a file of this name is there; choose another name, or remove it"
        )));
    }
    write(Path::new(&file), SCENARIO.replace("NAME", name).as_bytes())?;
    print(&format!("written: {file}; now `tiersim run {file}`, and change what you want to know\n"))
}
