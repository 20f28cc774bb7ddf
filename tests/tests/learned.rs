//! The learned policy: known rules as special cases of its score, what training does where the best
//! rule is known, and that it does the same every time.

use rayon::ThreadPoolBuilder;
use tiersim_input::scenario::weights::{read_weights, weights_text};
use tiersim_policies::recipe::Origin;
use tiersim_policies::scenario::weights::WeightFile;
use tiersim_policies::zoo::Registry;
use tiersim_policies::zoo::demand::Write;
use tiersim_policies::zoo::learned_placement::{Feature as Placed, LearnedPlacementConfig, NAMES};
use tiersim_policies::zoo::residents::{ResidentsConfig, Rule};
use tiersim_policies::zoo::scored::ScoredConfig;
use tiersim_policies::zoo::scored::features::{Feature, Weights};
use tiersim_sim::run::CaseRunner;
use tiersim_sim::train::cross_entropy::Search;
use tiersim_sim::train::train;
use tiersim_tests::prelude::*;
use tiersim_tests::setting::scenario;

fn scored(weights: &[(Feature, f64)], spill: Vec<TierId>) -> PolicyConfig {
    let mut own = Weights::default();
    weights.iter().for_each(|&(feature, weight)| own.set(feature, weight));
    ScoredConfig { weights: own, origin: Origin::Written, spill }.into()
}

fn demand(algorithm: Algorithm, spill: Vec<TierId>) -> PolicyConfig {
    DemandConfig { algorithm, spill, write: Write::Back }.into()
}

/// Every command of two replays, and the error that ended them, if one did.
fn planned(world: &World, config: &PolicyConfig) -> (Vec<Command>, Option<PlanError>) {
    world.commands(policy_of(world, config).expect("it is built"))
}

/// Two replays of a random world.
fn world(seed: u64) -> World {
    World::new(seed).repeated(2)
}

/// Births, releases, several streams, sizes that differ, tiers that are too small.
#[test]
fn one_weight_alone_makes_it_lru_or_belady_command_by_command() {
    let mut ran = [0, 0];
    for seed in 0..400 {
        let world = world(seed);
        let tiers = world.hardware.tiers.len();
        if tiers < 2 {
            continue;
        }
        let spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
        let of = |feature| planned(&world, &scored(&[(feature, -1.0)], spill.clone()));
        let lru = planned(&world, &demand(Algorithm::Lru, spill.clone()));
        let belady = planned(&world, &demand(Algorithm::Belady, spill.clone()));
        assert_eq!(of(Feature::Age), lru, "seed {seed}");
        assert_eq!(of(Feature::Next), belady, "seed {seed}");
        ran[0] += usize::from(lru.1.is_none());
        ran[1] += usize::from(lru != belady);
    }
    assert_eq!(ran, [185, 210], "worlds that fit, and those in which the rules differ");
}

#[test]
fn whatever_its_weights_it_fits_where_lru_fits() {
    let mut rng = ChaCha12Rng::seed_from_u64(4);
    let mut ran = 0;
    for seed in 0..300 {
        let world = world(seed);
        let tiers = world.hardware.tiers.len();
        let spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
        if tiers < 2 || planned(&world, &demand(Algorithm::Lru, spill.clone())).1.is_some() {
            continue;
        }
        for _ in 0..4 {
            let weights = Feature::ALL.map(|feature| (feature, rng.random_range(-2.0..2.0)));
            let error = planned(&world, &scored(&weights, spill.clone())).1;
            assert_eq!(error, None, "seed {seed}, {weights:?}");
            ran += 1;
        }
    }
    assert_eq!(ran, 576, "runs that fit");
}

#[test]
fn it_says_that_it_sees_the_future_only_if_its_weights_do() {
    let world = world(3);
    let lookahead = |feature| {
        policy_of(&world, &scored(&[(feature, 0.5)], vec![FAR])).expect("it is built").lookahead()
    };
    for feature in Feature::ALL {
        let expected = if feature == Feature::Next { Lookahead::Oracle } else { Lookahead::Past };
        assert_eq!(lookahead(feature), expected, "{}", feature.word());
    }
}

/// Two replays of ten objects of equal size in turn, in a memory for five of them.
fn round() -> (Scenario, Workload) {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..10).map(|_| traced.object(1000, true)).collect();
    for step in 0..3 {
        for &object in &objects {
            traced.op(step, 0, Span::from_ns(10), &[(object, Mode::Read)]);
        }
    }
    let hbm = Budget::Bytes(Bytes::new(5000));
    let terms = std::sync::Arc::new(Terms { hbm, ..Terms::default() });
    let case = |label, policy| Case { terms: terms.clone(), ..case(label, policy) };
    let cases = vec![
        case("scored", scored(&[(Feature::Age, -1.0)], vec![FAR])),
        case("lru", demand(Algorithm::Lru, vec![FAR])),
        case("belady", demand(Algorithm::Belady, vec![FAR])),
    ];
    let hardware = two_tiers(Bytes::new(1 << 20), law(0, 1_000_000_000));
    // Without a warm-up: no rule does better than Belady over a whole run; over a part of one it
    // can.
    (scenario(hardware, replays(2), cases), Workload::new(traced.0))
}

fn trained(search: Search) -> WeightFile {
    let (scenario, workload) = round();
    train(&scenario, &workload, "sha256:0".to_owned(), search, |_| ()).expect("it trains")
}

const SEARCH: Search = Search { generations: 6, population: 24, seed: 1 };

/// What is used next has been away longest, so LRU fetches everything, and whoever gives up what
/// was used last fetches as little as the best possible order of leaving.
#[test]
fn training_finds_the_rule_for_a_round_that_is_larger_than_memory() {
    let file = trained(SEARCH);
    let (scenario, workload) = round();
    let bench = CaseRunner::new(&scenario, &workload, Options::default()).expect("it runs");
    let slowdown = |case: &Case| {
        bench.slowdown(case, Options::default()).expect("no rule is broken").expect("it fits")
    };
    let [scored, lru, belady] = [0, 1, 2].map(|case| slowdown(&scenario.cases[case]));
    let how = file.trained.as_ref().expect("it was trained");
    assert_eq!((how.before, scored), (lru, lru));
    assert!(how.after < 0.8 * lru, "{} after {lru}", how.after);
    assert!((belady..1.01 * belady).contains(&how.after), "{} against {belady}", how.after);
    // What the file says is what its weights do.
    let mut weights = Weights::default();
    for (name, weight) in &file.weights {
        weights.set(Feature::from_word(name).expect("a feature"), *weight);
    }
    let policy = ScoredConfig { weights, origin: Origin::Learned, spill: vec![FAR] }.into();
    assert_eq!(slowdown(&Case { policy, ..scenario.cases[0].clone() }), how.after);
    // All objects are alike, so only their past can tell; the future was not asked for.
    let past = ["age", "changed", "count", "due", "once", "reuse"];
    assert!(file.weights.keys().all(|name| past.contains(name)), "{:?}", file.weights);
}

/// Six weights of 1000 bytes, the last used most, in turns, and room for three of them beside one
/// that visits; placed by a rule that keeps those that are used least.
fn uneven() -> (Scenario, Workload) {
    let mut traced = Traced::new();
    let weights: Vec<ObjectId> = (0..6).map(|_| traced.object(1000, true)).collect();
    for (index, weight) in weights.iter().enumerate() {
        traced.0.modules.push(format!("h.{index}").into());
        let object = &mut traced.0.objects[weight.index()];
        (object.kind, object.module) = (ObjectKind::Weight, Some(ModuleId::at(index)));
    }
    for round in 0..6 {
        for &weight in &weights[round..] {
            traced.op(0, 0, Span::from_ns(10), &[(weight, Mode::Read)]);
        }
    }
    let hbm = Budget::Bytes(Bytes::new(4000));
    let terms = std::sync::Arc::new(Terms { hbm, ..Terms::default() });
    let case = |label, policy| Case { terms: terms.clone(), ..case(label, policy) };
    let (spill, kinds) = (vec![FAR], vec![ObjectKind::Weight]);
    let access = Access::Migrate { prefetch_ops: 0 };
    let mut weights = [0.0; NAMES.len()];
    weights[Placed::Uses as usize] = -1.0;
    let (origin, own) = (Origin::Written, spill.clone());
    let learned =
        LearnedPlacementConfig { weights, origin, spill: own, kinds: kinds.clone(), access };
    let knapsack = ResidentsConfig { rule: Rule::Knapsack, spill, kinds, access };
    let cases = vec![case("learned", learned.into()), case("knapsack", knapsack.into())];
    let hardware = two_tiers(Bytes::new(1 << 20), law(0, 1_000_000_000));
    (scenario(hardware, replays(2), cases), Workload::new(traced.0))
}

/// Of objects of one size the best to keep are those that are fetched most, which the knapsack
/// keeps.
#[test]
fn training_finds_the_placement_of_the_knapsack_where_that_is_the_best() {
    let (scenario, workload) = uneven();
    let file =
        train(&scenario, &workload, "sha256:0".to_owned(), SEARCH, |_| ()).expect("it trains");
    let how = file.trained.as_ref().expect("it was trained");
    let bench = CaseRunner::new(&scenario, &workload, Options::default()).expect("it runs");
    let slowdown = |case: &Case| {
        bench.slowdown(case, Options::default()).expect("no rule is broken").expect("it fits")
    };
    let [learned, knapsack] = [0, 1].map(|case| slowdown(&scenario.cases[case]));
    assert_eq!((file.policy, how.before), ("LearnedPlacement", learned));
    assert!(learned > 1.2 * knapsack, "{learned} of {knapsack}: the start is a bad one");
    assert_eq!(how.after, knapsack);
    // Sizes and kinds are the same, and on demand nothing is hidden: these weights stayed 0.
    let told = ["first", "idle", "last", "saved", "uses"];
    assert!(file.weights.keys().all(|name| told.contains(name)), "{:?}", file.weights);
}

#[test]
fn the_same_seed_gives_the_same_file_on_any_number_of_threads() {
    let search = Search { generations: 3, population: 10, seed: 5 };
    let with = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        weights_text(&pool.install(|| trained(search)))
    };
    assert_eq!(with(1), with(4));
    assert_ne!(with(1), weights_text(&trained(Search { seed: 6, ..search })));
}

#[test]
fn a_file_reads_back_as_what_was_written() {
    let mut file = trained(Search { generations: 1, population: 4, seed: 2 });
    file.about = "a \"name\" with \\ and \u{7}\n and é".to_owned();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("learned");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("weights.ron");
    std::fs::write(&path, weights_text(&file)).expect("it can be written");
    assert_eq!(
        read_weights(&path, &Registry::default()).unwrap_or_else(|problems| panic!("{problems}")),
        file
    );
}

#[test]
fn what_cannot_be_trained_is_refused_in_words() {
    let (scenario, workload) = round();
    let said = |scenario: &Scenario| {
        let search = Search { generations: 1, population: 4, seed: 1 };
        let trained = train(scenario, &workload, String::new(), search, |_| ());
        trained.expect_err("it is refused").to_string()
    };
    let none = Scenario { cases: scenario.cases[1..].to_vec(), ..scenario.clone() };
    assert!(said(&none).contains("no case uses Scored"), "{}", said(&none));
    let mut two = scenario.clone();
    two.cases[1].policy = scored(&[(Feature::Size, 1.0)], vec![FAR]);
    assert!(said(&two).contains("\"scored\" and \"lru\" start with different"), "{}", said(&two));
    let mut mixed = scenario.clone();
    mixed.cases[1].policy = uneven().0.cases[0].policy.clone();
    assert!(said(&mixed).contains("use different policies that learn"), "{}", said(&mixed));
    let mut small = scenario.clone();
    small.cases[0].hbm = Budget::Bytes(Bytes::new(999));
    assert!(said(&small).contains("runs out of memory"), "{}", said(&small));
}
