//! What the command says beside its answer, on stderr: lines for people, or for a program one JSON
//! object a line.
//!
//! A program cannot read `error: a.ron:3:5: ...` apart where rules and values are free text, so
//! every line has one of the keys `error`, `fault`, `failed`, `warning`, `note` and `progress`.
//! Invariant: with `--messages json` nothing but such lines is written, but for what the reader of
//! the command line says of it.

use crate::asking::line as line_of_stdin;
use crate::output::Failure;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use tiersim_input::handed::hand;
use tiersim_models::diagnostic::{Diagnostic, Warning, said_once};
use tiersim_reports::words::clean;

/// Most bytes of a file from standard input; the reader of the file has a limit of its own.
const MOST_TYPED: u64 = 64 << 20;

/// Options for programs that run the command.
#[derive(Debug, Args)]
#[command(next_help_heading = "For programs")]
pub(crate) struct ForPrograms {
    /// What problems, warnings and progress on stderr are: lines for people, or one JSON object a
    /// line.
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value_t = Form::Text)]
    messages: Form,
    /// Take what standard input holds as what this file holds, which need not be there.
    #[arg(long, global = true, value_name = "FILE")]
    stdin_filename: Option<PathBuf>,
    /// Policies of the program that runs this one, which scenarios call Python(), by their names:
    /// they are asked on stdout and answer on stdin. A file of --stdin-filename is then the first
    /// line, as a JSON string. May be given several times.
    #[arg(long, global = true, value_name = "NAME")]
    stdio_policy: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

static FORM: OnceLock<Form> = OnceLock::new();

/// Whether a program listens.
pub(crate) fn for_a_program() -> bool {
    FORM.get() == Some(&Form::Json)
}

impl ForPrograms {
    /// Does as it says from now on.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        let _ = FORM.set(self.messages);
        let Some(path) = &self.stdin_filename else { return Ok(()) };
        let wrong = |error: std::io::Error| Failure::Input(format!("stdin: cannot read: {error}"));
        let mut bytes = Vec::new();
        if self.stdio_policy.is_empty() {
            let read = std::io::stdin().lock().take(MOST_TYPED).read_to_end(&mut bytes);
            read.map_err(wrong)?;
        } else {
            let text: String = serde_json::from_str(&line_of_stdin().map_err(wrong)?)
                .map_err(|error| wrong(error.into()))?;
            bytes.extend(text.into_bytes());
        }
        hand(path, bytes);
        Ok(())
    }

    /// Names of the program's policies.
    pub(crate) fn policies(&self) -> &[String] {
        &self.stdio_policy
    }
}

/// One line for a program. Where there is no stderr, nobody listens.
pub(crate) fn tell(message: &Value) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean(text));
}

/// Lines for people.
pub(crate) fn say_lines(lines: &[String]) {
    lines.iter().for_each(|text| line(text));
}

/// Says why the command fails. Messages quote bad input, which may hold what drives a terminal: it
/// is shown, not sent.
pub(crate) fn say(failure: &Failure) {
    if for_a_program() {
        return told(failure).iter().for_each(tell);
    }
    let message = failure.to_string();
    let lines: Vec<String> = message.lines().map(clean).collect();
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
}

/// A failure as lines for a program.
pub(crate) fn told(failure: &Failure) -> Vec<Value> {
    let failed = |line: &String| json!({ "failed": line });
    match failure {
        Failure::Expectation(lines) => lines.iter().map(failed).collect(),
        Failure::Denied { warnings, failed: lines } => {
            let denied = warnings.lines.iter().map(|line| json!({ "failed": line }));
            lines.iter().map(failed).chain(denied).collect()
        }
        Failure::Input(text) => vec![json!({ "error": { "message": text } })],
        Failure::Problems(all) => all.0.iter().map(problem).collect(),
        Failure::Internal(text) => vec![json!({ "fault": text })],
    }
}

fn problem(of: &Diagnostic) -> Value {
    let Diagnostic { file, place, rule, found, remedy } = of;
    json!({ "error": {
        "message": of.to_string(),
        "file": file.to_string_lossy(),
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column).filter(|&column| column > 0),
        "rule": rule,
        "found": found,
        "remedy": remedy,
    } })
}

/// Shows warnings about `what`.
pub(crate) fn say_warnings(what: &str, warnings: &[Warning]) {
    if !for_a_program() {
        let all = said_once(warnings);
        return all.iter().for_each(|warning| line(&format!("warning: {what}: {warning}")));
    }
    for warning in warnings {
        let Warning { rule, place, found, reason, remedy } = warning;
        tell(&json!({ "warning": {
            "of": what, "rule": rule, "place": place, "found": found, "reason": reason,
            "remedy": remedy, "message": warning.to_string(),
        } }));
    }
}

/// Shows a remark that nothing denies.
pub(crate) fn say_note(what: &str, note: &str) {
    if for_a_program() {
        return tell(&json!({ "note": { "of": what, "message": note } }));
    }
    line(&format!("note: {what}: {note}"));
}
