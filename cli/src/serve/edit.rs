//! `--edit`: another text for the scenario's file.
//!
//! The text is written into a file beside it, which `check` reads; only if that finds nothing does
//! it take the scenario's name, at once. Whoever saves says which text was shown, so nobody
//! overwrites what was written in the meantime.
//! Invariant: the one file that is ever written was named when the server began, is a plain file,
//! and lies in the project around the folder of whoever began it.

use super::answers::Refused;
use crate::check::checked;
use crate::journal::checksum;
use crate::output::{Failure, cannot};
use crate::report::plain;
use axum::http::StatusCode;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tiersim_input::project::Project;
use tiersim_input::shipped;
use tiersim_input::trace::write_new;
use tiersim_policies::zoo::Registry;

/// Bytes of a scenario's text.
pub(super) const MOST_TEXT: u64 = 1 << 20;

/// A scenario's file that may be changed.
pub(super) struct Editable {
    /// As it was named.
    named: PathBuf,
    path: PathBuf,
    registry: Registry,
}

/// The bytes of a scenario's file; `remedy` is for one that is not there.
fn bytes(path: &Path, named: &Path, remedy: &str) -> Result<Vec<u8>, Failure> {
    let found = fs::symlink_metadata(path);
    if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Err(Failure::Input(format!(
            "{}: the file is not there; {remedy}",
            named.display()
        )));
    }
    plain(path, MOST_TEXT)
}

impl Editable {
    /// The file, if it may be changed.
    ///
    /// # Errors
    /// It ships, or lies outside the project, or is no plain file.
    pub(super) fn new(file: &Path, registry: &Registry) -> Result<Editable, Failure> {
        let refused = |why: &str| Failure::Input(format!("--edit: {}: {why}", file.display()));
        if shipped::is_shipped(file) {
            return Err(refused(
                "it ships with tiersim; save one of your own with tiersim scenario show",
            ));
        }
        bytes(file, file, "check the path")?;
        let around = Project::around(Path::new("")).and_then(|own| Ok((own, file.canonicalize()?)));
        let (project, path) =
            around.map_err(|error| refused(&format!("cannot be read: {error}")))?;
        if !path.starts_with(project.root()) {
            return Err(refused("it lies outside the project; begin in the project's folder"));
        }
        Ok(Editable { named: file.to_owned(), path, registry: registry.clone() })
    }

    /// The file's text, and its tag.
    pub(super) fn text(&self) -> Result<(String, String), Failure> {
        let remedy = "put it back, or end the server and name another";
        let bytes = bytes(&self.path, &self.named, remedy)?;
        let tag = checksum(&bytes);
        let text = String::from_utf8(bytes);
        let not = |_| Failure::Input(format!("{}: it is not UTF-8", self.named.display()));
        Ok((text.map_err(not)?, tag))
    }

    /// Takes this text in the place of the one with this tag.
    pub(super) fn save(&self, tag: &str, text: &[u8]) -> Result<(), Refused> {
        let (_, now) = self.text()?;
        if now != tag {
            let words = format!(
                "{}: the file has changed since the page was made; load the page again",
                self.named.display()
            );
            return Err(Refused::new(StatusCode::PRECONDITION_FAILED, words));
        }
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = self.path.with_file_name(format!(".{}-{file}", std::process::id()));
        let failed = |error: &std::io::Error| cannot(self.named.display(), error);
        write_new(&beside, text).map_err(|error| failed(&error))?;
        let kept = self.checked(&beside).and_then(|()| {
            let permissions = fs::metadata(&self.path).map(|found| found.permissions());
            let put = permissions.and_then(|own| fs::set_permissions(&beside, own));
            put.and_then(|()| fs::rename(&beside, &self.path)).map_err(|error| failed(&error))
        });
        if kept.is_err() {
            // What is left of the attempt is of no use; failing to remove it changes nothing.
            let _ = fs::remove_file(&beside);
        }
        Ok(kept?)
    }

    /// What `check` finds in the file beside, said of the file that it would become.
    fn checked(&self, beside: &Path) -> Result<(), Failure> {
        let mut found = match checked(beside, &self.registry) {
            Ok(()) => return Ok(()),
            Err(found) => found,
        };
        for problem in &mut found.0 {
            if problem.file == beside {
                problem.file.clone_from(&self.named);
            }
        }
        Err(found.into())
    }
}
