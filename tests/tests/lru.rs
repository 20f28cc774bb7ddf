//! The LRU policy against LRU written down in ten lines.

use tiersim_tests::prelude::*;

/// Which references miss, and what is resident after each.
type Story = Vec<(bool, Vec<u32>)>;

fn by_brute_force(references: &[(u32, bool)], frames: usize) -> Story {
    let mut stack: Vec<u32> = Vec::new();
    let mut story = Vec::new();
    for &(page, _) in references {
        let found = stack.iter().position(|&other| other == page);
        if let Some(index) = found {
            stack.remove(index);
        }
        stack.push(page);
        if stack.len() > frames {
            stack.remove(0);
        }
        let mut resident = stack.clone();
        resident.sort_unstable();
        story.push((found.is_none(), resident));
    }
    story
}

fn by_policy(references: &[(u32, bool)], pages: u32, frames: usize) -> Story {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..pages).map(|_| traced.object(1, true)).collect();
    for &(page, writes) in references {
        let mode = if writes { Mode::ReadWrite } else { Mode::Read };
        traced.op(0, 0, Span::ZERO, &[(objects[page as usize], mode)]);
    }
    let hardware = two_tiers(Bytes::new(frames as u64), law(0, 1));
    let world = World::recorded(hardware, traced.0, 1);
    let lru = policy_of(&world, &DemandConfig::lru(vec![TierId(1)]).into());
    let mut planner = world.planner(lru.expect("it is built")).expect("it fits");
    let mut story = Vec::new();
    let mut commands = Vec::new();
    while planner.plan_next(&mut commands).expect("it fits") {
        let fetched = |work: &Work| matches!(work, Work::Copy { to: HBM, .. });
        let missed = commands.iter().any(|command| fetched(&command.work));
        let resident = objects.iter().filter(|&&object| planner.ledger().holds(object, HBM));
        story.push((missed, resident.map(|object| object.0).collect()));
        commands.clear();
    }
    story
}

fn random_references(rng: &mut ChaCha12Rng, pages: u32) -> Vec<(u32, bool)> {
    (0..100).map(|_| (rng.random_range(0..pages), rng.random_bool(0.4))).collect()
}

#[test]
fn equals_brute_force_on_1000_random_traces() {
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    for trace in 0..1000 {
        let pages = rng.random_range(2..20);
        let frames = rng.random_range(1..=pages as usize);
        let references = random_references(&mut rng, pages);
        let expected = by_brute_force(&references, frames);
        assert_eq!(by_policy(&references, pages, frames), expected, "trace {trace}");
    }
}

#[test]
fn a_larger_hbm_holds_all_that_a_smaller_one_holds() {
    let mut rng = ChaCha12Rng::seed_from_u64(8);
    for trace in 0..100 {
        let references = random_references(&mut rng, 12);
        let mut smaller = by_policy(&references, 12, 1);
        for frames in 2..=12 {
            let larger = by_policy(&references, 12, frames);
            for (op, (small, large)) in smaller.iter().zip(&larger).enumerate() {
                let contained = small.1.iter().all(|page| large.1.contains(page));
                assert!(contained, "trace {trace}, {frames} frames, op {op}");
                assert!(small.0 || !large.0, "trace {trace}, {frames} frames, op {op}");
            }
            smaller = larger;
        }
    }
}
