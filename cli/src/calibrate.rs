//! `calibrate`: measures this machine, or takes what a recording shows of another, and writes a
//! hardware spec.
//!
//! What is measured and how laws are fitted is the validation crate's business; this says where
//! files go and asks the system which day it is.

mod from_trace;
mod nodes;

use crate::args::MachineArgs;
use crate::output::{Failure, print, write_each};
use crate::{VERSION, progress};
use clap::{ArgAction, Args as ClapArgs};
use std::path::{Path, PathBuf};
use tiersim_input::hardware_file::write::hardware_text;
use tiersim_input::project::Project;
use tiersim_input::scenario::runtime::runtime_text;
use tiersim_models::hardware::Hardware;
use tiersim_models::units::Bytes;
use tiersim_reports::{Artefact, calibration_artefacts, calibration_comment, calibration_text};
use tiersim_validation::calibrate::spec::{Calibration, calibration};
use tiersim_validation::calibrate::{Device, figures, measure};
use tiersim_validation::real::Kind;

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiersim calibrate [OPTIONS] <--machine <MACHINE>|--from-trace <FILE>>")]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    machine: Option<MachineArgs>,
    /// Measure nothing: take copies, launches and products of this recording, which the PyTorch
    /// profiler wrote, or the copies of a trace's folder.
    #[arg(long, value_name = "FILE", required_unless_present = "machine",
        conflicts_with_all = ["machine", "device", "scratch", "quick", "system"])]
    pub(crate) from_trace: Option<PathBuf>,
    /// The machine that has what the recording does not show, by its name or file [default: the
    /// simplest one with the recording's device].
    #[arg(long, value_name = "NAME", conflicts_with = "machine")]
    pub(crate) base: Option<String>,
    /// Name of the spec [default: host, or the device's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder to write everything to [default: the spec to hardware-specs/measured of the project
    /// around the current folder, the rest to out/calibrate-NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the files that are measured [default: the folder to write to].
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Fewer and smaller sizes: seconds instead of minutes, for a try.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder of a copy of another host's /sys (DIR/sys/...): its nodes of memory are read, and
    /// nothing of them is measured [default: this host's, which are].
    #[arg(long, value_name = "DIR")]
    pub(crate) system: Option<PathBuf>,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

/// Folder of measured specs, within the one of all specs.
const MEASURED: &str = "measured";

/// Measures, fits, writes.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        check_name(name)?;
    }
    let which = match (&args.from_trace, args.machine) {
        (Some(file), _) => return from_trace::from_trace(args, file),
        (None, Some(machine)) => machine.which()?,
        // The reader of the command line asks for one of them.
        (None, None) => return Ok(()),
    };
    let kind = which.0;
    let given = args.out.clone().or_else(|| args.name.as_deref().map(default_out));
    let scratch = args.scratch.clone().or(given).unwrap_or_else(|| default_out(kind.word()));
    let _kept = kind.keep(which.1)?;
    let mut host = nodes::read(args)?;
    let mut bench = host.bench(which, &scratch)?;
    let mut device = bench.describe();
    let name = args.name.clone().unwrap_or_else(|| default_name(kind, &device));
    let bar = progress::bar(0, args.quiet);
    bar.set_message("measurements");
    let points = measure::measure(&mut *bench, args.quick, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let points = points?;
    let most = Bytes::mib(if args.quick { 1 } else { 64 });
    let mut figures = figures::figures(&mut *bench, which, &scratch, most)?;
    drop(bench);
    figures.extend(host.measure(args.quick));
    device.notes.append(&mut host.notes);
    let date = today();
    let made = calibration(kind.word(), &device, &points, figures, &name, &date);
    let Calibration { hardware, mut record } =
        made.map_err(|refused| Failure::Input(refused.to_string()))?;
    record.nodes = host.topology.told();
    let by_node = host.machine(&hardware, &mut record.notes);
    let written = |hardware: &Hardware| {
        let text = hardware_text(hardware, &calibration_comment(&record, VERSION, args.quick));
        text.map_err(|refused| Failure::Internal(refused.to_string()))
    };
    let text = written(&hardware)?;
    let by_node = by_node.map(|machine| written(&machine)).transpose()?;
    let (folder, out) = folders(args, &name);
    let spec = folder.join(format!("{name}.ron"));
    let mut files = calibration_artefacts(&record, VERSION)?;
    let runtime = record.runtime.as_ref().map(runtime_text);
    files.extend(runtime.map(|text| Artefact::new("runtime.ron", text + "\n")));
    let specs = [(spec, Some(text)), (folder.join(format!("{name}-nodes.ron")), by_node)];
    let specs: Vec<_> = specs.into_iter().filter_map(|(file, text)| Some((file, text?))).collect();
    let said = write_calibration(&specs, &files, &out)?;
    if !args.quiet {
        print(&(calibration_text(&record) + &said))?;
    }
    Ok(())
}

/// Where the spec goes, and what lies beside it.
fn folders(args: &CalibrateArgs, name: &str) -> (PathBuf, PathBuf) {
    let out = args.out.clone().unwrap_or_else(|| default_out(name));
    let specs = Project::around(Path::new("")).ok().and_then(|project| project.specs());
    match (&args.out, specs) {
        (None, Some(specs)) => (specs.join(MEASURED), out),
        _ => (out.clone(), out),
    }
}

/// Writes specs and what lies beside them; gives back what is to be said of it.
fn write_calibration(
    specs: &[(PathBuf, String)],
    files: &[Artefact],
    out: &Path,
) -> Result<String, Failure> {
    let beside = files.iter().map(|file| (out.join(&file.name), &file.bytes[..]));
    let first = specs.iter().map(|(file, text)| (file.clone(), text.as_bytes()));
    write_each(&first.chain(beside).collect::<Vec<_>>())?;
    let named: Vec<String> = specs.iter().map(|(file, _)| file.display().to_string()).collect();
    let (named, count) = (named.join(", "), files.len());
    Ok(format!("\nwritten: {named}, and {count} files in {}\n", out.display()))
}

fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=60).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "--name {name:?}: a spec is called by 1 to 60 letters, digits, `-`, `_` and `.`, not `.` \
         first; choose another name"
    )))
}

fn default_out(name: &str) -> PathBuf {
    Path::new("out").join(format!("calibrate-{name}"))
}

/// `host`, or the device's name in small letters with everything else as `-`.
fn default_name(kind: Kind, device: &Device) -> String {
    if kind == Kind::Host {
        return kind.word().to_owned();
    }
    slug(&device.name).unwrap_or_else(|| kind.word().to_owned())
}

/// A name in small letters with everything else as `-`; none of one without a letter or digit.
fn slug(name: &str) -> Option<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().map(plain).take(60).collect();
    let parts: Vec<&str> = slug.split('-').filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("-"))
}

/// The day by Greenwich time, such as 2026-01-31: a spec says when it was measured.
#[expect(
    clippy::disallowed_types,
    reason = "what was measured has a date; nothing else depends on it"
)]
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock that stands before 1970 is as good as none.
    day(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date of a day counted from 1970-01-01.
fn day(mut days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let known =
            [(0, "1970-01-01"), (58, "1970-02-28"), (59, "1970-03-01"), (364, "1970-12-31")];
        let known = known.into_iter().chain([
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (19_723, "2024-01-01"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ]);
        for (days, date) in known {
            assert_eq!(day(days), date);
        }
    }

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for name in ["host", "my-gpu_1.2", "A"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", ".x", "a/b", "a b", "ü", &"x".repeat(61)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
