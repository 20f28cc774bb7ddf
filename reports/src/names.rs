//! What each case is called in a table and on a chart, and what a record is said to have been run
//! on.
//!
//! A case's label is unique in its record: its name, and at a point of a sweep the values of the
//! axes that touch it. Shortened or cleaned it need not be, so both are done here, and what is
//! equal then gets a number.
//! Invariant: the names of a record are all different.

use crate::words::{clean, count, shortened};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::results::{AxisValue, CaseRecord, Conditions, MACHINE, RunRecord};
use tiersim_models::statistics::Stated;

/// Characters of a name on a chart.
const LONGEST: usize = 44;
/// Of several things so many are named.
const MOST_NAMED: usize = 3;

/// One for each case, of about `most` characters.
pub(crate) fn names(record: &RunRecord, most: usize) -> Vec<String> {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let mut name = |label: &str| {
        let short = shortened(label, most);
        let mut own = short.clone();
        let mut turn = taken.get(&short).copied().unwrap_or(0);
        while taken.contains_key(&own) {
            turn += 1;
            own = format!("{short} ({})", turn + 1);
        }
        taken.insert(short, turn);
        taken.entry(own.clone()).or_insert(0);
        own
    };
    record.results.iter().map(|case| name(&case.label)).collect()
}

/// Labels for a chart: what all of them have in common is said once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Direct {
    /// One for each case.
    pub(crate) names: Vec<String>,
    /// A sentence about what they leave out.
    pub(crate) left_out: Option<String>,
}

/// The labels of these cases without the parts that all of them have: parts between commas or
/// brackets, wherever they stand, and the first words of the rest. Nothing is left out of a label
/// that would be empty then, or like another.
pub(crate) fn direct(record: &RunRecord, cases: &[usize]) -> Direct {
    let all = names(record, LONGEST);
    // The cases of one machine say its name behind theirs.
    let machine = cases.first().and_then(|&case| machine(&record.results[case]));
    let end = machine.map_or_else(|| "\0".to_owned(), |machine| format!(" on {machine}"));
    let label = |case: usize| record.results[case].label.as_str();
    let same = cases.len() > 1 && cases.iter().all(|&case| label(case).ends_with(&end));
    let labels = cases.iter().map(|&case| match same {
        true => label(case).trim_end_matches(&end),
        false => label(case),
    });
    let labels: Vec<&str> = labels.collect();
    let whole = || cases.iter().map(|&case| all[case].clone()).collect::<Vec<_>>();
    let (names, mut common) = without_common(&labels);
    common.extend(same.then(|| end.trim_start().to_owned()));
    let names: Vec<String> = names.iter().map(|name| shortened(name, LONGEST)).collect();
    let unique = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    if common.is_empty() || !unique || names.iter().any(String::is_empty) {
        return Direct { names: whole(), left_out: None };
    }
    Direct { names, left_out: Some(format!("All labels: {}", clean(&common.join(", ")))) }
}

/// The machine of a case, where several are compared.
fn machine(case: &CaseRecord) -> Option<&AxisValue> {
    case.params.iter().find(|(axis, _)| axis == MACHINE).map(|(_, machine)| machine)
}

/// Labels without their common parts, and these.
fn without_common(labels: &[&str]) -> (Vec<String>, Vec<String>) {
    if labels.len() < 2 {
        return (labels.iter().map(|label| (*label).to_owned()).collect(), Vec::new());
    }
    let mut parts: Vec<Vec<&str>> = labels.iter().map(|label| parts_of(label)).collect();
    let first = parts[0].clone();
    // Values of a sweep go first: of a label that would be empty without both, the name is left.
    let names = parts_of(split(labels[0]).0).len();
    let (name, values) = first.split_at(names);
    let mut left_out = BTreeSet::new();
    for part in values.iter().chain(name) {
        if parts.iter().all(|own| own.contains(part) && own.len() > 1) {
            parts.iter_mut().for_each(|own| own.retain(|other| other != part));
            left_out.insert(part);
        }
    }
    let common = first.iter().filter(|part| left_out.contains(part));
    let mut common: Vec<String> = common.map(|part| (*part).to_owned()).collect();
    let rest: Vec<String> = parts.iter().map(|own| own.join(", ")).collect();
    // First words, as far as all have them; of `optimizer in DRAM` the rest would say nothing, of
    // `LRU 25 %` it does.
    let firsts: Vec<Vec<&str>> = rest.iter().map(|own| own.split(' ').collect()).collect();
    let same = |at: usize| firsts.iter().all(|own| own.len() > at + 1 && own[at] == firsts[0][at]);
    let shared = (0..).take_while(|&at| same(at)).count();
    let numbered = |own: &Vec<&str>| own[shared].starts_with(|c: char| c.is_ascii_digit());
    if shared > 0 && firsts.iter().all(numbered) {
        common.insert(0, firsts[0][..shared].join(" "));
        let tails = firsts.iter().map(|own| own[shared..].join(" ")).collect();
        return (tails, common);
    }
    (rest, common)
}

/// The name of a case, and the values of its point of a sweep.
fn split(label: &str) -> (&str, &str) {
    let bracket = label.strip_suffix(']').and_then(|label| label.split_once(" ["));
    bracket.unwrap_or((label, ""))
}

/// What stands between commas, and the values of a point of a sweep one by one.
fn parts_of(label: &str) -> Vec<&str> {
    let (name, values) = split(label);
    let parts = name.split(", ").chain(values.split(", "));
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// What the cases of a record have, each once: `a, b and 3 more`.
pub(crate) fn each(record: &RunRecord, of: impl Fn(&Conditions) -> String) -> String {
    let (mut named, mut seen): (Vec<String>, BTreeSet<String>) = Default::default();
    for conditions in record.used() {
        let name = of(conditions);
        if !seen.contains(&name) {
            if named.len() < MOST_NAMED {
                named.push(name.clone());
            }
            seen.insert(name);
        }
    }
    match seen.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// How many numbers of the hardware nobody has published or measured, machine by machine where
/// several are compared.
pub(crate) fn assumed(record: &RunRecord) -> String {
    let number = |on: &Conditions| count(on.assumed_numbers, "assumed number", "assumed numbers");
    match record.common(|on| on.assumed_numbers) {
        Some(_) => format!("{} in the hardware", each(record, number)),
        None => each(record, |on| format!("{} in {}", number(on), on.hardware)),
    }
}

/// What a reader must know of the statistics that some cases rank modules by; nothing where these
/// are recorded or given.
pub(crate) fn statistics_note(record: &RunRecord) -> Option<String> {
    let mut words: Vec<&str> =
        record.results.iter().filter_map(|case| case.statistics.as_deref()).collect();
    words.sort_unstable();
    words.dedup();
    words.retain(|word| [MADE_UP, SYNTHETIC].contains(word));
    (!words.is_empty()).then(|| format!("statistics of modules: {}", words.join(" and ")))
}

/// What a sentence says of the statistics that a case ranks modules by, where nobody measured them.
pub(crate) fn statistics_words(case: &CaseRecord) -> Option<String> {
    match case.statistics.as_deref()? {
        MADE_UP => Some("ranks modules by statistics that are made up, by depth".to_owned()),
        SYNTHETIC => Some("ranks modules by statistics that are drawn from a seed".to_owned()),
        _ => None,
    }
}

const MADE_UP: &str = Stated::MadeUp.word();
const SYNTHETIC: &str = Stated::Synthetic(0).word();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;
    use crate::points::Points;
    use crate::{Detail, common};
    use std::path::Path;
    use tiersim_input::scenario::read::read_scenario;
    use tiersim_input::scenario::sweep::read_sweep;
    use tiersim_policies::scenario::Case;

    #[test]
    fn names_differ_however_short_they_are() {
        for mut record in common::all() {
            for most in [8, 20, 44] {
                let mut all = names(&record, most);
                all.sort();
                assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{}", record.scenario);
            }
            record.results.iter_mut().for_each(|case| case.label = "\u{1b}\u{200b}".to_owned());
            let mut all = names(&record, 44);
            all.sort();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{}", record.scenario);
        }
    }

    #[test]
    fn what_labels_have_in_common_is_left_out_and_said_once() {
        let of = |labels: &[&str]| without_common(labels);
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        for (labels, names, common) in [
            (&["LRU 25 %", "LRU 50 %"][..], &["25 %", "50 %"][..], &["LRU"][..]),
            (&["Adam, in place, 40", "LRU, in place, 48"], &["Adam, 40", "LRU, 48"], &["in place"]),
            (&["a [hbm=1, x=2]", "a [hbm=2, x=2]"], &["hbm=1", "hbm=2"], &["a", "x=2"]),
            (&["a", "a b"], &["a", "a b"], &[]),
            (&["a [x=2]", "a, b [x=2]"], &["a", "a, b"], &["x=2"]),
            (&["state in DRAM", "state on NVMe"], &["state in DRAM", "state on NVMe"], &[]),
            (&["a of 64 95 %", "a of 64 90 %"], &["95 %", "90 %"], &["a of 64"]),
            (&["one"], &["one"], &[]),
            (&["same", "same"], &["same", "same"], &[]),
        ] {
            assert_eq!(of(labels), (owned(names), owned(common)), "{labels:?}");
        }
    }

    #[test]
    fn direct_labels_are_unique_and_never_empty() {
        for record in common::all() {
            let cases: Vec<usize> = (0..record.results.len()).collect();
            for some in [&cases[..], &cases[..cases.len().min(3)], &cases[..cases.len().min(1)]] {
                let mut all = direct(&record, some).names;
                assert!(all.len() == some.len() && all.iter().all(|name| !name.is_empty()));
                all.sort();
                assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{}", record.scenario);
            }
        }
    }

    #[test]
    fn made_up_statistics_are_said_in_table_chart_and_files() {
        let mut record = common::training();
        let said = |record: &RunRecord| -> [bool; 4] {
            let chart = crate::against_memory(record, Measure::Step, "0");
            let mut texts = chart.items().iter().filter_map(|item| item.text_place());
            let csv = crate::results_csv(record).expect("it is written");
            [
                crate::text(record, "0", Detail::Wide).contains("made up"),
                texts.any(|(_, text)| text.contains("made up")),
                crate::summary_json(record, "0").expect("JSON").contains("\"made up\""),
                String::from_utf8_lossy(&csv).contains(",made up"),
            ]
        };
        assert_eq!(said(&record), [false; 4]);
        record.results[4].statistics = Some("recorded".into());
        assert_eq!(said(&record), [false; 4]);
        record.results[5].statistics = Some("made up".into());
        assert_eq!(said(&record), [true; 4]);
    }

    #[test]
    fn the_end_of_a_long_name_stays() {
        let label = "a policy with a rather long name [hbm=0.25, access=in place]";
        assert_eq!(shortened(label, 44), "a policy with a rathe…0.25, access=in place]");
    }

    /// Every case of every shipped scenario and of every point of its sweep, as if it had run.
    fn shipped() -> Vec<RunRecord> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let files = std::fs::read_dir(folder).expect("the scenarios are there");
        let files = files.map(|file| file.expect("an entry").path());
        let mut files: Vec<_> = files.filter(|file| file.is_file()).collect();
        files.sort();
        let mut records = Vec::new();
        let mut add = |name: &str, cases: Vec<&Case>| {
            let mut record = common::single();
            let ran = record.results.remove(0);
            record.scenario = name.to_owned();
            for (index, case) in cases.into_iter().enumerate() {
                let at = index as f64;
                let outcome = common::figures(500.0 + at, 40.0 + at * 3.0).into();
                let mut ran = CaseRecord {
                    label: case.label.clone(),
                    details: case.policy.details(),
                    params: case.params.clone(),
                    ..ran.clone()
                };
                ran.policy = case.policy.name().to_owned();
                (ran.emulated, ran.outcome) = (case.policy.is_emulated(), outcome);
                record.results.push(ran);
            }
            records.push(record);
        };
        for file in files {
            let scenario = read_scenario(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
            add(&scenario.name, scenario.cases.iter().collect());
            if std::fs::read_to_string(&file).expect("it is there").contains("sweep: (") {
                let sweep = read_sweep(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
                let cases = sweep.points.iter().flat_map(|point| &point.scenario.cases);
                add(&scenario.name, cases.collect());
            }
        }
        assert!(records.len() > 40, "the scenarios are found");
        records
    }

    #[test]
    fn labels_of_what_ships_are_unique_on_every_chart_and_in_every_table() {
        for record in shipped() {
            let unique = |what: &str, texts: Vec<String>| {
                let mut all = texts.clone();
                all.sort();
                let same = all.windows(2).find(|pair| pair[0] == pair[1]);
                assert_eq!(same, None, "{}: {what}", record.scenario);
            };
            let table = crate::text(&record, "0", Detail::Wide);
            let block = table.split("\n\n").find(|block| block.contains("\n----"));
            let rows = block.expect("a table").lines().skip_while(|line| !line.starts_with("----"));
            let rows: Vec<&str> = rows.skip(1).collect();
            let shown = names(&record, 44);
            let named = |row: &&str| {
                let own = shown.iter().filter(|name| row.starts_with(&format!("{name}  ")));
                own.count() == 1
            };
            assert!(rows.iter().all(named), "{}: {table}", record.scenario);
            assert!(rows.len() == record.results.len() || table.contains("other"), "{table}");
            unique("names", shown);
            let points = Points::of(&record, Measure::Step);
            let drawn = points.drawn().into_iter();
            unique("legend", drawn.map(|place| points.series[place].clone()).collect());
            let chart = crate::against_memory(&record, Measure::Step, "0");
            let texts = chart.items().iter().filter_map(|item| item.text_place());
            let cases: Vec<usize> = (0..record.results.len()).collect();
            let labels = direct(&record, &cases).names;
            let labels: Vec<String> = texts
                .filter(|(_, text)| labels.iter().any(|label| label == text))
                .map(|(_, text)| text.to_owned())
                .collect();
            // A name of one word may be that of its series too.
            let series = Points::of(&record, Measure::Step).series;
            let labels = labels.into_iter().filter(|label| !series.contains(label));
            unique("labels of points", labels.collect());
        }
    }
}
