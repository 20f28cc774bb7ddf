//! `check` and `trace`.

use crate::args::{CheckArgs, Format, Source, TraceCommand};
use crate::generate::generate;
use crate::lints::{diagnostic, say_note, say_warnings};
use crate::output::{Failure, print};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::hardware::Hardware;
use tiersim_models::workload::Trace;
use tiersim_sim::diagnostic::Diagnostics;
use tiersim_sim::feasible::problems;
use tiersim_sim::hardware_file::parts::{is_part, read_part};
use tiersim_sim::hardware_file::read_hardware;
use tiersim_sim::import::recording::import_recording;
use tiersim_sim::import::tables::{Tables, import_tables};
use tiersim_sim::lint::{Warning, assumed_note, lint_hardware};
use tiersim_sim::project::typed;
use tiersim_sim::scenario::read::read_scenario;
use tiersim_sim::scenario::weights::{is_weights, read_weights};
use tiersim_sim::text::ron_text::Document;
use tiersim_sim::trace::{Packing, info, read_trace, write_trace};
use tiersim_sim::traces::Traces;

/// Reads every file and reports all problems together.
pub(crate) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let mut all = Diagnostics::default();
    for path in &args.files {
        match check_one(path) {
            Ok((what, hardware, mut warnings)) => {
                warnings.extend(hardware.as_deref().map(lint_hardware).unwrap_or_default());
                if args.deny.is_some() && !warnings.is_empty() {
                    all.0.extend(warnings.iter().map(|warning| diagnostic(path, warning)));
                    continue;
                }
                say_warnings(&path.display().to_string(), &warnings);
                if let Some(note) = hardware.as_deref().and_then(assumed_note) {
                    say_note(&path.display().to_string(), &note);
                }
                print(&format!("{}: {what}, no problems\n", path.display()))?;
            }
            Err(mut found) => all.0.append(&mut found.0),
        }
    }
    Ok(all.into_result(())?)
}

/// What a file is, the machine that it describes or names, and warnings of other files.
type Checked = (&'static str, Option<Arc<Hardware>>, Vec<Warning>);

fn check_one(path: &Path) -> Result<Checked, Diagnostics> {
    let alone = |what| (what, None, Vec::new());
    if path.is_dir() {
        return read_trace(path).map(|_| alone("trace"));
    }
    let document = Document::read(path)?;
    if is_part(&document) {
        return read_part(path).map(|()| alone("part of a machine"));
    }
    if is_weights(&document) {
        return read_weights(path).map(|_| alone("trained weights"));
    }
    // Only hardware has tiers or parts at the top.
    if ["tiers", "parts"].iter().any(|section| document.value(section).is_some()) {
        let found = |hardware| ("hardware spec", Some(Arc::new(hardware)), Vec::new());
        return read_hardware(path).map(found);
    }
    let scenario = read_scenario(path, &[])?;
    let traces = Traces::read([&scenario])?;
    let problems = problems(&scenario, &traces.of(&scenario).trace);
    problems.into_result(("scenario", Some(scenario.hardware), scenario.warnings))
}

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
