# SPDX-License-Identifier: Apache-2.0
"""The attention function of transformers: [batch, heads, seq, dim] tensors and a mask, as one call of the library."""
from typing import Optional, Tuple

import torch
from torch import Tensor

import ringattn
from ringattn.torch.attention import call
from ringattn.torch.sdpa import draw_seed

from .masks import Mask, Pattern
from .selection import selected


def _refuse(cache, options: dict) -> None:
    if options.get("output_attentions"):
        raise ringattn.UnsupportedError(
            'output_attentions is True: attention weights are never made; use attn_implementation="eager"')
    if options.get("head_mask") is not None:
        raise ringattn.UnsupportedError('head_mask is given: heads are not masked; use attn_implementation="eager"')
    if cache is not None:
        raise ringattn.UnsupportedError(f"cache is a {type(cache).__name__}: paged caches of continuous batching are not "
                                        'supported; use attn_implementation="sdpa"')


def _scores(softcap: Optional[float], bias: Optional[Tensor]) -> Optional[str]:
    """The cap comes before the bias, as in the models that have both."""
    words = [f"softcap:{softcap:.12f}".rstrip("0").rstrip(".")] if softcap else []
    return "+".join(words + (["bias"] if bias is not None else [])) or None


def _tensor_mask(mask: Optional[Tensor], keys: int) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """A mask that is a tensor, as (mask, bias) of the library; keys that a static cache does not have are cut off."""
    if mask is None:
        return None, None
    if mask.dim() != 4:
        raise ringattn.ArgumentError(f"attention_mask has shape {tuple(mask.shape)}: expected [batch, heads or 1, "
                                     "queries, keys] in the attention function of a model")
    mask = mask[..., :keys]
    return (mask, None) if mask.dtype == torch.bool else (None, mask)


def _rows(x: Optional[Tensor], i: int) -> Optional[Tensor]:
    """The part of batch element i."""
    return None if x is None else x[i : i + 1] if x.shape[0] > 1 else x


def _attend(q, k, v, pattern: str, dropout: float, row_sinks: Optional[Tensor], **options) -> Tensor:
    """The output; row_sinks [batch, heads, queries, 1] are one more score for each row, of a value of zero."""
    out, lse = call(q, k, v, pattern, dropout=dropout, seed=draw_seed(dropout, "dropout"),
                    return_lse=row_sinks is not None, **options)
    if row_sinks is None:
        return out
    share = torch.sigmoid(lse - row_sinks[..., 0])
    return out * share.transpose(1, 2)[..., None].to(out.dtype)


def _described(q, k, v, mask: Mask, bias: Optional[Tensor], dropout: float, row_sinks: Optional[Tensor],
               options: dict) -> Tensor:
    """Attention with a Mask: in one call, or in one for each batch element where their patterns differ."""

    def run(q, k, v, pattern: Pattern, lengths, keys, bias, row_sinks):
        return _attend(q, k, v, pattern.text, dropout, row_sinks, query_position=pattern.query_position,
                       key_position=pattern.key_position, documents=pattern.documents, lengths=lengths, mask=keys,
                       bias=bias, **options)

    if len(mask.patterns) == 1:
        return run(q, k, v, mask.patterns[0], mask.lengths, mask.keys, bias, row_sinks)
    return torch.cat([run(*(_rows(x, i) for x in (q, k, v)), pattern,
                          *(_rows(x, i) for x in (mask.lengths, mask.keys, bias, row_sinks)))
                      for i, pattern in enumerate(mask.patterns)])


def _undescribed(q, k, v, mask: Optional[Tensor], bias: Optional[Tensor], causal: bool, safe_rows: bool, dropout: float,
                 row_sinks: Optional[Tensor], options: dict) -> Tensor:
    """Attention with a mask that is a tensor, or with none; causal lets query i see keys 0 to i."""
    return _attend(q, k, v, "causal" if causal else "full", dropout, row_sinks, query_position=0 if causal else None,
                   mask=mask, bias=bias, safe_rows=safe_rows, **options)


def attention_forward(module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
                      dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Optional[Tensor] = None,
                      position_bias: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
                      indices: Optional[Tensor] = None, block_indices: Optional[Tensor] = None, cache=None,
                      **options) -> Tuple[Tensor, None]:
    """What transformers calls in each attention layer. Keys and values have their own heads, not those of queries.

    s_aux is a sink for each head, sinks is one for each row. indices and block_indices select the keys of each query.
    """
    _refuse(cache, options)
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    batch = max(q.shape[0], k.shape[0])
    q, k, v = (x if x.shape[0] == batch else x.expand(batch, -1, -1, -1) for x in (q, k, v))
    mask = attention_mask
    bias = None if position_bias is None else position_bias[..., : k.shape[1]]
    settings = dict(scale=scaling, sinks=None if s_aux is None else s_aux.float())
    chosen = selected(module, indices, block_indices, q.shape[2], k.shape[1])
    if isinstance(mask, Mask):
        if chosen is None and mask.shape == (batch, 1, q.shape[1], k.shape[1]):
            settings["scores"] = _scores(softcap, bias)
            return _described(q, k, v, mask, bias, dropout, sinks, settings), None
        mask = mask.dense()
    causal = mask is None and q.shape[1] > 1 and (getattr(module, "is_causal", True) if is_causal is None else is_causal)
    mask, added = _tensor_mask(mask, k.shape[1])
    if chosen is not None:
        mask = chosen if mask is None else mask & chosen
    if added is not None:
        bias = added if bias is None else bias + added
    settings["scores"] = _scores(softcap, bias)
    return _undescribed(q, k, v, mask, bias, bool(causal), added is not None, dropout, sinks, settings), None
