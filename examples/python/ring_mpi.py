# SPDX-License-Identifier: Apache-2.0
"""Causal attention of one sequence over MPI processes: mpirun -n 4 python ring_mpi.py

Each process makes its own rows alone. The order "zigzag" gives all of them the same work.
"""
import numpy as np
import ringattn
from mpi4py import MPI

LENGTH, HEADS, DIM = 4096, 4, 64


def main():
    with ringattn.ring(MPI.COMM_WORLD) as ring:
        rows = ring.rows(LENGTH, order="zigzag")  # the positions that this process holds
        random = np.random.default_rng(ring.rank)
        q, k, v = (random.standard_normal((1, len(rows), HEADS, DIM), np.float32) for _ in range(3))
        out = ring.attention(q, k, v, pattern="causal", order="zigzag")
        mine = ring.stats[ring.rank]
        print(
            f"rank {ring.rank} of {ring.ranks}: {out.shape[1]} rows, {mine.hops} hops, "
            f"{mine.bytes_sent / 2**20:.2f} MiB sent, {mine.peak_bytes / 2**20:.2f} MiB at most",
            flush=True,
        )


main()
