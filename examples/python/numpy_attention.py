# SPDX-License-Identifier: Apache-2.0
"""A padded batch with grouped-query heads: planned, computed, compared with the oracle, drawn."""

import numpy as np

import ringattn

random = np.random.default_rng(0)
batch, length, heads, kv_heads, dim = 2, 300, 8, 2, 64
q = random.normal(size=(batch, length, heads, dim)).astype(np.float32)
k = random.normal(size=(batch, length, kv_heads, dim)).astype(np.float32)
v = random.normal(size=(batch, length, kv_heads, dim)).astype(np.float32)

# The first element has 300 valid keys, the second 170. Queries see themselves and 63 keys before them.
settings = dict(pattern="causal+window:63,0", lengths=[[0, 300], [0, 170]])

print(ringattn.plan(q, k, v, **settings))
out, lse = ringattn.attention(q, k, v, return_lse=True, **settings)
exact = ringattn.reference(q, k, v, **settings)
error = np.abs(out - exact).max()
print(f"output {out.shape}, log-sum-exp {lse.shape}, largest error {error:.1e}")
assert error < 2e-6

print(ringattn.show("causal+window:3,0", 12))
