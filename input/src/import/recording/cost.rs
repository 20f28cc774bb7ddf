//! FLOPs and bytes of an op, from the sizes of what it touches.
//!
//! | op | FLOPs |
//! |---|---|
//! | `mm` of m x k and k x n | 2 m n k |
//! | `addmm` | 2 m n k + m n |
//! | scaled dot product attention, forward | 4 B H S T D: two products of S x D by D x T |
//! | the same, backward | 10 B H S T D: five such products, one of them recomputes the scores |
//! | `native_layer_norm` / its backward | 8 / 14 per element of its first result |
//! | `_log_softmax`, `_softmax` / their backward | 5 / 4 per element |
//! | `lerp_`, `addcmul_`, `addcdiv_`, `tanh_backward` | 3 per element |
//! | `sum`, `cumsum`, `mean`, `embedding_dense_backward` | 1 per element read |
//! | `nll_loss_forward`, `nll_loss_backward` | 1 per target |
//! | moves and fills (`cat`, `clone`, `embedding`, ...) | 0 |
//! | any other | 1 per element written, whatever the function; 0 for integers and booleans |
//!
//! The attention counts are those of PyTorch's `torch.utils.flop_counter` and of the
//! FlashAttention papers (backward = 2.5 forward, no discount for a causal mask). The products'
//! counts equal Kineto's shapes of the same program; the small numbers per element are stated
//! rather than measured, and together stay under one per cent of a step of GPT-2.
//!
//! Bytes are the sizes of the objects read plus those written, so `rw` counts twice, except that
//! a lookup reads only the rows that it gathers, with their indices; `nll_loss_forward` reads one
//! element per target; `nll_loss_backward` and `ones_like` do not look at the tensor whose shape
//! they take; and of an input, which may be the whole data set in one storage, an op reads no more
//! elements than it writes.
//! Invariant: sizes only, no timings; numbers that do not fit are an error, not a wrap.

use super::raw::{RawKind, RawObject, RawOp};
use super::words::short_name;
use std::collections::BTreeSet;

/// What is wrong, and what was found.
pub(super) type Problem = (&'static str, String);

/// The floating-point operations of `op`.
pub(super) fn flops(op: &RawOp, objects: &[RawObject]) -> Result<u64, Problem> {
    let sizes = Sizes { op, objects };
    let name = short_name(&op.op);
    let written = sizes.written(0).filter(|object| is_float(object.dtype));
    let per = |count: u64, object: Option<&RawObject>| {
        let elements = object.map_or(0, RawObject::elements);
        u128::from(count) * u128::from(elements)
    };
    let total = match name {
        "mm" => sizes.product(0, 1)?.0,
        "addmm" => {
            let (product, sum) = sizes.product(1, 2)?;
            product.saturating_add(sum)
        }
        _ if name.starts_with("_scaled_dot_product") => sizes.attention(name)?,
        "bmm" | "baddbmm" | "addmv" | "mv" | "convolution" | "convolution_backward" => {
            let rule = "the importer has no FLOP count for this op";
            return Err((rule, name.to_owned()));
        }
        "native_layer_norm" => per(8, written),
        "native_layer_norm_backward" => per(14, written),
        "_log_softmax" | "_softmax" => per(5, written),
        "_log_softmax_backward_data" | "_softmax_backward_data" => per(4, written),
        "lerp_" | "addcmul_" | "addcdiv_" | "tanh_backward" => per(3, written),
        "sum" | "cumsum" | "mean" | "embedding_dense_backward" => {
            written.map_or(0, |_| per(1, sizes.read(0)))
        }
        "nll_loss_forward" => per(1, sizes.read(1)),
        "nll_loss_backward" => per(1, sizes.read(2)),
        "cat" | "stack" | "clone" | "copy_" | "_to_copy" | "embedding" | "constant_pad_nd"
        | "arange" | "ones_like" | "zeros_like" | "empty_like" | "empty" | "zeros" | "ones"
        | "full" | "full_like" | "fill_" | "zero_" | "index_select" | "gather" => 0,
        _ => per(1, written),
    };
    u64::try_from(total).map_err(|_| ("FLOPs fit 64 bits", total.to_string()))
}

/// The bytes that `op` reads plus those that it writes.
pub(super) fn bytes(op: &RawOp, objects: &[RawObject]) -> Result<u64, Problem> {
    let sizes = Sizes { op, objects };
    let read: BTreeSet<u32> = op.r.iter().copied().collect();
    let written: BTreeSet<u32> = op.w.iter().copied().collect();
    let read = read.iter().map(|&id| u128::from(sizes.bytes_read(id)));
    let written = written.iter().map(|&id| u128::from(objects[id as usize].bytes));
    let total: u128 = read.sum::<u128>() + written.sum::<u128>();
    u64::try_from(total).map_err(|_| ("bytes fit 64 bits", total.to_string()))
}

fn is_float(dtype: &str) -> bool {
    dtype.contains("float") || dtype.starts_with("complex")
}

/// An op with the sizes of its arguments at hand.
struct Sizes<'a> {
    op: &'a RawOp,
    objects: &'a [RawObject],
}

impl<'a> Sizes<'a> {
    fn read(&self, argument: usize) -> Option<&'a RawObject> {
        self.op.r.get(argument).map(|&id| &self.objects[id as usize])
    }

    fn written(&self, result: usize) -> Option<&'a RawObject> {
        self.op.w.get(result).map(|&id| &self.objects[id as usize])
    }

    fn bytes_read(&self, id: u32) -> u64 {
        let object = &self.objects[id as usize];
        let is = |argument: usize| self.op.r.get(argument) == Some(&id);
        let elements = match short_name(&self.op.op) {
            "embedding" if is(0) => self.written(0).map(RawObject::elements),
            "embedding" if is(1) => self.rows(self.written(0), self.read(0)),
            "embedding_dense_backward" if is(1) => self.rows(self.read(0), self.written(0)),
            "nll_loss_forward" if is(0) => self.read(1).map(RawObject::elements),
            "nll_loss_backward" if is(1) => Some(0),
            "ones_like" | "zeros_like" | "empty_like" | "full_like" => Some(0),
            _ if object.kind == RawKind::Input => {
                let written = self.op.w.iter().map(|&id| self.objects[id as usize].elements());
                written.max()
            }
            _ => None,
        };
        match elements {
            Some(elements) => elements.saturating_mul(object.element_bytes).min(object.bytes),
            None => object.bytes,
        }
    }

    /// How many rows of `table` the elements of `values` are.
    fn rows(&self, values: Option<&RawObject>, table: Option<&RawObject>) -> Option<u64> {
        let width = table?.shape.last().copied().filter(|&width| width > 0)?;
        Some(values?.elements() / width)
    }

    /// 2 m n k and m n of the product of two arguments.
    ///
    /// A transposed view has the shape of its storage here, so the sizes come from the numbers of
    /// elements alone: with m k, k n and m n known, k^2 = (m k)(k n) / (m n).
    fn product(&self, left: usize, right: usize) -> Result<(u128, u128), Problem> {
        let rule = "a matrix product reads m x k and k x n and writes m x n elements";
        let (Some(a), Some(b), Some(c)) = (self.read(left), self.read(right), self.written(0))
        else {
            return Err((rule, self.op.op.clone()));
        };
        let shape = &b.shape;
        let [a, b, c] = [a, b, c].map(|object| u128::from(object.elements()));
        let inner = (a * b).checked_div(c).unwrap_or(0).isqrt();
        let rows = a.checked_div(inner).unwrap_or(0);
        let columns = b.checked_div(inner).unwrap_or(0);
        if inner == 0 || rows * inner != a || columns * inner != b || rows * columns != c {
            let inner = inner_of_view(a, c, shape).filter(|_| is_whole(shape, b));
            let inner = inner.ok_or_else(|| (rule, format!("{a}, {b} and {c} elements")))?;
            return Ok(((c * inner).saturating_mul(2), c));
        }
        // m n k is at most (m k)(k n), which fits 128 bits with room for the factor.
        Ok(((c * inner).saturating_mul(2), c))
    }

    /// 4 B H S T D, or 10 for the backward op, from the shape B x H x S x D of the first result.
    fn attention(&self, name: &str) -> Result<u128, Problem> {
        let rule = "attention writes B x H x S x D elements and reads keys of B x H x T x D";
        let result = self.written(0);
        let Some((result, &[b, h, s, d])) = result.map(|result| (result, &result.shape[..])) else {
            return Err((rule, format!("a first result of shape {:?}", result.map(|r| &r.shape))));
        };
        let backward = name.contains("_backward");
        // Arguments: q, k, v; for the backward op the gradient comes first.
        let key = if backward { self.read(2) } else { self.read(1) };
        let query = if backward { self.op.r.get(1) } else { self.op.r.first() };
        let same = query == self.op.r.get(if backward { 2 } else { 1 });
        let key = if same { Some(result) } else { key };
        let rows = [b, h, d].into_iter().try_fold(1u64, u64::checked_mul);
        let (Some(key), Some(rows)) = (key, rows.filter(|&rows| rows > 0)) else {
            return Err((rule, format!("{b} x {h} x {s} x {d}")));
        };
        let keys = key.elements() / rows;
        if rows.checked_mul(s) != Some(result.elements()) || rows * keys != key.elements() {
            return Err((rule, format!("{b} x {h} x {s} x {d}, {} key elements", key.elements())));
        }
        let factor = if backward { 10 } else { 4 };
        let product = u128::from(rows) * u128::from(s);
        Ok(product.saturating_mul(u128::from(keys)).saturating_mul(factor))
    }
}

/// Whether a right argument of two dimensions has so many elements.
fn is_whole(shape: &[u64], elements: u128) -> bool {
    shape.len() == 2 && u128::from(shape[0]) * u128::from(shape[1]) == elements
}

/// The inner size of a product whose left argument is a view of a larger storage, such as the last
/// token's part: the right one's shape says it, if only one way round fits.
fn inner_of_view(left: u128, result: u128, shape: &[u64]) -> Option<u128> {
    let &[first, second] = shape else { return None };
    let (first, second) = (u128::from(first), u128::from(second));
    let fits = |&(inner, columns): &(u128, u128)| {
        result > 0 && result.is_multiple_of(columns) && result / columns * inner < left
    };
    let mut ways = [(first, second), (second, first)].into_iter().filter(fits);
    let (inner, _) = ways.next()?;
    ways.next().is_none().then_some(inner)
}
