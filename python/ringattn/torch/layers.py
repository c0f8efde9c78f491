# SPDX-License-Identifier: Apache-2.0
"""Layers: attention with projections, under the parameter names of PyTorch and of torchscale."""
from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import ringattn

from . import rotary
from .attention import call
from .sdpa import draw_seed


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, x.shape[-1] // heads))


def _head_dim(embed_dim: int, num_heads: int) -> int:
    if embed_dim % num_heads:
        raise ringattn.ArgumentError(f"embed_dim is {embed_dim} and num_heads is {num_heads}: embed_dim must be a "
                                     "multiple of num_heads")
    return embed_dim // num_heads


class MultiheadAttention(nn.Module):
    """nn.MultiheadAttention with a pattern, scores and rotary positions.

    Its state dict is that of nn.MultiheadAttention. rotary is the base of the frequencies (10000.0 in most models) or
    None. forward returns (output, None): attention weights are never made. Masks mean what they mean in
    nn.MultiheadAttention: True hides a key.

        >>> import torch, ringattn.torch
        >>> layer = ringattn.torch.MultiheadAttention(32, 4, batch_first=True, pattern="causal", rotary=10000.0)
        >>> layer(torch.randn(2, 9, 32))[0].shape
        torch.Size([2, 9, 32])
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: Optional[int] = None,
                 vdim: Optional[int] = None, batch_first: bool = False, device=None, dtype=None, *,
                 pattern: str = "full", scores: Optional[str] = None, rotary: Optional[float] = None) -> None:
        super().__init__()
        if add_bias_kv or add_zero_attn:
            name = "add_bias_kv" if add_bias_kv else "add_zero_attn"
            raise ringattn.UnsupportedError(f"{name} is True: MultiheadAttention has no additional keys; use False")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.head_dim = _head_dim(embed_dim, num_heads)
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.pattern, self.scores, self.rotary = pattern, scores, rotary
        # nn.TransformerEncoderLayer asks for it; False keeps it from computing attention without this layer.
        self._qkv_same_embed_dim = False
        kind = dict(device=device, dtype=dtype)
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **kind))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = nn.Parameter(torch.empty(embed_dim, embed_dim, **kind))
            self.k_proj_weight = nn.Parameter(torch.empty(embed_dim, self.kdim, **kind))
            self.v_proj_weight = nn.Parameter(torch.empty(embed_dim, self.vdim, **kind))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim, **kind))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **kind)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        if self.in_proj_weight is not None and query is key and key is value:
            return functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))

    def _masks(self, attn_mask, key_padding_mask, batch, rows, keys):
        """The mask (True: seen) and the bias that the masks of nn.MultiheadAttention stand for."""
        mask = bias = None
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unflatten(0, (batch, self.num_heads))
        elif attn_mask is not None:
            attn_mask = attn_mask[None, None]
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.reshape(batch, 1, 1, keys)
        for given in (attn_mask, key_padding_mask):
            if given is None:
                continue
            if given.dtype == torch.bool:
                mask = ~given if mask is None else mask & ~given
            else:
                bias = given if bias is None else bias + given
        if mask is not None:
            mask = mask.expand(*mask.shape[:2], rows, keys)
        return mask, bias

    def forward(self, query: Tensor, key: Optional[Tensor] = None, value: Optional[Tensor] = None,
                key_padding_mask: Optional[Tensor] = None, need_weights: bool = False,
                attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> Tuple[Tensor, None]:
        """Key and value default to the query. is_causal adds "causal", query i seeing keys 0 to i."""
        if need_weights:
            raise ringattn.UnsupportedError("need_weights is True: attention weights are never made; use False")
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self._project(query, key, value)
        batched = query.dim() == 3
        if not batched:
            q, k, v = q[None], k[None], v[None]
        elif not self.batch_first:
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        q, k, v = (_heads(x, self.num_heads) for x in (q, k, v))
        out = self._attend(q, k, v, attn_mask, key_padding_mask, is_causal).flatten(-2)
        if not batched:
            out = out[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return self.out_proj(out), None

    def _attend(self, q, k, v, attn_mask, key_padding_mask, is_causal):
        mask, bias = self._masks(attn_mask, key_padding_mask, q.shape[0], q.shape[1], k.shape[1])
        if self.rotary is not None:
            q = rotary.rotate(q, *rotary.table(torch.arange(q.shape[1]) + k.shape[1] - q.shape[1], self.head_dim,
                                               self.rotary))
            k = rotary.rotate(k, *rotary.table(torch.arange(k.shape[1]), self.head_dim, self.rotary))
        pattern = self.pattern
        if is_causal and "causal" not in pattern:
            pattern = "causal" if pattern == "full" else f"causal+{pattern}"
        dropout = self.dropout if self.training else 0.0
        return call(q, k, v, pattern, self.scores, None, "bshd", 0 if is_causal else None, dropout=dropout,
                    seed=draw_seed(dropout, "dropout"), safe_rows=bias is not None, mask=mask, bias=bias,
                    return_lse=False)[0]


class DilatedAttention(nn.Module):
    """LongNet's dilated attention of [batch, seq, heads, dim] tensors, without projections.

    Branch i has segments of segment_lengths[i] positions, of which every rates[i]-th takes part. docs/PATTERNS.md has
    the modes.

        >>> import torch, ringattn.torch
        >>> q = torch.randn(1, 64, 4, 8)
        >>> ringattn.torch.DilatedAttention([16, 64], [1, 4])(q, q, q).shape
        torch.Size([1, 64, 4, 8])
    """

    def __init__(self, segment_lengths: Sequence[int], rates: Sequence[int], mode: str = "paper",
                 is_causal: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        if not segment_lengths or len(segment_lengths) != len(rates):
            raise ringattn.ArgumentError(f"segment_lengths is {list(segment_lengths)} and rates is {list(rates)}: "
                                         "each branch needs one of both")
        branches = ",".join(f"{length}/{rate}" for length, rate in zip(segment_lengths, rates))
        self.pattern = ("causal+" if is_causal else "") + f"dilated:{branches}:mode={mode}"
        self.dropout = dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return call(q, k, v, self.pattern, dropout=dropout, seed=draw_seed(dropout, "dropout"), return_lse=False)[0]

    def extra_repr(self) -> str:
        return repr(self.pattern)


class MultiheadDilatedAttention(nn.Module):
    """LongNet's attention layer: projections, dilated attention, the norm in front of the output projection.

    Its state dict is that of torchscale's LongNet attention; the mode defaults to torchscale's offsets. torchscale
    pads the sequence and lets queries see the padding: results agree where it pads nothing. norm=False leaves out
    inner_attn_ln. x is [batch, seq, embed_dim].

        >>> import torch, ringattn.torch
        >>> layer = ringattn.torch.MultiheadDilatedAttention(32, 4, [16, 64], [1, 4])
        >>> layer(torch.randn(2, 64, 32)).shape
        torch.Size([2, 64, 32])
    """

    def __init__(self, embed_dim: int, num_heads: int, segment_lengths: Sequence[int], rates: Sequence[int],
                 dropout: float = 0.0, bias: bool = True, norm: bool = True, norm_eps: float = 1e-5,
                 is_causal: bool = False, mode: str = "torchscale", device=None, dtype=None) -> None:
        super().__init__()
        kind = dict(device=device, dtype=dtype)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, _head_dim(embed_dim, num_heads)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **kind)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **kind)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **kind)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **kind)
        self.inner_attn_ln = nn.LayerNorm(embed_dim, eps=norm_eps, **kind) if norm else None
        self.attention = DilatedAttention(segment_lengths, rates, mode, is_causal, dropout)

    def forward(self, query: Tensor, key: Optional[Tensor] = None, value: Optional[Tensor] = None) -> Tensor:
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        out = self.attention(*(_heads(x, self.num_heads) for x in (q, k, v))).flatten(-2)
        return self.out_proj(out if self.inner_attn_ln is None else self.inner_attn_ln(out))
