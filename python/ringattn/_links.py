# SPDX-License-Identifier: Apache-2.0
"""What connects the ranks of a ring: a communicator of the library, and small messages of everybody to everybody.

SimulatedLink has all ranks in this process, SocketLink is for processes that torch.distributed or others introduced to
each other. _mpi.py has the third.
"""

from __future__ import annotations

import ctypes
from ctypes import byref

import numpy as np

from ._connect import connect
from ._errors import ArgumentError, DeadlineError, Error, PeerError
from ._library import check, lib
from ._ring_library import NOTICE_FAILED, PROCESSES, SIMULATED, Notice, Segment, TransportState
from ._sockets import SocketTransport

CLOSED = "it was closed"
_SHARE_TAG = 32767  # the engine uses lower ones


class Link:
    """A rank's end. `comm` is the library's communicator; without one the link is closed, and `why` says why."""

    transport = PROCESSES

    def __init__(self, rank: int, ranks: int, local_ranks: int, comm):
        self.rank, self.ranks, self.local_ranks, self.comm = rank, ranks, local_ranks, comm
        self.why = CLOSED
        self.interrupt = None

    def share(self, mine: np.ndarray, sizes, timeout: float) -> list:
        """Bytes of all ranks, sizes[rank] each, as arrays of uint8; `mine` are those of this rank."""
        raise NotImplementedError

    def hold(self, interrupt) -> None:
        """From here on Ctrl-C is noted there (a HeldInterrupt); None: it is not."""
        self.interrupt = interrupt

    def stops(self, _done=0, _total=0) -> bool:
        """Whether there was a Ctrl-C."""
        return self.interrupt is not None and self.interrupt.noted

    def need_open(self) -> None:
        """Refuse a link that is closed."""
        if self.comm is None:
            kind = ArgumentError if self.why == CLOSED else PeerError
            raise kind(f"this ring cannot be used any more: {self.why}; make a new one on all ranks")

    def close(self, why: str = CLOSED) -> None:
        """Leave the ring; other ranks that wait for this one are told."""
        comm, self.comm = self.comm, None
        if comm is not None:
            self.why = why
            lib.ra_comm_free(comm)


class SimulatedLink(Link):
    """Virtual ranks of this process."""

    transport = SIMULATED

    def __init__(self, ranks: int):
        comm = ctypes.c_void_p()
        check(lib.ra_comm_sim(ranks, byref(comm)))
        super().__init__(0, ranks, 1, comm)


class SocketLink(Link):
    """Ranks over TCP. `share` hands an object to all ranks and returns those of all; see _connect.py."""

    def __init__(self, rank: int, ranks: int, share, timeout: float, towards=None):
        sockets, local_ranks = connect(rank, ranks, share, timeout, towards)
        self.sockets = SocketTransport(rank, sockets)
        comm = ctypes.c_void_p()
        check(lib.ra_comm_custom(byref(self.sockets.struct), byref(comm)))
        super().__init__(rank, ranks, local_ranks, comm)

    def hold(self, interrupt) -> None:
        self.interrupt = self.sockets.interrupt = interrupt

    def share(self, mine: np.ndarray, sizes, timeout: float) -> list:
        found = [mine if rank == self.rank else np.empty(size, np.uint8) for rank, size in enumerate(sizes)]
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        struct = self.sockets.struct
        try:
            for rank in others:
                self._start(struct.receive, rank, found[rank])
            for rank in others:
                self._start(struct.send, rank, mine)
            self._wait(timeout)
        except BaseException as problem:
            self._give_up(problem)
            raise
        return found

    def _start(self, function, rank: int, array: np.ndarray) -> None:
        segment = Segment(array.ctypes.data, array.nbytes)
        check(function(None, rank, _SHARE_TAG, ctypes.addressof(segment), 1))

    def _wait(self, timeout: float) -> None:
        state = TransportState()
        while True:
            check(self.sockets.struct.progress(None, ctypes.pointer(state)))
            if state.notice.kind:
                text = state.notice.text.decode("utf-8", "replace")
                raise PeerError(f"rank {self.rank}: rank {state.notice.rank} has failed: {text}")
            if not state.unfinished:
                return
            if state.silent > timeout:
                raise DeadlineError(
                    f"rank {self.rank}: rank {state.waiting_for} has been silent for {state.silent:.1f} s "
                    f"(timeout {timeout:g} s): it has not come to the same call"
                )

    def _give_up(self, problem: BaseException) -> None:
        status = problem.status if isinstance(problem, Error) else 6
        self.sockets.notify(Notice(NOTICE_FAILED, self.rank, status, str(problem).encode()[:243]))
        self.close(str(problem) or type(problem).__name__)
