//! What a scenario can say about allocators.

use crate::specs::project::{GOOD, Project, edited};
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_models::allocator::{
    AllocatorSpec, BucketsConfig, BuddyConfig, CachingConfig, Compaction, Costs, Fragmentation,
    Model,
};
use tiersim_models::ids::TierId;
use tiersim_models::units::{Bytes, Span};
use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::expectation::{Expectation, Figure, Metric, Over};

/// The good scenario with a list for all cases and one for the first.
fn with(all: &str, first: &str) -> String {
    let text = edited("    seed: 1,\n", &format!("    seed: 1,\n    allocators: [{all}],\n"));
    let from = "(name: \"all-hbm\", policy: AllHbm)";
    assert!(text.contains(from));
    text.replace(from, &format!("(name: \"all-hbm\", policy: AllHbm, allocators: [{first}])"))
}

fn read(all: &str, first: &str) -> Scenario {
    Project::new().read(&with(all, first)).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_case_replaces_what_the_scenario_says_of_the_tiers_that_it_names() {
    let scenario = read(
        "(tier: \"hbm\", model: caching(expandable_segments: true, max_split: mib(128), \
         roundup_power2_divisions: 8, garbage_collection_threshold: 0.8, \
         costs: (hit: us(3), take: us(0)))), \
         (tier: \"dram\", model: buddy(least: kib(4)), compaction: ())",
        "(tier: \"hbm\", model: buckets(adaptive: true), compaction: (above: 0.1, at_once: mib(64)))",
    );
    let caching = CachingConfig {
        expandable_segments: true,
        max_split: Some(Bytes::mib(128)),
        roundup_power2_divisions: 8,
        garbage_collection_threshold: 0.8,
        // What is not written is as measured.
        costs: Costs { hit: Span::from_us(3), take: Span::ZERO, ..Costs::MEASURED },
    };
    let all = AllocatorSpec { model: Model::Caching(caching), compaction: None };
    let least = BuddyConfig { least: Bytes::new(4096) };
    let stop = Compaction { above: 0.3, by: Fragmentation::External, at_once: None };
    let dram = AllocatorSpec { model: Model::Buddy(least), compaction: Some(stop) };
    let buckets = Model::Buckets(BucketsConfig { adaptive: true });
    let some =
        Compaction { above: 0.1, by: Fragmentation::External, at_once: Some(Bytes::mib(64)) };
    let own = AllocatorSpec { model: buckets, compaction: Some(some) };
    assert_eq!(scenario.cases[0].allocators[..2], [own, dram.clone()]);
    assert_eq!(scenario.cases[1].allocators[..2], [all, dram]);
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let specs = ["pool", "caching()", "buckets()", "buddy()"].map(|model| {
        let scenario = read(&format!("(tier: \"hbm\", model: {model})"), "");
        scenario.cases[0].allocators[0].clone()
    });
    let models = [
        Model::Pool,
        Model::Caching(CachingConfig::default()),
        Model::Buckets(BucketsConfig::default()),
        Model::Buddy(BuddyConfig { least: Bytes::new(512) }),
    ];
    assert_eq!(specs, models.map(|model| AllocatorSpec { model, compaction: None }));
}

#[test]
fn exact_is_as_if_it_was_not_said() {
    let scenario = read("(tier: \"hbm\", model: pool)", "(tier: \"hbm\", model: exact)");
    let tiers = scenario.hardware.tiers.len();
    let found = [0, 1].map(|case: usize| scenario.cases[case].allocators.len());
    assert_eq!(found, [0, tiers], "all exact is an empty list");
    let project = Project::new();
    let print = |text: &str| fingerprint(&project.read(text).unwrap(), "abc");
    assert_eq!(print(GOOD), print(&with("(tier: \"nvme\", model: exact)", "")));
    let prints = ["pool", "caching()", "buckets()", "buddy()"]
        .map(|model| print(&with(&format!("(tier: \"hbm\", model: {model})"), "")));
    assert!(!prints.contains(&print(GOOD)));
    assert!((1..4).all(|index| !prints[..index].contains(&prints[index])));
}

#[test]
fn fragmentation_can_be_expected() {
    let expected = |text: &str| {
        let text = edited("fits(\"all-hbm\"),", &format!("fragmentation({text}),"));
        Project::new().read(&text).map(|scenario| scenario.expect[0].clone())
    };
    let found = expected("case: \"lru\", tier: \"dram\", over: highest, at_most: 0.1").unwrap();
    let metric = Metric::Fragmentation(TierId(1), Over::Highest);
    let at_most = Some(Figure::Number(0.1));
    assert_eq!(found, Expectation::Within { metric, case: 3, at_least: None, at_most });
}
