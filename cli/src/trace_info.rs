//! `trace info`.

use crate::VERSION;
use crate::any_trace::device_trace;
use crate::kept::{keeps, keeps_trace};
use crate::output::{Failure, Format, print, print_exact, write_all, written};
use clap::Args;
use std::path::{Path, PathBuf};
use tiersim_input::file_kind::FileKind;
use tiersim_input::import::serving::{read_requests, requests_info, requests_shape};
use tiersim_input::project::typed;
use tiersim_input::trace::{Packing, info, shape, write_trace};
use tiersim_reports::{
    Artefact, copies_text, pretty, requests_charts, trace_charts, with_copies_json,
};
use tiersim_validation::calibrate::recorded::shown;

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The trace's folder, what becomes a trace, or a file of requests to a served model.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Of a recording of several devices, the number of the one that is meant [default: those that meet
    /// in collectives, or the one that did the most].
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Write charts to this folder, as SVG and PNG, and what is printed as JSON.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the trace to this folder as well, its tables as plain CSV.
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
}

/// Counts what is in a trace, prints it, and writes what was asked for.
pub(crate) fn trace_info(args: &InfoArgs) -> Result<(), Failure> {
    let path = typed(&args.trace);
    if FileKind::of(&path) == Some(FileKind::Requests) && args.tables.is_none() {
        return requests(&path, args);
    }
    if let Some(folder) = &args.tables {
        keeps_trace([&*path], folder)?;
    }
    let (trace, account) = device_trace(&args.trace, args.device)?;
    if let Some(folder) = &args.tables {
        write_trace(&trace, folder, Packing::Plain)?;
    }
    let (info, copies) = (info(&trace), shown(&trace));
    let json = || with_copies_json(&info, &copies);
    let charts = || trace_charts(&shape(&trace, &copies), VERSION);
    let account = account.map_or_else(String::new, |account| format!("\n{account}\n"));
    let text = || format!("{info}{}{account}", copies_text(&copies));
    told(args, text, || Ok(json()?), || Ok(charts()?))
}

/// What a file of requests to a served model holds.
fn requests(path: &Path, args: &InfoArgs) -> Result<(), Failure> {
    if let Some(number) = args.device {
        let text = "requests to a served model are of no device; leave --device out";
        return Err(Failure::Input(format!("{}: --device {number}: {text}", path.display())));
    }
    let requests = read_requests(path, None)?;
    let info = requests_info(&requests);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let charts = || requests_charts(&requests_shape(&name, &requests), VERSION);
    told(args, || info.to_string(), || Ok(pretty(&info)?), || Ok(charts()?))
}

/// Writes and prints; what nobody asked for is not made.
fn told(
    args: &InfoArgs,
    text: impl Fn() -> String,
    json: impl Fn() -> Result<String, Failure>,
    charts: impl Fn() -> Result<Vec<Artefact>, Failure>,
) -> Result<(), Failure> {
    let mut end = String::new();
    if let Some(folder) = &args.out {
        let mut files = vec![Artefact::new("trace-info.json", json()?)];
        files.extend(charts()?);
        keeps([&*typed(&args.trace)], files.iter().map(|file| folder.join(&file.name)))?;
        write_all(folder, &files)?;
        end = format!("\n{}\n", written(folder, &files));
    }
    match args.format {
        Format::Text => print(&format!("{}{end}", text())),
        Format::Json => print_exact(&json()?),
    }
}
