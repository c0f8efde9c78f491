# SPDX-License-Identifier: Apache-2.0
"""Code written for flash-attn, on a CPU: packed sequences of different lengths, and decoding with a cache."""
import torch

from ringattn.torch import flash_attn_varlen_func, flash_attn_with_kvcache

HEADS, KV_HEADS, DIM = 8, 2, 64


def prefill(lengths):
    """Sequences of these lengths, one behind the other; nothing is padded."""
    total = sum(lengths)
    q, k, v = (torch.randn(total, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    out = flash_attn_varlen_func(q, k, v, ends, ends, max(lengths), max(lengths), causal=True)
    return k, v, out


def main():
    torch.manual_seed(1)
    lengths = [100, 37]
    k, v, out = prefill(lengths)
    print("prefill:", tuple(out.shape))
    k_cache, v_cache = torch.zeros(2, len(lengths), 128, KV_HEADS, DIM)
    for i, (new_k, new_v) in enumerate(zip(k.split(lengths), v.split(lengths))):
        k_cache[i, : lengths[i]], v_cache[i, : lengths[i]] = new_k, new_v
    used = torch.tensor(lengths, dtype=torch.int32)
    for _ in range(3):
        q, k, v = (torch.randn(len(lengths), 1, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
        out = flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=used, causal=True)
        used = used + 1
    print("decoding:", tuple(out.shape), "behind", used.tolist(), "keys")
    assert out.isfinite().all()


if __name__ == "__main__":
    main()
