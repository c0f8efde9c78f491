# SPDX-License-Identifier: Apache-2.0
"""Attention over the processes of a torch.distributed group: ring_attention, with autograd, and rows of ranks.

The group introduces the processes to each other; keys and values travel over connections of ringattn's own
(ringattn/_sockets.py), because a rank that computes cannot ask gloo whether a message has come.
"""
import os
import weakref
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor

import ringattn
from ringattn._links import SocketLink
from ringattn._ring import Ring

from .attention import DIFFERENTIABLE, check_devices

_rings = weakref.WeakKeyDictionary()


def _group_of(group):
    if not dist.is_available() or not dist.is_initialized():
        raise ringattn.ArgumentError("torch.distributed is not initialised: call "
                                     "torch.distributed.init_process_group('gloo') first, as under torchrun")
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        raise ringattn.ArgumentError("this process is not in the group")
    return group


def _share_by(group):
    ranks = dist.get_world_size(group)

    def share(mine):
        found = [None] * ranks
        try:
            dist.all_gather_object(found, mine, group=group)
        except RuntimeError as problem:
            raise ringattn.PeerError(f"the group could not introduce its ranks: {problem}") from None
        return found

    return share


def _need_gloo(group) -> None:
    backend = str(dist.get_backend_config(group))
    if "gloo" not in backend and "mpi" not in backend:
        raise ringattn.UnsupportedError(f"the group has backend {backend}: ringattn works on the CPU and needs gloo there; "
                                        "use init_process_group('cpu:gloo,cuda:nccl') or new_group(backend='gloo')")


def ring(group=None, *, timeout: float = 60.0) -> Ring:
    """A new ring over a process group (default: all processes). All processes of the group call it together.

    Its methods are those of ringattn.Ring, on NumPy arrays and on tensors without autograd.
    """
    group = _group_of(group)
    _need_gloo(group)
    link = SocketLink(dist.get_rank(group), dist.get_world_size(group), _share_by(group), timeout,
                      os.environ.get("MASTER_ADDR"))
    return Ring(link)


def ring_of(group=None) -> Ring:
    """The ring that ring_attention uses for a group: made at its first call, and again after a run that has failed."""
    group = _group_of(group)
    found = _rings.get(group)
    if found is None:
        found = _rings[group] = ring(group)
    return found


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, found, settings, graph, names, q, k, v, *arrays):
        problem = dict(settings, **dict(zip(names, arrays)))
        out, lse = found.attention(q.detach(), k.detach(), v.detach(), return_lse=True, _graph=graph,
                                   **_detached(problem))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, out, lse, *arrays)
        ctx.found, ctx.settings, ctx.names = found, settings, names
        return out, lse

    @staticmethod
    def backward(ctx, d_out, d_lse):
        q, k, v, out, lse, *arrays = ctx.saved_tensors
        needs = ctx.needs_input_grad[4:]
        wanted = tuple(name for name, need in zip(ctx.names, needs[3:]) if need and name in DIFFERENTIABLE)
        problem = _detached(dict(ctx.settings, **dict(zip(ctx.names, arrays))))
        # Whether lse has a gradient must be the same on all ranks: zeros where it has none.
        d_out = torch.zeros_like(out) if d_out is None else d_out
        d_lse = torch.zeros_like(lse) if d_lse is None else d_lse
        gradients = ctx.found.attention_backward(d_out, q, k, v, out, lse, d_lse=d_lse, needs=needs[:3],
                                                 array_gradients=wanted, **problem)
        by_name = gradients[3] if wanted else {}
        found = [None if name not in by_name else by_name[name].reshape(x.shape).to(x.dtype)
                 for name, x in zip(ctx.names, arrays)]
        return (None, None, None, None, *gradients[:3], *found)


def _detached(problem: dict) -> dict:
    return {name: x.detach() if isinstance(x, Tensor) else x for name, x in problem.items()}


def ring_attention(q: Tensor, k: Tensor, v: Tensor, group=None, *, pattern: str = "full", scores: Optional[str] = None,
                   scale: Optional[float] = None, layout: str = "bshd", return_lse: bool = False,
                   strategy: str = "ring", order: str = "contiguous", threads: int = 0,
                   query_position: Optional[int] = None, key_position: int = 0, kernel: Optional[str] = None,
                   mask: Optional[Tensor] = None, bias: Optional[Tensor] = None, slopes: Optional[Tensor] = None,
                   table: Optional[Tensor] = None, sinks: Optional[Tensor] = None, lengths: Optional[Tensor] = None,
                   documents: Optional[Tensor] = None, memory: Optional[int] = None, timeout: float = 60.0):
    """Attention of this process's rows over the keys and values of all processes of a group, with autograd.

    All processes call it together, and backward too. split() cuts a rank's rows for an order; with order "contiguous"
    processes may hold any number of rows one after the other. Gradients of slopes, table, bias and sinks are those of
    the whole problem on every process: they need no all_reduce. A process that ends, or is silent for `timeout`
    seconds, is a PeerError or a DeadlineError on all others; the next call makes a new ring.
    """
    found = ring_of(group)
    settings = dict(pattern=pattern, scores=scores, scale=scale, layout=layout, strategy=strategy, order=order,
                    threads=threads, query_position=query_position, key_position=key_position, kernel=kernel,
                    memory=memory, timeout=timeout)
    arrays = dict(mask=mask, bias=bias, slopes=slopes, table=table, sinks=sinks, lengths=lengths, documents=documents)
    arrays = {name: x for name, x in arrays.items() if x is not None}
    check_devices((("q", q), ("k", k), ("v", v), *arrays.items()))
    inputs = (q, k, v, *arrays.values())
    graph = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    try:
        out, lse = _RingAttention.apply(found, settings, graph, tuple(arrays), *inputs)
    finally:
        if found.closed:
            _rings.pop(_group_of(group), None)
    return (out, lse) if return_lse else out


def split(x: Tensor, group=None, *, order: str = "contiguous", axis: int = 1) -> Tensor:
    """This process's rows of a whole tensor; differentiable."""
    group = _group_of(group)
    return ringattn.split(x, dist.get_world_size(group), dist.get_rank(group), order=order, axis=axis)


def gather(x: Tensor, group=None, *, order: str = "contiguous", axis: int = 1) -> Tensor:
    """The whole tensor on every process, without a gradient. All processes call it together."""
    return ring_of(group).gather(x, order=order, axis=axis)
