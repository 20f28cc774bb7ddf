//! Backward passes of eager kernels, as PyTorch's autograd runs them, and their update.
//!
//! A gradient that comes to a tensor from two sides is a sum in a kernel of its own; the first
//! gradient of a weight is kept as it comes, later ones are added to it.

mod attention;
mod experts;
mod norm;
mod update;

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::eager::At;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::SavedFeedForward;
use crate::transformer::graph::state::{Mlp, ModelState};
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::{Product, Work};

/// What a weight's gradient goes into.
#[derive(Clone, Debug)]
pub(super) struct Target {
    objects: Vec<ObjectId>,
    /// Whether nothing has been written yet.
    is_new: bool,
    /// Numbers of all of it, and of those that kernels have written.
    numbers: u128,
    done: u128,
}

impl GraphBuilder<'_> {
    pub(super) fn target(&mut self, owned: usize) -> Target {
        let touches = self.gradient(owned);
        let is_new = touches.iter().all(ObjectAccess::is_write);
        let objects = touches.iter().map(|touch| touch.object).collect();
        let each = u128::from(self.shape.formats.gradients.bytes());
        let numbers = self.owned[owned].gradient_bytes / each.max(1);
        Target { objects, is_new, numbers, done: 0 }
    }

    /// A kernel that makes the next `numbers` of a weight's gradient: `kernel` gets what it writes.
    pub(super) fn part_of_gradient(
        &mut self,
        at: At,
        target: &mut Target,
        numbers: u128,
        kernel: impl FnOnce(&mut Self, &[ObjectAccess]),
    ) {
        let all = target.numbers.max(1);
        let part = |object: ObjectId, maker: &Self| maker.build.size(object) * numbers / all;
        let is_first = target.done == 0;
        target.done += numbers;
        if target.is_new {
            let to = target.objects.iter().map(|&object| {
                let bytes = part(object, self);
                if is_first { write(object).part(bytes) } else { change(object).part(bytes) }
            });
            let to: Vec<ObjectAccess> = to.collect();
            kernel(self, &to);
            return;
        }
        let format = self.shape.formats.gradients;
        let made = self.result(At { format, ..at }, "grad", numbers, false);
        kernel(self, &[write(made)]);
        let sums = target.objects.iter().map(|&object| change(object).part(2 * part(object, self)));
        let touches: Vec<ObjectAccess> = [read(made)].into_iter().chain(sums).collect();
        self.run_on(at, "add_", numbers, &touches);
    }

    /// Both gradients of a product and that of a bias, each by a kernel.
    pub(super) fn eager_linear_backward(
        &mut self,
        owned: usize,
        tokens: u128,
        [x, dy, to]: [ObjectAccess; 3],
    ) {
        let at = self.at(self.module(owned));
        let row = &self.owned[owned];
        let (products, outputs) = (row.products, row.outputs);
        let mut target = self.target(owned);
        let of = self.of_weights(owned, tokens);
        self.part_of_gradient(at, &mut target, products, |maker, to| {
            let touches = [&[x, dy], to].concat();
            maker.build.kernel("mm", at.by, (Work::Product(of), of.flops()), &touches);
        });
        let has_bias = target.numbers > products;
        if has_bias {
            self.part_of_gradient(at, &mut target, outputs, |maker, to| {
                maker.run_into(at, "sum", (tokens * outputs, &[dy]), to);
            });
        }
        let of = self.product(owned, tokens).gradient_of_input();
        self.input_gradient(at, of, [self.weight(owned), dy, to]);
        self.done(owned);
    }

    /// The gradient of a product's input; where there is another already, it is added to.
    pub(super) fn input_gradient(
        &mut self,
        at: At,
        of: Product,
        [weight, dy, to]: [ObjectAccess; 3],
    ) {
        let work = (Work::Product(of), of.flops());
        if to.is_write() {
            self.build.kernel("mm", at.by, work, &[weight, dy, to]);
            return;
        }
        let numbers = u128::from(of.m) * u128::from(of.n);
        let made = self.result(at, "mm", numbers, false);
        self.build.kernel("mm", at.by, work, &[weight, dy, write(made)]);
        self.run_on(at, "add", numbers, &[read(made), to]);
    }

    /// From the gradient of the narrow matrix's input to those of the wide ones' outputs.
    pub(super) fn eager_activation_backward(
        &mut self,
        mlp: &Mlp,
        numbers: u128,
        kept: &SavedFeedForward,
        d_active: ObjectId,
    ) -> Vec<ObjectId> {
        let at = self.at(mlp.activation);
        let d = read(d_active);
        if let (&[gate, up], Some(silu)) = (&kept.up_proj[..], kept.gate) {
            return self.silu_backward(at, [read(gate), read(up), read(silu), d], numbers).into();
        }
        let (Some([half, tanh, more]), &[x]) = (kept.gelu, &kept.up_proj[..]) else {
            // ReLU's gradient follows from its output.
            let (name, from) = match kept.up_proj[..] {
                [x] => ("gelu_backward", x),
                _ => ("threshold_backward", kept.active),
            };
            return vec![self.made(at, name, &[d, read(from)], numbers)];
        };
        let d_more = self.made(at, "mul", &[d, read(half)], numbers);
        let d_half = self.made(at, "mul", &[d, read(more)], numbers);
        let d_inner = self.made(at, "tanh_backward", &[read(d_more), read(tanh)], numbers);
        let d_sum = self.made(at, "mul", &[read(d_inner)], numbers);
        let d_cubes = self.made(at, "mul", &[read(d_sum)], numbers);
        let squares = self.made(at, "pow", &[read(x)], numbers);
        let slope = self.made(at, "mul", &[read(squares)], numbers);
        let through = self.made(at, "mul", &[read(d_cubes), read(slope)], numbers);
        let both = self.made(at, "add", &[read(d_sum), read(through)], numbers);
        let d_half = self.made(at, "mul", &[read(d_half)], numbers);
        vec![self.made(at, "add", &[read(both), read(d_half)], numbers)]
    }

    /// Of SiLU times another half: gradients of its input and of that half.
    pub(super) fn silu_backward(
        &mut self,
        at: At,
        [gate, up, silu, d]: [ObjectAccess; 4],
        numbers: u128,
    ) -> [ObjectId; 2] {
        let d_up = self.made(at, "mul", &[d, silu], numbers);
        let d_silu = self.made(at, "mul", &[d, up], numbers);
        let d_gate = self.made(at, "silu_backward", &[read(d_silu), gate], numbers);
        [d_gate, d_up]
    }

    /// From the logits in the format of activations to the gradient of them, through the loss.
    pub(super) fn eager_loss(
        &mut self,
        at: At,
        logits: ObjectId,
        numbers: u128,
        backward: impl FnOnce(&mut Self),
    ) -> ObjectId {
        let (wide, is_wide) = (at.wide(), at.format == Format::Fp32);
        let copied = match is_wide {
            true => logits,
            false => self.made(wide, "_to_copy", &[read(logits)], numbers),
        };
        let logs = self.keep(wide, "_log_softmax", &[read(copied)], numbers);
        let tokens = self.sizes.tokens;
        let each = [read(logs).part(4 * tokens)];
        let loss = self.result(wide, "nll_loss_forward", 1, false);
        self.run_into(wide, "nll_loss_forward", (tokens, &each), &[write(loss)]);
        backward(self);
        let d = self.result(wide, "nll_loss_backward", numbers, false);
        // It is given what the loss was made of, of which it needs the shape.
        let given = [read(loss), read(logs).part(0)];
        self.run_into(wide, "nll_loss_backward", (tokens, &given), &[write(d)]);
        let from = [read(d), read(logs)];
        let d = self.made(wide, "_log_softmax_backward_data", &from, numbers);
        match is_wide {
            true => d,
            false => self.made(at, "_to_copy", &[read(d)], numbers),
        }
    }

    /// Gradients of the tables, whose rows are zeros where no token is.
    pub(super) fn eager_tables_backward(&mut self, model: &ModelState, dx: ObjectId) {
        let sizes = self.sizes;
        let at = self.at(self.module(model.tokens));
        if let Some(table) = model.positions {
            let at = At { by: self.module(table), ..at };
            let each = self.position_rows() * sizes.hidden;
            let numbers = sizes.tokens * sizes.hidden;
            let d = match each {
                each if each == numbers => dx,
                _ => self.reduce_to(at, "sum", (read(dx), numbers), each),
            };
            self.table_backward(at, table, (d, each));
        }
        if let Some(table) = model.types {
            let at = At { by: self.module(table), ..at };
            self.table_backward(at, table, (dx, sizes.tokens * sizes.hidden));
        }
        let dx = self.all_tokens(at.by, "out.grad.whole", dx);
        self.table_backward(at, model.tokens, (dx, sizes.tokens * sizes.hidden));
    }

    fn table_backward(&mut self, at: At, table: usize, (d, numbers): (ObjectId, u128)) {
        let mut target = self.target(table);
        let all = target.numbers;
        self.part_of_gradient(at, &mut target, all, |maker, to| {
            maker.run_into(at, "embedding_dense_backward", (numbers, &[read(d)]), to);
        });
        self.done(table);
    }
}
