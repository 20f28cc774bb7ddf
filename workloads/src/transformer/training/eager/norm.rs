//! The backward pass of norms: LayerNorm's is one kernel, RMSNorm's thirteen.

use crate::build::{read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{KeptByNorm, Normed};
use tiersim_models::ids::ObjectId;

impl GraphBuilder<'_> {
    /// The gradient of a norm's input, of `rows` rows of `numbers` in all, plus `beside`.
    pub(in crate::transformer::training) fn eager_norm_backward(
        &mut self,
        owned: usize,
        (normed, kept): (&Normed, KeptByNorm),
        (rows, numbers): (u128, u128),
        dy: ObjectId,
        beside: Option<ObjectId>,
    ) -> ObjectId {
        let at = self.at(self.module(owned));
        let weight = self.weight(owned);
        let mut target = self.target(owned);
        let all = target.numbers;
        let Some((x32, scaled)) = kept.scaled else {
            let dx = self.result(at, "native_layer_norm_backward", numbers, false);
            let from = [weight, read(normed.x), read(kept.statistics), read(dy)];
            self.part_of_gradient(at, &mut target, all, |maker, to| {
                let to = [&[write(dx)], to].concat();
                maker.run_into(at, "native_layer_norm_backward", (14 * numbers, &from), &to);
            });
            let dx = match beside {
                Some(beside) => self.made(at, "add", &[read(dx), read(beside)], numbers),
                None => dx,
            };
            self.done(owned);
            return dx;
        };
        let (wide, is_wide) = (at.wide(), at.format == Format::Fp32);
        let mut d_scaled = self.made(at, "mul", &[weight, read(dy)], numbers);
        let d_weight = self.made(at, "mul", &[read(scaled), read(dy)], numbers);
        self.part_of_gradient(at, &mut target, all, |maker, to| {
            maker.run_into(at, "sum", (numbers, &[read(d_weight)]), to);
        });
        if !is_wide {
            d_scaled = self.made(wide, "_to_copy", &[read(d_scaled)], numbers);
        }
        let root = kept.statistics;
        let d_root = self.made(wide, "mul", &[read(x32), read(d_scaled)], numbers);
        let mut dx = self.made(wide, "mul", &[read(root), read(d_scaled)], numbers);
        let d_root = self.reduce_to(wide, "sum", (read(d_root), numbers), rows);
        if let (Some(beside), true) = (beside, is_wide) {
            dx = self.made(wide, "add", &[read(beside), read(dx)], numbers);
        }
        let cubes = self.made(wide, "pow", &[read(root)], rows);
        let d_root = self.made(wide, "mul", &[read(d_root)], rows);
        let d_mean = self.made(wide, "mul", &[read(cubes), read(d_root)], rows);
        let d_squares = self.made(wide, "div", &[read(d_mean)], numbers);
        let slope = self.made(wide, "pow", &[read(x32)], numbers);
        let slope = self.made(wide, "mul", &[read(slope)], numbers);
        let through = self.made(wide, "mul", &[read(d_squares), read(slope)], numbers);
        dx = self.made(wide, "add", &[read(dx), read(through)], numbers);
        if !is_wide {
            dx = self.made(at, "_to_copy", &[read(dx)], numbers);
            if let Some(beside) = beside {
                dx = self.made(at, "add", &[read(beside), read(dx)], numbers);
            }
        }
        self.done(owned);
        dx
    }
}
