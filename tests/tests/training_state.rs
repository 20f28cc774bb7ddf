//! Generated training steps in the simulator: the most model state that a rank holds is the formula's,
//! and a large step is simulated whole.

use tiersim_models::hardware::{Hardware, Law, TierKind};
use tiersim_models::ids::{NodeId, ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::nodes::{Node, NodeKind};
use tiersim_models::transformer::card::Card;
use tiersim_models::transformer::format::{Format, Formats};
use tiersim_models::transformer::known::known;
use tiersim_models::transformer::training::{
    Attention, Checkpointing, Optimizer, Parallel, Router, Training, Zero,
};
use tiersim_models::units::{Bytes, PS_PER_S, Span};
use tiersim_models::workload::{ObjectKind, Trace};
use tiersim_policies::drive::drive;
use tiersim_policies::placed::Placed;
use tiersim_policies::planner::Planner;
use tiersim_sim::audit::Audit;
use tiersim_sim::durations::Durations;
use tiersim_sim::machine::SimMachine;
use tiersim_tests::build::{fair, hardware, law};

/// A device of 8 that meet in a switch, and servers that meet in a network.
fn server() -> Hardware {
    let (hbm, fast): (_, Law) = (law(0, u64::MAX), law(0, PS_PER_S));
    let mut hardware = hardware(&[(TierKind::Hbm, Bytes::MAX, hbm)], &[(0, 1, fast), (0, 2, fast)]);
    hardware.links.iter_mut().for_each(|link| link.service = fair(None, None));
    let node = |name: &str, kind| Node { name: name.into(), kind };
    hardware.nodes =
        vec![node("switch", NodeKind::NvlinkSwitch), node("network", NodeKind::NetworkSwitch)];
    hardware.server.devices = 8;
    hardware.server.within = Some(NodeId(1));
    hardware.server.between = Some(NodeId(2));
    hardware
}

/// The trace with nothing but model state: what ops do with other objects is left out.
fn state_only(trace: &Trace) -> Trace {
    use ObjectKind::{Gradient, Master, Optimizer, Weight};
    let is_state = |kind| matches!(kind, Weight | Gradient | Optimizer | Master);
    let mut ids = Vec::new();
    let mut left =
        Trace { objects: Vec::new(), ops: Vec::new(), uses: Vec::new(), ..trace.clone() };
    for object in &trace.objects {
        let kept = is_state(object.kind);
        ids.push(kept.then(|| ObjectId::at(left.objects.len())));
        left.objects.extend(kept.then(|| object.clone()));
    }
    for op in &trace.ops {
        let start = left.uses.len() as u32;
        for touched in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
            let used = ids[touched.object.index()];
            left.uses
                .extend(used.map(|object| tiersim_models::workload::Use { object, ..*touched }));
        }
        let mut op = op.clone();
        op.uses = start..left.uses.len() as u32;
        left.ops.push(op);
    }
    left
}

/// The most bytes in HBM on `ranks` ranks of a server, every op taking `span`.
fn peak(trace: Trace, ranks: u32, repeat: u32) -> u64 {
    assert_eq!(trace.problems(), []);
    let hardware = server();
    let durations = Durations::fixed(vec![Span::from_ps(1_000_000); trace.ops.len()]);
    let workload = Workload::new(trace);
    let capacities = [Bytes::MAX];
    let mut planner =
        Planner::new(&workload, Box::new(Placed::all_in_hbm(&workload.trace)), &capacities, repeat)
            .expect("it fits");
    let (start, routes) = (planner.start(), hardware.routes().expect("every tier is joined"));
    let mut machine = SimMachine::of_ranks(ranks, &hardware, routes, &workload, &durations, &start);
    let objects = workload.trace.objects.len();
    let audit = Audit::of_ranks(ranks, &hardware, &capacities, objects, &start);
    machine.audit(audit.expect("the start fits"));
    let mut ended = 0;
    drive(&mut planner, &mut machine, 256, |_, _, _| ended += 1).expect("no rule is broken");
    assert_eq!(ended, workload.trace.ops.len() * repeat as usize, "every op ran");
    machine.meters().peak[TierId(0).index()].get()
}

fn training(card: Card, stage: u8, data: u32) -> Training {
    Training {
        card,
        batch: 2,
        micro_batch: 1,
        sequence: 16,
        formats: Formats::all(Format::Bf16),
        optimizer: Optimizer::AdamW,
        checkpointing: Checkpointing::None,
        attention: Attention::Flash,
        dropout: false,
        parallel: Parallel { data, ..Parallel::default() },
        zero: Zero { stage, bucket: Bytes::new(20_000), ..Zero::default() },
        devices: 8,
        router: Router::default(),
        loader: None,
    }
}

#[test]
fn the_simulated_peak_of_model_state_is_the_formula() {
    let gpt2 = known("gpt2").expect("it is known").card();
    // Every size is a multiple of 128, so that shards are equal.
    let card =
        Card { layers: 2, hidden: 128, ffn: 512, heads: 4, kv_heads: 4, head_dim: 32, ..gpt2 };
    let card = Card { vocab: 256, positions: 128, ..card };
    let p = card.parameters();
    for (n, ranks) in [(1_u64, 1), (8, 1), (8, 8), (64, 2)] {
        let formulas = [16 * p, 4 * p + 12 * p / n, 2 * p + 14 * p / n, 16 * p / n];
        for (stage, expected) in formulas.into_iter().enumerate() {
            let trace = training(card.clone(), stage as u8, n as u32).trace();
            let found = peak(state_only(&trace), ranks, 2);
            assert_eq!(found, expected, "stage {stage} of {n}, {ranks} simulated");
        }
    }
}

#[test]
fn a_whole_step_runs_on_all_ranks_of_a_server() {
    let gpt2 = known("gpt2").expect("it is known").card();
    let card = Card { layers: 4, vocab: 256, positions: 128, ..gpt2 };
    for stage in 0..4 {
        for (tensor, sequence) in [(1, false), (4, true)] {
            let mut all = training(card.clone(), stage, 8);
            all.parallel.tensor = tensor;
            all.parallel.sequence = sequence;
            assert_eq!(all.problems(), []);
            let trace = all.trace();
            assert!(peak(trace.clone(), 8, 1) >= peak(state_only(&trace), 8, 1));
        }
    }
}
