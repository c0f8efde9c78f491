# SPDX-License-Identifier: Apache-2.0
"""The problem of a call: tensors by layout, texts with the terms that arrays add, and the plan of the library."""

from __future__ import annotations

import ctypes
from ctypes import byref, pointer

import numpy as np

from ._arrays import View, dtype_name, view_of, whole_numbers
from ._errors import ArgumentError
from ._interrupt import HeldInterrupt
from ._library import BF16, BOOL, F16, F32, F64, I64, KERNELS, PRECISIONS, SAME, SCALE_DEFAULT
from ._library import Options, PlanInfo, Problem, Progress, ScoreArrays, Tensor, check, lib

# A layout as places of batch, seq, heads and dim in the shape; None: there is no such dimension.
LAYOUTS = {"bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3), "shd": (None, 0, 1, 2), "hsd": (None, 1, 0, 2)}
FLOATS = (F32, F16, BF16)
PATTERN_ARRAYS = ("mask", "lengths", "documents")
# The name of a score array and of the term that uses it.
SCORE_ARRAYS = {"slopes": "alibi", "table": "relative", "bias": "bias", "sinks": "sinks"}


def places_of(layout: str) -> tuple:
    """Where a layout has batch, seq, heads and dim."""
    places = LAYOUTS.get(layout)
    if places is None:
        raise ArgumentError(f'layout "{layout}" is unknown: expected one of {", ".join(LAYOUTS)}')
    return places


def tensor_of(view: View, places: tuple, name: str, floats=FLOATS) -> Tensor:
    """An ra_tensor of a view in a layout."""
    shape, strides = view.shape, view.strides
    b, s, h, d = places
    if len(shape) != (4 if b is not None else 3):
        raise ArgumentError(
            f"{name} has shape {list(shape)}: expected {3 if b is None else 4} dimensions; "
            "see layout= (bshd, bhsd, shd, hsd)"
        )
    if view.code not in floats:
        raise ArgumentError(
            f"{name} is {dtype_name(view.code)}: expected {', '.join(dtype_name(code) for code in floats)}"
        )
    if b is None:
        return Tensor(view.pointer, view.code, 1, shape[s], shape[h], shape[d], 0, strides[s], strides[h], strides[d])
    return Tensor(
        view.pointer, view.code, shape[b], shape[s], shape[h], shape[d], strides[b], strides[s], strides[h], strides[d]
    )


def lse_tensor(view: View, batched: bool, name: str, dtypes=(F32,)) -> Tensor:
    """An ra_tensor of a log-sum-exp [batch, heads, q_len], or [heads, q_len] without a batch."""
    if view.code not in dtypes:
        raise ArgumentError(f"{name} is {dtype_name(view.code)}: expected {dtype_name(dtypes[0])}")
    if len(view.shape) != (3 if batched else 2):
        raise ArgumentError(
            f"{name} has shape {list(view.shape)}: expected {'[batch, heads, q_len]' if batched else '[heads, q_len]'}"
        )
    shape = view.shape if batched else (1, *view.shape)
    strides = view.strides if batched else (0, *view.strides)
    return Tensor(view.pointer, F32 if view.code == F32 else F64, shape[0], shape[2], shape[1], 1,
                  strides[0], strides[2], strides[1], 1)


def has_term(text: str, term: str) -> bool:
    """Whether a text of terms joined with '+' has a term."""
    return any(part.split(":")[0] == term for part in text.split("+"))


def texts_of(pattern, scores, arrays: dict) -> tuple:
    """Pattern and scores with the terms that arrays add."""
    for name, text in (("pattern", pattern), ("scores", scores)):
        if text is not None and (not isinstance(text, str) or "\0" in text):
            raise ArgumentError(f"{name} is {text!r}: expected a text of terms joined with '+'")
    pattern = pattern or "full"
    scores = scores or ""
    for name in PATTERN_ARRAYS:
        if arrays.get(name) is not None and not has_term(pattern, name):
            pattern = name if pattern == "full" else f"{pattern}+{name}"
    for name, term in SCORE_ARRAYS.items():
        if arrays.get(name) is not None and not has_term(scores, term):
            scores = f"{scores}+{term}" if scores else term
    return pattern, scores or None


def _wrong(name: str, shape, expected: str):
    return ArgumentError(f"{name} has shape {list(shape)}: expected {expected}")


def _need_dtype(name: str, view: View, codes):
    if view.code not in codes:
        raise ArgumentError(
            f"{name} is {dtype_name(view.code)}: expected {' or '.join(dtype_name(code) for code in codes)}"
        )


def array_tensor(name: str, view: View, shape: tuple) -> Tensor:
    """An ra_tensor of an array of the pattern or the scores, for a problem of (batch, heads, q_len, kv_len)."""
    batch, heads, q_len, kv_len = shape
    sizes, steps = tuple(view.shape), tuple(view.strides)
    dims = len(sizes)
    if name in ("slopes", "sinks"):
        _need_dtype(name, view, (F32,))
        if dims != 1:
            raise _wrong(name, sizes, f"[{heads}], one for each head")
        return Tensor(view.pointer, view.code, 1, 1, sizes[0], 1, 0, 0, steps[0], 1)
    if name == "table":
        _need_dtype(name, view, (F32,))
        if dims == 1:
            sizes, steps = (1, *sizes), (0, *steps)
        if len(sizes) != 2:
            raise _wrong(name, sizes, f"[{heads} or 1, 2M + 1]")
        return Tensor(view.pointer, view.code, 1, 1, sizes[0], sizes[1], 0, 0, steps[0], steps[1])
    if name == "lengths":
        _need_dtype(name, view, (I64,))
        if dims != 2:
            raise _wrong(name, sizes, f"[{batch}, 2 or 3]")
        return Tensor(view.pointer, view.code, sizes[0], 1, 1, sizes[1], steps[0], 0, 0, steps[1])
    if name == "documents":
        _need_dtype(name, view, (I64,))
        if dims not in (1, 2):
            raise _wrong(name, sizes, "[documents] or [documents, 2]")
        dim, step = (sizes[1], steps[1]) if dims == 2 else (1, 1)
        return Tensor(view.pointer, view.code, 1, sizes[0], 1, dim, 0, steps[0], 0, step)
    _need_dtype(name, view, (BOOL,) if name == "mask" else FLOATS)
    if not 2 <= dims <= 4:
        raise _wrong(name, sizes, f"[{batch} or 1, {heads} or 1, {q_len} or 1, {kv_len}]")
    sizes, steps = (1,) * (4 - dims) + sizes, (0,) * (4 - dims) + steps
    b, h, s, d = sizes
    if name == "mask" and s == 1:
        s, steps = q_len, (steps[0], steps[1], 0, steps[3])
    return Tensor(view.pointer, view.code, b, s, h, d, steps[0], steps[2], steps[1], steps[3])


def given_arrays(mask, bias, slopes, table, sinks, lengths, documents) -> dict:
    """The arrays that were handed over, by name."""
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


def check_wanted(needs, array_gradients, arrays: dict) -> None:
    """Refuse gradients of other things than q, k, v and the arrays of the call."""
    if len(needs) != 3:
        raise ArgumentError(f"needs is {needs!r}: expected three truth values, for q, k and v")
    for name in array_gradients:
        if name not in SCORE_ARRAYS or name not in arrays:
            raise ArgumentError(
                f'array_gradients names "{name}": expected arrays of this call among {", ".join(SCORE_ARRAYS)}'
            )


class Plan:
    """A plan of the library, with all that it points into."""

    def __init__(self, shape, pattern, scores, scale, query_position, key_position, threads, kernel, progress=None,
                 arrays=None, gradients=None):
        batch, q_len, kv_len, heads, kv_heads, head_dim, value_dim = shape
        self.handle = None
        self.kept = []
        self.problem = problem = Problem()
        check(lib.ra_problem_init(byref(problem), ctypes.sizeof(problem)))
        problem.batch, problem.q_len, problem.kv_len = batch, q_len, kv_len
        problem.heads, problem.kv_heads, problem.head_dim, problem.value_dim = heads, kv_heads, head_dim, value_dim
        problem.scale = SCALE_DEFAULT if scale is None else float(scale)
        problem.query_position = SAME if query_position is None else query_position
        problem.key_position = key_position
        self.gradients = {}
        if arrays:
            problem.score_arrays = pointer(self._score_arrays(arrays, gradients or (), (batch, heads, q_len, kv_len)))
        pattern, scores = texts_of(pattern, scores, arrays or {})
        problem.pattern = pattern.encode()
        problem.scores = scores.encode() if scores else None
        options = Options()
        check(lib.ra_options_init(byref(options), ctypes.sizeof(options)))
        options.threads = threads
        if kernel not in KERNELS and kernel not in PRECISIONS:
            raise ArgumentError(f'kernel "{kernel}" is unknown: expected auto, exact, fast, generic, avx2, avx512 or '
                                "avx512bf16")
        options.kernel = KERNELS.get(kernel, 0)
        options.precision = PRECISIONS.get(kernel, 0)
        if progress is not None:
            self.kept.append(progress)
            options.progress = progress
        self.handle = self._create(problem, options)

    def _create(self, problem: Problem, options: Options) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        check(lib.ra_plan_create(byref(problem), byref(options), byref(handle)))
        return handle

    _free = lib.ra_plan_free

    def _score_arrays(self, arrays: dict, gradients, shape) -> ScoreArrays:
        views = ScoreArrays()
        check(lib.ra_score_arrays_init(byref(views), ctypes.sizeof(views)))
        for name, array in arrays.items():
            if array is None:
                continue
            view = view_of(whole_numbers(array, name) if name in ("lengths", "documents") else array, name)
            tensor = array_tensor(name, view, shape)
            self.kept += [view, tensor]
            setattr(views, name, pointer(tensor))
            if name in gradients:
                self._gradient(views, name, view, shape)
        self.kept.append(views)
        return views

    def _gradient(self, views, name: str, view: View, shape) -> None:
        gradient = np.empty(tuple(view.shape), np.float32)
        tensor = array_tensor(name, view_of(gradient, f"d_{name}"), shape)
        self.gradients[name] = gradient
        self.kept.append(tensor)
        setattr(views, f"d_{name}", pointer(tensor))

    def describe(self, backward: bool = False) -> PlanInfo:
        """What the plan will do."""
        info = PlanInfo()
        check(lib.ra_plan_info_init(byref(info), ctypes.sizeof(info)))
        ask = lib.ra_plan_describe_backward if backward else lib.ra_plan_describe
        check(ask(self.handle, byref(info)))
        return info

    def __del__(self):
        if self.handle is not None:
            self._free(self.handle)
            self.handle = None


class Watch:
    """Calls back between key blocks: Ctrl-C and the caller's own progress function end a run."""

    def __init__(self, function=None):
        self.raised = self.interrupt = None
        self.function = function
        self.callback = Progress(self._called)

    def _called(self, _user, done, total):
        try:
            if self.interrupt is not None and self.interrupt.noted:
                return 1
            stop = self.function(done, total) if self.function else 0
            return 1 if stop else 0
        except BaseException as problem:  # raised again after the call
            self.raised = problem
            return 1

    def run(self, function, *arguments) -> None:
        """Call a function of the library; Ctrl-C raises what its handler raises."""
        with HeldInterrupt() as self.interrupt:
            status = function(*arguments)
        self.check(status)

    def check(self, status: int) -> None:
        """As the library's check; what was raised in a callback comes first."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised
        check(status)


def progress_function(progress):
    """progress=True as a bar of tqdm, if that is installed; a callable as it is."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    bar = tqdm(total=1.0, unit="", bar_format="{l_bar}{bar}| {elapsed}<{remaining}")

    def advance(done, total):
        bar.update((done / total if total else 1.0) - bar.n)
        if done >= total:
            bar.close()
        return 0

    return advance
