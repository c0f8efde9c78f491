# SPDX-License-Identifier: Apache-2.0
"""The plan of a run over ranks, and what its ranks were planned to do and did."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import NamedTuple

from ._library import KERNEL_NAMES, check, lib
from ._problem import Plan
from ._ring_library import ORDERS, STRATEGIES, Piece, RankInfo, RankStats, RingOptions, code_of, initialised


class RankRun(NamedTuple):
    """What one rank did in a run. Names that begin with planned_ are what its plan said before."""

    rank: int
    threads: int
    kernel: str
    q_rows: int
    kv_rows: int
    steps: int
    hops: int
    planned_hops: int
    bytes_sent: int
    planned_bytes_sent: int
    bytes_received: int
    planned_bytes_received: int
    pairs_visible: float
    pairs_worked: float
    seconds_compute: float
    seconds_wait: float
    seconds_total: float
    peak_bytes: int
    planned_peak_bytes: int
    rss_peak_bytes: int
    lent_bytes: int


class RingSettings(NamedTuple):
    """How a problem is spread over ranks: the hashable part of ra_ring_options."""

    ranks: int
    rank: int  # -1: all ranks are virtual
    transport: int
    strategy: str
    order: str
    dtypes: tuple  # of q, k, v
    timeout: float
    memory: int
    q_counts: tuple = ()  # rows of each rank, where they are not those of the order
    kv_counts: tuple = ()
    backward: bool = False
    gradients: int = 7
    d_lse: bool = False
    d_out_dtype: int = 0
    out_dtype: int = 0


def _consecutive(counts):
    """Pieces of ranks that hold `counts` rows one after the other."""
    pieces, first = [], 0
    for rank, count in enumerate(counts):
        if count:
            pieces.append(Piece(first, first + count, rank))
        first += count
    return (Piece * len(pieces))(*pieces)


class RingPlan(Plan):
    """An ra_ring_plan, with all that it points into."""

    _free = lib.ra_ring_plan_free

    def __init__(self, settings: RingSettings, *problem):
        self.settings = settings
        super().__init__(*problem)

    def _create(self, problem, options):
        s = self.settings
        ring = initialised(RingOptions(), "ra_ring_options_init")
        ring.ranks, ring.rank, ring.transport = s.ranks, s.rank, s.transport
        ring.strategy, ring.order = code_of(STRATEGIES, "strategy", s.strategy), code_of(ORDERS, "order", s.order)
        ring.q_dtype, ring.k_dtype, ring.v_dtype = s.dtypes
        ring.timeout, ring.memory = s.timeout, s.memory
        ring.o_dtype, ring.lse = s.out_dtype, 1
        for name, counts in (("q", s.q_counts), ("kv", s.kv_counts)):
            if counts:
                pieces = _consecutive(counts)
                self.kept.append(pieces)
                setattr(ring, f"{name}_pieces", ctypes.cast(pieces, ctypes.POINTER(Piece)))
                setattr(ring, f"{name}_piece_count", len(pieces))
        if s.backward:
            ring.backward, ring.gradients, ring.d_lse = 1, s.gradients, int(s.d_lse)
            ring.d_output_dtype = s.d_out_dtype
            ring.d_q_dtype, ring.d_k_dtype, ring.d_v_dtype = s.dtypes
        handle = ctypes.c_void_p()
        check(lib.ra_ring_plan_create(byref(problem), byref(options), byref(ring), byref(handle)))
        return handle

    def new_stats(self):
        """Room for the statistics of all ranks."""
        stats = (RankStats * self.settings.ranks)()
        check(lib.ra_rank_stats_init(stats, ctypes.sizeof(RankStats)))
        return stats

    def runs(self, stats) -> list:
        """Statistics of a run beside what was planned."""
        found = []
        for s in stats:
            info = initialised(RankInfo(), "ra_rank_info_init")
            check(lib.ra_ring_plan_rank(self.handle, s.rank, byref(info)))
            found.append(
                RankRun(
                    s.rank, s.threads, KERNEL_NAMES.get(s.kernel, str(s.kernel)), s.q_rows, s.kv_rows, s.steps,
                    s.hops, info.hops, s.bytes_sent, info.bytes_sent, s.bytes_received, info.bytes_received,
                    s.pairs_visible, s.pairs_worked, s.seconds_compute, s.seconds_wait, s.seconds_total,
                    s.peak_bytes, s.planned_peak_bytes, s.rss_peak_bytes, s.lent_bytes,
                )
            )
        return found
