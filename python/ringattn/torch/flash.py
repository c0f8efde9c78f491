# SPDX-License-Identifier: Apache-2.0
"""The functions of flash-attn with their public signatures, on CPU tensors.

Causal masks and windows are aligned at the bottom right. The log-sum-exp of a row that sees no key is -infinity here.
What a call cannot do is refused with the argument's name and value.
"""
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

import ringattn

from . import rotary
from .attention import call, check_devices
from .sdpa import draw_seed

# A side of a window that reaches everywhere.
_UNLIMITED = 2**40


def _pattern(causal: bool, window_size: Tuple[int, int], *terms: str) -> str:
    left, right = window_size
    words = ["causal"] if causal else []
    if left >= 0 or (right >= 0 and not causal):
        sides = left if left >= 0 else _UNLIMITED, right if right >= 0 else _UNLIMITED
        words.append(f"window:{sides[0]},{0 if causal else sides[1]}")
    return "+".join(words + list(terms)) or "full"


def _scores(softcap: float, alibi_slopes: Optional[Tensor]) -> Optional[str]:
    if softcap < 0:
        raise ringattn.ArgumentError(f"softcap is {softcap}: it must be 0 (none) or above")
    words = [f"softcap:{softcap:.12f}".rstrip("0").rstrip(".")] if softcap else []
    if alibi_slopes is not None:
        words.append("alibi")
    return "+".join(words) or None


def _slopes(alibi_slopes: Optional[Tensor]) -> Optional[Tensor]:
    if alibi_slopes is None:
        return None
    if alibi_slopes.dim() == 2 and alibi_slopes.shape[0] == 1:
        alibi_slopes = alibi_slopes[0]
    if alibi_slopes.dim() != 1:
        raise ringattn.UnsupportedError(f"alibi_slopes has shape {tuple(alibi_slopes.shape)}: slopes of each batch "
                                        "element are not supported; give one slope for each head")
    return alibi_slopes.float()


def _attend(q, k, v, pattern, dropout_p, softmax_scale, softcap, alibi_slopes, **arrays):
    return call(q, k, v, pattern, _scores(softcap, alibi_slopes), softmax_scale, dropout=float(dropout_p),
                seed=draw_seed(dropout_p), slopes=_slopes(alibi_slopes), **arrays)


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                    return_attn_probs: bool = False):
    """Attention of [batch, seq, heads, dim] tensors; results are the same in every run, with or without deterministic.

    return_attn_probs returns (out, lse, None): the probabilities are never made.

        >>> import torch, ringattn.torch
        >>> q = torch.randn(1, 6, 4, 8)
        >>> ringattn.torch.flash_attn_func(q, q, q, causal=True, window_size=(2, 0)).shape
        torch.Size([1, 6, 4, 8])
    """
    out, lse = _attend(q, k, v, _pattern(causal, window_size), dropout_p, softmax_scale, softcap, alibi_slopes,
                       return_lse=return_attn_probs)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                           max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False,
                           window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Optional[Tensor] = None):
    """Attention of packed sequences [total, heads, dim]; cu_seqlens are where each sequence begins, and the end.

        >>> import torch, ringattn.torch
        >>> q, ends = torch.randn(7, 4, 8), torch.tensor([0, 3, 7], dtype=torch.int32)
        >>> ringattn.torch.flash_attn_varlen_func(q, q, q, ends, ends, 4, 4, causal=True).shape
        torch.Size([7, 4, 8])
    """
    _refuse_pages(block_table)
    documents = _documents(cu_seqlens_q, cu_seqlens_k, q.shape[0], k.shape[0])
    out, lse = _attend(q[None], k[None], v[None], _pattern(causal, window_size, "documents"), dropout_p, softmax_scale,
                       softcap, alibi_slopes, documents=documents, return_lse=return_attn_probs)
    return (out[0], lse[0], None) if return_attn_probs else out[0]


def _documents(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, rows: int, keys: int) -> Tensor:
    """Queries and keys of each sequence. Rows in front of the first or behind the last see nothing, and nobody sees them."""
    check_devices((("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)))
    if cu_seqlens_q.dim() != 1 or cu_seqlens_q.shape != cu_seqlens_k.shape or not cu_seqlens_q.numel():
        raise ringattn.ArgumentError(f"cu_seqlens_q has shape {tuple(cu_seqlens_q.shape)}, cu_seqlens_k "
                                     f"{tuple(cu_seqlens_k.shape)}: expected one entry more than there are sequences in both")
    q, k = cu_seqlens_q.to(torch.int64), cu_seqlens_k.to(torch.int64)
    none = q.new_zeros(1)
    return torch.stack((torch.cat((q[:1], none, q.diff(), rows - q[-1:], none)),
                        torch.cat((none, k[:1], k.diff(), none, keys - k[-1:]))), 1)


def _refuse_pages(block_table: Optional[Tensor]) -> None:
    if block_table is not None:
        raise ringattn.UnsupportedError(f"block_table has shape {tuple(block_table.shape)}: paged caches are not "
                                        "supported; give caches [batch, seq, heads, dim] and block_table=None")


def _check_new(name: str, new: Tensor, batch: int, cache: Tensor) -> None:
    if new.dim() != 4 or new.shape[0] != batch or new.shape[2:] != cache.shape[2:]:
        raise ringattn.ArgumentError(f"{name} has shape {tuple(new.shape)}: expected [{batch}, new keys, "
                                     f"{', '.join(map(str, cache.shape[2:]))}], as q and {name}_cache")


def _append(cache: Tensor, new: Tensor, slots: Tensor, begins: Tensor, block_table: Optional[Tensor]) -> None:
    """Write new [batch, n, heads, dim] into rows begins[b]... of cache[slots[b]], or of the pages of b."""
    rows = begins[:, None] + torch.arange(new.shape[1])
    if block_table is None:
        cache[slots[:, None], rows] = new.to(cache.dtype)
        return
    pages = block_table.to(torch.int64).gather(1, rows // cache.shape[1])
    wrong = (pages < 0) | (pages >= cache.shape[0])
    if wrong.any():
        batch, i = wrong.nonzero()[0].tolist()
        raise ringattn.ArgumentError(f"block_table[{batch}, {int(rows[batch, i]) // cache.shape[1]}] is "
                                     f"{int(pages[batch, i])}: k_cache has {cache.shape[0]} pages")
    cache[pages, rows % cache.shape[1]] = new.to(cache.dtype)


def _turn(q, k, cos, sin, begins, interleaved, moving):
    """Rotate queries and new keys: those at begins[b] + i, or all queries at begins[b] if they do not move."""
    rows = begins[:, None] + torch.arange(k.shape[1])
    k = rotary.rotate(k, cos[rows], sin[rows], interleaved)
    rows = begins[:, None] + (torch.arange(q.shape[1]) if moving else torch.zeros(q.shape[1], dtype=torch.int64))
    return rotary.rotate(q, cos[rows], sin[rows], interleaved), k


def _of_batch(x: Union[int, Tensor, None], batch: int, default: int, name: str) -> Tensor:
    """One number for each batch element."""
    if isinstance(x, Tensor):
        if x.shape != (batch,):
            raise ringattn.ArgumentError(f"{name} has shape {tuple(x.shape)}: expected ({batch},), one for each batch element")
        return x.to(torch.int64)
    return torch.full((batch,), default if x is None else x, dtype=torch.int64)


@torch.no_grad()
def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos: Optional[Tensor] = None,
                            rotary_sin: Optional[Tensor] = None, cache_seqlens: Union[int, Tensor, None] = None,
                            cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
                            block_table: Optional[Tensor] = None, softmax_scale: Optional[float] = None,
                            causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None,
                            num_splits: int = 0, return_softmax_lse: bool = False):
    """Attention of new queries [batch, n, heads, dim] over caches [slots, seq, kv_heads, dim], or with a block_table
    int32 [batch, blocks] over caches of pages [pages, page_size, kv_heads, dim].

    New keys and values are written into the caches behind the cache_seqlens valid rows. Queries sit at the end of the
    valid keys. The library chooses how keys are split, whatever num_splits says. There are no gradients, as in
    flash-attn.
    """
    check_devices((("q", q), ("k_cache", k_cache), ("v_cache", v_cache), ("k", k), ("v", v),
                   ("block_table", block_table)))
    if (k is None) != (v is None):
        raise ringattn.ArgumentError(f"{'k' if k is None else 'v'} is None: k and v come together")
    if (rotary_cos is None) != (rotary_sin is None):
        raise ringattn.ArgumentError(f"{'rotary_cos' if rotary_cos is None else 'rotary_sin'} is None: rotary_cos and "
                                     "rotary_sin come together")
    if rotary_cos is not None and k is None:
        raise ringattn.ArgumentError("rotary_cos is given and k is None: rotary embeddings need new keys")
    if k is not None and cache_seqlens is None:
        raise ringattn.ArgumentError("k is given and cache_seqlens is None: say how many keys the cache has")
    if block_table is not None and cache_batch_idx is not None:
        raise ringattn.ArgumentError("cache_batch_idx is given, and block_table says where sequences are")
    batch, rows = q.shape[:2]
    room = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    ends = _of_batch(cache_seqlens, batch, room, "cache_seqlens")
    begins = _of_batch(cache_leftpad, batch, 0, "cache_leftpad")
    slots = torch.arange(batch) if cache_batch_idx is None else _of_batch(cache_batch_idx, batch, 0, "cache_batch_idx")
    if k is not None:
        for name, new, cache in (("k", k, k_cache), ("v", v, v_cache)):
            _check_new(name, new, batch, cache)
        if batch and int(ends.max()) + k.shape[1] > room:
            raise ringattn.ArgumentError(f"cache_seqlens reaches {int(ends.max())} and k has {k.shape[1]} new keys: "
                                         f"k_cache has room for {room}")
        if rotary_cos is not None:
            moving = causal or tuple(window_size) != (-1, -1)
            q, k = _turn(q, k, rotary_cos, rotary_sin, ends - begins, rotary_interleaved, moving)
        _append(k_cache, k, slots, ends, block_table)
        _append(v_cache, v, slots, ends, block_table)
        ends = ends + k.shape[1]
    if cache_batch_idx is not None:
        k_cache, v_cache = k_cache[slots], v_cache[slots]
    lengths = torch.stack((begins, ends, ends - rows), 1)
    pattern = _pattern(causal, window_size, "lengths")
    if block_table is not None:
        out, lse = ringattn.attention(q, k_cache, v_cache, pattern=pattern, scores=_scores(softcap, alibi_slopes),
                                      scale=softmax_scale, slopes=_slopes(alibi_slopes), lengths=lengths,
                                      page_table=block_table.to(torch.int32), kv_len=int(ends.max()) if batch else 0,
                                      return_lse=True)
        return (out, lse) if return_softmax_lse else out
    out, lse = _attend(q, k_cache[:batch], v_cache[:batch], pattern, 0.0,
                       softmax_scale, softcap, alibi_slopes, lengths=lengths, return_lse=return_softmax_lse)
    return (out, lse) if return_softmax_lse else out
