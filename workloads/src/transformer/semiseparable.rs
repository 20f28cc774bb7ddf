//! A pass through layers of structured operators, H = T + U C V^T, in the place of dense matrices.
//!
//! What an operator is made of is in [`crate::memory::semiseparable`]. Nested it is applied level
//! by level: down, z_k = V_k^T z_(k-1) from the input z_0; and up, y_(k-1) = T_k z_(k-1) + U_k y_k,
//! where the last level's y is its z. As a sum every level takes the input: y = T x, and y += U_k
//! (V_k^T x). T is fp32, whole on every rank, and used where it is. U and V are fp16, or what is
//! said, and split by columns over the ranks (ZeRO along the rank dimension): the ranks, each of
//! which has sequences of its own, gather a factor before its product into a buffer that is given
//! back behind it. Invariant: weights are what the formulas say of the busiest rank.

use super::format::Format;
use super::graph::network::group;
use crate::build::{Builder, change, read, write};
use crate::limits::{ShapeProblem, outside};
use crate::memory::semiseparable::{Formats, Level, Shape, has_tridiagonal, levels};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{CollectiveKind, ObjectKind, Recorded, Trace, TraceMeta};

/// Layers of structured operators, and what goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Semiseparable {
    /// Rows and columns of each operator.
    pub size: u64,
    /// Operators, one behind the other.
    pub layers: u32,
    /// Vectors that go through at once.
    pub batch: u32,
    /// How levels follow one another.
    pub shape: Shape,
    /// Format of U, V and vectors; T is fp32.
    pub factors: Format,
    /// Ranks that U and V are split over.
    pub ranks: u32,
    /// Devices of one server.
    pub devices: u32,
    /// Whether communication has a stream of its own.
    pub overlap: bool,
}

/// One level of one layer: its objects.
struct LevelObjects {
    level: Level,
    module: ModuleId,
    /// `None` where the first level's is for all.
    tridiagonal: Option<ObjectId>,
    /// V and U of this rank; `None` for a level without rank.
    factors: Option<[ObjectId; 2]>,
}

impl Semiseparable {
    /// Every rule that it breaks; empty for one that makes a trace.
    pub fn problems(&self) -> Vec<ShapeProblem> {
        let ranges = vec![
            ("size", self.size, 1 << 48),
            ("layers", self.layers.into(), 10_000),
            ("batch", self.batch.into(), 1 << 20),
            ("ranks", self.ranks.into(), 1 << 20),
            ("devices", self.devices.into(), 1 << 10),
        ];
        let mut found: Vec<ShapeProblem> = outside(ranges, |field, most, value| {
            format!("`{field}` must lie between 1 and {most}, it is {value}")
        })
        .collect();
        if !found.is_empty() {
            return found;
        }
        if group(self.ranks, 1, self.devices).is_none() {
            let rule = format!("ranks must fill servers of {} devices or fit in one", self.devices);
            let remedy = "choose a multiple of the devices of a server";
            found.push(ShapeProblem { field: "ranks", rule, remedy });
        } else if let Some(rule) = self.pass().problem() {
            let remedy = "choose a smaller size or batch, or fewer layers";
            found.push(ShapeProblem { field: "size", rule: rule.to_owned(), remedy });
        }
        found
    }

    /// The trace of one pass of one rank; the same for the same numbers.
    ///
    /// Panics if there are [`Semiseparable::problems`].
    pub fn trace(&self) -> Trace {
        let problems = self.problems();
        assert!(problems.is_empty(), "operators with problems: {problems:?}");
        self.pass().trace
    }

    fn pass(&self) -> Builder {
        let Semiseparable { size, layers, batch, ranks, .. } = self;
        let build = Builder::new(TraceMeta {
            name: format!("semiseparable-{layers}x{size}"),
            about: format!(
                "generated: a pass of {batch} vectors through {layers} structured operators of \
                 {size} x {size}, on one of {ranks} ranks; no durations were recorded"
            ),
            precision: self.factors.word().to_owned(),
            batch: *batch,
            sequence: 1,
            recorded: Recorded::default(),
        });
        let mut maker = GraphBuilder { of: self, build };
        let all: Vec<Vec<LevelObjects>> =
            (0..self.layers).map(|layer| maker.parts(layer)).collect();
        if let Some(first) = all.first().and_then(|parts| parts.first()) {
            let mut x = maker.vector("input".to_owned(), self.size);
            maker.build.op("load", first.module, 0, &[write(x)]);
            for (layer, parts) in all.iter().enumerate() {
                x = maker.apply(&format!("layers.{layer}"), parts, x);
            }
        }
        maker.build
    }

    /// FLOPs of a product with U or V.
    fn product(&self, level: Level) -> u128 {
        2 * u128::from(level.size) * u128::from(level.rank) * u128::from(self.batch)
    }
}

/// A pass in the making.
struct GraphBuilder<'a> {
    of: &'a Semiseparable,
    build: Builder,
}

impl GraphBuilder<'_> {
    /// What persists of one layer.
    fn parts(&mut self, layer: u32) -> Vec<LevelObjects> {
        let all = levels(self.of.size, self.of.shape).into_iter().enumerate();
        let part = |(index, level): (usize, Level)| {
            let name = format!("layers.{layer}.level.{index}");
            let module = self.build.module(&name);
            let [size, rank] = [level.size, level.rank].map(u128::from);
            let columns = rank.div_ceil(u128::from(self.of.ranks));
            let mut weight = |what: &str, numbers: u128, format: Format| {
                let bytes = numbers * u128::from(format.bytes());
                let name = format!("{name}.{what}");
                let id = self.build.object(name, ObjectKind::Weight, (bytes, format), Some(module));
                self.build.persist(id)
            };
            let has = has_tridiagonal(self.of.shape, index);
            let tridiagonal = has.then(|| weight("t", 3 * size - 2, Formats::MIXED.tridiagonal));
            let factor = |what| weight(what, size * columns, self.of.factors);
            let factors = (rank > 0).then(|| ["v", "u"].map(factor));
            LevelObjects { level, module, tridiagonal, factors }
        };
        all.map(part).collect()
    }

    /// `batch` vectors of so many numbers.
    fn vector(&mut self, name: String, size: u64) -> ObjectId {
        let Semiseparable { batch, factors, .. } = *self.of;
        let bytes = u128::from(size) * u128::from(batch) * u128::from(factors.bytes());
        self.build.object(name, ObjectKind::Activation, (bytes, factors), None)
    }

    /// A factor with all its columns: gathered, where ranks share it.
    fn whole(&mut self, part: &LevelObjects, shard: ObjectId) -> ObjectId {
        let Semiseparable { factors, ranks, devices, overlap, .. } = *self.of;
        let group = group(ranks, 1, devices).filter(|_| ranks > 1);
        let Some(group) = group else { return shard };
        let [size, rank] = [part.level.size, part.level.rank].map(u128::from);
        let bytes = size * rank * u128::from(factors.bytes());
        let name = format!("{}.whole", self.build.name(shard));
        let whole = self.build.object(name, ObjectKind::Buffer, (bytes, factors), None);
        let kind = CollectiveKind::AllGather;
        let (unit, stream) = (group.does(kind, bytes), u16::from(overlap));
        let touches = [read(shard), write(whole)];
        self.build.op_on(unit, stream, kind.word(), part.module, 0, &touches);
        whole
    }

    /// One layer: down through its levels and up again, or one level beside the other.
    fn apply(&mut self, name: &str, parts: &[LevelObjects], x: ObjectId) -> ObjectId {
        let mut inputs = vec![x];
        let mut z = x;
        let is_nested = self.of.shape == Shape::Nested;
        for (index, part) in parts.iter().enumerate() {
            let Some([v, _]) = part.factors else { continue };
            let from = if is_nested { z } else { x };
            z = self.project(&format!("{name}.{index}.down"), part, [v, from]);
            inputs.push(z);
        }
        if !is_nested {
            let y = self.tridiagonal(&format!("{name}.up"), &parts[0], x);
            for (part, &z) in parts.iter().zip(&inputs[1..]) {
                self.expand(part, [z, y]);
            }
            return y;
        }
        let mut below = z;
        for (index, part) in parts.iter().enumerate().rev() {
            let y = self.tridiagonal(&format!("{name}.{index}.up"), part, inputs[index]);
            self.expand(part, [below, y]);
            below = y;
        }
        below
    }

    /// V^T x, of a level's rank.
    fn project(&mut self, name: &str, part: &LevelObjects, [v, x]: [ObjectId; 2]) -> ObjectId {
        let whole = self.whole(part, v);
        let y = self.vector(name.to_owned(), part.level.rank);
        let touches = [read(whole), read(x), write(y)];
        self.build.op("project", part.module, self.of.product(part.level), &touches);
        y
    }

    /// T x.
    fn tridiagonal(&mut self, name: &str, part: &LevelObjects, x: ObjectId) -> ObjectId {
        let y = self.vector(name.to_owned(), part.level.size);
        let flops = 2 * (3 * u128::from(part.level.size) - 2) * u128::from(self.of.batch);
        let t = part.tridiagonal.expect("a level that T is applied in has one");
        self.build.op("tridiagonal", part.module, flops, &[read(t), read(x), write(y)]);
        y
    }

    /// y += U z.
    fn expand(&mut self, part: &LevelObjects, [z, y]: [ObjectId; 2]) {
        let Some([_, u]) = part.factors else { return };
        let whole = self.whole(part, u);
        let touches = [read(whole), read(z), change(y)];
        self.build.op("expand", part.module, self.of.product(part.level), &touches);
    }
}
