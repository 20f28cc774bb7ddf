//! Objects of two traces, by name.

use super::ops::{Found, module};
use super::{Listed, Pair, more, rising, short};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use tiersim_models::ids::OpId;
use tiersim_models::workload::{Object, Trace};

/// In what the objects differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectsDiff {
    /// Objects that are in A only.
    pub only_a: u64,
    /// Objects that are in B only.
    pub only_b: u64,
    /// Objects that are in both and are not the same.
    pub differing: u64,
    /// Objects that are in both and come in another order: as few as explain it.
    pub moved: u64,
    /// The largest changes of size first; what is in one only changes by all of it.
    #[serde(flatten)]
    pub names: Listed<ObjectDiff>,
}

impl ObjectsDiff {
    pub(super) fn are_same(&self) -> bool {
        self.others() + self.moved == 0
    }

    /// How many are not the same, whatever their order.
    pub(super) fn others(&self) -> u64 {
        self.only_a + self.only_b + self.differing
    }
}

/// An object that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectDiff {
    /// Its name.
    pub name: String,
    /// Its size; none where it is not.
    pub bytes: Pair<Option<u64>>,
    /// The ops that use it first and last.
    pub life: Pair<Option<(u32, u32)>>,
    /// Columns of `objects.csv` in which it differs, `first_use`, `last_use` and `history`.
    pub fields: Vec<&'static str>,
}

/// First and last use of each object.
fn lives(trace: &Trace) -> Vec<Option<(u32, u32)>> {
    let mut lives = vec![None; trace.objects.len()];
    for id in 0..trace.ops.len() {
        for one in trace.uses_of(OpId::at(id)) {
            let life = lives[one.object.index()].get_or_insert((id as u32, id as u32));
            life.1 = id as u32;
        }
    }
    lives
}

/// Compares the objects of two traces whose ops were found.
pub(super) fn objects(a: &Trace, b: &Trace, found: &Found, top: usize) -> ObjectsDiff {
    let (lives_a, lives_b) = (lives(a), lives(b));
    let by_name = b.objects.iter().enumerate().map(|(id, one)| (one.name.as_str(), id));
    let mut left: BTreeMap<&str, usize> = by_name.collect();
    let (mut rows, mut order) = (Vec::new(), Vec::new());
    let (mut only_a, mut differing) = (0, 0);
    let bytes = |one: &Object| Some(one.bytes.get());
    for (id, one) in a.objects.iter().enumerate() {
        let mut row = ObjectDiff {
            name: one.name.to_string(),
            bytes: Pair { a: bytes(one), b: None },
            life: Pair { a: lives_a[id], b: None },
            fields: Vec::new(),
        };
        let Some(other) = left.remove(one.name.as_str()) else {
            only_a += 1;
            rows.push(row);
            continue;
        };
        order.push(other as u32);
        (row.bytes.b, row.life.b) = (bytes(&b.objects[other]), lives_b[other]);
        row.fields = fields((a, one), (b, &b.objects[other]), row.life, found);
        if !row.fields.is_empty() {
            differing += 1;
            rows.push(row);
        }
    }
    let only_b = left.len() as u64;
    // In the order of the trace, not of names.
    let mut left: Vec<usize> = left.into_values().collect();
    left.sort_unstable();
    rows.extend(left.into_iter().map(|id| ObjectDiff {
        name: b.objects[id].name.to_string(),
        bytes: Pair { a: None, b: bytes(&b.objects[id]) },
        life: Pair { a: None, b: lives_b[id] },
        fields: Vec::new(),
    }));
    let moved = (order.len() - rising(order.iter().copied())) as u64;
    let largest = |row: &ObjectDiff| {
        let [a, b] = [row.bytes.a, row.bytes.b].map(Option::unwrap_or_default);
        Reverse(a.abs_diff(b))
    };
    rows.sort_by_key(largest);
    ObjectsDiff { only_a, only_b, differing, moved, names: Listed::of(rows, top) }
}

fn fields(
    (a, one): (&Trace, &Object),
    (b, other): (&Trace, &Object),
    life: Pair<Option<(u32, u32)>>,
    found: &Found,
) -> Vec<&'static str> {
    // The op of B that an op of A is.
    let there = |op: Option<u32>| op.map(|op| found.in_b[op as usize].map(|op| op.0));
    let here = |op: Option<u32>| op.map(Some);
    let ends = |life: Option<(u32, u32)>| (life.map(|life| life.0), life.map(|life| life.1));
    let ((first_a, last_a), (first_b, last_b)) = (ends(life.a), ends(life.b));
    let freed = |object: &Object| object.freed_after.map(|op| op.0);
    let same = [
        ("kind", one.kind == other.kind),
        ("bytes", one.bytes == other.bytes),
        ("dtype", one.dtype == other.dtype),
        ("persistent", one.persistent == other.persistent),
        ("module", module(a, one.module) == module(b, other.module)),
        ("statistics", one.statistics == other.statistics),
        ("history", one.history == other.history),
        ("first_use", there(first_a) == here(first_b)),
        ("last_use", there(last_a) == here(last_b)),
        ("freed_after", there(freed(one)) == here(freed(other))),
    ];
    same.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect()
}

impl fmt::Display for ObjectsDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_same() {
            return Ok(());
        }
        let ObjectsDiff { only_a, only_b, differing, moved, names } = self;
        write!(
            f,
            "\nobjects: {only_a} in A only, {only_b} in B only, {differing} in both and not "
        )?;
        writeln!(f, "the same, {moved} in another order")?;
        let bytes = |of: Option<u64>| of.map_or("-".to_owned(), |bytes| bytes.to_string());
        let life = |of: Option<(u32, u32)>| {
            of.map_or("never used".to_owned(), |(first, last)| format!("ops {first} to {last}"))
        };
        for ObjectDiff { name, bytes: sizes, life: lives, fields } in &names.rows {
            let (a, b) = (bytes(sizes.a), bytes(sizes.b));
            write!(f, "{:<40} {a:>14} {b:>14}  ", short(name))?;
            match (sizes.a, sizes.b) {
                (Some(_), None) => writeln!(f, "in A only, {}", life(lives.a))?,
                (None, _) => writeln!(f, "in B only, {}", life(lives.b))?,
                _ => writeln!(f, "{}", fields.join(", "))?,
            }
        }
        more(f, names.left_out)
    }
}
