//! `hardware`: the shipped machines, and one of them in full and drawn.

use crate::args::{Format, HardwareCommand, ShowArgs};
use crate::lints::say_warnings;
use crate::output::{Failure, print, write_all};
use crate::runs::chart;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_reports::{drawing, hardware_json, hardware_list, hardware_text};
use tiersim_sim::hardware_file::read_hardware;
use tiersim_sim::lint::lint_hardware;

/// Folder of the project in which machines are.
const SPECS: &str = "hardware-specs";

/// Lists machines or shows one.
pub(crate) fn hardware(command: &HardwareCommand) -> Result<(), Failure> {
    match command {
        HardwareCommand::List => list(),
        HardwareCommand::Show(args) => show(args),
    }
}

fn list() -> Result<(), Failure> {
    let folder = specs()?;
    let mut machines = Vec::new();
    for path in files(&folder)? {
        machines.push(read_hardware(&path)?);
    }
    print(&hardware_list(&machines))
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let path = find(&args.machine)?;
    let machine = read_hardware(&path)?;
    let routes = machine.routes().map_err(|none| Failure::Internal(format!("{none:?}")))?;
    match args.format {
        Format::Text => {
            print(&hardware_text(&machine, &routes))?;
            say_warnings(&path.display().to_string(), &lint_hardware(&machine));
        }
        Format::Json => print(&hardware_json(&machine, &routes).map_err(chart)?)?,
    }
    let drawn = drawing(&machine, env!("CARGO_PKG_VERSION"));
    let default = || PathBuf::from("out").join(format!("hardware-{}", machine.name));
    let out = args.out.clone().unwrap_or_else(default);
    let svg = drawn.svg().map_err(chart)?.into_bytes();
    let png = drawn.png().map_err(chart)?;
    let files = [("machine.svg".to_owned(), svg), ("machine.png".to_owned(), png)];
    write_all(&out, &files)?;
    match args.format {
        Format::Text => {
            print(&format!("\nwritten to {}: machine.svg, machine.png\n", out.display()))
        }
        Format::Json => Ok(()),
    }
}

/// A file as it is, or a machine of the project by its name.
pub(crate) fn find(machine: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(machine);
    if path.extension().is_some_and(|ending| ending == "ron") {
        return Ok(path.to_owned());
    }
    let folder = specs()?;
    let all = files(&folder)?;
    let named = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem == machine);
    all.iter().find(named).cloned().ok_or_else(|| {
        let names = all.iter().filter_map(|path| path.file_stem());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        Failure::Input(format!(
            "{}: no machine called {machine:?}; there are {}",
            folder.display(),
            names.join(", ")
        ))
    })
}

fn specs() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::Input(error.to_string()))?;
    let found = here.ancestors().map(|above| above.join(SPECS)).find(|folder| folder.is_dir());
    found.ok_or_else(|| {
        let here = here.display();
        Failure::Input(format!(
            "{here}: no {SPECS} here or above; go into a project, or name a .ron file"
        ))
    })
}

/// The machines of a folder by name; folders in it are not looked into.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error| Failure::Input(format!("{}: cannot read: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_file() && path.extension().is_some_and(|ending| ending == "ron") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
