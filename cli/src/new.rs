//! `new`: a scenario to start from, which runs wherever it is written; or one of settings as guides
//! write them.
//!
//! Invariant: a file that is there stays as it is.

use crate::hardware::machine;
use crate::output::{Failure, print, write};
use clap::Args;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tiersim_input::guide::{Fate, Guide, MAX_BYTES, Row, Said, guide};

/// What is written, with `NAME` for the scenario's.
const SCENARIO: &str = include_str!("new/scenario.ron");

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The scenario's name: NAME.ron is written into the current folder.
    #[arg(value_name = "NAME")]
    name: String,
    /// Writes what these settings mean, with a list of what was taken of them and what was not, and
    /// why: `zero_stage`, `offload_optimizer`, `gpu_memory_threshold`, `dynamic_batching` and more.
    #[arg(long, value_name = "FILE")]
    from_yaml: Option<PathBuf>,
    /// The model, in the place of the settings' `model`.
    #[arg(long, value_name = "NAME", requires = "from_yaml")]
    model: Option<String>,
    /// The machine, in the place of the settings' `gpu`.
    #[arg(long, value_name = "NAME", requires = "from_yaml")]
    hardware: Option<String>,
}

/// Writes the scenario and says what to do with it.
pub(crate) fn new(args: &NewArgs) -> Result<(), Failure> {
    let name = args.name.strip_suffix(".ron").unwrap_or(&args.name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !(1..=60).contains(&name.len()) || name.starts_with(['.', '-']) || !name.chars().all(plain) {
        return Err(Failure::Input(format!(
            "{name:?}: a scenario is called by 1 to 60 letters, digits, `-`, `_` and `.`, the first a \
             letter, a digit or `_`; choose another name"
        )));
    }
    let file = format!("{name}.ron");
    if Path::new(&file).symlink_metadata().is_ok() {
        return Err(Failure::Input(format!(
            "{file}: a file of this name is there; choose another name, or remove it"
        )));
    }
    let (text, report) = match &args.from_yaml {
        None => (SCENARIO.replace("NAME", name), String::new()),
        Some(from) => {
            let guide = measured(of_settings(args, from)?);
            (guide.scenario, report(&guide.rows))
        }
    };
    write(Path::new(&file), text.as_bytes())?;
    print(&format!(
        "{report}written: {file}; now `tiersim run {file}`, and change what you want to know\n"
    ))
}

/// The scenario with op times by measurement, where its machine is known and has them.
pub(crate) fn measured(found: Guide) -> Guide {
    match machine(&found.hardware) {
        Ok((_, machine)) => found.measured(&machine),
        // Whoever reads the scenario says what is wrong with the machine.
        Err(_) => found,
    }
}

fn of_settings(args: &NewArgs, from: &Path) -> Result<Guide, Failure> {
    let text = settings_text(from)?;
    let said = Said { model: args.model.as_deref(), hardware: args.hardware.as_deref() };
    Ok(guide(from, &text, said)?)
}

/// The text of a file of settings.
pub(crate) fn settings_text(from: &Path) -> Result<String, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::Input(format!("{}: {error}; name a file of settings", from.display()))
    };
    let mut text = String::new();
    let file = File::open(from).map_err(|error| cannot(&error))?;
    // One byte more than may be there: the reader says that it is too much.
    let most = MAX_BYTES as u64 + 1;
    file.take(most).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    Ok(text)
}

/// What became of each key: those that were taken, and then the others.
pub(crate) fn report(rows: &[Row]) -> String {
    let mut out = String::new();
    let line = |Row { line, key, value, .. }: &Row, words: &str| {
        // What no line says is a default, or the command's.
        let line = if *line == 0 { String::new() } else { format!("line {line}: ") };
        format!("  {line}{}: {} -> {words}\n", clean(key), clean(value))
    };
    out.push_str("taken\n");
    for row in rows {
        if let Fate::Taken(words) = &row.fate {
            // Words of this program, which may quote a value.
            out.push_str(&line(row, &escaped(words)));
        }
    }
    let ignored: Vec<String> = rows
        .iter()
        .filter_map(|row| match &row.fate {
            Fate::Ignored(why) => Some(line(row, &format!("ignored: {}", escaped(why)))),
            Fate::Taken(_) => None,
        })
        .collect();
    if !ignored.is_empty() {
        out.push_str("not taken\n");
        out.extend(ignored);
    }
    out
}

/// Nothing of a file reaches the terminal uncleaned, or at any length.
fn clean(text: &str) -> String {
    let shown: String = text.chars().take(80).collect();
    escaped(&if shown.len() < text.len() { shown + "..." } else { shown })
}

fn escaped(text: &str) -> String {
    text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}
