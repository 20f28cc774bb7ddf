"""FLOPs of an op, and the bytes that it reads and writes.

FLOPs come from ``torch.utils.flop_counter`` where that has a formula (products, convolutions).
Attention in one kernel counts the pairs of tokens that it multiplies: causal ones half as many, and
the diagonal. A grouped product counts the rows that each group has. Elsewhere they are the small
numbers per element of tiersim's importer:

======================================================== =================================
op                                                       FLOPs
======================================================== =================================
``native_layer_norm`` / its backward                     8 / 14 per element of the result
``_log_softmax``, ``_softmax`` / their backward          5 / 4 per element
``lerp_``, ``addcmul_``, ``addcdiv_``, ``tanh_backward`` 3 per element
``sum``, ``cumsum``, ``mean``                            1 per element read
``embedding_dense_backward``                             1 per element read
``nll_loss_forward``, ``nll_loss_backward``              1 per target
moves and fills                                          0
``_fused_adam_``, ``_fused_adamw_``                      14 per element of the parameters
any other                                                1 per element written, 0 for integers
======================================================== =================================

A ``_foreach_`` op counts like its single sibling over all its tensors. Bytes are what the views
span, never more than their storage; lookups read only what they gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

Tensors = Sequence[torch.Tensor]

MOVES = frozenset(
    "cat stack clone copy_ copy _to_copy embedding constant_pad_nd arange ones_like zeros_like "
    "empty_like empty empty_strided empty_permuted new_empty new_empty_strided new_zeros new_ones "
    "new_full zeros ones full full_like fill_ fill zero_ zero index_select gather index "
    "lift_fresh lift_fresh_copy scalar_tensor slice_backward select_backward index_put index_put_ "
    "scatter where tril triu split_with_sizes_copy chunk_cat chunk_cat_mixed_dtype".split()
)
PER_ELEMENT = {
    "native_layer_norm": 8,
    "native_layer_norm_backward": 14,
    "_log_softmax": 5,
    "_softmax": 5,
    "_safe_softmax": 5,
    "_log_softmax_backward_data": 4,
    "_softmax_backward_data": 4,
    "lerp_": 3,
    "addcmul_": 3,
    "addcdiv_": 3,
    "lerp": 3,
    "addcmul": 3,
    "addcdiv": 3,
    "tanh_backward": 3,
}
PER_READ = frozenset(("sum", "cumsum", "mean", "embedding_dense_backward"))
PRODUCTS = frozenset("dot vdot mv addmv addmv_ addr addbmm addbmm_ baddbmm_ addmm_".split())

NO_MEMORY = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_".split()
)
# Ops that take a tensor for its shape only, with the position of that tensor.
SHAPE_ONLY = {
    name: 0
    for name in "ones_like zeros_like empty_like full_like rand_like randn_like new_zeros new_ones "
    "new_full new_empty new_empty_strided".split()
} | {"nll_loss_backward": 1}
# Ops that write without looking at what was there.
OVERWRITES = frozenset(
    "fill_ zero_ copy_ normal_ uniform_ random_ bernoulli_ exponential_".split()
)
GATHERS = frozenset(("embedding", "index_select", "gather", "index"))


def plain_name(func: Any) -> str:
    """``addcmul_`` for ``aten._foreach_addcmul_.Scalar``."""
    return func._schema.name.rpartition("::")[2].removeprefix("_foreach_")


def flops(func: Any, args: Any, kwargs: Any, out: Any, reads: Tensors, writes: Tensors) -> int | None:
    """The floating-point operations of an op; None for a product that nobody has a formula for.

    ``reads`` are the tensors among the arguments, ``writes`` the results and changed arguments.
    """
    name = plain_name(func)
    if name.startswith("_scaled_dot_product"):
        return _attention(func, name, args, kwargs, reads)
    if name == "_grouped_mm":
        return _grouped(args)
    formula = flop_registry.get(func._overloadpacket)
    if formula is not None:
        try:
            return int(formula(*args, **kwargs, out_val=out))
        except (TypeError, ValueError, AssertionError, AttributeError, IndexError):
            return None
    if name in PRODUCTS:
        return _product(name, reads, writes)
    many = func._schema.name.rpartition("::")[2].startswith("_foreach_")
    written = [t for t in writes if t.is_floating_point() or t.is_complex()]
    if not many:
        written = written[:1] if written and writes and written[0] is writes[0] else []
    elements = sum(t.numel() for t in written)
    if name in ("_fused_adam_", "_fused_adamw_"):
        return 14 * sum(t.numel() for t in args[0])
    if name in MOVES:
        return 0
    if name in PER_READ:
        return reads[0].numel() if written and reads else 0
    if name == "nll_loss_forward":
        return reads[1].numel()
    if name == "nll_loss_backward":
        return reads[2].numel()
    return PER_ELEMENT.get(name, 1) * elements


def _attention(func: Any, name: str, args: Any, kwargs: Any, reads: Tensors) -> int | None:
    """4 D per head and pair of tokens forward, 10 backward: five products, one of them again."""
    backward = "_backward" in name
    query, key = reads[1:3] if backward else reads[0:2]
    if query.dim() != 4 or key.dim() != 4:
        return None
    rows, keys = query.shape[2], key.shape[2]
    pairs = rows * keys
    positions = {argument.name: at for at, argument in enumerate(func._schema.arguments)}
    at = positions.get("is_causal")
    if at is not None and (args[at] if at < len(args) else kwargs.get("is_causal")):
        # Row i sees the keys up to i.
        seen = min(rows, keys)
        pairs = seen * (seen + 1) // 2 + (rows - seen) * keys
    return (10 if backward else 4) * query.numel() // max(rows, 1) * pairs


def _grouped(args: Any) -> int | None:
    """Products of groups of rows, or, of two matrices, of groups of what is summed over."""
    left, right = args[0], args[1]
    if not {left.dim(), right.dim()} <= {2, 3}:
        return None
    if left.dim() == 3 and right.dim() == 2:
        return 2 * right.numel() * left.shape[-2]
    return 2 * left.numel() * right.shape[-1]


def _product(name: str, reads: Tensors, writes: Tensors) -> int | None:
    """Products without a formula in ``flop_counter``."""
    if name in ("dot", "vdot"):
        return 2 * reads[0].numel()
    if name == "mv":
        return 2 * reads[0].numel()
    if name in ("addmv", "addmv_"):
        return 2 * reads[1].numel() + writes[0].numel()
    if name == "addr":
        return 2 * writes[0].numel()
    if name in ("addbmm", "addbmm_", "baddbmm_", "addmm_"):
        left, right = reads[1], reads[2]
        return 2 * left.numel() * right.shape[-1]
    return None


def looks_at(name: str, position: int) -> bool:
    """Whether an op looks at the contents of its argument number ``position``."""
    if name in SHAPE_ONLY and SHAPE_ONLY[name] == position:
        return False
    return not (name in OVERWRITES and position == 0)


def bytes_read(name: str, position: int, tensor: torch.Tensor, reads: Tensors, out: Any) -> int:
    """How many bytes of an argument an op reads; ``reads`` are all tensors among its arguments."""
    size = tensor.element_size()
    if name in GATHERS and position == 0 and isinstance(out, torch.Tensor):
        return min(tensor.numel(), out.numel()) * size
    if name == "nll_loss_forward" and position == 0:
        return min(tensor.numel(), reads[1].numel()) * size
    return tensor.numel() * size
