# SPDX-License-Identifier: Apache-2.0
"""float64 tensors, computed by the oracle of the C library: slow, for torch.autograd.gradcheck.

Slopes, tables and sinks are float32 in the library, and so are gradients of arrays. A bias is rounded to float32.
"""
from ctypes import byref

import torch
from torch import Tensor

import ringattn
from ringattn import _library
from ringattn._problem import Plan, places_of

_ARRAYS = ("mask", "bias", "slopes", "table", "sinks", "lengths", "documents")


def available() -> bool:
    """Whether the oracle of this C library takes float64."""
    return _library.lib.ra_dtype_size(_library.F64) == 8


def _check(*tensors: Tensor) -> None:
    if not available():
        raise ringattn.UnsupportedError("q is float64: this build of the C library has no float64; use q.float()")
    for name, x in zip("qkv", tensors):
        if x.dtype != torch.float64:
            raise ringattn.ArgumentError(f"{name} is {x.dtype} and q is float64: expected the same")


def _tensor(x: Tensor, places) -> _library.Tensor:
    """An ra_tensor of a float64 tensor."""
    sizes, steps = [x.shape[i] for i in places], [x.stride(i) for i in places]
    return _library.Tensor(x.data_ptr(), _library.F64, *sizes, *steps)


def _plan(views, problem: dict, gradients=()) -> Plan:
    q, k, v = views
    arrays = {name: problem[name].detach() for name in _ARRAYS if problem[name] is not None}
    for name in ("bias", "slopes", "table", "sinks"):
        if name in arrays:
            arrays[name] = arrays[name].float()
    shape = (q.batch, q.seq, k.seq, q.heads, k.heads, q.dim, v.dim)
    return Plan(shape, problem["pattern"], problem["scores"], problem["scale"], problem["query_position"],
                problem["key_position"], problem["threads"], problem["kernel"], None, arrays, gradients)


def forward(q: Tensor, k: Tensor, v: Tensor, problem: dict):
    """Output and log-sum-exp in float64, row by row."""
    _check(q, k, v)
    places = places_of(problem["layout"])
    views = [_tensor(x, places) for x in (q, k, v)]
    plan = _plan(views, problem)
    batch, rows, heads = views[0].batch, views[0].seq, views[0].heads
    out = q.new_empty((batch, heads, rows, v.shape[-1]))
    lse = q.new_empty((batch, heads, rows))
    for b in range(batch):
        for h in range(heads):
            for i in range(rows):
                _library.check(_library.lib.ra_reference_row(plan.handle, *map(byref, views), b, h, i,
                                                             out[b, h, i].data_ptr(), lse[b, h, i].data_ptr()))
    return (out.transpose(1, 2).contiguous() if problem["layout"] == "bshd" else out), lse


def backward(d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *, d_lse=None, needs=(),
             array_gradients=(), **problem):
    """All gradients in float64, as ringattn.attention_backward returns them."""
    _check(q, k, v)
    places = places_of(problem["layout"])
    views = [_tensor(x.detach(), places) for x in (q, k, v)]
    plan = _plan(views, problem, array_gradients)
    d_views = [_tensor(d_out, places), None]
    if d_lse is not None:
        d_views[1] = _library.Tensor(d_lse.data_ptr(), _library.F64, d_lse.shape[0], d_lse.shape[2], d_lse.shape[1], 1,
                                     d_lse.stride(0), d_lse.stride(2), d_lse.stride(1), 1)
    found = [q.new_empty((x.batch, x.seq, x.heads, x.dim)) for x in views]
    _library.check(_library.lib.ra_reference_backward(
        plan.handle, *map(byref, views), byref(d_views[0]), None if d_views[1] is None else byref(d_views[1]),
        *(x.data_ptr() for x in found)))
    if problem["layout"] == "bhsd":
        found = [x.transpose(1, 2) for x in found]
    return (*found, {name: torch.from_numpy(plan.gradients[name]) for name in array_gradients})
