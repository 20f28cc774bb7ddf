"""A model without memory: parameters on PyTorch's meta device have shapes and no contents.

Ops on it are those of the CPU: where attention would fall apart into products and a softmax, for
the meta device has no kernel of its own, it is kept in the one kernel that CPUs and GPUs run.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode


class OneKernelAttention(TorchFunctionMode):
    """Calls of ``scaled_dot_product_attention`` on meta tensors go to the kernel of the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        return func(*args, **kwargs)

    @staticmethod
    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """The kernel has no dropout and takes a mask of numbers, as on the CPU."""
        one = all(each.device.type == "meta" and each.dim() == 4 for each in (query, key, value))
        if not one or dropout_p > 0.0:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            options = {"dtype": query.dtype, "device": query.device}
            no, yes = torch.scalar_tensor(-math.inf, **options), torch.scalar_tensor(0.0, **options)
            attn_mask = torch.where(attn_mask, yes, no)
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return kernel(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
