# SPDX-License-Identifier: Apache-2.0
"""Decoding with a cache that has room to spare: slices of it are read where they are, without a copy."""

import numpy as np

import ringattn

random = np.random.default_rng(0)
room, heads, kv_heads, dim = 64, 8, 2, 64
keys = np.zeros((1, room, kv_heads, dim), np.float16)
values = np.zeros((1, room, kv_heads, dim), np.float16)
out = np.empty((1, 1, heads, dim), np.float16)

for token in range(40):
    q = random.normal(size=(1, 1, heads, dim)).astype(np.float16)
    keys[:, token] = random.normal(size=(1, kv_heads, dim))
    values[:, token] = random.normal(size=(1, kv_heads, dim))
    ringattn.attention(q, keys[:, : token + 1], values[:, : token + 1], pattern="causal", out=out)

exact = ringattn.reference(q, keys[:, :40], values[:, :40], pattern="causal")
print(f"40 tokens, largest error of the last {np.abs(out - exact).max():.1e}")
