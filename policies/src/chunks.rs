//! Large objects in chunks: pieces that are placed and moved each on its own.
//!
//! Every object larger than a chunk becomes pieces of that size, the last one perhaps smaller; an
//! op that uses the object uses all of them, in the same way. So part of an object can be in HBM,
//! and an object larger than HBM can be streamed through it by a policy that works by object.
//! Invariant: ops, bytes, lifetimes and modules are the same as before.

use crate::recipe::Rewrite;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::serving_plan::{Plan, Reuse};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, PartialUse, Statistics, Trace, Use};

/// The most objects and uses of a workload in chunks.
const MOST: u64 = 1 << 24;

/// The workload with every object larger than `chunk` in pieces; `None` if there is none such.
///
/// Errors in words if there would be more pieces, or uses of pieces, than 2^24.
pub fn chunked(workload: &Workload, chunk: Bytes) -> Result<Option<Rewrite>, String> {
    let trace = &workload.trace;
    let pieces = |object: &Object| object.bytes.get().div_ceil(chunk.get().max(1)).max(1);
    let counts: Vec<u64> = trace.objects.iter().map(pieces).collect();
    if counts.iter().all(|&pieces| pieces == 1) {
        return Ok(None);
    }
    let uses = trace.uses.iter().map(|touched| counts[touched.object.index()]);
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0u64, u64::saturating_add);
    let (objects, uses) = (sum(&mut counts.iter().copied()), sum(&mut uses.into_iter()));
    if objects.max(uses) > MOST {
        return Err(format!(
            "chunks of {chunk} are {objects} objects and {uses} uses, more than {MOST}: write larger ones"
        ));
    }
    let mut first = Vec::with_capacity(counts.len());
    let mut split = Vec::with_capacity(objects as usize);
    for (object, &pieces) in trace.objects.iter().zip(&counts) {
        first.push(split.len());
        split.extend((0..pieces).map(|number| piece(object, number, pieces, chunk)));
    }
    let mut list = Vec::with_capacity(uses as usize);
    let mut ops = trace.ops.clone();
    for (index, op) in ops.iter_mut().enumerate() {
        let start = list.len() as u32;
        for touched in trace.uses_of(OpId::at(index)) {
            let object = touched.object.index();
            let all = first[object]..first[object] + counts[object] as usize;
            let whole = trace.objects[object].bytes;
            list.extend(all.map(|piece| {
                let part = touched.part.and_then(|part| share(part, split[piece].bytes, whole));
                Use { object: ObjectId::at(piece), part, ..*touched }
            }));
        }
        op.uses = start..list.len() as u32;
    }
    let serving = workload.serving.as_ref().map(|plan| {
        let pieces = plan.reuses.iter().flat_map(|&Reuse { op, object }| {
            let (first, count) = (first[object.index()], counts[object.index()] as usize);
            (first..first + count).map(move |piece| Reuse { op, object: ObjectId::at(piece) })
        });
        Plan { reuses: pieces.collect(), ..plan.clone() }
    });
    let source = (0..ops.len()).map(OpId::at).collect();
    let (meta, modules) = (trace.meta.clone(), trace.modules.clone());
    let trace = Trace { meta, modules, objects: split, ops, uses: list };
    let mut workload = Workload::new(trace);
    workload.serving = serving;
    Ok(Some(Rewrite { workload, source, policy: None }))
}

/// What falls to one piece of an object of what is used of it.
fn share(part: PartialUse, own: Bytes, whole: Bytes) -> Option<PartialUse> {
    let pieces = u128::from(part.pieces.get()) * u128::from(own.get());
    PartialUse::of(pieces.div_ceil(u128::from(whole.get())), part.piece.get().into(), own)
}

/// One of the pieces of an object: means stay what they are, a norm is shared by bytes.
fn piece(object: &Object, number: u64, pieces: u64, chunk: Bytes) -> Object {
    if pieces == 1 {
        return object.clone();
    }
    let bytes = chunk.get().min(object.bytes.get() - number * chunk.get());
    let share = (bytes as f64 / object.bytes.get() as f64).sqrt();
    let own =
        |all: &Statistics| Statistics { grad_norm: all.grad_norm.map(|norm| norm * share), ..*all };
    Object {
        name: format!("{} [{} of {pieces}]", object.name, number + 1).into(),
        bytes: Bytes::new(bytes),
        statistics: own(&object.statistics),
        history: object.history.as_ref().map(|steps| steps.iter().map(own).collect()),
        ..object.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::ids::ModuleId;
    use tiersim_models::workload::{Mode, ObjectKind, Op, Phase, TraceMeta};

    fn object(name: &str, bytes: u64, persistent: bool) -> Object {
        let statistics = Statistics { adam_m: Some(0.5), adam_v: None, grad_norm: Some(6.0) };
        Object {
            persistent,
            module: Some(ModuleId::at(0)),
            statistics,
            history: Some([statistics, Statistics::default()].into()),
            ..Object::new(name, ObjectKind::Weight, Bytes::new(bytes))
        }
    }

    fn workload() -> Workload {
        let touched = |object, mode| Use::whole(ObjectId(object), mode);
        let uses = vec![
            touched(0, Mode::Read),
            touched(1, Mode::Write),
            touched(1, Mode::Read),
            touched(0, Mode::ReadWrite),
        ];
        let ops = [0..2, 2..4].map(|uses| Op::new(0, Phase::Forward, "op", uses));
        let trace = Trace {
            meta: TraceMeta::default(),
            modules: vec!["layer".into()],
            objects: vec![object("w", 90, true), object("a", 40, false)],
            ops: ops.into(),
            uses,
        };
        assert_eq!(trace.problems(), []);
        Workload::new(trace)
    }

    #[test]
    fn pieces_have_the_objects_bytes_and_all_of_its_uses() {
        let chunked = chunked(&workload(), Bytes::new(40)).expect("few").expect("one is larger");
        let trace = &chunked.workload.trace;
        assert_eq!(trace.problems(), []);
        let sizes: Vec<u64> = trace.objects.iter().map(|object| object.bytes.get()).collect();
        assert_eq!(sizes, [40, 40, 10, 40]);
        let names: Vec<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["w [1 of 3]", "w [2 of 3]", "w [3 of 3]", "a"]);
        let used = |op| -> Vec<(u32, &str)> {
            let uses = trace.uses_of(OpId(op)).iter();
            uses.map(|touched| (touched.object.0, touched.mode.word())).collect()
        };
        assert_eq!(used(0), [(0, "r"), (1, "r"), (2, "r"), (3, "w")]);
        assert_eq!(used(1), [(3, "r"), (0, "rw"), (1, "rw"), (2, "rw")]);
        assert_eq!(chunked.workload.births(OpId(0)), [ObjectId(3)]);
        assert_eq!(chunked.workload.weights(OpId(0)), workload().weights(OpId(0)));
        assert_eq!(chunked.source, [OpId(0), OpId(1)]);
        let squares = trace.objects[..3].iter().map(|piece| piece.statistics.grad_norm.unwrap());
        assert!((squares.map(|norm| norm * norm).sum::<f64>() - 36.0).abs() < 1e-9);
        for piece in &trace.objects[..3] {
            let history = piece.history.as_deref().expect("it has one");
            assert_eq!(history, [piece.statistics, Statistics::default()]);
        }
    }

    #[test]
    fn nothing_changes_if_nothing_is_larger_and_dust_is_refused() {
        assert!(chunked(&workload(), Bytes::new(90)).expect("few").is_none());
        let mut large = workload().trace;
        large.objects[0].bytes = Bytes::gib(1);
        let refused = chunked(&Workload::new(large), Bytes::new(1)).expect_err("2^30 pieces");
        assert!(refused.contains("1073741864 objects"), "{refused}");
    }
}
