# SPDX-License-Identifier: Apache-2.0
"""ringattn beside PyTorch over two processes of one machine, on the CPU, over gloo: forward passes, interleaved.

    build/torch/bin/python bench/peers_ring.py [--ranks R] [--rounds N] [--threads T] [--without NAME,...]

Contenders: the ring of ringattn; PyTorch's context parallel of scaled_dot_product_attention and of FlexAttention; and an
all-gather of keys and values by hand, with scaled_dot_product_attention of a rank's own rows. One that does not run is
printed with its message. Times are of the slowest rank: the least of the rounds. Errors are the largest difference from
one process. What cuts tensors into rows of ranks is not timed.
"""
import argparse
import contextlib
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional

CASES = (  # name, pattern, tokens, heads, dim
    ("full, 2048 tokens", "full", 2048, 8, 64),
    ("causal, 2048 tokens", "causal", 2048, 8, 64),
    ("causal, 8192 tokens", "causal", 8192, 8, 64),
)


def ours(q, k, v, causal, mesh):
    """ringattn, each rank with rows of zigzag order."""
    import ringattn.torch

    order = "zigzag" if causal else "contiguous"
    parts = [ringattn.torch.split(x, order=order, axis=2).contiguous() for x in (q, k, v)]
    keywords = dict(pattern="causal" if causal else "full", layout="bhsd", order=order, threads=torch.get_num_threads())
    rows = torch.from_numpy(ringattn.rows(q.shape[2], dist.get_world_size(), dist.get_rank(), order))
    return rows, lambda: ringattn.torch.ring_attention(*parts, **keywords)


def by_hand(q, k, v, causal, mesh):
    """An all-gather and scaled_dot_product_attention; a bool mask where it is causal."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    count = q.shape[2] // ranks
    rows = torch.arange(rank * count, (rank + 1) * count)
    mine = [x[:, :, rows].contiguous() for x in (q, k, v)]
    mask = rows[:, None] >= torch.arange(q.shape[2]) if causal else None

    def run():
        whole = []
        for x in mine[1:]:
            parts = [torch.empty_like(x) for _ in range(ranks)]
            dist.all_gather(parts, x)
            whole.append(torch.cat(parts, 2))
        return functional.scaled_dot_product_attention(mine[0], *whole, attn_mask=mask)

    return rows, run


def context_parallel_sdpa(q, k, v, causal, mesh):
    """PyTorch's context parallel of scaled_dot_product_attention; the context cuts the buffers into rows of ranks."""
    from torch.distributed.tensor.experimental import context_parallel

    buffers = [x.clone() for x in (q, k, v)]
    positions = torch.arange(q.shape[2])

    def cut():
        return context_parallel(mesh, buffers=[*buffers, positions], buffer_seq_dims=[2, 2, 2, 0])

    with cut():
        rows = positions.clone()
    return rows, lambda: functional.scaled_dot_product_attention(*buffers, is_causal=causal), cut


def context_parallel_flex(q, k, v, causal, mesh):
    """PyTorch's context parallel of FlexAttention, compiled."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as experimental
    from torch.distributed.tensor.parallel import parallelize_module
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)

    class Attention(torch.nn.Module):
        def forward(self, q, k, v, block_mask=None):
            return compiled(q, k, v, block_mask=block_mask)

    length, ranks, rank = q.shape[2], dist.get_world_size(), dist.get_rank()

    def sees(batch, head, i, j):
        return i >= j if causal else i >= 0

    mask = create_block_mask(sees, 1, 1, length, length, device="cpu")
    kind = experimental._ContextParallel
    module = parallelize_module(Attention(), mesh, kind(seq_dim=2, attention_type=kind.AttentionType.FLEX))
    *parts, mask = experimental._context_parallel_shard(mesh, [q.clone(), k.clone(), v.clone(), mask], [2, 2, 2, 2])
    rows = torch.arange(rank * length // ranks, (rank + 1) * length // ranks)
    return rows, lambda: module(*parts, block_mask=mask)


CONTENDERS = {
    "ringattn": ours,
    "all-gather by hand": by_hand,
    "context parallel SDPA": context_parallel_sdpa,
    "context parallel FlexAttention": context_parallel_flex,
}


def slowest(seconds: float) -> float:
    worst = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item()


def prepare(mesh, causal, q, k, v, expected, names) -> tuple:
    """Contenders that run, with their errors; messages of those that do not."""
    able, messages, errors = {}, {}, {}
    for name in names:
        make = CONTENDERS[name]
        try:
            rows, run, *around = make(q, k, v, causal, mesh)
            around = around[0] if around else contextlib.nullcontext
            with around():
                out = run()
            errors[name] = slowest((out - expected[:, :, rows]).abs().max().item())
            able[name] = run, around
        except (NotImplementedError, RuntimeError, AttributeError, ImportError) as problem:
            messages[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
    return able, messages, errors


def measure(able: dict, rounds: int) -> dict:
    least = dict.fromkeys(able, float("inf"))
    for _ in range(rounds):
        for name, (run, around) in able.items():
            with around():
                dist.barrier()
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
            least[name] = min(least[name], slowest(seconds))
    return least


def work(rounds: int, names: list) -> None:
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    told = {}
    say = print if dist.get_rank() == 0 else lambda *_, **__: None
    say(f"{dist.get_world_size()} processes of {torch.get_num_threads()} threads, PyTorch {torch.__version__}\n")
    say("| problem | " + " | ".join(names) + " |")
    say("|---" * (1 + len(names)) + "|")
    for name, pattern, length, heads, dim in CASES:
        torch.manual_seed(1)
        q, k, v = (torch.randn(1, heads, length, dim) for _ in range(3))
        expected = functional.scaled_dot_product_attention(q, k, v, is_causal=pattern == "causal")
        with torch.no_grad():
            able, messages, errors = prepare(mesh, pattern == "causal", q, k, v, expected, names)
            least = measure(able, rounds)
        told.update(messages)
        say(f"| {name} | " + " | ".join(f"{1e3 * least[c]:.1f} ms ({errors[c]:.0e})" if c in least else "does not run"
                                       for c in names) + " |", flush=True)
    for name, message in told.items():
        say(f"\n{name} does not run: {message}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without", default="", help="names of contenders that begin with these, as a list with commas")
    asked = parser.parse_args()
    if "RANK" in os.environ:
        torch.set_num_threads(asked.threads)
        left_out = tuple(filter(None, asked.without.split(",")))
        work(asked.rounds, [name for name in CONTENDERS if not (left_out and name.startswith(left_out))])
        return
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(asked.ranks)]
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    sys.exit(subprocess.call([*command, *sys.argv]))


main()
