# SPDX-License-Identifier: Apache-2.0
"""What would each of 8 ranks hold, send and compute? Virtual ranks of one process, over one array."""
import numpy as np
import ringattn

x = np.random.default_rng(1).standard_normal((1, 4096, 4, 64), np.float32)
whole = ringattn.attention(x, x, x, pattern="causal")

for order in ("contiguous", "zigzag", "striped"):
    with ringattn.ring(simulate=8) as ring:
        out = ring.attention(x, x, x, pattern="causal", order=order, strategy="broadcast")
        work = [run.pairs_worked for run in ring.stats]
        sent = sum(run.bytes_sent for run in ring.stats)
    print(f"{order:10}: {max(work) / (sum(work) / 8):.2f} x the mean work on one rank, {sent / 2**20:.1f} MiB sent, "
          f"same bits as one process: {bool((out == whole).all())}")
