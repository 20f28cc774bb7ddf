"""Collectives of ``torch.distributed``: what they read and write, their buffer and their group.

The ops of a process group say of no argument that it is changed, and hand their results back, so they
look like views. What each of them does is listed here, after the schemas that PyTorch registers for
``c10d`` and for the functional collectives of ``DTensor``. Buffers are whole, as the trace's format has them:
what an all-gather makes, what a reduce-scatter takes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves


class Shape(NamedTuple):
    """What an op is, and the places of its arguments."""

    unit: str
    outs: int | None  # none: the result is new
    ins: int | None
    buffer: str  # whose bytes are the whole buffer: ins, or outs


GATHER, SCATTER = Shape("all-gather", 0, 1, "outs"), Shape("reduce-scatter", 0, 1, "ins")
ALL, EACH = Shape("all-reduce", 0, 0, "ins"), Shape("all-to-all", 0, 1, "ins")
CAST = Shape("broadcast", 0, 0, "ins")
SHAPES = {
    "c10d": {
        "_allgather_base_": GATHER,
        "allgather_": GATHER,
        "allgather_coalesced_": GATHER,
        "allgather_into_tensor_coalesced_": GATHER,
        "_reduce_scatter_base_": SCATTER,
        "reduce_scatter_": SCATTER,
        "reduce_scatter_tensor_coalesced_": SCATTER,
        "allreduce_": ALL,
        "allreduce_coalesced_": ALL,
        "alltoall_": EACH,
        "alltoall_base_": EACH,
        "broadcast_": CAST,
        # A rank sends or takes one part, which costs no more than if all did.
        "reduce_": CAST,
    },
    "_c10d_functional": {
        "all_gather_into_tensor": GATHER._replace(outs=None, ins=0),
        "reduce_scatter_tensor": SCATTER._replace(outs=None, ins=0),
        "all_reduce": ALL._replace(outs=None),
        "all_reduce_": ALL,
        "all_to_all_single": EACH._replace(outs=None, ins=0),
        "broadcast": CAST._replace(outs=None),
        "broadcast_": CAST,
    },
}


class Collective(NamedTuple):
    """One call."""

    unit: str
    bytes: int
    group: str  # ranks in a server x servers
    reads: list[torch.Tensor]
    writes: list[torch.Tensor]


def is_distributed(func: Any) -> bool:
    """Whether an op is of a process group, known or not."""
    return func.namespace in SHAPES


def collective(func: Any, args: Any, out: Any) -> Collective | None:
    """What an op of a process group does; none if it moves nothing between ranks, or only between two."""
    shape = SHAPES[func.namespace].get(func._schema.name.partition("::")[2])
    if shape is None:
        return None
    reads = _tensors(args[shape.ins])
    writes = _tensors(out) if shape.outs is None else _tensors(args[shape.outs])
    size = sum(one.numel() * one.element_size() for one in (reads if shape.buffer == "ins" else writes))
    ranks = _ranks(args)
    return Collective(shape.unit, size, _group(ranks), reads, writes) if size and ranks else None


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _ranks(args: Any) -> list[int]:
    """Who takes part; nobody if the arguments do not say it."""
    import torch.distributed as dist

    for value in args:
        if isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type()):
            return dist.get_process_group_ranks(dist.ProcessGroup.unbox(value))
        if isinstance(value, str) and value not in ("sum", "avg", "max", "min", "product"):
            group = dist.distributed_c10d._resolve_process_group(value)
            return dist.get_process_group_ranks(group)
    return []


def _group(ranks: list[int]) -> str:
    """Ranks lie in servers as ``torchrun`` says; in one where it says nothing, or nothing even."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or 0)
    servers = Counter(rank // local for rank in ranks) if local > 0 else Counter({0: len(ranks)})
    within = set(servers.values())
    return f"{within.pop()}x{len(servers)}" if len(within) == 1 else f"{len(ranks)}x1"
