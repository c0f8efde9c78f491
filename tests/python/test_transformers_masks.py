# SPDX-License-Identifier: Apache-2.0
"""The mask and attention functions of ringattn.transformers: descriptions against masks, and refusals."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ringattn
from ringattn.transformers import forward, masks
from transformers import masking_utils

# Tokens of the first four positions are in one block.
PREFIX = masking_utils.or_masks(masking_utils.causal_mask_function,
                                masking_utils.blockwise_overlay(-(torch.arange(30) >= 4).long().expand(3, -1)))
FUNCTIONS = {
    "causal": masking_utils.causal_mask_function,
    "both": masking_utils.bidirectional_mask_function,
    "window": masking_utils.sliding_window_causal_mask_function(3),
    "window of both sides": masking_utils.sliding_window_bidirectional_mask_function(2),
    "chunks": masking_utils.chunked_causal_mask_function(4, torch.tensor([0, 3, 5])),
    "prefix": PREFIX,
    "prefix in a window": masking_utils.and_masks(PREFIX, masking_utils.sliding_window_overlay(3)),
}


# Valid positions of three batch elements.
PADDING = {
    "left": torch.arange(16) >= torch.tensor([[0], [3], [6]]),
    "right": torch.arange(16) < torch.tensor([[16], [13], [10]]),
    "holes": torch.arange(16) != 5,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows, keys, q_offset, kv_offset", [(9, 9, 0, 0), (1, 9, 8, 0), (4, 9, 5, 0), (4, 7, 9, 6),
                                                             (3, 12, 4, 0)])
@pytest.mark.parametrize("padding", [None, *PADDING])
def test_descriptions(name, rows, keys, q_offset, kv_offset, padding):
    """A description sees what the mask sees that transformers makes."""
    valid = None if padding is None else PADDING[padding].expand(3, -1).clone()
    if padding == "holes":
        valid[1] = torch.arange(16) != 7
    mask = masks.make_mask(3, rows, keys, q_offset, kv_offset, FUNCTIONS[name],
                           valid)
    assert type(mask) is masks.Mask and mask.shape == (3, 1, rows, keys)
    torch.manual_seed(5)
    q, k, v = torch.randn(3, 4, rows, 8), torch.randn(3, 2, keys, 8), torch.randn(3, 2, keys, 8)
    found, _ = forward.attention_forward(None, q, k, v, mask)
    expected, _ = forward.attention_forward(None, q, k, v, mask.dense())
    assert torch.allclose(found, expected, atol=2e-6)


def test_unknown_functions_make_a_mask():
    mask = masks.make_mask(2, 5, 5, mask_function=lambda b, h, q, k: (q + k) % 2 == 0)
    assert type(mask) is torch.Tensor
    assert torch.equal(mask[0, 0], (torch.arange(5)[:, None] + torch.arange(5)) % 2 == 0)


def test_several_blocks_make_a_mask():
    """Two images, each of which sees itself in both directions: no pattern says that."""
    blocks = torch.tensor([[-1, 0, 0, -1, 1, 1, 1]])
    function = masking_utils.or_masks(masking_utils.causal_mask_function, masking_utils.blockwise_overlay(blocks))
    mask = masks.make_mask(1, 7, 7, mask_function=function)
    assert type(mask) is torch.Tensor and torch.equal(mask, masking_utils.sdpa_mask(
        1, 7, 7, mask_function=function, allow_is_causal_skip=False))
    assert mask[0, 0, 4, 6] and not mask[0, 0, 3, 4]


def test_operations_on_a_description():
    mask = masks.make_mask(2, 5, 7, 2)
    expected = torch.arange(7) <= torch.arange(5)[:, None] + 2
    assert mask.dtype == torch.bool and mask.dim() == 4 and mask.size(-1) == 7 and mask.is_cpu
    assert torch.equal(mask[..., :6], expected[None, None, :, :6].expand(2, 1, -1, -1))
    assert torch.equal((~mask)[1, 0], ~expected) and type(~mask) is torch.Tensor
    assert torch.equal(torch.where(mask, 1.0, 0.0)[0, 0], expected.float())


def test_dropout_comes_from_the_generator():
    q = torch.randn(1, 2, 9, 8)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(forward.attention_forward(None, q, q, q, None, dropout=0.5)[0])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_refusals():
    q = torch.zeros(1, 2, 3, 8)
    with pytest.raises(ringattn.UnsupportedError, match="output_attentions is True"):
        forward.attention_forward(None, q, q, q, None, output_attentions=True)
    with pytest.raises(ringattn.UnsupportedError, match="head_mask is given"):
        forward.attention_forward(None, q, q, q, None, head_mask=q)
    with pytest.raises(ringattn.UnsupportedError, match="cache is a object"):
        forward.attention_forward(None, q, q, q, None, cache=object())
    with pytest.raises(ringattn.ArgumentError, match=r"attention_mask has shape \(1, 3\)"):
        forward.attention_forward(None, q, q, q, torch.ones(1, 3))
    with pytest.raises(ringattn.UnsupportedError, match="q is on device 'meta'"):
        forward.attention_forward(None, q.to("meta"), q, q, None)
