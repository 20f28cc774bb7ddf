//! What makes a job fit: least sets of changes, and estimates by hand.

use crate::transformer::shape::gpt2;
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_fit::Rates;
use tiersim_models::results::memory_fit::{Fit, FitSearch, MemoryBudget, SwitchTable, Switched};
use tiersim_workloads::memory::account::{Keeps, Serving, Step, Training, training};
use tiersim_workloads::memory::fit::cost::cost;
use tiersim_workloads::memory::fit::switches::switches;
use tiersim_workloads::memory::fit::{Pace, fit, serving};
use tiersim_workloads::memory::inference::Kv;
use tiersim_workloads::memory::zero::MILLION;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::{Experts, Family};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, UpdateTime,
};

/// A model of 7B on GPUs of one node, 8 sequences of 2,048 tokens at once.
fn job(gpus: u64) -> Training {
    Training {
        gpus_per_node: gpus,
        step: Some(Step {
            shape: Card { vocab: 0, ..gpt2(32, 4096, 32) },
            batch: 8,
            micro_batch: 8,
            sequence: 2048,
            format: Format::Bf16,
            attention: Attention::Eager,
            kernels: Kernels::Compiled,
            optimizer_kernels: None,
            loss: Loss::Eager,
            dropout: true,
            checkpointing: Checkpointing::None,
            update: UpdateTime::After,
            loader: None,
        }),
        ..Training::new(7_000_000_000, gpus)
    }
}

fn budget(gib: u128) -> MemoryBudget {
    MemoryBudget { gpu: gib << 30, cpu: None, nvme: None }
}

fn found(job: &Training, budget: MemoryBudget, rates: Rates) -> FitSearch {
    fit(job, &budget, &Pace { rates, device: None }).expect("it fits 128 bits")
}

/// What the options of a change do to a job, read back from their text.
fn changed(job: &Training, changes: &[String]) -> Training {
    let mut job = job.clone();
    for change in changes {
        let (option, value) = change.split_once(' ').expect("an option and its value");
        let place = || Place::ALL.into_iter().find(|place| place.word() == value).expect("a place");
        let step = job.step.as_mut().expect("it has one");
        match option {
            "--stage" => job.stage = value.parse().expect("a stage"),
            "--offload-optimizer" => job.offload.optimizer = place(),
            "--offload-param" => job.offload.weights = place(),
            "--checkpointing" if value == "full" => step.checkpointing = Checkpointing::Full,
            "--checkpointing" if value.starts_with("layers:") => {
                let first = value["layers:".len()..].parse().expect("a number");
                step.checkpointing = Checkpointing::Layers(first);
            }
            "--activations" => step.format = Format::Int8,
            "--checkpointing" => step.checkpointing = Checkpointing::Selective,
            "--attention" => step.attention = Attention::Flash,
            "--micro-batch" => step.micro_batch = value.parse().expect("a number"),
            "--optimizer" => job.optimizer = Keeps::Named(Optimizer::Adam8Bit),
            other => panic!("{other}"),
        }
    }
    job
}

#[test]
fn what_is_found_fits_and_nothing_in_it_can_be_left_out() {
    for (gpus, gib) in [(1, 24), (8, 24), (8, 40), (8, 80), (64, 80), (64, 16)] {
        let (job, budget) = (job(gpus), budget(gib));
        let found = found(&job, budget, Rates::default());
        assert!(!found.fits);
        assert!(!found.least.is_empty(), "{gpus} GPUs of {gib} GiB");
        for one in &found.least {
            let account = training(&changed(&job, &one.changes)).unwrap();
            assert_eq!(one.bytes, [account.gpu, account.cpu_per_node, account.nvme_per_node]);
            assert!(account.gpu <= budget.gpu, "{:?}", one.changes);
            for out in 0..one.changes.len() {
                let mut fewer = one.changes.clone();
                let left_out = fewer.remove(out);
                let less = changed(&job, &fewer);
                // Places need their stage: without it the set is no setting.
                let places = less.offload.optimizer != Place::Gpu && less.stage == 0
                    || less.offload.weights != Place::Gpu && less.stage < 3;
                let account = training(&less).unwrap();
                assert!(places || account.gpu > budget.gpu, "{:?} without {left_out}", one.changes);
            }
        }
        let slowdowns: Vec<f64> =
            found.least.iter().map(|one| one.slowdown.unwrap_or(f64::INFINITY)).collect();
        assert!(slowdowns.is_sorted(), "{slowdowns:?}");
    }
}

#[test]
fn a_job_that_fits_needs_no_change_and_some_fit_nowhere() {
    let found_in = |gib| found(&job(8), budget(gib), Rates::default());
    let fits = found_in(4000);
    assert!(fits.fits);
    assert_eq!(fits.least.len(), 1);
    assert!(fits.least[0].changes.is_empty());
    assert_eq!(fits.least[0].slowdown, Some(1.0));
    assert!(found_in(0).least.is_empty());
    // Host memory that is too small sends optimizer state to the drives, or nowhere; or there is
    // more of it.
    let small = MemoryBudget { cpu: Some(1 << 30), nvme: Some(0), ..budget(12) };
    for one in found(&job(1), small, Rates::default()).least {
        assert!(one.bytes[1] <= (1 << 30) + one.more_cpu && one.bytes[2] == 0, "{:?}", one.changes);
    }
}

#[test]
fn computing_again_costs_its_share_of_flops() {
    let job = job(8);
    let own = cost(&job).unwrap();
    let (p, tokens) = (7_000_000_000u128, 8 * 2048);
    let core = 32 * 2048 * 4096;
    assert_eq!(own.flops, (6 * p + 12 * core) * tokens);
    let more = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        cost(&changed(&job, &changes)).unwrap().flops - own.flops
    };
    assert_eq!(more(&["--checkpointing full"]), (2 * p + 4 * core) * tokens);
    assert_eq!(more(&["--checkpointing selective"]), 4 * core * tokens);
    assert_eq!(more(&["--attention flash"]), 2 * core * tokens);
    assert_eq!(more(&["--attention flash", "--checkpointing selective"]), 2 * core * tokens);
    assert_eq!(more(&["--stage 3"]), 0);
}

#[test]
fn offload_is_bytes_over_rates() {
    let rates = Rates {
        flops: Some(1e14),
        host: Some(2.5e10),
        nvme: Some(5e9),
        host_memory: Some(1e11),
        memory: Some(1e12),
    };
    let mut job = job(8);
    let own = cost(&job).unwrap();
    (job.stage, job.offload.optimizer) = (2, Place::Nvme);
    let found = cost(&job).unwrap();
    // A rank has 875 M parameters: 2 bytes of gradients out, 2 of weights back, 28 on the host, and
    // 12 of state out and in; the node has 8 ranks.
    let rank = 875_000_000u128;
    assert_eq!((found.host, found.adam), (4 * rank, 8 * 28 * rank));
    assert_eq!(found.nvme, 8 * 24 * rank);
    // On the device: gradients and state read, state and weights written, of all parameters.
    assert_eq!((own.update, found.update), (8 * 28 * rank, 0));
    let more = (4 * rank) as f64 / 2.5e10 + (224 * rank) as f64 / 1e11 + (192 * rank) as f64 / 5e9;
    let away = found.seconds_away(&rates).unwrap();
    assert!((away - more).abs() < 1e-9, "{away} {more}");
    // What a rate is missing for has no estimate.
    assert_eq!(found.seconds_away(&Rates { nvme: None, ..rates }), None);
    // Two micro-batches: gradients go twice, weights come back once.
    job.step.as_mut().unwrap().micro_batch = 4;
    assert_eq!(cost(&job).unwrap().host, 6 * rank);
    // Half of the state: half of all of it.
    job.offload.ratio = MILLION / 2;
    assert_eq!(cost(&job).unwrap().host, 3 * rank);
}

/// A machine with host memory and drives.
fn machine() -> (MemoryBudget, Rates) {
    let rates = Rates {
        flops: Some(1e14),
        host: Some(2.5e10),
        nvme: Some(5e9),
        host_memory: Some(1e11),
        memory: Some(1e12),
    };
    (MemoryBudget { gpu: 24 << 30, cpu: Some(64 << 30), nvme: Some(1 << 42) }, rates)
}

#[test]
fn the_same_end_has_the_same_figures_whatever_was_typed() {
    let (budget, rates) = machine();
    let plain = job(8);
    let all = found(&plain, budget, rates);
    assert!(all.least.len() > 1);
    let mut compared = 0;
    for one in &all.least {
        // Typed as it ends, and as it ends but for one change.
        for out in 0..=one.changes.len() {
            let mut typed = one.changes.clone();
            if out < typed.len() {
                typed.remove(out);
            }
            let typed = changed(&plain, &typed);
            if typed.stage == 0 && typed.offload.optimizer != Place::Gpu {
                continue;
            }
            let ends = found(&typed, budget, rates);
            let end = changed(&plain, &one.changes);
            let same = ends.least.iter().filter(|fit| changed(&typed, &fit.changes) == end);
            for fit in same {
                let figures = |fit: &Fit| (fit.seconds, fit.tokens_per_s, fit.slowdown, fit.bytes);
                assert_eq!(figures(fit), figures(one), "{:?} without {out}", one.changes);
                compared += 1;
            }
        }
    }
    assert!(compared > all.least.len(), "{compared}");
    // Nothing is quicker than the quickest, and tokens per second are tokens over seconds.
    for one in &all.least {
        assert!(one.slowdown.is_some_and(|slowdown| slowdown >= 1.0), "{one:?}");
        let tokens = one.tokens_per_s.zip(one.seconds).map(|(tokens, seconds)| tokens * seconds);
        assert!(
            tokens.is_some_and(|tokens| (tokens - 8.0 * 8.0 * 2048.0).abs() < 1.0),
            "{tokens:?}"
        );
    }
}

#[test]
fn eight_bits_and_more_memory_of_the_host_are_offered() {
    let (budget, rates) = machine();
    let all = found(&job(8), budget, rates);
    let has = |what: &str| all.least.iter().any(|fit| fit.changes.iter().any(|c| c == what));
    assert!(has("--optimizer adam-8bit"), "{:?}", all.least);
    assert!(all.least.iter().any(|fit| fit.more_cpu > 0), "{:?}", all.least);
    for fit in &all.least {
        assert_eq!(fit.more_cpu, fit.bytes[1].saturating_sub(64 << 30));
    }
}

#[test]
fn what_is_served_is_made_to_fit_too() {
    let (budget, rates) = machine();
    let job = Serving {
        params: 13_000_000_000,
        weights: Format::Bf16,
        packed: None,
        experts: None,
        kv: Some(Kv {
            layers: 40,
            heads: 40,
            head_dim: 128,
            bytes: 2,
            windows: None,
            latent: None,
        }),
        batch: 32,
        context: 4096,
        page: 16,
        gpus: 1,
        gpus_per_node: 1,
        tensor: 1,
        pipeline: 1,
        context_ranks: 1,
        offload_weights: Place::Gpu,
        offload_kv: Place::Gpu,
        reserved: 0,
    };
    let found = serving::fit(&job, &budget, &rates).expect("it fits 128 bits");
    assert!(!found.fits && !found.least.is_empty());
    for fit in &found.least {
        assert!(fit.bytes[0] <= budget.gpu && fit.slowdown.is_some_and(|slowdown| slowdown >= 1.0));
    }
    // Weights of 26 GB over a link of 25 GB/s, then 26 GB and 4,096 tokens of one sequence from
    // memory.
    let job = Serving { offload_weights: Place::Cpu, batch: 1, ..job };
    let found = serving::fit(&job, &budget, &rates).expect("it fits 128 bits");
    assert!(found.fits);
    let kv = 2.0 * 40.0 * 40.0 * 128.0 * 2.0 * 4096.0;
    let seconds = found.least[0].seconds.expect("all rates are known");
    assert!((seconds - (26e9 / 2.5e10 + (26e9 + kv) / 1e12)).abs() < 1e-9, "{seconds}");
    // One token chooses two of eight experts, which are 24 of these 26 GB: the others stay away.
    let experts = Experts { count: 8, active: 2, ffn: 1, shared: 0, dense_first: 0 };
    let job = Serving { experts: Some((experts, 4_000_000_000)), ..job };
    let found = serving::fit(&job, &budget, &rates).expect("it fits 128 bits");
    let seconds = found.least[0].seconds.expect("all rates are known");
    assert!((seconds - (8e9 / 2.5e10 + (8e9 + kv) / 1e12)).abs() < 1e-9, "{seconds}");
}

fn switched(job: &Training) -> SwitchTable {
    let (budget, rates) = machine();
    switches(job, &budget, &Pace { rates, device: None }).expect("it fits 128 bits")
}

/// The row whose own options end with this one.
fn row<'a>(table: &'a SwitchTable, option: &str) -> &'a Switched {
    let is = |row: &&Switched| row.alone.changes.last().is_some_and(|last| last == option);
    table.rows.iter().find(is).unwrap_or_else(|| panic!("no row {option}"))
}

#[test]
fn every_row_is_the_account_of_what_its_options_say() {
    for gpus in [1, 8] {
        let job = job(gpus);
        let table = switched(&job);
        assert_eq!(table.rows.len(), 13, "with a head and eager kernels there are 15");
        for row in &table.rows {
            for fit in [&row.alone, &row.in_turn] {
                let account = training(&changed(&job, &fit.changes)).unwrap();
                let bytes = [account.gpu, account.cpu_per_node, account.nvme_per_node];
                assert_eq!(fit.bytes, bytes, "{:?}", fit.changes);
                assert_eq!(fit.cost, cost(&changed(&job, &fit.changes)).unwrap());
            }
        }
        // What the last row has is all of them, each option once.
        let last = &table.rows.last().unwrap().in_turn.changes;
        assert_eq!(last.len(), 8, "{last:?}");
        // Typed with them, nothing is left to be turned.
        assert!(switched(&changed(&job, last)).rows.is_empty());
    }
}

#[test]
fn switches_save_what_their_formulas_say() {
    let job = job(8);
    let table = switched(&job);
    let base = table.base.bytes[0];
    let saved = |option: &str| base - row(&table, option).alone.bytes[0];
    let (s, b, h, a, layers) = (2048u128, 8u128, 4096u128, 32u128, 32u128);
    let (p, n) = (7_000_000_000u128, 8u128);
    // Scores, their softmax and its mask go; four bytes per token and head come.
    assert_eq!(saved("--attention flash"), layers * (5 * a * s * s * b - 4 * a * s * b));
    // Half the blocks keep their input only.
    let block = 34 * s * b * h + 5 * a * s * s * b + 2 * 8 * s * b;
    assert_eq!(saved("--checkpointing layers:16"), 16 * (block - 2 * s * b * h));
    // All of them do, and one is there once more, whose input is there already.
    assert_eq!(saved("--checkpointing full"), 31 * (block - 2 * s * b * h));
    assert_eq!(saved("--optimizer adam-8bit"), p * 12 - p * 603_125 / 100_000);
    assert_eq!(saved("--stage 1"), 12 * p * (n - 1) / n);
    assert_eq!(saved("--stage 2"), (12 + 2) * p * (n - 1) / n);
    assert_eq!(saved("--stage 3"), (12 + 2 + 2) * p * (n - 1) / n);
    for (place, at) in [("cpu", 1), ("nvme", 2)] {
        let option = format!("--offload-optimizer {place}");
        assert_eq!(saved(&option), 12 * p);
        assert_eq!(row(&table, &option).alone.bytes[at], 12 * p);
        let option = format!("--offload-param {place}");
        assert_eq!(row(&table, &option).alone.bytes[at], 2 * p);
    }
    // One of eight sequences at a time, masks behind the embedding too.
    let activations = layers * block + s * b * h;
    assert_eq!(saved("--micro-batch 1"), activations / 8 * 7);
}

#[test]
fn eight_bits_of_activations_save_their_bytes_and_cost_their_time() {
    let job = job(1);
    let table = switched(&job);
    let found = row(&table, "--activations int8");
    let (s, b, h, a, layers) = (2048u128, 8u128, 4096u128, 32u128, 32u128);
    // Of 34 s b h two are masks, of 5 a s s b one; the others are numbers of 16 bits, which keep
    // 260 bytes of 512.
    let numbers = layers * (16 * s * b * h + 2 * a * s * s * b);
    assert_eq!(table.base.bytes[0] - found.alone.bytes[0], numbers * 2 - numbers * 260 / 256);
    // Read whole and written small, read small and written whole.
    assert_eq!(found.alone.cost.compressed, 2 * (numbers * 2 + numbers * 260 / 256));
    let more = found.alone.seconds.zip(table.base.seconds).map(|(with, without)| with - without);
    let expected = found.alone.cost.compressed as f64 / 1e12;
    assert!(more.is_some_and(|more| (more - expected).abs() < 1e-9), "{more:?} {expected}");
    // With checkpoints it is compressed when it is computed again.
    let full = changed(&job, &["--checkpointing full".to_owned(), "--activations int8".to_owned()]);
    assert_eq!(cost(&full).unwrap().compressed, found.alone.cost.compressed);
}

#[test]
fn ops_of_a_step_compress_what_the_formula_says() {
    for family in [Family::Gpt2, Family::Llama] {
        let is_gpt2 = family == Family::Gpt2;
        let card = Card {
            name: "small".to_owned(),
            family,
            layers: 4,
            hidden: 256,
            ffn: 1024,
            heads: 4,
            kv_heads: 4,
            head_dim: 64,
            vocab: 512,
            positions: if is_gpt2 { 512 } else { 0 },
            tied: is_gpt2,
            qkv_bias: is_gpt2,
            experts: None,
            window: None,
            full_attention_every: None,
            latent: None,
        };
        use Checkpointing::{Every, Full, Layers, None as All, Selective};
        for checkpointing in [All, Selective, Full, Every(2), Every(3), Layers(2)] {
            for attention in [Attention::Flash, Attention::Eager] {
                let mut job = job(1);
                let params = card.parameters();
                (job.params, job.card) = (params, Some(card.clone()));
                let step = job.step.as_mut().unwrap();
                step.shape = card.clone();
                (step.sequence, step.batch, step.micro_batch) = (512, 4, 2);
                (step.attention, step.checkpointing) = (attention, checkpointing);
                (step.dropout, step.format) = (is_gpt2, Format::Int8);
                let trace = job.generated().expect("it makes a step").trace();
                let bytes = |word: &str| -> u64 {
                    let own = trace.ops.iter().filter(|op| op.name.ends_with(word));
                    let again =
                        own.filter(|op| word != "compress" || !op.name.ends_with("decompress"));
                    again.map(|op| op.bytes.get()).sum()
                };
                let case = format!("{family:?} {checkpointing:?} {attention:?}");
                let expected = cost(&job).unwrap().compressed;
                assert_eq!(u128::from(2 * bytes("compress")), expected, "{case}");
                assert_eq!(bytes("compress"), bytes("decompress"), "{case}");
                // Without compression there is no such op.
                job.step.as_mut().unwrap().format = Format::Bf16;
                let trace = job.generated().expect("it makes a step").trace();
                assert!(trace.ops.iter().all(|op| !op.name.ends_with("compress")), "{case}");
            }
        }
    }
}
