//! One line that is equal for two runs if and only if they ask for the same thing.
//!
//! Hashed is the meaning of a scenario: resolved numbers, not the text. Comments, the order of
//! fields, a value written in another unit, the names of files and every `about` make no
//! difference; a different tier, policy, seed or expectation does.
//! Invariant: every field is listed by destructuring, so a new one cannot be forgotten.

use crate::scenario::{Case, OpTime, Said, Scenario, Terms, WorkloadSpec};
use crate::trace::hex;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::fmt::{Debug, Write};
use tiersim_models::efficiency::Efficiency;
use tiersim_models::energy::Economics;
use tiersim_models::hardware::DeviceRequests;
use tiersim_models::hardware::{Compute, Hardware, Link, Tier};
use tiersim_models::nodes::{Node, PrescribedRoute};
use tiersim_models::op_times::AttentionKernel;
use tiersim_models::raid0::Raid0;
use tiersim_models::runtime::Runtime;
use tiersim_models::server::{Cpu, Server};
use tiersim_policies::scenario::sweep::{Point, Sweep};

/// Points of a sweep that are written at once.
const TOGETHER: usize = 512;

/// `sha256:` and 64 hexadecimal digits. `trace_hash` stands for what the trace's files hold.
pub fn fingerprint(scenario: &Scenario, trace_hash: &str) -> String {
    line(Sha256::new_with_prefix(canonical(scenario, trace_hash)))
}

fn line(digest: Sha256) -> String {
    format!("sha256:{}", hex(digest))
}

/// One line per thing; none for what is not there.
fn each<T: Debug>(out: &mut String, what: &str, all: impl IntoIterator<Item = T>) {
    for one in all {
        let _ = writeln!(out, "{what}{one:?}");
    }
}

/// The fingerprint of a sweep: that of all its points in order. `trace_hash` gives the hash of the
/// trace that a point names.
pub fn sweep_fingerprint<'a>(
    sweep: &Sweep,
    trace_hash: impl Fn(&Scenario) -> &'a str + Sync,
) -> String {
    let mut digest = Sha256::new();
    let text = |point: &Point| canonical(&point.scenario, trace_hash(&point.scenario));
    for points in sweep.points.chunks(TOGETHER) {
        // All threads write, and one hashes.
        let texts: Vec<String> = points.into_par_iter().map(text).collect();
        texts.iter().for_each(|text| digest.update(text.as_bytes()));
    }
    for (params, _) in &sweep.skipped {
        digest.update(format!("skipped {params:?}\n").as_bytes());
    }
    line(digest)
}

/// What is hashed: one line per thing. Strings are quoted, so no value can imitate another line;
/// numbers print in full.
fn canonical(scenario: &Scenario, trace_hash: &str) -> String {
    let Scenario { said, hardware, workload, cases, seed, warnings: _ } = scenario;
    let Said { name: _, about: _, expect } = &**said;
    let mut out = format!("scenario 1\ntrace {trace_hash:?}\nseed {seed}\n");
    write_hardware(&mut out, hardware);
    // The trace's own hash holds its statistics.
    let WorkloadSpec { trace: _, repeat, warmup, horizon, time, jitter, ranks, statistics: _ } =
        &**workload;
    let _ = writeln!(out, "repeat {repeat} warmup {warmup} jitter {jitter:?}");
    // Nothing where it is not said, so that older fingerprints stay.
    if let Some(horizon) = horizon {
        let _ = writeln!(out, "horizon {horizon}");
    }
    each(&mut out, "ranks ", (*ranks != 1).then_some(ranks));
    match time {
        OpTime::Priced { compute, precision } => {
            let _ = writeln!(out, "roofline {precision:?}");
            write_compute(&mut out, compute);
            // Of the machine's own device they matter only here.
            each(&mut out, "op_times ", &compute.op_times);
            each(&mut out, "attention ", compute.attention.map(AttentionKernel::word));
        }
        OpTime::Recorded { scale } => {
            let _ = writeln!(out, "recorded {scale:?}");
        }
    }
    for case in cases {
        let Case { label, policy, params, terms } = case;
        let Terms { hbm, allocators, hidden, numa, chunk, .. } = &**terms;
        let Terms { micro_batch, pressure, runtime, compress, .. } = &**terms;
        let _ = writeln!(out, "case {label:?} {hbm:?} {params:?} {policy:?}");
        // What is exact is as if it was not said.
        for (tier, spec) in allocators.iter().enumerate().filter(|(_, spec)| !spec.is_exact()) {
            let _ = writeln!(out, "allocator {tier} {spec:?}");
        }
        each(&mut out, "", (!numa.is_none()).then_some(numa));
        each(&mut out, "", hidden);
        each(&mut out, "chunk ", chunk.map(|chunk| chunk.get()));
        each(&mut out, "micro-batch ", micro_batch);
        each(&mut out, "pressure ", pressure);
        each(&mut out, "", (!compress.is_none()).then_some(compress));
        if !runtime.is_none() {
            // Where its numbers come from changes none of them.
            let Runtime {
                per_op,
                per_object,
                passes,
                blocking,
                blocking_out,
                ahead,
                pageable,
                source: _,
            } = runtime;
            let (op, object) = (per_op.ps(), per_object.ps());
            let _ = writeln!(out, "runtime {op} {object} {passes} {blocking} {pageable}");
            each(&mut out, "blocking out", blocking_out.then_some(()));
            each(&mut out, "ahead", ahead.then_some(()));
            let rates = hardware.links.iter().filter(|_| *pageable).map(|link| link.pageable);
            each(&mut out, "pageable ", rates);
        }
    }
    each(&mut out, "expect ", expect);
    out
}

fn write_hardware(out: &mut String, hardware: &Hardware) {
    let Hardware {
        name: _,
        about: _,
        tiers,
        nodes,
        links,
        routes,
        compute,
        chunk,
        hidden,
        facts: _,
        economics,
        server,
        cpu,
        // Cases have thresholds, whoever named them.
        pressure: _,
    } = hardware;
    let _ = writeln!(out, "chunk {}", chunk.get());
    for Tier { name, kind, capacity, access, loaded, requests } in tiers {
        let (setup, rate) = (access.setup.ps(), access.rate.get());
        let _ = writeln!(out, "tier {name:?} {kind:?} {} {setup} {rate}", capacity.most().get());
        each(out, "loaded ", loaded);
        if *requests != DeviceRequests::default() {
            let DeviceRequests { granule, depth } = requests;
            let _ = writeln!(out, "Requests {{ granule: {granule:?}, depth: {depth:?} }}");
        }
    }
    for Node { name, kind } in nodes {
        let _ = writeln!(out, "node {name:?} {kind:?}");
    }
    // What a link is made of changes drawings and warnings only.
    for link in links {
        let Link { name, near, far, kind: _, read, write, service, raid0, background, pageable: _ } =
            link;
        let _ = write!(out, "link {name:?} {} {}", near.index(), far.index());
        for law in [read, write] {
            let _ = write!(out, " {} {}", law.setup.ps(), law.rate.get());
        }
        out.push('\n');
        each(out, "service ", service);
        if let Some(Raid0 { drives, stripe }) = raid0 {
            let _ = writeln!(out, "raid0 {drives} {}", stripe.get());
        }
        each(out, "others ", background.iter().any(Option::is_some).then_some(background));
    }
    for PrescribedRoute { from, to, via } in routes {
        let via: Vec<usize> = via.iter().map(|node| node.index()).collect();
        let _ = writeln!(out, "way {} {} {via:?}", from.index(), to.index());
    }
    each(out, "", hidden);
    if let Some(compute) = compute {
        write_compute(out, compute);
    }
    // What collectives take by measurement belongs to the op times, which are told elsewhere.
    let Server { devices, tiers, links, within, between, collective_times: _ } = server;
    if (Server { collective_times: None, ..server.clone() }) != Server::default() {
        let _ = write!(out, "server Server {{ devices: {devices:?}, tiers: {tiers:?}, ");
        let _ = writeln!(out, "links: {links:?}, within: {within:?}, between: {between:?} }}");
    }
    if let Some(cpu) = cpu {
        let Cpu { name: _, flops, memory, launch } = cpu;
        let _ = writeln!(out, "cpu {} {} {}", flops.get(), memory.get(), launch.ps());
    }
    // A machine without these numbers is as if there were none.
    let Economics { tiers, links, device, host, facts } = &**economics;
    if !facts.is_empty() {
        let _ = writeln!(out, "economics {tiers:?} {links:?} {device:?} {host:?}");
    }
}

fn write_compute(out: &mut String, compute: &Compute) {
    let Compute { name: _, flops, memory, launch, efficiency, op_times: _, attention: _ } = compute;
    let mut flops: Vec<_> = flops.iter().map(|(name, rate)| (name, rate.get())).collect();
    flops.sort();
    let _ = writeln!(out, "compute {} {} {flops:?}", memory.get(), launch.ps());
    each(out, "efficiency ", (*efficiency != Efficiency::default()).then_some(efficiency));
}
