//! A project folder in the temporary directory, with a scenario that is right.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tiersim_input::scenario::read::read_scenario;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::scenario::Scenario;

/// A scenario with every kind of field.
pub(crate) const GOOD: &str = r#"// What does it cost to keep less in HBM?
Scenario(
    schema: 2,
    about: "all features",
    hardware: "h100-sxm-pcie5",
    capacity: {"hbm": gib(2)},
    workload: Trace(
        path: "traces/small",
        time: roofline(device: "h100-sxm-pcie5", precision: "tf32"),
        repeat: 3,
        warmup: 1,
        jitter: 0.0,
    ),
    policies: [
        (name: "all-hbm", policy: AllHbm),
        (name: "adam", policy: AdamState(
            cut: shares(hbm: 0.3, cpu: 0.5),
            by: modules,
            tiers: ["hbm", "dram", "nvme"],
            kinds: [weight, gradient, optimizer, master],
            access: in_place(charge: module_output),
        )),
        (name: "hints", policy: Hints(file: "hints.json", kinds: [weight], access: migrate(prefetch_ops: 8))),
        (name: "lru", policy: Lru(spill: ["dram", "nvme"]), hbm: share_of_peak(0.25)),
        (name: "lru 1 GiB", policy: Lru(), hbm: gib(1)),
    ],
    sweep: (
        axes: [
            (name: "hbm", path: "policies.1.policy.cut.hbm", values: range(from: 0.0, to: 1.0, step: 0.05)),
            (name: "access", path: "policies.1.policy.access", values: choices([
                ("in place", "in_place(charge: module_output)"),
                ("migrate", "migrate(prefetch_ops: 4)"),
            ])),
        ],
        skip_invalid: true,
    ),
    seed: 1,
    expect: [
        fits("all-hbm"),
        out_of_memory("lru"),
        step_time(case: "adam", at_most: ms(30)),
        slowdown(case: "adam", at_least: 1.0, at_most: 3.0),
        faster(case: "all-hbm", than: "adam"),
        moved(case: "lru", channel: "dram->hbm", at_least: gib(1)),
        peak(case: "lru", tier: "hbm", at_most: gib(2)),
    ],
)
"#;

/// The hint file that [`GOOD`] names.
pub(crate) const HINTS: &str = "{\"wte\": \"HBM\", \"h.0.mlp\": \"CPU\", \"h.1.mlp\": \"SSD\"}\n";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed at the end of the test.
pub(crate) struct Project {
    pub(crate) root: PathBuf,
}

impl Project {
    pub(crate) fn new() -> Project {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiersim-specs-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for folder in ["hardware-specs", "scenarios", "traces/small"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        copy_files(&shipped(), &root.join("hardware-specs"));
        copy_files(&shipped().join("parts"), &root.join("hardware-specs/parts"));
        let project = Project { root };
        project.write("scenarios/hints.json", HINTS);
        project
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(path);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn scenario(&self, text: &str) -> PathBuf {
        self.write("scenarios/case.ron", text)
    }

    /// Reads `text` as a scenario.
    pub(crate) fn read(&self, text: &str) -> Result<Scenario, Diagnostics> {
        read_scenario(&self.scenario(text), &[])
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Copies what is in a folder, but no folder: the measured specs of whoever runs this.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// The folder of the machines that ship.
pub(crate) fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs")
}

/// [`GOOD`] with one piece replaced; the piece must be there.
pub(crate) fn edited(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the scenario has no {from:?}");
    GOOD.replacen(from, to, 1)
}

/// Fails unless the problems name every one of `expected`, each a `line:column: ` with a piece of
/// the message, or a piece alone.
pub(crate) fn assert_says(problems: &Diagnostics, expected: &[&str]) {
    let said = problems.to_string();
    for piece in expected {
        assert!(said.contains(piece), "expected {piece:?} in:\n{said}");
    }
}
