//! Files that tests read: what ships, and measurements that lie beside a checkout.

use crate::prelude::*;
use flate2::read::GzDecoder;
use std::io::Read;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::traces::read_traces;
use tiersim_policies::scenario::traces::Traces;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// A page of the project, by its path.
pub fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text below a heading of the second level.
pub fn section(name: &str, heading: &str) -> String {
    let page = page(name);
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect("the heading");
    section.split("\n## ").next().unwrap_or_default().to_owned()
}

/// Fails unless these are the rows of a page that a table of one kind has.
#[track_caller]
pub fn assert_rows(name: &str, is_row: impl Fn(&str) -> bool, rows: &[String]) {
    let page = page(name);
    let shown: Vec<&str> = page.lines().filter(|line| is_row(line)).collect();
    assert_eq!(shown, rows, "the rows of {name} should be:\n{}", rows.join("\n"));
}

/// A row of a table, as text by column.
pub type Row = BTreeMap<String, String>;

/// The rows of a table without cells in quotes, packed or not.
pub fn table(file: &Path) -> Vec<Row> {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut text = String::new();
    match file.extension().is_some_and(|ending| ending == "gz") {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text),
        false => (&bytes[..]).read_to_string(&mut text),
    }
    .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().expect("a header").collect();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

/// Measurements that somebody published, which lie beside the checkout in development; `None`, and
/// a line on stderr, where they do not.
pub fn beside(place: &str) -> Option<PathBuf> {
    let found = root()
        .ancestors()
        .map(|above| above.join("shared/data").join(place))
        .find(|path| path.exists());
    if found.is_none() {
        eprintln!("NOT COMPARED: shared/data/{place} does not lie beside the checkout");
    }
    found
}

/// The files of a folder that ships, by name.
pub fn shipped(folder: &str) -> Vec<PathBuf> {
    files(&root().join(folder))
}

/// Files in a folder, sorted by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// Folders in a folder, sorted by name; none where there is no such folder.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}

/// Every page of the documents, of each kind.
pub fn pages() -> Vec<PathBuf> {
    let kinds = folders(&root().join("docs"));
    let mut pages: Vec<PathBuf> = kinds.iter().flat_map(|kind| files(kind)).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages
}

/// A machine that ships.
pub fn machine(name: &str) -> Hardware {
    let file = root().join("hardware-specs").join(format!("{name}.ron"));
    read_hardware(&file).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Every machine that ships, by name.
pub fn machines() -> Vec<Hardware> {
    let name = |file: PathBuf| file.file_stem().expect("a name").to_string_lossy().into_owned();
    shipped("hardware-specs").into_iter().map(|file| machine(&name(file))).collect()
}

/// An empty project of a test's own, with the machines that ship and a folder of scenarios.
pub fn own_project(folder: &str, test: &str) -> PathBuf {
    let project = Path::new(folder).join(test);
    let _ = fs::remove_dir_all(&project);
    fs::create_dir_all(project.join("scenarios")).expect("a folder can be made");
    for folder in ["hardware-specs", "hardware-specs/parts"] {
        fs::create_dir_all(project.join(folder)).expect("a folder can be made");
        for file in shipped(folder) {
            let name = file.file_name().expect("a file has a name");
            fs::copy(&file, project.join(folder).join(name)).expect("a spec is copied");
        }
    }
    project
}

/// A scenario with other values: paths in it, and what stands there.
pub fn scenario(file: &Path, set: &[(&str, &str)]) -> Scenario {
    let set: Vec<_> = set.iter().map(|&(path, to)| (path.to_owned(), to.to_owned())).collect();
    read_scenario(file, &set).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A scenario that ships, by its path below `scenarios`, with other values.
pub fn shipped_scenario(name: &str, set: &[(&str, &str)]) -> Scenario {
    scenario(&root().join(format!("scenarios/{name}.ron")), set)
}

/// The traces of a scenario.
pub fn traces(scenario: &Scenario) -> Traces {
    read_traces([scenario]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What a run of a scenario measured.
pub fn record(scenario: &Scenario, options: Options) -> RunRecord {
    let traces = traces(scenario);
    let record = run(scenario, traces.of(scenario), String::new(), options, || ());
    record.unwrap_or_else(|error| panic!("{error}"))
}
