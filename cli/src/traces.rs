//! `trace`.

use crate::args::{Format, Source, TraceCommand};
use crate::generate::generate;
use crate::output::{Failure, print};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tiersim_input::import::recording::import_recording;
use tiersim_input::import::tables::{Tables, import_tables};
use tiersim_input::project::typed;
use tiersim_input::trace::{Packing, info, read_trace, write_trace};
use tiersim_models::workload::Trace;

/// Looks at a trace, or makes one.
pub(crate) fn trace(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Info { trace, format } => {
            let info = info(&read_trace(&typed(trace))?);
            match format {
                Format::Text => print(&info.to_string()),
                Format::Json => {
                    let json = serde_json::to_string_pretty(&info);
                    let json = json.map_err(|error| Failure::Internal(error.to_string()))?;
                    print(&(json + "\n"))
                }
            }
        }
        TraceCommand::Generate(args) => generate(args),
        TraceCommand::Import(import) => match &import.from {
            Source::Recording { source, out } => {
                let imported = import_recording(&recording(source))?;
                write_imported(&imported.trace, &imported.counts, out)
            }
            Source::Tables { kernels, tensors, batch, out } => {
                let (kernels, tensors) = (kernels.clone(), tensors.clone());
                let imported = import_tables(&Tables { kernels, tensors, batch: *batch })?;
                write_imported(&imported.trace, &imported.counts, out)
            }
        },
    }
}

/// The recording that somebody means: a trace that was made from one keeps it in `recording`.
fn recording(named: &Path) -> PathBuf {
    let inside = named.join("recording");
    let is_trace = named.join("trace.ron").is_file() && inside.is_dir();
    if is_trace { inside } else { named.to_owned() }
}

/// Writes a trace, and says what it holds and what it left out.
fn write_imported(trace: &Trace, counts: &dyn Display, out: &Path) -> Result<(), Failure> {
    write_trace(trace, out, Packing::Smaller)?;
    print(&format!("{}\n\n{counts}\nwritten to {}\n", info(trace), out.display()))
}
