//! `hardware`: the shipped machines, and one of them in full and drawn.

use crate::VERSION;
use crate::messages::say_warnings;
use crate::output::{Failure, Format, print, print_exact, write_all, written};
use clap::{Args as ClapArgs, Subcommand};
use std::path::{Path, PathBuf};
use tiersim_input::hardware_file::changed::MachineText;
use tiersim_input::hardware_file::{read_hardware, read_hardware_of};
use tiersim_input::project::{Project, SPECS};
use tiersim_input::shipped::is_shipped;
use tiersim_models::hardware::Hardware;
use tiersim_models::lint::lint_hardware;
use tiersim_reports::{drawing, hardware_json, hardware_list, hardware_list_json, hardware_text};

#[derive(Debug, Subcommand)]
pub(crate) enum HardwareCommand {
    /// One line per machine that can be named: of the project around the current folder, and those
    /// that are embedded in this program.
    #[command(after_help = "Examples:\n  tiersim hardware list")]
    List(ListArgs),
    /// Tiers, links, routes and numbers with their sources; writes machine.svg and machine.png.
    #[command(after_help = "Examples:\n  tiersim hardware show h100-sxm-pcie5")]
    Show(ShowArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// A machine by its name, as `hardware list` has it, or a file that ends in .ron.
    #[arg(value_name = "NAME")]
    pub(crate) machine: String,
    /// Folder to write to [default: out/hardware-NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Lists machines or shows one.
pub(crate) fn hardware(command: &HardwareCommand) -> Result<(), Failure> {
    match command {
        HardwareCommand::List(args) => list(args.format),
        HardwareCommand::Show(args) => show(args),
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let project = project()?;
    let mut machines = Vec::new();
    for (name, path) in project.machines() {
        let machine = Hardware { name, ..read_hardware_of(&path, &project)? };
        machines.push((machine, if is_shipped(&path) { "embedded" } else { "file" }));
    }
    if format == Format::Json {
        return print_exact(&hardware_list_json(&machines)?);
    }
    print(&hardware_list(&machines))?;
    match project.specs() {
        Some(specs) => {
            print(&format!("\nfile: in {}; embedded: in this program\n", specs.display()))
        }
        None => print(&format!(
            "\nembedded: in this program; a folder {SPECS} here or above overrides them by name\n"
        )),
    }
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let (path, machine) = machine(&args.machine)?;
    let routes = machine.routes().map_err(|none| Failure::Internal(format!("{none:?}")))?;
    match args.format {
        Format::Text => {
            print(&hardware_text(&machine, &routes))?;
            say_warnings(&path.display().to_string(), &lint_hardware(&machine));
        }
        Format::Json => print_exact(&hardware_json(&machine, &routes)?)?,
    }
    let drawn = drawing(&machine, VERSION);
    let default = || PathBuf::from("out").join(format!("hardware-{}", machine.name));
    let out = args.out.clone().unwrap_or_else(default);
    let files = drawn.artefacts("machine")?;
    write_all(&out, &files)?;
    match args.format {
        Format::Text => print(&format!("\n{}\n", written(&out, &files))),
        Format::Json => Ok(()),
    }
}

/// A file as it is, or a machine by its name: of the project around the current folder, or one that
/// ships.
pub(crate) fn machine(name: &str) -> Result<(PathBuf, Hardware), Failure> {
    let (path, project) = file(name)?;
    let machine = match &project {
        Some(project) => read_hardware_of(&path, project)?,
        None => read_hardware(&path)?,
    };
    Ok((path, machine))
}

/// The same as text, its parts put together.
pub(crate) fn machine_text(name: &str) -> Result<(PathBuf, MachineText), Failure> {
    let (path, project) = file(name)?;
    let text = MachineText::read(&path, project.as_ref())?;
    Ok((path, text))
}

/// The file of a machine, and the project that names it if one does.
fn file(name: &str) -> Result<(PathBuf, Option<Project>), Failure> {
    let path = Path::new(name);
    if path.extension().is_some_and(|ending| ending == "ron") {
        return Ok((path.to_owned(), None));
    }
    let project = project()?;
    let path = project
        .machine(name)
        .map_err(|(rule, remedy)| Failure::Input(format!("{name:?}: {rule}; {remedy}")))?;
    Ok((path, Some(project)))
}

pub(crate) fn project() -> Result<Project, Failure> {
    Project::around(Path::new("")).map_err(|error| Failure::Input(error.to_string()))
}
