//! Plans written out by hand, each for one thing that a machine may get wrong.

use crate::prelude::*;
use crate::real::{Outcome, open, planner, run};
use crate::same::everywhere;
use crate::{Check, Counts, Site, ensure, equal};
use tiersim_validation::options::Options;

/// The second tier of [`chain`].
pub const DRAM: TierId = TierId(1);
/// The third tier of [`chain`].
pub const NVME: TierId = TierId(2);
/// 1024 bytes.
pub const KIB: u64 = 1 << 10;

/// HBM, DRAM and NVMe in a chain, chunks of 16 KiB.
pub fn chain() -> Hardware {
    let law = law(0, 10_000_000_000);
    let far = Bytes::mib(64);
    let tiers = [(TierKind::Hbm, far, law), (TierKind::Dram, far, law), (TierKind::Nvme, far, law)];
    let mut chain = hardware(&tiers, &[(0, 1, law), (1, 2, law)]);
    chain.chunk = Bytes::new(16 << 10);
    chain
}

/// A world of ops of 50 us on [`chain`], and its script: the sizes of objects, where they start,
/// what each op uses, and what is done before which op.
pub fn scripted(
    bytes: &[u64],
    start: &[TierId],
    ops: &[&[(usize, Mode)]],
    script: &[(usize, Action)],
) -> (World, impl Fn() -> Box<dyn Policy> + use<>) {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = bytes.iter().map(|&b| traced.object(b, true)).collect();
    let span = Span::from_us(50);
    for uses in ops {
        let uses: Vec<_> = uses.iter().map(|&(object, mode)| (objects[object], mode)).collect();
        traced.op(0, 0, span, &uses);
    }
    let mut by_op = vec![Vec::new(); ops.len()];
    script.iter().for_each(|&(op, action)| by_op[op].push(action));
    let start = start.to_vec();
    let make = move || -> Box<dyn Policy> { Scripted::of(start.clone(), by_op.clone()) };
    (World::of(chain(), traced.0, vec![span; ops.len()]), make)
}

/// One object and one op, to see whether a machine is there.
pub(crate) fn smallest() -> (World, impl Fn() -> Box<dyn Policy>) {
    scripted(&[KIB], &[HBM], &[&[(0, Mode::Read)]], &[])
}

/// Bytes by channel.
pub fn moved(outcome: &Outcome) -> Vec<u64> {
    outcome.moved.iter().map(|bytes| bytes.get()).collect()
}

/// Runs a scripted case everywhere; it must fit.
fn case(
    site: &Site,
    (world, make): (World, impl Fn() -> Box<dyn Policy>),
    check: impl Fn(&Outcome) -> Check,
) -> Check<Counts> {
    let ran = everywhere(site, &world, &make, check)?.ok_or("it does not fit")?;
    Ok(Counts(vec![("copies", ran.copies), ("checks of contents", ran.checks)]))
}

/// A dirty object goes out by a copy and comes back with what was written.
pub fn what_was_written_is_written_back_and_comes_back_new(site: &Site) -> Check<Counts> {
    let object = ObjectId(0);
    let script = [(1, Action::Evict { object, from: HBM, to: DRAM }), (2, fetch(object))];
    let ops: [&[_]; 3] = [&[(0, Mode::ReadWrite)], &[(1, Mode::Read)], &[(0, Mode::ReadWrite)]];
    case(site, scripted(&[40 * KIB, KIB], &[HBM, HBM], &ops, &script), |outcome| {
        equal(&moved(outcome), &[40 * KIB, 40 * KIB, 0, 0], "bytes by channel")?;
        equal(&outcome.residents[0], &(object, HBM, true), "the object")?;
        // The room of stale contents is kept for the next write-back.
        equal(&outcome.residents[1], &(object, DRAM, false), "its stale room")
    })
}

/// A clean object goes out without a copy: the far one is still good.
pub fn what_was_only_read_is_dropped_without_a_copy(site: &Site) -> Check<Counts> {
    let object = ObjectId(0);
    let script = [(0, fetch(object)), (1, Action::Evict { object, from: HBM, to: DRAM })];
    let ops: [&[_]; 2] = [&[(0, Mode::Read)], &[(1, Mode::Read)]];
    case(site, scripted(&[20 * KIB, KIB], &[DRAM, HBM], &ops, &script), |outcome| {
        equal(&moved(outcome), &[20 * KIB, 0, 0, 0], "bytes by channel")?;
        equal(&outcome.residents[0], &(object, DRAM, true), "the object")
    })
}

/// Eight objects through room for all; each is fetched one op before its use.
pub fn double_buffering_ends_in_order(site: &Site) -> Check<Counts> {
    let ops: Vec<Vec<_>> = (0..8).map(|op| vec![(op, Mode::Read)]).collect();
    let ops: Vec<&[_]> = ops.iter().map(Vec::as_slice).collect();
    let fetch = |object: u32, op| (op, prefetch(ObjectId(object)));
    let mut script = vec![fetch(0, 0)];
    script.extend((1..8).map(|object| fetch(object, object as usize - 1)));
    script.extend((1..8u32).map(|op| {
        let object = ObjectId(op - 1);
        (op as usize, Action::Evict { object, from: HBM, to: DRAM })
    }));
    case(site, scripted(&[64 * KIB; 8], &[DRAM; 8], &ops, &script), |outcome| {
        let ends = &outcome.ends;
        ensure(ends.is_sorted(), || format!("ends out of order: {ends:?}"))?;
        equal(&moved(outcome), &[8 * 64 * KIB, 0, 0, 0], "bytes by channel")
    })
}

/// Neither a multiple of the chunk nor of a page, there and back again over two links.
pub fn copies_over_several_links_arrive_whole(site: &Site) -> Check<Counts> {
    let object = ObjectId(0);
    let bytes = 100_001;
    let script = [
        (0, fetch(object)),
        (1, Action::Evict { object, from: HBM, to: NVME }),
        (2, fetch(object)),
    ];
    let ops: [&[_]; 3] = [&[(0, Mode::ReadWrite)], &[(1, Mode::Read)], &[(0, Mode::Read)]];
    case(site, scripted(&[bytes, KIB], &[NVME, HBM], &ops, &script), |outcome| {
        equal(&moved(outcome), &[2 * bytes, bytes, 2 * bytes, bytes], "bytes by channel")
    })
}

/// Ops that append to an object leave the rest of it where it is: what leaves HBM is what two of
/// them wrote, over two links, across pages and around the end of the object.
pub fn what_is_appended_is_all_that_is_written_back(site: &Site) -> Check<Counts> {
    const ROUNDS: u64 = 40;
    let (bytes, span) = (100_001, Span::from_us(50));
    let mut traced = Traced::new();
    let (object, other) = (traced.object(bytes, true), traced.object(KIB, true));
    let mut script = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..2 {
            traced.op(0, 0, span, &[(object, Mode::ReadWrite)]);
            let appended = traced.0.uses.last_mut().expect("it was just added");
            appended.part = PartialUse::of(2, 1_500, Bytes::new(bytes));
        }
        traced.op(0, 0, span, &[(other, Mode::Read)]);
        let evict = Action::Evict { object, from: HBM, to: NVME };
        script.extend([vec![fetch(object)], Vec::new(), vec![evict]]);
    }
    let world = World::of(chain(), traced.0, vec![span; 3 * ROUNDS as usize]);
    let make = move || -> Box<dyn Policy> { Scripted::of(vec![NVME, HBM], script.clone()) };
    case(site, (world, make), |outcome| {
        let (fetched, appended) = (ROUNDS * bytes, ROUNDS * 2 * 3_000);
        equal(&moved(outcome), &[fetched, appended, fetched, appended], "bytes by channel")
    })
}

/// An object used where it lies is not copied, and its op lasts as much longer as the law says.
pub fn use_in_place_moves_nothing_and_costs_its_delay(site: &Site) -> Check<Counts> {
    let object = ObjectId(0);
    let bytes = Bytes::mib(1);
    let script = [
        (0, Action::InPlace { object }),
        // At 10 GB/s: 105 us.
        (0, Action::Charge { tier: NVME, bytes }),
    ];
    let ops: [&[_]; 1] = [&[(0, Mode::ReadWrite)]];
    case(site, scripted(&[48 * KIB], &[NVME], &ops, &script), |outcome| {
        equal(&moved(outcome), &[0; 4], "bytes by channel")?;
        // How long the op itself takes is predicted; its delay is kept.
        let (end, delay) = (outcome.ends[0], chain().tiers[NVME.index()].access.span_of(bytes));
        ensure(end.ps() >= delay.ps(), || format!("it ended early, at {end}"))
    })
}

/// Without emulation the laws add nothing to an op, which reaches for the object where it lies.
pub fn without_emulation_nothing_is_added_to_an_op_and_contents_hold_in_place(
    site: &Site,
) -> Check<Counts> {
    let object = ObjectId(0);
    let bytes = Bytes::mib(1);
    let in_place =
        |op| [(op, Action::InPlace { object }), (op, Action::Charge { tier: NVME, bytes })];
    let script = [in_place(0), in_place(1), in_place(2)].concat();
    let ops: [&[_]; 3] = [&[(0, Mode::ReadWrite)], &[(0, Mode::Write)], &[(0, Mode::Read)]];
    let mut checks = 0;
    for (tier, emulate) in [(DRAM, true), (DRAM, false), (NVME, true), (NVME, false)] {
        let (world, make) = scripted(&[48 * KIB], &[tier], &ops, &script);
        let options = Options { emulate, ..site.options() };
        let mut planner = planner(&world, &make).ok_or("it does not fit")?;
        let machine = open(site.kind, &world, &planner, &options);
        let mut machine = machine.map_err(|fault| fault.to_string())?;
        let ended = run(&world, &mut planner, &mut machine);
        ended.map_err(|stopped| stopped.to_string())?.ok_or("it does not fit")?;
        let report = machine.report();
        let truth = (report.truth.checks, report.truth.mismatches);
        equal(&truth, &(2, 0), "checks and mismatches")?;
        let holdings = machine.holdings().map_err(|fault| fault.to_string())?;
        equal(&holdings[..], &[(object, tier, Some(2))][..], "what is held")?;
        equal(&report.moved, &vec![Bytes::ZERO; 4], "bytes by channel")?;
        let law = world.hardware.tiers[NVME.index()].access;
        let delay = if emulate { law.span_of(bytes) } else { Span::ZERO };
        let planned: Vec<Span> = report.ops.iter().map(|op| op.planned).collect();
        equal(&planned, &vec![Span::from_us(50) + delay; 3], "planned times")?;
        checks += report.truth.checks;
    }
    Ok(Counts(vec![("machines", 4), ("checks of contents", checks)]))
}

/// What a policy states as a delay is kept whether use in place is emulated or not.
pub fn a_stated_delay_is_kept_on_every_machine(site: &Site) -> Check<Counts> {
    let span = Span::from_us(700);
    let script = [(1, Action::Delay { span }), (1, Action::Delay { span })];
    let ops: [&[_]; 2] = [&[(0, Mode::Read)], &[(0, Mode::Read)]];
    for emulate in [true, false] {
        let (world, make) = scripted(&[48 * KIB], &[HBM], &ops, &script);
        let options = Options { emulate, ..site.options() };
        let mut planner = planner(&world, &make).ok_or("it does not fit")?;
        let machine = open(site.kind, &world, &planner, &options);
        let mut machine = machine.map_err(|fault| fault.to_string())?;
        let ended = run(&world, &mut planner, &mut machine);
        let ends = ended.map_err(|stopped| stopped.to_string())?.ok_or("it does not fit")?;
        let planned: Vec<Span> = machine.report().ops.iter().map(|op| op.planned).collect();
        let compute = Span::from_us(50);
        equal(&planned, &vec![compute, compute + span + span], "planned times")?;
        let lasted = ends[1].since(ends[0]);
        ensure(lasted >= span + span, || format!("the second op lasted {lasted}"))?;
    }
    Ok(Counts(vec![("machines", 2)]))
}
