//! `cargo xtask what-if`: the module of WebAssembly that `tiersim run --what-if` puts into pages.
//!
//! Builds `what-if/` for wasm32-unknown-unknown, fetching that target with rustup where it lacks,
//! and stamps the module with the version that it is of.
//! Invariant: the file is there whole, and of these sources, or not at all.

use crate::programs::cargo_command;
use crate::say;
use crate::targets::have_target;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use tiersim_tests::files::root;
use tiersim_what_if::{bare, packed, stamped};

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "what-if";

/// Builds the module; false if that cannot be done, which has then been said.
pub(crate) fn what_if() -> bool {
    match built() {
        Ok(words) => {
            say(&words);
            true
        }
        Err(why) => {
            say(&format!("cargo xtask what-if: {why}"));
            false
        }
    }
}

fn built() -> Result<String, String> {
    let project = &root();
    have_target(project, TARGET)?;
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| project.join("target"), PathBuf::from);
    let mut build = cargo_command(project);
    build.args(["build", "--locked", "--package", "tiersim-what-if"]);
    build.args(["--package", "tiersim-unpack", "--lib", "--profile", PROFILE]);
    build.args(["--target", TARGET, "--target-dir"]).arg(&target);
    if !build.status().map_err(|error| format!("cargo: {error}"))?.success() {
        return Err(format!("the build for {TARGET} failed; cargo has said why"));
    }
    let compiled = |name: &str| {
        let file = target.join(TARGET).join(PROFILE).join(name);
        fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let (unpack, simulator) = (compiled("tiersim_unpack.wasm")?, compiled("tiersim_what_if.wasm")?);
    let simulator = bare(&simulator);
    let mut unpacks = GzEncoder::new(Vec::new(), Compression::best());
    let unpack = unpacks.write_all(&bare(&unpack)).and_then(|()| unpacks.finish());
    let unpack = unpack.map_err(|error| format!("gzip: {error}"))?;
    let module = stamped(&unpack, &packed(&simulator));
    let folder = target.join("what-if");
    let (out, part) = (folder.join("tiersim.wasm"), folder.join(".tiersim.wasm.part"));
    let wrong = |error| format!("{}: {error}", out.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    fs::write(&part, &module).and_then(|()| fs::rename(&part, &out)).map_err(wrong)?;
    let (all, simulator) = (module.len(), simulator.len());
    Ok(format!("written to {}: {all} bytes, of {simulator} unpacked", out.display()))
}
