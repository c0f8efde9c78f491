# SPDX-License-Identifier: Apache-2.0
"""Which rows a rank holds in each order, and arrays cut and put together by them. The library's plan says which."""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref
from functools import lru_cache

import numpy as np

from ._arrays import is_torch
from ._errors import ArgumentError
from ._library import Options, Problem, check, lib
from ._ring_library import ORDERS, PROCESSES, Piece, RankInfo, RingOptions, code_of, initialised


@lru_cache(maxsize=64)
def pieces_of(length: int, ranks: int, order: str) -> tuple:
    """For each rank the runs of rows (first, end) that it holds, in the order of their positions."""
    problem, options = initialised(Problem(), "ra_problem_init"), initialised(Options(), "ra_options_init")
    ring = initialised(RingOptions(), "ra_ring_options_init")
    problem.q_len, problem.heads, problem.head_dim = length, 1, 1
    ring.ranks, ring.order, ring.transport, ring.rank = ranks, code_of(ORDERS, "order", order), PROCESSES, 0
    plan = ctypes.c_void_p()
    check(lib.ra_ring_plan_create(byref(problem), byref(options), byref(ring), byref(plan)))
    try:
        return tuple(_rank_pieces(plan, rank) for rank in range(ranks))
    finally:
        lib.ra_ring_plan_free(plan)


def _rank_pieces(plan, rank: int) -> tuple:
    info = initialised(RankInfo(), "ra_rank_info_init")
    check(lib.ra_ring_plan_rank(plan, rank, byref(info)))
    found, rows, piece = [], 0, Piece()
    while rows < info.q_rows:
        check(lib.ra_ring_plan_queries(plan, rank, len(found), byref(piece)))
        found.append((piece.first, piece.end))
        rows += piece.end - piece.first
    return tuple(found)


def counts_of(length: int, ranks: int, order: str) -> list:
    """How many rows each rank holds."""
    return [sum(end - first for first, end in pieces) for pieces in pieces_of(length, ranks, order)]


def rows(length: int, ranks: int, rank: int, order: str = "contiguous") -> np.ndarray:
    """The positions of the rows that a rank holds of a sequence, in the order in which it holds them.

    >>> import ringattn
    >>> ringattn.rows(320, 2, 0, order="zigzag")[[0, 127, 128, -1]].tolist()
    [0, 127, 256, 319]
    """
    _check_rank(rank, ranks)
    runs = [np.arange(first, end) for first, end in pieces_of(length, ranks, order)[rank]]
    return np.concatenate(runs) if runs else np.empty(0, np.int64)


def _check_rank(rank: int, ranks: int) -> None:
    if not 0 <= rank < ranks:
        raise ArgumentError(f"rank {rank}: expected 0..{ranks - 1}")


def _space(array):
    """The module whose concatenate joins arrays of this kind."""
    if is_torch(array):
        return sys.modules["torch"]
    if isinstance(array, np.ndarray):
        return np
    space = getattr(array, "__array_namespace__", None)
    if space is None:
        raise ArgumentError(f"x is a {type(array).__name__}: expected a NumPy array, a PyTorch tensor or an array "
                            "with __array_namespace__")
    return space()


def _join(runs: list, axis: int):
    space = _space(runs[0])
    return (space.concatenate if hasattr(space, "concatenate") else space.concat)(runs, axis)


def _at(array, axis: int, first: int, end: int):
    return array[(slice(None),) * (axis % array.ndim) + (slice(first, end),)]


def split(x, ranks: int, rank: int, *, order: str = "contiguous", axis: int = 1):
    """The rows of x along an axis that a rank holds: a view if they are one run, else a copy.

    >>> import numpy as np, ringattn
    >>> ringattn.split(np.zeros((1, 1000, 8, 64)), 4, 1, order="striped").shape
    (1, 256, 8, 64)
    """
    _check_rank(rank, ranks)
    runs = [_at(x, axis, first, end) for first, end in pieces_of(x.shape[axis], ranks, order)[rank]]
    if not runs:
        return _at(x, axis, 0, 0)
    return runs[0] if len(runs) == 1 else _join(runs, axis)


def gather(parts, *, order: str = "contiguous", axis: int = 1):
    """The whole array from the parts of all ranks, rank 0's first: what split has cut.

    >>> import numpy as np, ringattn
    >>> x = np.arange(200)
    >>> parts = [ringattn.split(x, 3, rank, order="zigzag", axis=0) for rank in range(3)]
    >>> bool((ringattn.gather(parts, order="zigzag", axis=0) == x).all())
    True
    """
    parts = list(parts)
    lengths = [part.shape[axis] for part in parts]
    if order == "contiguous":
        return _join(parts, axis)
    expected = counts_of(sum(lengths), len(parts), order)
    if lengths != expected:
        raise ArgumentError(f"parts have {lengths} rows: order {order} gives {len(parts)} ranks {expected}")
    runs = []
    for rank, pieces in enumerate(pieces_of(sum(lengths), len(parts), order)):
        before = 0
        for first, end in pieces:
            runs.append((first, _at(parts[rank], axis, before, before + end - first)))
            before += end - first
    return _join([run for _, run in sorted(runs, key=lambda pair: pair[0])] or parts[:1], axis)
