# SPDX-License-Identifier: Apache-2.0
"""plan: what a call will do, known before it runs. preset: patterns and scores by the names of models."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from ._arrays import view_of
from ._errors import ArgumentError
from ._info import bytes_text
from ._library import KERNEL_NAMES, check, lib
from ._problem import Plan, given_arrays, places_of, tensor_of

_VARIANTS = {0: "tile", 1: "decode"}


class PlanSummary(NamedTuple):
    """What a call will do. Counts are summed over batch and query heads."""

    direction: str
    pattern: str
    scores: Optional[str]
    length: int
    kernel: str
    variant: str
    threads: int
    query_tile: int
    key_block: int
    key_spans: int
    tiles: int
    pairs_visible: int
    pairs_worked: int
    flops: int
    peak_bytes: int
    density: float

    def __str__(self) -> str:
        scores = f", scores {self.scores}" if self.scores else ""
        what = "gradients" if self.direction == "backward" else "attention"
        text = (
            f"{what} in one piece, kernel {self.kernel}; {self.pattern}{scores}, length {self.length}\n"
            f"{self.pairs_visible:.4g} visible pairs, {self.pairs_worked:.4g} worked in {self.tiles:.4g} tiles, "
            f"{self.flops:.4g} flops; holds at most {bytes_text(self.peak_bytes)} beyond the tensors"
        )
        return text + (f"\n{self.density:.6g} of the blocks are kept" if self.density < 1 else "")


def _sizes_of_arrays(arrays, layout) -> tuple:
    places = places_of(layout)
    q, k, v = (tensor_of(view_of(array, name), places, name) for name, array in zip("qkv", arrays))
    return q.batch, q.seq, k.seq, q.heads, k.heads, q.dim, v.dim


def _sizes_of_numbers(length, kv_length, batch, heads, kv_heads, dim, value_dim) -> tuple:
    for name, value in (("length", length), ("heads", heads), ("dim", dim)):
        if value is None:
            raise ArgumentError(f"{name} is missing: expected arrays q, k and v, or length, heads and dim")
    same = -1
    return (
        batch,
        length,
        same if kv_length is None else kv_length,
        heads,
        same if kv_heads is None else kv_heads,
        dim,
        same if value_dim is None else value_dim,
    )


def plan(
    q=None,
    k=None,
    v=None,
    *,
    length: Optional[int] = None,
    kv_length: Optional[int] = None,
    batch: int = 1,
    heads: Optional[int] = None,
    kv_heads: Optional[int] = None,
    dim: Optional[int] = None,
    value_dim: Optional[int] = None,
    backward: bool = False,
    pattern: str = "full",
    scores: Optional[str] = None,
    scale: Optional[float] = None,
    layout: str = "bshd",
    threads: int = 0,
    query_position: Optional[int] = None,
    key_position: int = 0,
    kernel: Optional[str] = None,
    mask=None,
    bias=None,
    slopes=None,
    table=None,
    sinks=None,
    lengths=None,
    documents=None,
) -> PlanSummary:
    """What attention, or with backward attention_backward, will do: flops, tiles, pairs, bytes beyond the arrays.

    The problem is that of arrays q, k and v, or of sizes. Printed, it reads like `ringattn plan`.

    >>> import ringattn
    >>> summary = ringattn.plan(length=65536, heads=8, dim=64, pattern="causal+window:255,0")
    >>> summary.pairs_visible == 8 * (65536 * 256 - 255 * 256 // 2)
    True
    >>> summary.flops == 2 * summary.pairs_visible * (64 + 64)
    True
    """
    if (q is None) + (k is None) + (v is None) not in (0, 3):
        raise ArgumentError("some of q, k and v are missing: expected all three, or length, heads and dim")
    if q is not None:
        sizes = _sizes_of_arrays((q, k, v), layout)
    else:
        sizes = _sizes_of_numbers(length, kv_length, batch, heads, kv_heads, dim, value_dim)
    arrays = given_arrays(mask, bias, slopes, table, sinks, lengths, documents)
    if arrays and -1 in sizes:
        batch, rows, keys, heads, kv_heads, dim, value_dim = sizes
        sizes = (batch, rows, rows if keys < 0 else keys, heads, kv_heads, dim, value_dim)
    made = Plan(sizes, pattern, scores, scale, query_position, key_position, threads, kernel, None, arrays)
    info = made.describe(backward)
    return PlanSummary(
        "backward" if backward else "forward",
        made.problem.pattern.decode(),
        made.problem.scores.decode() if made.problem.scores else None,
        sizes[1],
        KERNEL_NAMES[info.kernel],
        _VARIANTS[info.variant],
        info.threads,
        info.query_tile,
        info.key_block,
        info.key_spans,
        int(info.tiles),
        int(info.pairs_visible),
        int(info.pairs_worked),
        int(info.flops),
        info.peak_bytes,
        info.density,
    )


def preset(name: str) -> Tuple[str, Optional[str]]:
    """Pattern and scores that go by a name: "longnet", "bigbird", or that of a model. An unknown name lists all.

    >>> import ringattn
    >>> ringattn.preset("gemma2")
    ('causal', 'softcap:50')
    """
    pattern = lib.ra_preset(name.encode())
    if pattern is None:
        check(1)
    scores = lib.ra_preset_scores(name.encode())
    return pattern.decode(), scores.decode() if scores else None
