# SPDX-License-Identifier: Apache-2.0
"""Gradient descent without a framework: the queries learn to look where a target is."""

import numpy as np

import ringattn

random = np.random.default_rng(0)
q, k, v = (random.normal(size=(1, 50, 2, 16)).astype(np.float32) for _ in range(3))
target = v[:, ::-1].copy()

losses = []
for step in range(200):
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    losses.append(float(((out - target) ** 2).mean()))
    d_out = 2 * (out - target) / out.size
    d_q, d_k, _ = ringattn.attention_backward(d_out, q, k, v, out, lse, needs=(True, True, False))
    q -= 300 * d_q
    k -= 300 * d_k

print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps")
assert losses[-1] < losses[0] / 2
