//! Archives and folders of recordings: which of their files are one trace.
//!
//! Recordings of several ranks are handed around as an archive or a folder, often with the execution
//! trace of each. Traces of the profiler are its ranks, and as many execution traces are those of the
//! same ranks, both in the order of their names; where there are none of the profiler the one file
//! that becomes a trace is meant.
//! Invariant: which file is meant follows from what all of them are, and from names only where files
//! are in pairs; where that leaves several nothing is taken.

use crate::archive::{MOST_FILES, clean, each_below, each_file, is_archive};
use crate::file_kind::{FileKind, plain_head};
use crate::trace::tables::describe;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;

/// What is to be read together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    pub(super) files: Vec<PathBuf>,
    /// None, or one for each file.
    pub(super) executions: Vec<PathBuf>,
    /// What was found where, in words; nothing where files were named themselves.
    pub(super) words: String,
}

/// A file that was found.
struct Found {
    path: PathBuf,
    kind: Option<FileKind>,
    /// The rank that it says it is of, near its beginning.
    rank: Option<u64>,
}

/// Finds the files of all that is named, archives and folders looked into.
///
/// # Errors
/// What is wrong with an archive, or that nothing says which of its files is meant.
pub(super) fn gather(named: &[PathBuf], executions: &[PathBuf]) -> Result<Gathered, Diagnostics> {
    let mut gathered = Gathered::default();
    let mut theirs = Vec::new();
    for path in executions {
        match found_in(path)? {
            Some(found) => {
                let mut found = of_kinds(found, &[FileKind::ExecutionTrace]);
                in_order(&mut found);
                theirs.extend(found.into_iter().map(|one| one.path));
            }
            None => theirs.push(path.clone()),
        }
    }
    for path in named {
        match found_in(path)? {
            Some(found) => {
                let one = choose(path, found, named.len() > 1 || !theirs.is_empty())?;
                gathered.files.extend(one.files);
                gathered.executions.extend(one.executions);
                gathered.words += &one.words;
            }
            None => gathered.files.push(path.clone()),
        }
    }
    if !theirs.is_empty() {
        gathered.executions = theirs;
    }
    Ok(gathered)
}

/// Whether a path stands for the files that lie in it: a folder, or an archive of several.
pub fn holds_files(path: &Path) -> bool {
    found_in(path).is_ok_and(|found| found.is_some())
}

/// The files in a folder that is no trace, or in an archive. A tar of one file is read as that file is.
fn found_in(path: &Path) -> Result<Option<Vec<Found>>, Diagnostics> {
    let mut all = Vec::new();
    if path.is_dir() {
        if FileKind::of(path) != Some(FileKind::Recordings) {
            return Ok(None);
        }
        each_below(path, &mut |path| {
            let head = std::fs::File::open(path).and_then(crate::archive::head_of);
            let rank = head.ok().and_then(|head| rank_of(&head));
            all.push(Found { path: path.to_owned(), kind: FileKind::of(path), rank });
        });
        return Ok(Some(all));
    }
    if !is_archive(path) || FileKind::of(path) == Some(FileKind::Zip) {
        return Ok(None);
    }
    let read = each_file(path, |name, size, head| {
        let (kind, rank) = (FileKind::of_bytes(head, size), rank_of(head));
        all.push(Found { path: path.join(clean(name)), kind, rank });
    });
    read.map_err(|error| describe(path, &error))?;
    match &all[..] {
        [only] if only.kind != Some(FileKind::Sqlite) && FileKind::of(path) == only.kind => {
            Ok(None)
        }
        _ => Ok(Some(all)),
    }
}

/// The rank in `"distributedInfo": {"backend": "nccl", "rank": 3, ...}`.
fn rank_of(head: &[u8]) -> Option<u64> {
    let head = plain_head(head);
    let text = String::from_utf8_lossy(&head);
    let (_, rest) = text.split_once("\"distributedInfo\"")?;
    let (_, rest) = rest.split_once("\"rank\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    rest[..digits].parse().ok()
}

fn of_kinds(found: Vec<Found>, kinds: &[FileKind]) -> Vec<Found> {
    found.into_iter().filter(|one| one.kind.is_some_and(|kind| kinds.contains(&kind))).collect()
}

/// By rank if all say theirs, else by name, numbers in it as numbers.
fn in_order(found: &mut [Found]) {
    let said = found.iter().all(|one| one.rank.is_some());
    found.sort_by_cached_key(|one| (one.rank.filter(|_| said), parts(&one.path)));
}

/// A name as letters and numbers in turn.
fn parts(path: &Path) -> Vec<(String, u128)> {
    let (mut all, mut digits) = (vec![(String::new(), 0u128)], false);
    for letter in path.to_string_lossy().chars() {
        let last = all.last_mut().expect("it begins with one");
        match letter.to_digit(10) {
            Some(digit) => {
                last.1 = last.1.saturating_mul(10).saturating_add(u128::from(digit));
                digits = true;
            }
            None if digits => {
                all.push((letter.to_string(), 0));
                digits = false;
            }
            None => last.0.push(letter),
        }
    }
    all
}

/// What of the files of `named` is meant; among others only ranks are.
fn choose(named: &Path, found: Vec<Found>, among: bool) -> Result<Gathered, Diagnostics> {
    let (all, example) = (found.len(), found.first().map(|one| one.path.clone()));
    let refused = |rule: &str, found: String, remedy: String| {
        Err(Diagnostics::one(named, None, rule, found, remedy))
    };
    let is = |one: &Found, kinds: &[FileKind]| one.kind.is_some_and(|kind| kinds.contains(&kind));
    const PROFILES: [FileKind; 2] = [FileKind::ProfilerTrace, FileKind::Sqlite];
    let (mut files, rest): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|one| is(one, &PROFILES));
    let (mut executions, mut others): (Vec<Found>, Vec<Found>) =
        rest.into_iter().partition(|one| is(one, &[FileKind::ExecutionTrace]));
    in_order(&mut files);
    in_order(&mut executions);
    others.retain(|one| one.kind.is_some_and(FileKind::becomes_trace));
    if all >= MOST_FILES {
        let rule = "an archive or a folder of recordings has less than 65536 files";
        return refused(rule, String::new(), "name the files themselves".to_owned());
    }
    let name_one = |path: &Path| format!("name what is meant, such as {}", path.display());
    if files.is_empty() && !among {
        let candidates: Vec<&Found> = executions.iter().chain(&others).collect();
        return match candidates[..] {
            [one] => Ok(Gathered {
                files: vec![one.path.clone()],
                executions: Vec::new(),
                words: format!("of {all} files: {}\n\n", one.path.display()),
            }),
            [] => {
                let rule = "recordings are wanted here, and none of these files is one";
                let first = example.map_or(String::new(), |path| path.display().to_string());
                refused(rule, format!("{all} files, {first} the first"), GIVE.to_owned())
            }
            [first, second, ..] => {
                let rule = "one recording, or traces of the profiler of several ranks, are read \
                            together";
                let (one, other) = (first.path.display(), second.path.display());
                let count = candidates.len();
                let found = format!("{count} recordings, {one} and {other} among them");
                refused(rule, found, name_one(&first.path))
            }
        };
    }
    if files.is_empty() {
        let rule = "ranks of one run are traces of the profiler, and none of these files is one";
        return refused(rule, format!("{all} files"), GIVE.to_owned());
    }
    if !among && !executions.is_empty() && executions.len() != files.len() {
        let rule = "ranks have an execution trace each, or none has one";
        let found = format!("{} and {}", files.len(), executions.len());
        let remedy = "name the traces of the profiler, and for each one --execution-trace";
        return refused(rule, found, remedy.to_owned());
    }
    if among {
        executions.clear();
    }
    let mut words = format!("of {all} files in {}:\n", named.display());
    let short = |path: &Path| path.strip_prefix(named).unwrap_or(path).display().to_string();
    for (index, file) in files.iter().enumerate() {
        words += &format!("  {}", short(&file.path));
        if let Some(execution) = executions.get(index) {
            words += &format!(" with {}", short(&execution.path));
        }
        words += "\n";
    }
    let left = all - files.len() - executions.len();
    if left > 0 {
        words += &format!("  {left} others are left out\n");
    }
    words += "\n";
    let paths = |found: Vec<Found>| found.into_iter().map(|one| one.path).collect();
    Ok(Gathered { files: paths(files), executions: paths(executions), words })
}

/// What to give instead.
const GIVE: &str = "give what PyTorch's profiler, its memory snapshots or timelines, Nsight Systems (as \
                    SQLite), Chakra, lackey, perf script, damo, fio or libCacheSim wrote";

#[cfg(test)]
mod tests {
    use super::{parts, rank_of};
    use std::path::Path;

    #[test]
    fn numbers_in_names_are_numbers() {
        let mut names = ["w10_s1", "w2_s12", "w2_s3", "W", "1"].map(Path::new);
        names.sort_by_key(|name| parts(name));
        assert_eq!(names, ["1", "W", "w2_s3", "w2_s12", "w10_s1"].map(Path::new));
        let head = br#"{"distributedInfo": {"backend": "nccl", "rank" : 12, "world_size": 16}"#;
        assert_eq!(rank_of(head), Some(12));
        assert_eq!(rank_of(b"{\"distributedInfo\": {\"rank\": -1"), None);
    }
}
