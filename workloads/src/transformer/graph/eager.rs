//! The kernels that PyTorch runs without a compiler, where they are not those of the plain graph:
//! every operation of the makers' code is one, writes its result to an object of its own, and what
//! its backward pass asks for is kept.
//!
//! They are those of `transformers` 5.23 on PyTorch 2.15 as `tiersim_record` sees them; a test of
//! the recorder compares the two. FLOPs follow its rule: products 2 per multiply-add, everything
//! else small numbers per element ([`per_number`]). Ops on token ids, positions and single numbers
//! are left out: they touch some bytes per token.
//! Invariant: what is kept is an activation, all else is a buffer.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod experts;
pub(crate) mod norm;

use super::pass::GraphBuilder;
use super::state::End;
use crate::build::{ObjectAccess, read, write};
use crate::transformer::format::Format;
use crate::transformer::training::Kernels;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Streaming, Work};
use tiersim_models::workload::ObjectKind;

/// Whose kernels come next, and the format of their results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) by: ModuleId,
    pub(crate) format: Format,
}

impl At {
    /// The same in fp32.
    pub(crate) fn wide(self) -> At {
        At { format: Format::Fp32, ..self }
    }
}

/// FLOPs of a kernel per number that it writes; sums and means count what they read instead. The
/// same numbers as in `python/src/tiersim_record/cost.py`.
fn per_number(name: &str) -> u128 {
    match name {
        "cat" | "clone" | "copy_" | "_to_copy" | "slice_backward" | "embedding" | "index"
        | "index_put" | "new_zeros" | "scatter" | "where" | "zero" => 0,
        "lerp_" | "addcmul_" | "addcdiv_" | "tanh_backward" => 3,
        "_log_softmax_backward_data" | "_softmax_backward_data" => 4,
        "_log_softmax" | "_softmax" => 5,
        "native_layer_norm" => 8,
        "native_layer_norm_backward" => 14,
        _ => 1,
    }
}

impl GraphBuilder<'_> {
    /// Whether kernels are those of PyTorch without a compiler.
    pub(crate) fn is_eager(&self) -> bool {
        self.shape.kernels == Kernels::Eager
    }

    pub(crate) fn at(&self, by: ModuleId) -> At {
        At { by, format: self.sizes.work }
    }

    /// Logits of `rows` rows of `input`, in the format of activations.
    pub(crate) fn eager_logits(&mut self, end: End, input: ObjectId, rows: u128) -> ObjectId {
        let (sizes, at) = (self.sizes, self.at(end.head));
        let logits = self.result(at, "out", rows * sizes.vocab, false);
        let given = read(input).part(rows * sizes.hidden * u128::from(sizes.kept.bytes()));
        let mut touches: Vec<ObjectAccess> = self.head_weights(end).collect();
        touches.extend([given, write(logits)]);
        self.eager_product(at, "linear", [rows, sizes.vocab, sizes.hidden], &touches);
        logits
    }

    /// A result of `numbers`, kept for the backward pass or not.
    pub(crate) fn result(&mut self, at: At, name: &str, numbers: u128, is_kept: bool) -> ObjectId {
        let index = self.build.trace.objects.len();
        let name = self.named(at.by, &format!("{name}.{index}"));
        let size = (numbers * u128::from(at.format.bytes()), at.format);
        let (kind, owner) = match is_kept {
            true => (ObjectKind::Activation, Some(at.by)),
            false => (ObjectKind::Buffer, None),
        };
        self.build.object(name, kind, size, owner)
    }

    /// One kernel and its result of `numbers`.
    pub(crate) fn made(
        &mut self,
        at: At,
        name: &str,
        from: &[ObjectAccess],
        numbers: u128,
    ) -> ObjectId {
        let to = self.result(at, name, numbers, false);
        self.run_into(at, name, (per_number(name) * numbers, from), &[write(to)]);
        to
    }

    /// One kernel and its result, which the backward pass needs.
    pub(crate) fn keep(
        &mut self,
        at: At,
        name: &str,
        from: &[ObjectAccess],
        numbers: u128,
    ) -> ObjectId {
        let to = self.result(at, name, numbers, true);
        self.run_into(at, name, (per_number(name) * numbers, from), &[write(to)]);
        to
    }

    /// A sum or mean of `of` numbers down to `numbers`.
    pub(crate) fn reduce_to(
        &mut self,
        at: At,
        name: &str,
        (from, of): (ObjectAccess, u128),
        numbers: u128,
    ) -> ObjectId {
        let to = self.result(at, name, numbers, false);
        self.run_into(at, name, (of, &[from]), &[write(to)]);
        to
    }

    /// One kernel of so many FLOPs that writes what is there.
    pub(crate) fn run_into(
        &mut self,
        at: At,
        name: &str,
        (flops, from): (u128, &[ObjectAccess]),
        to: &[ObjectAccess],
    ) {
        let touches = [from, to].concat();
        let work = Work::Streaming(self.class_of(name, from, to));
        self.build.kernel(name, at.by, (work, flops), &touches);
    }

    /// What PyTorch's kernel of an operation is like.
    fn class_of(&self, name: &str, from: &[ObjectAccess], to: &[ObjectAccess]) -> Streaming {
        // One way: what is changed is read and written.
        let bytes = |access: &ObjectAccess| {
            let ways = if access.is_change() { 2 } else { 1 };
            self.build.touched(std::slice::from_ref(access)) / ways
        };
        match name {
            "_softmax"
            | "_log_softmax"
            | "_softmax_backward_data"
            | "_log_softmax_backward_data" => Streaming::Softmax,
            "native_layer_norm" | "native_layer_norm_backward" => Streaming::LayerNorm,
            "embedding" | "embedding_dense_backward" | "index" | "index_put" => {
                Streaming::Embedding
            }
            "mean" | "sum" | "nll_loss_forward" => Streaming::Reduction,
            "cat" | "native_dropout" => Streaming::Vectorized,
            "clone" | "slice_backward" => Streaming::Strided,
            // To fewer bits it reads vectors, to more it does not.
            "_to_copy" => match from.iter().map(bytes).sum::<u128>() {
                read if read < to.iter().map(bytes).sum() => Streaming::Strided,
                _ => Streaming::Vectorized,
            },
            _ => {
                let mut all = from.iter().chain(to).map(bytes);
                let first = all.next();
                let alike = all.all(|other| Some(other) == first);
                if alike { Streaming::Vectorized } else { Streaming::Strided }
            }
        }
    }

    /// One kernel of so many numbers that changes what is there.
    pub(crate) fn run_on(&mut self, at: At, name: &str, numbers: u128, touches: &[ObjectAccess]) {
        self.run_into(at, name, (per_number(name) * numbers, touches), &[]);
    }
}
