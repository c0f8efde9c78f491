# SPDX-License-Identifier: Apache-2.0
"""Attention for PyTorch CPU tensors, with gradients.

    >>> import torch, ringattn.torch
    >>> q, k, v = (torch.randn(1, 100, 4, 32, requires_grad=True) for _ in range(3))
    >>> out = ringattn.torch.attention(q, k, v, pattern="causal")
    >>> out.sum().backward()
    >>> q.grad.shape
    torch.Size([1, 100, 4, 32])

attention takes every pattern and score of the library. scaled_dot_product_attention and the flash_attn functions have
the signatures of PyTorch and flash-attn. The layers have the parameter names of PyTorch and torchscale. ring_attention
is for the processes of a torch.distributed group.
"""
from .attention import attention
from .distributed import gather, ring, ring_attention, split
from .flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from .layers import DilatedAttention, MultiheadAttention, MultiheadDilatedAttention
from .packed import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from .sdpa import scaled_dot_product_attention

__all__ = [
    "attention",
    "scaled_dot_product_attention",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "MultiheadAttention",
    "DilatedAttention",
    "MultiheadDilatedAttention",
    "ring",
    "ring_attention",
    "split",
    "gather",
]
