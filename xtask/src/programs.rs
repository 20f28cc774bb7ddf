//! Programs that commands for developers call.

use crate::say;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Cargo itself, in the folder of the project.
pub(crate) fn cargo_command(project: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    // Flags of this computer's own processor are none of what is handed out.
    cargo.current_dir(project).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// Runs Cargo, which says itself what it does.
pub(crate) fn cargo(project: &Path, words: &[&str]) -> Result<(), String> {
    say(&format!("cargo {}", words.join(" ")));
    let status = cargo_command(project).args(words).status();
    let ended = status.map_err(|error| format!("cargo: {error}"))?.success();
    ended.then_some(()).ok_or_else(|| "cargo has said why it failed".to_owned())
}

/// What a program prints, if it ends well.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|error| format!("{name}: {error}"))?;
    match ran.status.success() {
        true => Ok(ran.stdout),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&ran.stderr).trim())),
    }
}
