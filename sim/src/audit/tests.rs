//! Every rule with a sequence that breaks this one and no other: what the auditor is told up to
//! there is legal, and without the rule it would find nothing wrong.

mod flows;

use super::*;
use std::path::Path;
use tiersim_input::hardware_file::resolve_hardware;
use tiersim_input::text::ron_text::Document;
use tiersim_models::hardware::{Capacity, HBM, Memory};
use tiersim_models::service::{Discipline, Service};
use tiersim_models::workload::Mode;

const FAR: TierId = TierId(1);
const DISK: TierId = TierId(2);
/// Room in HBM; every object has half of it.
const HBM_BYTES: u64 = 200;
const BYTES: Bytes = Bytes::new(100);
/// In FAR at first.
const A: ObjectId = ObjectId(0);
const B: ObjectId = ObjectId(1);
/// In FAR and in HBM at first.
const BOTH: ObjectId = ObjectId(2);
const OBJECTS: [ObjectId; 3] = [A, B, BOTH];
/// From FAR to HBM and from DISK to FAR.
const FETCHES: [usize; 2] = [0, 2];

/// HBM, what is behind it, and what is behind that.
pub(crate) fn machine() -> Hardware {
    let tier = |name: &str, kind: &str| {
        format!(
            r#"(name: "{name}", kind: {kind}, setup: (us(0), assumed("a")), bandwidth: (gb_per_s(1000), assumed("a"))),"#
        )
    };
    let link = |name: &str, near: &str, far: &str| {
        format!(
            r#"(name: "{name}", near: "{near}", far: "{far}", setup: (us(0), assumed("a")),
            read: (gb_per_s(1000), assumed("a")), write: (gb_per_s(1000), assumed("a"))),"#
        )
    };
    let text = format!(
        r#"Hardware(schema: 2, about: "a", tiers: [{}{}{}], links: [{}{}], chunk: mib(1))"#,
        tier("hbm", "hbm"),
        tier("far", "dram"),
        tier("disk", "nvme"),
        link("bus", "hbm", "far"),
        link("cable", "far", "disk"),
    );
    let document = Document::from_text(Path::new("m.ron"), text).expect("RON");
    resolve_hardware(&document, "m".to_owned()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn room(object: ObjectId, tier: TierId) -> Allocation {
    Allocation { object, tier, bytes: BYTES }
}

fn audit_of(ranks: u32, hardware: &Hardware) -> Audit {
    let start = [room(A, FAR), room(B, FAR), room(BOTH, FAR), room(BOTH, HBM)];
    let hbm = Bytes::new(HBM_BYTES).into();
    let memory = Memory::of([hbm, Capacity::Unlimited, Capacity::Unlimited]);
    Audit::of_ranks(ranks, hardware, &memory, OBJECTS.len(), &start).expect("it fits")
}

fn audit() -> Audit {
    audit_of(1, &machine())
}

/// One whose links are shared.
fn of_shared_links() -> Audit {
    audit_of(1, &sharing(Service::default()))
}

/// A machine with links that serve so, and share.
fn sharing(service: Service) -> Hardware {
    let service = Service { discipline: Discipline::FairShare, ..service };
    let mut hardware = machine();
    hardware.links.iter_mut().for_each(|link| link.service = Some(service.clone()));
    hardware
}

fn command(ticket: u32, work: Work) -> Command {
    let (after, allocates, frees) = Default::default();
    Command { ticket: Ticket(ticket), work, after, allocates, frees }
}

fn op(ticket: u32, stream: u16, touches: &[(ObjectId, TierId, Mode)]) -> Command {
    let touch = |&(object, tier, mode): &(ObjectId, TierId, Mode)| {
        let written = if mode.writes() { BYTES } else { Bytes::ZERO };
        ObjectAccess { object, tier, mode, written }
    };
    let touches = touches.iter().map(touch).collect();
    let (charges, delay, allocating) = Default::default();
    let occurrence = ticket.into();
    command(ticket, Work::Compute { occurrence, stream, touches, charges, delay, allocating })
}

/// Into room that is there already.
fn copy_over(ticket: u32, object: ObjectId, from: TierId, to: TierId) -> Command {
    command(ticket, Work::Copy { object, bytes: BYTES, from, to })
}

/// Into room that it allocates.
fn copy(ticket: u32, object: ObjectId, from: TierId, to: TierId) -> Command {
    let allocates = [room(object, to)].into_iter().collect();
    Command { allocates, ..copy_over(ticket, object, from, to) }
}

fn compact(ticket: u32, tier: TierId, object: ObjectId) -> Command {
    command(ticket, Work::Compact { tier, bytes: BYTES, objects: [object].into() })
}

fn release(ticket: u32, frees: &[Allocation]) -> Command {
    Command { frees: frees.iter().copied().collect(), ..command(ticket, Work::Release) }
}

fn at(ps: u64) -> Time {
    Time::from_ps(ps)
}

fn submit(audit: &mut Audit, command: &Command) {
    audit.submitted(command, audit.now).expect("legal so far");
}

/// Submits and starts.
fn begin(audit: &mut Audit, command: &Command) {
    submit(audit, command);
    audit.starts(command, audit.now).expect("legal so far");
}

/// The rule of these words is broken.
#[track_caller]
fn breaks(told: Result<(), Breach>, words: &str) {
    let breach = told.expect_err("a rule is broken").to_string();
    assert!(breach.contains(words), "another rule: {breach}");
}

/// Submitting goes well and starting does not.
#[track_caller]
fn breaks_when_it_starts(audit: &mut Audit, command: &Command, words: &str) {
    submit(audit, command);
    breaks(audit.starts(command, audit.now), words);
}

/// With these begun, the last one breaks the rule of these words when it starts.
#[track_caller]
fn breaks_after(begun: &[Command], last: &Command, words: &str) {
    let mut audit = audit();
    begun.iter().for_each(|command| begin(&mut audit, command));
    breaks_when_it_starts(&mut audit, last, words);
}

/// Submits, starts and ends.
fn carry_out(audit: &mut Audit, command: &Command, end: u64) {
    begin(audit, command);
    audit.ends(command, at(end)).expect("legal so far");
}

#[test]
fn what_a_tier_holds_is_looked_at_after_every_event() {
    let mut audit = audit();
    audit.used[HBM.index()] = Bytes::new(HBM_BYTES);
    audit.tick(at(1)).expect("full is not too full");
    audit.used[HBM.index()] = Bytes::new(HBM_BYTES + 1);
    breaks(audit.tick(at(1)), "tier 0 holds");
}

#[test]
fn nothing_starts_that_was_not_submitted_or_has_started() {
    let mut audit = audit();
    breaks(audit.starts(&release(0, &[]), at(0)), "was not submitted");
    begin(&mut audit, &release(0, &[]));
    breaks(audit.starts(&release(0, &[]), at(0)), "started twice");
}

#[test]
fn nothing_ends_that_has_not_started_or_has_ended() {
    let mut audit = audit();
    let release = release(0, &[]);
    submit(&mut audit, &release);
    breaks(audit.ends(&release, at(0)), "ends unstarted");
    carry_out(&mut audit, &release, 0);
    breaks(audit.ends(&release, at(0)), "ends unstarted");
}

#[test]
fn a_copy_waits_for_the_op_before_the_one_that_it_was_decided_for() {
    let (before, fetch) = (op(0, 0, &[]), copy(1, A, FAR, HBM));
    let submitted = || {
        let mut audit = audit();
        begin(&mut audit, &before);
        submit(&mut audit, &fetch);
        submit(&mut audit, &op(2, 0, &[]));
        audit
    };
    breaks(submitted().starts(&fetch, at(0)), "started before Ticket(0)");
    let mut audit = submitted();
    audit.ends(&before, at(5)).expect("legal so far");
    audit.starts(&fetch, at(5)).expect("its turn has come");
}

#[test]
fn a_copy_that_has_started_was_not_too_early_for_the_op_that_comes_next() {
    let mut audit = audit();
    begin(&mut audit, &op(0, 0, &[]));
    begin(&mut audit, &copy(1, A, FAR, HBM));
    breaks(audit.submitted(&op(2, 0, &[]), at(0)), "started before its turn");
}

#[test]
fn an_op_finds_its_objects_where_it_uses_them_and_nobody_in_its_way() {
    let used = |ticket: u32, tier, mode| op(ticket, ticket as u16, &[(A, tier, mode)]);
    let (read, write) = (Mode::Read, Mode::Write);
    breaks_after(&[], &used(0, HBM, read), "it is not there");
    breaks_after(&[copy(0, A, FAR, HBM)], &used(1, HBM, read), "before it has arrived");
    // What only writes has no version to find.
    breaks_after(&[used(0, FAR, write)], &used(1, FAR, write), "while another writes it");
    let readers = [used(0, FAR, read), used(1, FAR, read)];
    breaks_after(&readers, &used(2, FAR, write), "while it is being read");
}

#[test]
fn an_op_may_write_what_was_read_before() {
    let mut audit = audit();
    let (read, write) = (op(0, 0, &[(A, FAR, Mode::Read)]), op(1, 1, &[(A, FAR, Mode::Write)]));
    begin(&mut audit, &read);
    submit(&mut audit, &write);
    audit.ends(&read, at(1)).expect("legal so far");
    audit.starts(&write, at(1)).expect("nobody reads it any more");
    audit.ends(&write, at(2)).expect("legal so far");
    begin(&mut audit, &op(2, 0, &[(A, FAR, Mode::ReadWrite)]));
}

#[test]
fn an_op_may_write_what_a_copy_has_taken() {
    let mut audit = audit();
    carry_out(&mut audit, &copy(0, A, FAR, HBM), 1);
    begin(&mut audit, &op(1, 0, &[(A, FAR, Mode::Write)]));
}

#[test]
fn ops_and_copies_take_what_the_ops_before_them_wrote() {
    for last in [op(1, 1, &[(A, FAR, Mode::Read)]), copy(1, A, FAR, HBM)] {
        let mut audit = audit();
        submit(&mut audit, &op(0, 0, &[(A, FAR, Mode::Write)]));
        breaks_when_it_starts(&mut audit, &last, "v0, not v1");
    }
}

#[test]
fn a_copy_takes_and_overwrites_nothing_that_is_being_written() {
    // Submitted before the write, it is to take what was there before.
    for (copy, object, tier, words) in [
        (copy(0, A, FAR, HBM), A, FAR, "while it is written"),
        (copy_over(0, BOTH, FAR, HBM), BOTH, HBM, "while it is in use"),
    ] {
        let mut audit = audit();
        submit(&mut audit, &copy);
        begin(&mut audit, &op(1, 0, &[(object, tier, Mode::Write)]));
        breaks(audit.starts(&copy, at(0)), words);
    }
}

#[test]
fn a_copy_brings_the_version_that_it_took() {
    let mut audit = audit();
    carry_out(&mut audit, &op(0, 0, &[(A, FAR, Mode::Write)]), 1);
    carry_out(&mut audit, &copy(1, A, FAR, HBM), 2);
    begin(&mut audit, &op(2, 0, &[(A, HBM, Mode::Read)]));
}

#[test]
fn a_copy_takes_what_has_arrived_to_where_there_is_room_and_nobody_uses_it() {
    breaks_after(&[copy(0, A, FAR, HBM)], &copy(1, A, HBM, DISK), "before it arrived");
    breaks_after(&[copy(0, A, FAR, HBM)], &copy(1, B, FAR, HBM), "takes 100");
    breaks_after(&[], &copy_over(0, A, FAR, HBM), "it is not there");
    // An object has one room in a tier.
    let allocates = [room(BOTH, HBM)].into_iter().collect();
    let again = Command { allocates, ..release(0, &[]) };
    breaks_after(&[], &again, "is in TierId(0) already");
    let over = copy_over(1, BOTH, FAR, HBM);
    breaks_after(&[op(0, 0, &[(BOTH, HBM, Mode::Read)])], &over, "while it is in use");
    breaks_after(&[copy_over(0, BOTH, FAR, HBM)], &over, "overwrites");
}

#[test]
fn a_copy_over_older_contents_brings_what_was_written_since_no_less_and_no_more() {
    let append = |ticket, bytes| {
        let mut op = op(ticket, 0, &[(BOTH, HBM, Mode::ReadWrite)]);
        let Work::Compute { touches, .. } = &mut op.work else { unreachable!("it is an op") };
        touches[0].written = Bytes::new(bytes);
        op
    };
    let back = |ticket, bytes| {
        let bytes = Bytes::new(bytes);
        command(ticket, Work::Copy { object: BOTH, bytes, from: HBM, to: FAR })
    };
    // Two ops wrote 30 and 40 bytes; four of 30 write more than there are.
    for (parts, lacks) in [(vec![30, 40], 70), (vec![30; 4], 100), (vec![30, 100], 100)] {
        for bytes in [0, 30, lacks - 1, lacks, lacks + 1] {
            let mut audit = audit();
            for (ticket, &part) in (0..).zip(&parts) {
                let op = append(ticket, part);
                begin(&mut audit, &op);
                audit.ends(&op, audit.now).expect("legal so far");
            }
            let back = back(parts.len() as u32, bytes);
            submit(&mut audit, &back);
            let told = audit.starts(&back, audit.now);
            match bytes == lacks {
                true => told.expect("it brings what is lacking"),
                false => breaks(told, &format!("lacks {lacks}")),
            }
        }
    }
    breaks_when_it_starts(&mut audit(), &append(0, 101), "which has 100");
}

#[test]
fn nothing_moves_within_a_tier_and_no_room_is_given_back_that_is_in_use() {
    let users = [
        op(0, 0, &[(BOTH, HBM, Mode::Read)]),
        op(0, 0, &[(BOTH, HBM, Mode::Write)]),
        copy_over(0, BOTH, FAR, HBM),
        copy(0, BOTH, HBM, DISK),
        compact(0, HBM, BOTH),
    ];
    for user in &users {
        let moves = compact(1, HBM, BOTH);
        let words = "within TierId(0) while it is in use";
        breaks_after(std::slice::from_ref(user), &moves, words);
        let mut audit = audit();
        begin(&mut audit, user);
        let release = release(1, &[room(BOTH, HBM)]);
        begin(&mut audit, &release);
        breaks(audit.ends(&release, at(1)), "back while it is in use");
    }
}

#[test]
fn nothing_uses_what_moves_within_a_tier_until_it_has_moved() {
    let mut audit = audit();
    let (moves, read) = (compact(0, HBM, BOTH), op(1, 0, &[(BOTH, HBM, Mode::Read)]));
    begin(&mut audit, &moves);
    breaks_when_it_starts(&mut audit, &read, "before it has arrived");
    audit.ends(&moves, at(1)).expect("legal so far");
    begin(&mut audit, &op(2, 1, &[(BOTH, HBM, Mode::Read)]));
}

#[test]
fn no_room_is_given_back_that_nobody_has() {
    let mut audit = audit();
    let release = release(0, &[room(A, HBM)]);
    begin(&mut audit, &release);
    breaks(audit.ends(&release, at(1)), "it is not there");
}

#[test]
fn room_that_was_given_back_can_be_taken() {
    let mut audit = audit();
    begin(&mut audit, &copy(0, A, FAR, HBM));
    carry_out(&mut audit, &release(1, &[room(BOTH, HBM)]), 1);
    begin(&mut audit, &copy(2, B, FAR, HBM));
    // That one and no other.
    begin(&mut audit, &op(3, 0, &[(BOTH, FAR, Mode::Read)]));
    breaks_when_it_starts(&mut audit, &op(4, 0, &[(BOTH, HBM, Mode::Read)]), "it is not there");
}

#[test]
fn copies_that_go_the_same_way_leave_a_channel_in_their_order() {
    let arrived = |second: Command| {
        let mut audit = audit();
        begin(&mut audit, &copy(0, A, FAR, HBM));
        submit(&mut audit, &second);
        for ticket in [0, 1] {
            let arrives = audit.piece_arrives(FETCHES[0], Ticket(ticket), BYTES, at(0));
            arrives.expect("legal so far");
        }
        audit.piece_leaves(FETCHES[0], Ticket(1), BYTES, at(1))
    };
    breaks(arrived(copy(1, B, FAR, HBM)), "goes the same way");
    arrived(copy(1, B, DISK, HBM)).expect("another way may be quicker");
}

#[test]
fn many_channels_at_once_have_no_order() {
    let mut audit = of_shared_links();
    for ticket in [0, 1] {
        submit(&mut audit, &copy(ticket, OBJECTS[ticket as usize], FAR, HBM));
        let arrives = audit.piece_arrives(FETCHES[0], Ticket(ticket), BYTES, at(0));
        arrives.expect("legal so far");
    }
    let leaves = audit.piece_leaves(FETCHES[0], Ticket(1), BYTES, at(1));
    leaves.expect("a shared link has no order");
}

#[test]
fn a_channel_lets_out_what_came_in() {
    let mut audit = audit();
    breaks(audit.piece_leaves(FETCHES[0], Ticket(0), BYTES, at(1)), "let out");
    audit.piece_arrives(FETCHES[0], Ticket(0), BYTES, at(1)).expect("legal so far");
    let more = BYTES + Bytes::new(1);
    breaks(audit.piece_leaves(FETCHES[0], Ticket(0), more, at(2)), "let out");
}

#[test]
fn time_does_not_run_backwards() {
    let mut audit = audit();
    audit.tick(at(5)).expect("forwards");
    audit.tick(at(5)).expect("at once");
    // With nothing on any channel and no flow, nothing else minds.
    breaks(audit.tick(at(4)), "time ran backwards");
}

#[test]
fn the_two_accounts_of_time_on_a_channel_agree_and_no_bytes_are_lost_there() {
    let mut audit = audit();
    audit.channels[FETCHES[1]] = Station::forged(1, 0);
    breaks(audit.tick(at(1)), "Little's law does not hold on channel 2");
    audit.channels[FETCHES[1]] = Station::forged(0, 1);
    breaks(audit.tick(at(1)), "bytes are lost on channel 2");
}

#[test]
fn at_the_end_every_command_has_ended() {
    let mut audit = audit();
    audit.idle(at(0)).expect("nothing has begun");
    submit(&mut audit, &release(0, &[]));
    breaks(audit.idle(at(1)), "1 commands never ended");
}

#[test]
fn at_the_end_nothing_is_on_a_channel() {
    let mut audit = audit();
    audit.piece_arrives(FETCHES[1], Ticket(0), BYTES, at(1)).expect("legal so far");
    breaks(audit.idle(at(1)), "bytes are left on channel 2");
}

#[test]
fn at_the_end_no_object_is_in_use() {
    let uses: [fn(&mut Residency); 3] =
        [|held| held.readers = 1, |held| held.writers = 1, |held| held.filling = 1];
    for used in uses {
        let mut audit = audit();
        used(&mut audit.objects[BOTH.index()][1]);
        breaks(audit.idle(at(1)), "an object is still in use");
    }
}

/// The auditor of two devices, each with memory of its own. A ticket's rank is its rest by two.
fn of_two_devices() -> Audit {
    audit_of(2, &machine())
}

#[test]
fn each_device_has_objects_and_room_of_its_own() {
    let mut audit = of_two_devices();
    for rank in [0, 1] {
        begin(&mut audit, &op(rank, 0, &[(A, FAR, Mode::Write)]));
        begin(&mut audit, &copy(2 + rank, B, FAR, HBM));
    }
    for rank in [0, 1] {
        let write = op(4 + rank, 1, &[(A, FAR, Mode::Write)]);
        breaks_when_it_starts(&mut audit, &write, "while another writes it");
        breaks_when_it_starts(&mut audit, &compact(8 + rank, HBM, B), "while it is in use");
        let release = release(10 + rank, &[room(B, HBM)]);
        begin(&mut audit, &release);
        breaks(audit.ends(&release, at(0)), "back while it is in use");
    }
    // Both halves of its HBM are taken, and so are those of the other.
    breaks_when_it_starts(&mut audit, &copy(12, A, FAR, HBM), "takes 100");
}

#[test]
fn a_copy_waits_for_ops_of_its_own_device() {
    // Ops of the other device, before and behind, make no difference.
    let starts = |first: u32| {
        let mut audit = of_two_devices();
        begin(&mut audit, &op(first, 0, &[]));
        let fetch = copy(2, A, FAR, HBM);
        submit(&mut audit, &fetch);
        submit(&mut audit, &op(3, 0, &[]));
        submit(&mut audit, &op(4, 0, &[]));
        audit.starts(&fetch, at(0))
    };
    breaks(starts(0), "started before Ticket(0)");
    starts(1).expect("nothing is ahead of it");
}

#[test]
fn copies_of_two_devices_have_no_order() {
    let leaves = |second: u32| {
        let mut audit = of_two_devices();
        for (ticket, object) in [(0, A), (second, B)] {
            begin(&mut audit, &copy(ticket, object, FAR, DISK));
            let arrives = audit.piece_arrives(FETCHES[1] + 1, Ticket(ticket), BYTES, at(0));
            arrives.expect("legal so far");
        }
        audit.piece_leaves(FETCHES[1] + 1, Ticket(second), BYTES, at(1))
    };
    breaks(leaves(2), "goes the same way");
    leaves(1).expect("they are of different devices");
}
