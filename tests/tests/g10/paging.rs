//! Unified memory on the two networks: the published order of policies.

use crate::tables::{NETWORKS, folder, read};
use std::path::Path;
use std::sync::Arc;
use tiersim_models::hardware::TierKind;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::zoo::correlation_prefetch::CorrelationPrefetchConfig;
use tiersim_policies::zoo::unified_memory::{Faults, UnifiedMemoryConfig};
use tiersim_sim::hardware_file::read_hardware;
use tiersim_sim::run::{Options, run};
use tiersim_sim::scenario::{Budget, Case, OpTime, Scenario, TraceSource, WorkloadSpec};

fn case(label: &str, policy: PolicyConfig) -> Case {
    Case {
        label: label.to_owned(),
        policy,
        hbm: Budget::Hardware,
        allocators: Vec::new(),
        hidden: Vec::new(),
        numa: NumaConfig::default(),
        chunk: None,
        micro_batch: None,
        pressure: None,
        params: Vec::new(),
    }
}

#[test]
fn correlation_prefetch_lies_between_faulting_and_computing_alone() {
    let Some(folder) = folder() else { return };
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs/g10-a100.ron");
    let hardware = Arc::new(read_hardware(&spec).expect("the shipped spec reads"));
    let kinds = [TierKind::Dram, TierKind::Nvme];
    let tier = |kind| hardware.tiers.iter().position(|tier| tier.kind == kind);
    let spill: Vec<TierId> = kinds.into_iter().filter_map(tier).map(TierId::at).collect();
    let faults = Faults::default();
    let (objects, pre_evict) = (64, true);
    for network in &NETWORKS {
        let workload = Workload::new(read(&folder, network));
        let ideal: Span = workload.trace.ops.iter().filter_map(|op| op.duration).sum();
        let faulting = UnifiedMemoryConfig { faults, spill: spill.clone() }.into();
        let ahead =
            CorrelationPrefetchConfig { faults, objects, pre_evict, spill: spill.clone() }.into();
        // The first iteration warms up, the second is measured.
        let (repeat, warmup, jitter) = (2, 1, 0.0);
        let (trace, time) = (TraceSource::Folder("g10".into()), OpTime::Recorded { scale: 1.0 });
        let scenario = Scenario {
            name: network.name.to_owned(),
            about: String::new(),
            hardware: Arc::clone(&hardware),
            workload: WorkloadSpec { trace, repeat, warmup, time, jitter },
            cases: vec![case("faulting", faulting), case("ahead", ahead)],
            seed: 1,
            expect: Vec::new(),
        };
        let record = run(&scenario, &workload, String::new(), Options::default(), || ());
        let record = record.unwrap_or_else(|error| panic!("{}: {error}", network.name));
        let step = |index: usize| {
            let figures = record.results[index].outcome.figures().expect("it fits");
            (figures.mean_step(), figures.delay)
        };
        let ((faulting, delay), (ahead, late)) = (step(0), step(1));
        let ms = |span: Span| span.as_ms();
        println!("{}: {} ms, {} ms, {} ms", network.name, ms(faulting), ms(ahead), ms(ideal));
        assert!(faulting > ahead && ahead >= ideal, "{}", network.name);
        // What was seen once never faults again, and without faults paging costs its copies alone.
        assert!(late < Span::from_ps(delay.ps() / 100), "{}: {late} of {delay}", network.name);
    }
}
