//! The backward pass: blocks from the last to the first, each from its output to its input.
//!
//! A product gives two gradients, of its input and of its weights, each as large a product again.
//! Gradients of activations are buffers of the activations' sizes; that of attention's output holds
//! a sum per row and head, which the fused kernel needs, where the output holds its logarithm.

use super::build::{GraphBuilder, Owned};
use super::model::ModelParameters;
use super::parts::Block;
use super::passes::{Forward, Pass, SavedActivations};
use crate::build::{ObjectAccess, change, read, write};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::ObjectKind;

impl GraphBuilder<'_> {
    /// The gradient of an activation, in a buffer of its size.
    fn gradient(&mut self, of: ObjectId) -> ObjectId {
        let (name, bytes) = (format!("{}.grad", self.build.name(of)), self.build.size(of));
        self.object(name, ObjectKind::Buffer, bytes, None)
    }

    pub(super) fn backward(&mut self, model: &ModelParameters, pass: &Pass, forward: &Forward) {
        let Forward { blocks, last, normed, logits } = forward;
        let head = model.own_head.as_ref().unwrap_or(&model.tokens);
        let gradient = |owned: &Owned| owned.gradient.expect("a model in training has gradients");
        let [hidden, vocab] = [self.shape.hidden, self.shape.vocab].map(u128::from);
        let d_normed = self.gradient(*normed);
        let flops = 4 * pass.tokens * hidden * vocab;
        let touches = [
            read(head.weight),
            read(*normed),
            read(*logits),
            write(d_normed),
            pass.into(gradient(head)),
        ];
        self.build.op("linear_backward", model.head, flops, &touches);
        let mut dx = self.gradient(*last);
        let norm = &model.norm;
        let touches =
            [read(norm.weight), read(*last), read(d_normed), write(dx), pass.into(gradient(norm))];
        self.build.op("norm_backward", norm.module, 0, &touches);
        for (block, kept) in model.blocks.iter().zip(blocks).rev() {
            let d_middle = self.feed_forward_backward(&block.of, pass, kept, dx);
            dx = self.attention_backward(&block.of, pass, kept, d_middle);
        }
        if let Some(table) = &model.positions {
            let touches = [read(dx), pass.into(gradient(table))];
            self.build.op("positions_backward", table.module, 0, &touches);
        }
        let (rows, tokens) = (self.rows(pass.tokens), &model.tokens);
        // A tied head or an earlier micro-batch has written it before; otherwise it is cleared
        // first.
        let d_tokens = match model.own_head {
            Some(_) if pass.accumulates => change(gradient(tokens)).part(2 * rows),
            None => change(gradient(tokens)).part(2 * rows),
            Some(_) => write(gradient(tokens)).part(self.build.size(gradient(tokens)) + 2 * rows),
        };
        self.build.op("embedding_backward", tokens.module, 0, &[read(dx), d_tokens]);
    }

    /// From the gradient of a block's output to that of its middle.
    fn feed_forward_backward(
        &mut self,
        block: &Block<Owned, ModuleId>,
        pass: &Pass,
        kept: &SavedActivations,
        dx: ObjectId,
    ) -> ObjectId {
        let Block { norm_2, up_proj, down_proj, .. } = block;
        let d_active = self.gradient(kept.active);
        self.product_backward(down_proj, pass, (kept.active, dx), write(d_active));
        let mut touches = vec![read(d_active)];
        touches.extend(kept.up_proj.iter().map(|&y| read(y)));
        let d_wide: Vec<ObjectId> = kept.up_proj.iter().map(|&y| self.gradient(y)).collect();
        touches.extend(d_wide.iter().map(|&dy| write(dy)));
        self.build.op("activation_backward", block.activation, 0, &touches);
        let d_normed = self.gradient(kept.normed_2);
        for (index, (owned, dy)) in up_proj.iter().zip(d_wide).enumerate().rev() {
            // The matrix that comes first here writes, the other one adds.
            let last = index + 1 == up_proj.len();
            let to = if last { write(d_normed) } else { change(d_normed) };
            self.product_backward(owned, pass, (kept.normed_2, dy), to);
        }
        let d_middle = self.gradient(kept.middle);
        self.norm_backward(norm_2, pass, kept.middle, [d_normed, dx], d_middle);
        d_middle
    }

    /// From the gradient of a block's middle to that of its input.
    fn attention_backward(
        &mut self,
        block: &Block<Owned, ModuleId>,
        pass: &Pass,
        kept: &SavedActivations,
        d_middle: ObjectId,
    ) -> ObjectId {
        let Block { norm_1, qkv, out, .. } = block;
        let d_mixed = self.gradient(kept.mixed);
        self.product_backward(out, pass, (kept.mixed, d_middle), write(d_mixed));
        let d_qkv = self.gradient(kept.qkv);
        let flops = 10 * u128::from(self.shape.hidden) * pass.pairs;
        let touches = [read(kept.qkv), read(kept.mixed), read(d_mixed), write(d_qkv)];
        self.build.op("attention_backward", block.attention, flops, &touches);
        let d_normed = self.gradient(kept.normed_1);
        self.product_backward(qkv, pass, (kept.normed_1, d_qkv), write(d_normed));
        let dx = self.gradient(kept.x);
        self.norm_backward(norm_1, pass, kept.x, [d_normed, d_middle], dx);
        dx
    }

    /// Both gradients of a product: of its input `x` by `to`, and of its weights.
    fn product_backward(
        &mut self,
        owned: &Owned,
        pass: &Pass,
        (x, dy): (ObjectId, ObjectId),
        to: ObjectAccess,
    ) {
        let gradient = owned.gradient.expect("a model in training has gradients");
        let touches = [read(owned.weight), read(x), read(dy), to, pass.into(gradient)];
        let flops = 4 * pass.tokens * owned.matrix;
        self.build.op("linear_backward", owned.module, flops, &touches);
    }

    /// Gradients of a norm, to which the residual's is added.
    fn norm_backward(
        &mut self,
        owned: &Owned,
        pass: &Pass,
        x: ObjectId,
        dy: [ObjectId; 2],
        dx: ObjectId,
    ) {
        let gradient = owned.gradient.expect("a model in training has gradients");
        let touches =
            [read(owned.weight), read(x), read(dy[0]), read(dy[1]), write(dx), pass.into(gradient)];
        self.build.op("norm_backward", owned.module, 0, &touches);
    }
}
