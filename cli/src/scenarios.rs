//! `scenario`: what ships to start from, by name.

use crate::output::{Failure, Format, print, print_exact};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use tiersim_input::project::{SCENARIOS, scenario as found};
use tiersim_input::shipped;
use tiersim_input::text::choices::choices;
use tiersim_input::text::ron_text::{Document, read_text};
use tiersim_reports::words::clean;

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// One line per scenario that ships: its name and what it is about.
    #[command(after_help = "Examples:\n  tiersim scenario list")]
    List(ListArgs),
    /// Print a scenario's text.
    #[command(after_help = "Examples:\n  tiersim scenario show gpt2-lru-budgets")]
    Show(ShowArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The scenario's name, as `scenario list` has it, or a file.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
}

/// Lists scenarios or prints one.
pub(crate) fn scenario(command: &ScenarioCommand) -> Result<(), Failure> {
    match command {
        ScenarioCommand::List(args) => list(args.format),
        ScenarioCommand::Show(args) => show(&args.scenario),
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let mut all = Vec::new();
    for name in shipped::specs(SCENARIOS) {
        let document = Document::read(&found(Path::new(name)))?;
        let about = document.value("about").unwrap_or_default();
        all.push((name, about.trim_matches('"').to_owned()));
    }
    let column = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    match format {
        Format::Text => {
            let line = |(name, about): &(&str, String)| format!("{name:<column$}{about}\n");
            print(&all.iter().map(line).collect::<String>())
        }
        Format::Json => {
            let object = |(name, about): &(&str, String)| json!({ "name": name, "about": about });
            let all: Vec<_> = all.iter().map(object).collect();
            print_exact(&format!("{:#}\n", json!(all)))
        }
    }
}

fn show(named: &Path) -> Result<(), Failure> {
    let path = found(named);
    if !shipped::is_shipped(&path) && !path.is_file() {
        let known: Vec<&str> = shipped::specs(SCENARIOS).collect();
        let name = clean(&named.to_string_lossy());
        let remedy = choices(&name, &known);
        return Err(Failure::Input(format!("{name:?}: no scenario of this name; {remedy}")));
    }
    print_exact(&read_text(&path)?)
}
