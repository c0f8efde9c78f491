# SPDX-License-Identifier: Apache-2.0
"""The problems of bench/peers.py: shapes of prefill, training and decoding, and what a query sees in each."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    """One problem. sees is full, causal, window, padded or packed; the last three are causal as well."""

    name: str
    dtype: str
    batch: int
    rows: int
    keys: int
    heads: int
    kv_heads: int
    dim: int = 64
    sees: str = "causal"
    backward: bool = False
    window: int = 256

    def lengths(self):
        """The valid keys of each batch element: the whole, three quarters, a half, ..."""
        return [max(1, self.keys * (8 - 2 * (i % 4)) // 8) for i in range(self.batch)]

    def documents(self):
        """The lengths of packed sequences, which add up to the keys."""
        parts = [self.keys // 2, self.keys // 4, self.keys // 8]
        return parts + [self.keys - sum(parts)]

    def mask(self):
        """What is seen, as a bool tensor [batch or 1, 1, rows, keys]; None: all, or causal alone."""
        if self.sees in ("full", "causal"):
            return None
        row = torch.arange(self.rows)[:, None] + self.keys - self.rows
        key = torch.arange(self.keys)
        seen = (key <= row)[None, None]
        if self.sees == "window":
            return seen & (key > row - self.window)
        if self.sees == "padded":
            return seen & (key < torch.tensor(self.lengths())[:, None, None, None])
        number = torch.repeat_interleave(torch.arange(4), torch.tensor(self.documents()))
        return seen & (number[row] == number[key])

    def tensors(self, seed: int = 1):
        """Queries, keys, values and the gradient of the output, [batch, heads, seq, dim]."""
        generator = torch.Generator().manual_seed(seed)
        shapes = [(self.heads, self.rows), (self.kv_heads, self.keys), (self.kv_heads, self.keys), (self.heads, self.rows)]
        return [torch.randn(self.batch, *shape, self.dim, generator=generator).to(getattr(torch, self.dtype))
                for shape in shapes]


def _prefill(name, dtype, length, heads=8, kv_heads=8, **options):
    return Case(f"{name}, {length} tokens", dtype, options.pop("batch", 1), length, length, heads, kv_heads, **options)


def _decode(dtype, keys, rows=1, batch=1, heads=32, kv_heads=8):
    return Case(f"decoding, {rows} of {keys} tokens, batch {batch}", dtype, batch, rows, keys, heads, kv_heads, 128,
                "full" if rows == 1 else "causal")


CASES = [
    *(_prefill("prefill", dtype, 2048) for dtype in ("float32", "bfloat16", "float16")),
    _prefill("prefill, not causal", "float32", 2048, sees="full"),
    _prefill("short prefill", "float32", 128, heads=8),
    _prefill("grouped heads", "float32", 1024, heads=32, kv_heads=8),
    _prefill("window of 256", "float32", 4096, sees="window"),
    _prefill("padded batch of 4", "float32", 1024, batch=4, sees="padded"),
    _prefill("packed batch of 4", "float32", 4096, sees="packed"),
    *(_prefill("training", dtype, 1024, backward=True) for dtype in ("float32", "bfloat16", "float16")),
    _prefill("training, window of 256", "float32", 4096, sees="window", backward=True),
    _prefill("training, packed batch of 4", "float32", 2048, sees="packed", backward=True),
    *(_decode(dtype, 4096) for dtype in ("float32", "bfloat16", "float16")),
    _decode("float32", 16384),
    _decode("bfloat16", 2048, batch=8),
    _decode("float32", 4096, rows=8),
]
