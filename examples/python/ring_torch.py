# SPDX-License-Identifier: Apache-2.0
"""A training step of attention over processes, without MPI: torchrun --nproc-per-node 2 ring_torch.py

Each process has its own rows of the sequence. Gradients of weights are added up over the processes, as always.
"""
import torch
import torch.distributed as dist
from torch import nn

import ringattn.torch

LENGTH, HEADS, DIM = 1000, 4, 32


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)  # the same weights and the same text everywhere
    project, unite = nn.Linear(HEADS * DIM, 3 * HEADS * DIM), nn.Linear(HEADS * DIM, HEADS * DIM)
    weights = [*project.parameters(), *unite.parameters()]
    text = torch.randn(1, LENGTH, HEADS * DIM)

    mine = ringattn.torch.split(text, order="zigzag")
    q, k, v = project(mine).unflatten(-1, (3, HEADS, DIM)).unbind(2)
    out = ringattn.torch.ring_attention(q, k, v, pattern="causal", order="zigzag")
    loss = unite(out.flatten(-2)).square().sum() / LENGTH
    loss.backward()
    for x in (loss.detach(), *(weight.grad for weight in weights)):
        dist.all_reduce(x)

    # The same in one process.
    gradients = [weight.grad.clone() for weight in weights]
    for weight in weights:
        weight.grad = None
    q, k, v = project(text).unflatten(-1, (3, HEADS, DIM)).unbind(2)
    whole = unite(ringattn.torch.attention(q, k, v, pattern="causal").flatten(-2)).square().sum() / LENGTH
    whole.backward()
    worst = max((a - b.grad).abs().max().item() for a, b in zip(gradients, weights))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} over {dist.get_world_size()} processes, {whole.item():.6f} in one; "
              f"gradients differ by {worst:.1e} at most")
    assert worst < 1e-4
    dist.destroy_process_group()


main()
