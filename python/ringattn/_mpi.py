# SPDX-License-Identifier: Apache-2.0
"""Rings over MPI: the library's part for the MPI that mpi4py uses is found and loaded, and takes mpi4py's handle."""

from __future__ import annotations

import ctypes
import os
import re
import time
from ctypes import POINTER, byref, c_int, c_void_p
from pathlib import Path

import numpy as np

from ._errors import ArgumentError, CancelledError, DeadlineError, UnsupportedError
from ._library import check, folder, lib
from ._links import CLOSED, Link

_PIECE_BYTES = 1 << 30  # MPI counts with an int
_loaded: dict = {}


def _name_of(MPI) -> str:
    """ "openmpi" or "mpich": whose handles mpi4py has."""
    vendor = MPI.get_vendor()[0]
    if "mpiabi" in Path(MPI.__file__).name.split("."):
        raise UnsupportedError(
            f"mpi4py has the handles of the standard MPI ABI (over {vendor}): ringattn takes those of Open MPI and MPICH; "
            "set MPI4PY_MPIABI to openmpi or mpich, or build mpi4py with that MPI's mpicc"
        )
    if vendor == "Open MPI":
        return "openmpi"
    if MPI._sizeof(MPI.Comm) == ctypes.sizeof(c_int):
        return "mpich"  # and those that share its handles: Intel MPI, MVAPICH
    raise UnsupportedError(f"mpi4py uses {vendor}: ringattn has parts for Open MPI and MPICH")


def _candidates(name: str) -> list:
    beside = Path(lib._name).resolve().parent
    file = f"libringattn_{name}.so"
    folders = (folder / "lib", beside, beside / "transport" / "mpi")
    return [str(place / file) for place in folders if (place / file).exists()]


def _mapped() -> list:
    """The MPI libraries of this process."""
    pattern = re.compile(r"/libmpi(ch)?\.so\.\d")
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return sorted({os.path.realpath(line.split()[-1]) for line in lines if pattern.search(line)})


def _load(MPI) -> ctypes.CDLL:
    name = _name_of(MPI)
    if name in _loaded:
        return _loaded[name]
    version = " ".join(MPI.Get_library_version().split(",")[0].split("\n")[0].split())
    candidates = _candidates(name)
    if not candidates:
        raise UnsupportedError(
            f"mpi4py uses {version}, and this installation of ringattn has no libringattn_{name}.so: "
            f"install ringattn where mpicc.{name} is"
        )
    before = _mapped()
    try:
        part = ctypes.CDLL(candidates[0])
    except OSError as problem:
        raise UnsupportedError(f"mpi4py uses {version}, but {candidates[0]} cannot be loaded: {problem}") from None
    if before and len(_mapped()) > len(before):
        raise UnsupportedError(
            f"mpi4py uses {version} of {', '.join(before)}, but {candidates[0]} is linked to "
            f"{', '.join(set(_mapped()) - set(before))}: use an mpi4py that was built for that one"
        )
    part.ra_comm_mpi.restype = c_int
    part.ra_comm_mpi.argtypes = [c_void_p if name == "openmpi" else c_int, POINTER(c_void_p)]
    part.ra_mpi_check_launcher.restype = c_int
    check(part.ra_mpi_check_launcher())
    _loaded[name] = part
    return part


class MpiLink(Link):
    """Ranks of an mpi4py communicator."""

    def __init__(self, comm):
        from mpi4py import MPI

        if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
            raise ArgumentError(f"comm is {comm!r}: expected an intracommunicator of mpi4py, such as MPI.COMM_WORLD")
        part = _load(MPI)
        self.MPI = MPI
        self.own = comm.Dup()  # messages of the caller's never meet those of share()
        near = self.own.Split_type(MPI.COMM_TYPE_SHARED)
        local_ranks = near.size
        near.Free()
        kind = c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(c_void_p) else c_int
        handle = kind.from_address(MPI._addressof(self.own))
        made = c_void_p()
        check(part.ra_comm_mpi(handle, byref(made)))
        super().__init__(self.own.rank, self.own.size, local_ranks, made)

    def share(self, mine: np.ndarray, sizes, timeout: float) -> list:
        MPI = self.MPI
        found = [mine if rank == self.rank else np.empty(size, np.uint8) for rank, size in enumerate(sizes)]
        requests, waiting = [], []
        for rank in range(self.ranks):
            if rank == self.rank:
                continue
            for function, array in ((self.own.Irecv, found[rank]), (self.own.Isend, mine)):
                for first in range(0, max(1, array.size), _PIECE_BYTES):
                    requests.append(function([array[first : first + _PIECE_BYTES], MPI.BYTE], rank))
                    waiting.append(rank)
        end = time.monotonic() + timeout
        looks = 0
        while True:
            MPI.Request.Testsome(requests)
            if all(request == MPI.REQUEST_NULL for request in requests):
                return found
            if self.stops():
                self.close("it was stopped by Ctrl-C")
                raise CancelledError(f"rank {self.rank}: stopped by Ctrl-C")
            if time.monotonic() > end:
                self._give_up(requests, waiting, timeout)
            time.sleep(0 if looks < 100 else 5e-5)
            looks += 1

    def _give_up(self, requests, waiting, timeout: float) -> None:
        late = sorted({rank for request, rank in zip(requests, waiting) if request != self.MPI.REQUEST_NULL})
        message = (
            f"rank {self.rank}: rank {' and rank '.join(map(str, late))} did not come to the same call within {timeout:g} s"
        )
        self.close(message)
        raise DeadlineError(message)

    def close(self, why: str = CLOSED) -> None:
        """All ranks close together; those that were silent are waited for a few seconds."""
        was_open = self.comm is not None and not self.MPI.Is_finalized()
        if self.MPI.Is_finalized():
            self.comm, self.why = None, why  # MPI has taken everything with it
        super().close(why)
        if was_open and why == CLOSED:
            self.own.Free()
