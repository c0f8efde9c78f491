# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradients in NumPy float64, by the definition: what the tests compare with."""

import numpy as np


def f64(x):
    return np.asarray(x).astype(np.float64)


def scores_of(q, k, scale=None, bias=None, softcap=None):
    """[batch, heads, q_len, kv_len] of q and k in bshd."""
    q, k = f64(q), f64(k)
    k = np.repeat(k, q.shape[2] // k.shape[2], axis=2)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    s = np.einsum("bihd,bjhd->bhij", q, k) * scale
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    return s if bias is None else s + f64(bias)


def softmax(s, seen, sinks=None):
    """Weights and log-sum-exp; rows that see nothing have weights of zero."""
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, f64(sinks)[None, :, None, None])
    top = np.where(np.isfinite(top), top, 0)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(f64(sinks)[None, :, None, None] - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total > 0, p / total, 0)
        lse = (np.log(total) + top)[..., 0]
    return weights, lse


def attention(q, k, v, seen=None, scale=None, bias=None, softcap=None, sinks=None):
    """Output in bshd and log-sum-exp [batch, heads, q_len]."""
    s = scores_of(q, k, scale, bias, softcap)
    seen = np.ones(s.shape, bool) if seen is None else np.broadcast_to(seen, s.shape)
    weights, lse = softmax(s, seen, sinks)
    values = np.repeat(f64(v), s.shape[1] // v.shape[2], axis=2)
    return np.einsum("bhij,bjhd->bihd", weights, values), lse


def backward(d_out, q, k, v, seen=None, scale=None, d_lse=None):
    """Gradients by q, k and v in bshd."""
    s = scores_of(q, k, scale)
    seen = np.ones(s.shape, bool) if seen is None else np.broadcast_to(seen, s.shape)
    weights, _ = softmax(s, seen)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    heads, group = q.shape[2], q.shape[2] // k.shape[2]
    keys, values = np.repeat(f64(k), group, axis=2), np.repeat(f64(v), group, axis=2)
    d_weights = np.einsum("bihd,bjhd->bhij", f64(d_out), values)
    delta = (weights * d_weights).sum(-1, keepdims=True)
    if d_lse is not None:
        delta = delta - f64(d_lse)[..., None]
    d_s = weights * (d_weights - delta) * scale
    d_q = np.einsum("bhij,bjhd->bihd", d_s, keys)
    d_k = np.einsum("bhij,bihd->bjhd", d_s, f64(q))
    d_v = np.einsum("bhij,bihd->bjhd", weights, f64(d_out))
    fold = lambda x: x.reshape(*x.shape[:2], heads // group, group, x.shape[3]).sum(3)
    return d_q, fold(d_k), fold(d_v)


def causal(q_len, kv_len):
    """Which pairs causal attention sees, queries at the end of the keys."""
    return np.arange(kv_len) <= np.arange(q_len)[:, None] + kv_len - q_len


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
