//! Objects that tiers store packed, worked out by hand to the picosecond, and that the parts of a
//! step and what is measured say so.
//!
//! HBM, host memory and a drive are a chain of links that carry a byte per picosecond after 5 ps.
//! Formats halve objects, unpack a byte per picosecond after 3 ps and pack half of one.

use tiersim_models::compression::{Choice, Format, Packer, RATIO_UNIT, Storing, problem};
use tiersim_models::results::PathPart;
use tiersim_models::workload::Object;
use tiersim_sim::audit::Audit;
use tiersim_sim::machine::meters::Meters;
use tiersim_tests::prelude::*;

const DRIVE: TierId = TierId(2);
/// Channels: of the link to the host's memory, of the one to the drive, and of the format.
const IN: usize = 0;
const NEARER: usize = 2;
const UNPACK: usize = 4;
const OUT: usize = 1;
const FARTHER: usize = 3;
const PACK: usize = 5;

fn machine(drive: impl Into<Capacity>) -> Hardware {
    let (free, link) = (law(0, ONE), law(5, ONE));
    let all = Capacity::Unlimited;
    let tiers = [
        (TierKind::Hbm, all, free),
        (TierKind::Dram, all, free),
        (TierKind::Nvme, drive.into(), law(7, ONE)),
    ];
    hardware(&tiers, &[(0, 1, link), (1, 2, link)])
}

/// Adds a format with its link.
fn with_format(
    machine: &mut Hardware,
    (by, ratio): (Packer, u64),
    tiers: &[TierId],
    kinds: &[ObjectKind],
) -> Format {
    let link = LinkId::at(machine.links.len());
    let there = if by == Packer::Device { HBM } else { FAR };
    let name = format!("format-{}", link.index());
    let laws = [law(3, ONE), law(3, ONE / 2)];
    machine.links.push(Link::new(name.clone(), (there, there), laws));
    let (tiers, kinds, channels) = (tiers.to_vec(), kinds.to_vec(), Format::channels(link));
    Format { name, tiers, kinds, dtypes: Vec::new(), ratio, by, channels }
}

fn halved(machine: &mut Hardware, by: Packer, tiers: &[TierId]) -> Choice {
    let format = with_format(machine, (by, 2 * RATIO_UNIT), tiers, &ObjectKind::ALL);
    Choice { formats: vec![format], only_if_it_pays: false }
}

fn storing(world: &World, choice: &Choice) -> Option<Storing> {
    let routes = world.hardware.routes().expect("every tier is joined");
    let trace = &world.workload.trace;
    let written = |object| trace.uses.iter().any(|u| u.object == object && u.mode.writes());
    Storing::new(choice, (&world.hardware, &routes), trace.objects.iter(), written)
}

/// When ops ended, and what was measured, under audit; or why the plan ends.
fn ran(
    world: &World,
    choice: &Choice,
    start: Vec<TierId>,
    script: Vec<Vec<Action>>,
) -> Result<(Vec<u64>, Meters), PlanError> {
    let memory = world.hardware.memory().storing(storing(world, choice));
    let policy = Scripted::of(start, script);
    let mut planner = Planner::new(&world.workload, policy, &memory, world.repeat)?;
    let mut machine = world.simulated(&planner, 1);
    let objects = world.workload.trace.objects.len();
    let audit = Audit::new(&world.hardware, &memory, objects, &planner.start());
    machine.audit(audit.expect("the start is right"));
    machine.store(&memory);
    let mut ends = vec![0; world.workload.trace.ops.len() * world.repeat as usize];
    let driven = drive(&mut planner, &mut machine, 256, |op, at, machine: &mut SimMachine<'_>| {
        ends[op as usize] = at.ps();
        if op as usize + 1 == ends.len() {
            machine.step_ended();
        }
    });
    match driven {
        Ok(()) => Ok((ends, machine.meters().clone())),
        Err(DriveError::Plan(error)) => Err(error),
        Err(DriveError::Machine(fault)) => panic!("{fault}"),
    }
}

/// Objects of these bytes, all of which one op of no time reads, and one behind it writes.
fn read_then_written(machine: Hardware, bytes: &[u64]) -> World {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = bytes.iter().map(|&bytes| traced.object(bytes, true)).collect();
    for mode in [Mode::Read, Mode::Write, Mode::Read] {
        let uses: Vec<(ObjectId, Mode)> = objects.iter().map(|&object| (object, mode)).collect();
        traced.op(0, 0, Span::ZERO, &uses);
    }
    World::of(machine, traced.0, [0; 3].map(Span::from_ps).to_vec())
}

fn moved(meters: &Meters) -> Vec<u64> {
    meters.moved.iter().take(6).map(|bytes| bytes.get()).collect()
}

fn parts(meters: &Meters) -> Vec<(PathPart, u64)> {
    let parts = meters.split.iter().map(|(part, span)| (part, span.ps()));
    parts.filter(|&(_, ps)| ps > 0).collect()
}

#[test]
fn the_processors_unpack_in_the_hosts_memory_and_links_behind_it_carry_all_bytes() {
    let mut machine = machine(Capacity::Unlimited);
    let choice = halved(&mut machine, Packer::Cpu, &[DRIVE]);
    let world = read_then_written(machine, &[1000]);
    let script = vec![vec![fetch(ObjectId(0))], vec![], vec![]];
    let (ends, meters) = ran(&world, &choice, vec![DRIVE], script).expect("it fits");
    // Half of it from the drive, all of it through the format and over the last link.
    assert_eq!(ends[0], (5 + 500) + (3 + 1000) + (5 + 1000));
    assert_eq!(moved(&meters), [1000, 0, 500, 0, 1000, 0]);
    let by_hand = [(IN, 1005), (NEARER, 505), (UNPACK, 1003)];
    assert_eq!(parts(&meters), by_hand.map(|(channel, ps)| (PathPart::Copy(channel), ps)));
}

#[test]
fn chunks_are_unpacked_while_links_carry_others() {
    let mut machine = machine(Capacity::Unlimited);
    machine.chunk = Bytes::new(250);
    let choice = halved(&mut machine, Packer::Cpu, &[DRIVE]);
    let world = read_then_written(machine, &[1000]);
    let script = vec![vec![fetch(ObjectId(0))], vec![], vec![]];
    let (ends, _) = ran(&world, &choice, vec![DRIVE], script).expect("it fits");
    // Four equal pieces: the first crosses all three, the slowest of which takes the others.
    let stages = [5 + 125, 3 + 250, 5 + 250];
    assert_eq!(ends[0], stages.iter().sum::<u64>() + 3 * stages.iter().max().expect("some"));
}

#[test]
fn copies_queue_for_the_format() {
    let mut machine = machine(Capacity::Unlimited);
    let choice = halved(&mut machine, Packer::Cpu, &[DRIVE]);
    let world = read_then_written(machine, &[1000, 100]);
    let script = vec![[0, 1].map(|object| fetch(ObjectId(object))).to_vec(), vec![], vec![]];
    let (ends, meters) = ran(&world, &choice, vec![DRIVE; 2], script).expect("it fits");
    // The second comes at 505 + 55 and waits until the first is unpacked, at 1508, and then until
    // that has crossed the last link, at 2513.
    assert_eq!(ends[0], 2513 + 105);
    assert_eq!(meters.busy[UNPACK], Span::from_ps(1003 + 103));
    assert_eq!(moved(&meters), [1100, 0, 550, 0, 1100, 0]);
}

#[test]
fn the_device_packs_what_leaves_it_and_all_links_carry_what_is_stored() {
    let mut machine = machine(Capacity::Unlimited);
    let choice = halved(&mut machine, Packer::Device, &[FAR, DRIVE]);
    let world = read_then_written(machine, &[1001]);
    let object = ObjectId(0);
    let out = Action::Evict { object, from: HBM, to: DRIVE };
    let nearer = Action::Fetch { object, to: FAR };
    let script = vec![vec![], vec![], vec![out, nearer, fetch(object)]];
    let (ends, meters) = ran(&world, &choice, vec![HBM], script).expect("it fits");
    // Packed at half a byte per picosecond; then 501 bytes as they are, out, back, and in.
    let out = (3 + 2002) + 2 * (5 + 501);
    assert_eq!(ends[2], out + (5 + 501) + (5 + 501) + (3 + 1001));
    assert_eq!(moved(&meters), [501, 501, 501, 501, 1001, 1001]);
    assert_eq!(meters.busy[PACK], Span::from_ps(2005));
    let links = [IN, OUT, NEARER, FARTHER].map(|channel| meters.busy[channel].ps());
    assert_eq!(links, [506; 4]);
}

#[test]
fn a_tier_has_room_for_what_is_stored_and_not_for_a_byte_more() {
    let fits = |drive: u64, bytes: u64| {
        let mut machine = machine(Bytes::new(drive));
        let choice = halved(&mut machine, Packer::Cpu, &[DRIVE]);
        let world = read_then_written(machine, &[bytes]);
        let script = vec![vec![fetch(ObjectId(0))], vec![], vec![]];
        ran(&world, &choice, vec![DRIVE], script).map(|(_, meters)| meters.peak[DRIVE.index()])
    };
    assert_eq!(fits(501, 1001), Ok(Bytes::new(501)));
    assert!(matches!(fits(500, 1001), Err(PlanError::OutOfMemory { tier: DRIVE, .. })));
}

#[test]
fn an_op_that_uses_what_is_packed_waits_for_unpacking_and_packing() {
    let mut machine = machine(Capacity::Unlimited);
    let choice = halved(&mut machine, Packer::Cpu, &[DRIVE]);
    let world = read_then_written(machine, &[1000]);
    let object = ObjectId(0);
    let (tier, bytes) = (DRIVE, Bytes::new(1000));
    let in_place = vec![Action::InPlace { object }, Action::Charge { tier, bytes }];
    let (ends, meters) = ran(&world, &choice, vec![DRIVE], vec![in_place; 3]).expect("it fits");
    // An access of half of it, and all of it unpacked; then packed; then unpacked again.
    let (read, write) = ((7 + 500) + (3 + 1000), (7 + 500) + (3 + 2000));
    assert_eq!(ends, [read, read + write, 2 * read + write]);
    assert_eq!(meters.delay, Span::from_ps(2 * 1003 + 2003));
}

#[test]
fn of_several_objects_the_one_is_found_that_pays() {
    let mut machine = machine(Capacity::Unlimited);
    machine.chunk = Bytes::mib(1);
    // The drive is slow enough for the format; the host's memory is not.
    machine.links[1].read.rate = rate_of(ONE / 4);
    machine.links[1].write.rate = rate_of(ONE / 4);
    let all = [FAR, DRIVE];
    let well = with_format(&mut machine, (Packer::Cpu, 2 * RATIO_UNIT), &all, &[ObjectKind::Kv]);
    let (badly_at, badly) = (machine.links.len(), [ObjectKind::Weight]);
    let badly = with_format(&mut machine, (Packer::Cpu, RATIO_UNIT + 10), &all, &badly);
    machine.links[badly_at].read.rate = rate_of(ONE / 8);
    let mut traced = Traced::new();
    let object = |name: &str, kind, bytes| Object {
        persistent: true,
        ..Object::new(name, kind, Bytes::new(bytes))
    };
    let objects = [
        object("random", ObjectKind::Weight, 1 << 20),
        object("regular", ObjectKind::Kv, 1 << 20),
        // It saves no more than the format costs before its first byte.
        object("small", ObjectKind::Kv, 2),
        object("of no format", ObjectKind::Buffer, 1 << 20),
    ];
    let uses = objects.map(|object| (traced.add(object), Mode::Read));
    traced.op(0, 0, Span::ZERO, &uses);
    let world = World::of(machine, traced.0, vec![Span::ZERO]);
    let choice = Choice { formats: vec![well.clone(), badly], only_if_it_pays: true };
    let found = storing(&world, &choice).expect("there are formats").packed();
    let [packed] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((packed.format.as_str(), packed.tier, packed.objects), (&*well.name, DRIVE, 1));
    assert_eq!((packed.raw, packed.stored), (1 << 20, 1 << 19));
    // Without being asked, all that formats take are.
    let choice = Choice { only_if_it_pays: false, ..choice };
    let all = storing(&world, &choice).expect("there are formats").packed();
    assert_eq!(all.iter().map(|packed| packed.objects).sum::<u64>(), 2 * 3);
    // And it pays: the step with what is found is shorter than with all of it and than with none.
    let step = |choice: &Choice| {
        let fetches = (0..4).map(|object| fetch(ObjectId(object))).collect();
        ran(&world, choice, vec![DRIVE; 4], vec![fetches]).expect("it fits").0[0]
    };
    let found = step(&Choice { only_if_it_pays: true, ..choice.clone() });
    assert!(found < step(&choice) && found < step(&Choice::default()), "{found}");
}

fn rate_of(per_second: u64) -> Bandwidth {
    Bandwidth::new(per_second).expect("above zero")
}

#[test]
fn a_format_needs_a_place_on_every_way() {
    let hardware = machine(Capacity::Unlimited);
    let routes = hardware.routes().expect("every tier is joined");
    let found = |by, tiers: &[TierId]| {
        let format = with_format(&mut hardware.clone(), (by, RATIO_UNIT), tiers, &[]);
        problem(&format, &hardware, &routes).map(|none| (none.from, none.to))
    };
    assert_eq!(found(Packer::Cpu, &[DRIVE]), None);
    assert_eq!(found(Packer::Cpu, &[FAR]), None);
    assert_eq!(found(Packer::Device, &[FAR, DRIVE]), None);
    assert_eq!(found(Packer::Device, &[DRIVE]), Some((DRIVE, FAR)));
    // A drive that the device reads by itself passes the processors by.
    let mut direct = hardware.clone();
    direct.links[1].near = NodeId::from(HBM);
    let routes = direct.routes().expect("every tier is joined");
    let format = with_format(&mut direct.clone(), (Packer::Cpu, RATIO_UNIT), &[DRIVE], &[]);
    let none = problem(&format, &direct, &routes).expect("nothing passes the host");
    assert_eq!((none.from, none.to), (DRIVE, HBM));
}

#[test]
fn random_worlds_with_formats_stay_within_the_rules() {
    let (mut ran, mut packed) = (0, 0);
    for index in 0..400 {
        let trial = Trial::new(seed_of(22, index), usize::MAX);
        if trial.compress.is_none() {
            continue;
        }
        let outcome = trial.check(None);
        match outcome.unwrap_or_else(|breach| panic!("world {index}: {breach}\n{trial}")) {
            None => continue,
            Some(of) => {
                ran += 1;
                let formats = trial.compress.formats.iter().flat_map(|format| format.channels);
                let moved = formats.map(|channel| of.meters.moved[channel.index()]);
                packed += u32::from(moved.sum::<Bytes>() > Bytes::ZERO);
            }
        }
    }
    assert!(ran >= 20 && packed >= 5, "{ran} worlds ran, {packed} of them packed something");
}
