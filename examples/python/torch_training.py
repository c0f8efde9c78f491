# SPDX-License-Identifier: Apache-2.0
"""Train a small language model with a causal window on made-up text, with one of PyTorch's optimizers.

The text repeats its last eight letters over and over, so attention can learn it: the loss falls from ln 16 to near 0.
"""
import torch
from torch import nn

import ringattn.torch

LETTERS, LENGTH, PERIOD, WIDTH = 16, 64, 8, 64


class Block(nn.Module):
    """Attention over the last 16 positions and a feed-forward layer, both with residuals."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = ringattn.torch.MultiheadAttention(WIDTH, 4, batch_first=True, pattern="window:15,0",
                                                           rotary=10000.0)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))[0]
        return x + self.feed(self.norms[1](x))


def main():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(LETTERS, WIDTH), Block(), Block(), nn.Linear(WIDTH, LETTERS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(61):
        text = torch.randint(LETTERS, (16, PERIOD)).repeat(1, LENGTH // PERIOD)
        logits = model(text[:, :-1])[:, PERIOD:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, PERIOD + 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3}: loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    assert main() < 1.0
