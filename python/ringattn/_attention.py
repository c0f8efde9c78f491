"""attention and attention_backward: one call of the library each, from plans that are kept for the next call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from ctypes import byref

from ._arrays import View, empty, finish, from_numpy, view_of
from ._errors import ArgumentError
from ._library import F32, Tensor, backward, forward
from ._problem import SCORE_ARRAYS, Plan, Watch, lse_tensor, places_of, progress_function, tensor_of

_LARGE_FLOPS = 5e8  # from here on a call is watched for Ctrl-C
_KEPT_PLANS = 64


class _Prepared:
    """A plan and the structs of its tensors; for one call at a time. Only data pointers change between calls."""

    __slots__ = ("plan", "watch", "tensors", "pointers")

    def __init__(self, plan: Plan, watch, tensors):
        self.plan, self.watch, self.tensors = plan, watch, tensors
        self.pointers = tuple([byref(tensor) if tensor is not None else None for tensor in tensors])

    def run(self, function, addresses) -> None:
        for tensor, address in zip(self.tensors, addresses):
            if tensor is not None:
                tensor.data = address
        status = function(self.plan.handle, *self.pointers, None)
        if status or self.watch is not None:
            (self.watch or Watch()).check(status)


class _Cache:
    """Prepared calls by key, the least recently used dropped first. A call that runs is not in it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.lists = OrderedDict()

    def take(self, key):
        with self.lock:
            waiting = self.lists.get(key)
            return waiting.pop() if waiting else None

    def give(self, key, prepared):
        with self.lock:
            self.lists.setdefault(key, []).append(prepared)
            self.lists.move_to_end(key)
            while len(self.lists) > _KEPT_PLANS:
                self.lists.popitem(last=False)

    def clear(self):
        with self.lock:
            self.lists.clear()


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


def _make(views, tensors_of, shape_of, problem, arrays, gradients, progress, is_backward) -> _Prepared:
    """Plan a call. Long runs get a callback, so that Ctrl-C reaches them."""
    tensors = tensors_of(views)
    shape = shape_of(tensors)
    function = progress_function(progress)
    watch = Watch(function) if function else None
    plan = Plan(shape, *problem, watch.callback if watch else None, arrays, gradients)
    if watch is None and plan.describe(is_backward).flops > _LARGE_FLOPS:
        watch = Watch()
        plan = Plan(shape, *problem, watch.callback, arrays, gradients)
    return _Prepared(plan, watch, tensors)


def _run(function, views, tensors_of, shape_of, layout, problem, arrays, gradients, progress) -> Plan:
    """Run a call with a plan from the cache, or a new one. Arrays and progress functions have plans of their own."""
    is_backward = function is backward
    key = prepared = None
    if not arrays and not progress:
        key = (
            is_backward,
            layout,
            problem,
            tuple([view and (view.code, view.shape, view.strides) for view in views]),
        )
        prepared = _cache.take(key)
    if prepared is None:
        prepared = _make(views, tensors_of, shape_of, problem, arrays, gradients, progress, is_backward)
    # A call that failed is not kept.
    prepared.run(function, [view and view.pointer for view in views])
    if key is not None:
        _cache.give(key, prepared)
    return prepared.plan


def _arrays(mask, bias, slopes, table, sinks, lengths, documents) -> dict:
    """The arrays that were handed over."""
    if (
        mask is None
        and bias is None
        and slopes is None
        and table is None
        and sinks is None
        and lengths is None
        and documents is None
    ):
        return {}
    given = {
        "mask": mask,
        "bias": bias,
        "slopes": slopes,
        "table": table,
        "sinks": sinks,
        "lengths": lengths,
        "documents": documents,
    }
    return {name: array for name, array in given.items() if array is not None}


def _writable(view: View, name: str) -> View:
    if not view.writable:
        raise ArgumentError(f"{name} is read-only: expected an array that can be written")
    return view


def _lse_shape(shape, places) -> tuple:
    b, s, h, _ = places
    return (shape[h], shape[s]) if b is None else (shape[b], shape[h], shape[s])


def _forward_tensors(places):
    def make(views):
        tensors = [tensor_of(view, places, name) for name, view in zip(("q", "k", "v", "out"), views)]
        lse = views[4]
        tensors.append(None if lse is None else lse_tensor(lse, places[0] is not None, "lse"))
        return tensors

    return make


def attention(
    q,
    k,
    v,
    *,
    pattern="full",
    scores=None,
    scale=None,
    layout="bshd",
    return_lse=False,
    out=None,
    lse=None,
    threads=0,
    query_position=None,
    key_position=0,
    kernel=None,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
    progress=None,
):
    """Exact softmax attention of q over k and v.

    q is [batch, q_len, heads, head_dim], k and v have kv_len and kv_heads (layout "bshd"; also "bhsd", "shd", "hsd").
    Arrays are NumPy arrays, PyTorch CPU tensors, or anything with DLPack or the buffer protocol, of float32, float16
    or bfloat16. They are read with the strides that they have. The result is of q's kind and dtype.

    pattern and scores are texts of terms joined with '+': "causal", "window:256,0", "softcap:50", "alibi"; see
    docs/PATTERNS.md and docs/SCORES.md. An array whose term is not in the text adds the term. With return_lse the
    result is (out, lse), lse float32 [batch, heads, q_len]. progress is a function of (done, total), whose true result
    stops the run, or True for a bar.

    >>> import numpy as np, ringattn
    >>> q = np.ones((1, 3, 2, 4), np.float32)
    >>> v = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
    >>> ringattn.attention(q, q, v, pattern="causal")[0, :, 0, 0].tolist()
    [0.0, 4.0, 8.0]
    """
    places = places_of(layout)
    q_view, k_view, v_view = view_of(q, "q"), view_of(k, "k"), view_of(v, "v")
    shape = q_view.shape
    if len(shape) < 3 or len(v_view.shape) < 3:
        tensor_of(q_view, places, "q")
        tensor_of(v_view, places, "v")
    result = empty((*shape[:-1], v_view.shape[-1]), q_view.code, q) if out is None else out
    if lse is None and return_lse:
        if len(shape) != (4 if places[0] is not None else 3):
            tensor_of(q_view, places, "q")
        lse_array = empty(_lse_shape(shape, places), F32, q)
    else:
        lse_array = lse
    out_view = view_of(result, "out")
    lse_view = None if lse_array is None else _writable(view_of(lse_array, "lse"), "lse")
    _run(
        forward,
        (q_view, k_view, v_view, _writable(out_view, "out"), lse_view),
        _forward_tensors(places),
        lambda tensors: _shape_of(*tensors[:3]),
        layout,
        (pattern, scores, scale, query_position, key_position, threads, kernel),
        _arrays(mask, bias, slopes, table, sinks, lengths, documents),
        (),
        progress,
    )
    result = finish(result, q) if out is None else out
    if not return_lse:
        return result
    return result, (finish(lse_array, q) if lse is None else lse)


_BACKWARD_NAMES = ("q", "k", "v", "out", "lse", "d_out", "d_lse", "d_q", "d_k", "d_v")


def _backward_tensors(places):
    def make(views):
        tensors = []
        for name, view in zip(_BACKWARD_NAMES, views):
            if view is None:
                tensors.append(None)
            elif name in ("lse", "d_lse"):
                tensors.append(lse_tensor(view, places[0] is not None, name))
            else:
                tensors.append(tensor_of(view, places, name))
        return tensors

    return make


def attention_backward(
    d_out,
    q,
    k,
    v,
    out,
    lse,
    *,
    d_lse=None,
    needs=(True, True, True),
    array_gradients=(),
    d_q=None,
    d_k=None,
    d_v=None,
    pattern="full",
    scores=None,
    scale=None,
    layout="bshd",
    threads=0,
    query_position=None,
    key_position=0,
    kernel=None,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
    progress=None,
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
    places = places_of(layout)
    arrays = _arrays(mask, bias, slopes, table, sinks, lengths, documents)
    for name in array_gradients:
        if name not in SCORE_ARRAYS or name not in arrays:
            raise ArgumentError(
                f'array_gradients names "{name}": expected arrays of this call among {", ".join(SCORE_ARRAYS)}'
            )
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
            _backward_tensors(places),
            lambda tensors: _shape_of(*tensors[:3]),
            layout,
            (pattern, scores, scale, query_position, key_position, threads, kernel),
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
