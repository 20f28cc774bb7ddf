//! `cargo xtask dist`: what a release consists of, in `target/dist-archives`, and what is left to
//! do by hand.
//!
//! For a target: the command, linked statically and by the profile `dist`, completions, manual
//! pages, licences and the list of components, in one archive with its checksum beside it. Other
//! targets are only checked: that their code compiles is all that this computer can say of them.
//! Invariant: an archive is there whole or not at all, and the same sources and compiler give the
//! same bytes of it.

use crate::packages::packages;
use crate::programs::{cargo, cargo_command, output};
use crate::sbom::sbom;
use crate::targets::have_target;
use clap::Args;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tiersim_tests::files::root;

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];
/// What lies beside the command.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

#[derive(Debug, Args)]
pub(crate) struct DistArgs {
    /// For what the command is built; it must run here, as it writes its own completions and
    /// manual.
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Targets whose code is only checked.
    #[arg(
        long,
        value_name = "TARGET",
        value_delimiter = ',',
        default_value = "x86_64-pc-windows-gnu,aarch64-apple-darwin"
    )]
    check: Vec<String>,
}

/// All features but `nsight`, which needs a compiler of C for each target.
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "lp,serve"];

/// Builds everything; what is left to do.
pub(crate) fn dist(args: &DistArgs) -> Result<String, String> {
    let project = &root();
    let version = env!("CARGO_PKG_VERSION");
    released(&read(&project.join("CHANGELOG.md"))?, version)?;
    let published = packages(project)?;
    for target in &args.check {
        have_target(project, target)?;
        let check = ["check", "--locked", "--package", "tiersim", "--target", target];
        cargo(project, &[&check[..], &FEATURES].concat())?;
    }
    have_target(project, &args.target)?;
    let build = ["build", "--locked", "--package", "tiersim", "--profile", "dist", "--target"];
    cargo(project, &[&build[..], &[&args.target], &FEATURES].concat())?;
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| project.join("target"), PathBuf::from);
    let name = format!("tiersim-{version}-{}", args.target);
    let out = target.join("dist-archives");
    let folder = out.join(&name);
    let _ = fs::remove_dir_all(&folder);
    let command = folder.join("tiersim");
    for part in ["completions", "man"] {
        let path = folder.join(part);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    copy(&target.join(&args.target).join("dist/tiersim"), &command)?;
    stripped(&command)?;
    let said = output(Command::new(&command).arg("--version"))?;
    if String::from_utf8_lossy(&said).trim() != format!("tiersim {version}") {
        return Err(format!("the command says {:?}", String::from_utf8_lossy(&said)));
    }
    for shell in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        write(&folder.join("completions").join(format!("tiersim.{shell}")), &script)?;
    }
    output(Command::new(&command).args(["man", "--out"]).arg(folder.join("man")))?;
    for text in TEXTS {
        copy(&project.join(text), &folder.join(text))?;
    }
    let metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform"];
    let metadata = output(cargo_command(project).args(metadata).arg(&args.target))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    write(&folder.join("sbom.cdx.json"), sbom(&metadata, "tiersim")?.as_bytes())?;
    let archive = packed(&out, &name)?;
    let bytes = fs::read(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let sum = format!("{digest}  {name}.tar.gz\n");
    write(&out.join("SHA256SUMS"), sum.as_bytes())?;
    Ok(left(args, version, &archive, &sum, published.len()))
}

/// Refuses a version that the changelog does not tell with a date.
fn released(changes: &str, version: &str) -> Result<(), String> {
    let heading = format!("## [{version}] - ");
    let refused = |what: &str| {
        let remedy = "what stands below Unreleased gets this heading, and Unreleased stays, empty";
        Err(format!("CHANGELOG.md: {what} `{heading}YYYY-MM-DD`; {remedy}"))
    };
    let Some((_, rest)) = changes.split_once(&format!("\n{heading}")) else {
        return refused("a version is released with a section");
    };
    let (date, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let digits = date.split('-').map(|part| part.bytes().filter(u8::is_ascii_digit).count());
    if date.len() != 10 || !digits.eq([4, 2, 2]) {
        return refused("a section has its date, as in");
    }
    let section = rest.split("\n## ").next().unwrap_or_default();
    let tells = section.lines().any(|line| line.starts_with("- "));
    if tells { Ok(()) } else { refused("nothing is told below") }
}

/// One archive of the folder, the same bytes for the same files.
fn packed(out: &Path, name: &str) -> Result<PathBuf, String> {
    let (archive, part) = (out.join(format!("{name}.tar.gz")), out.join(format!(".{name}.part")));
    let same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
    let mut tar = Command::new("tar");
    // gzip would note when it was called.
    tar.current_dir(out).args(same).args(["--use-compress-program=gzip -n -9", "-cf"]);
    output(tar.arg(&part).arg(name))?;
    fs::rename(&part, &archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    Ok(archive)
}

/// Takes out names that only a debugger needs; a third of the file.
fn stripped(command: &Path) -> Result<(), String> {
    output(Command::new("strip").arg(command)).map(drop)
}

/// What was done, and what nobody but people can do.
fn left(args: &DistArgs, version: &str, archive: &Path, sum: &str, published: usize) -> String {
    let (archive, checked) = (archive.display(), args.check.join(", "));
    let steps = [
        ".ci/run passes on the commit that is released".to_owned(),
        "what changed in the contract of summary.json raised `schema` and the version".to_owned(),
        "the wheel: pip wheel --no-deps ./python, of at most 12,000,000 bytes".to_owned(),
        "the archive runs where there is no toolchain: tiersim run gpt2-lru-budgets".to_owned(),
        format!(
            "the {published} crates: cargo publish --workspace --dry-run, which compiles each from \
             its package alone; after the tag the same without --dry-run"
        ),
        format!("git tag -a v{version}; the archive, SHA256SUMS and the wheel go beside it"),
    ];
    let steps: Vec<String> =
        (1..).zip(&steps).map(|(number, step)| format!("  {number}. {step}")).collect();
    format!(
        "written: {archive}\n  {sum}compiled, and not run: {checked}\nleft for {version}:\n{}",
        steps.join("\n")
    )
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_section_is_not_released() {
        let head = "# Changelog\n\n## [Unreleased]\n\n### Added\n- A thing of 0.2.0.\n";
        let of = |rest: &str| released(&format!("{head}{rest}"), "0.2.0");
        assert_eq!(of("\n## [0.2.0] - 2027-01-31\n\n### Fixed\n- A fault.\n"), Ok(()));
        for (rest, what) in [
            ("", "released with a section"),
            ("\n## [0.1.0] - 2027-01-31\n- A thing.\n", "released with a section"),
            ("\n## [0.2.0]\n- A thing.\n", "released with a section"),
            ("\n## [0.2.0] - soon\n- A thing.\n", "has its date"),
            ("\n## [0.2.0] - 31-01-2027\n- A thing.\n", "has its date"),
            (
                "\n## [0.2.0] - 2027-01-31\n\n## [0.1.0] - 2026-12-01\n- A thing.\n",
                "nothing is told",
            ),
        ] {
            let error = of(rest).expect_err(rest);
            assert!(error.contains(what) && error.contains("## [0.2.0] - YYYY-MM-DD"), "{error}");
        }
    }

    #[test]
    fn what_is_not_released_yet_stands_first_in_the_changelog() {
        let changes = read(&root().join("CHANGELOG.md")).expect("it is there");
        let first = changes.lines().find(|line| line.starts_with("## "));
        assert_eq!(first, Some("## [Unreleased]"));
        for line in changes.lines().filter(|line| line.starts_with("### ")) {
            let groups = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
            assert!(groups.contains(&&line[4..]), "{line} is no group of changes");
        }
    }
}
