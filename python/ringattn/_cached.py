# SPDX-License-Identifier: Apache-2.0
"""attention over a cache: keys and values in pages, in 8 bits, or both; and quantize, which makes the latter."""

from __future__ import annotations

import ctypes
from ctypes import byref, pointer
from typing import Optional

from ._arrays import View, dtype_name, empty, finish, refuse_gradient, view_of
from ._errors import ArgumentError, BudgetError
from ._library import F32, I8, I32, SAME, Cache, Tensor, check, lib
from ._problem import FLOATS, Plan, Watch, lse_tensor, places_of, progress_function, tensor_of


def _scale_tensor(scale, places, name: str) -> tuple:
    """The view and the ra_tensor of scales, whose last axis, of 1, may be left out; None for none."""
    if scale is None:
        return None, None
    view = view_of(scale, name)
    if len(view.shape) == 3 and places[0] is not None:
        view = view._replace(shape=(*view.shape, 1), strides=(*view.strides, 1))
    return view, tensor_of(view, places, name, (F32,))


def _table_tensor(table, batch: int) -> tuple:
    view = view_of(table, "page_table")
    if view.code != I32 or len(view.shape) != 2:
        raise ArgumentError(
            f"page_table is {dtype_name(view.code)} of shape {list(view.shape)}: expected int32 [{batch}, pages]"
        )
    return view, Tensor(view.pointer, I32, view.shape[0], 1, 1, view.shape[1], view.strides[0], 0, 0, view.strides[1])


def _keys_of(k: Tensor, table: Optional[Tensor], kv_len: Optional[int]) -> int:
    if table is None and kv_len is not None:
        raise ArgumentError(f"kv_len is {kv_len} and page_table is None: without pages k says how many keys there are")
    return k.seq if table is None else table.dim * k.seq if kv_len is None else kv_len


def attention_cached(q, k, v, k_scale, v_scale, page_table, kv_len, layout, problem, arrays, return_lse, out, lse,
                     memory, progress):
    """ringattn.attention where k and v are those of a cache."""
    places = places_of(layout)
    if page_table is not None and places[0] is None:
        raise ArgumentError(f'page_table is given and layout is "{layout}": pages need bshd or bhsd')
    for name, array in (("q", q), ("k", k), ("v", v), *arrays.items()):
        refuse_gradient(array, name)
    views = [view_of(q, "q"), view_of(k, "k"), view_of(v, "v")]
    tensors = [tensor_of(view, places, name, FLOATS if name == "q" else (*FLOATS, I8))
               for view, name in zip(views, "qkv")]
    scales = [_scale_tensor(scale, places, name)
              for scale, name in ((k_scale, "k_scale"), (v_scale, "v_scale"))]
    table = (None, None) if page_table is None else _table_tensor(page_table, tensors[0].batch)
    keys = _keys_of(tensors[1], table[1], kv_len)
    shape = (tensors[0].batch, tensors[0].seq, keys, tensors[0].heads, tensors[1].heads, tensors[0].dim, tensors[2].dim)
    watch = Watch(progress_function(progress))
    plan = Plan(shape, *problem, watch.callback, arrays)
    if memory is not None and plan.describe().peak_bytes > memory:
        raise BudgetError(f"the plan needs {plan.describe().peak_bytes} bytes beyond the tensors: "
                          f"more than memory={memory} allows")
    of_q = views[0]
    result = empty((*of_q.shape[:-1], views[2].shape[-1]), of_q.code, q) if out is None else out
    row_shape = (of_q.shape[places[2]], of_q.shape[places[1]])
    row_shape = row_shape if places[0] is None else (of_q.shape[places[0]], *row_shape)
    rows = empty(row_shape, F32, q) if lse is None and return_lse else lse
    of_result, of_rows = _written(result, "out"), _written(rows, "lse")
    cache = Cache()
    check(lib.ra_cache_init(byref(cache), ctypes.sizeof(cache)))
    cache.k, cache.v = pointer(tensors[1]), pointer(tensors[2])
    for field, (_, tensor) in zip(("k_scale", "v_scale", "page_table"), (*scales, table)):
        if tensor is not None:
            setattr(cache, field, pointer(tensor))
    cache.keys = SAME if page_table is None else keys
    watch.run(lib.ra_forward_cached, plan.handle, byref(tensors[0]), byref(cache),
              byref(tensor_of(of_result, places, "out")),
              None if of_rows is None else byref(lse_tensor(of_rows, places[0] is not None, "lse")), None)
    result = finish(result, q) if out is None else out
    if not return_lse:
        return result
    return result, (finish(rows, q) if lse is None else lse)


def _written(array, name: str) -> Optional[View]:
    if array is None:
        return None
    view = view_of(array, name)
    if not view.writable:
        raise ArgumentError(f"{name} is read-only: expected a NumPy array, tensor or buffer that can be written")
    return view


def _rows_tensor(view: View, code: int, name: str, dim: int) -> Tensor:
    """Up to four axes, of which the last is the row."""
    if not 1 <= len(view.shape) <= 4:
        raise ArgumentError(f"{name} has shape {list(view.shape)}: expected 1 to 4 dimensions")
    pad = 4 - len(view.shape)
    shape, strides = (1,) * pad + tuple(view.shape), (0,) * pad + tuple(view.strides)
    return Tensor(view.pointer, code, *shape[:3], dim, *strides)


def quantize(x, *, data=None, scale=None):
    """x as 8 bits: (data, scale), data int8 in the shape of x, scale float32 with a last axis of 1.

    Of each row of the last axis scale is the largest magnitude / 127 and data is x / scale, to the nearest integer, so
    that an element changes by half a scale at most. data and scale may be given: slices of a cache that new rows are
    added to. attention takes data as k or v, with scale as k_scale or v_scale.

    >>> import numpy as np, ringattn
    >>> data, scale = ringattn.quantize(np.array([[1.0, -2.54, 0.0]], np.float32))
    >>> data.tolist(), round(float(scale[0, 0]), 6)
    ([[50, -127, 0]], 0.02)
    """
    view = view_of(x, "x")
    if view.code not in FLOATS:
        raise ArgumentError(f"x is {dtype_name(view.code)}: expected float32, float16 or bfloat16")
    dim = view.shape[-1] if view.shape else 0
    rows = _rows_tensor(view, view.code, "x", dim)
    out = empty(tuple(view.shape), I8, x) if data is None else data
    scales = empty((*view.shape[:-1], 1), F32, x) if scale is None else scale
    of_data, of_scale = _written(out, "data"), _written(scales, "scale")
    check(lib.ra_quantize_rows(byref(rows), byref(_rows_tensor(of_data, of_data.code, "data", of_data.shape[-1])),
                               byref(_rows_tensor(of_scale, of_scale.code, "scale", of_scale.shape[-1]))))
    return (finish(out, x) if data is None else data), (finish(scales, x) if scale is None else scale)
