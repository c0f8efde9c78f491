# SPDX-License-Identifier: Apache-2.0
"""attention and attention_backward: one call of the library each, from plans that are kept for the next call."""

from __future__ import annotations

import ctypes
import sys
import threading
from ctypes import byref
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from ._arrays import View, empty, finish, from_numpy, is_torch, refuse_gradient, view_of, wants_gradient
from ._cached import attention_cached
from ._errors import ArgumentError, BudgetError
from ._info import bytes_text
from ._library import F32, Tensor, backward, check, forward
from ._problem import Plan, Watch, check_wanted, given_arrays, lse_tensor, places_of, progress_function, tensor_of

_LARGE_FLOPS = 2e10  # a tenth of a second or more: from here on a call is watched for Ctrl-C
_KEPT_PLANS = 64


class _Prepared:
    """A plan and the structs of its tensors; for one call at a time. Only data pointers change between calls."""

    __slots__ = ("plan", "watch", "tensors", "pointers", "results")

    def __init__(self, plan: Plan, watch, tensors):
        self.plan, self.watch, self.tensors = plan, watch, tensors
        self.pointers = tuple([byref(tensor) if tensor is not None else None for tensor in tensors])
        self.results = None

    def run(self, function, addresses) -> None:
        for tensor, address in zip(self.tensors, addresses):
            if tensor is not None:
                tensor.data = address
        self.call(function)

    def call(self, function) -> None:
        if self.watch is not None:
            self.watch.run(function, self.plan.handle, *self.pointers, None)
            return
        status = function(self.plan.handle, *self.pointers, None)
        if status:
            check(status)


class _Cache:
    """Prepared calls by key, those of the oldest key dropped first. A call that runs is not in it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.lists = {}

    def take(self, key):
        try:
            waiting = self.lists.get(key)
            return waiting.pop() if waiting else None
        except (IndexError, TypeError):  # another thread has taken the last one; a value that is refused later
            return None

    def give(self, key, prepared):
        waiting = self.lists.get(key)
        if waiting is not None:
            waiting.append(prepared)
            return
        with self.lock:
            while len(self.lists) >= _KEPT_PLANS:
                del self.lists[next(iter(self.lists))]
            self.lists.setdefault(key, []).append(prepared)


_cache = _Cache()


def _shape_of(q: Tensor, k: Tensor, v: Tensor) -> tuple:
    for name, other in (("k", k), ("v", v)):
        if other.batch != q.batch:
            raise ArgumentError(f"q has a batch of {q.batch}, {name} of {other.batch}: expected the same")
    if k.seq != v.seq or k.heads != v.heads:
        raise ArgumentError(
            f"k has {k.seq} keys of {k.heads} heads, v has {v.seq} of {v.heads}: expected the same"
        )
    if k.dim != q.dim:
        raise ArgumentError(f"q has a head dim of {q.dim}, k of {k.dim}: expected the same")
    return q.batch, q.seq, k.seq, q.heads, k.heads, q.dim, v.dim


def _check_memory(plan: Plan, is_backward: bool, memory) -> None:
    if memory is None:
        return
    needed = plan.describe(is_backward).peak_bytes
    if needed > memory:
        raise BudgetError(
            f"the plan needs {bytes_text(needed)} ({needed} bytes) beyond the tensors, {bytes_text(needed - memory)} "
            f"more than memory={memory} allows; "
            "fewer threads need less"
        )


def _make(tensors, problem, memory, arrays, gradients, progress, is_backward) -> _Prepared:
    """Plan a call. Long runs get a callback, so that Ctrl-C reaches them."""
    shape = _shape_of(*tensors[:3])
    function = progress_function(progress)
    watch = Watch(function) if function else None
    plan = Plan(shape, *problem, watch.callback if watch else None, arrays, gradients)
    _check_memory(plan, is_backward, memory)
    if watch is None and plan.describe(is_backward).flops > _LARGE_FLOPS:
        watch = Watch()
        plan = Plan(shape, *problem, watch.callback, arrays, gradients)
    return _Prepared(plan, watch, tensors)


def _names_file(pattern, scores) -> bool:
    """Whether a text names a file, which may be another one at the next call."""
    return "@" in str(pattern) or "@" in str(scores)


def _run(function, views, make_tensors, layout, problem, memory, arrays, gradients, progress) -> Plan:
    """Run a call with a plan from the cache, or a new one. Arrays, files and progress have plans of their own."""
    is_backward = function is backward
    key = prepared = None
    if not arrays and not progress and not _names_file(*problem[:2]):
        key = (
            is_backward,
            layout,
            problem,
            memory,
            tuple([view and (view.code, view.shape, view.strides) for view in views]),
        )
        prepared = _cache.take(key)
    if prepared is None:
        tensors = make_tensors(views, places_of(layout))
        prepared = _make(tensors, problem, memory, arrays, gradients, progress, is_backward)
    # A call that failed is not kept.
    prepared.run(function, [view and view.pointer for view in views])
    if key is not None:
        _cache.give(key, prepared)
    return prepared.plan


def _writable(view: View, name: str) -> View:
    if not view.writable:
        raise ArgumentError(f"{name} is read-only: expected a NumPy array, tensor or buffer that can be written")
    return view


def _numpy_signature(array):
    return array.dtype, array.shape, array.strides


_HEAD = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _numpy_address(array):
    # Where NumPy's arrays have their pointer; array.ctypes.data takes four times as long.
    return _pointer_at(id(array) + _HEAD).value


def _slow_numpy_address(array):
    return array.ctypes.data


def _has_pointer_behind_head() -> bool:
    """Whether _numpy_address is right for this interpreter and this NumPy."""
    array = np.zeros(3)[1:]
    return sys.implementation.name == "cpython" and _numpy_address(array) == array.ctypes.data


def _numpy_writable(array):
    return array.flags.writeable


def _torch_signature(tensor):
    # Tensors that are refused have a signature that no cached call has.
    plain = tensor.is_cpu and tensor.layout is sys.modules["torch"].strided and not tensor.is_neg()
    plain = plain and not (tensor.requires_grad and wants_gradient(tensor))
    return tensor.dtype, tensor.shape, tensor.stride() if plain else None


def _torch_empty(shape, dtype):
    return sys.modules["torch"].empty(shape, dtype=dtype)


# For arrays of these types a call that was made before needs no views: signature, address, whether an array can be
# written, and a new array.
_kinds = {
    np.ndarray: (
        _numpy_signature,
        _numpy_address if _has_pointer_behind_head() else _slow_numpy_address,
        _numpy_writable,
        np.empty,
    )
}


def _kind_of(array):
    kind = type(array)
    found = _kinds.get(kind)
    if found is None and is_torch(array) and kind is sys.modules["torch"].Tensor:
        found = _kinds[kind] = (_torch_signature, kind.data_ptr, lambda tensor: True, _torch_empty)
    return found


def _key_of(q, k, v, out, lse, layout, problem, memory, return_lse):
    """What a call must have in common with an earlier one to use its plan; None: it must have views."""
    kind = type(q)
    if type(k) is not kind or type(v) is not kind:
        return None
    found = _kinds.get(kind) or _kind_of(q)
    if found is None:
        return None
    signature, _, writable, _ = found
    results = None
    if out is not None or lse is not None:
        for result in (out, lse):
            if result is not None and (type(result) is not kind or not writable(result)):
                return None
        results = out is not None and signature(out), lse is not None and signature(lse)
    return kind, layout, problem, memory, return_lse, signature(q), signature(k), signature(v), results


def _again(key, prepared: _Prepared, q, k, v, out, lse):
    """A forward call with a plan of the cache: output and log-sum-exp."""
    _, address, _, make = _kinds[key[0]]
    like_out, like_lse = prepared.results
    if out is None:
        out = make(*like_out)
    tensors = prepared.tensors
    tensors[0].data, tensors[1].data, tensors[2].data = address(q), address(k), address(v)
    tensors[3].data = address(out)
    if like_lse is not None:
        if lse is None:
            lse = make(*like_lse)
        tensors[4].data = address(lse)
    prepared.call(forward)
    _cache.give(key, prepared)
    return out, lse


def _lse_shape(shape, places) -> tuple:
    b, s, h, _ = places
    return (shape[h], shape[s]) if b is None else (shape[b], shape[h], shape[s])


def _forward_tensors(views, places) -> list:
    tensors = [tensor_of(view, places, name) for name, view in zip(("q", "k", "v", "out"), views)]
    lse = views[4]
    tensors.append(None if lse is None else lse_tensor(lse, places[0] is not None, "lse"))
    return tensors


def attention(
    q,
    k,
    v,
    *,
    pattern: str = "full",
    scores: Optional[str] = None,
    scale: Optional[float] = None,
    layout: str = "bshd",
    return_lse: bool = False,
    out=None,
    lse=None,
    threads: int = 0,
    query_position: Optional[int] = None,
    key_position: int = 0,
    kernel: Optional[str] = None,
    memory: Optional[int] = None,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
    progress: Union[None, bool, Callable[[float, float], Any]] = None,
    simulate: int = 0,
    strategy: str = "ring",
    order: str = "contiguous",
    page_table=None,
    kv_len: Optional[int] = None,
    k_scale=None,
    v_scale=None,
):
    """Exact softmax attention of q over k and v.

    q is [batch, q_len, heads, head_dim], k and v have kv_len and kv_heads (layout "bshd"; also "bhsd", "shd", "hsd").
    Arrays are NumPy arrays, PyTorch CPU tensors, or anything with DLPack or the buffer protocol, of float32, float16
    or bfloat16. They are read with the strides that they have. The result is of q's kind and dtype.

    pattern and scores are texts of terms joined with '+': "causal", "window:256,0", "softcap:50", "alibi"; see
    docs/PATTERNS.md and docs/SCORES.md. An array whose term is not in the text adds the term. With return_lse the
    result is (out, lse), lse float32 [batch, heads, q_len]. progress is a function of (done, total), whose true result
    stops the run, or True for a bar. memory is the most bytes that the run may hold beyond the arrays.

    page_table int32 [batch, pages] makes k and v pools of pages [pages, page_size, kv_heads, head_dim]; kv_len is how
    many keys there are, if not all that the table has room for. k and v may be int8 with k_scale and v_scale, as
    quantize makes them. There is no backward pass over either; see docs/CACHES.md.

    With simulate=R the run is one of R virtual ranks, with a strategy and an order of docs/RING.md; ringattn.ring has
    their statistics.

    >>> import numpy as np, ringattn
    >>> q = np.ones((1, 3, 2, 4), np.float32)
    >>> v = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
    >>> ringattn.attention(q, q, v, pattern="causal")[0, :, 0, 0].tolist()
    [0.0, 4.0, 8.0]
    """
    cached = page_table is not None or k_scale is not None or v_scale is not None or kv_len is not None
    if simulate and cached:
        raise ArgumentError(f"simulate is {simulate}: there are no ranks over pages or 8 bits")
    if simulate:
        from ._ring import ring

        with ring(simulate=simulate) as virtual:
            return virtual.attention(
                q, k, v, pattern=pattern, scores=scores, scale=scale, layout=layout, return_lse=return_lse, out=out,
                lse=lse, strategy=strategy, order=order, threads=threads, query_position=query_position,
                key_position=key_position, kernel=kernel, mask=mask, bias=bias, slopes=slopes, table=table,
                sinks=sinks, lengths=lengths, documents=documents, memory=memory, progress=progress,
            )
    if strategy != "ring" or order != "contiguous":
        raise ArgumentError(f'strategy "{strategy}" and order "{order}" are for ranks: give simulate=R, or use ringattn.ring')
    problem = (pattern, scores, scale, query_position, key_position, threads, kernel)
    arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
    if cached:
        return attention_cached(q, k, v, k_scale, v_scale, page_table, kv_len, layout, problem, arrays, return_lse,
                                out, lse, memory, progress)
    key = None
    if not arrays and not progress and not _names_file(pattern, scores):
        key = _key_of(q, k, v, out, lse, layout, problem, memory, return_lse)
        prepared = None if key is None else _cache.take(key)
        if prepared is not None:
            result, lse = _again(key, prepared, q, k, v, out, lse)
            return (result, lse) if return_lse else result
    places = places_of(layout)
    for name, array in (("q", q), ("k", k), ("v", v), *arrays.items()):
        refuse_gradient(array, name)
    views = [view_of(q, "q"), view_of(k, "k"), view_of(v, "v")]
    for name, view in zip("qkv", views):
        tensor_of(view, places, name)
    shape, code = views[0].shape, views[0].code
    result = empty((*shape[:-1], views[2].shape[-1]), code, q) if out is None else out
    lse_result = empty(_lse_shape(shape, places), F32, q) if lse is None and return_lse else lse
    views.append(_writable(view_of(result, "out"), "out"))
    views.append(None if lse_result is None else _writable(view_of(lse_result, "lse"), "lse"))
    prepared = _make(_forward_tensors(views, places), problem, memory, arrays, (), progress, False)
    # A call that failed is not kept.
    prepared.run(forward, [view and view.pointer for view in views])
    if key is not None:
        like_lse = None if lse_result is None else (lse_result.shape, lse_result.dtype)
        prepared.results = (result.shape, result.dtype), like_lse
        _cache.give(key, prepared)
    result = finish(result, q) if out is None else out
    if not return_lse:
        return result
    return result, (finish(lse_result, q) if lse is None else lse)


_BACKWARD_NAMES = ("q", "k", "v", "out", "lse", "d_out", "d_lse", "d_q", "d_k", "d_v")


def _backward_tensors(views, places) -> list:
    tensors = []
    for name, view in zip(_BACKWARD_NAMES, views):
        if view is None:
            tensors.append(None)
        elif name in ("lse", "d_lse"):
            tensors.append(lse_tensor(view, places[0] is not None, name))
        else:
            tensors.append(tensor_of(view, places, name))
    return tensors


def attention_backward(
    d_out,
    q,
    k,
    v,
    out,
    lse,
    *,
    d_lse=None,
    needs: Sequence[bool] = (True, True, True),
    array_gradients: Sequence[str] = (),
    d_q=None,
    d_k=None,
    d_v=None,
    pattern: str = "full",
    scores: Optional[str] = None,
    scale: Optional[float] = None,
    layout: str = "bshd",
    threads: int = 0,
    query_position: Optional[int] = None,
    key_position: int = 0,
    kernel: Optional[str] = None,
    memory: Optional[int] = None,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
    progress: Union[None, bool, Callable[[float, float], Any]] = None,
):
    """The gradients of attention by q, k and v: (d_q, d_k, d_v), with None where `needs` says that it is not needed.

    out and lse are what attention gave for q, k and v with the same keywords. d_out is the gradient of a loss by out,
    d_lse by lse. Gradients have the kinds and dtypes of their inputs; d_q, d_k and d_v are arrays to write into. If
    array_gradients names some of "slopes", "table", "bias" and "sinks", the result has a fourth element: a dictionary
    of their float32 gradients.

    >>> import numpy as np, ringattn
    >>> q = np.ones((1, 2, 1, 1), np.float32)
    >>> out, lse = ringattn.attention(q, q, q, return_lse=True)
    >>> d_q, d_k, d_v = ringattn.attention_backward(np.ones_like(out), q, q, q, out, lse)
    >>> d_v.ravel().tolist()
    [1.0, 1.0]
    """
    arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
    check_wanted(needs, array_gradients, arrays)
    views = [
        view_of(q, "q"),
        view_of(k, "k"),
        view_of(v, "v"),
        view_of(out, "out"),
        view_of(lse, "lse"),
        view_of(d_out, "d_out"),
        None if d_lse is None else view_of(d_lse, "d_lse"),
    ]
    results = []
    for name, given, needed, like, view in zip(("d_q", "d_k", "d_v"), (d_q, d_k, d_v), needs, (q, k, v), views):
        array = given if given is not None else empty(view.shape, view.code, like) if needed else None
        results.append(array)
        views.append(None if array is None else _writable(view_of(array, name), name))
    if any(view is not None for view in views[7:]) or array_gradients:
        plan = _run(
            backward,
            views,
            _backward_tensors,
            layout,
            (pattern, scores, scale, query_position, key_position, threads, kernel),
            memory,
            arrays,
            array_gradients,
            progress,
        )
    gradients = tuple(
        array if given is not None or array is None else finish(array, like)
        for array, given, like in zip(results, (d_q, d_k, d_v), (q, k, v))
    )
    if not array_gradients:
        return gradients
    made = {name: from_numpy(plan.gradients[name], arrays[name]) for name in array_gradients}
    return (*gradients, made)
