# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention with PyTorch's signature and meaning."""
import math
from typing import Optional

import torch
from torch import Tensor

import ringattn

from .attention import call, check_devices

_SEEDS = 2**62


def draw_seed(dropout_p: float, argument: str = "dropout_p") -> Optional[Tensor]:
    """A seed for dropout from PyTorch's generator, or None where nothing is dropped."""
    if not 0.0 <= dropout_p < 1.0:
        raise ringattn.ArgumentError(f"{argument} is {dropout_p}: it must be at least 0 and below 1")
    return torch.randint(_SEEDS, (), dtype=torch.int64) if dropout_p else None


def _four(x: Tensor, lead) -> Tensor:
    """x as [batch, heads, seq, dim], with the leading dimensions broadcast to `lead`."""
    x = x.expand(*lead, *x.shape[-2:])
    if len(lead) < 2:
        return x[(None,) * (2 - len(lead))]
    return x if len(lead) == 2 else x.reshape(math.prod(lead[:-1]), lead[-1], *x.shape[-2:])


def _leads(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool):
    """The leading dimensions of query, key and value, broadcast against each other."""
    ends = 3 if enable_gqa else 2
    try:
        lead = torch.broadcast_shapes(*(x.shape[:-ends] for x in (query, key, value)))
    except RuntimeError:
        hint = "" if enable_gqa else "; for fewer heads of keys give enable_gqa=True"
        raise ringattn.ArgumentError(f"query has shape {tuple(query.shape)}, key has shape {tuple(key.shape)}, value has shape "
                                     f"{tuple(value.shape)}: all but the last {ends} must broadcast{hint}") from None
    if not enable_gqa:
        return lead, lead
    return (*lead, query.shape[-3]), (*lead, key.shape[-3])


def _four_mask(mask: Tensor, lead, rows: int, keys: int) -> Tensor:
    """A mask or bias as [batch or 1, heads or 1, rows, keys]; what is broadcast has a stride of 0."""
    if mask.dim() > 4 or len(lead) > 2:
        return _four(mask.expand(*lead, rows, keys), lead)
    mask = mask[(None,) * (4 - mask.dim())] if mask.dim() < 4 else mask
    if len(lead) < 2:
        lead = (1,) * (2 - len(lead)) + tuple(lead)
    for axis in (0, 1):
        if mask.shape[axis] not in (1, lead[axis]):
            raise ringattn.ArgumentError(
                f"attn_mask has shape {tuple(mask.shape)}: it must broadcast to {(*lead, rows, keys)}")
    return mask.expand(*mask.shape[:2], rows, keys)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention on [..., heads, seq, dim].

    is_causal lets query i see keys 0 to i. A bool mask is True where a key is seen, a float mask is added to the
    scores. A row that sees no key gives zeros, and so does a row whose float mask is -inf or the lowest float
    everywhere. Draws of dropout come from a seed of PyTorch's generator; they are not
    those of PyTorch's own function.

        >>> import torch, ringattn.torch
        >>> q = torch.randn(2, 4, 7, 8)
        >>> ringattn.torch.scaled_dot_product_attention(q, q, q, is_causal=True).shape
        torch.Size([2, 4, 7, 8])
    """
    if is_causal and attn_mask is not None:
        raise ringattn.ArgumentError("attn_mask and is_causal=True are both given: give one of them")
    if torch.is_autocast_enabled("cpu") and query.dtype != torch.float64:
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if (not (query.is_cpu and key.is_cpu and value.is_cpu and (attn_mask is None or attn_mask.is_cpu))
            or query.is_nested or key.is_nested or value.is_nested):
        check_devices((("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)))
    seed = draw_seed(dropout_p)
    dims = query.dim()
    if dims < 2 or key.dim() < 2 or value.dim() < 2:
        raise ringattn.ArgumentError(
            f"query, key and value have {dims}, {key.dim()} and {value.dim()} dimensions: they need at least 2")
    q, k, v = query, key, value
    if not (dims == 4 and k.dim() == 4 and v.dim() == 4 and q.shape[0] == k.shape[0] == v.shape[0]
            and (enable_gqa or q.shape[1] == k.shape[1]) and k.shape[1] == v.shape[1]):
        lead, kv_lead = _leads(q, k, v, enable_gqa)
        q, k, v = _four(q, lead), _four(k, kv_lead), _four(v, kv_lead)
    else:
        lead = q.shape[:2]
    mask = bias = None
    if attn_mask is not None:
        broadcast = _four_mask(attn_mask, lead, q.shape[2], k.shape[2])
        if attn_mask.dtype == torch.bool:
            mask = broadcast
        elif attn_mask.is_floating_point() and (attn_mask.dtype != torch.float64 or query.dtype == torch.float64):
            bias = broadcast
        else:
            raise ringattn.ArgumentError(f"attn_mask has dtype {attn_mask.dtype}: expected bool, float32, float16 or bfloat16")
    out, _ = call(q, k, v, "causal" if is_causal else "full", None, scale, "bhsd", 0 if is_causal else None,
                  dropout=float(dropout_p), seed=seed, safe_rows=bias is not None, mask=mask, bias=bias,
                  return_lse=False)
    return out if dims == 4 and out.shape[:2] == lead else out.reshape(*lead, *out.shape[-2:])
