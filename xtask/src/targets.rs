//! Targets of the compiler, fetched where rustup can.

use crate::say;
use std::path::Path;
use std::process::Command;

/// Fetches a target if rustup is there and lacks it.
pub(crate) fn have_target(project: &Path, target: &str) -> Result<(), String> {
    let rustup = |words: &[&str]| Command::new("rustup").current_dir(project).args(words).output();
    // Without rustup the compiler may still have it: the build then tells.
    let Ok(listed) = rustup(&["target", "list", "--installed"]) else { return Ok(()) };
    if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == target) {
        return Ok(());
    }
    say(&format!("rustup target add {target}"));
    match rustup(&["target", "add", target]) {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            Err(format!("the compiler's target {target} is missing and cannot be fetched: {said}"))
        }
        Err(error) => Err(format!("rustup target add {target}: {error}")),
    }
}
