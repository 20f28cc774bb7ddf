//! What is wrong with an input file: place, rule, value found, remedy; and what should be looked at
//! though nothing is wrong.
//!
//! Every reader collects all problems that it can see in one pass and returns them together, so
//! that nobody has to mend a file one message at a time.

use std::fmt;
use std::path::{Path, PathBuf};

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column in characters; 0 where only the line is known (rows of a table).
    pub column: u64,
}

/// One problem of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the user named it where possible.
    pub file: PathBuf,
    /// Where in the file, if the problem has a place.
    pub place: Option<Place>,
    /// The rule that is broken, naming the thing that breaks it.
    pub rule: String,
    /// The value found; empty where there is none to show.
    pub found: String,
    /// What to write or do instead.
    pub remedy: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.place {
            Some(Place { line, column: 0 }) => write!(f, ":{line}")?,
            Some(Place { line, column }) => write!(f, ":{line}:{column}")?,
            None => {}
        }
        write!(f, ": {}", self.rule)?;
        if !self.found.is_empty() {
            write!(f, " (found {})", self.found)?;
        }
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// All problems of an input; never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// A single problem.
    pub fn one(
        file: &Path,
        place: Option<Place>,
        rule: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostics {
        let mut all = Diagnostics::default();
        all.push(file, place, rule, found, remedy);
        all
    }

    /// Adds a problem.
    pub fn push(
        &mut self,
        file: &Path,
        place: Option<Place>,
        rule: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Diagnostic {
            file: file.to_path_buf(),
            place,
            rule: rule.into(),
            found: found.into(),
            remedy: remedy.into(),
        });
    }

    /// `value` if there are no problems, all of them otherwise.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Something that should be looked at: place, rule, value found, reason, remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the rule, such as `gb-for-gib`.
    pub rule: &'static str,
    /// Path of the number in listings, such as `links.pcie.read`; for a run `results.` and the
    /// case's label.
    pub place: String,
    /// The value found.
    pub found: String,
    /// Why hardware does not do this.
    pub reason: String,
    /// What to write or do instead.
    pub remedy: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { rule, place, found, reason, remedy } = self;
        write!(f, "{rule}: {place}: {reason} (found {found}); {remedy}")
    }
}

/// Warnings for people: what one rule says of many results is said once, of the first, with their
/// number.
pub fn said_once(warnings: &[Warning]) -> Vec<String> {
    let of_results = |warning: &Warning| warning.place.starts_with("results.");
    let mut groups: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        let alike = |(first, _): &&mut (&Warning, usize)| {
            *first == warning
                || (first.rule == warning.rule && of_results(first) && of_results(warning))
        };
        match groups.iter_mut().find(alike) {
            Some((_, count)) => *count += 1,
            None => groups.push((warning, 1)),
        }
    }
    let line = |(first, count): (&Warning, usize)| match count {
        1 => first.to_string(),
        more => format!("{first}; {more} times in all, `warnings` of summary.json has each"),
    };
    groups.into_iter().map(line).collect()
}
