//! `saved: per_op`: which tensors have a copy of their own, who makes it and who reads it.

use super::*;

/// Forward: x; y of x and the weight; z of x and y. Backward, after an op between: of z; of x and y;
/// of x and the weight.
fn saves() -> (Trace, [ObjectId; 2]) {
    use Mode::{Read, Write};
    use Phase::{Backward, Forward};
    let mut traced = Traced::new();
    traced.0.modules = vec!["h.0".into()];
    let weight = traced.object(40, true);
    let [x, y, z] = [10, 20, 30].map(|bytes| traced.object(bytes, false));
    for object in [x, y, z] {
        traced.0.objects[object.index()].kind = ObjectKind::Activation;
    }
    traced.0.objects[weight.index()].kind = ObjectKind::Weight;
    let mut op = |phase, uses: &[_]| {
        let id = traced.op(0, 0, Span::from_ps(1000), uses);
        let op = &mut traced.0.ops[id.index()];
        (op.phase, op.module) = (phase, Some(ModuleId::at(0)));
    };
    op(Forward, &[(x, Write)]);
    op(Forward, &[(x, Read), (weight, Read), (y, Write)]);
    op(Forward, &[(x, Read), (y, Read), (z, Write)]);
    op(Phase::Other, &[]);
    op(Backward, &[(z, Read)]);
    op(Backward, &[(x, Read), (y, Read)]);
    op(Backward, &[(x, Read), (weight, Read)]);
    assert_eq!(traced.0.problems(), []);
    (traced.0, [weight, x])
}

fn per_op() -> ActivationOffloadConfig {
    let mut config = config(Choice::All(Treatment::Offload));
    config.per_op = true;
    config
}

#[test]
fn a_tensor_that_two_ops_save_is_two_and_a_weight_is_saved_as_well() {
    let (trace, [weight, x]) = saves();
    let (workload, hardware) =
        (Workload::new(trace.clone()), two_tiers(Capacity::Unlimited, law(0, ONE)));
    let rewrite = with_setting(&workload, &hardware, 1, |setting| per_op().rewrite(setting));
    let Rewrite { workload, source, .. } = rewrite.expect("it can be").expect("it is");
    assert_eq!(source, (0..7).map(OpId::at).collect::<Vec<_>>());
    let new = &workload.trace;
    assert_eq!(new.problems(), []);
    let copies = &new.objects[trace.objects.len()..];
    let names: Vec<String> = [weight, x]
        .map(|object| format!("{} saved 1", trace.objects[object.index()].name))
        .to_vec();
    assert_eq!(copies.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), names);
    assert_eq!(copies.iter().map(|one| one.bytes.get()).collect::<Vec<_>>(), [40, 10]);
    let [of_weight, of_x] = [4, 5].map(ObjectId::at);
    let uses = |op: usize| -> Vec<(ObjectId, Mode)> {
        new.uses_of(OpId::at(op)).iter().map(|one| (one.object, one.mode)).collect()
    };
    // The first op of the backward pass that reads x has what its last op of the forward pass had.
    assert_eq!(uses(5)[0], (x, Mode::Read));
    assert_eq!(uses(6), [(of_x, Mode::Read), (of_weight, Mode::Read)]);
    assert_eq!(uses(1)[3..], [(of_weight, Mode::Write), (of_x, Mode::Write)]);
    for op in [0, 2, 3, 4] {
        let before = trace.uses_of(OpId::at(op)).iter().map(|one| (one.object, one.mode));
        assert_eq!(uses(op), before.collect::<Vec<_>>());
    }
}

#[test]
fn each_save_is_copied_out_and_back() {
    let (trace, _) = saves();
    let moved = |policy: ActivationOffloadConfig| {
        let record = record(two_tiers(Bytes::new(1000), law(0, ONE)), &trace, policy.into(), ONCE);
        let figures = record.outcome.figures().expect("it fits").clone();
        figures.moved.iter().map(|bytes| bytes.get()).collect::<Vec<_>>()
    };
    // x, y and z; x twice and the weight. In comes the weight as well, once, from where it starts.
    assert_eq!(moved(config(Choice::All(Treatment::Offload))), [40 + 60, 60]);
    assert_eq!(moved(per_op()), [40 + 110, 110]);
}
