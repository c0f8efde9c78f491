# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings in plain PyTorch, for flash.py and layers.py."""
import torch
from torch import Tensor


def table(positions: Tensor, dim: int, base: float):
    """Cosines and sines [positions, dim / 2] of the usual frequencies base^(-2i/dim)."""
    powers = torch.arange(0, dim, 2, dtype=torch.float32, device=positions.device) / dim
    angles = positions.to(torch.float32)[..., None] * base**-powers
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """x [batch, seq, heads, dim] with its first 2 * cos.shape[-1] elements rotated.

    cos and sin are [seq, half] or [batch, seq, half]. Interleaved pairs are (0, 1), (2, 3), ...; others are
    (0, half), (1, half + 1), ...
    """
    half = cos.shape[-1]
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    turned, rest = x[..., : 2 * half].to(cos.dtype), x[..., 2 * half :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    else:
        a, b = turned[..., :half], turned[..., half:]
        turned = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    return torch.cat((turned.to(x.dtype), rest), -1)
