//! Requests served through the whole machine: oracles of queueing and of the roofline, where reused
//! blocks are found, and contexts that need every tier.

use tiersim_input::import::requests::RequestFile;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::traces::read_traces;
use tiersim_models::results::metrics::metric;
use tiersim_models::results::served::ServingFigures;
use tiersim_policies::scenario::expectation::{Figure, Metric};
use tiersim_policies::scenario::traces::Traces;
use tiersim_sim::cache::{Setup, replay};
use tiersim_sim::feasible::problems;
use tiersim_tests::prelude::*;
use tiersim_tests::{conversations, files};

/// A project of the test's own with the shipped machines and these requests.
fn project(name: &str, requests: &str) -> PathBuf {
    let project = files::own_project(concat!(env!("CARGO_TARGET_TMPDIR"), "/serving"), name);
    fs::write(project.join("requests.jsonl"), requests).expect("requests");
    project
}

/// A scenario of these options and policies.
fn scenario(project: &Path, serve: &str, policies: &str) -> Scenario {
    let text = format!(
        "Scenario(schema: 2, about: \"test\", hardware: \"cxl2-x16-direct\", workload: Model(model: \
         \"llama-3-8b\", precision: bf16, mode: serve(requests: \"requests.jsonl\", {serve}), time: \
         roofline(precision: \"bf16\")), policies: [{policies}])"
    );
    let file = project.join("scenarios/test.ron");
    fs::write(&file, text).expect("a scenario");
    files::scenario(&file, &[])
}

fn ran(scenario: &Scenario) -> (RunRecord, Traces) {
    let traces = files::traces(scenario);
    let workload = traces.of(scenario);
    let found = problems(scenario, &workload.trace);
    assert!(found.0.is_empty(), "{found}");
    let record = run(scenario, workload, String::new(), Options::default(), || ());
    (record.unwrap_or_else(|error| panic!("{error}")), traces)
}

fn served(record: &RunRecord, case: usize) -> &ServingFigures {
    let figures = record.results[case].outcome.figures();
    let figures = figures.unwrap_or_else(|| panic!("{:?}", record.results[case].outcome));
    figures.serving.as_deref().expect("requests are served")
}

/// A line of requests.
fn line(at: u64, input: u64, output: u64, names: std::ops::Range<u64>) -> String {
    let names: Vec<u64> = names.collect();
    format!(
        "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {output}, \
         \"hash_ids\": {names:?}}}\n"
    )
}

const ALL: &str = "(name: \"all\", policy: AllHbm)";

#[test]
fn one_request_alone_takes_its_roofline_on_the_machine() {
    let project = project("alone", &line(5, 3000, 50, 0..6));
    let scenario = scenario(&project, "kv_blocks: 100", ALL);
    let (record, traces) = ran(&scenario);
    let workload = traces.of(&scenario);
    let plan = workload.serving.as_ref().expect("a plan");
    let compute = scenario.hardware.compute.as_ref().expect("a device");
    let times = compute.times("bf16", &workload.trace.ops);
    let spans: Option<Vec<Span>> = times.into_iter().skip(1).collect();
    let spans = spans.expect("short ops");
    let request = served(&record, 0).requests[0];
    assert_eq!(request.first_token, spans[0], "the prompt is one chunk");
    assert_eq!(request.latency, spans.iter().copied().sum());
    assert_eq!(request.queued, Span::ZERO);
    let decode: Span = spans[1..].iter().copied().sum();
    assert_eq!(request.per_token(), Some(Span::from_ps(decode.ps().div_ceil(49))));
    assert_eq!(served(&record, 0).end, plan.estimate);
}

/// Prompts and answers of one token, one at a time, arriving at random: M/D/1.
#[test]
fn equal_requests_that_arrive_at_random_wait_as_pollaczek_and_khinchine_say() {
    let alone = project("service", &line(0, 1, 1, 0..1));
    let serve = "kv_blocks: 100, max_batch: 1, max_tokens_per_step: 2";
    let (record, _) = ran(&scenario(&alone, serve, ALL));
    let service = served(&record, 0).requests[0].first_token.as_ms();
    for (load, gate) in [(0.3, 0.02), (0.7, 0.08)] {
        let mut rng = ChaCha12Rng::seed_from_u64(7);
        let mut at = 0.0;
        let mut text = String::new();
        for name in 0..10_000 {
            let uniform: f64 = 1.0 - rand::RngExt::random::<f64>(&mut rng);
            // Arrivals are whole milliseconds: a thousandth of what lies between two is enough.
            at += -uniform.ln() * service / load;
            text += &line(at.round() as u64, 1, 1, name..name + 1);
        }
        let queue = project(&format!("queue-{load}"), &text);
        let (record, _) = ran(&scenario(&queue, serve, ALL));
        let found = served(&record, 0).first_token_ms().mean;
        let theory = service * (1.0 + load / (2.0 * (1.0 - load)));
        let error = (found / theory - 1.0).abs();
        eprintln!("load {load}: {found} ms, in theory {theory} ms, service {service} ms");
        assert!(error <= gate, "load {load}: {error} above {gate}");
    }
}

#[test]
fn the_shipped_requests_are_what_their_generator_makes() {
    let shipped = files::root().join("traces/requests-conversation/requests.jsonl");
    let shipped = fs::read_to_string(shipped).expect("the requests are shipped");
    assert!(shipped == conversations::requests(1), "make them again: see NOTE.md");
}

/// Blocks are found where a policy has put them, and all that is found is counted once.
#[test]
fn reused_blocks_are_found_in_the_tiers_that_hold_them() {
    let requests = conversations::requests(1);
    let first: String = requests.lines().take(60).map(|line| format!("{line}\n")).collect();
    let project = project("found", &first);
    let policies = "(name: \"all\", policy: AllHbm), (name: \"cxl\", policy: Lru(spill: [\"cxl\"]), \
                    hbm: gib(24)), (name: \"nvme\", policy: Lru(spill: [\"nvme\"]), hbm: gib(24))";
    let serve = "kv_blocks: 4096, max_batch: 2, max_tokens_per_step: 4096, merge: 16";
    let (record, traces) = ran(&scenario(&project, serve, policies));
    let scenario = scenario(&project, serve, policies);
    let plan = traces.of(&scenario).serving.as_ref().expect("a plan");
    let hits: u64 = plan.requests.iter().map(|course| u64::from(course.hits)).sum();
    let tier = |name: &str| record.base().tiers.iter().position(|(tier, _)| tier == name);
    let [hbm, cxl, nvme] = ["hbm", "cxl", "nvme"].map(|name| tier(name).expect("a tier"));
    let block = 512 * (128 << 10);
    for case in 0..3 {
        let found = &served(&record, case).found;
        let all = found.tiers.iter().sum::<u64>() + found.in_the_op;
        assert_eq!((served(&record, case).hits, all), (hits, hits * block));
    }
    let of = |case: usize, tier: usize| {
        served(&record, case).found.tiers.get(tier).copied().unwrap_or(0)
    };
    assert!(of(0, hbm) > 0 && of(0, cxl) == 0, "all in HBM");
    assert!(of(1, hbm) > 0 && of(1, cxl) > 0 && of(1, nvme) == 0);
    assert_eq!(of(1, cxl), of(2, nvme), "the same policy moves the same blocks");
    let ttft = [0, 1, 2].map(|case| served(&record, case).first_token_ms().mean);
    assert!(ttft[0] <= ttft[1] && ttft[1] < ttft[2], "{ttft:?}");
}

/// Without a limit of blocks, hits are those of `tiersim cache` on the same file.
#[test]
fn hits_without_a_limit_are_those_of_a_cache_of_the_names() {
    let shipped = files::root().join("traces/requests-conversation/requests.jsonl");
    let mooncake = files::beside("mooncake/conversation_trace.jsonl");
    for (name, file) in [("own", Some(shipped)), ("mooncake", mooncake)] {
        let Some(file) = file else { continue };
        let text = fs::read_to_string(file).expect("requests");
        let first: String = text.lines().take(300).map(|line| format!("{line}\n")).collect();
        let project = project(&format!("hits-{name}"), &first);
        let serve = "kv_blocks: 2147483648, merge: 1000, max_batch: 16";
        let scenario = scenario(&project, serve, ALL);
        let traces = files::traces(&scenario);
        let plan = traces.of(&scenario).serving.as_ref().expect("a plan");
        let hits: u64 = plan.requests.iter().map(|course| u64::from(course.hits)).sum();
        let (algorithm, reader, capacities) = (Algorithm::Lru, None, vec![1 << 40]);
        let setup = Setup { algorithm, unit: true, capacities };
        let path = project.join("requests.jsonl");
        let open = |sizes| RequestFile::open(&path, reader, sizes, None);
        let cache = replay(&path, &setup, open, |_| ()).expect("it reads");
        assert_eq!(hits, cache.requests - cache.results[0].misses, "{name}");
        assert!(hits > 100, "{name}: {hits}");
    }
}

/// 122 GiB of keys and values and 15 GiB of weights on 80 GiB of HBM: layer by layer.
#[test]
fn a_context_of_a_million_tokens_goes_over_the_tiers() {
    let project = project("million", &line(0, 1_000_000, 21, 0..1954));
    let policies =
        "(name: \"hbm\", policy: AllHbm), (name: \"cxl\", policy: Lru(spill: [\"cxl\"]))";
    let serve =
        "kv_blocks: 2000, max_batch: 1, max_tokens_per_step: 65536, layer_groups: 8, merge: 10";
    let (record, _) = ran(&scenario(&project, serve, policies));
    assert!(record.results[0].outcome.figures().is_none(), "it does not fit in HBM");
    let request = served(&record, 1).requests[0];
    let cxl = record.base().tiers.iter().position(|(tier, _)| tier == "cxl").expect("a tier");
    let figures = record.results[1].outcome.figures().expect("it ran");
    assert!(figures.peak[cxl].get() > 50 << 30, "{:?}", figures.peak);
    let baseline = record.base().baseline.serving.as_ref().expect("requests").requests[0];
    assert!(request.per_token() > baseline.per_token(), "{request:?} {baseline:?}");
}

#[test]
fn requests_arrive_once() {
    let project = project("repeat", &line(0, 100, 3, 0..1));
    let file = project.join("scenarios/test.ron");
    scenario(&project, "kv_blocks: 10", ALL);
    let twice = ("workload.repeat".to_owned(), "2".to_owned());
    let error = read_scenario(&file, &[twice]).expect_err("they arrive once").to_string();
    assert!(error.contains("requests arrive once"), "{error}");
    for (path, value, said) in [
        ("workload.mode.kv_blocks", "0", "`kv_blocks` must lie between"),
        ("workload.mode.max_tokens_per_step", "256", "must be above `max_batch`"),
        ("workload.mode.first", "0", "`first` must be 1 or more"),
        ("workload.mode.requests", "\"none.jsonl\"", "none.jsonl"),
    ] {
        let set = (path.to_owned(), value.to_owned());
        let error = read_scenario(&file, &[set]).expect_err("it is wrong").to_string();
        assert!(error.contains(said), "{path}: {error}");
    }
    let long = ("workload.mode.block_tokens".to_owned(), "16".to_owned());
    let scenario = read_scenario(&file, &[long]).expect("its names are not known yet");
    let error = read_traces([&scenario]).expect_err("blocks of 512").to_string();
    assert!(error.contains("a prompt of 100 tokens has 7 hash_ids (found 1)"), "{error}");
}

/// What a scenario expects and what conditions of `solve` are about is one figure by two names.
#[test]
fn expectations_and_conditions_have_the_same_figures() {
    let same = |scenario: &Scenario, same: &[(Metric, &str)]| {
        let run = files::record(scenario, Options::default());
        for case in &run.results {
            for &(expected, name) in same {
                let (words, figure) = expected.read(&run, case).expect("a figure");
                let expected = match figure {
                    Figure::Time(span) => span.as_ms(),
                    Figure::Size(bytes) => bytes.get() as f64 / f64::from(1 << 30),
                    Figure::Number(number) => number,
                    other => panic!("{words}: {other:?}"),
                };
                let condition = metric(&run, case, name).expect("a figure");
                let near = (expected - condition).abs() <= 1e-9 * expected.abs();
                assert!(near, "{}: {words} {expected}, {name} {condition}", case.label);
            }
        }
        run
    };
    let (step, peak) = ((Metric::StepTime, "step"), (Metric::Peak(TierId::at(0)), "peak_gib"));
    let times = [Metric::Latency, Metric::Ttft, Metric::Tpot].into_iter();
    let served: Vec<_> = times.zip(["latency", "ttft", "tpot"]).chain([step, peak]).collect();
    let scenario = files::shipped_scenario("kv-tiering-requests", &[("workload.mode.first", "3")]);
    let run = same(&scenario, &served);
    // How long iterations are says nothing of requests.
    for case in &run.results {
        assert!(Metric::Slowdown.read(&run, case).is_err());
        assert!(metric(&run, case, "slowdown").is_err());
        let ratio = metric(&run, case, "latency_slowdown").expect("the baseline serves, too");
        let latency = metric(&run, case, "latency").expect("a figure");
        let baseline = run.of(case).baseline.judged().as_ms();
        assert!((ratio * baseline / latency - 1.0).abs() < 1e-9, "{ratio} {latency} {baseline}");
    }
    let trained = files::shipped_scenario("tiny-llama-lru", &[]);
    same(&trained, &[step, peak, (Metric::Slowdown, "slowdown")]);
}
