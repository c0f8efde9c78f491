# SPDX-License-Identifier: Apache-2.0
"""Those that bench/peers.py measures: for each a function of a problem and its tensors that returns the call.

A call returns the output, and the gradients of queries, keys and values in training, as PyTorch tensors
[batch, heads, seq, dim]. What does not depend on the tensors (masks, compilation) is done before.
"""
import torch

import ringattn.torch
from peers_cases import Case


def _with_gradients(function, tensors):
    """A call of function(q, k, v) and of its gradients."""
    *inputs, d_out = tensors
    inputs = [x.detach().requires_grad_() for x in inputs]

    def run():
        out = function(*inputs)
        return (out.detach(), *torch.autograd.grad(out, inputs, d_out))

    return run


def _call(function, case: Case, tensors):
    if case.backward:
        return _with_gradients(function, tensors)
    q, k, v, _ = tensors

    def run():
        with torch.no_grad():
            return (function(q, k, v),)

    return run


def ours(case: Case, tensors):
    """ringattn.torch.attention."""
    options = dict(pattern="full" if case.sees == "full" else "causal", layout="bhsd")
    if torch.get_num_threads() == 1:
        options["threads"] = 1
    if case.sees == "window":
        options["pattern"] = f"causal+window:{case.window - 1},0"
    elif case.sees == "padded":
        options["lengths"] = torch.tensor([[0, length] for length in case.lengths()])
    elif case.sees == "packed":
        options["documents"] = torch.tensor(case.documents())
    return _call(lambda q, k, v: ringattn.torch.attention(q, k, v, **options), case, tensors)


def pytorch(case: Case, tensors):
    """PyTorch's scaled_dot_product_attention, with a bool mask where it has no argument for what is seen."""
    mask = case.mask()
    causal = case.sees == "causal" and case.rows == case.keys
    if case.sees == "causal" and not causal:
        mask = torch.arange(case.keys) <= torch.arange(case.rows)[:, None] + case.keys - case.rows
    options = dict(attn_mask=mask, is_causal=causal, enable_gqa=case.heads != case.kv_heads)
    return _call(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, **options), case, tensors)


def flex(case: Case, tensors):
    """PyTorch's FlexAttention, compiled, with a block mask."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    offset = case.keys - case.rows
    lengths = torch.tensor(case.lengths())
    number = torch.repeat_interleave(torch.arange(4), torch.tensor(case.documents()))

    def seen(b, h, i, j):
        inside = j <= i + offset
        if case.sees == "window":
            inside = inside & (j > i + offset - case.window)
        elif case.sees == "padded":
            inside = inside & (j < lengths[b])
        elif case.sees == "packed":
            inside = inside & (number[i] == number[j])
        return inside

    block_mask = None
    if case.sees != "full":
        block_mask = create_block_mask(seen, case.batch if case.sees == "padded" else None, None, case.rows, case.keys,
                                       device="cpu")
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention)
    gqa = case.heads != case.kv_heads
    return _call(lambda q, k, v: compiled(q, k, v, block_mask=block_mask, enable_gqa=gqa), case, tensors)


def jax(case: Case, tensors):
    """JAX's dot_product_attention, compiled. Its arrays are [batch, seq, heads, dim]."""
    import jax as library

    def array(x):
        return library.numpy.from_dlpack(x.transpose(1, 2).contiguous())

    q, k, v, d_out = (array(x) for x in tensors)
    options = {}
    if case.sees == "padded":
        options["key_value_seq_lengths"] = library.numpy.array(case.lengths(), "int32")
    if case.sees == "window":
        options["local_window_size"] = (case.window - 1, 0)
    if case.sees == "packed":
        options["mask"] = library.numpy.array(case.mask().numpy())
    elif case.sees != "full" and case.rows == case.keys:
        options["is_causal"] = True
    elif case.sees != "full":
        seen = torch.arange(case.keys) <= torch.arange(case.rows)[:, None] + case.keys - case.rows
        options["mask"] = library.numpy.array(seen[None, None].numpy())

    def forward(q, k, v):
        return library.nn.dot_product_attention(q, k, v, **options)

    def both(q, k, v, d_out):
        out, backward = library.vjp(forward, q, k, v)
        return (out, *backward(d_out))

    compiled = library.jit(both if case.backward else lambda q, k, v, _: (forward(q, k, v),))

    def run():
        results = library.block_until_ready(compiled(q, k, v, d_out))
        return tuple(torch.from_dlpack(x).transpose(1, 2) for x in results)

    return run


CONTENDERS = {"ringattn": ours, "PyTorch": pytorch, "flex": flex, "JAX": jax}
