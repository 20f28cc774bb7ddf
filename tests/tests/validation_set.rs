//! The generated traces are what they are said to be.

use tiersim_input::scenario::read::read_scenario;
use tiersim_input::trace::{Packing, read_trace, write_trace};
use tiersim_policies::scenario::TraceSource;
use tiersim_policies::scenario::expectation::{Expectation, Figure, Metric};
use tiersim_sim::expect::failures;
use tiersim_tests::files::{page, record, root, scenario, shipped};
use tiersim_tests::prelude::*;
use tiersim_tests::tiny::tiny_train;
use tiersim_tests::varying::varying_sequence;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::{Format, Formats};

#[test]
fn the_tiny_trace_is_what_its_generator_makes() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny-train");
    write_trace(&tiny_train(), &made, Packing::Plain).expect("the trace can be written");
    for file in ["trace.ron", "objects.csv", "ops.csv", "uses.csv", "statistics.csv"] {
        let shipped = fs::read(root().join("traces/tiny-train").join(file)).expect("it ships");
        let made = fs::read(made.join(file)).expect("it was written");
        assert!(shipped == made, "{file}: run the example tiny-train of tiersim-tests again");
    }
}

/// Every file of the set with a generated trace, with what is done in it, by name.
fn set() -> Vec<(Scenario, Work)> {
    let read = |path: PathBuf| {
        let scenario = scenario(&path, &[]);
        match scenario.workload.trace.clone() {
            TraceSource::Model(work) => Some((scenario, work)),
            _ => None,
        }
    };
    let set: Vec<_> = shipped("scenarios/validation").into_iter().filter_map(read).collect();
    assert_eq!(set.len(), 9, "docs/howto/validation.md lists the files of the set");
    set
}

fn is_host(scenario: &Scenario) -> bool {
    scenario.name.starts_with("host-")
}

/// The files that show a policy at work; the one for NVMe leaves some out.
fn complete(host: bool) -> Vec<Scenario> {
    let set = set().into_iter().map(|(scenario, _)| scenario);
    set.filter(|one| is_host(one) == host && !one.name.contains("nvme")).collect()
}

/// The words for policies, as the reader of scenarios knows them.
fn policy_words() -> Vec<String> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("validation-set-probe.ron");
    fs::write(&file, "Scenario(policies: [(policy: Qqqqqqqq)])").expect("it can be written");
    let problems = read_scenario(&file, &[]).expect_err("there is no such policy");
    let known = problems.0.iter().find_map(|problem| problem.remedy.split("known: ").nth(1));
    known.expect("the reader lists what it knows").split(", ").map(str::to_owned).collect()
}

/// That `policy: WORD(` stands in a file of the set.
fn has_policies(file: &str, words: &[String]) {
    let text = page(&format!("scenarios/validation/{file}.ron"));
    for word in words {
        let there = ["(", ","].iter().any(|end| text.contains(&format!("policy: {word}{end}")));
        assert!(there, "{file} lacks {word}: see docs/howto/validation.md, \"The set\"");
    }
}

#[test]
fn every_policy_is_in_the_files_that_try_them_all() {
    let words = policy_words();
    assert!(words.len() >= 20, "{words:?}");
    has_policies("host-zoo", &words);
    has_policies("zoo-train", &words);
}

#[test]
fn every_kind_of_policy_is_in_every_file_of_the_set() {
    let words = ["AllHbm", "AdamState", "Hints", "Lru"].map(str::to_owned);
    for scenario in complete(false).iter().chain(&complete(true)) {
        has_policies(&scenario.name, &words);
    }
}

#[test]
fn the_page_lists_every_file_with_its_cases_and_bytes() {
    let page = page("docs/howto/validation.md");
    for (scenario, _) in set() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", scenario.name)));
        let row = row.unwrap_or_else(|| panic!("docs/howto/validation.md lacks {}", scenario.name));
        let cases = format!("| {} |", scenario.cases.len());
        assert!(row.ends_with(&cases), "{row}: not {cases}");
        let held: Vec<u64> = simulated(&scenario).results.iter().map(held_by).collect();
        let most = held.iter().max().expect("a file has cases");
        for bytes in [held[0], *most] {
            let [mb, gb] = [1e6, 1e9].map(|unit| bytes as f64 / unit);
            let shown = if mb < 100.0 { format!("{mb:.0} MB") } else { format!("{gb:.2} GB") };
            assert!(row.contains(&format!("| {shown} |")), "{row}: not {shown}");
        }
    }
}

fn access(case: &Case) -> Option<Access> {
    case.policy.access()
}

#[test]
fn every_budget_and_access_mode_is_in_every_file_of_the_set() {
    for scenario in complete(false).iter().chain(&complete(true)) {
        let cases = &scenario.cases;
        for share in [0.25, 0.5, 0.75, 1.0] {
            let moves = |case: &&Case| !matches!(access(case), Some(Access::InPlace(_)));
            let at = cases.iter().filter(|case| case.hbm == Budget::ShareOfPeak(share));
            assert!(at.filter(moves).count() >= 1, "{} lacks {share}", scenario.name);
        }
        let any = |wanted: &dyn Fn(Access) -> bool| cases.iter().filter_map(access).any(wanted);
        for (what, found) in [
            ("on demand", any(&|mode| mode == Access::Migrate { prefetch_ops: 0 })),
            ("prefetch", any(&|mode| matches!(mode, Access::Migrate { prefetch_ops: 1.. }))),
            ("in place", any(&|mode| mode == Access::InPlace(Charge::EveryUse))),
        ] {
            assert!(found, "{} lacks {what}", scenario.name);
        }
    }
    // The emulations need not be in every file, but each is in one for any computer.
    for charge in [Charge::ModuleOutput, Charge::ModuleWeights] {
        for host in [false, true] {
            let set = complete(host);
            let mut modes = set.iter().flat_map(|one| &one.cases).filter_map(access);
            assert!(modes.any(|mode| mode == Access::InPlace(charge)), "{charge:?}, host: {host}");
        }
    }
}

#[test]
fn shapes_are_those_of_the_models_that_files_are_named_after() {
    let mut known = 0;
    for (scenario, work) in set() {
        let card = card(&work).clone();
        let (whole, published) = match scenario.name.as_str() {
            name if name.contains("124m") => (card, 124_439_808),
            name if name.contains("355m") => (card, 354_823_168),
            name if name.contains("1.5b") => (Card { layers: 48, ..card }, 1_557_611_200),
            name if name.contains("8b-shaped") => {
                (Card { layers: 32, vocab: 128_256, ..card }, 8_030_261_248)
            }
            _ => continue,
        };
        assert_eq!(whole.parameters(), published, "{}", scenario.name);
        known += 1;
    }
    assert_eq!(known, 7);
}

fn card(work: &Work) -> &Card {
    match work {
        Work::Train(training) => &training.card,
        Work::Generate(generation) => &generation.card,
        Work::Operators(_) => panic!("the set has models only"),
    }
}

/// Bytes of everything that persists, and what is held at least at once.
fn held(work: &Work) -> (u64, u64) {
    let n = card(work).parameters();
    let bf16 = Formats::all(Format::Bf16);
    match work {
        Work::Train(training) => {
            assert_eq!(training.formats, bf16, "the set is in mixed precision");
            (14 * n, 16 * n)
        }
        Work::Generate(job) => {
            assert_eq!(job.formats, bf16, "the set is in 16 bits");
            let positions = job.prompt + u64::from(job.tokens);
            let token = 2 * 2 * u64::from(job.card.layers) * job.card.kv_width();
            let all = 2 * n + token * u64::from(job.batch) * positions;
            (all, all)
        }
        Work::Operators(_) => panic!("the set has models only"),
    }
}

fn size(bound: &Option<Figure>) -> Option<Bytes> {
    match bound {
        Some(Figure::Size(bytes)) => Some(*bytes),
        _ => None,
    }
}

/// What the files expect of LRU and of everything in HBM follows from formulas: a step reads all
/// that persists, and finds no more of it in HBM than the budget.
#[test]
fn expectations_are_what_the_formulas_say() {
    let mut met = 0;
    for (scenario, work) in set() {
        let (persistent, at_once) = held(&work);
        let peak = scenario.expect.iter().find_map(|expectation| match expectation {
            Expectation::Within { metric: Metric::Peak(HBM), case: 0, at_least, at_most } => {
                Some((size(at_least), size(at_most)))
            }
            _ => None,
        });
        let (least, most) = peak.expect("the peak of the baseline is expected");
        assert_eq!(least, Some(Bytes::new(at_once)), "{}", scenario.name);
        let peak = most.expect("from above too").get();
        for expectation in &scenario.expect {
            let Expectation::Within { metric: Metric::Moved(channel), case, at_least, .. } =
                expectation
            else {
                continue;
            };
            let Some(least) = size(at_least) else { continue };
            let case = &scenario.cases[*case];
            let channel = scenario.hardware.channel_name(*channel);
            let ("lru", Budget::ShareOfPeak(share), "dram->hbm") =
                (case.policy.name(), case.hbm, channel.as_str())
            else {
                continue;
            };
            let budget = (peak as f64 * share).round() as u64;
            let bound = persistent.saturating_sub(budget);
            assert_eq!(least.get(), bound, "{}: {}", scenario.name, case.label);
            met += 1;
        }
    }
    assert_eq!(met, 29);
}

fn simulated(scenario: &Scenario) -> RunRecord {
    record(scenario, Options::default())
}

/// The most that a case ever held in each tier, all tiers together.
fn held_by(case: &CaseRecord) -> u64 {
    let figures = case.outcome.figures().expect("every case fits");
    figures.peak.iter().map(|bytes| bytes.get()).sum()
}

/// Bytes of all tiers together that one case may take.
const GPU_MOST: u64 = 24_000_000_000;
const HOST_MOST: u64 = 200_000_000;

#[test]
fn every_case_keeps_its_expectations_and_fits_where_it_is_meant_to_run() {
    for (scenario, _) in set() {
        let record = simulated(&scenario);
        assert_eq!(failures(&scenario, &record), Vec::<String>::new(), "{}", scenario.name);
        let most = if is_host(&scenario) { HOST_MOST } else { GPU_MOST };
        let mut on_nvme = false;
        for case in &record.results {
            let (figures, held) = (case.outcome.figures().expect("every case fits"), held_by(case));
            assert!(held <= most, "{}: {} takes {held} bytes", scenario.name, case.label);
            let nvme = scenario.hardware.tiers.iter().position(|tier| tier.kind == TierKind::Nvme);
            on_nvme |= figures.peak[nvme.expect("the machine has NVMe")] > Bytes::ZERO;
        }
        let meant = is_host(&scenario) || scenario.name.contains("nvme");
        assert_eq!(on_nvme, meant, "{}", scenario.name);
    }
}

#[test]
fn the_varying_trace_is_what_its_generator_makes() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("varying-sequence");
    write_trace(&varying_sequence(), &made, Packing::Gzip).expect("the trace can be written");
    let (made, shipped) = (read_trace(&made), read_trace(&root().join("traces/varying-sequence")));
    let (made, shipped) = (made.expect("it reads"), shipped.expect("it ships"));
    assert!(made == shipped, "run the example varying-sequence of tiersim-tests again");
}
