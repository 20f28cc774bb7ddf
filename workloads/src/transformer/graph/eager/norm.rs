//! LayerNorm is one kernel; RMSNorm is six, and two more from and to fp32.

use super::super::pass::GraphBuilder;
use crate::build::{read, write};
use crate::transformer::card::NormKind;
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{KeptByNorm, Normed};
use tiersim_models::ids::{ModuleId, ObjectId};

impl GraphBuilder<'_> {
    /// A norm of `rows` rows of `numbers` in all; what it gives is kept by `owner`, if at all.
    pub(crate) fn eager_norm(
        &mut self,
        owned: usize,
        x: ObjectId,
        (rows, numbers): (u128, u128),
        owner: Option<ModuleId>,
    ) -> Normed {
        let at = self.at(self.module(owned));
        let weight = self.weight(owned);
        let y = match owner {
            Some(owner) => self.kept(at.by, "out", numbers, owner),
            None => self.buffer(at.by, "out", numbers),
        };
        if matches!(self.shape.card.family.norm(), NormKind::Layer { .. }) {
            let statistics = self.result(at.wide(), "statistics", 2 * rows, true);
            let (from, to) = ([weight, read(x)], [write(y), write(statistics)]);
            self.run_into(at, "native_layer_norm", (8 * numbers, &from), &to);
            return Normed { x, y, kept: Some(KeptByNorm { statistics, scaled: None }) };
        }
        let is_wide = at.format == Format::Fp32;
        let wide = at.wide();
        let x32 = if is_wide { x } else { self.keep(wide, "_to_copy", &[read(x)], numbers) };
        let squares = self.made(wide, "pow", &[read(x32)], numbers);
        let mean = self.reduce_to(wide, "mean", (read(squares), numbers), rows);
        let mean = self.made(wide, "add", &[read(mean)], rows);
        let root = self.keep(wide, "rsqrt", &[read(mean)], rows);
        let from = [read(x32), read(root)];
        let scaled = if is_wide {
            self.keep(at, "mul", &from, numbers)
        } else {
            let scaled = self.made(wide, "mul", &from, numbers);
            self.keep(at, "_to_copy", &[read(scaled)], numbers)
        };
        self.run_into(at, "mul", (numbers, &[weight, read(scaled)]), &[write(y)]);
        Normed { x, y, kept: Some(KeptByNorm { statistics: root, scaled: Some((x32, scaled)) }) }
    }
}
