# SPDX-License-Identifier: Apache-2.0
"""The mask function of transformers: a description of what queries see, in place of a mask.

transformers builds a mask from small functions of (batch, head, query, key). read() finds out which ones, and says the
same as a pattern of the library. A function that it does not know is evaluated to a bool mask, as for PyTorch's own
attention, and so is every mask under torch.compile.
"""
from typing import Callable, List, NamedTuple, Optional

import torch
from torch import Tensor
from transformers import masking_utils

# A side of a window that reaches everywhere.
_UNLIMITED = 2**40


class Pattern(NamedTuple):
    """What one batch element sees, or all of them."""

    text: str
    query_position: Optional[int]
    key_position: int
    documents: Optional[Tensor]


class Mask(Tensor):
    """A bool mask [batch, 1, queries, keys] that has a description and no elements.

    Shape, dtype and device can be asked for. Every other operation works on the mask that dense() makes.

        patterns   one for all batch elements, or one for each
        lengths    int64 [batch, 2], the valid keys, or None
        keys       bool [batch, 1, 1, keys], where valid keys have gaps, or None
    """

    patterns: List[Pattern]
    lengths: Optional[Tensor]
    keys: Optional[Tensor]
    dense: Callable[[], Tensor]

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function not in _QUESTIONS:
            args = [x.dense() if isinstance(x, Mask) else x for x in args]
            kwargs = {name: x.dense() if isinstance(x, Mask) else x for name, x in kwargs.items()}
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)


_QUESTIONS = {getattr(Tensor, name).__get__
              for name in ("shape", "ndim", "dtype", "device", "is_cpu", "layout", "requires_grad")}
_QUESTIONS |= {Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point}


class _Terms:
    """What the functions of a mask say; one number or tensor for each."""

    def __init__(self):
        self.causal = False
        self.left = self.right = None
        self.chunk = self.starts = self.documents = self.blocks = None


def _parts(function) -> tuple:
    """The name of the function of masking_utils that made a mask function, and the variables it holds."""
    if getattr(function, "__module__", None) != masking_utils.__name__:
        return None, {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    return function.__qualname__.split(".")[0], {name: cell.cell_contents for name, cell in cells}


def read(function, terms: _Terms) -> bool:
    """Add what a mask function says to the terms. False: it is not known, or no pattern says it."""
    name, held = _parts(function)
    if name == "causal_mask_function":
        terms.causal = True
    elif name == "bidirectional_mask_function":
        pass
    elif name == "and_masks":
        return all(read(part, terms) for part in held["mask_functions"])
    elif name == "sliding_window_overlay":
        return _narrow(terms, held["sliding_window"] - 1, None)
    elif name == "sliding_window_bidirectional_overlay":
        return _narrow(terms, held["sliding_window"], held["sliding_window"])
    elif name == "chunked_overlay":
        return _set(terms, chunk=held["chunk_size"], starts=held["left_padding"])
    elif name == "packed_sequence_mask_function":
        return _set(terms, documents=held["packed_sequence_mask"])
    elif name == "remap_positions_for_packed_sequence":
        # Inside of a document positions differ by as much as indices do, but chunks begin anew.
        return read(held["mask_function"], terms) and terms.chunk is None and terms.blocks is None
    elif name == "or_masks":
        return _read_prefix(held["mask_functions"], terms)
    else:
        return False
    return True


def _set(terms: _Terms, **values) -> bool:
    """Set what is not set yet."""
    for name, value in values.items():
        if getattr(terms, name) is not None:
            return False
        setattr(terms, name, value)
    return True


def _narrow(terms: _Terms, left, right) -> bool:
    terms.left = left if terms.left is None else min(left, terms.left)
    if right is not None:
        terms.right = right if terms.right is None else min(right, terms.right)
    return True


def _read_prefix(functions, terms: _Terms) -> bool:
    """Causal, or in the same block of tokens: a prefix if the one block begins at position 0."""
    if len(functions) != 2 or _parts(functions[0])[0] != "causal_mask_function":
        return False
    name, held = _parts(functions[1])
    terms.causal = True
    return name == "blockwise_overlay" and _set(terms, blocks=held["block_sequence_ids"])


def _prefixes(blocks: Tensor) -> Optional[list]:
    """The length of the prefix of each batch element, or None if blocks are anything else."""
    inside = blocks >= 0
    counts = inside.sum(1)
    begins = inside.long().cummin(1).values.sum(1)
    if not torch.equal(counts, begins) or not (blocks[inside] == 0).all():
        return None
    return counts.tolist()


def _texts(terms: _Terms, prefixes: Optional[list], batch: int) -> list:
    words = []
    if terms.left is not None or terms.right is not None:
        left, right = (_UNLIMITED if side is None else side for side in (terms.left, terms.right))
        words.append(f"window:{left},{0 if terms.causal and not prefixes else right}")
    if terms.chunk is not None:
        words.append(f"chunks:{terms.chunk}")
    if terms.documents is not None:
        words.append("documents")
    if prefixes:
        return ["+".join([f"causal:prefix={prefix}", *words]) for prefix in prefixes]
    if terms.causal:
        words.insert(0, "causal")
    return ["+".join(words) or "full"] * batch


def _documents(numbers: Tensor) -> Tensor:
    """The lengths of runs of one number."""
    return torch.unique_consecutive(numbers, return_counts=True)[1]


def _patterns(terms: _Terms, batch: int, q_offset: int, kv_offset: int) -> Optional[List[Pattern]]:
    """A pattern for each batch element, or one if they are alike. None: no pattern says it."""
    prefixes = None if terms.blocks is None else _prefixes(terms.blocks.expand(batch, -1))
    if terms.blocks is not None and prefixes is None:
        return None
    # Chunks count from position 0 in the library, and from the first valid key in transformers.
    shifts = [0] * batch if terms.starts is None else (-terms.starts % terms.chunk).tolist()
    documents = [None] * batch
    if terms.documents is not None:
        documents = [_documents(numbers) for numbers in terms.documents.expand(batch, -1)]
    patterns = [Pattern(text, None if parts is not None else q_offset + shift, kv_offset + shift, parts)
                for text, shift, parts in zip(_texts(terms, prefixes, batch), shifts, documents)]
    alike = all(p[:3] == patterns[0][:3] and _equal(p.documents, patterns[0].documents) for p in patterns)
    return patterns[:1] if alike else patterns


def _equal(a: Optional[Tensor], b: Optional[Tensor]) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def _padding(valid: Optional[Tensor], batch: int, kv_length: int, kv_offset: int):
    """The lengths or the keys of a Mask, from the padding mask [batch, positions] of a model."""
    if valid is None:
        return None, None
    valid = valid[:, kv_offset : kv_offset + kv_length].to(torch.bool)
    missing = kv_length - valid.shape[1]
    if missing == 0 and valid.all():
        return None, None
    valid = torch.nn.functional.pad(valid, (0, missing)).expand(batch, -1)
    counts = valid.sum(1)
    begins = valid.long().argmax(1)
    ends = kv_length - valid.flip(1).long().argmax(1)
    ends = torch.where(counts == 0, begins, ends)
    if torch.equal(ends - begins, counts):
        return torch.stack((begins, ends), 1), None
    return None, valid[:, None, None]


def make_mask(batch_size: int, q_length: int, kv_length: int, q_offset=0, kv_offset=0,
              mask_function: Callable = masking_utils.causal_mask_function, attention_mask: Optional[Tensor] = None,
              **options) -> Tensor:
    """A Mask, or a bool tensor for what no pattern says."""
    options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)

    def dense() -> Tensor:
        return masking_utils.sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function,
                                       attention_mask, **options)

    terms = _Terms()
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or not read(mask_function, terms):
        return dense()
    kv_offset = int(kv_offset)
    patterns = _patterns(terms, batch_size, int(q_offset), kv_offset)
    if patterns is None:
        return dense()
    nothing = torch.ones((), dtype=torch.bool, device=options.get("device"))
    mask = nothing.expand(batch_size, 1, q_length, kv_length).as_subclass(Mask)
    mask.patterns, mask.dense = patterns, dense
    mask.lengths, mask.keys = _padding(attention_mask, batch_size, kv_length, kv_offset)
    return mask
