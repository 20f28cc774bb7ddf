//! Whether every crate that goes to a registry has in its package what it embeds.
//!
//! A crate compiles in a checkout with files from all of it; what a registry hands out is the
//! crate's own folder. Cargo says which files a package would hold, sources say what they embed:
//! that takes a second and no network. That packages compile on their own, only
//! `cargo publish --workspace --dry-run` shows, which builds everything.
//! Invariant: what is embedded in a way that cannot be read here counts as missing.

use crate::programs::{cargo_command, output};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use tiersim_shipped::FILES;

/// The crate that embeds what its build script finds: the files of its list.
const SHIPPED: &str = "tiersim-shipped";
/// What puts a file into a program.
const MACROS: [&str; 3] = ["include_str!(", "include_bytes!(", "include!("];

/// Looks at every package; the names of the crates, or what is missing in words.
pub(crate) fn packages(project: &Path) -> Result<Vec<String>, String> {
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata = output(cargo_command(project).args(metadata))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let all = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    // `publish = false` is an empty list of registries.
    let inside = |package: &&Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    let (inside, published): (Vec<&Value>, Vec<&Value>) = all.iter().partition(inside);
    let inside: BTreeSet<&str> = inside.iter().filter_map(|each| each["name"].as_str()).collect();
    let (mut names, mut wrong) = (Vec::new(), Vec::new());
    for package in published {
        let name = package["name"].as_str().ok_or("a package has no name")?;
        let manifest = package["manifest_path"].as_str().ok_or("a package has no manifest")?;
        let folder = Path::new(manifest).parent().ok_or("a manifest lies in a folder")?;
        let files = held(project, name)?;
        let mut lacks = unknown_to_registries(package, &inside);
        if name == SHIPPED {
            lacks.extend(differences(&files));
        } else {
            lacks.extend(missing(&files, |file| fs::read_to_string(folder.join(file)))?);
            if is_built_by_script(package) {
                lacks.push("a build script, of which nobody knows what it embeds".to_owned());
            }
        }
        wrong.extend(lacks.into_iter().map(|what| format!("{name}: {what}")));
        names.push(name.to_owned());
    }
    if wrong.is_empty() { Ok(names) } else { Err(wrong.join("\n")) }
}

/// The files that the package of a crate would hold, by their paths in it.
fn held(project: &Path, name: &str) -> Result<BTreeSet<String>, String> {
    let list = ["package", "--list", "--allow-dirty", "--no-metadata", "--offline", "--package"];
    let said = output(cargo_command(project).args(list).arg(name))?;
    let lines = String::from_utf8(said).map_err(|error| format!("{name}: {error}"))?;
    Ok(lines.lines().map(|line| line.replace('\\', "/")).collect())
}

/// Dependencies of the crate itself that no registry has.
fn unknown_to_registries(package: &Value, inside: &BTreeSet<&str>) -> Vec<String> {
    let needs = package["dependencies"].as_array().into_iter().flatten();
    let needs = needs.filter(|need| need["kind"] != "dev" && need["path"].is_string());
    let of = |need: &Value| {
        let name = need["name"].as_str().unwrap_or_default();
        if inside.contains(name) {
            Some(format!("needs {name}, which is not published"))
        } else {
            let any = need["req"] == "*";
            any.then(|| format!("needs {name} without saying which version"))
        }
    };
    needs.filter_map(of).collect()
}

fn is_built_by_script(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut kinds = targets.filter_map(|target| target["kind"].as_array()).flatten();
    kinds.any(|kind| kind == "custom-build")
}

/// What sources of a package embed and the package does not hold.
///
/// Errors if a source cannot be read.
fn missing(
    held: &BTreeSet<String>,
    read: impl Fn(&str) -> std::io::Result<String>,
) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for source in held.iter().filter(|file| file.ends_with(".rs")) {
        let text = read(source).map_err(|error| format!("{source}: {error}"))?;
        for argument in embedded(&text) {
            let Some(name) = argument.strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                missing.push(format!("{source} embeds {argument}, not a path in quotes"));
                continue;
            };
            let path = Path::new(source).parent().unwrap_or(Path::new("")).join(name);
            if plain(&path).is_none_or(|path| !held.contains(&path)) {
                missing.push(format!("{source} embeds {name}, which its package does not hold"));
            }
        }
    }
    Ok(missing)
}

/// What stands behind the bracket of each macro that embeds a file, to the end of its line.
fn embedded(text: &str) -> Vec<&str> {
    let code = |at: usize| !text[..at].rsplit('\n').next().unwrap_or_default().contains("//");
    let calls = MACROS.iter().flat_map(|name| text.match_indices(name));
    let calls = calls.filter(|(at, _)| code(*at));
    let arguments = calls.map(|(at, name)| text[at + name.len()..].trim_start());
    arguments
        .map(|rest| rest.lines().next().unwrap_or_default().trim_end_matches([';', ',']))
        .collect()
}

/// A path without `..`, with `/` between its parts; none if it leads out of the package.
fn plain(path: &Path) -> Option<String> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir if parts.pop() => (),
            _ => return None,
        }
    }
    Some(parts.to_str()?.replace('\\', "/"))
}

/// In what the list of files that ship differs from the package's files in the same folders.
fn differences(held: &BTreeSet<String>) -> Vec<String> {
    let embedded: BTreeSet<&str> = FILES.iter().map(|(name, _)| *name).collect();
    let own = |file: &&str| file.contains('/') && !file.starts_with("shipped/");
    let held: BTreeSet<&str> = held.iter().map(String::as_str).filter(own).collect();
    let lacks = embedded.difference(&held).map(|name| format!("{name} ships and is not in it"));
    let more = held.difference(&embedded).map(|name| format!("{name} is in it and ships not"));
    lacks.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_tests::files::root;

    #[test]
    fn every_package_holds_what_it_embeds() {
        let names = packages(&root()).unwrap_or_else(|wrong| panic!("{wrong}"));
        for name in ["tiersim", "tiersim-input", SHIPPED] {
            assert!(names.iter().any(|known| known == name), "{name} is not published");
        }
        assert!(!names.iter().any(|name| name == "xtask"));
    }

    #[test]
    fn what_is_embedded_from_elsewhere_is_missing() {
        let held = ["src/a.rs", "src/b/c.rs", "assets/page.css"].map(str::to_owned).into();
        let of = |text: &str| {
            let read = |file: &str| Ok(if file == "src/b/c.rs" { text } else { "" }.to_owned());
            missing(&held, read).expect("sources are read")
        };
        assert!(of(r#"const A: &str = include_str!("../../assets/page.css");"#).is_empty());
        assert!(of("// include_str!(\"none\")").is_empty());
        let lacks = "which its package does not hold";
        for (name, call) in [
            ("../../assets/page.js", "include_str!(\"../../assets/page.js\");"),
            ("../../../outside.ron", "include_bytes!(\n    \"../../../outside.ron\"\n);"),
            ("/etc/hosts", "include!(\"/etc/hosts\")"),
        ] {
            assert_eq!(of(call), [format!("src/b/c.rs embeds {name}, {lacks}")]);
        }
        let unread = of(r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../a.ron"));"#);
        assert_eq!(unread.len(), 1);
        assert!(unread[0].ends_with("not a path in quotes"), "{unread:?}");
    }

    #[test]
    fn what_ships_and_is_in_no_package_is_told() {
        let all = || FILES.iter().map(|(name, _)| (*name).to_owned());
        assert!(differences(&all().chain(["shipped/lib.rs".to_owned()]).collect()).is_empty());
        let first = FILES[0].0;
        let told = differences(&all().skip(1).chain(["traces/own.csv".to_owned()]).collect());
        let more = "traces/own.csv is in it and ships not".to_owned();
        assert_eq!(told, [format!("{first} ships and is not in it"), more]);
    }

    #[test]
    fn crates_that_no_registry_has_are_needed_by_tests_only() {
        let need = |name: &str, kind: Value, req: &str| serde_json::json!({ "name": name, "kind": kind, "req": req, "path": "/x" });
        let needs = [
            need("inside", "dev".into(), "*"),
            need("inside", Value::Null, "^1"),
            need("open", Value::Null, "*"),
            need("fine", Value::Null, "^1"),
        ];
        let package = serde_json::json!({ "dependencies": needs });
        let told = unknown_to_registries(&package, &["inside"].into());
        let words =
            ["needs inside, which is not published", "needs open without saying which version"];
        assert_eq!(told, words);
    }
}
