//! Timelines as viewers want them: slices of a thread lie inside each other or apart, never across.

use tiersim_reports::timeline_json;
use tiersim_tests::prelude::*;

/// The number behind a key of an event, in millionths.
fn number(event: &str, key: &str) -> Option<u64> {
    let (_, rest) = event.split_once(&format!("\"{key}\":"))?;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let (whole, part) = digits.split_once('.').unwrap_or((&digits, "000000"));
    format!("{whole}{part}").parse().ok()
}

/// What a timeline shows: slices by thread, steps, samples of counters by process. Panics where
/// slices of one thread overlap in part.
pub(crate) fn shown(record: &RunRecord) -> [usize; 3] {
    let json = timeline_json(record, "0").expect("a timeline");
    let mut threads: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let (mut steps, mut samples) = (0, 0);
    for event in json.lines() {
        let of = |key: &str| number(event, key).expect("every event says so");
        if event.contains("\"ph\":\"X\"") {
            let (start, span) = (of("ts"), of("dur"));
            threads.entry((of("pid"), of("tid"))).or_default().push((start, start + span));
            steps += usize::from(event.contains("\"cat\":\"step\""));
        }
        samples += usize::from(event.contains("\"ph\":\"C\""));
    }
    let mut slices = 0;
    for (thread, mut all) in threads {
        slices += all.len();
        // Of those that start together the longest is outermost.
        all.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let mut open: Vec<u64> = Vec::new();
        for (start, end) in all {
            open.retain(|&outer| outer > start);
            let within = open.iter().all(|&outer| end <= outer);
            assert!(within, "{}: thread {thread:?} at {start}", record.scenario);
            open.push(end);
        }
    }
    [slices, steps, samples]
}

/// Random machines have links that several copies cross at once, chunks and several hops.
#[test]
fn slices_of_random_worlds_do_not_overlap_in_part() {
    let mut all = [0; 3];
    for index in 0..400 {
        let trial = Trial::new(seed_of(3, index), usize::MAX);
        let Some(scenario) = trial.scenario() else { continue };
        let options = Options { timeline: true, ..Options::default() };
        let Ok(record) = run(&scenario, &trial.workload, String::new(), options, || ()) else {
            continue;
        };
        let shown = shown(&record);
        assert!(shown[1] > 0 || shown[0] == 0, "world {index} marks no step");
        all.iter_mut().zip(shown).for_each(|(sum, shown)| *sum += shown);
    }
    assert_eq!(all, [4846, 723, 2802], "slices, steps, samples");
}
