//! What starts a script's command for it: another shell, and Slurm, which sets variables.

use super::tokens::Letters;
use std::collections::BTreeMap;
use tiersim_models::diagnostic::Place;

/// Which word is a script that the command hands to another shell: the one behind `bash -c`.
pub(super) fn handed(words: &[&str]) -> Option<usize> {
    let is_shell = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        ["bash", "sh", "zsh"].contains(&name)
    };
    let hands = |word: &str| ["-c", "-lc", "-ec", "-xc"].contains(&word);
    let at = words.windows(3).position(|three| is_shell(three[0]) && hands(three[1]))?;
    Some(at + 2)
}

/// The variables that Slurm sets by what a job's script asks of it.
pub(super) fn scheduled(text: &str) -> BTreeMap<String, Vec<Letters>> {
    let mut all = BTreeMap::new();
    for (line, words) in (1..).zip(text.lines()) {
        let Some(asked) = words.strip_prefix("#SBATCH") else { continue };
        let mut words = asked.split([' ', '\t', '=']).filter(|word| !word.is_empty());
        while let Some(flag) = words.next() {
            let names: &[&str] = match flag {
                "--nodes" | "-N" => &["SLURM_NNODES", "SLURM_JOB_NUM_NODES"],
                "--ntasks-per-node" => &["SLURM_NTASKS_PER_NODE"],
                "--gpus-per-node" => &["SLURM_GPUS_PER_NODE"],
                _ => continue,
            };
            let number = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
            let letters = number.map(|number| {
                let place = Place { line, column: 1 };
                vec![number.chars().map(|c| (c, place)).collect::<Letters>()]
            });
            all.extend(letters.iter().flat_map(|letters| {
                names.iter().map(|name| ((*name).to_owned(), letters.clone()))
            }));
        }
    }
    all
}
