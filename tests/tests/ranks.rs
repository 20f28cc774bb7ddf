//! Several ranks in runs that repeat themselves: what is left out changes nothing. And what ranks
//! have of the host's processors.

use rayon::prelude::*;
use tiersim_sim::run;
use tiersim_tests::prelude::*;

/// Replays of each world.
const REPEAT: u32 = 40;

#[test]
fn ranks_that_repeat_themselves_end_as_if_every_replay_was_simulated() {
    let left_out: Vec<u64> = (0..600).into_par_iter().filter_map(left_out).collect();
    let shortened = left_out.iter().filter(|&&replays| replays > 0).count();
    assert_eq!((left_out.len(), shortened), (57, 28), "worlds, and those that were shortened");
}

/// Replays that the run of a world leaves out, which ends as the whole one does; `None` if it is
/// no world of several ranks that may be shortened.
fn left_out(index: u64) -> Option<u64> {
    let mut trial = Trial::new(seed_of(77, index), usize::MAX);
    let ops = &trial.workload.trace.ops;
    let together = ops.iter().any(|op| matches!(op.unit, Unit::Network(_)));
    if trial.spec.ranks < 2 || !together || ops.len() > 40 {
        return None;
    }
    (trial.spec.repeat, trial.spec.warmup, trial.spec.jitter) = (REPEAT, 1, 0.0);
    // A plan that is ahead by all replays leaves none to leave out.
    (trial.pressure, trial.window) = (None, trial.window.min(16));
    // Where objects lie is not compared, so such runs are never extended.
    trial.allocators.clear();
    // What is released at a moment of the run happens once.
    trial.workload.trace.ops.iter_mut().for_each(|op| op.release = None);
    let scenario = trial.scenario()?;
    let outcome = |extend: bool| {
        let options = Options {
            audit: true,
            timeline: false,
            window: trial.window,
            extend,
            ..Options::default()
        };
        let record = run::run(&scenario, &trial.workload, String::new(), options, || ());
        let mut record = record.expect("no rule is broken");
        let case = record.results.remove(0);
        (case.left_out, format!("{:?} {:?}", case.outcome, record.base().baseline))
    };
    let (short, whole) = (outcome(true), outcome(false));
    assert_eq!(short.1, whole.1, "world {index}");
    assert_eq!(whole.0, 0);
    Some(short.0)
}

/// Devices of which every four share a link of ten bytes per ps to memory, and a host whose ops
/// have this launch.
fn fours(launch: u64) -> Hardware {
    let far = (TierKind::Dram, Capacity::Unlimited, law(0, 1000 * ONE));
    let mut machine = hardware(&[free(TierKind::Hbm), far], &[(0, 1, law(0, 10 * ONE))]);
    machine.links[0].service = fair(None, None);
    machine.server.devices = 8;
    machine.server.links = vec![(LinkId(0), 4)];
    machine.server.tiers = vec![(FAR, 4)];
    let (flops, memory) = (FlopRate::new(1).unwrap(), Bandwidth::new(1).unwrap());
    let launch = Span::from_ps(launch);
    machine.cpu = Some(Cpu { name: "host".to_owned(), flops, memory, launch });
    machine
}

/// When each op has ended on all ranks, of ops of one stream that take so long alone. The first
/// reads so many bytes that are fetched for it.
fn ends(ranks: u32, launch: u64, fetched: Option<u64>, ops: &[(Unit, u64)]) -> Vec<u64> {
    let mut traced = Traced::new();
    let object = fetched.map(|bytes| traced.object(bytes, true));
    for (index, &(unit, _)) in ops.iter().enumerate() {
        let read = object.filter(|_| index == 0).map(|object| (object, Mode::Read));
        traced.on(unit, Span::ZERO, read.as_slice());
    }
    let spans = ops.iter().map(|&(_, ps)| Span::from_ps(ps)).collect();
    let world = World::of(fours(launch), traced.0, spans);
    let start = vec![FAR; usize::from(object.is_some())];
    let fetch = object.map(|object| vec![fetch(object)]);
    world.scripted_on(ranks, start, fetch.into_iter().collect()).0
}

#[test]
fn ranks_that_use_the_processors_at_once_take_so_many_times_as_long() {
    for ranks in 1..=8u64 {
        // A part of 1 / 3, 1 / 6 or 1 / 7 is rounded down: an op that has it ends one ps later.
        let late = u64::from([3, 6, 7].contains(&ranks));
        for launch in [0, 1, 30] {
            let took = |ops: &[(Unit, u64)]| ends(ranks as u32, launch, None, ops);
            // A launch is each rank's own, and the work is done by the processors of all.
            let one = launch + ranks * 840 + late;
            assert_eq!(took(&[(Unit::Cpu, launch + 840)]), [one], "{ranks} ranks");
            // What devices do is done by each of them.
            let ops = [(Unit::Cpu, launch + 840), (Unit::Device, 5), (Unit::Cpu, launch + 1680)];
            let last = one + 5 + launch + ranks * 1680 + late;
            assert_eq!(took(&ops), [one, one + 5, last], "{ranks} ranks");
        }
        assert_eq!(ends(ranks as u32, 30, None, &[(Unit::Cpu, 30)]), [30]);
    }
}

#[test]
fn a_rank_goes_on_when_its_own_op_on_the_processors_has_ended() {
    let ops = [(Unit::Device, 0), (Unit::Cpu, 50), (Unit::Device, 10), (Unit::Cpu, 250)];
    // One device alone: 1000 bytes in 100 ps.
    assert_eq!(ends(1, 0, Some(1000), &ops), [100, 150, 160, 410]);
    // Two share the link and the processors.
    assert_eq!(ends(2, 0, Some(1000), &ops), [200, 300, 310, 810]);
    // The fifth has a link of its own. It works from 100 to 150, its device until 160, and it works
    // again: alone until 400, then with the four others, so the 10 that are left take 50. They have
    // done 10 each by 450, and share what is left, 4 x 40, until 610; then 4 x 250 from 620 on.
    assert_eq!(ends(5, 0, Some(1000), &ops), [400, 610, 620, 1620]);
}
