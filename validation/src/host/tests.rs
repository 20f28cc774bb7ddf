//! A machine that is stuck says so, and one that is only slow does not.
//!
//! No plan can deadlock by construction, so these tests reach inside: they lose a start or an end.

use super::*;
use crate::calibrate::skeleton;
use crate::contents::{ObjectContents, Written};
use crate::host::pace::OpPlan;
use crate::options::Delay;
use tiersim_models::hardware::{Hardware, TierKind};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Use};
use tiersim_policies::command::{Allocating, Allocation, Edge, Hazard, ObjectAccess, Work};

const OBJECT: ObjectId = ObjectId(0);
const HBM: TierId = TierId(0);

/// One tier, one object, one op that reads it.
fn world() -> (Hardware, Workload) {
    let hardware = skeleton::of(&[1 << 20], &[], Bytes::mib(1));
    let object = Object {
        dtype: "uint8".to_owned(),
        persistent: true,
        ..Object::new("weight", ObjectKind::Weight, Bytes::new(10_000))
    };
    let op = Op::new(0, Phase::Other, "op", 0..1);
    let uses = vec![Use::whole(OBJECT, Mode::Read)];
    let meta = TraceMeta::default();
    let trace = Trace { meta, modules: Vec::new(), objects: vec![object], ops: vec![op], uses };
    (hardware, Workload::new(trace))
}

/// What an op that reads the object meets.
fn met() -> Vec<ObjectContents> {
    Written::new([Bytes::new(10_000)]).meets(&op(0))
}

fn op(ticket: u32) -> Command {
    let touch = ObjectAccess { object: OBJECT, tier: HBM, mode: Mode::Read, written: Bytes::ZERO };
    let (touches, charges) = ([touch].into_iter().collect(), [].into_iter().collect());
    Command {
        ticket: Ticket(ticket),
        work: Work::Compute {
            occurrence: 0,
            stream: 0,
            touches,
            charges,
            delay: Span::ZERO,
            allocating: Allocating::default(),
        },
        after: [].into_iter().collect(),
        allocates: [].into_iter().collect(),
        frees: [].into_iter().collect(),
    }
}

const PATIENT: Span = Span::from_us(60_000_000);

/// Runs a body on a machine, and checks that all is given back after it.
fn with_machine(patience: Span, delay: Option<Delay>, body: impl FnOnce(&mut HostMachine<'_>)) {
    let (hardware, workload) = world();
    let setup = Setup {
        hardware: &hardware,
        routes: hardware.routes().expect("one tier is joined to itself"),
        workload: &workload,
        spans: Box::new(|_| Span::from_us(500)),
        start: vec![Allocation { object: OBJECT, tier: HBM, bytes: Bytes::new(10_000) }],
    };
    let options = Options { patience, delay, ..Options::new(std::env::temp_dir()) };
    let mut machine = HostMachine::new(setup, &options).expect("the machine starts");
    body(&mut machine);
    drop(machine);
    assert_eq!(options.live.threads.load(Relaxed), 0);
    assert_eq!(options.live.rooms.load(Relaxed), 0);
}

#[test]
fn a_command_that_never_starts_is_a_fault_and_the_machine_ends() {
    with_machine(Span::ZERO, None, |machine| {
        // Two ops are taken in and nobody is told.
        let mut state = machine.shared.lock();
        state.add(op(3), met(), OpPlan::NONE, (None, 0));
        state.add(op(4), met(), OpPlan::NONE, (None, 0));
        drop(state);
        let fault = machine.next().expect_err("nothing can end");
        assert_eq!(fault, Fault::Stuck { waited_ms: 0, under_way: 2, first: 3, work: "an op" });
        assert!(fault.to_string().contains("command 3"), "{fault}");
        assert_eq!(machine.next(), Err(fault.clone()), "it stays so");
        assert_eq!(machine.submit(op(5)), Err(fault));
    });
}

#[test]
fn a_machine_that_is_at_work_or_done_is_not_stuck() {
    let most = Span::from_us(1000);
    with_machine(Span::ZERO, Some(Delay { seed: 1, most }), |machine| {
        assert_eq!(machine.next(), Ok(None));
        machine.submit(op(0)).expect("no fault");
        // Once the worker has taken the op, however long it is, there is no fault.
        loop {
            let state = machine.shared.lock();
            if state.at_work > 0 || !state.book.ended.is_empty() {
                break;
            }
            drop(state);
            std::thread::yield_now();
        }
        let end = machine.next().expect("no fault");
        assert_eq!(end.map(|(_, ticket)| ticket), Some(Ticket(0)));
        assert_eq!(machine.next(), Ok(None));
    });
}

#[test]
fn what_is_offered_but_not_taken_is_stuck_and_what_has_ended_is_not() {
    let mut state = State::new(1, 0);
    assert_eq!(state.stuck(PATIENT), None, "nothing is under way");
    state.add(op(0), met(), OpPlan::NONE, (None, 0));
    let ticket = Ticket(0);
    let mut waiter = op(1);
    waiter.after.push(Edge { ticket, hazard: Hazard::ReadAfterWrite });
    state.add(waiter, met(), OpPlan::NONE, (None, 0));
    state.start_due(Time::ZERO);
    let lost = Fault::Stuck { waited_ms: 60_000, under_way: 2, first: 0, work: "an op" };
    assert_eq!(state.stuck(PATIENT), Some(lost), "the worker's bell was lost");
    let job = state.take(0).expect("it is ready");
    assert_eq!(state.stuck(PATIENT), None, "the worker is at it");
    state.done(0, &job, (Time::ZERO, Time::ZERO));
    assert_eq!(state.stuck(PATIENT), None, "an end is yet to be heard");
    state.book.ended.clear();
    assert!(state.stuck(PATIENT).is_some(), "the next one's bell was lost");
}

#[test]
fn a_panic_on_a_worker_is_a_fault_with_its_words() {
    with_machine(PATIENT, None, |machine| {
        // More pages than the object has.
        let wrong = Written::new([Bytes::mib(1)]).meets(&op(0));
        let mut state = machine.shared.lock();
        state.add(op(0), wrong, OpPlan::NONE, (None, 0));
        state.start_due(Time::ZERO);
        machine.shared.ring(state);
        let fault = machine.next().expect_err("there is no such page");
        let Fault::Died(words) = fault else { panic!("{fault}") };
        assert!(words.contains("out of range"), "{words}");
    });
}

#[test]
fn files_of_another_process_of_the_same_number_are_left_alone() {
    // As on two machines, or in two containers, that share a folder.
    let scratch = std::env::temp_dir().join(format!("tiersim-shared-{}", std::process::id()));
    let theirs = |number| scratch.join(format!("tiersim-{}-{number}", std::process::id()));
    for number in 0..100 {
        std::fs::create_dir_all(theirs(number)).expect("a folder can be made");
        std::fs::write(theirs(number).join("0"), "theirs").expect("a file can be written");
    }
    let (mut hardware, _) = world();
    hardware.tiers[0].kind = TierKind::Nvme;
    let store = Store::new(&hardware, &Options::new(&scratch)).expect("another folder is free");
    let room = Allocation { object: OBJECT, tier: HBM, bytes: Bytes::new(10_000) };
    store.allocate(&room).expect("a file can be made");
    assert_eq!(std::fs::read_dir(&scratch).expect("it is there").count(), 101);
    drop(store);
    for number in 0..100 {
        let text = std::fs::read_to_string(theirs(number).join("0"));
        assert_eq!(text.ok().as_deref(), Some("theirs"), "folder {number}");
    }
    assert_eq!(std::fs::read_dir(&scratch).expect("it is there").count(), 100);
    std::fs::remove_dir_all(&scratch).expect("it can be removed");
}
