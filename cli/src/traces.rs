//! `check` and `trace`.

use crate::args::{CheckArgs, Format, TraceCommand};
use crate::output::{Failure, say};
use std::path::Path;
use tiersim_sim::diagnostic::Diagnostics;
use tiersim_sim::hardware_file::read_hardware;
use tiersim_sim::import::recording::import_recording;
use tiersim_sim::ron_text::Document;
use tiersim_sim::scenario::read::read_scenario;
use tiersim_sim::trace::{Packing, info, read_trace, write_trace};
use tiersim_sim::traces::Traces;

/// Reads every file and reports all problems together.
pub(crate) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let mut problems = Diagnostics::default();
    for path in &args.files {
        match check_one(path) {
            Ok(what) => say(&format!("{}: {what}, no problems\n", path.display()))?,
            Err(mut found) => problems.0.append(&mut found.0),
        }
    }
    Ok(problems.into_result(())?)
}

fn check_one(path: &Path) -> Result<&'static str, Diagnostics> {
    if path.is_dir() {
        return read_trace(path).map(|_| "trace");
    }
    // Only hardware has tiers at the top.
    if Document::read(path)?.value("tiers").is_some() {
        return read_hardware(path).map(|_| "hardware spec");
    }
    let scenario = read_scenario(path, &[])?;
    Traces::read([&scenario]).map(|_| "scenario")
}

/// Looks at a trace, or makes one.
pub(crate) fn trace(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Info { trace, format } => {
            let info = info(&read_trace(trace)?);
            match format {
                Format::Text => say(&info.to_string()),
                Format::Json => {
                    let json = serde_json::to_string_pretty(&info);
                    let json = json.map_err(|error| Failure::Internal(error.to_string()))?;
                    say(&format!("{json}\n"))
                }
            }
        }
        TraceCommand::Import { from: _, source, out } => {
            let imported = import_recording(source)?;
            write_trace(&imported.trace, out, Packing::Smaller)?;
            let (info, counts) = (info(&imported.trace), imported.counts);
            say(&format!("{info}\n{counts}\nwritten to {}\n", out.display()))
        }
    }
}
