# SPDX-License-Identifier: Apache-2.0
"""info: the machine and the library as `ringattn info` prints them."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import NamedTuple, Tuple

from ._library import BytesText, KERNEL_NAMES, SystemInfo, check, folder, lib, version


class Info(NamedTuple):
    """What this library is and what machine it runs on. Bytes that are not known are 0."""

    version: str
    library: str
    processor: str
    instruction_sets: Tuple[str, ...]
    kernels: Tuple[str, ...]
    kernel: str
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    memory_bytes: int
    compiler: str
    openmp: str
    mpi: Tuple[str, ...]

    def __str__(self) -> str:
        remarks = {self.kernel: " (chosen)", "avx512bf16": " (if all is bfloat16)"}
        kernels = ", ".join(name + remarks.get(name, "") for name in self.kernels)
        lines = (
            ("ringattn", self.version),
            ("library", self.library),
            ("processor", self.processor),
            ("instruction sets", " ".join(self.instruction_sets)),
            ("kernels", kernels),
            ("threads", self.threads),
            ("L1 data cache", bytes_text(self.l1_bytes)),
            ("L2 cache", bytes_text(self.l2_bytes)),
            ("L3 cache", bytes_text(self.l3_bytes)),
            ("memory", bytes_text(self.memory_bytes)),
            ("compiler", self.compiler),
            ("OpenMP", self.openmp or "no"),
            ("MPI", ", ".join(self.mpi) or "no"),
        )
        return "\n".join(f"{name:<18}{value}" for name, value in lines)


def bytes_text(count: int) -> str:
    if count <= 0:
        return "unknown"
    return lib.ra_bytes_text(count, BytesText()).decode()


def info() -> Info:
    """The library's version, the processor, its caches and the kernels that it can run; `mpi` names the MPI parts.

    >>> import ringattn
    >>> ringattn.info().version == ringattn.__version__
    True
    """
    found = SystemInfo()
    check(lib.ra_system_info_init(byref(found), ctypes.sizeof(found)))
    check(lib.ra_system_describe(byref(found)))
    kernels = tuple(name for code, name in KERNEL_NAMES.items() if code and lib.ra_kernel_available(code))
    return Info(
        version(),
        str(lib._name),
        found.processor.decode(),
        tuple(found.instruction_sets.decode().split()),
        kernels,
        KERNEL_NAMES[found.kernel],
        found.cores,
        found.l1_bytes,
        found.l2_bytes,
        found.l3_bytes,
        found.memory_bytes,
        found.compiler.decode(),
        found.openmp.decode(),
        tuple(name for name in ("openmpi", "mpich") if (folder / "lib" / f"libringattn_{name}.so").exists()),
    )
