# SPDX-License-Identifier: Apache-2.0
"""The functions of flash-attn that take queries, keys and values in one tensor. The others are in flash.py."""
from typing import Optional, Tuple

from torch import Tensor

import ringattn

from .flash import flash_attn_func, flash_attn_varlen_func


def _unpack(packed: Tensor, axis: int, count: int, name: str) -> Tuple[Tensor, ...]:
    if packed.dim() <= axis or packed.shape[axis] != count:
        raise ringattn.ArgumentError(f"{name} has shape {tuple(packed.shape)}: dimension {axis} must be {count}")
    return packed.unbind(axis)


def flash_attn_qkvpacked_func(qkv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                              causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                              alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                              return_attn_probs: bool = False):
    """flash_attn_func of qkv [batch, seq, 3, heads, dim].

        >>> import torch, ringattn.torch
        >>> ringattn.torch.flash_attn_qkvpacked_func(torch.randn(1, 6, 3, 4, 8)).shape
        torch.Size([1, 6, 4, 8])
    """
    return flash_attn_func(*_unpack(qkv, 2, 3, "qkv"), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                             causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                             alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                             return_attn_probs: bool = False):
    """flash_attn_func of q [batch, seq, heads, dim] and kv [batch, seq, 2, kv_heads, dim]."""
    return flash_attn_func(q, *_unpack(kv, 2, 2, "kv"), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, dropout_p: float = 0.0,
                                     softmax_scale: Optional[float] = None, causal: bool = False,
                                     window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                                     alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                     return_attn_probs: bool = False):
    """flash_attn_varlen_func of qkv [total, 3, heads, dim]."""
    return flash_attn_varlen_func(*_unpack(qkv, 1, 3, "qkv"), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p,
                                  softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                                    max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                                    return_attn_probs: bool = False):
    """flash_attn_varlen_func of q [total, heads, dim] and kv [total, 2, kv_heads, dim]."""
    return flash_attn_varlen_func(q, *_unpack(kv, 1, 2, "kv"), cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                                  dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)
