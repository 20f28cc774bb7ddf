//! Records made by hand, for tests and for the gallery of charts.

use std::sync::Arc;
use tiersim_models::hardware::{Capacity, Fact, Source, TierKind};
use tiersim_models::results::{AxisValue, CaseRan, Lookahead, Params};
use tiersim_models::results::{
    CaseRecord, ChannelName, Conditions, Figures, MachineFacts, OutOfMemory, Outcome, PathPart,
    Residency, RunRecord, ShownStep, Slice, SliceDetail, Split, Timeline, Track,
};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Phase;

const GIB: f64 = (1u64 << 30) as f64;

/// Figures of a case with this mean step and peak of HBM.
pub(crate) fn figures(step_ms: f64, hbm_gib: f64) -> Figures {
    let step = |factor: f64| Span::from_ps((step_ms * factor * 1e9).round() as u64);
    let copied = ((step_ms - 400.0).max(0.0) * 2.4e7) as u64;
    let slice = |track, name: &str, start: u64, span: u64, bytes: u64| Slice {
        track,
        name: name.into(),
        detail: SliceDetail::Op(Phase::Forward, Some("layers.0".into())),
        start: Time::from_ps(5_000_000_000 + start),
        span: Span::from_ps(span),
        bytes: Bytes::new(bytes),
    };
    Figures {
        steps: [step(0.99), step(1.0), step(1.0), step(1.01)].into_iter().collect(),
        peak: vec![Bytes::new((hbm_gib * GIB) as u64), Bytes::gib(31), Bytes::ZERO],
        moved: vec![Bytes::new(copied * 4), Bytes::new(copied * 3), Bytes::ZERO, Bytes::ZERO],
        busy: vec![step(0.8), step(0.6), Span::ZERO, Span::ZERO],
        stall: vec![step(0.3), step(0.01), Span::ZERO, Span::ZERO],
        in_place: vec![Span::ZERO, step(0.02), Span::ZERO],
        compute: step(3.5),
        split: Split::of_parts(
            4,
            3,
            &[
                (PathPart::Compute(Phase::Forward), step(0.99)),
                (PathPart::Recompute, step(1.0)),
                (PathPart::Copy(0), step(1.0)),
                (PathPart::InPlace(1), step(1.01)),
            ],
        ),
        hits: 900,
        misses: 100,
        events: 12_345,
        timeline: Timeline {
            slices: vec![
                slice(Track::Stream(0), "aten.mm", 0, 1_500_001, 0),
                slice(Track::Channel(0), "layers.1.weight", 7, 999_999, 4096),
                slice(Track::Channel(0), "layers.2.weight", 8, 5, 4096),
                slice(Track::Stream(0), "aten.add", 1_500_001, 3, 0),
            ],
            steps: vec![ShownStep {
                number: 3,
                start: Time::from_ps(5_000_000_000),
                span: Span::from_ps(1_500_004),
            }],
            held: vec![Residency {
                at: Time::from_ps(5_000_000_009),
                tier: 0,
                bytes: Bytes::gib(1),
            }],
        },
        memory: Vec::new(),
        ..Figures::default()
    }
}

/// The outcome of a case with these figures.
pub(crate) fn done(step_ms: f64, hbm_gib: f64) -> Outcome {
    figures(step_ms, hbm_gib).into()
}

fn case(label: &str, policy: &str, details: &str, outcome: Outcome) -> CaseRecord {
    CaseRecord {
        label: label.to_owned(),
        details: details.to_owned(),
        params: Params::default(),
        conditions: 0,
        ran: Arc::new(CaseRan {
            policy: policy.to_owned(),
            runtime: Default::default(),
            packed: Vec::new(),
            statistics: None,
            hbm_budget: Bytes::gib(40).into(),
            outcome,
            placement: None,
            economics: Default::default(),
            hidden: Vec::new(),
            left_out: 0,
            long_run: None,
            pressure: None,
            hints: None,
            emulated: false,
            lookahead: Lookahead::Past,
            learned: false,
            baseline_step: figures(402.5, 71.0).mean_step(),
            baseline_peak: Bytes::ZERO,
            bound_step: Span::ZERO,
            bound_by: "critical path".to_owned(),
        }),
    }
}

fn out_of_memory(need: u64) -> Outcome {
    Outcome::OutOfMemory(Box::new(OutOfMemory {
        tier: "hbm".to_owned(),
        capacity: Bytes::gib(40).into(),
        need: Bytes::mib(need),
        free: Bytes::mib(117),
        largest: None,
        hidden: Vec::new(),
        object: "layers.31.mlp.down_proj.weight.exp_avg_sq".to_owned(),
        at: "step 0, op 417 aten._foreach_add".to_owned(),
        remedy: None,
    }))
}

/// A record without cases.
pub(crate) fn bare(name: &str) -> RunRecord {
    let channel =
        |ends: &str, link: &str| ChannelName { ends: ends.to_owned(), link: link.to_owned() };
    RunRecord {
        scenario: name.to_owned(),
        about: "What does a training step of an 8B model cost when HBM shrinks from 80 GiB to \
                40 GiB and optimizer state moves to host memory over PCIe 5?"
            .to_owned(),
        fingerprint: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
            .to_owned(),
        conditions: vec![Conditions {
            hardware: "h100-sxm-pcie5".to_owned().into(),
            tiers: vec![
                ("hbm".to_owned(), TierKind::Hbm),
                ("dram".to_owned(), TierKind::Dram),
                ("nvme".to_owned(), TierKind::Nvme),
            ]
            .into(),
            channels: vec![
                channel("dram->hbm", "pcie"),
                channel("hbm->dram", "pcie"),
                channel("nvme->dram", "nvme"),
                channel("dram->nvme", "nvme"),
            ]
            .into(),
            workload: "llama-8b-adamw-b4".to_owned().into(),
            op_time: "roofline on h100-sxm-pcie5, bf16".to_owned().into(),
            seed: 1,
            assumed_numbers: 3,
            tokens_per_step: 16_384,
            devices: 1,
            counts_steps: false,
            baseline: figures(402.5, 71.0).into(),
            bound: Span::from_ps(388_100_000_000),
            bound_curve: Vec::new(),
        }],
        power_and_price: Vec::new(),
        assumed: Vec::new(),
        machines: Vec::new(),
        axes: Vec::new(),
        results: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        uncertainty: None,
        replications: None,
    }
}

/// Ten cases over three policies, two ways of access, one of them out of memory.
pub(crate) fn training() -> RunRecord {
    let mut record = bare("llama-8b-shrinking-hbm");
    record.results = vec![case("all in HBM", "all-hbm", "", out_of_memory(1344))];
    for (label, policy, details, step, gib) in [
        ("LRU 64 GiB", "lru", "", 431.0, 63.2),
        ("LRU 48 GiB", "lru", "", 618.4, 47.8),
        ("LRU 32 GiB", "lru", "", 934.0, 31.9),
        ("Adam 30/50 in place", "adam-state", "shares 0.3/0.5 of modules, in place", 512.0, 38.0),
        ("Adam 50/50 in place", "adam-state", "shares 0.5/0.5 of modules, in place", 468.0, 49.1),
        ("Adam 70/30 in place", "adam-state", "shares 0.7/0.3 of modules, in place", 430.2, 58.7),
        ("Adam 30/50 migrate", "adam-state", "shares 0.3/0.5 of modules, migrate", 474.0, 41.0),
        ("Adam 50/50 migrate", "adam-state", "shares 0.5/0.5 of modules, migrate", 441.0, 52.0),
        ("Adam 70/30 migrate", "adam-state", "shares 0.7/0.3 of modules, migrate", 416.0, 61.3),
    ] {
        record.results.push(case(label, policy, details, done(step, gib)));
    }
    record.results[4].placement = Some(
        vec![("layers.1".to_owned(), 2), ("layers.0".to_owned(), 0), ("head".to_owned(), 1)].into(),
    );
    record
}

/// 231 pairs of shares under two ways of access: 462 points, of which some are infeasible.
pub(crate) fn sweep() -> RunRecord {
    let mut record = bare("adam-state-thresholds");
    record.about =
        "Which shares of modules in HBM and in host memory keep a step within 10 %?".to_owned();
    for access in ["in place", "migrate"] {
        for hbm in 0..=20u32 {
            for cpu in 0..=20u32 {
                let (h, c) = (f64::from(hbm) / 20.0, f64::from(cpu) / 20.0);
                let params = vec![
                    ("policy.shares.hbm".to_owned(), AxisValue::Number(h)),
                    ("policy.shares.cpu".to_owned(), AxisValue::Number(c)),
                    ("policy.access".to_owned(), AxisValue::Text(access.to_owned())),
                ];
                if hbm + cpu > 20 {
                    record.skipped.push((params.into(), "shares add up to more than 1".into()));
                    continue;
                }
                let ssd = 1.0 - h - c;
                let slow = if access == "migrate" { 1.0 } else { 1.9 };
                let wiggle = f64::from((hbm * 7 + cpu * 13) % 5) * 2.0;
                let step = 404.0 + slow * (180.0 * c * (1.0 - h) + 900.0 * ssd * ssd) + wiggle;
                let gib = 14.0 + 57.0 * h + if access == "migrate" { 6.0 } else { 0.0 };
                let outcome = if h > 0.85 { out_of_memory(900) } else { done(step, gib) };
                let details = format!("shares {h}/{c} of modules, {access}");
                let mut case =
                    case(&format!("hbm {h}, cpu {c}, {access}"), "adam-state", &details, outcome);
                case.params = params.into();
                case.hbm_budget = Bytes::gib(64).into();
                record.results.push(case);
            }
        }
    }
    record.axes = axes(&record);
    record
}

/// Names of the axes of the first case.
fn axes(record: &RunRecord) -> Vec<String> {
    record.results[0].params.iter().map(|(axis, _)| axis.clone()).collect()
}

/// One case.
pub(crate) fn single() -> RunRecord {
    let mut record = bare("single");
    record.results = vec![case("only", "lru", "", done(500.0, 40.0))];
    record
}

/// Names from somebody who wishes us ill, or who likes long ones.
pub(crate) fn hostile() -> RunRecord {
    let mut record = bare("</text><script>alert(1)</script> & \u{202e}gnp.exe\u{1b}[31m");
    record.about = "a & b < c > d \"e\" 'f' \u{200f}rtl \u{0} ".repeat(30);
    record.conditions[0].hardware = "=HYPERLINK(\"http://x\")".to_owned().into();
    record.results = vec![
        case("=cmd|' /C calc'!A0", "<script>", "", done(500.0, 40.0)),
        case(&"long ".repeat(80), "@SUM(1)", "-x", done(600.0, 30.0)),
        case("größe 日本語 \u{202e}abc", "مرحبا", "", done(550.0, 35.0)),
        case(&"W".repeat(300), "all-hbm", "", out_of_memory(3)),
    ];
    record
}

/// Every case out of memory, two at the same budget, one with an unlimited one.
pub(crate) fn all_failed() -> RunRecord {
    let mut record = bare("nothing-fits");
    for (label, budget) in [
        ("all in HBM", Bytes::gib(40).into()),
        ("Adam 100/0", Bytes::gib(40).into()),
        ("LRU 8 GiB", Bytes::gib(8).into()),
        ("no DRAM", Capacity::Unlimited),
    ] {
        let mut failed = case(label, "lru", "", out_of_memory(2048));
        failed.hbm_budget = budget;
        record.results.push(failed);
    }
    record
}

/// Twelve cases at the very same place.
pub(crate) fn all_equal() -> RunRecord {
    let mut record = bare("all-equal");
    for index in 0..12 {
        let label = format!("case {index}");
        record.results.push(case(&label, "lru", "", done(402.5, 71.0)));
    }
    record.conditions[0].bound = record.base().baseline.mean_step();
    record
}

/// Steps from 0.4 s to 3 minutes: a logarithmic axis.
pub(crate) fn wide() -> RunRecord {
    let mut record = bare("wide-range");
    for (index, step) in [410.0, 900.0, 4_000.0, 21_000.0, 180_000.0].into_iter().enumerate() {
        let gib = 70.0 - 14.0 * index as f64;
        let label = format!("LRU {gib} GiB");
        record.results.push(case(&label, "lru", "", done(step, gib)));
        let label = format!("hints {gib} GiB");
        record.results.push(case(&label, "hints", "", done(step * 0.7 + 150.0, gib + 2.0)));
    }
    record
}

/// Thousands of points in many series.
pub(crate) fn crowd() -> RunRecord {
    let mut record = bare("crowd");
    for index in 0..4000u64 {
        // A fixed scramble instead of a generator of random numbers.
        let noise = |salt: u64| {
            let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ salt).rotate_left(23);
            (mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1u64 << 24) as f64
        };
        let gib = 8.0 + 60.0 * noise(1);
        let step = 405.0 + 9000.0 / gib + 400.0 * noise(2) * noise(3);
        let policy = format!("policy-{:02}-with-a-name", index % 17);
        record.results.push(case(&format!("p{index}"), &policy, "", done(step, gib)));
    }
    record
}

/// A small grid: cells with their numbers in them, three policies, a cliff of two decades.
pub(crate) fn grid() -> RunRecord {
    let mut record = bare("budget-against-link");
    record.about = "How many GB/s does a given HBM budget need?".to_owned();
    for policy in ["lru", "hints", "adam-state"] {
        for gib in [16.0, 24.0, 32.0, 48.0, 64.0] {
            for rate in [12.5, 25.0, 50.0, 100.0, 200.0, 400.0] {
                let step = 400.0 + (72.0 - gib) * 4000.0 / rate * policy.len() as f64 / 4.0;
                let outcome = if gib < 20.0 && policy == "hints" {
                    out_of_memory(99)
                } else {
                    done(step, gib)
                };
                let mut case = case(&format!("{policy} {gib} {rate}"), policy, "", outcome);
                case.params = vec![
                    ("links.pcie.bandwidth (GB/s)".to_owned(), AxisValue::Number(rate)),
                    ("hbm budget (GiB)".to_owned(), AxisValue::Number(gib)),
                ]
                .into();
                record.results.push(case);
            }
        }
    }
    record.axes = axes(&record);
    record
}

/// Twelve panels under long names, of which nine are drawn; steep and nearly flat ones.
pub(crate) fn many_panels() -> RunRecord {
    let mut record = bare("many-panels");
    for index in 0..12u32 {
        let policy = format!("policy-{index}-with-a-rather-long-name-that-needs-to-be-cut");
        for x in 0..40u32 {
            for y in 0..25u32 {
                let (x, y) = (f64::from(x), f64::from(y));
                let step = 403.0 + (x - 20.0).powi(2) * 0.02 * f64::from(index) + y * 0.5;
                let mut case = case(&policy, &policy, "", done(step, 30.0));
                case.params = vec![
                    ("tiers.dram.setup (ns)".to_owned(), AxisValue::Number(100.0 + 12.5 * x)),
                    (
                        "links.pcie-to-the-far-socket.bandwidth (GB/s)".to_owned(),
                        AxisValue::Number(1e-3 * 1.7f64.powf(y)),
                    ),
                ]
                .into();
                record.results.push(case);
            }
        }
    }
    record.axes = axes(&record);
    record
}

/// Three policies on three machines, each with a baseline, a bound and a batch of its own. The
/// quickest machine is below the bound of the slowest.
pub(crate) fn machines() -> RunRecord {
    let mut record = bare("three-machines");
    record.about =
        "What does the next accelerator save, and does the policy still matter?".to_owned();
    record.axes = vec!["machine".to_owned()];
    let base = record.conditions[0].clone();
    for (machine, speed, tokens) in
        [("h100", 1.0, 16_384), ("b200", 0.55, 16_384), ("rubin", 0.3, 32_768)]
    {
        let on = record.conditions.len();
        let fact = |path: &str, source| Fact::new(path.to_owned(), format!("{machine}'s"), source);
        record.machines.push(MachineFacts {
            machine: machine.to_owned(),
            hardware: format!("{machine}-sxm"),
            power_and_price: vec![fact("host.price", Source::Datasheet("a list".to_owned()))],
            assumed: vec![fact("tiers.dram.setup", Source::Assumed("as elsewhere".to_owned()))],
            assumed_numbers: 3 + on,
        });
        let ps = |ps: u64, factor: f64| Span::from_ps((ps as f64 * factor) as u64);
        record.conditions.push(Conditions {
            hardware: format!("{machine}-sxm").into(),
            op_time: format!("roofline on {machine}-sxm, bf16").into(),
            assumed_numbers: 3 + on,
            tokens_per_step: tokens,
            baseline: figures(402.5 * speed, 71.0).into(),
            bound: ps(base.bound.ps(), speed),
            ..base.clone()
        });
        for (policy, gib, slow) in
            [("lru", 38.0, 1.9), ("adam-state", 44.0, 1.3), ("all-hbm", 71.0, 1.0)]
        {
            let figures = figures(402.5 * speed * slow, gib);
            let label = format!("{policy} [machine={machine}]");
            let mut case = case(&label, policy, "", figures.into());
            case.params = vec![("machine".to_owned(), AxisValue::Text(machine.to_owned()))].into();
            case.conditions = on;
            case.baseline_step = record.conditions[on].baseline.mean_step();
            case.bound_step = ps(base.bound.ps(), speed * (1.0 + (slow - 1.0) * 0.4));
            record.results.push(case);
        }
    }
    record
}

/// Every record of this file.
pub(crate) fn all() -> Vec<RunRecord> {
    vec![
        training(),
        sweep(),
        single(),
        hostile(),
        all_failed(),
        all_equal(),
        wide(),
        crowd(),
        grid(),
        many_panels(),
        machines(),
        pairs(&["all-hbm", "lru", "density"], &["16 bits", "8 bits", "4 bits"]),
        bare("no-cases"),
    ]
}

/// A case for each pair of a policy and a value of the axis.
pub(crate) fn pairs(policies: &[&str], values: &[&str]) -> RunRecord {
    let mut record = single();
    let ran = record.results.remove(0);
    for value in values {
        for policy in policies {
            let mut case = CaseRecord {
                label: format!("{policy} [weights={value}]"),
                details: String::new(),
                params: [("weights".to_owned(), AxisValue::Text((*value).to_owned()))].into(),
                ..ran.clone()
            };
            case.policy = (*policy).to_owned();
            record.results.push(case);
        }
    }
    record
}
