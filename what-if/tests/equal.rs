//! A session gives the numbers of a run, to the last digit, whatever is set.

use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::traces::read_traces;
use tiersim_models::lint::lint_hardware;
use tiersim_models::results::{Figures, Outcome};
use tiersim_policies::zoo::Registry;
use tiersim_sim::feasible::problems;
use tiersim_sim::run::{Options, run};
use tiersim_what_if::{Answer, Bundle, CaseAnswer, Part, Ready, Session, Set, gather, knobs};

/// Scenarios of many kinds that run in well under a second: a trace, a generated model, training,
/// decoding, shares, budgets, hints, out of memory. Serving is in tests/cli/what_if.rs.
const SCENARIOS: [&str; 6] = [
    "gpt2-adam-tiering",
    "gpt2-lru-budgets",
    "gpt2-hints-inference",
    "gpt2-out-of-memory",
    "gpt2-threshold-sweep",
    "tiny-llama-lru",
];
/// Overrides that are tried of each.
const TURNS: usize = 3;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project")
}

fn scenario(name: &str) -> PathBuf {
    project().join("scenarios").join(format!("{name}.ron"))
}

/// Cases by name, with their numbers if they fit.
type Cases = Vec<(String, Option<Vec<f64>>)>;

/// What the command runs of the file on the disk.
fn ran(path: &Path, set: &[Set]) -> Result<Cases, String> {
    let said = |found: tiersim_models::diagnostic::Diagnostics| found.0[0].rule.clone();
    let scenario = read_scenario(path, set).map_err(said)?;
    let traces = read_traces([&scenario]).map_err(said)?;
    let workload = traces.of(&scenario);
    let found = problems(&scenario, &workload.trace);
    if !found.0.is_empty() {
        return Err(said(found));
    }
    let options = Options { audit: false, ..Options::default() };
    let record = run(&scenario, workload, String::new(), options, || {});
    let record = record.map_err(|error| error.to_string())?;
    let cases = record.results.iter().map(|case| {
        let figures = match &case.outcome {
            Outcome::Done(figures) => Some(numbers(figures)),
            Outcome::OutOfMemory(_) => None,
        };
        (case.label.clone(), figures)
    });
    Ok(cases.collect())
}

fn numbers(figures: &Figures) -> Vec<f64> {
    let peak = figures.peak[0].get() as f64;
    match figures.serving.as_deref() {
        Some(served) => vec![served.first_token_ms().mean, served.per_token_ms().mean, peak],
        None => vec![figures.mean_step().as_ms(), peak],
    }
}

fn answered(answer: &Answer) -> Cases {
    let cases = answer.cases.iter().map(|case| {
        let figures = case.figures.iter().map(|figure| figure.value.unwrap_or(f64::NAN)).collect();
        (case.label.clone(), case.oom.is_none().then_some(figures))
    });
    cases.collect()
}

/// A generator of its own: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most as u64) as usize
    }
}

#[test]
fn every_stop_of_every_kind_of_scenario_is_what_the_command_runs() {
    let mut dice = Dice(1);
    let mut tried = 0;
    for name in SCENARIOS {
        let path = scenario(name);
        let bundle = gather(&path, &[]).unwrap_or_else(|why| panic!("{name}: {why}"));
        let bundle = tiersim_unpack::unpacked(&bundle.packed()).expect("it was packed here");
        let bundle = Bundle::of(&bundle).unwrap_or_else(|why| panic!("{name}: {why}"));
        let ready = Ready::load(&bundle).unwrap_or_else(|why| panic!("{name}: {why}"));
        let session =
            |part| Session::new(&ready, part).unwrap_or_else(|why| panic!("{name}: {why}"));
        let mut session_all = session(Part::ALL);
        let mut halves = [0, 1].map(|first| session(Part { first, of: 2 }));
        assert_eq!(Ok(answered(&session_all.nominal())), ran(&path, &[]), "{name}");
        let knobs = knobs(&ready).expect("it was read before").knobs;
        assert!(!knobs.is_empty(), "{name} has nothing to turn");
        for knob in &knobs {
            assert!(knob.stops[knob.nominal].set.is_empty(), "{name}: {knob:?}");
            assert!(knob.stops.iter().filter(|stop| stop.set.is_empty()).count() == 1);
        }
        for _ in 0..TURNS {
            let count = 1 + dice.below(2);
            let turned = (0..count).flat_map(|_| {
                let knob = &knobs[dice.below(knobs.len())];
                knob.stops[dice.below(knob.stops.len())].set.clone()
            });
            let set: Vec<Set> = turned.collect();
            let (mine, theirs) = (session_all.run(&set), ran(&path, &set));
            assert_eq!(mine.is_err(), theirs.is_err(), "{name} {set:?}: {mine:?} {theirs:?}");
            if let (Ok(mine), Ok(theirs)) = (mine, theirs) {
                assert_eq!(answered(&mine), theirs, "{name} {set:?}");
                for (first, half) in halves.iter_mut().enumerate() {
                    let own: Vec<_> = theirs.iter().skip(first).step_by(2).cloned().collect();
                    let half = half.run(&set).expect("the whole could be run");
                    assert_eq!(answered(&half), own, "{name} {set:?}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= SCENARIOS.len() * TURNS / 2, "{tried} were run");
}

#[test]
fn cases_have_the_marks_that_reports_give_them() {
    let path = scenario("gpt2-adam-tiering");
    let oracle = "ClairvoyantOffload(spill: [\"dram\"])";
    let emulated =
        "AdamState(cut: shares(hbm: 0.3, cpu: 0.5), access: in_place(charge: module_output))";
    let set = [("policies.8.policy", oracle), ("policies.4.policy", emulated)];
    let set = set.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let (ready, _) = Ready::read(&path, &set, &Registry::default());
    let ready = ready.expect("it is read");
    let session = Session::new(&ready, Part::ALL).expect("it runs");
    let own = |case: &CaseAnswer| {
        case.called.strip_prefix(&*case.label).expect("it is called that").to_owned()
    };
    let marks: Vec<String> = session.nominal().cases.iter().map(own).collect();
    // What a name says itself is not said again.
    assert_eq!(marks, ["", "", "", "", " (emulated)", "", "", "", " (oracle)"]);
}

#[test]
fn a_fingerprint_is_another_as_soon_as_anything_else_is_asked() {
    let path = scenario("tiny-llama-lru");
    let of = |set: &[(&str, &str)]| {
        let own = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
        let set: Vec<Set> = set.iter().map(own).collect();
        let (ready, _) = Ready::read(&path, &set, &Registry::default());
        ready.expect("it is read").fingerprint()
    };
    let plain = of(&[]);
    assert_eq!(plain, of(&[("about", "\"other words\"")]), "nothing that a figure rests on");
    let expect = ("expect", "[]");
    let renamed = of(&[expect, ("policies.0.name", "\"another\"")]);
    let named = ["policies.0.name", "policies.1.name"];
    let swapped = of(&[expect, (named[0], "\"x\""), (named[1], "\"y\"")]);
    let faster = of(&[("hardware.links.pcie.read", "gb_per_s(70)")]);
    assert!(plain != renamed && renamed != swapped && plain != faster);
}

#[test]
fn no_stop_of_a_direction_passes_what_both_reach_together() {
    let path = scenario("tiny-llama-lru");
    let set = [("hardware", "cxl2-x16-direct"), ("expect", "[]")];
    let set = set.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let (ready, _) = Ready::read(&path, &set, &Registry::default());
    let knobs = knobs(&ready.expect("it is read")).expect("it was read before").knobs;
    let links: Vec<_> = knobs.iter().filter(|knob| knob.name.starts_with("links.")).collect();
    let least = |knob: &&&tiersim_what_if::Knob| knob.stops.len() < 30;
    assert!(links.len() > 4 && links.iter().filter(least).count() >= 4, "{}", links.len());
    for knob in links {
        assert!(knob.stops[knob.nominal].set.is_empty(), "{}", knob.name);
        for stop in &knob.stops {
            let all = [&set[..], &stop.set].concat();
            read_scenario(&path, &all).unwrap_or_else(|why| panic!("{all:?}: {}", why.0[0]));
        }
    }
}

#[test]
fn a_scenario_that_ships_makes_the_bundle_of_its_file() {
    let name = "scenarios/tiny-llama-lru.ron";
    let shipped = tiersim_input::shipped::path(name).expect("it ships");
    let ours = gather(&scenario("tiny-llama-lru"), &[]).expect("it is there");
    let bundle = gather(&shipped, &[]).expect("it ships with all that it reads");
    assert_eq!((bundle.scenario.as_str(), bundle.files == ours.files), (name, true));
}

#[test]
fn packed_tables_lie_in_a_bundle_unpacked_under_their_names() {
    let bundle = gather(&scenario("gpt2-adam-tiering"), &[]).expect("it is there");
    let table = &bundle.files["traces/gpt2-train-cpu/ops.csv.gz"];
    assert!(table.starts_with(b"id,step,phase,"), "the header of a table");
}

/// A page has no reader of recordings: it is given the trace that one becomes.
#[test]
fn a_recording_lies_in_a_bundle_as_the_trace_that_it_becomes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a-recording");
    fs::create_dir_all(&folder).expect("a folder for tests");
    let recording = project().join("tests/data/fuzz/profiler/seed~trace.json");
    fs::copy(recording, folder.join("run.json")).expect("it is there");
    let path = folder.join("a.ron");
    for gaps in ["keep", "drop"] {
        let scenario = format!(
            "Scenario(schema: 2, about: \"a recording\", hardware: \"h100-sxm-pcie5\", \
             workload: Trace(path: \"run.json\", gaps: {gaps}, time: recorded(scale: 1.0)), \
             policies: [(name: \"lru\", policy: Lru(spill: [\"dram\"]), \
             hbm: share_of_peak(0.5))], seed: 1)"
        );
        fs::write(&path, scenario).expect("a file for tests");
        let bundle = gather(&path, &[]).expect("it is read");
        let in_recording = bundle.files.keys().filter(|name| name.contains("run.json"));
        let names: Vec<&str> =
            in_recording.filter_map(|name| name.rsplit_once("run.json")).map(|cut| cut.1).collect();
        assert_eq!(names, ["/objects.csv", "/ops.csv", "/trace.ron", "/uses.csv"]);
        let ready = Ready::load(&bundle).expect("nothing is missing");
        let session = Session::new(&ready, Part::ALL).expect("it runs");
        assert_eq!(Ok(answered(&session.nominal())), ran(&path, &[]), "{gaps}");
    }
}

/// A slider leads to machines that nobody builds; what the command says of them is said here too.
#[test]
fn a_machine_that_is_set_has_the_warnings_of_the_command() {
    let path = scenario("tiny-llama-lru");
    let (ready, _) = Ready::read(&path, &[], &Registry::default());
    let ready = ready.expect("it is read");
    let mut session = Session::new(&ready, Part::ALL).expect("it runs");
    assert_eq!(session.nominal().warnings, [""; 0]);
    for (rate, warns) in [("gb_per_s(40)", false), ("gb_per_s(900)", true)] {
        let set = [("hardware.links.pcie.read".to_owned(), rate.to_owned())];
        let found = session.run(&set).expect("it runs").warnings;
        let known = lint_hardware(&ready.scenario().hardware);
        let machine = read_scenario(&path, &set).expect("it is read").hardware;
        let all = lint_hardware(&machine).into_iter().filter(|warning| !known.contains(warning));
        assert_eq!(found, all.map(|warning| warning.to_string()).collect::<Vec<_>>());
        assert_eq!(!found.is_empty(), warns, "{rate}");
    }
}

#[test]
fn numbers_that_have_no_slider_are_counted() {
    let path = scenario("tiny-llama-lru");
    let of = |cases: usize| {
        let case =
            |at: usize| format!("(name: \"{at}\", policy: Lru(spill: [\"dram\"]), hbm: gib(1.5))");
        let policies = format!("[{}]", (0..cases).map(case).collect::<Vec<_>>().join(", "));
        let set = [("policies", policies.as_str()), ("expect", "[]")];
        let set = set.map(|(path, value)| (path.to_owned(), value.to_owned()));
        let (ready, _) = Ready::read(&path, &set, &Registry::default());
        knobs(&ready.expect("it is read")).expect("it was read before")
    };
    let few = of(1);
    assert_eq!(few.beyond, 0);
    // Each case has one number.
    let many = of(200);
    assert_eq!(many.knobs.len() + many.beyond, few.knobs.len() + 199);
    assert!(many.knobs.len() < 200, "{}", many.knobs.len());
}
