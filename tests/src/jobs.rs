//! Random training jobs, asked twice: what `memory` says by formula, and what a generated step
//! holds when it runs.
//!
//! The formula and the step know of each other only what they share: the modules of a model, and
//! how many bytes a number, a shard or a tensor's part on one rank takes. What may differ is said
//! in `docs/howto/memory.md`, part by part.
//! Invariant: a job depends on its seed alone.

use crate::prelude::*;
use std::ops::RangeInclusive;
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_account::Place;
use tiersim_models::workload::Object;
use tiersim_workloads::memory::account;
use tiersim_workloads::memory::activations::{Stages, stored};
use tiersim_workloads::memory::zero::{MILLION, Offload};
use tiersim_workloads::transformer::adapters::{Lora, Target};
use tiersim_workloads::transformer::card::{Biases, Card, Experts, Family, Latent};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Parallel, Router, Training, UpdateTime, Zero,
};

/// A device of 8 that meet in a switch, and servers that meet in a network; memory without end.
pub fn server() -> Hardware {
    let fast = law(0, ONE);
    let mut hardware = hardware(&[free(TierKind::Hbm)], &[(0, 1, fast), (0, 2, fast)]);
    hardware.links.iter_mut().for_each(|link| link.service = fair(None, None));
    let node = |name: &str, kind| Node { name: name.into(), kind };
    hardware.nodes =
        vec![node("switch", NodeKind::NvlinkSwitch), node("network", NodeKind::NetworkSwitch)];
    hardware.server.devices = 8;
    hardware.server.within = Some(NodeId(1));
    hardware.server.between = Some(NodeId(2));
    hardware
}

/// The most bytes in HBM on `ranks` ranks of a server, every op taking the same time.
pub fn peak(trace: Trace, ranks: u32, repeat: u32) -> u64 {
    assert_eq!(trace.problems(), []);
    let (policy, ops) = (Box::new(StaticPlacement::all_in_hbm(&trace)), trace.ops.len());
    let world = World::of(server(), trace, vec![Span::from_ps(1_000_000); ops]).repeated(repeat);
    let (ends, meters) = world.measured(world.planner(policy).expect("it fits"), ranks);
    assert!(ends.iter().all(|&end| end > 0), "every op ran");
    meters.peak[HBM.index()].get()
}

/// Draws by integers only.
struct Dice(ChaCha12Rng);

impl Dice {
    fn within(&mut self, range: RangeInclusive<u32>) -> u32 {
        self.0.random_range(range)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.0.random_range(0..list.len())]
    }
}

/// A small model of any family that `tensor` ranks can share.
fn card(dice: &mut Dice, tensor: u32, layers: u32) -> Card {
    let family = dice.pick(&Family::ALL);
    let (kv_heads, head_dim) = (tensor * dice.within(1..=2), 2 * dice.within(1..=8));
    let grouped = !family.has_plain_heads();
    let heads = kv_heads * if grouped { dice.within(1..=3) } else { 1 };
    let hidden = if grouped { 8 * dice.within(1..=12) } else { heads * head_dim };
    let (may, must) = family.experts();
    let has_experts = must || (may && dice.within(0..=1) == 1);
    let ffn = tensor * dice.within(1..=40);
    let experts = has_experts.then(|| Experts {
        count: dice.pick(&[4, 8]),
        active: dice.within(1..=2),
        ffn,
        shared: if family.may_share() { dice.within(0..=1) } else { 0 },
        dense_first: 0,
    });
    Card {
        name: "random".into(),
        family,
        layers,
        hidden,
        ffn: if grouped { ffn } else { 4 * hidden },
        heads,
        kv_heads,
        head_dim,
        vocab: tensor * dice.within(1..=300),
        positions: if family.learns_positions() { 256 } else { 0 },
        tied: dice.within(0..=1) == 1 || !family.is_causal(),
        qkv_bias: match family.biases() {
            Biases::All | Biases::Attention => true,
            Biases::None | Biases::Feed => false,
            Biases::OpenQkv | Biases::OpenAttention => dice.within(0..=1) == 1,
        },
        experts,
        window: None,
        full_attention_every: None,
        latent: None,
    }
}

/// Every third job trains adapters of some matrices instead, by draws of its own.
fn with_adapters(job: Training, seed: u64) -> Training {
    let mut dice = Dice(ChaCha12Rng::seed_from_u64(!seed));
    let (rank, targets) = (dice.within(1..=9), dice.within(1..=127));
    let targets = Target::ALL.into_iter().filter(|&target| targets & (1 << target as u8) > 0);
    let lora = Lora { rank, targets: targets.collect::<Vec<Target>>().into() };
    let packed = [
        None,
        Some(Packed::Nf4 { group: 64, double: false }),
        Some(Packed::Nf4 { group: 5, double: true }),
        Some(Packed::Int4 { group: 7 }),
    ];
    let formats = Formats { packed: dice.pick(&packed), ..job.formats };
    let adapted = Training { lora: Some(lora), formats, ..job.clone() };
    let is_one = dice.within(0..=2) == 0 && adapted.problems().is_empty();
    if is_one { adapted } else { job }
}

/// The same with blocks of DeepSeek's: experts behind blocks without, shared ones, compressed keys
/// and values; by draws of its own.
pub fn as_deepseek(job: &Training, seed: u64) -> Training {
    let mut dice = Dice(ChaCha12Rng::seed_from_u64(!seed));
    let Training { card, parallel, .. } = job;
    let (tensor, layers) = (parallel.tensor, card.layers);
    let in_front = if parallel.pipeline > 1 { 0 } else { dice.within(1..=3).min(layers - 1) };
    let experts = (dice.within(0..=3) > 0).then(|| Experts {
        count: dice.pick(&[4, 8]),
        active: dice.within(1..=2),
        ffn: tensor * dice.within(1..=40),
        shared: dice.within(0..=2),
        dense_first: in_front,
    });
    let [queries, rank, value] = [0; 3].map(|_| dice.within(1..=40));
    let queries = dice.pick(&[None, Some(queries)]);
    let rotary = 2 * dice.within(1..=4);
    let latent = (dice.within(0..=3) > 0).then_some(Latent { queries, rank, rotary, value });
    let heads = tensor * dice.within(1..=3);
    let card = Card {
        family: Family::Deepseek,
        ffn: tensor * dice.within(1..=40),
        heads,
        kv_heads: heads,
        head_dim: rotary + 2 * dice.within(1..=8),
        positions: 0,
        qkv_bias: false,
        experts,
        latent,
        ..card.clone()
    };
    let expert = if experts.is_some() { parallel.expert } else { 1 };
    let kernels = dice.pick(&[Kernels::Compiled, Kernels::Fused]);
    let attention = Attention::Flash;
    let parallel = Parallel { expert, ..*parallel };
    Training { card, parallel, kernels, attention, ..job.clone() }
}

/// Interleaved stages have as many layers each, others as many or one less.
fn layers(dice: &mut Dice, pipeline: u32, interleave: u32) -> u32 {
    match interleave {
        1 => dice.within(pipeline..=3 * pipeline),
        _ => pipeline * interleave * dice.within(1..=3),
    }
}

/// The job of a seed: a model, how ranks share it, what is kept, and where its state goes.
pub fn job(seed: u64) -> (Training, Offload) {
    let mut dice = Dice(ChaCha12Rng::seed_from_u64(seed));
    loop {
        let dice = &mut dice;
        let (tensor, pipeline) = (dice.pick(&[1, 1, 2, 4, 8]), dice.pick(&[1, 1, 1, 2, 3, 4]));
        let interleave = if pipeline > 1 { dice.pick(&[1, 1, 2, 3]) } else { 1 };
        let layers = layers(dice, pipeline, interleave);
        let card = card(dice, tensor, layers);
        let data = dice.pick(&[1, 2, 3, 4, 8, 16, 64]);
        let expert = card.experts.map_or(1, |_| dice.pick(&[1, 2, 4]));
        let micro_batch = dice.within(1..=3);
        let parallel = Parallel {
            data,
            context: 1,
            tensor,
            sequence: tensor > 1 && dice.within(0..=1) == 1,
            overlap: true,
            pipeline,
            interleave,
            expert,
        };
        let stage = dice.within(0..=3) as u8;
        let (optimizer, weights, ratio) = if stage == 0 {
            (Place::Gpu, Place::Gpu, MILLION)
        } else {
            let weights = if stage == 3 { dice.pick(&Place::ALL) } else { Place::Gpu };
            let ratio = dice.pick(&[MILLION, MILLION, 500_000, 125_000]);
            (dice.pick(&Place::ALL), weights, ratio)
        };
        let offload = Offload { optimizer, weights, ratio };
        let away = optimizer != Place::Gpu;
        let formats = Formats {
            activations: dice.pick(&[Format::Bf16, Format::Bf16, Format::Fp32, Format::Int8]),
            gradients: dice.pick(&[Format::Bf16, Format::Fp32]),
            ..Formats::all(dice.pick(&[Format::Bf16, Format::Fp16]))
        };
        let host_update = if away { (ratio / 1000) as u16 } else { 0 };
        let training = Training {
            card,
            batch: micro_batch * pipeline * dice.within(1..=3),
            micro_batch,
            sequence: u64::from(tensor * dice.within(1..=24)),
            formats,
            optimizer: dice.pick(&tiersim_workloads::memory::optimizer::NAMES).1,
            update: dice.pick(&[UpdateTime::After, UpdateTime::InBackward]),
            checkpointing: match dice.within(0..=5) {
                0 | 1 => Checkpointing::None,
                2 => Checkpointing::Selective,
                3 => Checkpointing::Full,
                4 => Checkpointing::Layers(dice.within(1..=3)),
                _ => Checkpointing::Every(dice.within(1..=4)),
            },
            attention: dice.pick(&[Attention::Flash, Attention::Eager]),
            kernels: Kernels::Compiled,
            optimizer_kernels: None,
            loss: dice.pick(&[Loss::Eager, Loss::Fused]),
            dropout: dice.within(0..=1) == 1,
            parallel,
            zero: Zero {
                stage,
                host_update,
                bucket: Bytes::new(dice.pick(&[1, 5_000, 500_000])),
                prefetch: dice.within(0..=2),
                reshard: dice.within(0..=3) > 0,
                ..Zero::default()
            },
            devices: 8,
            router: Router::default(),
            loader: None,
            lora: None,
        };
        if training.problems().is_empty() {
            let training = with_adapters(training, seed);
            // Adapters run no eager kernels.
            let adapted = training.lora.is_some();
            return (if adapted { training } else { with_kernels(training, seed) }, offload);
        }
    }
}

/// The same with the kernels that a seed draws, apart from all else, where they are known of it.
fn with_kernels(training: Training, seed: u64) -> Training {
    let mut dice = Dice(ChaCha12Rng::seed_from_u64(!seed));
    let kernels = match dice.pick(&[Kernels::Compiled, Kernels::Eager]) {
        Kernels::Compiled => dice.pick(&[Kernels::Compiled, Kernels::Fused]),
        kernels => kernels,
    };
    let other = Training { kernels, ..training.clone() };
    if other.problems().is_empty() { other } else { training }
}

/// The bytes of all objects that are wanted.
fn sum(trace: &Trace, wanted: impl Fn(&Object) -> bool) -> u128 {
    trace.objects.iter().filter(|o| wanted(o)).map(|o| u128::from(o.bytes.get())).sum()
}

/// Statistics of norms that the formula counts and a step has no objects for.
fn norms(job: &Training) -> u128 {
    let parallel = job.parallel;
    let tokens = u64::from(job.micro_batch) * job.sequence / u64::from(parallel.context);
    let ranks = if parallel.sequence { parallel.tensor } else { 1 };
    let each = 4 * u128::from(job.card.family.norm_statistics());
    let norms = u128::from(job.card.family.block_norms());
    let rows = match job.card.latent {
        Some(of) => each * (1 + u128::from(of.queries.is_some())) * u128::from(tokens),
        None => 0,
    };
    let one = norms * each * u128::from(tokens.div_ceil(ranks.into())) + rows;
    let layers = job.card.layers.div_ceil(parallel.pipeline);
    // In every block that is kept, and in those of a stretch that is computed again.
    one * u128::from(layers) * (Stages::of(job).in_flight() + 1)
}

/// The least and the most that this rank's experts are given of what they would be if all had as
/// much, in thousandths.
fn loads(job: &Training, trace: &Trace) -> (u128, u128) {
    let Some(experts) = job.card.experts else { return (1000, 1000) };
    let tokens = u128::from(job.micro_batch) * u128::from(job.sequence);
    let numbers = tokens * u128::from(experts.active) * u128::from(job.card.hidden);
    // Where no gradient needs them they are buffers.
    let format = match job.formats.activations {
        Format::Int8 if job.lora.is_some() => Format::Bf16,
        format => format,
    };
    // As the objects are measured: compressed ones with their ranges.
    let even = stored(numbers, format).expect("a small job has small sums");
    let given = trace.objects.iter().filter(|object| object.name.ends_with(".given"));
    let loads = given.map(|object| u128::from(object.bytes.get()) * 1000);
    // Where no token came the object has room for one, with the range of a compressed one.
    let hidden = u128::from(job.card.hidden);
    let one = 1000 * stored(hidden, format).expect("a small job has small sums");
    let least = |load| if load <= one { 0 } else { load };
    let (least, most) = loads.fold((1000 * even, 1000 * even), |(so_far, most), load| {
        (so_far.min(least(load)), most.max(load))
    });
    (least / even, most.div_ceil(even))
}

/// Where formula and run disagree about a job by more than the slack that docs/howto/memory.md states.
pub fn disagreement(job: &Training, offload: Offload) -> Option<String> {
    let of = |job: &Training, offload| {
        account::training(&account::Training::of(job, offload)).expect("a small job has small sums")
    };
    let (account, trace) = (of(job, offload), job.trace());
    let state = || state(job, offload, &account, &trace);
    let activations = || activations(job, &account, &trace);
    // Where all of it runs on the device, a machine with nothing else runs it.
    let on_device = || {
        let job = Training { zero: Zero { host_update: 0, ..job.zero }, ..job.clone() };
        whole(&job, &of(&job, Offload::default()))
    };
    state().or_else(activations).or_else(on_device)
}

fn everywhere(account: &Account, key: &str) -> u128 {
    Place::ALL.iter().map(|&place| account.bytes(key, place)).sum()
}

/// Model state: to the byte; what the host updates of it in whole parameters of every module.
fn state(job: &Training, offload: Offload, account: &Account, trace: &Trace) -> Option<String> {
    use ObjectKind::{Gradient, Master, Optimizer, Weight};
    let workload = Workload::new(trace.clone());
    for (key, kinds) in [
        ("weights", &[Weight][..]),
        ("gradients", &[Gradient]),
        ("optimizer", &[Optimizer, Master]),
    ] {
        // Gradients that are given back one by one are never all there.
        let held = |wanted: &dyn Fn(&Object) -> bool| {
            if key == "gradients" && job.update == UpdateTime::InBackward {
                u128::from(workload.most_alive(wanted))
            } else {
                sum(trace, wanted)
            }
        };
        let (formula, run) =
            (everywhere(account, key), held(&|object| kinds.contains(&object.kind)));
        if formula != run {
            return Some(format!("{key}: {formula} by formula, {run} in the step"));
        }
        let follows = key == "optimizer" || key == "gradients" && job.zero.stage >= 2;
        if offload.optimizer == Place::Gpu || !follows {
            continue;
        }
        let is_host = |o: &Object| kinds.contains(&o.kind) && o.name.ends_with(".host");
        let run = held(&is_host);
        let away: u128 =
            [Place::Cpu, Place::Nvme].iter().map(|&place| account.bytes(key, place)).sum();
        let pieces = trace.objects.iter().filter(|object| kinds.contains(&object.kind)).count();
        if run.abs_diff(away) > 8 * pieces as u128 {
            return Some(format!("{key} of the host: {away} by formula, {run} in the step"));
        }
    }
    None
}

const ACTIVATIONS: [&str; 5] = [
    "activations",
    "activation_statistics",
    "recomputed_activations",
    "embedding_activations",
    "head_activations",
];

/// Activations: to the byte but for statistics of norms, compressed ranges of a fused matrix, and
/// experts' loads.
fn activations(job: &Training, account: &Account, trace: &Trace) -> Option<String> {
    let formula: u128 = ACTIVATIONS.iter().map(|key| everywhere(account, key)).sum();
    let workload = Workload::new(trace.clone());
    let run = u128::from(workload.most_alive(|object| object.kind == ObjectKind::Activation));
    let (least, most) = loads(job, trace);
    let ranges = if job.formats.activations == Format::Int8 && job.card.experts.is_some() {
        4 * trace.objects.iter().filter(|o| o.kind == ObjectKind::Activation).count() as u128
    } else {
        0
    };
    let least = (formula.saturating_sub(norms(job)) * least / 1000).saturating_sub(ranges);
    let most = formula * most / 1000 + ranges;
    let found = format!("activations: {formula} by formula, {run} in the step");
    (run < least || run > most).then_some(found)
}

/// All of it, on a machine whose memory has no end: no more than the formula, and no less than what
/// it says without the buffers and the gradients, which come at another moment than the most
/// activations.
fn whole(job: &Training, account: &Account) -> Option<String> {
    let trace = job.trace();
    let (least, most) = loads(job, &trace);
    let formula = account.gpu * most / 1000;
    let buffers = ["gathered_weights", "buckets", "working", "gradients"];
    let later: u128 = buffers.iter().map(|key| everywhere(account, key)).sum();
    let least = (account.gpu - later).saturating_sub(norms(job)) * least / 1000;
    let run = u128::from(peak(trace, 1, 2));
    let ranges = 4 * u128::from(job.card.layers) * 64;
    let found = format!("all: {formula} by formula, {run} in the run, at least {least}");
    (run > formula || run + ranges < least).then_some(found)
}
