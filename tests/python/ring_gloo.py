# SPDX-License-Identifier: Apache-2.0
"""What each process of test_torch_ring.py does: rings over gloo groups, against one process."""
import itertools
import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ringattn.torch
from ringattn.torch import ring_attention
from ringattn.torch.distributed import ring_of

STRATEGIES = ("ring", "allgather", "broadcast")
ORDERS = ("contiguous", "zigzag", "striped")


def problem(length, dtype=torch.float32):
    torch.manual_seed(length)
    q, d_out = (torch.randn(2, length, 4, 16).to(dtype) for _ in range(2))
    k, v = (torch.randn(2, length, 2, 16).to(dtype) for _ in range(2))
    return q, k, v, d_out


def whole_gradients(arrays, d_out, d_lse=None, **keywords):
    """Output and gradients of one process; arrays are q, k, v and a dictionary of others."""
    *tensors, others = arrays
    tensors = [x.clone().requires_grad_() for x in tensors]
    others = {name: x.clone().requires_grad_() for name, x in others.items()}
    out, lse = ringattn.torch.attention(*tensors, return_lse=True, **others, **keywords)
    torch.autograd.backward([out, lse], [d_out, torch.zeros_like(lse) if d_lse is None else d_lse])
    return out.detach(), [x.grad for x in tensors], {name: x.grad for name, x in others.items()}


def compare(group, length, strategy, order, dtype=torch.float32, bound=3e-5, others=None, **keywords):
    """A ring forward and backward against one process."""
    def split(x):
        return ringattn.torch.split(x, group, order=order).clone()

    q, k, v, d_out = problem(length, dtype)
    others = others or {}
    expected, gradients, other_gradients = whole_gradients((q, k, v, others), d_out, **keywords)
    parts = [split(x).requires_grad_() for x in (q, k, v)]
    arrays = {name: x.clone().requires_grad_() for name, x in others.items()}
    out = ring_attention(*parts, group, strategy=strategy, order=order, **arrays, **keywords)
    out.backward(split(d_out))
    found = ringattn.torch.gather(out, group, order=order)
    if strategy == "broadcast":
        assert torch.equal(found, expected), "broadcast has the bits of one process"
    assert (found - expected).abs().max() < bound
    for part, gradient in zip(parts, gradients):
        assert (ringattn.torch.gather(part.grad, group, order=order) - gradient).abs().max() < bound
    for name, gradient in other_gradients.items():
        assert (arrays[name].grad - gradient).abs().max() < bound
    for run in ring_of(group).stats:
        assert (run.hops, run.bytes_sent) == (run.planned_hops, run.planned_bytes_sent)


def compare_all(group):
    for strategy, order in itertools.product(STRATEGIES, ORDERS):
        compare(group, 333, strategy, order, pattern="causal")
    compare(group, 65, "ring", "zigzag", pattern="window:20,3")
    compare(group, 1, "ring", "contiguous")
    compare(group, 200, "ring", "striped", torch.bfloat16, 0.1, pattern="causal", scores="softcap:20")
    compare(group, 130, "ring", "zigzag", others=dict(sinks=torch.randn(4)), pattern="causal")


def expect(kind, words, function):
    try:
        function()
    except kind as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError(f"{kind.__name__} was expected: {words}")


def mistakes(rank):
    q, k, v, _ = problem(256)
    parts = [ringattn.torch.split(x) for x in (q, k, v)]
    expect(ringattn.ArgumentError, "ranks [1] need gradients and the others do not",
           lambda: ring_attention(parts[0].clone().requires_grad_(rank == 1), *parts[1:]))
    expect(ringattn.UnsupportedError, "q is on device 'meta'", lambda: ring_attention(parts[0].to("meta"), *parts[1:]))
    expect(ringattn.ArgumentError, "pattern", lambda: ring_attention(*parts, pattern="causal" if rank else "full"))
    assert ring_attention(*parts).shape == parts[0].shape  # a new ring is made


def no_graph(rank):
    """Without gradients, through a ring made by hand, with NumPy arrays."""
    q, k, v, _ = problem(256)
    with ringattn.ring(dist.group.WORLD) as ring:
        parts = [ring.split(x).numpy() for x in (q, k, v)]
        out = ring.attention(*parts, pattern="causal", strategy="broadcast")
        assert (ring.gather(out) == ringattn.attention(q.numpy(), k.numpy(), v.numpy(), pattern="causal")).all()


def lose(rank, last):
    """The last process is killed in the middle of its runs."""
    q, k, v, _ = problem(1000)
    parts = [ringattn.torch.split(x) for x in (q, k, v)]
    if rank == last:
        threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGKILL)), daemon=True).start()
    for _ in range(100_000):
        ring_attention(*parts, timeout=20)


def work(rank, ranks, folder, results):
    outcome = None
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=ranks,
                                timeout=timedelta(seconds=60))
        for count in range(2, ranks + 1):
            group = dist.new_group(list(range(count)))
            if rank < count:
                compare_all(group)
        mistakes(rank)
        no_graph(rank)
        lose(rank, ranks - 1)
    except ringattn.PeerError as problem:
        outcome = str(problem)
    except BaseException as problem:
        import traceback

        outcome = f"{type(problem).__name__}\n{traceback.format_exc()}"
    results.put((rank, outcome))
    results.close()
    results.join_thread()
    os._exit(0)  # a gloo group that has lost a process cannot be taken down in order
