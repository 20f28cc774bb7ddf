//! The tables: where they are, what they become, and that the page on imports names their columns.

use tiersim_input::import::tables::{Imported, Tables, import_tables};
use tiersim_tests::files::{beside, page};
use tiersim_tests::prelude::*;

/// A network with its figures in cycles of 1.2 GHz per iteration, as published.
pub(crate) struct Network {
    pub(crate) name: &'static str,
    pub(crate) batch: u32,
    pub(crate) ideal: u64,
    pub(crate) published: &'static [(&'static str, u64)],
}

pub(crate) const NETWORKS: [Network; 3] = [
    Network {
        name: "BERT_b256",
        batch: 256,
        ideal: 8_742_558_777,
        published: &[
            ("unified memory", 23_580_084_389),
            ("correlation prefetch", 10_992_552_904),
            ("g10-gds", 10_851_936_000),
            ("g10-host", 9_586_308_000),
            ("g10", 8_773_229_325),
        ],
    },
    Network {
        name: "VIT_b1280",
        batch: 1280,
        ideal: 4_459_141_336,
        published: &[
            ("unified memory", 29_519_610_761),
            ("correlation prefetch", 9_069_040_214),
            ("g10-gds", 7_891_464_000),
            ("g10-host", 7_480_380_000),
            ("g10", 6_647_685_439),
        ],
    },
    // More is alive at once than HBM and the host's memory hold. Two figures are published as
    // multiples of ideal.
    Network {
        name: "ResNet152_b1280",
        batch: 1280,
        ideal: 135_107_260_924,
        published: &[
            ("unified memory", 562_694_720_296),
            ("correlation prefetch", 158_426_774_159),
            ("g10", 137_304_113_890),
        ],
    },
];

/// The folder of the tables; `None` where it is not there, which is said once per test.
pub(crate) fn folder() -> Option<PathBuf> {
    beside("g10")
}

pub(crate) fn read(folder: &Path, network: &Network) -> Trace {
    let table = |which: &str| folder.join(format!("{}.{which}.csv", network.name));
    let (kernels, tensors) = (table("kernels"), table("tensors"));
    let imported = import_tables(&Tables { kernels, tensors, batch: network.batch });
    let Imported { trace, .. } = imported.unwrap_or_else(|problems| panic!("{problems}"));
    trace
}

#[test]
fn durations_sum_to_the_published_ideal() {
    let Some(folder) = folder() else { return };
    for network in &NETWORKS {
        let trace = read(&folder, network);
        let ps: u64 = trace.ops.iter().map(|op| op.duration.expect("it is recorded").ps()).sum();
        let cycles = ps as f64 * 1.2e-3;
        let off = cycles / network.ideal as f64 - 1.0;
        assert!(off.abs() < 1e-6, "{}: {cycles} cycles, {off:e} off", network.name);
    }
}

#[test]
fn the_page_on_imports_names_every_column() {
    let folder = std::env::temp_dir().join(format!("tiersim-columns-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder is made");
    let [kernels, tensors] = ["k.csv", "t.csv"].map(|name| folder.join(name));
    for table in [&kernels, &tensors] {
        fs::write(table, "nobody-uses-this\n").expect("the table is written");
    }
    let problems = import_tables(&Tables { kernels, tensors, batch: 1 });
    let problems = problems.expect_err("the column is unknown").0;
    let page = page("docs/reference/imports.md");
    let (_, section) = page.split_once("## Tables of kernels and tensors").expect("its section");
    let lists = problems.iter().filter_map(|one| one.remedy.strip_prefix("the columns are "));
    let columns: Vec<&str> = lists.flat_map(|list| list.split(", ")).collect();
    assert!(columns.len() >= 10, "the reader names its columns: {columns:?}");
    for column in columns {
        assert!(
            section.contains(&format!("`{column}`")),
            "docs/reference/imports.md lacks {column}"
        );
    }
    fs::remove_dir_all(folder).expect("the folder goes");
}
