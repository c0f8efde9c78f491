# SPDX-License-Identifier: Apache-2.0
"""reference and reference_backward: the library's oracle, in double precision, by the definition. Slow on purpose."""

from __future__ import annotations

from ctypes import byref
from typing import Optional

import numpy as np

from ._arrays import from_numpy, view_of
from ._library import BF16, F16, F32, F64, check, lib
from ._problem import Plan, given_arrays, lse_tensor, places_of, tensor_of

_FLOATS = (F32, F16, BF16, F64)


def _tensors(arrays, places) -> tuple:
    """The views, which keep the arrays alive, and their tensors."""
    views = [view_of(array, name) for name, array in arrays]
    return views, [tensor_of(view, places, name, _FLOATS) for (name, _), view in zip(arrays, views)]


def _plan(q, k, v, problem, arrays, gradients=()) -> Plan:
    shape = (q.batch, q.seq, k.seq, q.heads, k.heads, q.dim, v.dim)
    return Plan(shape, *problem, 1, None, None, arrays, gradients)


def _in_layout(array: np.ndarray, layout: str) -> np.ndarray:
    """[batch, seq, heads, dim] in a layout."""
    if layout in ("bhsd", "hsd"):
        array = np.ascontiguousarray(array.transpose(0, 2, 1, 3))
    return array[0] if layout in ("shd", "hsd") else array


def reference(
    q,
    k,
    v,
    *,
    pattern: str = "full",
    scores: Optional[str] = None,
    scale: Optional[float] = None,
    layout: str = "bshd",
    return_lse: bool = False,
    query_position: Optional[int] = None,
    key_position: int = 0,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
):
    """attention by its definition, in double precision: float64, whatever the dtypes of q, k and v; float64 among them.

    >>> import numpy as np, ringattn
    >>> q = np.random.default_rng(0).normal(size=(1, 5, 2, 8)).astype(np.float32)
    >>> exact = ringattn.reference(q, q, q, pattern="causal")
    >>> bool(abs(ringattn.attention(q, q, q, pattern="causal") - exact).max() < 1e-6)
    True
    """
    views, (tq, tk, tv) = _tensors((("q", q), ("k", k), ("v", v)), places_of(layout))
    arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
    plan = _plan(tq, tk, tv, (pattern, scores, scale, query_position, key_position), arrays)
    out = np.zeros((tq.batch, tq.seq, tq.heads, tv.dim))
    lse = np.zeros((tq.batch, tq.heads, tq.seq))
    for b in range(tq.batch):
        for h in range(tq.heads):
            for i in range(tq.seq):
                row, entry = out[b, i, h].ctypes.data, lse[b, h, i : i + 1].ctypes.data
                check(lib.ra_reference_row(plan.handle, byref(tq), byref(tk), byref(tv), b, h, i, row, entry))
    del views
    result = from_numpy(_in_layout(out, layout), q)
    if not return_lse:
        return result
    return result, from_numpy(lse[0] if layout in ("shd", "hsd") else lse, q)


def reference_backward(
    d_out,
    q,
    k,
    v,
    *,
    d_lse=None,
    array_gradients=(),
    pattern: str = "full",
    scores: Optional[str] = None,
    scale: Optional[float] = None,
    layout: str = "bshd",
    query_position: Optional[int] = None,
    key_position: int = 0,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
):
    """The gradients of reference by q, k and v in float64; with array_gradients also a dictionary, as
    attention_backward. The softmax is computed anew: it takes neither an output nor a log-sum-exp.
    """
    places = places_of(layout)
    views, (tq, tk, tv, td) = _tensors((("q", q), ("k", k), ("v", v), ("d_out", d_out)), places)
    view = None if d_lse is None else view_of(d_lse, "d_lse")
    tl = None if view is None else lse_tensor(view, places[0] is not None, "d_lse", (F32, F64))
    arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
    plan = _plan(tq, tk, tv, (pattern, scores, scale, query_position, key_position), arrays, array_gradients)
    found = [np.zeros((t.batch, t.seq, t.heads, t.dim)) for t in (tq, tk, tv)]
    check(
        lib.ra_reference_backward(
            plan.handle,
            byref(tq),
            byref(tk),
            byref(tv),
            byref(td),
            None if tl is None else byref(tl),
            *(array.ctypes.data for array in found),
        )
    )
    del views, view
    gradients = tuple(from_numpy(_in_layout(array, layout), like) for array, like in zip(found, (q, k, v)))
    if not array_gradients:
        return gradients
    return (*gradients, {name: from_numpy(plan.gradients[name], arrays[name]) for name in array_gradients})
