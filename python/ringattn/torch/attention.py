# SPDX-License-Identifier: Apache-2.0
"""The operators ringattn::attention and ringattn::attention_backward, and the function that calls them.

Both are custom operators with fake implementations, so torch.compile sees one call and no graph break. A call that
needs no gradient, outside of compilation and of PyTorch's dispatch modes, goes to the C library directly. float64
tensors go to double.py.
"""
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

import ringattn

from . import double

# Arrays of the scores that have gradients, in the order in which the backward operator returns them.
DIFFERENTIABLE = ("slopes", "table", "bias", "sinks")
_ARRAY_NAMES = ("mask", "bias", "slopes", "table", "sinks", "lengths", "documents")
# Scores below about -2.3e38 are -inf to the library; this leaves room for the score that a bias is added to.
_LOWEST_BIAS = -1e38


def _mask_of_bias(bias: Tensor, mask: Optional[Tensor], q: Tensor, k: Tensor, layout: str) -> Optional[Tensor]:
    """The mask, with the rows hidden whose bias is -inf or the lowest float everywhere: they give zeros, not NaN."""
    if bias.shape[-1] == 0:
        return mask
    seen = bias.amax(-1, keepdim=True) >= _LOWEST_BIAS
    if seen.all():
        return mask
    axis = 1 if layout == "bshd" else 2
    seen = seen.expand(*bias.shape[:2], q.shape[axis], k.shape[axis])
    return seen if mask is None else mask & seen


def _text_of_dropout(scores: Optional[str], dropout: float, seed: Optional[Tensor]) -> Optional[str]:
    """The scores with a dropout term whose seed is the value of a tensor."""
    if dropout == 0.0:
        return scores
    fraction = f"{dropout:.15f}".rstrip("0")
    term = f"dropout:{fraction}:seed={int(seed)}"
    return f"{scores}+{term}" if scores else term


def _problem(q, k, pattern, scores, scale, layout, query_position, key_position, threads, kernel, dropout, seed,
             safe_rows, mask, bias, slopes, table, sinks, lengths, documents) -> dict:
    """The keywords of ringattn.attention for the arguments of the operators."""
    if safe_rows and bias is not None:
        mask = _mask_of_bias(bias, mask, q, k, layout)
    return dict(pattern=pattern, scores=_text_of_dropout(scores, dropout, seed), scale=scale, layout=layout,
                query_position=query_position, key_position=key_position, threads=threads, kernel=kernel, mask=mask,
                bias=bias, slopes=slopes, table=table, sinks=sinks, lengths=lengths, documents=documents)


@torch.library.custom_op("ringattn::attention", mutates_args=(), device_types="cpu")
def _forward(q: Tensor, k: Tensor, v: Tensor, pattern: str, scores: Optional[str], scale: Optional[float], layout: str,
             query_position: Optional[int], key_position: int, threads: int, kernel: Optional[str], dropout: float,
             seed: Optional[Tensor], safe_rows: bool, mask: Optional[Tensor], bias: Optional[Tensor],
             slopes: Optional[Tensor], table: Optional[Tensor], sinks: Optional[Tensor], lengths: Optional[Tensor],
             documents: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    problem = _problem(q, k, pattern, scores, scale, layout, query_position, key_position, threads, kernel, dropout,
                       seed, safe_rows, mask, bias, slopes, table, sinks, lengths, documents)
    if q.dtype == torch.float64:
        return double.forward(q.detach(), k.detach(), v.detach(), problem)
    out = q.new_empty(q.shape[:-1] + v.shape[-1:])
    out, lse = ringattn.attention(q, k, v, return_lse=True, out=out, **problem)
    return out, lse


@_forward.register_fake
def _(q, k, v, pattern, scores, scale, layout, *rest):
    batch, rows, heads = q.shape[:3] if layout == "bshd" else (q.shape[0], q.shape[2], q.shape[1])
    lse = q.new_empty((batch, heads, rows), dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    return q.new_empty(q.shape[:-1] + v.shape[-1:]), lse


@torch.library.custom_op("ringattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward(d_out: Tensor, d_lse: Optional[Tensor], out: Tensor, lse: Tensor, needs: List[bool], q: Tensor, k: Tensor,
              v: Tensor, pattern: str, scores: Optional[str], scale: Optional[float], layout: str,
              query_position: Optional[int], key_position: int, threads: int, kernel: Optional[str], dropout: float,
              seed: Optional[Tensor], safe_rows: bool, mask: Optional[Tensor], bias: Optional[Tensor],
              slopes: Optional[Tensor], table: Optional[Tensor], sinks: Optional[Tensor], lengths: Optional[Tensor],
              documents: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    problem = _problem(q, k, pattern, scores, scale, layout, query_position, key_position, threads, kernel, dropout,
                       seed, safe_rows, mask, bias, slopes, table, sinks, lengths, documents)
    arrays = dict(slopes=slopes, table=table, bias=bias, sinks=sinks)
    wanted = tuple(name for name, need in zip(DIFFERENTIABLE, needs[3:]) if need)
    backward = double.backward if q.dtype == torch.float64 else ringattn.attention_backward
    found = backward(d_out, q, k, v, out, lse, d_lse=d_lse, needs=tuple(needs[:3]), array_gradients=wanted, **problem)
    # A gradient that is not needed is a tensor without elements: operators return no optional tensors.
    results = [_like(x, found[i]) if needs[i] else x.new_empty(0) for i, x in enumerate((q, k, v))]
    for name in DIFFERENTIABLE:
        results.append(_like(arrays[name], found[3][name]) if name in wanted else q.new_empty(0))
    return tuple(results)


def _like(x: Tensor, gradient: Tensor) -> Tensor:
    """A gradient with the dtype and shape of its tensor, contiguous."""
    return gradient.reshape(x.shape).to(x.dtype).contiguous()


@_backward.register_fake
def _(d_out, d_lse, out, lse, needs, q, k, v, pattern, scores, scale, layout, query_position, key_position, threads,
      kernel, dropout, seed, safe_rows, mask, bias, slopes, table, sinks, lengths, documents):
    results = [x.new_empty(x.shape) if need else x.new_empty(0) for x, need in zip((q, k, v), needs)]
    for x, need in zip((slopes, table, bias, sinks), needs[3:]):
        results.append(x.new_empty(x.shape) if need else q.new_empty(0))
    return tuple(results)


# The arguments of the forward operator, by place.
_TENSORS = (0, 1, 2, 12, 14, 15, 16, 17, 18, 19, 20)
_ARRAYS = (16, 17, 15, 18)
_ARGUMENTS = 21


def _setup_context(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *(inputs[i] for i in _TENSORS))
    ctx.settings = tuple(None if i in _TENSORS else x for i, x in enumerate(inputs))


def _differentiate(ctx, d_out, d_lse):
    out, lse, *tensors = ctx.saved_tensors
    arguments = list(ctx.settings)
    for i, tensor in zip(_TENSORS, tensors):
        arguments[i] = tensor
    if d_out is None:
        d_out = torch.zeros_like(out)
    places = (0, 1, 2) + _ARRAYS
    needs = [ctx.needs_input_grad[i] for i in places]
    found = _backward(d_out, d_lse, out, lse, needs, *arguments)
    gradients = [None] * _ARGUMENTS
    for i, need, gradient in zip(places, needs, found):
        gradients[i] = gradient if need else None
    return tuple(gradients)


_forward.register_autograd(_differentiate, setup_context=_setup_context)


def _refuse_second(ctx, *gradients):
    raise ringattn.UnsupportedError("a gradient of a gradient of ringattn::attention is asked for: second derivatives are "
                                    "not computed; leave out create_graph=True")


_backward.register_autograd(_refuse_second)


def _refuse_transforms(names, tensors) -> None:
    """Refuse what PyTorch would compute without the derivatives of this operator, or not at all."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    if interpreter is not None and interpreter.key() == torch._C._functorch.TransformType.Grad:
        raise ringattn.UnsupportedError("the call is inside of a gradient transform of torch.func (grad, vjp, jacrev): use "
                                        "backward() or torch.autograd.grad")
    if forward_ad._current_level >= 0:
        for name, x in zip(names, tensors):
            if x is not None and forward_ad.unpack_dual(x).tangent is not None:
                raise ringattn.UnsupportedError(f"{name} has a tangent of forward-mode differentiation (jvp): only "
                                                "backward() and torch.autograd.grad are supported")


def check_devices(tensors) -> None:
    """Refuse tensors that are not on the CPU or are nested: pairs of a name and a tensor or None."""
    for name, x in tensors:
        if x is not None and x.is_nested:
            raise ringattn.UnsupportedError(f"{name} is a nested tensor: pack the sequences into one and give documents=, "
                                            "or use flash_attn_varlen_func")
        if x is not None and x.device.type != "cpu":
            raise ringattn.UnsupportedError(
                f"{name} is on device {str(x.device)!r}: ringattn.torch works on CPU tensors; use {name}.cpu()")


def _plain(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether nothing of PyTorch watches the call: no compiler, no transform, no dispatch mode, no tensor subclass."""
    return (type(q) is Tensor and type(k) is Tensor and type(v) is Tensor and not torch.compiler.is_compiling()
            and torch._C._len_torch_dispatch_stack() == 0 and forward_ad._current_level < 0
            and torch._C._functorch.peek_interpreter_stack() is None)


def call(q, k, v, pattern="full", scores=None, scale=None, layout="bshd", query_position=None, key_position=0, threads=0,
         kernel=None, dropout=0.0, seed=None, safe_rows=False, mask=None, bias=None, slopes=None, table=None, sinks=None,
         lengths=None, documents=None, return_lse=True):
    """Output and log-sum-exp, by the operator or directly. Without return_lse the log-sum-exp may be None."""
    if not (q.is_cpu and k.is_cpu and v.is_cpu) or q.is_nested or k.is_nested or v.is_nested:
        check_devices((("q", q), ("k", k), ("v", v)))
    arrays = (mask, bias, slopes, table, sinks, lengths, documents)
    graph = q.requires_grad or k.requires_grad or v.requires_grad
    if arrays != (None,) * 7:
        check_devices(zip(_ARRAY_NAMES, arrays))
        graph = graph or any(x is not None and x.requires_grad for x in arrays)
    plain = _plain(q, k, v)
    if not plain and not torch.compiler.is_compiling():
        _refuse_transforms(("q", "k", "v", *_ARRAY_NAMES), (q, k, v, *arrays))
    if (graph and torch.is_grad_enabled()) or q.dtype == torch.float64 or not plain:
        return _forward(q, k, v, pattern, scores, scale, layout, query_position, key_position, threads, kernel, dropout,
                        seed, safe_rows, *arrays)
    if safe_rows or dropout:
        problem = _problem(q, k, pattern, scores, scale, layout, query_position, key_position, threads, kernel, dropout,
                           seed, safe_rows, *arrays)
        result = ringattn.attention(q, k, v, return_lse=return_lse, **problem)
    else:
        result = ringattn.attention(q, k, v, pattern=pattern, scores=scores, scale=scale, layout=layout,
                                    return_lse=return_lse, query_position=query_position, key_position=key_position,
                                    threads=threads, kernel=kernel, mask=mask, bias=bias, slopes=slopes, table=table,
                                    sinks=sinks, lengths=lengths, documents=documents)
    return result if return_lse else (result, None)


def attention(q: Tensor, k: Tensor, v: Tensor, *, pattern: str = "full", scores: Optional[str] = None,
              scale: Optional[float] = None, layout: str = "bshd", return_lse: bool = False, threads: int = 0,
              query_position: Optional[int] = None, key_position: int = 0, kernel: Optional[str] = None,
              mask: Optional[Tensor] = None, bias: Optional[Tensor] = None, slopes: Optional[Tensor] = None,
              table: Optional[Tensor] = None, sinks: Optional[Tensor] = None, lengths: Optional[Tensor] = None,
              documents: Optional[Tensor] = None):
    """ringattn.attention with autograd.

    Gradients reach q, k, v, slopes, table, bias and sinks, from the output and from the log-sum-exp. float64 tensors
    are computed by the reference: slow, and meant for torch.autograd.gradcheck.

        >>> import torch, ringattn.torch
        >>> q = torch.randn(2, 5, 4, 8)
        >>> out, lse = ringattn.torch.attention(q, q, q, pattern="window:2,0", scores="softcap:30", return_lse=True)
        >>> out.shape, lse.shape
        (torch.Size([2, 5, 4, 8]), torch.Size([2, 4, 5]))
    """
    out, lse = call(q, k, v, pattern, scores, scale, layout, query_position, key_position, threads, kernel, 0.0, None,
                    False, mask, bias, slopes, table, sinks, lengths, documents, return_lse)
    return (out, lse) if return_lse else out
