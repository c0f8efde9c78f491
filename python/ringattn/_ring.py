# SPDX-License-Identifier: Apache-2.0
"""Attention over the ranks of a ring: each rank calls with its own rows. The engine, its plan and its deadlines are C.

Before a run the ranks tell each other how many rows they have and whether their arguments are sound, so that a mistake
of one rank is an exception on all of them and the ring can be used again.
"""

from __future__ import annotations

import struct
import sys
import weakref
import zlib
from collections import OrderedDict
from contextlib import contextmanager
from ctypes import byref

import numpy as np

from . import _ring_rows
from ._arrays import empty, finish, from_numpy, is_torch, refuse_gradient, view_of
from ._attention import _lse_shape, _shape_of, _writable
from ._errors import ArgumentError, Error, PeerError
from ._interrupt import HeldInterrupt
from ._library import F32, SystemInfo, lib
from ._problem import Watch, check_wanted, given_arrays, lse_tensor, places_of, progress_function, tensor_of
from ._ring_library import ORDERS, PROCESSES, SIMULATED, STRATEGIES, code_of, initialised, ring_backward, ring_forward
from ._ring_plan import RingPlan, RingSettings

_KEPT_PLANS = 16
_WORD = struct.Struct("<iiqqqqI232s")  # status, backward, q rows, kv rows, wanted gradients, flags, digest, message


# The tensors of a run in the order of the library; those of a forward pass are the first five.
_NAMES = ("q", "k", "v", "out", "lse", "d_out", "d_lse", "d_q", "d_k", "d_v")


def _tensors(views, places, first: int = 0) -> list:
    """The ra_tensors of views from a place in the list on."""
    found = []
    for name, view in list(zip(_NAMES, views))[first:]:
        if view is None:
            found.append(None)
        elif name in ("lse", "d_lse"):
            found.append(lse_tensor(view, places[0] is not None, name))
        else:
            found.append(tensor_of(view, places, name))
    return found


class _Call:
    """What one rank brings to a run: views, settings and the words that it tells the others."""

    def __init__(self, views, tensors, layout, problem, arrays, strategy, order):
        self.views, self.tensors, self.layout = views, tensors, layout
        self.problem, self.arrays = problem, arrays
        self.strategy, self.order = strategy, order
        self.shape = _shape_of(*tensors[:3])
        code_of(STRATEGIES, "strategy", strategy)
        code_of(ORDERS, "order", order)

    def digest(self) -> int:
        """Equal on ranks that were called in the same way. What differs is found by the library, and named."""
        batch, _, _, *rest = self.shape
        names = sorted(self.arrays)
        return zlib.crc32(repr((batch, rest, self.problem[:5], names, self.strategy, self.order)).encode())


class Ring:
    """A rank's end of a ring. Made by ringattn.ring, closed by close() or a `with` block, on all ranks together.

    rank and ranks say which one this is; stats are those of the last run, of all ranks.
    """

    def __init__(self, link):
        self._link = link
        self._plans = OrderedDict()
        self._last = None
        self._watch = Watch(link.stops)
        self._finalizer = weakref.finalize(self, link.close)

    rank = property(lambda self: self._link.rank, doc="The number of this rank.")
    ranks = property(lambda self: self._link.ranks, doc="How many ranks there are.")

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def __repr__(self):
        kind = type(self._link).__name__.replace("Link", "").lower()
        return f"<ringattn ring, rank {self.rank} of {self.ranks}, {kind}>"

    def close(self) -> None:
        """Leave the ring."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether the ring was left, by close() or by a run that has failed."""
        return self._link.comm is None

    @property
    def stats(self) -> list:
        """What each rank did in the last run beside what was planned: hops, bytes, pairs, seconds, peak bytes."""
        if self._last is None:
            raise ArgumentError("there are no statistics before the first run")
        plan, stats = self._last
        return plan.runs(stats)

    @contextmanager
    def _held(self):
        """Ctrl-C is noted for the time of a call, and raised after it."""
        with HeldInterrupt() as interrupt:
            self._link.hold(interrupt)
            try:
                yield
            finally:
                self._link.hold(None)

    # ---- Rows ----------------------------------------------------------------------------------------------------

    def rows(self, length: int, *, order: str = "contiguous") -> np.ndarray:
        """The positions of this rank's rows in a sequence of `length`, in the order in which it holds them."""
        return _ring_rows.rows(length, self.ranks, self.rank, order)

    def split(self, x, *, order: str = "contiguous", axis: int = 1):
        """This rank's rows of a whole array."""
        return _ring_rows.split(x, self.ranks, self.rank, order=order, axis=axis)

    def gather(self, x, *, order: str = "contiguous", axis: int = 1, timeout: float = 60.0):
        """The whole array, on every rank, from the rows of each. All ranks call it together."""
        part = (x.detach().contiguous() if is_torch(x) else np.ascontiguousarray(x))
        axis %= part.ndim
        self._need_processes("gather")
        count = np.array([part.shape[axis]], np.int64).view(np.uint8)
        row = _row_bytes(part, axis)
        parts = []
        with self._held():
            counts = [int(a.view(np.int64)[0]) for a in self._link.share(count, [8] * self.ranks, timeout)]
            all_bytes = self._link.share(_bytes_of(part), [row * rows for rows in counts], timeout)
        for found, rows in zip(all_bytes, counts):
            shape = (*part.shape[:axis], rows, *part.shape[axis + 1 :])
            parts.append(_array_of(found, shape, part))
        return _ring_rows.gather(parts, order=order, axis=axis)

    def _need_processes(self, what: str) -> None:
        self._link.need_open()
        if self._link.transport != PROCESSES:
            raise ArgumentError(f"{what} is for rings of processes: virtual ranks have whole arrays")

    # ---- Attention -----------------------------------------------------------------------------------------------

    def attention(
        self,
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
        strategy="ring",
        order="contiguous",
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
        memory=None,
        timeout=60.0,
        progress=None,
        _graph=False,
    ):
        """ringattn.attention over the ranks: q, k and v are this rank's rows, and so is the result.

        Rows are those that split() gives for the order; with order "contiguous" ranks may hold any number of rows one
        after the other. Patterns go by positions in the whole sequence. Arrays of the pattern and the scores are those
        of the whole problem, on every rank. strategy is "ring", "allgather" or "broadcast" (docs/RING.md). memory is a
        limit in bytes of what a process may hold. A rank that is silent for `timeout` seconds ends the run on all ranks.
        """
        self._link.need_open()
        problem = (pattern, scores, scale, query_position, key_position, threads, kernel)
        try:
            places = places_of(layout)
            arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
            for name, array in (("q", q), ("k", k), ("v", v), *arrays.items()):
                refuse_gradient(array, name)
            views = [view_of(q, "q"), view_of(k, "k"), view_of(v, "v")]
            shape = views[0].shape
            tensors = _tensors(views, places)
            result = empty((*shape[:-1], views[2].shape[-1]), views[0].code, q) if out is None else out
            row_sums = empty(_lse_shape(shape, places), F32, q) if lse is None else lse
            views += [_writable(view_of(result, "out"), "out"), _writable(view_of(row_sums, "lse"), "lse")]
            tensors += _tensors(views, places, 3)
            call = _Call(views, tensors, layout, problem, arrays, strategy, order)
        except Exception as problem_found:  # whatever it is, the others must not wait
            self._refuse(problem_found, timeout)
        with self._held():
            counts = self._meet(call, False, 0, int(_graph), timeout)
            if len(set(counts.flags)) > 1:
                raise ArgumentError(
                    f"ranks {[rank for rank, flag in enumerate(counts.flags) if flag]} need gradients and the others do "
                    "not: expected all or none, because backward is called on all ranks together"
                )
            settings = self._settings(call, counts, memory, timeout, out_dtype=call.views[3].code)
            self._run(ring_forward, call, settings, counts, (), progress)
        result = finish(result, q) if out is None else out
        return (result, finish(row_sums, q) if lse is None else lse) if return_lse else result

    def attention_backward(
        self,
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
        pattern="full",
        scores=None,
        scale=None,
        layout="bshd",
        strategy="ring",
        order="contiguous",
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
        memory=None,
        timeout=60.0,
        progress=None,
    ):
        """ringattn.attention_backward over the ranks, with this rank's rows of all arrays.

        A gradient that one rank needs is computed by all. Gradients of slopes, table, bias and sinks are those of the
        whole problem, the same on every rank.
        """
        self._link.need_open()
        problem = (pattern, scores, scale, query_position, key_position, threads, kernel)
        try:
            places = places_of(layout)
            arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
            check_wanted(needs, array_gradients, arrays)
            named = (("q", q), ("k", k), ("v", v), ("out", out), ("lse", lse), ("d_out", d_out), ("d_lse", d_lse))
            views = [None if array is None else view_of(array, name) for name, array in named]
            tensors = _tensors(views, places)
            call = _Call(views, tensors, layout, problem, arrays, strategy, order)
        except Exception as problem_found:  # whatever it is, the others must not wait
            self._refuse(problem_found, timeout)
        wanted = sum(1 << i for i, need in enumerate((*needs, array_gradients)) if need)
        with self._held():
            plan, results = self._gradients(call, places, wanted, (q, k, v), array_gradients, memory, timeout, progress)
        gradients = tuple(
            finish(array, like) if need and array is not None else None
            for array, like, need in zip(results, (q, k, v), needs)
        )
        if not array_gradients:
            return gradients
        return (*gradients, {name: from_numpy(plan.gradients[name], call.arrays[name]) for name in array_gradients})

    def _gradients(self, call, places, wanted, inputs, array_gradients, memory, timeout, progress) -> tuple:
        """The plan of a backward run and the gradients by the inputs; those that no rank wants are None."""
        counts = self._meet(call, True, wanted, 0, timeout)
        wanted = counts.wanted
        results = [
            empty(view.shape, view.code, like) if wanted >> i & 1 else None
            for i, (view, like) in enumerate(zip(call.views, inputs))
        ]
        if not wanted:
            return None, results
        for name, array in zip(("d_q", "d_k", "d_v"), results):
            call.views.append(None if array is None else view_of(array, name))
        call.tensors += _tensors(call.views, places, 7)
        settings = self._settings(
            call, counts, memory, timeout, backward=True, gradients=wanted & 7,
            d_lse=call.views[6] is not None, d_out_dtype=call.views[5].code, out_dtype=call.views[3].code,
        )
        return self._run(ring_backward, call, settings, counts, array_gradients, progress), results

    # ---- Before a run --------------------------------------------------------------------------------------------

    def _refuse(self, problem: Exception, timeout: float):
        """This rank cannot run: tell the others and raise."""
        if self._link.transport == PROCESSES:
            status = getattr(problem, "status", ArgumentError.status)
            self._tell(_WORD.pack(status, 0, 0, 0, 0, 0, 0, str(problem).encode()[:231]), timeout)
        raise problem

    def _tell(self, word: bytes, timeout: float) -> list:
        words = self._link.share(np.frombuffer(word, np.uint8).copy(), [_WORD.size] * self.ranks, timeout)
        return [_WORD.unpack(found.tobytes()) for found in words]

    def _meet(self, call: _Call, backward: bool, wanted: int, flags: int, timeout: float):
        """Learn what the other ranks bring. A mistake of one of them is raised here too."""
        if self._link.transport == SIMULATED:
            return _Meeting([call.shape[1]], [call.shape[2]], wanted, [flags], True)
        mine = _WORD.pack(0, backward, call.shape[1], call.shape[2], wanted, flags, call.digest(), b"")
        words = self._tell(mine, timeout)
        for rank, word in enumerate(words):
            if word[0]:
                text = word[7].rstrip(b"\0").decode("utf-8", "replace")
                raise PeerError(f"rank {self.rank}: rank {rank} has failed: {text}")
            if word[1] != backward:
                names = ("attention", "attention_backward")
                raise ArgumentError(
                    f"rank {rank} called {names[word[1]]}, rank {self.rank} {names[backward]}: "
                    "all ranks must make the same calls in the same order"
                )
        total = 0
        for word in words:
            total |= word[4]
        same = len({word[6] for word in words}) == 1
        return _Meeting([word[2] for word in words], [word[3] for word in words], total, [w[5] for w in words], same)

    def _settings(self, call: _Call, counts, memory: int, timeout: float, **more) -> RingSettings:
        simulated = self._link.transport == SIMULATED
        own = {}
        if not simulated:
            own["q_counts"] = self._own_split(counts.q_rows, call.order, "q")
            own["kv_counts"] = self._own_split(counts.kv_rows, call.order, "k")
        return RingSettings(
            self.ranks, -1 if simulated else self.rank, self._link.transport, call.strategy, call.order,
            tuple(view.code for view in call.views[:3]), timeout, memory or 0, **own, **more,
        )

    def _own_split(self, given: list, order: str, name: str) -> tuple:
        expected = _ring_rows.counts_of(sum(given), self.ranks, order)
        if given == expected:
            return ()
        if order == "contiguous":
            return tuple(given)
        raise ArgumentError(
            f"{name}: ranks hold {given} rows; order {order} gives them {expected}: cut the whole array with split()"
        )

    def _threads(self, threads: int) -> int:
        """The cores of a machine are shared by its ranks; the library assumes that all ranks are on one."""
        if threads or self._link.transport == SIMULATED or self._link.local_ranks == self.ranks:
            return threads
        info = initialised(SystemInfo(), "ra_system_info_init")
        lib.ra_system_describe(byref(info))
        return max(1, info.cores // self._link.local_ranks)

    # ---- The run -------------------------------------------------------------------------------------------------

    def _plan(self, call: _Call, settings, counts, array_gradients, watch) -> RingPlan:
        batch, _, _, heads, kv_heads, head_dim, value_dim = call.shape
        shape = (batch, sum(counts.q_rows), sum(counts.kv_rows), heads, kv_heads, head_dim, value_dim)
        pattern, scores, scale, query_position, key_position, threads, kernel = call.problem
        problem = (pattern, scores, scale, query_position, key_position, self._threads(threads), kernel)
        if call.arrays or watch not in (None, self._watch):
            return RingPlan(settings, shape, *problem, watch and watch.callback, call.arrays, array_gradients)
        key = (settings, shape, problem)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = RingPlan(settings, shape, *problem, watch and watch.callback)
        self._plans.move_to_end(key)
        while len(self._plans) > _KEPT_PLANS:
            self._plans.popitem(last=False)
        return plan

    def _run(self, function, call: _Call, settings, counts, array_gradients, progress) -> RingPlan:
        wanted = progress_function(progress)
        if wanted:
            watch = Watch(lambda done, total: self._link.stops() or wanted(done, total))
        else:
            watch = None if hasattr(self._link, "sockets") else self._watch  # sockets see Ctrl-C by themselves
        try:
            plan = self._plan(call, settings, counts, array_gradients, watch)
        except Error as problem:
            # Ranks that were called in the same way fail in the same way, and the ring stays in order.
            if not counts.same:
                self._link.close(str(problem))
            raise
        stats = plan.new_stats()
        pointers = [None if tensor is None else byref(tensor) for tensor in call.tensors]
        status = function(plan.handle, self._link.comm, *pointers, stats)
        self._finish(status, watch)
        self._last = plan, stats
        return plan

    def _finish(self, status: int, watch) -> None:
        """Raise what went wrong. A run that has failed breaks the ring of processes."""
        message = lib.ra_last_message().decode("utf-8", "replace") if status else ""
        try:
            (watch or self._watch).check(status)
        except BaseException:
            if self._link.transport == PROCESSES:
                self._link.close(message)
            raise


class _Meeting:
    """What the ranks told each other before a run."""

    def __init__(self, q_rows: list, kv_rows: list, wanted: int, flags: list, same: bool):
        self.q_rows, self.kv_rows, self.wanted, self.flags, self.same = q_rows, kv_rows, wanted, flags, same


def _bytes_of(part) -> np.ndarray:
    """The bytes of a contiguous array, as an array of uint8 on its memory."""
    if is_torch(part):
        import torch

        return part.reshape(-1).view(torch.uint8).numpy() if part.numel() else np.empty(0, np.uint8)
    return part.reshape(-1).view(np.uint8)


def _row_bytes(part, axis: int) -> int:
    size = part.element_size() if is_torch(part) else part.itemsize
    for other, length in enumerate(part.shape):
        size *= 1 if other == axis else length
    return size


def _array_of(found: np.ndarray, shape, like):
    """Bytes as an array of the kind and dtype of `like`."""
    if is_torch(like):
        import torch

        # Views of other dtypes need an element.
        return torch.from_numpy(found).view(like.dtype).reshape(shape) if found.size else like.new_empty(shape)
    return found.view(like.dtype).reshape(shape)


def ring(comm=None, *, simulate: int = 0) -> Ring:
    """A ring over an mpi4py communicator or a torch.distributed group, or of virtual ranks in this process.

    All ranks of the communicator or group call it together. `simulate` virtual ranks take whole arrays in one call.

    >>> import numpy as np, ringattn
    >>> x = np.ones((1, 300, 2, 16), np.float32)
    >>> ring = ringattn.ring(simulate=3)
    >>> ring.attention(x, x, x, pattern="causal", order="zigzag").shape
    (1, 300, 2, 16)
    >>> [run.hops for run in ring.stats]
    [0, 2, 2]
    """
    if simulate:
        if comm is not None:
            raise ArgumentError("comm and simulate are both given: expected one of them")
        from ._links import SimulatedLink

        return Ring(SimulatedLink(simulate))
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and isinstance(comm, getattr(distributed, "ProcessGroup", ())):
        from .torch import ring as ring_of_group

        return ring_of_group(comm)
    if comm is None:
        raise ArgumentError("expected an mpi4py communicator, such as MPI.COMM_WORLD, or simulate=RANKS")
    from ._mpi import MpiLink

    return Ring(MpiLink(comm))
