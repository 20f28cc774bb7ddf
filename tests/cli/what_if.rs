//! `run --report --what-if`: the simulator inside a page, and what is refused.
//!
//! That a page gives the numbers of the command is asked of a real browser, with a real pointer and
//! keyboard, where this computer has one, node, and the module of `cargo xtask what-if`.

use crate::common::*;
use std::process::Command;
use tiersim_what_if::stamped;

/// What a module begins with: an empty one is as good as any where no browser runs it.
const EMPTY: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];

#[test]
fn the_page_of_a_run_holds_the_simulator_and_so_does_that_of_its_folder() {
    let project = Project::new();
    project.write("m.wasm", stamped(&EMPTY, b"packed"));
    let all = ["run", CASE, "--report", "--what-if=m.wasm", "--out", "o"];
    project.run(&all).ends_with(0).shows(&["what-if.wasm", "what-if.files.lzma"]);
    let page = project.text("o/report.html");
    assert!(page.contains("id=\"what-if-module\"") && page.contains("id=\"what-if-files\""));
    assert!(page.contains("'wasm-unsafe-eval'") && page.contains("worker-src blob:"));
    project.run(&["report", "o", "--out", "again", "-q"]).ends_with(0);
    assert_eq!(project.text("again/report.html"), page);
    // A page of several has no room for one.
    project.run(&["report", "o", "again", "--out", "both", "-q"]).ends_with(2);
    project.run(&["report", "o", "o", "--out", "both", "-q"]).ends_with(0);
    assert!(!project.text("both/report.html").contains("wasm"));
    // Who does not ask for it gets a page that may run nothing but its own script.
    project.run(&["run", CASE, "--report", "--out", "o", "-q"]).ends_with(0);
    let page = project.text("o/report.html");
    assert!(!page.contains("wasm") && !page.contains("worker-src"));
    assert!(!project.path("o/what-if.wasm").exists());
}

#[test]
fn what_no_page_can_hold_is_refused_before_anything_is_run() {
    let project = Project::new();
    let other = [&EMPTY[..], &[0, 19, 15], b"tiersim-what-if", b"9.9"].concat();
    project.write("other.wasm", other);
    project.write("m.wasm", stamped(&EMPTY, b"packed"));
    let said = |args: &[&str], pieces: &[&str]| {
        project.run(&[&["run", CASE, "--out", "o"], args].concat()).ends_with(2).says(pieces);
        assert!(!project.path("o").exists());
    };
    let module = |path: &str, pieces: &[&str]| {
        said(&["--report", &format!("--what-if={path}")], &[&[path], pieces].concat());
    };
    let build = "build it with `cargo xtask what-if`";
    module("nowhere.wasm", &["cannot read", build]);
    module(CASE, &["it is no module of `cargo xtask what-if`", build]);
    module("other.wasm", &["it is of tiersim \"9.9\", and this is", build]);
    said(&["--what-if=m.wasm"], &["--report"]);
    let shipped = Project::shipped();
    shipped.write("m.wasm", stamped(&EMPTY, b"packed"));
    let several = "scenarios/hbm4-cxl3-against-hbm3e-training.ron";
    let ran = shipped.run(&["run", several, "--report", "--what-if=m.wasm", "--out", "o"]);
    ran.ends_with(2).says(&["--what-if", several, "several machines", "--set hardware=NAME"]);
    assert!(!shipped.path("o").exists());
}

/// As with a command that was unpacked somewhere: the module is not beside it.
#[test]
fn a_command_alone_says_what_is_missing_and_how_to_get_it() {
    let project = Project::new();
    project.write("bin/here", "");
    let command = project.path("bin/tiersim");
    fs::hard_link(env!("CARGO_BIN_EXE_tiersim"), &command).expect("a link");
    let ran = Command::new(&command)
        .args(["run", CASE, "--report", "--what-if", "--out", "o"])
        .current_dir(project.path(""))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    let build = "from the source code of tiersim 0.1.0: `cargo xtask what-if` writes";
    for piece in ["tiersim.wasm, which is not there", build, "--what-if=FILE", "tiersim serve"] {
        assert!(said.contains(piece), "no {piece} in {said}");
    }
}

/// The module of `cargo xtask what-if`, if it was built beside the command.
fn module() -> Option<PathBuf> {
    let command = Path::new(env!("CARGO_BIN_EXE_tiersim"));
    let target = command.parent().and_then(Path::parent).expect("a build folder");
    Some(target.join("what-if").join("tiersim.wasm")).filter(|module| module.is_file())
}

/// The page of a recorded step, which has the simulator, a trace and every kind of chart.
#[test]
fn a_page_with_the_simulator_is_below_two_megabytes() {
    let Some(module) = module() else {
        return eprintln!("no module of `cargo xtask what-if` here: no page was weighed");
    };
    let project = Project::shipped();
    let module = format!("--what-if={}", module.display());
    let run = ["run", "scenarios/gpt2-adam-tiering.ron", "--report", &module, "--out", "o", "-q"];
    project.run(&run).ends_with(0);
    let size = fs::metadata(project.path("o/report.html")).expect("it was written").len();
    assert!(size < 2_000_000, "{size} bytes");
}

/// Sliders of shipped scenarios, turned by pointer and keyboard in a page that Chromium opened.
#[test]
fn a_browser_gives_the_numbers_of_the_command() {
    let command = env!("CARGO_BIN_EXE_tiersim");
    let lacks =
        |what: &str| eprintln!("no {what} here: that a page gives the numbers was not checked");
    let there = |name: &str| {
        Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success())
    };
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = browsers.into_iter().find(|name| there(name)) else {
        return lacks("Chromium");
    };
    if !there("node") {
        return lacks("node");
    }
    let Some(module) = module() else {
        return lacks("module of `cargo xtask what-if`");
    };
    let project = Project::shipped();
    let module = format!("--what-if={}", module.display());
    for name in ["gpt2-adam-tiering", "kv-tiering-requests"] {
        let scenario = format!("scenarios/{name}.ron");
        let run = ["run", scenario.as_str(), "--report", module.as_str(), "--out", name, "-q"];
        project.run(&run).ends_with(0);
        let page = project.path(&format!("{name}/report.html"));
        let ran = Command::new("node")
            .arg(shipped("tests/browser").join("check.mjs"))
            .args(["--tiersim", command])
            .arg(&page)
            .current_dir(project.path(""))
            .env("CHROMIUM", browser)
            .output()
            .expect("node is there");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("sliders: "), "{name}: {said}");
    }
}
