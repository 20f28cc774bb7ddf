//! What ARCHITECTURE.md promises about the code itself, checked as text.

mod circles;

use tiersim_tests::files::{page, root, shipped as files};
use tiersim_tests::prelude::*;

/// Every `.rs` file below a folder of the workspace, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("source is text");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// The part of a file that ships: up to its unit tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn refuse(folder: &str, words: &[&str]) {
    for (path, text) in sources(folder) {
        for (number, line) in shipped(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            for word in words {
                assert!(!code.contains(word), "{}:{}: {word}", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn pure_rooms_do_no_input_or_output_and_read_no_clock() {
    let impure = [
        "std::fs",
        "std::io",
        "std::env",
        "std::net",
        "std::process",
        "std::thread",
        "std::time",
        "println!",
        "eprintln!",
        "print!(",
        "rayon",
    ];
    refuse("models/src", &impure);
    refuse("workloads/src", &impure);
    refuse("policies/src", &impure);
    // Encoders want a sink that is `std::io::Write`; a vector is one.
    let impure: Vec<&str> = impure.into_iter().filter(|word| *word != "std::io").collect();
    refuse("reports/src", &impure);
    // Cases and points run in parallel, each on a machine of its own.
    let impure: Vec<&str> = impure.into_iter().filter(|word| *word != "rayon").collect();
    refuse("sim/src", &[&impure[..], &["std::io"]].concat());
}

#[test]
fn nothing_uses_a_hash_map_or_unsafe_code() {
    for folder in [
        "models/src",
        "workloads/src",
        "policies/src",
        "input/src",
        "sim/src",
        "reports/src",
        "cli/src",
        "what-if/src",
        "tests/conformance/src",
        "shipped",
    ] {
        refuse(folder, &["HashMap", "HashSet", "unsafe "]);
    }
    // Locking memory is a system call; the compiler asks a reason of every such block.
    // The stand-in for a driver is a C interface.
    for folder in ["validation/src", "validation/examples", "validation/tests"] {
        refuse(folder, &["HashMap", "HashSet"]);
    }
}

#[test]
fn the_engine_is_single_threaded() {
    for file in ["engine.rs", "queue.rs", "machine.rs", "audit.rs"] {
        let text = fs::read_to_string(root().join("sim/src").join(file)).expect("it is there");
        for word in ["std::thread", "rayon", "Mutex", "Atomic"] {
            assert!(!shipped(&text).contains(word), "{file}: {word}");
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    let allowed: [(&str, &[&str]); 12] = [
        ("models", &[]),
        ("workloads", &["models"]),
        ("policies", &["models", "workloads"]),
        ("input", &["models", "workloads", "policies", "shipped"]),
        ("sim", &["models", "workloads", "policies"]),
        ("reports", &["models"]),
        ("validation", &["models", "policies"]),
        ("tests/conformance", &["models", "policies", "sim", "validation"]),
        ("what-if", &["models", "policies", "input", "sim"]),
        // Both are compiled for pages, where the second stands for a crate of others.
        ("what-if/unpack", &[]),
        ("what-if/web-time", &[]),
        (
            "cli",
            &[
                "models",
                "workloads",
                "policies",
                "input",
                "sim",
                "reports",
                "validation",
                "conformance",
                "what-if",
            ],
        ),
    ];
    for (room, below) in allowed {
        let manifest = root().join(room).join("Cargo.toml");
        let text = fs::read_to_string(manifest).expect("every room has a manifest");
        // What only tests need does not ship.
        let text = text.split("[dev-dependencies]").next().unwrap_or_default();
        let ours = text.lines().filter_map(|line| line.strip_prefix("tiersim-"));
        for dependency in ours.filter_map(|rest| rest.split(['.', ' ', '=']).next()) {
            assert!(below.contains(&dependency), "{room} depends on {dependency}");
        }
    }
    let shipped = page("Cargo.toml");
    assert!(!shipped.contains("\n[dependencies]"), "what ships depends on nothing");
}

#[test]
fn every_scenario_says_what_it_asks_and_what_must_hold() {
    for path in ["scenarios", "scenarios/validation"].into_iter().flat_map(files) {
        let text = fs::read_to_string(&path).expect("a scenario is text");
        for part in ["about: \"", "expect: ["] {
            assert!(text.contains(part), "{} lacks {part}", path.display());
        }
        assert!(!text.contains("expect: []"), "{} expects nothing", path.display());
    }
}

#[test]
fn every_module_opens_with_what_it_is() {
    let rooms = [
        "models",
        "workloads",
        "policies",
        "input",
        "sim",
        "validation",
        "reports",
        "what-if",
        "cli",
    ];
    let others = ["tests", "validation/examples", "validation/tests", "shipped"].map(str::to_owned);
    let rooms = rooms.map(|room| format!("{room}/src")).into_iter().chain(others);
    for (path, text) in rooms.flat_map(|room| sources(&room)) {
        assert!(text.starts_with("//! "), "{} does not say what it is", path.display());
    }
}

#[test]
fn no_test_is_ignored_and_none_sleeps() {
    let rooms = [
        "models",
        "workloads",
        "policies",
        "input",
        "sim",
        "validation",
        "reports",
        "what-if",
        "cli",
        "tests",
    ];
    for (path, text) in rooms.into_iter().flat_map(sources) {
        // Put together here, so that this file does not contain them.
        for word in [concat!("#[ign", "ore"), concat!("thread::sl", "eep")] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// A file that no `mod` names is not compiled, and its tests never run.
#[test]
fn every_file_of_tests_is_part_of_a_test_program() {
    for folder in [
        "models/tests",
        "workloads/tests",
        "policies/tests",
        "input/tests",
        "sim/tests",
        "validation/tests",
        "what-if/tests",
        "tests/tests",
        "tests/cli",
    ] {
        let files = sources(folder);
        for (path, _) in &files {
            let own = path.file_name() == Some("mod.rs".as_ref());
            let module = if own { path.with_file_name("") } else { path.with_extension("") };
            let module = module.components().as_path();
            let (name, place) = (module.file_name().expect("a name"), module.parent());
            let named = format!("mod {};", name.display());
            let mut parents = files.iter().filter(|(file, _)| {
                file.parent() == place || Some(file.with_extension("").as_path()) == place
            });
            let part = parents.any(|(_, text)| text.lines().any(|line| line.ends_with(&named)));
            assert!(part || is_root(path), "{} is never compiled", path.display());
        }
    }
}

/// Whether a manifest names a file as the root of a test program.
fn is_root(path: &Path) -> bool {
    let manifests = [
        "models",
        "workloads",
        "policies",
        "input",
        "sim",
        "validation",
        "what-if",
        "tests",
        "cli",
    ];
    let manifests = manifests.map(|krate| root().join(krate));
    manifests.iter().any(|krate| {
        let text = fs::read_to_string(krate.join("Cargo.toml")).expect("a manifest");
        let tests = text.split("[[test]]").skip(1).map(|rest| rest.split("\n\n").next());
        tests.flatten().any(|test| {
            let of = |key: &str| {
                let line =
                    test.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                line.map(|value| value.trim_matches('"').to_owned())
            };
            let default = || of("name").map(|name| format!("tests/{name}.rs"));
            let file = of("path").or_else(default).expect("a test has a name");
            let file = krate.join(file).canonicalize().expect("the root of a test program");
            file == path.canonicalize().expect("it was read")
        })
    })
}
