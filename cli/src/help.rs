//! The command's own help: its verbs by what they are for, the manual, and what shells complete.
//!
//! All of it is made from the definitions of the verbs, so it cannot say what they do not do.
//! Invariant: every verb stands in exactly one group.

use crate::output::{Failure, cannot, print, print_exact, write_each};
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;
use std::path::PathBuf;
use tiersim_reports::words::wrapped;

/// Verbs by what they are for.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Simulate", &["new", "from", "run", "sweep", "merge", "hints", "to", "train-policy"]),
    ("Answer a question", &["explain", "solve", "report", "serve"]),
    ("By formula, without simulating", &["memory", "cache", "ops", "allocator"]),
    ("On real machines", &["calibrate", "validate", "conform"]),
    ("Files", &["check", "trace", "hardware", "scenario"]),
    ("The command itself", &["completions", "man"]),
];

/// Width of lines in characters.
const WIDTH: usize = 100;

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell whose completions are printed.
    shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Folder to write a page of every verb to; without it tiersim(1) is printed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The command with its verbs in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let about = |verb: &str| {
        let found = command.get_subcommands().find(|known| known.get_name() == verb);
        found.and_then(Command::get_about).map_or_else(String::new, ToString::to_string)
    };
    let column = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max();
    let column = column.unwrap_or(0) + 2;
    let mut text = String::new();
    for (head, verbs) in GROUPS {
        text.push_str(&format!("{head}:\n"));
        for verb in verbs {
            for (index, line) in wrapped(&about(verb), WIDTH - column - 2).iter().enumerate() {
                let verb = if index == 0 { verb } else { "" };
                text.push_str(&format!("  {verb:<column$}{line}\n"));
            }
        }
        text.push('\n');
    }
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}");
    command.help_template(template)
}

/// Prints what a shell needs to complete verbs, options and files.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tiersim", &mut script);
    print_exact(&String::from_utf8_lossy(&script))
}

/// Prints the manual, or writes a page of every verb.
pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<(), Failure> {
    command.build();
    let Some(folder) = &args.out else {
        return print_exact(&String::from_utf8_lossy(&page(command)?));
    };
    let mut pages = Vec::new();
    let mut left = vec![("tiersim".to_owned(), command)];
    while let Some((name, command)) = left.pop() {
        let below = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        left.extend(below.map(|verb| (format!("{name}-{}", verb.get_name()), verb.clone())));
        pages.push((folder.join(format!("{name}.1")), page(command.clone())?));
    }
    pages.sort();
    let files: Vec<(PathBuf, &[u8])> =
        pages.iter().map(|(path, page)| (path.clone(), &page[..])).collect();
    write_each(&files)?;
    let shown = tiersim_reports::words::clean(&folder.display().to_string());
    print(&format!("written: {} pages in {shown}\n", files.len()))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|error| cannot("the manual", &error))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::GROUPS;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_stands_in_one_group() {
        let command = crate::Args::command();
        let verbs: BTreeSet<&str> =
            command.get_subcommands().map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), verbs);
        assert_eq!(grouped.len(), verbs.len());
    }
}
