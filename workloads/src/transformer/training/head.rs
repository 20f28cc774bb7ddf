//! What is behind the blocks: norm, head and loss, forward and backward; of an encoder a product
//! and GeLU before the norm.
//!
//! Eagerly the logits of all tokens are kept in fp32, and the loss turns them into their gradient
//! in place. Fused, chunks of tokens go through the head one after the other, and each makes its
//! part of the gradient of the head's input and adds to that of the matrix before the next one
//! comes, in the forward pass (Hsu et al., "Liger Kernel", 2024; chunks as in
//! `fused_linear_cross_entropy_forward` of github:linkedin/Liger-Kernel@00eba63: with v logits per
//! token and a width of h, the next power of two of ceil(tokens / ceil(v / h)); its chunk of logits
//! has the format of the input). The FLOPs are the same: three products.
//! Invariant: fused, no object has a size of tokens times logits but the chunk.

use super::Loss;
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::pass::{GraphBuilder, product};
use crate::transformer::graph::saved::{Normed, Transformed};
use crate::transformer::graph::state::{End, ModelState};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Kernel, Streaming, Work};
use tiersim_models::workload::Phase;

/// Tokens of a chunk, of so many tokens with so many logits each and a width of `hidden`.
fn chunk(tokens: u128, vocab: u128, hidden: u128) -> u128 {
    let chunks = vocab.div_ceil(hidden.max(1)).max(1);
    tokens.div_ceil(chunks).next_power_of_two().min(tokens)
}

/// What the op of a fused head touches.
struct FusedHead {
    weight: ObjectAccess,
    input: ObjectId,
    logits: ObjectId,
    d_input: ObjectId,
    gradient: Vec<ObjectAccess>,
}

impl GraphBuilder<'_> {
    /// From the last block's output to the gradient of it.
    pub(super) fn head(&mut self, model: &ModelState, end: End, x: ObjectId) -> ObjectId {
        let by = self.module(end.norm);
        let transformed = self.transform(end, x);
        let x = transformed.map_or(x, |kept| kept.active);
        let (d_input, normed) = match self.shape.loss {
            Loss::Eager if self.is_eager() => self.head_of_kernels(end, x),
            Loss::Eager => self.eager_head(end, x),
            Loss::Fused => self.fused_head(end, x),
        };
        let d_normed = self.input_gradient_summed(by, d_input);
        // A tied matrix gets the embedding's part of its gradient last.
        if end.matrix != model.tokens {
            self.done(end.matrix);
        }
        if let Some([_, bias]) = end.transform {
            self.done(bias);
        }
        let dx = self.norm_backward(end.norm, &normed, d_normed, None);
        match (end.transform, transformed) {
            (Some([dense, _]), Some(kept)) => self.transform_backward(dense, kept, dx),
            _ => dx,
        }
    }

    /// From the gradient of what GeLU gave to that of the matrix's input.
    fn transform_backward(&mut self, dense: usize, kept: Transformed, d: ObjectId) -> ObjectId {
        let (module, tokens) = (self.module(dense), self.sizes.tokens);
        let numbers = tokens * self.sizes.hidden;
        let at = self.at(module);
        let d_out = if self.is_eager() {
            self.made(at, "gelu_backward", &[read(d), read(kept.out)], numbers)
        } else {
            let d_out = self.buffer(module, "out.grad", numbers);
            let touches = [read(d), read(kept.out), write(d_out)];
            let name = "activation_backward";
            self.build.streaming(name, module, Streaming::Activation, &touches);
            d_out
        };
        let dx = self.buffer(module, "in.grad", numbers);
        self.linear_backward(dense, tokens, [read(kept.x), read(d_out), write(dx)]);
        dx
    }

    /// Gradients of the matrix and, where there is one, of the bias.
    fn head_gradients(&mut self, end: End) -> Vec<ObjectAccess> {
        let mut all = self.gradient(end.matrix);
        if let Some([_, bias]) = end.transform {
            all.extend(self.gradient(bias));
        }
        all
    }

    fn eager_head(&mut self, end: End, x: ObjectId) -> (ObjectId, Normed) {
        let (sizes, End { norm, head, matrix, .. }) = (self.sizes, end);
        let [normed, _, logits] = self.logits(end, x, None);
        let by = self.module(norm);
        self.build.streaming("loss", head, Streaming::Softmax, &[change(logits)]);
        self.backward_begins();
        let input = self.input_again(self.owned[matrix].trains, by, normed);
        let d_input = self.buffer(by, "out.grad", sizes.tokens * sizes.hidden);
        let of = product(sizes.tokens, sizes.vocab, sizes.hidden);
        let [weight, dy, to] = [self.weight(matrix), read(logits), write(d_input)];
        if self.overlaps() {
            // What else the matrix is for adds to it later.
            self.input_gradient_first((matrix, false), (head, of), [weight, read(input), dy, to]);
        } else {
            let gradient = self.head_gradients(end);
            self.product_backward(head, of, [weight, read(input), dy, to], gradient);
        }
        (d_input, Normed { x, y: normed, kept: None })
    }

    /// Logits in the format of activations, and a loss of kernels of its own.
    fn head_of_kernels(&mut self, end: End, x: ObjectId) -> (ObjectId, Normed) {
        let (sizes, End { norm, head, matrix, .. }) = (self.sizes, end);
        let at = self.at(head);
        let normed = self.norm(norm, x, (head, true));
        let by = self.module(norm);
        let input = self.all_tokens(by, "out.whole", normed.y);
        let numbers = sizes.tokens * sizes.vocab;
        let logits = self.eager_logits(end, input, sizes.tokens);
        let d = self.eager_loss(at, logits, numbers, Self::backward_begins);
        let input = self.all_tokens(by, "out.whole", normed.y);
        let d_input = self.buffer(by, "out.grad", sizes.tokens * sizes.hidden);
        let mut target = self.target(matrix);
        let of_weights = [sizes.vocab, sizes.hidden, sizes.tokens];
        self.part_of_gradient(at, &mut target, sizes.vocab * sizes.hidden, |maker, to| {
            let touches = [&[read(input), read(d)], to].concat();
            maker.eager_product(at, "mm", of_weights, &touches);
        });
        let touches = [self.weight(matrix), read(d), write(d_input)];
        self.eager_product(at, "mm", [sizes.tokens, sizes.hidden, sizes.vocab], &touches);
        if let Some([_, bias]) = end.transform {
            let mut target = self.target(bias);
            self.part_of_gradient(at, &mut target, sizes.vocab, |maker, to| {
                maker.run_into(at, "sum", (numbers, &[read(d)]), to);
            });
        }
        (d_input, normed)
    }

    fn fused_head(&mut self, end: End, x: ObjectId) -> (ObjectId, Normed) {
        let (sizes, End { norm, head, matrix, .. }) = (self.sizes, end);
        let by = self.module(norm);
        let normed = self.norm(norm, x, (head, true));
        let input = self.all_tokens(by, "out.whole", normed.y);
        let d_input = self.buffer(by, "out.grad", sizes.tokens * sizes.hidden);
        let rows = chunk(sizes.tokens, sizes.vocab, sizes.hidden);
        let logits = self.buffer(head, "chunk", rows * sizes.vocab);
        let (weight, gradient) = (self.weight(matrix), self.head_gradients(end));
        self.fused_op(head, rows, FusedHead { weight, input, logits, d_input, gradient });
        self.backward_begins();
        (d_input, normed)
    }

    /// All chunks of `rows` tokens, in one op.
    fn fused_op(&mut self, head: ModuleId, rows: u128, of: FusedHead) {
        let tokens = self.sizes.tokens;
        let mut kernels = self.of_chunks(rows, 1, &of, &of.gradient);
        // All but the first add to the gradient of the matrix.
        let added: Vec<ObjectAccess> =
            of.gradient.iter().map(|access| change(access.object)).collect();
        kernels.extend(self.of_chunks(rows, tokens / rows - 1, &of, &added));
        kernels.extend(self.of_chunks(tokens % rows, 1, &of, &added));
        let mut touches = vec![of.weight, read(of.input), write(of.logits), write(of.d_input)];
        touches.extend(of.gradient);
        self.build.kernels("fused_linear_cross_entropy", head, kernels, &touches);
    }

    /// The kernels of so many chunks of so many tokens.
    fn of_chunks(
        &self,
        rows: u128,
        times: u128,
        of: &FusedHead,
        gradient: &[ObjectAccess],
    ) -> Vec<Kernel> {
        if rows * times == 0 {
            return Vec::new();
        }
        let (sizes, build) = (self.sizes, &self.build);
        let row = |object: ObjectId| build.size(object) * rows / sizes.tokens;
        let logits = rows * sizes.vocab * u128::from(sizes.work.bytes());
        let (weight, input, d_input) =
            (build.touched(&[of.weight]), row(of.input), row(of.d_input));
        let forward = product(rows, sizes.vocab, sizes.hidden);
        let products = [
            (forward, weight + input + logits),
            (forward.gradient_of_input(), weight + logits + d_input),
            (forward.gradient_of_weight(), input + logits + build.touched(gradient)),
        ];
        // A frozen matrix has no gradient.
        let many = if gradient.is_empty() { 2 } else { 3 };
        let products = products.into_iter().take(many);
        let products =
            products.map(|(of, bytes)| Kernel::new(Work::Product(of), of.flops(), bytes));
        let loss = Kernel::new(Work::Streaming(Streaming::Softmax), 0, 2 * logits);
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        let all = products.chain([loss]);
        all.map(|kernel| Kernel { times, ..kernel }).collect()
    }

    fn backward_begins(&mut self) {
        self.build.phase = Phase::Backward;
        self.prefix.push_str("back.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_those_of_liger() {
        // The example in its source: 4 sequences of 4096 tokens, 32000 logits, a width of 4096.
        assert_eq!(chunk(4 * 4096, 32000, 4096), 2048);
        // Llama 3.1 8B: ceil(128256 / 4096) = 32.
        assert_eq!(chunk(131_072, 128_256, 4096), 4096);
        // Rounded up to a power of two, and no more than there are tokens.
        assert_eq!(chunk(1000, 300, 100), 512);
        assert_eq!(chunk(300, 200, 100), 256);
        assert_eq!(chunk(1000, 100, 100), 1000);
        assert_eq!(chunk(3, 4, 100), 3);
        assert_eq!(chunk(1, 4, 1), 1);
    }
}
