# SPDX-License-Identifier: Apache-2.0
"""Keys that a model selects for each query, as a bool mask: DeepSeek-V3.2's tokens and MiniMax-M3's blocks."""
from typing import Optional

import torch
from torch import Tensor


def _of_indices(indices: Tensor, keys: int) -> Tensor:
    """indices [batch, queries, n] name the keys that all heads see."""
    seen = torch.zeros(*indices.shape[:2], keys, dtype=torch.bool)
    return seen.scatter(-1, indices.long(), True).unsqueeze(1)


def _of_blocks(indices: Tensor, size: int, heads: int, keys: int) -> Tensor:
    """indices [batch, groups of heads, queries, n] name blocks of keys; -1 names none."""
    blocks = -(-keys // size)
    seen = torch.zeros(*indices.shape[:3], blocks + 1, dtype=torch.bool)
    seen = seen.scatter(-1, indices.long().masked_fill(indices < 0, blocks), True)[..., :blocks]
    return seen.repeat_interleave(size, -1)[..., :keys].repeat_interleave(heads // indices.shape[1], 1)


def selected(module, indices: Optional[Tensor], block_indices: Optional[Tensor], heads: int,
             keys: int) -> Optional[Tensor]:
    """The mask [batch, 1 or heads, queries, keys] of what a model has selected, or None."""
    if indices is not None:
        return _of_indices(indices, keys)
    if block_indices is not None:
        return _of_blocks(block_indices, module.indexer.block_size, heads, keys)
    return None
